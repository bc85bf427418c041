// The Plan tab: sliders in, errors out. The numbers follow at once; the best split and the draws come right after.
let plan = null;
let best = null;
let bestOf = "";
let share = [];

const planAsked = (now) => ({ epsilon: now.epsilon, tau: now.tau, share: now.share, ...(now.target && { target: now.target }), noise: now.noise, neighbours: now.neighbours, fans: now.fans, conversions: now.conversions });

const drawPlan = latest(async () => {
  const now = state();
  plan = await ask("plan", planAsked(now));
  share = now.share ? normal(now.share.split(",").map(Number)) : plan.levels.map((level) => level.share);
  writePlan(now);
  drawBest();
  drawDraws();
  drawCurve();
});

const drawCurve = latest(async () => writeCurve(await ask("curve", planAsked(state()))));

const drawBest = latest(async () => {
  const now = state();
  const question = { ...planAsked(now), share: "" };
  const text = JSON.stringify(question);
  if (text !== bestOf) {
    best = await ask("best", question);
    bestOf = text;
  }
  if (best.levels.length === plan.levels.length) writePlan(now);
  document.documentElement.dataset.ready = "plan";
});

const drawDraws = latest(async () => writeDraws(await ask("draws", { ...planAsked(state()), seed: state().seed })));

function writePlan(now) {
  const { start } = plan;
  document.getElementById("origin").textContent = `Starting point: ${start.words}.`;
  const warning = document.getElementById("unprotected");
  warning.hidden = !start.warning;
  warning.textContent = start.warning;
  levelRows(plan.levels, moved, aimed);
  const known = best && best.levels.length === plan.levels.length ? best : null;
  writeLevels(plan, known, share);
  writeNodes(plan.levels);
  writeSum(plan, known);
  writePrivacy(plan);
  fill("epsilon", plan.epsilon);
  fill("tau", plan.tau);
  choose("noise", plan.noises, plan.noise);
  choose("neighbours", plan.relations, plan.neighbours);
  document.getElementById("neighbours-knob").hidden = !plan.unknown.length;
  for (const [name, value] of [["fans", start.fans.join(" × ")], ["conversions", start.conversions || ""]]) {
    if (document.activeElement !== document.getElementById(name)) document.getElementById(name).value = value;
  }
}

function choose(name, options, value) {
  const select = document.getElementById(name);
  if (!select.options.length) select.replaceChildren(...options.map(([key, words]) => make("option", { value: key }, words)));
  select.value = value;
}

function fill(name, value) {
  const exact = document.getElementById(name);
  const slider = document.getElementById(`${name}-slider`);
  if (document.activeElement !== exact) exact.value = small(value);
  if (document.activeElement !== slider) slider.value = Math.log10(value);
  slider.setAttribute("aria-valuetext", small(value));
}

const normal = (parts) => {
  const sum = parts.reduce((a, b) => a + b, 0);
  return sum > 0 ? parts.map((part) => part / sum) : parts.map(() => 1 / parts.length);
};

// A level's share was moved: the others give or take what is left in their proportions.
function moved(i, to) {
  if (!(to >= 0)) return;
  const wanted = Math.min(to, 1);
  const rest = share.reduce((sum, part, j) => sum + (j === i ? 0 : part), 0);
  const others = share.length - 1;
  const next = share.map((part, j) => (j === i ? wanted : rest > 0 ? (part / rest) * (1 - wanted) : (1 - wanted) / others));
  const last = next.length - 1;
  if (!(next[last] > 0)) next[last] = 0.001; // the last level cannot be estimated without a key
  take(next);
}

// A level's target was moved: all of them go into the address, empty where there is none.
function aimed() {
  const targets = [...document.querySelectorAll("#levels .target input[type=number]")].map((input) => input.value.trim());
  go({ target: targets.some(Boolean) || targets.length < 2 ? targets.join(",") : ",".repeat(targets.length - 1), share: "" }, true);
}

function take(parts) {
  share = normal(parts);
  go({ share: share.map((part) => String(Number(part.toFixed(5)))).join(",") }, true);
}

function listenToPlan() {
  for (const name of ["epsilon", "tau"]) {
    const exact = document.getElementById(name);
    const slider = document.getElementById(`${name}-slider`);
    slider.addEventListener("input", () => go({ [name]: small(10 ** Number(slider.value)) }, true));
    exact.addEventListener("change", () => go({ [name]: exact.value }, true));
  }
  for (const name of ["noise", "neighbours"]) {
    document.getElementById(name).addEventListener("change", (event) => go({ [name]: event.target.value }));
  }
  document.getElementById("fans").addEventListener("change", (event) => go({ fans: event.target.value.replace(/[\s,×]+/g, "x"), share: "" }));
  document.getElementById("conversions").addEventListener("change", (event) => go({ conversions: event.target.value, share: "" }));
  const splits = {
    best: () => best && take(best.levels.map((level) => level.share)),
    equal: () => take(plan.levels.map(() => 1)),
    leaves: () => take(plan.levels.map((_, i) => Number(i === plan.levels.length - 1))),
    least: () => best && best.least && go({ epsilon: String(Number(best.least.toPrecision(5))), share: "" }),
  };
  for (const button of document.querySelectorAll("[data-split]")) {
    button.addEventListener("click", () => plan && splits[button.dataset.split]());
  }
  document.getElementById("again").addEventListener("click", () => go({ seed: String(Number(state().seed) + 1) }, true));
}
