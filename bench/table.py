"""A noisy table from file to file, against reading and writing it with DuckDB; both as commands."""

import os
import shutil
import subprocess
import sys
import tempfile
import time

from bench.logs import make
from bench.timing import heading

ROWS = 1_000_000
REPEATS = 5
BAR = 4
OURS = "denoise --table rows.csv --levels region,store,week --value noisy --noise laplace:scale=3 -q -o estimates.csv"
BARE = "import duckdb; duckdb.connect().execute(\"COPY (FROM 'rows.csv') TO 'copy.csv' (HEADER true)\")"
COMMAND = f"from attributary.cli import main; main({OURS.split()!r})"
MEASURED = """
try:
    {code}
finally:
    with open("/proc/self/status") as status:  # ru_maxrss has the parent's peak, which a child begins with
        print(next(line.split()[1] for line in status if line.startswith("VmHWM")))
"""


def main(rows: int = ROWS) -> None:
    """All figures; fewer rows are for a try. The tables are made in a temporary folder, and removed."""
    folder, here = tempfile.mkdtemp(prefix="attributary-bench-"), os.getcwd()
    os.chdir(folder)
    try:
        file_to_file(rows)
    finally:
        os.chdir(here)
        shutil.rmtree(folder)


def file_to_file(rows: int) -> None:
    heading(f"A CSV of {rows:,} rows denoised from file to file, against a copy by DuckDB (best of {REPEATS})")
    regions = max(1, rows // 10_101)
    make(f"""COPY (
        SELECT 'region ' || r AS region, CASE WHEN s > 0 THEN 'store ' || (100 * r + s) END AS store,
            CASE WHEN w > 0 THEN 'week ' || w END AS week,
            ROUND(CASE WHEN s = 0 THEN 400000 WHEN w = 0 THEN 4000 ELSE 40 END + 20 * RANDOM() - 10, 2) AS noisy,
            'owner ' || (7 * r + s) % 13 AS owner
        FROM range({regions}) AS regions(r), range(101) AS stores(s), range(101) AS weeks(w)
        WHERE s > 0 OR w = 0 ORDER BY r, s, w
    ) TO 'rows.csv' (HEADER true)""")
    theirs, ours = [], []
    for _ in range(REPEATS):  # in turns
        theirs.append(timed(BARE))
        ours.append(timed(COMMAND))
    (bare, bare_peak), (took, peak) = min(theirs), min(ours)
    read, copied, written = (os.path.getsize(name) / 1e6 for name in ("rows.csv", "copy.csv", "estimates.csv"))
    print(f"DuckDB     {bare:6.2f} s {bare_peak:6,.0f} MB   ({read:.0f} MB read, {copied:.0f} MB written)")
    print(f"denoise    {took:6.2f} s {peak:6,.0f} MB   ({read:.0f} MB read, {written:.0f} MB written)")
    print(f"ratio      {took / bare:6.2f}x (bar {BAR}x)", flush=True)


def timed(code: str) -> tuple[float, float]:
    """Seconds of a process, from its start to its end, and the most megabytes of memory."""
    start = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-c", MEASURED.format(code=code)], capture_output=True, text=True, check=False
    )
    took = time.perf_counter() - start
    if done.returncode:
        sys.exit(done.stderr)
    return took, int(done.stdout) / 1024


if __name__ == "__main__":
    main(int(float(sys.argv[1])) if len(sys.argv) > 1 else ROWS)
