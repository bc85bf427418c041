// The switch between measures: it changes the table, the map, and whatever is of one measure alone.
function switchMeasures(retake) {
  const choices = [...document.querySelectorAll("input[name=measure]")];
  const take = (choice) => {
    const seen = [...document.querySelectorAll(".measured section")].find((s) => s.getBoundingClientRect().bottom > 80);
    const before = seen?.getBoundingClientRect().top;
    for (const panel of document.querySelectorAll("[data-measure]")) panel.hidden = panel.dataset.measure !== choice.value;
    const head = choice.labels[0].textContent.trim();
    for (const which of document.querySelectorAll("[data-which]")) which.textContent = `: ${head}`;
    retake(Number(choice.value));
    if (before < 0) scrollBy({ top: seen.getBoundingClientRect().top - before, behavior: "instant" }); // panels differ in height
  };
  for (const choice of choices) choice.addEventListener("change", () => take(choice));
  const chosen = choices.findIndex((choice) => choice.checked);
  if (chosen > 0) take(choices[chosen]); // as some browsers keep it when a page is loaded again
}
