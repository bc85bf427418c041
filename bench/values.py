"""Values and many conversions: what counting them costs, and what the plan's choice of limits is worth.

`python -m bench values`, or `python -m bench.values 1e6` for fewer rows. The data are generated.
"""

import os
import shutil
import sys
import tempfile
import time

import numpy as np

from attributary.logs.count import count
from attributary.logs.duckdb import DuckDB, print_no_progress
from attributary.paper import generate
from attributary.plan import Plan, expected, make_plan
from attributary.prior import from_counts, none
from attributary.prior.earlier import profile
from attributary.spec import Spec
from bench.timing import heading

ROWS = 4_000_000
REPEATS = 5
DAYS = 45 * 86_400  # seconds of the earlier days
FIXED = (1, 2, 5, 15)
SPEC = """
epsilon = {epsilon}
tau = 5
split_by = "partner"
conversions_per_impression = {most}
[[attribute]]
name = "partner"
[[attribute]]
name = "country"
[[attribute]]
name = "device"
[[attribute]]
name = "delay"
unknown = true
bucket = "6d"
buckets = 5
[logs]
window = "30d"
"""
TWO = 'impressions = "i.parquet"\nconversions = "c.parquet"\nuser = "user"\nkeys = ["partner"]\ntime = "time"\n'
ONE = 'attributed = "rows.parquet"\nconverted = "conversion"\ndelay = "delay"\n'
MEASURES = (
    '[[measure]]\nname = "count"\n[[measure]]\nname = "revenue"\ncolumn = "amount"\nunit = "EUR"\nclip = {clip}\n'
)


def main(rows: int = ROWS) -> None:
    folder, here = tempfile.mkdtemp(prefix="attributary-bench-"), os.getcwd()
    os.chdir(folder)
    try:
        _make(rows)
        worth(rows)
        cost(rows)
    finally:
        os.chdir(here)
        shutil.rmtree(folder)


def cost(rows: int) -> None:
    """Counting with values against counting alone, in turns."""
    heading(f"Counting {rows:,} generated rows with their values, against counting alone (best of {REPEATS}; bar 1.5x)")
    limits = {"alone": (1, None), "clip 200": (1, "200"), "clip auto": (1, '"auto"'), "both auto": ('"auto"', '"auto"')}
    for name, logs in (("rows with conversions", ONE), ("two logs", TWO)):
        specs = [_spec(most, clip, logs) for most, clip in limits.values()]
        best = np.min([[_took(spec) for spec in specs] for _ in range(REPEATS)], axis=0)
        for words, took in zip(limits, best, strict=True):
            print(f"{name:22} {words:10} {took:6.2f} s   {took / best[0]:5.2f}x")


def worth(rows: int) -> None:
    """The plan's own limits against fixed ones, planned on the first 45 days, judged on the later ones."""
    half = _half()
    values = _quantiles(half)
    for epsilon in (4, 16):
        heading(
            f"Limits at epsilon = {epsilon}: chosen on days 0 to 44 of {rows:,} generated clicks, judged on days 45 on"
        )
        plan, errors = _judged(_spec('"auto"', '"auto"', TWO, epsilon), half, None)
        most = np.array([plan.most(), *map(plan.most, plan.roots)])
        chosen = f"m {most.min()} to {most.max()}, clip {plan.by_measure[1].clip:,.2f}"
        print(f"{'chosen: ' + chosen:36} {_shown(errors)}")
        for percent, clip in values.items():
            for limit in FIXED:
                _, errors = _judged(_spec('"auto"', f"{clip}", TWO, epsilon), half, limit)
                print(f"{f'm {limit}, clip {clip:,.2f} ({percent} %)':36} {_shown(errors)}", flush=True)


def _shown(errors: dict[str, float]) -> str:
    return "   ".join(f"{name} {error:7.1%}" for name, error in errors.items())


def _judged(spec: Spec, half: int, limit: int | None) -> tuple[Plan, dict[str, float]]:
    """The plan from the earlier days, and its errors on the later ones, what limits cut off included."""
    with DuckDB() as engine:
        before, after = count(spec, until=half, engine=engine).table, count(spec, since=half, engine=engine).table
    asked = spec if limit is None else spec.model_copy(update={"conversions_per_impression": limit})
    known = [attribute.name for attribute in asked.known]
    tree = asked.tree(after)
    plan = make_plan(asked, tree, from_counts(tree, before, known=known), profile=profile(tree, asked, before))
    truth = profile(tree, asked, after)
    roots, squares = {}, []
    for part in plan.by_measure:
        own = expected(plan, tree, none(tree), profile=truth, measure=part.measure.name).roots ** 2
        roots[part.measure.name] = float(np.sqrt(own.mean()))
        squares.append(own)
    return plan, {"both": float(np.sqrt(np.mean(squares))), **roots}


def _spec(most: object, clip: str | None, logs: str, epsilon: float = 4) -> Spec:
    measures = "" if clip is None else MEASURES.format(clip=clip)
    return Spec.parse(SPEC.format(most=most, epsilon=epsilon) + logs + measures)


def _took(spec: Spec) -> float:
    start = time.perf_counter()
    with DuckDB() as engine:
        count(spec, engine=engine)
    return time.perf_counter() - start


def _make(rows: int) -> None:
    """A look-alike of CSSCL, and its clicks and sales as two logs that are yet to be joined."""
    import duckdb

    generate("csscl", "rows.parquet", rows, 0)
    with duckdb.connect() as connection:
        print_no_progress(connection)
        connection.execute("COPY (SELECT * EXCLUDE (conversion, delay, amount) FROM 'rows.parquet') TO 'i.parquet'")
        connection.execute(
            """COPY (SELECT partner, "user", time + delay AS time, amount FROM 'rows.parquet'
            WHERE conversion = 1 AND delay IS NOT NULL) TO 'c.parquet'"""
        )


def _half() -> int:
    """When the later days begin."""
    import duckdb

    with duckdb.connect() as connection:
        print_no_progress(connection)
        return int(connection.sql("SELECT MIN(time) FROM 'i.parquet'").fetchall()[0][0]) + DAYS


def _quantiles(half: int) -> dict[int, float]:
    """The 95th and the 99th percentile of the amounts of the earlier days."""
    import duckdb

    sql = f"SELECT QUANTILE_CONT(amount, [0.95, 0.99]) FROM 'rows.parquet' WHERE conversion = 1 AND time < {half}"
    with duckdb.connect() as connection:
        print_no_progress(connection)
        low, high = connection.sql(sql).fetchall()[0][0]
    return {95: round(low, 2), 99: round(high, 2)}


if __name__ == "__main__":
    main(int(float(sys.argv[1])) if len(sys.argv) > 1 else ROWS)
