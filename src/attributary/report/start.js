// Everything begins here, once the page is read: the table, then the icicle, before anyone scrolls to it.
if (document.getElementById("data")) {
  const tree = await unpack();
  const table = treeTable(tree);
  listen(table);
  table.redraw();
  document.documentElement.dataset.ready = "table";
  performance.mark("usable");
  let redraw = null;
  const draw = () => (redraw ??= icicle(tree));
  setTimeout(draw); // once the table is on the screen
  addEventListener("beforeprint", draw);
  switchMeasures((k) => {
    tree.take(k);
    table.retake();
    redraw?.();
  });
} else switchMeasures(() => {});
