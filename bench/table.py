"""A noisy table from file to file, against DuckDB reading and writing the table that comes out; both as commands."""

import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from statistics import median
from typing import NamedTuple

from bench.logs import make
from bench.timing import heading

ROWS = (100_000, 1_000_000)
REPEATS = 5
BAR = 3
OURS = "--levels region,store,week --value noisy --noise laplace:scale=3 -q"
BARE = "import duckdb; duckdb.connect().execute(\"COPY (FROM '{path}') TO 'copy.{ending}' ({how})\")"
HOW = {"csv": "HEADER true", "parquet": "FORMAT parquet"}


class Took(NamedTuple):
    processor: float  # seconds of all cores
    clock: float


def main(most: int = ROWS[-1]) -> None:
    """All figures; fewer rows are for a try. The tables are made in a temporary folder, and removed."""
    folder, here = tempfile.mkdtemp(prefix="attributary-bench-"), os.getcwd()
    os.chdir(folder)
    try:
        heading(f"Tables denoised from file to file, against copies by DuckDB (in turns, medians of {REPEATS})")
        for rows in (number for number in ROWS if number <= most):
            for ending in HOW:
                file_to_file(rows, ending)
    finally:
        os.chdir(here)
        shutil.rmtree(folder)


def file_to_file(rows: int, ending: str) -> None:
    regions = max(1, rows // 10_101)
    make(f"""COPY (
        SELECT 'region ' || r AS region, CASE WHEN s > 0 THEN 'store ' || (100 * r + s) END AS store,
            CASE WHEN w > 0 THEN 'week ' || w END AS week,
            ROUND(CASE WHEN s = 0 THEN 400000 WHEN w = 0 THEN 4000 ELSE 40 END + 20 * RANDOM() - 10, 2) AS noisy,
            'owner ' || (7 * r + s) % 13 AS owner
        FROM range({regions}) AS regions(r), range(101) AS stores(s), range(101) AS weeks(w)
        WHERE s > 0 OR w = 0 ORDER BY r, s, w
    ) TO 'rows.{ending}' ({HOW[ending]})""")
    ours = ["-m", "attributary.cli", "denoise", "--table", f"rows.{ending}", *OURS.split(), "-o", f"estimates.{ending}"]
    read, written = (["-c", BARE.format(path=f"{name}.{ending}", ending=ending, how=HOW[ending])]
                     for name in ("rows", "estimates"))  # fmt: skip
    took = [[measured(command) for command in (ours, written, read)] for _ in range(REPEATS)]
    mine, of_output, of_input = (Took(*map(median, zip(*each, strict=True))) for each in zip(*took, strict=True))
    sizes = (os.path.getsize(f"{name}.{ending}") / 1e6 for name in ("rows", "estimates"))
    print(f"{rows:,} rows, {ending}: {' MB read, '.join(f'{size:.0f}' for size in sizes)} MB written", flush=True)
    for name, one in (("denoise", mine), ("copy of what is written", of_output), ("copy of what is read", of_input)):
        ratio = "" if one is mine else f"   {mine.processor / one.processor:5.2f}x and {mine.clock / one.clock:5.2f}x"
        bar = f"   (bar {BAR}x)" if one is of_output else ""
        print(
            f"  {name:24} {one.processor:6.2f} s of processor, {one.clock:6.2f} s on the clock{ratio}{bar}", flush=True
        )


def measured(command: list[str]) -> Took:
    """What a process takes, from its start to its end."""
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    done = subprocess.run([sys.executable, *command], capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(done.stderr)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    processor = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Took(processor, time.perf_counter() - start)


if __name__ == "__main__":
    main(int(float(sys.argv[1])) if len(sys.argv) > 1 else ROWS[-1])
