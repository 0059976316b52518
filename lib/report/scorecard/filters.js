// Shows the claims that match the chosen paper, verdict and chapter; the choice stands in the page's address.
document.addEventListener("DOMContentLoaded", () => {
  const form = document.querySelector(".scorecard-filters");
  const claims = [...document.querySelectorAll("table.scorecard tbody, .scorecard-waiting li")];
  const chosen = new URLSearchParams(location.search);
  const matches = (claim) =>
    [...form.elements].filter((one) => one.value && one.name).every((one) =>
      one.name === "chapter"
        ? (claim.dataset.chapters ?? "").split(" ").includes(one.value)
        : claim.dataset[one.name] === one.value);
  const apply = () => {
    claims.forEach((claim) => { claim.hidden = !matches(claim); });
    document.querySelectorAll(".scorecard-paper").forEach((paper) => {
      paper.hidden = !claims.some((claim) => paper.contains(claim) && !claim.hidden);
    });
    document.querySelectorAll(".scorecard-waiting").forEach((list) => {
      list.hidden = !claims.some((claim) => list.contains(claim) && !claim.hidden);
    });
    form.querySelector("output").textContent =
      `${claims.filter((claim) => !claim.hidden).length} of ${claims.length} claims`;
  };
  const showLinked = () => {
    const target = location.hash && document.getElementById(decodeURIComponent(location.hash.slice(1)));
    if (target && target.closest("[hidden]")) { form.reset(); apply(); target.scrollIntoView(); }
  };
  for (const one of form.querySelectorAll("select"))
    if ([...one.options].some((option) => option.value === chosen.get(one.name))) one.value = chosen.get(one.name);
  form.hidden = false;
  form.addEventListener("change", () => {
    const choice = new URLSearchParams([...new FormData(form)].filter(([, value]) => value)).toString();
    history.replaceState({}, "", choice ? `?${choice}` : location.pathname);
    apply();
  });
  window.addEventListener("hashchange", showLinked);
  apply();
  showLinked();
});
