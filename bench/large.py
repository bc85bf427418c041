"""Trees larger than memory: `run` from a Parquet log to files, root by root, and the most memory that it takes."""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from bench.logs import make
from bench.timing import heading

LEAVES = (1_000_000, 10_000_000, 100_000_000)
BAR = 2000  # MB
PER_PATH = 10  # leaves of a known path
SPEC = (
    "epsilon = 4\n"
    + "".join(f'[[attribute]]\nname = "{name}"\n' for name in ("campaign", "location", "day"))
    + f"""[[attribute]]
name = "kind"
unknown = true
domain = {[str(kind) for kind in range(PER_PATH)]}
[logs]
attributed = "rows.parquet"
converted = "converted"
"""
)
RUN = """
import os, sys
from attributary.cli import main
try:
    main(sys.argv[1:])
finally:
    with open("/proc/self/status") as status:  # ru_maxrss has the parent's peak, which a child begins with
        print(next(line.split()[1] for line in status if line.startswith("VmHWM")), sum(os.times()[:2]))
"""


def main(most: int = LEAVES[-1]) -> None:
    """All figures; fewer leaves are for a try. Logs and runs are made in a temporary folder, and removed."""
    folder = tempfile.mkdtemp(prefix="attributary-bench-")
    try:
        heading("run, with --memory 1GB: processor time of all cores, and peak memory (bar 2,000 MB)")
        for leaves in (size for size in LEAVES if size <= most):
            for roots in (max(4, leaves // 15_000), max(4, leaves // 1_000_000)):
                seconds, peak, written = measured(folder, leaves, roots)
                print(
                    f"{leaves:>12,} leaves, {roots:>6,} roots {seconds:8.1f} s {peak:8,.0f} MB "
                    f"({written / 1e6:,.0f} MB written)",
                    flush=True,
                )
                assert peak < BAR
    finally:
        shutil.rmtree(folder)


def measured(folder: str, leaves: int, roots: int) -> tuple[float, float, int]:
    """Seconds, the most megabytes, and the bytes of the tables, with two rows for each known path."""
    make(
        f"""COPY (
        SELECT p % {roots} AS campaign, p // {roots} % 50 AS location, p // {50 * roots} AS day,
            RANDOM() < 0.3 AS converted, CAST(CAST(FLOOR(RANDOM() * {PER_PATH}) AS INT) AS VARCHAR) AS kind
        FROM range({leaves // PER_PATH}) AS paths(p), range(2)
    ) TO '{folder}/rows.parquet'"""
    )
    Path(folder, "spec.toml").write_text(SPEC)
    how = ["run", "spec.toml", "-o", "out", "--again", "-q", "--memory", "1GB"]
    done = subprocess.run([sys.executable, "-c", RUN, *how], cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(done.stderr)
    peak, seconds = done.stdout.split()
    written = sum(entry.stat().st_size for entry in os.scandir(Path(folder, "out")))
    return float(seconds), int(peak) / 1024, written


if __name__ == "__main__":
    main(int(float(sys.argv[1])) if len(sys.argv) > 1 else LEAVES[-1])
