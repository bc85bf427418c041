// The icicle: every node as wide as its count, below its parent. Narrow ones are drawn as one block.
const NARROWEST = 5; // pixels
const ABOVE = 3; // rows above the one that fills the width
const BELOW = 8; // and below it

function icicle(tree) {
  const box = document.getElementById("icicle");
  const pointed = document.getElementById("pointed");
  const levels = tree.about.levels.length;
  let focus = -1; // the node that fills the width; -1 is all of them
  let cells = []; // by row of the chart
  let full = 0; // pixels; read once, since reading it between two cells would lay out the whole page for each

  const size = (v) => Math.max(tree.size(v), 0);
  const bin = (error) => tree.about.bounds.filter((bound) => !(error <= bound)).length;
  const unknown = (v) => (tree.measure.ratio && tree.error(v) !== 0 ? 1 : 0); // a node without a ratio has the last colour
  const told = (v) => `${clipped(tree.label(v), 80)}: ${tree.shown(v)}${tree.unit} (${between(tree, v)}), error ${percent(tree.error(v))}`;

  function path(v) {
    const above = [];
    for (let w = v; w >= 0; w = tree.parent[w]) above.unshift(w);
    return above;
  }

  function draw(refocus) {
    full = box.clientWidth;
    const whole = path(focus);
    const line = whole.slice(-ABOVE);
    const rows = line.length + Math.min(levels - whole.length, BELOW);
    box.replaceChildren();
    box.style.setProperty("--rows", rows + 1);
    cells = Array.from({ length: rows + 1 }, () => []);
    place(0, -1, 0, full);
    line.forEach((v, i) => place(i + 1, v, 0, full));
    let row = [[focus, 0, full]];
    for (let depth = line.length + 1; depth <= rows && row.length; depth++) row = below(row, depth);
    for (const some of cells) some.forEach((cell) => (cell.tabIndex = -1));
    const chosen = cells[line.length][0];
    chosen.tabIndex = 0;
    if (refocus) chosen.focus();
  }

  // Draws the children of a row of nodes, and gives those that are wide enough to have children drawn.
  function below(row, depth) {
    const next = [];
    for (const [v, x, width] of row) {
      const [from, to] = tree.family(v);
      let sum = 0;
      for (let w = from; w < to; w++) sum += size(w);
      if (!sum) continue;
      let at = x;
      let block = x; // where narrow nodes began
      let narrow = 0;
      let error = 0; // of the narrow ones, weighed by their size
      const flush = () => {
        if (narrow && at - block >= 1) small(depth, block, at - block, narrow, error / (at - block));
        narrow = error = 0;
      };
      for (let w = from; w < to; w++) {
        const wide = (width * size(w)) / sum;
        if (wide < NARROWEST) {
          if (!narrow++) block = at;
          error += wide * (tree.error(w) || unknown(w));
        } else {
          flush();
          place(depth, w, at, wide);
          next.push([w, at, wide]);
        }
        at += wide;
      }
      flush();
    }
    return next;
  }

  function put(element, depth, x, width) {
    element.style.left = `${(100 * x) / full}%`; // in parts, since paper is not as wide as a screen
    element.style.width = `${(100 * width) / full}%`;
    element.style.setProperty("--row", depth);
    box.append(element);
  }

  function place(depth, v, x, width) {
    const name = v < 0 ? "All" : clipped(tree.label(v), 60);
    const cell = make("button", { type: "button", class: v < 0 ? "all" : `e${bin(tree.error(v))}`, "data-node": v });
    cell.setAttribute("aria-label", v < 0 ? "All" : told(v));
    if (width >= 44) cell.append(make("bdi", {}, name));
    if (v === focus) cell.setAttribute("aria-current", "true");
    cells[depth].push(cell);
    put(cell, depth, x, width);
  }

  function small(depth, x, width, number, error) {
    const title = `${whole.format(number)} small rows, error about ${percent(error)}`;
    put(make("span", { class: `small-ones e${bin(error)}`, title }), depth, x, width);
  }

  function zoom(v) {
    focus = v === focus && v >= 0 ? tree.parent[v] : v;
    draw(true);
  }

  function say(cell) {
    if (!cell) return;
    const v = Number(cell.dataset.node);
    const above = path(v).slice(0, -1).map((w) => clipped(tree.label(w), 40));
    pointed.textContent = v < 0 ? "All" : [...above, told(v)].join(" › ");
  }

  const cellOf = (event) => event.target.closest("button");
  box.addEventListener("click", (event) => cellOf(event) && zoom(Number(cellOf(event).dataset.node)));
  box.addEventListener("pointerover", (event) => say(cellOf(event)));
  box.addEventListener("focusin", (event) => say(cellOf(event)));
  box.addEventListener("keydown", (event) => {
    const cell = cellOf(event);
    const row = cells.findIndex((some) => some.includes(cell));
    if (row < 0) return;
    const place = cells[row].indexOf(cell);
    const middle = cell.offsetLeft + cell.offsetWidth / 2;
    const nearest = (some) => some?.reduce((a, b) => (Math.abs(b.offsetLeft + b.offsetWidth / 2 - middle) < Math.abs(a.offsetLeft + a.offsetWidth / 2 - middle) ? b : a), some[0]);
    const to = {
      ArrowRight: () => cells[row][place + 1],
      ArrowLeft: () => cells[row][place - 1],
      ArrowDown: () => nearest(cells[row + 1]),
      ArrowUp: () => nearest(cells[row - 1]),
    }[event.key];
    if (to) {
      event.preventDefault();
      const other = to();
      if (other) (cell.tabIndex = -1), (other.tabIndex = 0), other.focus();
    } else if (event.key === "Escape" && focus >= 0) zoom(tree.parent[focus]);
  });
  new ResizeObserver(() => draw(false)).observe(box);
  return () => ((pointed.textContent = ""), draw(false));
}
