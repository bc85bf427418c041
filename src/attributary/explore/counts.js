// The Counts tab: where we are in the tree, the rows there, and the way on.
const nodes = new Map(); // nodes that were seen, by id, with their paths
let about = null;
let under = new AbortController();
let shownCount = null;
let taken = ""; // the measure that `about` is of, as the address has it

const figure = (x) => count(x, about.digits);
const bound = (row, x) => (number(row.zero_probability) >= 0 ? whole.format(x) : figure(x)); // a posterior's are whole
const inUnit = (x) => (about.unit ? `${figure(x)}\u00a0${about.unit}` : figure(x));

const roots = () => ({ id: "", path: [] });

// A node's course over the periods, in the shapes that the report has, too.
async function course(now, signal) {
  const box = document.getElementById("course");
  box.hidden = !about.before;
  if (!about.before) return;
  const { size, shapes, words } = await ask("course", { measure: now.measure, node: now.node }, { signal });
  const draw = ([tag, attributes, text]) => {
    const shape = document.createElementNS("http://www.w3.org/2000/svg", tag);
    for (const [name, value] of Object.entries(attributes)) shape.setAttribute(name, value);
    shape.append(text);
    return shape;
  };
  const picture = draw(["svg", { class: "course", viewBox: `0 0 ${size.join(" ")}`, role: "img", "aria-label": "Course over the periods" }, ""]);
  picture.append(...shapes.map(draw));
  box.replaceChildren(picture, make("p", { class: "small" }, words));
}

async function here(now, signal) {
  if (!now.node) return roots();
  if (!nodes.has(now.node)) nodes.set(now.node, await ask("node", { measure: now.measure, node: now.node }, { signal }));
  return nodes.get(now.node);
}

const asked = (now) => ({ measure: now.measure, node: now.node, find: now.find, level: now.level, sort: now.sort, down: now.down, page: now.page });

async function drawCounts() {
  const now = state();
  under.abort();
  under = new AbortController();
  const { signal } = under;
  const section = document.getElementById("counts");
  section.setAttribute("aria-busy", "true");
  const status = document.getElementById("status");
  const slow = setTimeout(() => (status.textContent = "searching …"), 200);
  try {
    if (now.measure !== taken) introduce((await ask("about", { measure: now.measure }, { signal })).table, now.measure);
    const [node, page] = await Promise.all([here(now, signal), ask("rows", asked(now), { signal })]);
    if (signal.aborted) return;
    clearTimeout(slow);
    drawn(now, node, page, signal);
    await course(now, signal);
    clear();
    section.removeAttribute("aria-busy");
    document.documentElement.dataset.ready = "counts";
  } catch (error) {
    if (error.name === "AbortError") return;
    status.textContent = "";
    section.removeAttribute("aria-busy");
    complain(error);
  } finally {
    clearTimeout(slow);
  }
}

function drawn(now, node, page, signal) {
  const flat = Boolean(now.find || now.level);
  const rows = page.rows;
  for (const row of rows) nodes.set(row.id, { ...row, path: row.path ?? [...node.path, [row.id, row.label]] });
  path(now, node);
  headline(node);
  tools(now, node);
  heads(about, now);
  const at = scale(rows);
  document.querySelector("#grid tbody").replaceChildren(...rows.map((row) => rowOf(row, at, about.before, flat)));
  document.getElementById("grid").classList.toggle("compared", Boolean(about.before));
  const nothing = document.getElementById("nothing");
  nothing.hidden = rows.length > 0;
  nothing.textContent = now.find ? `No label here contains “${clipped(now.find, 60)}”.` : "No rows below this one.";
  document.querySelector("#counts .scroller").hidden = !rows.length;
  pager(now, page, page.of);
  if (page.of === null) total(now, page, signal);
}

// How many rows there are in all: a question of its own, since the answer can take longer than the rows.
async function total(now, page, signal) {
  const first = page.page * about.page;
  if (!page.more && page.rows.length) return pager(now, page, first + page.rows.length);
  if (!page.rows.length) return;
  const key = JSON.stringify([now.node, now.find, now.level]);
  try {
    if (shownCount?.key !== key) shownCount = { key, of: (await ask("count", asked(now), { signal })).of };
    if (!signal.aborted) pager(now, page, shownCount.of);
  } catch (error) {
    if (error.name !== "AbortError") complain(error);
  }
}

function path(now, node) {
  const steps = [["", "All"], ...node.path];
  document.getElementById("path").replaceChildren(...steps.map(([id, label], i) => {
    const text = make("bdi", {}, clipped(label ?? "", 60));
    const last = i === steps.length - 1;
    const inner = last && !now.find && !now.level ? make("span", { "aria-current": "page" }, text) : link({ node: id, find: "", level: "", page: "0" }, {}, text);
    return make("li", {}, inner);
  }));
}

function headline(node) {
  const box = document.getElementById("here");
  box.hidden = !node.id;
  if (!node.id) return;
  const gone = node.estimate === null;
  const level = about.levels[node.level]?.name ?? "";
  const parts = [
    make("p", { class: "eyebrow" }, level, " ", labelled(node.label)),
    make("p", { class: "big" }, gone ? "gone" : inUnit(node.estimate)),
  ];
  if (!gone) parts.push(make("p", { class: "range" }, `between ${bound(node, node.low)} and ${bound(node, node.high)}`));
  const measured = about.before ? [] : node.noisy === null ? ["not measured: summed from the levels below"] : [`measured as ${figure(node.noisy)}`, `correction ${signed(number(node.correction))}`];
  const facts = gone ? [] : [`${percent(node.error)} relative error`, ...measured, ...about.extras.filter(([name]) => number(node[name]) >= 0).map(([name, , words]) => `${words.toLowerCase()} ${wholePercent(node[name])}`)];
  parts.push(make("p", { class: "small" }, facts.join(" · "), node.implausible ? make("strong", { class: "flag" }, "implausible") : ""));
  if (about.before) parts.push(make("p", { class: "small" }, ...compared(node)));
  box.replaceChildren(...parts);
}

function compared(node) {
  if (node.change === null) return [`before: ${figure(number(node.old))}; ${node.verdict}`];
  return [`${figure(node.old)} before; change `, ...changed(node), ": ", ...judged(node)];
}

function tools(now, node) {
  const find = document.getElementById("find");
  if (document.activeElement !== find) find.value = now.find;
  const depth = document.getElementById("depth");
  const below = about.levels.map((level, i) => [i, level]).filter(([i]) => !node.id || i > node.level);
  const options = [["", now.find ? "all levels below" : "rows just below"]];
  const flat = about.labels || !node.id;
  if (flat) for (const [i, level] of below) options.push([String(i), `every ${level.name}${node.id ? " below" : ""}`]);
  if (flat && !now.find && below.length > 1) options.push(["all", "all rows below"]);
  depth.replaceChildren(...options.map(([value, words]) => make("option", { value }, words)));
  depth.value = options.some(([value]) => value === now.level) ? now.level : "";
  document.getElementById("order").setAttribute("aria-pressed", now.sort === "order");
  find.disabled = !flat;
}

function pager(now, page, of) {
  const first = page.page * about.page;
  const last = first + page.rows.length;
  const status = document.getElementById("status");
  const many = of === null ? (page.more ? "of more" : "") : `of ${whole.format(of)}`;
  status.textContent = page.rows.length ? `Rows ${whole.format(first + 1)} to ${whole.format(last)} ${many}` : "No rows";
  const steps = [];
  if (page.page > 0) steps.push(link({ page: "0" }, {}, "First"), link({ page: String(page.page - 1) }, { rel: "prev" }, "Previous"));
  if (page.more) steps.push(link({ page: String(page.page + 1) }, { rel: "next" }, "Next"));
  document.getElementById("pager").replaceChildren(...steps);
}

async function save() {
  const button = document.getElementById("save");
  button.disabled = true;
  try {
    const answer = await send("rows.csv", asked(state()));
    const place = URL.createObjectURL(await answer.blob());
    const made = make("a", { href: place, download: about.measure ? `estimates ${about.measure}.csv` : "estimates.csv" });
    made.click();
    setTimeout(() => URL.revokeObjectURL(place), 60_000);
    clear();
  } catch (error) {
    complain(error);
  } finally {
    button.disabled = false;
  }
}

function listenToCounts() {
  const find = document.getElementById("find");
  let waiting = 0;
  find.addEventListener("input", () => {
    clearTimeout(waiting);
    waiting = setTimeout(() => go({ find: find.value.trim(), level: state().level === "all" ? "" : state().level, page: "0" }, Boolean(state().find) && Boolean(find.value.trim())), 250);
  });
  document.getElementById("measure").addEventListener("change", (event) => go({ measure: event.target.value, page: "0" }));
  document.getElementById("depth").addEventListener("change", (event) => go({ level: event.target.value, page: "0" }));
  document.getElementById("order").addEventListener("click", () => go({ sort: state().sort === "order" ? "estimate" : "order", down: "", page: "0" }));
  document.getElementById("save").addEventListener("click", save);
}
