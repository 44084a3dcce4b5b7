"use strict";
(() => {
  const cases = [...document.querySelectorAll("#cases > article")];
  const buttons = [...document.querySelectorAll("#toolbar [data-filter]")];
  const search = document.querySelector("#search");
  const words = new Map(cases.map((found) => [found, found.textContent.toLowerCase()]));
  let filter = "all";

  function show() {
    const wanted = search.value.trim().toLowerCase();
    let shown = 0;
    for (const found of cases) {
      const fits = found.dataset.kinds.split(" ").includes(filter) && words.get(found).includes(wanted);
      found.hidden = !fits;
      shown += fits ? 1 : 0;
    }
    for (const button of buttons) button.setAttribute("aria-pressed", String(button.dataset.filter === filter));
    document.querySelector("#count").textContent = `${shown} of ${cases.length} cases`;
    document.querySelector("#nothing").hidden = shown > 0;
  }

  for (const button of buttons) {
    button.addEventListener("click", () => {
      filter = button.dataset.filter;
      show();
    });
  }
  search.addEventListener("input", show);
  document.querySelector("#reset").addEventListener("click", () => {
    filter = "all";
    search.value = "";
    show();
    search.focus();
  });
  show();
})();
