// The Plan tab's table of levels, its words on privacy, and its example draws.
const infinite = (x) => (x === "inf" ? Infinity : number(x));
const key = (contribution) => (contribution ? whole.format(contribution) : "not measured");
const small = (x) => (x >= 100 ? whole.format(x) : String(Number(x.toPrecision(3))));

// The rows stay while sliders move: only what changed is written.
function levelRows(levels, moved, aimed) {
  const body = document.querySelector("#levels tbody");
  if (body.children.length !== levels.length) {
    body.replaceChildren(...levels.map((level, i) => levelRow(i, moved, aimed)));
    document.querySelector("#levels tfoot").replaceChildren(levelFoot());
  }
}

function levelRow(i, moved, aimed) {
  const slider = make("input", { type: "range", min: "0", max: "100", step: "0.1" });
  const exact = make("input", { type: "number", min: "0", max: "100", step: "0.1", inputmode: "decimal" });
  slider.addEventListener("input", () => moved(i, Number(slider.value) / 100));
  exact.addEventListener("change", () => moved(i, Number(exact.value) / 100));
  const share = make("td", { class: "share" }, make("span", { class: "pairing" }, slider, exact, "%"));
  const goal = make("input", { type: "range", min: "-1.02", max: "2", step: "0.02" }); // of log10 of percent; the left end is none
  const least = make("input", { type: "number", min: "0.001", step: "any", inputmode: "decimal", placeholder: "none" });
  goal.addEventListener("input", () => {
    least.value = Number(goal.value) < -1 ? "" : small(10 ** Number(goal.value));
    aimed();
  });
  least.addEventListener("change", aimed);
  const target = make("td", { class: "target" }, make("span", { class: "pairing" }, goal, least, "%"));
  return make("tr", {}, levelHead(), share, levelErrors(make("span", { class: "drawn" })), target, ...levelFigures());
}

const levelHead = (...words) => make("th", { scope: "row" }, make("bdi", {}, ...words), make("span", { class: "under" }, make("span", { class: "nodes" }), " rows"));
const levelErrors = (...drawn) => make("td", { class: "errors" }, ...drawn, make("span", { class: "under" },
  make("strong", { class: "denoised" }), " denoised", make("span", { class: "measured" }, ", ", make("span", { class: "raw-error" }), " as measured")));
const levelFigures = () => [
  make("td", { class: "best" }, make("span", { class: "best-error" }), make("span", { class: "under best-share" })),
  make("td", { class: "budget" }, make("span", { class: "contribution" }), make("span", { class: "under" }, "ε ", make("span", { class: "eps" }))),
];

function levelFoot() {
  return make("tr", {}, levelHead("all"), make("td"), levelErrors(), make("td"), ...levelFigures());
}

function writeLevels(plan, best, share) {
  const lines = document.querySelectorAll("#levels tbody tr");
  const errors = plan.levels.flatMap((level, i) => [infinite(level.error), infinite(level.raw), best ? infinite(best.levels[i].error) : NaN]);
  const most = Math.max(...errors.filter(Number.isFinite), 1e-9);
  const at = (x) => `${(100 * Math.min(x, most)) / most}%`;
  plan.levels.forEach((level, i) => {
    const line = lines[i];
    const put = (kind, words) => (line.querySelector(`.${kind}`).textContent = words);
    line.querySelector("th bdi").textContent = clipped(level.level, 40);
    put("nodes", whole.format(level.nodes));
    const [goal, least] = line.querySelectorAll(".target input");
    for (const input of [goal, least]) {
      const name = `Target of ${clipped(level.level, 40)}, percent`;
      input.setAttribute("aria-label", input === goal ? `${name}, slider` : name);
      const value = level.target === null ? (input === goal ? "-1.02" : "") : input === goal ? Math.log10(100 * level.target) : small(100 * level.target);
      if (document.activeElement !== input) input.value = value;
    }
    goal.setAttribute("aria-valuetext", level.target === null ? "none" : `${small(100 * level.target)} %`);
    const over = level.target !== null && !(infinite(level.error) <= level.target * 1.001);
    line.querySelector(".denoised").classList.toggle("over", over);
    const [slider, exact] = line.querySelectorAll(".share input");
    for (const input of [slider, exact]) {
      const name = `Share of ${clipped(level.level, 40)}, percent`;
      input.setAttribute("aria-label", input === slider ? `${name}, slider` : name);
      if (document.activeElement !== input || input === slider) input.value = (100 * share[i]).toFixed(1);
    }
    put("contribution", key(level.contribution));
    put("eps", level.contribution ? small(level.epsilon) : "–");
    const [mine, raw, theirs] = [infinite(level.error), infinite(level.raw), best ? infinite(best.levels[i].error) : NaN];
    const drawn = { to: Math.min(mine, most), raw: Number.isFinite(raw) ? raw : null, tick: Number.isFinite(theirs) ? theirs : null };
    line.querySelector(".drawn").replaceChildren(bar(at, drawn));
    put("denoised", percent(mine));
    put("raw-error", percent(raw));
    line.querySelector(".measured").hidden = !level.contribution;
    put("best-share", best ? `share ${percent(best.levels[i].share)}` : "");
    put("best-error", best ? percent(theirs) : "…");
  });
  const foot = document.querySelector("#levels tfoot tr");
  const put = (kind, words) => (foot.querySelector(`.${kind}`).textContent = words);
  foot.querySelector(".measured").hidden = true;
  put("nodes", whole.format(plan.start.nodes));
  put("contribution", `${whole.format(plan.spent)} of ${whole.format(plan.l1)}`);
  put("eps", small(plan.loss.conversion));
  put("denoised", percent(infinite(plan.tree.error)));
  put("best-error", best ? percent(infinite(best.tree)) : "…");
}

// A root mean square is what the worst nodes make of it: beside it, the median node, the worst, and answering 0.
function writeNodes(levels) {
  document.getElementById("by-node").replaceChildren(...levels.map(({ level, words }) => make("li", {}, make("bdi", {}, clipped(level, 40)), ": ", make("bdi", {}, visible(words)))));
}

function writeSum(plan, best) {
  const mine = infinite(plan.tree.error);
  const theirs = best ? infinite(best.tree) : NaN;
  const words = [`Expected error over all levels: ${percent(mine)}.`];
  const aims = plan.levels.filter((level) => level.target !== null);
  const within = aims.length ? "within targets and guard" : "within the guard";
  if (best) words.push(mine <= theirs * 1.0005 && mine >= theirs * 0.9995 ? `This is the best split ${within}.` : `The best split ${within} has ${percent(theirs)}.`);
  if (aims.length && best) {
    const missed = aims.filter((level) => !(infinite(best.levels[plan.levels.indexOf(level)].error) <= level.target * 1.001));
    words.push(missed.length ? `It misses the target of ${missed.map((level) => level.level).join(" and ")}.` : "It meets all targets.");
    if (best.least) words.push(`Least ε that meets them: ${small(best.least)}.`);
  }
  document.querySelector("[data-split=least]").hidden = !(aims.length && best && best.least);
  words.push(`Equal shares: ${percent(infinite(plan.tree.equal))}; leaves only: ${percent(infinite(plan.tree.leaves))}; answering 0 everywhere: ${percent(infinite(plan.tree.zeros))}.`);
  document.getElementById("sum").textContent = words.join(" ");
}

function writePrivacy(plan) {
  const noise = plan.noise === "api"
    ? `A conversion contributes ${whole.format(plan.spent)} of at most ${whole.format(plan.l1)} to its keys; every sum gets noise DLap(ε / ${whole.format(plan.l1)}).`
    : plan.noise_words;
  document.getElementById("privacy").replaceChildren(...[...plan.privacy, noise, ...plan.notes].map((line) => make("li", {}, line)));
}

// Error of each level against ε, both on logarithmic scales; targets are dashed, today's ε is the upright line.
function writeCurve(found) {
  const seen = found.levels.flatMap((level) => [...level.error.map(infinite), level.target ?? NaN]).filter((x) => x > 0 && x < Infinity);
  const picture = document.getElementById("curve");
  picture.hidden = !seen.length;
  if (!seen.length) return;
  const [width, height, left, low] = [Math.max(300, picture.clientWidth), 250, 56, 40];
  const right = width - 112;
  const scale = (least, most, from, to) => (x) => from + ((Math.log(x) - Math.log(least)) / (Math.log(most) - Math.log(least) || 1)) * (to - from);
  const x = scale(found.epsilon[0], found.epsilon.at(-1), left, right);
  const y = scale(Math.min(...seen) * 0.8, Math.max(...seen) * 1.2, height - low, 8);
  const draw = (name, attributes, text) => {
    const made = document.createElementNS("http://www.w3.org/2000/svg", name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    if (text) made.textContent = text;
    return made;
  };
  const steps = (least, most) => [...Array(12).keys()].flatMap((i) => [1, 2, 5].map((digit) => digit * 10 ** (i - 6))).filter((at) => at >= least && at <= most);
  const shapes = steps(Math.min(...seen) * 0.8, Math.max(...seen) * 1.2).flatMap((at) => [
    draw("line", { class: "grid", x1: left, x2: right, y1: y(at), y2: y(at) }), draw("text", { x: left - 6, y: y(at) + 4, "text-anchor": "end" }, percent(at))]);
  for (const at of steps(found.epsilon[0], found.epsilon.at(-1))) shapes.push(draw("text", { x: x(at), y: height - 20, "text-anchor": "middle" }, small(at)));
  shapes.push(draw("text", { x: (left + right) / 2, y: height - 3, "text-anchor": "middle" }, "ε"));
  shapes.push(draw("line", { class: "here", x1: x(found.here), x2: x(found.here), y1: 8, y2: height - low }));
  const names = [];
  found.levels.forEach((level, i) => {
    const points = level.error.map((error, at) => [x(found.epsilon[at]), y(infinite(error))]).filter(([, to]) => Number.isFinite(to));
    if (!points.length) return;
    shapes.push(draw("polyline", { class: `curve c${i % 4}`, points: points.map((point) => point.join()).join(" ") }));
    names.push({ at: points.at(-1)[1], name: clipped(level.level, 14) });
    if (level.target !== null) shapes.push(draw("line", { class: `aim c${i % 4}`, x1: left, x2: right, y1: y(level.target), y2: y(level.target) }));
  });
  names.sort((one, other) => one.at - other.at);
  names.forEach((each, i) => (each.at = Math.max(each.at, i ? names[i - 1].at + 15 : 0))); // no name on another
  shapes.push(...names.map(({ at, name }) => draw("text", { x: right + 6, y: at + 4 }, name)));
  const svg = picture.querySelector("svg");
  svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
  svg.replaceChildren(...shapes);
}

function writeDraws(found) {
  const table = document.getElementById("draws");
  table.tBodies[0].replaceChildren(...found.rows.map((row) => {
    const name = make("span", { class: "name" }, labelled(row.name));
    name.style.setProperty("--depth", row.level);
    const cells = row.draws.flatMap(([raw, estimate]) => [
      make("td", { class: "num minor" }, raw === null ? "not measured" : count(raw)), make("td", { class: "num" }, count(number(estimate))),
    ]);
    return make("tr", {}, make("th", { scope: "row" }, name), make("td", { class: "num" }, count(row.count)), ...cells);
  }));
  const part = found.whole ? `the largest root (${whole.format(found.nodes)} rows)` : `the ${whole.format(found.nodes)} largest rows of the largest root`;
  document.getElementById("drawn").textContent =
    `What a report might say if the true counts were those in the second column. The noise is drawn from a seed, for ${part}: examples only, not for release. The same random draws are kept while you move the sliders.`;
}
