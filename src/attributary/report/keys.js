// What mouse and keyboard do to the table.
function listen(table) {
  const { body, grid, toggle, focusRow } = table;

  body.addEventListener("click", (event) => {
    const line = event.target.closest("tr[data-node]");
    if (!line || String(getSelection())) return; // who marks text does not want to open rows
    toggle(line);
    focusRow(line);
  });

  body.addEventListener("keydown", (event) => {
    const line = event.target.closest("tr");
    if (event.target !== line || event.ctrlKey || event.altKey || event.metaKey) return;
    const moves = {
      ArrowDown: () => focusRow(line.nextElementSibling),
      ArrowUp: () => focusRow(line.previousElementSibling),
      Home: () => focusRow(body.firstElementChild),
      End: () => focusRow(body.lastElementChild),
      Enter: () => (line.querySelector("button") ? line.querySelector("button").click() : toggle(line)),
      " ": () => toggle(line),
      ArrowRight: () => (line.ariaExpanded === "false" ? toggle(line, true) : line.ariaExpanded && focusRow(line.nextElementSibling)),
      ArrowLeft: () => (line.ariaExpanded === "true" ? toggle(line, false) : focusRow(above(line))),
    };
    if (!moves[event.key]) return;
    event.preventDefault();
    moves[event.key]();
  });

  function above(line) {
    let other = line.previousElementSibling;
    while (other && Number(other.ariaLevel) >= Number(line.ariaLevel)) other = other.previousElementSibling;
    return other;
  }

  grid.tHead.addEventListener("click", (event) => {
    const head = event.target.closest("th");
    if (head && event.target.closest("button")) table.sortBy(head.dataset.sort);
  });

  const words = document.getElementById("filter");
  const flags = document.getElementById("only-flags");
  let waiting = 0;
  const refilter = () => table.filter(words.value.trim(), flags.checked);
  words.addEventListener("input", () => {
    clearTimeout(waiting);
    waiting = setTimeout(refilter, 120);
  });
  flags.addEventListener("change", refilter);
  document.getElementById("deeper").addEventListener("click", table.deeper);
  document.getElementById("close").addEventListener("click", table.closeAll);
}
