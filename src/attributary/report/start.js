// Everything begins here, once the page is read; the icicle when it comes near.
if (document.getElementById("data")) {
  const tree = await unpack();
  const table = treeTable(tree);
  listen(table);
  table.redraw();
  document.documentElement.dataset.ready = "table";
  performance.mark("usable");
  let redraw = null;
  const draw = () => (redraw ??= icicle(tree));
  const near = new IntersectionObserver((seen) => seen.some((s) => s.isIntersecting) && (near.disconnect(), draw()), { rootMargin: "600px" });
  near.observe(document.getElementById("icicle"));
  addEventListener("beforeprint", draw);
  switchMeasures((k) => {
    tree.take(k);
    table.retake();
    redraw?.();
  });
} else switchMeasures(() => {});
