// What a filter finds: `match` is, for each node, 1 if something below it matches, plus 2 if it or something above it does.
const FOUND = 300; // rows that a filter opens at most

function matches(tree, text, flagsOnly) {
  const wanted = text.toLowerCase();
  if (!wanted && !flagsOnly) return { match: null, found: 0, opened: [] };
  const match = new Uint8Array(tree.nodes);
  const hits = [];
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
  const opened = [];
  let budget = FOUND;
  for (let v = 0; v < tree.nodes && budget > 0; v++) {
    if (match[v] & 1) (budget -= Math.min(CHUNK, tree.children[v])), opened.push(v);
  }
  return { match, found: hits.length, opened };
}
