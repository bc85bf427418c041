"""The page of a large tree against that of a small one: how long until its table can be used.

Each page is loaded seven times, in turn, in one browser: from the start of the load until the rows are there and
answer, by the browser's own clock; and by ours, until a row was opened and its children are seen.
"""

import shutil
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from attributary.estimates import Estimates
from attributary.read_estimates import read_estimates
from attributary.report.page import ReportInputs, page
from bench.timing import heading
from bench.trees import four_levels

SIZES = (100, 100_000)
LOADS = 7
CHILDREN = '#grid tbody tr[aria-level="2"]'


def estimates(nodes: int) -> Estimates:
    """Generated estimates of a tree of four levels, with labels of their own at every node of the last one."""
    tree, rng = four_levels(nodes), np.random.default_rng(0)
    parent, level = tree.parent, tree.level
    labels = [f"label {v}" for v in range(len(tree))]
    columns: dict[str, Any] = {"node": np.arange(len(tree)), "parent": parent, "level": level}
    for i in range(tree.depth):
        above = np.arange(len(tree))
        for _ in range(tree.depth):
            above = np.where(level[above] > i, parent[above], above)
        columns[f"attribute {i}"] = pa.array(
            [labels[v] if level[v] == i else None for v in above.tolist()], pa.string()
        )
    variance = rng.choice([1.0, 2.0, 5.0], len(tree))
    estimate = rng.gamma(1.0, 100.0, len(tree))
    columns |= {"noisy": estimate + rng.normal(0, 2, len(tree)), "noise_variance": variance * 1.5}
    columns |= {"estimate": estimate, "variance": variance, "low": estimate - 2 * variance**0.5}
    columns |= {"high": estimate + 2 * variance**0.5, "correction": rng.normal(0, 1, len(tree))}
    return read_estimates(pa.table(columns), "generated")


def load(browser: Any, path: Path) -> tuple[float, float]:
    """Milliseconds until the table can be used, and until a row was opened."""
    tab = browser.new_page()
    start = time.perf_counter()
    tab.goto(path.as_uri(), wait_until="commit")
    tab.wait_for_selector("html[data-ready=table]", state="attached")
    tab.evaluate("document.querySelector('#grid tbody tr').click()")
    tab.wait_for_selector(CHILDREN)
    seen = 1000 * (time.perf_counter() - start)
    usable = tab.evaluate("performance.getEntriesByName('usable')[0].startTime")
    tab.close()
    return float(usable), seen


def main() -> None:
    from playwright.sync_api import sync_playwright

    heading("The page of a large tree: milliseconds until its table can be used, median of seven loads (least to most)")
    chromium = shutil.which("chromium")
    if not chromium:
        sys.exit("this benchmark needs chromium")
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        paths = {}
        for nodes in SIZES:
            start = time.perf_counter()
            html = page(ReportInputs(measures={"count": estimates(nodes)})).html
            took = time.perf_counter() - start
            paths[nodes] = Path(folder, f"{nodes}.html")
            paths[nodes].write_text(html, encoding="utf-8")
            print(f"{nodes:9,} nodes: made in {took:.1f} s, {len(html.encode()) / 1e6:.2f} MB", flush=True)
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        for path in paths.values():
            load(browser, path)
        took_by = {nodes: [] for nodes in SIZES}
        for _ in range(LOADS):
            for nodes, path in paths.items():
                took_by[nodes].append(load(browser, path))
        browser.close()
    medians = {}
    for nodes, loads in took_by.items():
        for which, what in enumerate(("usable", "a row opened, seen from outside")):
            some = sorted(took[which] for took in loads)
            medians[nodes, which] = statistics.median(some)
            print(f"{nodes:9,} nodes: {medians[nodes, which]:7.0f} ms ({some[0]:.0f} to {some[-1]:.0f}) {what}")
    small, large = SIZES
    print(
        f"ratio: {medians[large, 0] / medians[small, 0]:.2f}, {medians[large, 1] / medians[small, 1]:.2f} from outside"
    )


if __name__ == "__main__":
    main()
