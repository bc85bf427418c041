// The switch between the pages of breakdowns.
for (const button of document.querySelectorAll("button[data-breakdown]")) {
  button.addEventListener("click", () => {
    for (const each of document.querySelectorAll("button[data-breakdown]")) {
      each.setAttribute("aria-pressed", String(each === button));
    }
    for (const frame of document.querySelectorAll("iframe[data-breakdown]")) {
      frame.hidden = frame.dataset.breakdown !== button.dataset.breakdown;
    }
  });
}
