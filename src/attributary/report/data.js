// The data: typed columns in level order. Labels of a level are parsed when one of them is first asked for.
const TYPES = { u1: Uint8Array, u2: Uint16Array, u4: Uint32Array, f4: Float32Array, f8: Float64Array };
const PARTS = { i1: Int8Array, i2: Int16Array, i4: Int32Array }; // whole parts of one; the least number is nan
const FIGURES = ["estimate", "moved", "below", "above", "correction", "seen"];

async function unpack() {
  const about = JSON.parse(document.getElementById("about").textContent);
  const packed = bytes(document.getElementById("data").textContent);
  const inflate = new DecompressionStream("deflate");
  const unpacked = new Response(inflate.readable).arrayBuffer();
  const writer = inflate.writable.getWriter();
  writer.write(packed); // all at once: in pieces it would take as many turns
  writer.close();
  const buffer = await unpacked;
  const columns = {};
  for (const [name, type, at, length] of about.columns) {
    const kind = TYPES[type] ?? PARTS[type] ?? Uint8Array;
    const values = new kind(buffer, at, length / kind.BYTES_PER_ELEMENT);
    const [plain, k] = name.split(".");
    const part = k ? about.measures[k].part : about.part;
    columns[name] = FIGURES.includes(plain) || about.extras.some(([key]) => key === plain) ? figure(values, PARTS[type] && part) : values;
  }
  return asTree(about, columns);
}

function bytes(text) {
  if (Uint8Array.fromBase64) return Uint8Array.fromBase64(text);
  const raw = atob(text);
  const made = new Uint8Array(raw.length);
  for (let i = 0; i < raw.length; i++) made[i] = raw.charCodeAt(i);
  return made;
}

// A column as a function of the node, so that only what is looked at is computed.
function figure(values, part) {
  if (!part) return (v) => values[v];
  const none = -(2 ** (8 * values.BYTES_PER_ELEMENT - 1));
  return (v) => (values[v] === none ? NaN : values[v] / part);
}

function asTree(about, columns) {
  const nodes = columns.children.length;
  const start = [0];
  for (const size of about.sizes) start.push(start[start.length - 1] + size);
  const roots = about.sizes[0];
  const first = new Uint32Array(nodes + 1); // the children of v are first[v] up to first[v + 1]
  const parent = new Int32Array(nodes).fill(-1);
  first[0] = roots;
  for (let v = 0; v < nodes; v++) {
    first[v + 1] = first[v] + columns.children[v];
    for (let w = first[v]; w < first[v + 1]; w++) parent[w] = v;
  }
  const words = [];
  const level = (v) => {
    let i = 0;
    while (start[i + 1] <= v) i++;
    return i;
  };
  const dictionary = (i) => (words[i] ??= JSON.parse(new TextDecoder().decode(columns[`words${i}`])));
  const label = (v) => {
    const i = level(v);
    return dictionary(i)[columns[`code${i}`][v - start[i]]];
  };
  const family = (v) => (v < 0 ? [0, roots] : [first[v], first[v + 1]]); // -1 stands above the roots
  const left = (v) => (v < 0 ? about.roots - roots : (columns.left?.[v] ?? 0));
  const tree = { ...columns, about, nodes, start, first, parent, roots, level, dictionary, label, family, left };
  tree.take = (k) => Object.assign(tree, figuresOf(about, columns, k));
  return tree.take(0);
}

// The figures of one measure; those of others stand under the same names with a number behind them.
function figuresOf(about, columns, k) {
  const measure = about.measures?.[k] ?? about;
  const of = (name) => columns[k ? `${name}.${k}` : name];
  const [estimate, moved, below, above] = ["estimate", "moved", "below", "above"].map(of);
  const size = of("size");
  const rounded = (x) => Math.round(x * measure.part) / measure.part; // sums of tenths are tenths
  const digits = measure.digits ?? 1;
  return {
    measure, estimate, below, above,
    correction: of("correction"), seen: of("seen"), flag: of("flag"),
    extras: about.extras.filter(([key]) => of(key)).map(([key, head]) => ({ key, head, of: of(key) })), // in percent
    zero: of("zero"),
    noisy: (v) => rounded(estimate(v) + moved(v)),
    low: (v) => rounded(estimate(v) - below(v)),
    high: (v) => rounded(estimate(v) + above(v)),
    size: size ? (v) => size[v] : estimate,
    error: (v) => Math.sqrt(of("variance")[v]) / Math.max(measure.tau, estimate(v)),
    count: (x) => count(x, digits),
    shown: (v) => (measure.whole ? whole.format(estimate(v)).replace("-", "−") : count(estimate(v), digits)),
    unit: measure.unit ? `\u00a0${measure.unit}` : "",
  };
}
