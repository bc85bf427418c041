// The tree as a table: rows are made when they are opened, a family's first hundred at once.
const CHUNK = 100;
const OPENED = 2000; // rows that "one more level" makes at most

function treeTable(tree) {
  const grid = document.getElementById("grid");
  const body = grid.tBodies[0];
  const status = document.getElementById("status");
  let open = new Set();
  const room = new Map(); // how many children of a node are shown
  let sort = null; // { by, down }
  let match = null; // of a filter
  let found = 0;
  let filtered = ["", false];
  const families = new Map();
  const scales = new Map();

  const keys = {
    estimate: (v) => tree.estimate(v),
    width: (v) => tree.below(v) + tree.above(v),
    noisy: (v) => tree.noisy(v),
    correction: (v) => Math.abs(tree.correction(v)),
    error: (v) => tree.error(v),
    rate: (v) => tree.estimate(v) / tree.seen(v),
  };

  const extra = (key) => tree.extras.find((column) => column.key === key);

  function children(v) {
    if (families.has(v)) return families.get(v);
    const [from, to] = tree.family(v);
    let list = Array.from({ length: to - from }, (_, i) => from + i);
    if (match) list = list.filter((w) => match[w]);
    if (sort) list = sorted(list);
    families.set(v, list);
    return list;
  }

  function sorted(list) {
    const sign = sort.down ? -1 : 1;
    if (sort.by === "label") {
      const order = new Intl.Collator("en", { numeric: true }).compare;
      return list.sort((a, b) => sign * order(tree.label(a), tree.label(b)));
    }
    const key = keys[sort.by] ?? extra(sort.by).of;
    const number = (v) => (Number.isNaN(key(v)) ? -Infinity : key(v));
    const last = (v) => Number.isNaN(key(v)); // whatever was not measured comes last, up or down
    return list.sort((a, b) => last(a) - last(b) || sign * (number(a) - number(b)) || a - b);
  }

  function scale(v) {
    if (scales.has(v)) return scales.get(v);
    const [from, to] = tree.family(v);
    const figures = [];
    for (let w = from; w < to; w++) figures.push(tree.low(w), tree.high(w), tree.noisy(w));
    scales.set(v, scaled(figures));
    return scales.get(v);
  }

  function row(v, position, of) {
    const depth = tree.level(v);
    const leaf = tree.first[v] === tree.first[v + 1] && !tree.left(v);
    const line = make("tr", {
      role: "row", tabindex: "-1", "aria-level": depth + 1, "aria-posinset": position + 1, "aria-setsize": of, "data-node": v,
    });
    if (!leaf) line.setAttribute("aria-expanded", open.has(v));
    line.style.setProperty("--depth", depth);
    const twist = make("span", { class: leaf ? "twist leaf" : "twist", "aria-hidden": "true" });
    const cell = (head, kind, ...content) => line.append(make("td", { role: "gridcell", class: kind, "data-head": head }, ...content));
    line.append(make("th", { role: "rowheader", scope: "row" }, make("span", { class: "name" }, twist, labelled(tree.label(v)))));
    cell("", "num estimate", tree.shown(v));
    const ratio = tree.measure.ratio;
    const drawn = { to: tree.estimate(v), low: tree.low(v), high: tree.high(v), raw: tree.noisy(v), tick: tree.estimate(v) };
    const known = !Number.isNaN(tree.estimate(v));
    cell("", "interval", known ? bar(scale(tree.parent[v]), drawn) : "", make("span", { class: "range" }, known ? between(tree, v) : "too few conversions"));
    if (!ratio) cell("noisy", "num minor", Number.isNaN(tree.noisy(v)) ? "not measured" : tree.count(tree.noisy(v)));
    const flag = tree.flag[v] ? [make("strong", { class: "flag" }, "implausible"), " "] : [];
    if (tree.flag[v]) line.classList.add("flagged");
    if (!ratio) cell("correction", "num minor", ...flag, signed(tree.correction(v)));
    cell("error", "num minor", percent(tree.error(v)));
    for (const { head, of } of tree.extras) cell(head, "num minor", wholePercent(of(v) / 100));
    if (tree.seen) cell("per impression", "num minor", ...rated(v));
    return line;
  }

  // What an impression brings, with as many digits as its interval deserves.
  function rated(v) {
    if (!(tree.seen(v) > 0)) return ["–"];
    const [x, low, high] = [tree.estimate(v), tree.low(v), tree.high(v)].map((y) => (100 * y) / tree.seen(v));
    const shown = (y) => fixed(y, Math.min(Math.max(Math.ceil(-Math.log10((high - low) / 4)), 1), 6)).replace("-", "−");
    return [`${shown(x)}\u00a0%`, make("span", { class: "range" }, `${shown(low)} to ${shown(high)}`)];
  }

  // The rows of a node's children, and of theirs where they are open, in the order of the page.
  function rows(v, from = 0) {
    const made = [];
    const list = children(v);
    const end = Math.min(Math.max(room.get(v) ?? CHUNK, from + 1), list.length);
    for (let i = from; i < end; i++) {
      made.push(row(list[i], i, list.length));
      if (open.has(list[i])) made.push(...rows(list[i]));
    }
    const depth = v < 0 ? 0 : tree.level(v) + 1;
    if (end < list.length) made.push(more(v, end, list.length, depth));
    else if (tree.left(v) && !match) made.push(leftOut(v, depth));
    return made;
  }

  function aside(depth, content) {
    const line = make("tr", { role: "row", class: "aside", "aria-level": depth + 1 }, make("td", { role: "gridcell", colspan: grid.tHead.rows[0].cells.length }, content));
    line.style.setProperty("--depth", depth);
    return line;
  }

  function more(v, shown, of, depth) {
    const next = Math.min(CHUNK * 10, of - shown);
    const button = make("button", { type: "button" }, next < of - shown ? `Show ${whole.format(next)} more of ${whole.format(of - shown)}` : `Show the other ${whole.format(next)}`);
    const line = aside(depth, button);
    button.addEventListener("click", () => {
      room.set(v, shown + next);
      const made = rows(v, shown);
      line.replaceWith(...made);
      focusRow(made[0]);
      tell();
    });
    return line;
  }

  function leftOut(v, depth) {
    const [from, to] = tree.family(v);
    let rest = v < 0 ? NaN : tree.estimate(v);
    for (let w = from; w < to; w++) rest -= tree.estimate(w);
    const sum = Number.isNaN(rest) || tree.measure.ratio ? "" : `, ${tree.count(rest)} together`;
    return aside(depth, make("span", {}, `${whole.format(tree.left(v))} left out of this page${sum}`));
  }

  function toggle(line, to) {
    unfold(line, to);
    tell();
  }

  function unfold(line, to) {
    const v = Number(line.dataset.node);
    if (!line.hasAttribute("aria-expanded") || open.has(v) === to) return;
    line.setAttribute("aria-expanded", !open.has(v));
    if (open.delete(v)) {
      while (line.nextElementSibling?.ariaLevel > line.ariaLevel) line.nextElementSibling.remove();
    } else {
      open.add(v);
      line.after(...rows(v));
    }
  }

  function redraw() {
    families.clear();
    scales.clear();
    body.replaceChildren(...rows(-1));
    if (body.rows.length) body.rows[0].tabIndex = 0;
    tell();
  }

  function tell() {
    const shown = body.querySelectorAll("tr[data-node]").length;
    const all = match ? `${whole.format(found)} of ${whole.format(tree.nodes)} rows match; ` : `${whole.format(tree.nodes)} rows; `;
    const name = tree.about.measures?.length > 1 ? `${tree.measure.name}: ` : "";
    status.textContent = `${name}${all}${whole.format(shown)} shown`;
  }

  function filter(text, flagsOnly) {
    room.clear();
    filtered = [text, flagsOnly];
    const fits = matches(tree, text, flagsOnly);
    ({ match, found } = fits);
    open = new Set(fits.opened);
    redraw();
  }

  function sortBy(by) {
    const down = by !== "label";
    if (sort?.by !== by) sort = { by, down };
    else if (sort.down === down) sort = { by, down: !down };
    else sort = null;
    for (const head of grid.tHead.rows[0].cells) {
      if (head.dataset.sort === sort?.by) head.setAttribute("aria-sort", sort.down ? "descending" : "ascending");
      else head.removeAttribute("aria-sort");
    }
    redraw();
  }

  function deeper() {
    const closed = [...body.querySelectorAll('tr[aria-expanded="false"]')];
    let budget = OPENED;
    for (const line of closed) {
      if (budget <= 0) break;
      budget -= Math.min(CHUNK, tree.children[line.dataset.node]);
      unfold(line, true);
    }
    tell();
  }

  function focusRow(line) {
    if (!line) return;
    for (const old of body.querySelectorAll('tr[tabindex="0"]')) old.tabIndex = -1;
    line.tabIndex = 0;
    line.focus();
  }

  // Another measure: the same rows are open, in an order that it has.
  function retake() {
    const heads = [...grid.tHead.rows[0].cells];
    for (const head of heads) {
      const by = head.dataset.sort;
      const absent = (tree.about.extras.some(([key]) => key === by) && !extra(by)) || (by === "rate" && !tree.seen);
      head.hidden = absent || (tree.measure.ratio && ["noisy", "correction", "rate"].includes(by));
      if (by === "estimate") head.querySelector("button").textContent = tree.measure.unit ? `Estimate, ${tree.measure.unit}` : "Estimate";
      if (head.hidden && sort?.by === by) sort = null;
      if (head.hidden) head.removeAttribute("aria-sort");
    }
    if (filtered[1]) filter(...filtered);
    else redraw();
  }

  if (children(-1).length === 1) open.add(children(-1)[0]); // a lone total is no news
  return { body, grid, redraw, retake, toggle, filter, sortBy, deeper, focusRow, closeAll: () => (open.clear(), room.clear(), redraw()) };
}
