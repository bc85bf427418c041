// Everything begins here.
function draw() {
  const now = state();
  const tab = about && now.tab !== "plan" ? "counts" : "plan";
  for (const tabLink of document.querySelectorAll("#tabs a")) {
    const its = tabLink.dataset.tab;
    tabLink.hidden = its === "counts" && !about;
    if (its === tab) tabLink.setAttribute("aria-current", "page");
    else tabLink.removeAttribute("aria-current");
  }
  for (const name of ["counts", "plan"]) document.getElementById(name).hidden = name !== tab;
  if (tab === "counts") drawCounts();
  else drawPlan();
}

function introduce(table, measure = "") {
  about = table;
  taken = measure;
  nodes.clear();
  shownCount = null;
  if (!about) {
    document.getElementById("title").textContent = "Plan a privacy budget";
    document.title = "Plan – Attributary explorer";
    return;
  }
  const names = about.levels.map((level) => level.name).filter((name) => name !== "total");
  const listed = names.length > 1 ? `${names.slice(0, -1).join(", ")} and ${names.at(-1)}` : names.join("");
  const called = about.called[0].toUpperCase() + about.called.slice(1);
  const words = about.labels ? `${called} by ${listed}` : called;
  document.getElementById("title").textContent = words;
  document.title = `${words} – Attributary explorer`;
  const sizes = about.levels.map((level) => `${whole.format(level.nodes)} × ${level.name}`).join(", ");
  const beside = about.before ? `, beside ${about.before}` : "";
  document.getElementById("opened").textContent = `${about.file}${beside}: ${whole.format(about.nodes)} ${about.noun}s, ${sizes}.${about.generated ? " Generated data." : ""}`;
  document.getElementById("choose").hidden = about.measures.length < 2;
  document.getElementById("measure").replaceChildren(...about.measures.map((name, i) => make("option", { value: i ? name : "" }, name === "count" ? "conversions" : name)));
  document.getElementById("measure").value = about.measure === about.measures[0] ? "" : about.measure;
  const open = about.not_private.length > 0;
  const banner = document.getElementById("not-private");
  banner.hidden = !open;
  banner.lastElementChild.textContent = about.not_private.join(" ");
  if (open) document.title = `NOT PRIVATE: ${document.title}`;
  const how = about.confidence ? `${percent(about.confidence)} confidence` : "at the chosen confidence";
  const { noun } = about;
  const tau = `${small(about.tau)}${about.unit && `\u00a0${about.unit}`}`;
  const error = `Error is the estimate's standard deviation, relative to the ${noun}; ${noun}s below ${tau} are judged as if they were ${tau}.`;
  const told = about.before
    ? `The bar is the interval around the estimate (${how}); the hollow mark is the earlier estimate. ± is the standard error of the change, percentages have 95 % intervals. The hypothesis is “${about.test}”; of the rows that are said to have grown or fallen, at most 5 % are expected to be wrong calls, over all rows (Benjamini and Hochberg). ${about.chance} Figures are unbiased.`
    : `The bar is the interval around the estimate (${how}); the hollow mark is the noisy value. Correction is how far denoising moved the noisy value, as a multiple of its usual size (a standard deviation); a row that was not measured is summed from the levels below. ${error}`;
  document.getElementById("explain").textContent = [told, ...about.extras.map((column) => column[3]), about.gained].join(" ");
}

async function begin() {
  try {
    await takeToken();
    const { measure } = state();
    introduce((await ask("about", { measure })).table, measure);
    for (const tabLink of document.querySelectorAll("#tabs a")) {
      tabLink.hidden = false;
      tabLink.addEventListener("click", (event) => {
        if (event.button || event.ctrlKey || event.metaKey || event.shiftKey || event.altKey) return;
        event.preventDefault();
        go({ tab: tabLink.dataset.tab === "plan" ? "plan" : "" });
      });
    }
    draw();
  } catch (error) {
    complain(error);
  }
}

document.querySelector("#trouble button").addEventListener("click", async () => {
  try {
    introduce((await ask("reopen", {}, { method: "POST" })).table);
    clear(complainant);
    draw();
  } catch (error) {
    complain(error);
  }
});
listenToCounts();
listenToPlan();
addEventListener("popstate", draw);
addEventListener("moved", draw);
begin();
