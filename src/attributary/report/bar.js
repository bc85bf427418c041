// A label, and a figure as a bar with its interval, as table rows have them.
const LONG = 120; // characters from which a label scrolls

function labelled(text) {
  if (text === null || text === "") return make("i", { class: "empty" }, "(empty)");
  const long = text.length > LONG;
  return make("bdi", long ? { class: "long", tabindex: "0" } : {}, visible(text));
}

// Where a figure stands on a bar that holds all of these and 0; what is not known has no place, and takes none.
function scaled(figures) {
  let least = 0;
  let most = 0;
  for (const x of figures) {
    if (!Number.isFinite(x)) continue;
    least = Math.min(least, x);
    most = Math.max(most, x);
  }
  return (x) => `${Math.min(Math.max((100 * (x - least)) / (most - least || 1), 0), 100)}%`;
}

function bar(at, { from = 0, to, low, high, raw, tick }) {
  const box = make("span", { class: "bar", "aria-hidden": "true" });
  const mark = (name, x) => {
    const line = make("i", { class: name });
    line.style.left = at(x);
    box.append(line);
    return line;
  };
  const known = (x) => x !== null && x !== undefined && !Number.isNaN(x);
  mark("zero", 0);
  mark("fill", Math.min(from, to)).style.right = `calc(100% - ${at(Math.max(from, to))})`;
  if (known(low)) mark("span", low).style.right = `calc(100% - ${at(high)})`;
  if (known(raw)) mark("raw", raw);
  if (known(tick)) mark("tick", tick);
  return box;
}
