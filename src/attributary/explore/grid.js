// The table of counts: its heads, and a row for each node.
const ALONE = [
  ["estimate", "Estimate", "num"], ["", "Interval", "interval"], ["", "Noisy", "num"], ["correction", "Correction", "num"], ["error", "Error", "num"],
];
const COMPARED = [
  ["estimate", "Now", "num"], ["", "Interval", "interval"], ["", "Before", "num"], ["change", "Change", "num"], ["significance", "Is it noise?", ""],
];

function heads(about, now) {
  const line = document.querySelector("#grid thead tr");
  const first = ["label", now.find || now.level ? "Row" : "Label", ""];
  const all = [first, ...(about.before ? COMPARED : ALONE), ...about.extras.map(([, key, words]) => [key, words, "num"])];
  const unit = (sort) => (sort === "estimate" && about.unit ? `, ${about.unit}` : "");
  line.replaceChildren(...all.map(([sort, words, kind]) => {
    const head = make("th", { scope: "col", role: "columnheader", class: kind });
    if (!sort) {
      head.append(words);
      return head;
    }
    const button = make("button", { type: "button" }, words + unit(sort));
    button.addEventListener("click", () => {
      const same = now.sort === sort;
      const upward = UPWARD.includes(sort);
      go({ sort, down: same ? (now.down === "1" ? "0" : "1") : upward ? "0" : "1", page: "0" });
      document.querySelectorAll("#grid thead th")[all.findIndex((h) => h[0] === sort)]?.querySelector("button")?.focus();
    });
    if (now.sort === sort) head.setAttribute("aria-sort", now.down === "1" ? "descending" : "ascending");
    head.append(button);
    return head;
  }));
}

const number = (x) => (x === null || x === undefined ? NaN : x);

const scale = (rows) => scaled(rows.flatMap((row) => [row.low, row.high, row.noisy, row.old].map(number)));

function rowOf(row, at, compared, flat) {
  const line = make("tr", { role: "row" });
  const name = make("span", { class: "name" });
  const labels = flat ? row.path : [[row.id, row.label]];
  labels.forEach(([id, label], i) => {
    const last = i === labels.length - 1;
    const inner = last ? labelled(label) : make("bdi", {}, clipped(label ?? "", 40));
    if (i) name.append(make("span", { class: "step", "aria-hidden": "true" }, "›"));
    const opens = !last || row.children;
    name.append(opens ? link({ node: id, find: "", level: "", page: "0" }, last ? { class: "last" } : {}, inner) : inner);
  });
  if (row.children) name.append(make("span", { class: "made-of" }, `${count(row.children).replace(".0", "")} below`));
  line.append(make("th", { scope: "row", role: "rowheader" }, name));
  const cell = (head, kind, ...content) => line.append(make("td", { role: "cell", class: kind, "data-head": head }, ...content));
  const gone = row.estimate === null;
  cell("", "num estimate", gone ? "–" : figure(row.estimate));
  if (gone) cell("", "interval", "");
  else {
    const drawn = { to: row.estimate, low: row.low, high: row.high, raw: compared ? row.old : row.noisy, tick: row.estimate };
    cell("", "interval", bar(at, drawn), make("span", { class: "range" }, `${bound(row, row.low)} to ${bound(row, row.high)}`));
  }
  if (compared) {
    cell("before", "num minor", figure(number(row.old)));
    cell("change", "num minor change", ...changed(row));
    cell("", "minor verdict-cell", ...judged(row));
    expected(cell, row);
    return line;
  }
  cell("noisy", "num minor", row.noisy === null ? "not measured" : figure(row.noisy));
  const flag = row.implausible ? [make("strong", { class: "flag" }, "implausible"), " "] : [];
  if (row.implausible) line.classList.add("flagged");
  cell("correction", "num minor", ...flag, signed(number(row.correction)));
  cell("error", "num minor", percent(number(row.error)));
  expected(cell, row);
  return line;
}

function expected(cell, row) {
  for (const [name, , words] of about.extras) cell(words.toLowerCase(), "num minor", wholePercent(number(row[name])));
}

const plus = (x) => (x > 0 ? `+${figure(x)}` : figure(x));
const plusPercent = (x) => (x > 0 ? `+${percent(x)}` : percent(x).replace("-", "−"));
const relative = (row) => (row.relative_low === null ? "" : `${plusPercent(row.relative)} (${plusPercent(row.relative_low)} to ${plusPercent(row.relative_high)})`);
const changed = (row) => (row.change === null ? ["–"] : [plus(row.change), make("span", { class: "spread" }, ` ± ${figure(row.spread)}`), make("span", { class: "spread percents" }, relative(row))]);

function judged(row) {
  const kind = { grew: "sure", fell: "likely" }[row.verdict] ?? "noise";
  const shown = [make("span", { class: `judge ${kind}` }, row.verdict)];
  if (row.z !== null && row.z !== undefined) shown.push(make("span", { class: "spread" }, ` ${signed(row.z)}`));
  return shown;
}
