// Numbers and labels for the eye; the same rules as in the rest of the page.
const whole = new Intl.NumberFormat("en-US", { maximumFractionDigits: 0 });
const tenth = new Intl.NumberFormat("en-US", { minimumFractionDigits: 1, maximumFractionDigits: 1 });

function count(x, digits = 1) {
  if (Number.isNaN(x)) return "–";
  const shown = digits > 1 ? fixed(x, digits) : Math.abs(x) >= 99.95 ? whole.format(x) : tenth.format(x);
  return shown.replace(/^-(0(\.0+)?)$/, "$1").replace("-", "−");
}

const fixed = (x, digits) => x.toLocaleString("en-US", { minimumFractionDigits: digits, maximumFractionDigits: digits });

function percent(part) {
  if (!Number.isFinite(part)) return Number.isNaN(part) ? "–" : "∞";
  const x = 100 * part;
  if (x === 0) return "0\u00a0%";
  if (Math.abs(x) < 0.001) return "< 0.001\u00a0%";
  const digits = Math.min(Math.max(1 - Math.floor(Math.log10(Math.abs(x))), 0), 3);
  return `${fixed(x, digits)}\u00a0%`;
}

const wholePercent = (part) => (Number.isNaN(part) ? "–" : `${Math.round(100 * part)}\u00a0%`);

function signed(x) {
  if (Number.isNaN(x)) return "–";
  if (x === 0) return "0";
  return `${x < 0 ? "−" : "+"}${tenth.format(Math.abs(x))}\u00a0×`;
}

function between(tree, v) {
  const bound = tree.zero?.(v) >= 0 ? whole.format : tree.count; // a posterior's bounds are whole numbers
  return Number.isNaN(tree.estimate(v)) ? "–" : `${bound(tree.low(v))} to ${bound(tree.high(v))}`;
}

// Characters that cannot be seen become pictures of themselves; all others stay.
const visible = (text) =>
  text.replace(/[\u0000-\u001f\u007f]/g, (c) => (c === "\u007f" ? "␡" : String.fromCharCode(0x2400 + c.charCodeAt(0))));

function clipped(text, most) {
  const shown = visible(text) || "(empty)";
  return shown.length > most ? `${shown.slice(0, most)}…` : shown;
}

// An element with attributes and content. Text is only ever text.
function make(name, attributes = {}, ...content) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  element.append(...content);
  return element;
}
