// A table that is wider than the page scrolls sideways. Make that reachable by keyboard, and say what scrolls.
function reachTables() {
  for (const box of document.querySelectorAll(".pst-scrollable-table-container")) {
    const scrolls = box.scrollWidth > box.clientWidth;
    if (scrolls && !box.hasAttribute("tabindex")) {
      box.tabIndex = 0;
      box.setAttribute("role", "region");
      box.setAttribute("aria-label", "Table, scrolls sideways");
    } else if (!scrolls && box.getAttribute("role") === "region") {
      for (const name of ["tabindex", "role", "aria-label"]) box.removeAttribute(name);
    }
  }
}

window.addEventListener("load", () => {
  reachTables();
  // Formulas are typeset after the page has loaded, and make tables wider.
  const watcher = new ResizeObserver(reachTables);
  for (const table of document.querySelectorAll(".pst-scrollable-table-container, .pst-scrollable-table-container table")) {
    watcher.observe(table);
  }
});
