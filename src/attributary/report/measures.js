// The switch between measures: it changes the table, the map, and whatever is of one measure alone. It sticks to the top,
// below the banner that warns, if there is one.
function stickBelow(banner) {
  const root = document.documentElement;
  if (banner) new ResizeObserver(() => root.style.setProperty("--banner", `${banner.offsetHeight}px`)).observe(banner);
}

function switchMeasures(retake) {
  stickBelow(document.querySelector(".not-private"));
  const choices = [...document.querySelectorAll("input[name=measure]")];
  const take = (choice) => {
    const top = (section) => section.getBoundingClientRect().top;
    const bar = document.querySelector(".switch").getBoundingClientRect().bottom;
    const near = (section) => Math.abs(top(section) - bar);
    const seen = [...document.querySelectorAll(".measured section")].reduce((a, b) => (near(b) < near(a) ? b : a));
    const before = top(seen);
    for (const panel of document.querySelectorAll("[data-measure]")) panel.hidden = panel.dataset.measure !== choice.value;
    const head = choice.labels[0].textContent.trim();
    for (const which of document.querySelectorAll("[data-which]")) which.textContent = `: ${head}`;
    retake(Number(choice.value));
    scrollBy({ top: top(seen) - before, behavior: "instant" }); // panels differ in height, and what is read stays in sight
  };
  for (const choice of choices) choice.addEventListener("change", () => take(choice));
  const chosen = choices.findIndex((choice) => choice.checked);
  if (chosen > 0) take(choices[chosen]); // as some browsers keep it when a page is loaded again
}
