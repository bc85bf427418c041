// What is looked at is in the address, so that it can be kept, sent to another tab, and gone back to.
const DEFAULTS = {
  tab: "", measure: "", node: "", find: "", level: "", sort: "estimate", down: "", page: "0",
  epsilon: "", tau: "", share: "", target: "", noise: "", neighbours: "", fans: "", conversions: "", seed: "1",
};
const UPWARD = ["label", "order"]; // sorted from the first to the last unless told otherwise

function state() {
  const given = new URLSearchParams(location.search);
  const now = Object.fromEntries(Object.entries(DEFAULTS).map(([name, value]) => [name, given.get(name) ?? value]));
  now.down ||= UPWARD.includes(now.sort) ? "0" : "1";
  return now;
}

function address(changes) {
  const next = { ...state(), ...changes };
  if (next.down === (UPWARD.includes(next.sort) ? "0" : "1")) next.down = "";
  const kept = Object.entries(next).filter(([name, value]) => value !== DEFAULTS[name]);
  return `?${new URLSearchParams(kept)}`;
}

function go(changes, replace = false) {
  const to = address(changes);
  if (to === location.search || (to === "?" && !location.search)) return;
  history[replace ? "replaceState" : "pushState"](null, "", to === "?" ? location.pathname : to);
  dispatchEvent(new Event("moved"));
}

// A link that changes the address without loading the page; in a new tab it is an ordinary link.
function link(changes, attributes, ...content) {
  const made = make("a", { ...attributes, href: address(changes) }, ...content);
  made.addEventListener("click", (event) => {
    if (event.button || event.ctrlKey || event.metaKey || event.shiftKey || event.altKey) return;
    event.preventDefault();
    go(changes);
  });
  return made;
}
