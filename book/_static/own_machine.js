// The button for the Jupyter on this machine belongs to pages that were built on it: elsewhere it would open nothing.
document.addEventListener("DOMContentLoaded", () => {
  if (["", "localhost", "127.0.0.1", "[::1]"].includes(location.hostname)) return;
  for (const link of document.querySelectorAll('.dropdown-launch-buttons a[href^="http://127.0.0.1:"]')) {
    const menu = link.closest(".dropdown-launch-buttons");
    link.closest("li").remove();
    if (!menu.querySelector("a")) menu.remove();
  }
});
