// The tree as a table: rows are made when they are opened, a family's first hundred at once.
const CHUNK = 100;
const OPENED = 2000; // rows that "one more level" makes at most
const FOUND = 300; // and a filter

function treeTable(tree) {
  const grid = document.getElementById("grid");
  const body = grid.tBodies[0];
  const status = document.getElementById("status");
  const open = new Set();
  const room = new Map(); // how many children of a node are shown
  let sort = null; // { by, down }
  let match = null; // of a filter, for each node: 1 if something below it matches, plus 2 if it or something above it does
  let found = 0;
  const families = new Map();
  const scales = new Map();

  const keys = {
    estimate: (v) => tree.estimate(v),
    width: (v) => tree.below(v) + tree.above(v),
    noisy: (v) => tree.noisy(v),
    correction: (v) => Math.abs(tree.correction(v)),
    error: tree.error,
  };

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
    const key = keys[sort.by];
    const number = (v) => (Number.isNaN(key(v)) ? -Infinity : key(v));
    const last = (v) => Number.isNaN(key(v)); // whatever was not measured comes last, up or down
    return list.sort((a, b) => last(a) - last(b) || sign * (number(a) - number(b)) || a - b);
  }

  function scale(v) {
    if (scales.has(v)) return scales.get(v);
    const [from, to] = tree.family(v);
    let least = 0;
    let most = 0;
    for (let w = from; w < to; w++) {
      for (const x of [tree.low(w), tree.high(w), tree.noisy(w)]) {
        if (!Number.isFinite(x)) continue; // what is not known has no place, and takes none
        least = Math.min(least, x);
        most = Math.max(most, x);
      }
    }
    const made = (x) => `${Math.min(Math.max((100 * (x - least)) / (most - least || 1), 0), 100)}%`;
    scales.set(v, made);
    return made;
  }

  function bar(v) {
    const at = scale(tree.parent[v]);
    const box = make("span", { class: "bar", "aria-hidden": "true" });
    const mark = (name, x) => {
      const line = make("i", { class: name });
      line.style.left = at(x);
      box.append(line);
      return line;
    };
    mark("zero", 0);
    const fill = mark("fill", Math.min(0, tree.estimate(v)));
    fill.style.right = `calc(100% - ${at(Math.max(0, tree.estimate(v)))})`;
    const span = mark("span", tree.low(v));
    span.style.right = `calc(100% - ${at(tree.high(v))})`;
    if (!Number.isNaN(tree.noisy(v))) mark("raw", tree.noisy(v));
    mark("tick", tree.estimate(v));
    return box;
  }

  function name(v) {
    const text = tree.label(v);
    const label = text === "" ? make("i", { class: "empty" }, "(empty)") : make("bdi", { class: text.length > 120 ? "long" : "" }, visible(text));
    if (text.length > 120) label.tabIndex = 0;
    return label;
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
    line.append(make("th", { role: "rowheader", scope: "row" }, make("span", { class: "name" }, twist, name(v))));
    cell("", "num estimate", tree.shown(v));
    cell("", "interval", bar(v), make("span", { class: "range" }, between(tree, v)));
    cell("noisy", "num minor", count(tree.noisy(v)));
    cell("correction", "num minor", signed(tree.correction(v)));
    if (tree.flag[v]) {
      line.classList.add("flagged");
      line.children[4].prepend(make("strong", { class: "flag" }, "implausible"), " ");
    }
    cell("error", "num minor", percent(tree.error(v)));
    return line;
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
    const line = make("tr", { role: "row", class: "aside", "aria-level": depth + 1 }, make("td", { role: "gridcell", colspan: "6" }, content));
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
    const sum = Number.isNaN(rest) ? "" : `, ${count(rest)} together`;
    return aside(depth, make("span", {}, `${whole.format(tree.left(v))} left out of this page${sum}`));
  }

  function toggle(line, to) {
    const v = Number(line.dataset.node);
    if (!line.hasAttribute("aria-expanded") || open.has(v) === to) return;
    line.setAttribute("aria-expanded", !open.has(v));
    if (open.delete(v)) {
      while (line.nextElementSibling?.ariaLevel > line.ariaLevel) line.nextElementSibling.remove();
    } else {
      open.add(v);
      line.after(...rows(v));
    }
    tell();
  }

  function redraw() {
    families.clear();
    body.replaceChildren(...rows(-1));
    if (body.rows.length) body.rows[0].tabIndex = 0;
    tell();
  }

  function tell() {
    const shown = body.querySelectorAll("tr[data-node]").length;
    const all = match ? `${whole.format(found)} of ${whole.format(tree.nodes)} nodes match; ` : `${whole.format(tree.nodes)} nodes; `;
    status.textContent = `${all}${whole.format(shown)} ${shown === 1 ? "row is" : "rows are"} shown`;
  }

  function filter(text, flagsOnly) {
    open.clear();
    room.clear();
    const wanted = text.toLowerCase();
    match = wanted || flagsOnly ? new Uint8Array(tree.nodes) : null;
    const hits = [];
    if (match) {
      const fits = tree.about.levels.map((_, i) => (wanted ? tree.dictionary(i).map((w) => w.toLowerCase().includes(wanted)) : null));
      for (let i = 0; i < fits.length; i++) {
        const codes = tree[`code${i}`];
        for (let v = tree.start[i]; v < tree.start[i + 1]; v++) {
          const own = (!fits[i] || fits[i][codes[v - tree.start[i]]]) && (!flagsOnly || tree.flag[v]);
          if (own || (tree.parent[v] >= 0 && match[tree.parent[v]])) match[v] = 2;
          if (own) hits.push(v);
        }
      }
      for (const hit of hits) for (let v = tree.parent[hit]; v >= 0 && !(match[v] & 1); v = tree.parent[v]) match[v] |= 1;
      let budget = FOUND;
      for (let v = 0; v < tree.nodes && budget > 0; v++) {
        if (match[v] & 1) budget -= Math.min(CHUNK, tree.children[v]), open.add(v);
      }
    }
    found = hits.length;
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
      toggle(line, true);
    }
  }

  function focusRow(line) {
    if (!line) return;
    for (const old of body.querySelectorAll('tr[tabindex="0"]')) old.tabIndex = -1;
    line.tabIndex = 0;
    line.focus();
  }

  return { body, grid, open, redraw, toggle, filter, sortBy, deeper, focusRow, closeAll: () => (open.clear(), room.clear(), redraw()) };
}
