"""Counting and attribution on DuckDB: against bare SQL for the same groups, within a memory limit, and as logs grow."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from math import log
from pathlib import Path

from attributary.logs.duckdb import print_no_progress
from bench.timing import heading

ROWS = 16_000_000
REPEATS = 3
ATTRIBUTES = ("partner", "country", "device", "age_group")
PATH = ", ".join(ATTRIBUTES)
SPEC = (
    "\n".join(["epsilon = 4", *(f'[[attribute]]\nname = "{name}"' for name in ATTRIBUTES)])
    + """
[[attribute]]
name = "delay"
unknown = true
bucket = "2d"
buckets = 15
[logs]
window = "30d"
"""
)
ONE = SPEC + 'converted = "conversion"\ndelay = "delay"\nattributed = '
TWO = SPEC + 'impressions = "i.parquet"\nconversions = "c.parquet"\nuser = "user"\ntime = "time"\n'
LEAVES = """
epsilon = 4
[[attribute]]
name = "a"
[[attribute]]
name = "b"
[logs]
attributed = "leaves.parquet"
converted = "conversion"
"""
BARE = f"SELECT {PATH}, delay // 172800 AS bucket, COUNT(*), SUM(conversion) FROM {{rows}} GROUP BY ALL"
BARE_ATTRIBUTION = f"""
WITH touched AS (
    SELECT i."user", i.time, {PATH}, MIN(c.time) AS done
    FROM 'c.parquet' AS c ASOF JOIN 'i.parquet' AS i ON c."user" = i."user" AND c.time >= i.time
    WHERE c.time - i.time < 2592000
    GROUP BY ALL
)
SELECT {PATH}, (done - time) // 172800 AS bucket, 0 AS impressions, COUNT(*) AS conversions FROM touched GROUP BY ALL
UNION ALL
SELECT {PATH}, NULL, COUNT(*), 0 FROM 'i.parquet' GROUP BY ALL
"""
MEASURED = """
import json, sys, time
import duckdb, numpy, pyarrow, pyarrow.compute
pyarrow.array(numpy.zeros(1))  # which imports pandas where that is installed
from attributary.logs.count import count
from attributary.logs.duckdb import DuckDB
from attributary.spec import Spec
how, what, memory = sys.argv[1:]
start = time.perf_counter()
if how == "bare":
    connection = duckdb.connect()
    connection.execute("SET preserve_insertion_order = false; SET enable_progress_bar = false")
    conversions = sum(connection.sql(what).to_arrow_table().columns[-1].to_pylist())
else:
    with DuckDB(memory or None) as engine:
        conversions = count(Spec.parse(what), engine=engine).conversions
took = time.perf_counter() - start
with open("/proc/self/status") as status:  # ru_maxrss has the parent's peak, which a child begins with
    peak = next(int(line.split()[1]) for line in status if line.startswith("VmHWM"))
print(json.dumps([took, peak / 1024, int(conversions)]))
"""


def main(rows: int = ROWS) -> None:
    """All figures; fewer rows are for a try. The logs are made in a temporary folder, and removed."""
    folder, here = tempfile.mkdtemp(prefix="attributary-bench-"), os.getcwd()
    os.chdir(folder)
    try:
        counting(rows)
        attribution(rows)
        growth(rows)
    finally:
        os.chdir(here)
        shutil.rmtree(folder)


def counting(rows: int) -> None:
    heading(f"Counting {rows:,} rows with their conversions, against bare SQL for the same groups (best of {REPEATS})")
    make(f"COPY ({attributed(rows)}) TO 'rows.parquet'")
    make("COPY (FROM 'rows.parquet') TO 'rows.tsv.gz' (DELIMITER '\t', HEADER true)")
    read = {
        "rows.parquet": ("'rows.parquet'", 1.5),
        "rows.tsv.gz": ("read_csv('rows.tsv.gz', delim = '\t', header = true)", 1.3),
    }
    for name, (bare, bar) in read.items():
        compare(name, BARE.format(rows=bare), f'{ONE}"{name}"', bar)
    for name, number in (("near each other", "i * 7919 % 4000037"), ("far apart", "hash(i) % 1000000000")):
        make(f"""COPY (SELECT i // 400 AS a, {number} AS b, CASE WHEN RANDOM() < 0.1 THEN 1 ELSE 0 END AS conversion
            FROM range({rows // 4}) AS rows(i)) TO 'leaves.parquet'""")
        bare = "SELECT a, b, COUNT(*), SUM(conversion) FROM 'leaves.parquet' GROUP BY ALL"
        compare(f"leaves as rows, {name}", bare, LEAVES, 1.3)
    took, peak, _ = measure("ours", f"{ONE}{json.dumps(['rows.parquet'] * 10)}", "1GB")
    print(f"{'ten times the file, 1 GB allowed':24} {took:8.2f} s   peak {peak:,.0f} MB", flush=True)
    Path("rows.tsv.gz").unlink()


def attribution(rows: int) -> None:
    conversions = rows * 5 // 16
    heading(
        f"Last touch of {conversions:,} conversions among {rows:,} impressions, against an ASOF join for those groups"
    )
    make_two(rows)
    compare("two logs", BARE_ATTRIBUTION, TWO, 1.5)
    took, peak, _ = measure("ours", TWO, "1GB")
    print(f"{'with 1 GB allowed':24} {took:8.2f} s   peak {peak:,.0f} MB", flush=True)


def growth(rows: int) -> None:
    heading("Time against rows (slope of the logarithms; the bar is 0.9 to 1.1)")
    unit = rows * 10 // 16
    make(f"COPY ({attributed(unit)}) TO 'rows.parquet'")
    for name in ("counting", "attribution"):
        points = []
        for times in (1, 3, 10):
            if name == "attribution":
                make_two(unit * times * 16 // 21)
            spec = TWO if name == "attribution" else f"{ONE}{json.dumps(['rows.parquet'] * times)}"
            took = min(measure("ours", spec, "4GB")[0] for _ in range(REPEATS))
            points.append((unit * times, took))
            print(
                f"{name:12} {unit * times:>12,} rows {took:8.2f} s {unit * times / took:14,.0f} rows a second",
                flush=True,
            )
        (n, first), (m, last) = points[0], points[-1]
        print(f"{name:12} slope {log(last / first) / log(m / n):.2f}")


def compare(name: str, bare: str, spec: str, bar: float) -> None:
    """Ours and theirs in turn, each in a process of its own."""
    theirs, ours = [], []
    for _ in range(REPEATS):
        theirs.append(measure("bare", bare))
        ours.append(measure("ours", spec))
    assert theirs[0][2] == ours[0][2], f"{name}: {theirs[0][2]} conversions and {ours[0][2]}"
    fastest, mine = min(theirs), min(ours)
    print(
        f"{name:24} bare {fastest[0]:8.2f} s {fastest[1]:6,.0f} MB   count {mine[0]:8.2f} s {mine[1]:6,.0f} MB   "
        f"{mine[0] / fastest[0]:5.2f}x   (bar {bar}x)",
        flush=True,
    )


def measure(how: str, what: str, memory: str = "") -> tuple[float, float, int]:
    """Seconds, the most megabytes of memory, and the conversions found."""
    done = subprocess.run(
        [sys.executable, "-c", MEASURED, how, what, memory], capture_output=True, text=True, check=False
    )
    if done.returncode:
        sys.exit(done.stderr)
    took, peak, conversions = json.loads(done.stdout)
    return took, peak, conversions


def attributed(rows: int) -> str:
    """Rows about as skewed as CSSCL's: few partners have most of them, and few countries each."""
    return f"""
        SELECT *, CASE WHEN conversion = 1 THEN CAST(2591999 * POW(RANDOM(), 4) AS BIGINT) END AS delay
        FROM ({impressions(rows)})"""


def impressions(rows: int) -> str:
    """About as many known paths as CSSCL has: few partners have most rows, each with few countries and age groups."""
    return f"""
        SELECT
            partner,
            (7 * partner + CAST(3 * POW(RANDOM(), 9) AS INT)) % 23 AS country,
            CAST(7 * POW(RANDOM(), 6) AS INT) AS device,
            CASE WHEN partner % 4 = 0 THEN CAST(10 * POW(RANDOM(), 6) AS INT) ELSE -1 END AS age_group,
            CAST(RANDOM() * 7776000 AS BIGINT) AS time,
            CAST(RANDOM() * {rows // 3} AS BIGINT) AS "user",
            CASE WHEN RANDOM() < 0.108 THEN 1 ELSE 0 END AS conversion
        FROM (SELECT CAST(311 * POW(RANDOM(), 3) AS INT) AS partner FROM range({rows}))"""


def make_two(rows: int) -> None:
    """Impressions of users who have three each, and conversions of any of them."""
    make(f"COPY (SELECT * EXCLUDE conversion FROM ({impressions(rows)})) TO 'i.parquet'")
    make(
        f"""COPY (SELECT CAST(RANDOM() * {rows // 3} AS BIGINT) AS "user", CAST(RANDOM() * 7776000 AS BIGINT) AS time
        FROM range({rows * 5 // 16})) TO 'c.parquet'"""
    )


def make(sql: str) -> None:
    import duckdb

    with duckdb.connect() as connection:
        print_no_progress(connection)
        connection.execute("SET preserve_insertion_order = false")
        connection.execute(sql)


if __name__ == "__main__":
    main(int(float(sys.argv[1])) if len(sys.argv) > 1 else ROWS)
