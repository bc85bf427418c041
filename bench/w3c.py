"""W3C Attribution: logs by devices and ledgers, against the Attribution Reporting API's path; a tree of 10⁷ nodes."""

import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from itertools import pairwise

import numpy as np

from bench.logs import ATTRIBUTES, make_two, measure
from bench.timing import heading

ROWS = 16_000_000
BAR = 3.0  # times the other path's processor time
ASKED = "\n".join(f'[[attribute]]\nname = "{name}"' for name in ATTRIBUTES)
LOGS = '\n[logs]\nwindow = "30d"\nimpressions = "i.parquet"\nconversions = "c.parquet"\nuser = "user"\ntime = "time"\n'
ARA = "epsilon = 4\n" + ASKED + LOGS
W3C = ASKED + '\n[api]\nkind = "w3c"\nsite_epsilon = 4\nconversions_per_epoch = {}\nscheme = "B"\n' + LOGS
INDEXES, DAYS, PRODUCTS = 1000, 365, 30
TREE = f"""
tau = 10
[[attribute]]
name = "campaign"
[[attribute]]
name = "day"
unknown = true
range = [1, {DAYS}]
[[attribute]]
name = "product"
unknown = true
range = [1, {PRODUCTS}]
[api]
kind = "w3c"
site_epsilon = 4
"""


def main(rows: int = ROWS) -> None:
    """All figures; fewer rows are for a try. The logs are made in a temporary folder, and removed."""
    folder, here = tempfile.mkdtemp(prefix="attributary-bench-"), os.getcwd()
    sys.path.insert(0, here)
    os.chdir(folder)
    try:
        logs(rows)
    finally:
        os.chdir(here)
        shutil.rmtree(folder)
    heading(f"A tree of {INDEXES:,} indexes by {DAYS} days by {PRODUCTS} products: planned, simulated, denoised")
    done = subprocess.run([sys.executable, "-m", "bench.w3c", "tree"], capture_output=True, text=True, check=False)
    print(done.stdout or done.stderr, flush=True)


def logs(rows: int) -> None:
    conversions = rows * 5 // 16
    heading(f"{conversions:,} conversions among {rows:,} impressions: processor time, and what 4 GB allow")
    make_two(rows)
    before = {}
    for name, spec in (("ARA", ARA), ("W3C, 1 per epoch", W3C.format(1)), ("W3C, 4 per epoch", W3C.format(4))):
        start = _children()
        took, peak, found = measure("ours", spec, "2GB" if name != "ARA" else "4GB")
        used = _children() - start
        before.setdefault("ARA", used)
        ratio = used / before["ARA"]
        print(
            f"{name:18} {took:7.2f} s, processor {used:7.2f} s, peak {peak:,.0f} MB, {found:,} conversions   "
            f"{ratio:.2f}x   (bar {BAR}x, 4,096 MB)",
            flush=True,
        )


def _children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def tree() -> None:
    """In a process of its own, whose peak is told."""
    from attributary import Spec, denoise, make_plan
    from attributary.measurements import Measurements
    from attributary.prior import Prior

    spec, rng = Spec.parse(TREE), np.random.default_rng(0)
    marks = [("", time.perf_counter(), time.process_time())]

    def mark(name: str) -> None:
        marks.append((name, time.perf_counter(), time.process_time()))

    asked = spec.tree({"campaign": [f"campaign {i}" for i in range(INDEXES)]})
    leaves = asked.slice(asked.depth - 1)
    count = np.zeros(len(asked))
    rate = 20 * rng.pareto(1.2, INDEXES) / DAYS
    count[leaves] = rng.poisson(np.repeat(rate, DAYS * PRODUCTS) / 4)
    count = asked.sum_up(count)
    mark("tree and counts")
    plan = make_plan(spec, asked, Prior(count, protected=True))
    mark("planned")
    noisy = Measurements.simulate(plan, asked, count, rng)
    mark("simulated")
    est = denoise(asked, noisy)
    off = float(np.abs(est.count - count).mean())
    mark("denoised")
    for (_, wall, used), (name, later, more) in pairwise(marks):
        print(f"{name:16} {later - wall:7.2f} s, processor {more - used:7.2f} s")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(
        f"{len(asked):,} nodes, scheme {plan.spec.api.scheme}: {marks[-1][1] - marks[0][1]:.1f} s in all "  # type: ignore[union-attr]
        f"(bar 60 s), peak {peak:,.0f} MB (bar 4,096 MB); error {plan.expected.tree.plan:.1%}, off by {off:.3g}, "
        f"{json.dumps(dict(zip(plan.levels, [round(float(x), 3) for x in plan.epsilon()], strict=True)))}"
    )


if __name__ == "__main__":
    tree() if sys.argv[1:] == ["tree"] else main(int(float(sys.argv[1])) if len(sys.argv) > 1 else ROWS)
