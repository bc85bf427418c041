"""Several breakdowns: denoised together beside each by itself, planned, and counted in one pass."""

import resource
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import numpy as np

from attributary import Spec, Tree, denoise
from attributary.denoising.crossed import crossed
from attributary.denoising.joint import nonnegative_fit
from attributary.denoising.meeting import Breakdown, Meeting
from attributary.logs.count import count
from bench.timing import heading


def main() -> None:
    crossing()
    upper_levels()
    fit()
    counting()


def effort(call: Callable[[], Any], times: int = 5) -> float:
    """Seconds of processor time of the cheapest of several calls."""
    taken = []
    for _ in range(times):
        start = time.process_time()
        call()
        taken.append(time.process_time() - start)
    return min(taken)


def product(*fans: int) -> Tree:
    """A tree with these fan-outs, top to bottom; the first is the number of roots."""
    parents, first, size = [np.full(fans[0], -1)], 0, fans[0]
    for fan in fans[1:]:
        parents.append(np.repeat(np.arange(first, first + size), fan))
        first, size = first + size, size * fan
    return Tree.from_parents(np.concatenate(parents))


def figures(tree: Tree, seed: int) -> Breakdown:
    rng = np.random.default_rng(seed)
    return Breakdown(tree, rng.normal(size=len(tree)), rng.uniform(1, 9, len(tree)))


def plain(*each: Breakdown) -> float:
    """Processor time of denoising each by itself, counts and variances."""

    def both(b: Breakdown) -> None:
        est = denoise(b.tree, b.noisy, b.variance)
        _ = est.count[0], est.variance[0]

    return sum(effort(lambda: both(b), 9) for b in each)  # noqa: B023


def crossing() -> None:
    heading("10^6 cells under two crossed breakdowns, all variances (bar: 250 plain denoises, 2 GB)")
    n = 1000
    cells, months = figures(product(n, n), 1), figures(product(n), 2)
    meeting = Meeting(0, 1, np.tile(np.arange(n), n), np.arange(n))
    ours, alone = effort(lambda: crossed([cells, months], [meeting]), 3), plain(cells)
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    print(f"1000 x 1000: {ours:.2f} s, {ours / alone:.0f} plain denoises ({alone * 1e3:.1f} ms), {memory:.1f} GB")


def upper_levels() -> None:
    heading("Breakdowns that share only roots (bar: 1.5 times the sum of their trees)")
    one, other = figures(product(100, 100, 100), 3), figures(product(100, 300, 30), 4)
    meeting = Meeting(0, 1, np.arange(100), np.arange(100), (0, 0))
    ours, alone = effort(lambda: crossed([one, other], [meeting]), 9), plain(one, other)
    print(f"10^6 and 0.93 x 10^6 nodes: {ours * 1e3:.1f} ms, {ours / alone:.2f} times {alone * 1e3:.1f} ms")


def fit() -> None:
    heading("The non-negative fit at its largest, 1,000 leaves")
    one, other = figures(product(20, 40), 5), figures(product(40, 4), 6)
    meeting = Meeting(0, 1, np.tile(np.arange(40), 20), np.repeat(np.arange(40), 4))
    print(f"800 and 160 leaves: {effort(lambda: nonnegative_fit([one, other], [meeting]), 1):.1f} s")


TOML = """
epsilon = 4
{attributes}
[[breakdown]]
attributes = ["campaign", "location", "day"]
[[breakdown]]
attributes = ["location", "day"]
[[breakdown]]
attributes = ["day"]
[logs]
attributed = "log.parquet"
converted = "converted"
"""
ATTRIBUTES = '[[attribute]]\nname = "campaign"\n[[attribute]]\nname = "location"\n[[attribute]]\nname = "day"\n'


def counting(rows: int = 10_000_000) -> None:
    heading(f"Counting three breakdowns of {rows:,} attributed rows (bar: 1.6 times bare DuckDB with GROUPING SETS)")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "log.parquet"
        duckdb.execute(
            f"COPY (SELECT 'c' || (hash(i) % 50) AS campaign, 'l' || (hash(i + 1) % 200) AS location, "
            f"'d' || (hash(i + 2) % 30) AS day, hash(i + 3) % 20 = 0 AS converted FROM range({rows}) t(i)) TO '{path}'"
        )
        spec = Spec.parse(TOML.format(attributes=ATTRIBUTES))
        bare = (
            f"SELECT campaign, location, day, count(*), count(*) FILTER (converted) FROM '{path}' "
            "GROUP BY GROUPING SETS ((campaign, location, day), (location, day), (day))"
        )
        theirs = effort(lambda: duckdb.execute(bare).to_arrow_table(), 3)
        ours = effort(lambda: count(spec, folder), 3)
        print(f"ours {ours:.2f} s, bare {theirs:.2f} s: {ours / theirs:.2f} times")
