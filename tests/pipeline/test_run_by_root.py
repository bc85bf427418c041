"""A tree that is run root by root comes out as one that is held: plan, counts and noise to the bit, estimates too."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from attributary.cli import main
from attributary.errors import InputError
from attributary.logs.counts import ValueTotals
from attributary.noise import blocks
from attributary.pipeline import run_by_root, run_parts
from attributary.pipeline.run import Run
from attributary.pipeline.run_by_root import RunByRoot, run_into
from attributary.tables import read_table
from attributary.tables.table_columns import plain
from support.condensed import check_same_plan
from support.explored import client, closed, session  # noqa: F401

UNTIL = "2026-02-02"
MEASURES = """
conversions_per_impression = "auto"

[[measure]]
name = "count"

[[measure]]
name = "revenue"
column = "value"
clip = "auto"
"""
OTHERS = """epsilon = 2
neighbours = "definition-1"
conversions_per_impression = 3
"""


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Trees are large from 100 leaves on, and a root from 60 on."""
    monkeypatch.setattr(run_by_root, "LARGE", 100)
    monkeypatch.setattr(blocks, "LEAVES", 60)
    monkeypatch.setattr(run_by_root, "BATCH", 1000)


def by_path(table: pa.Table) -> pa.Table:
    made = pa.table({name: plain(table.column(name)) for name in table.column_names})
    keys = ("measure", "campaign", "location", "delay", "rank", "revenue_from")
    return made.sort_by([(name, "ascending") for name in keys if name in made.column_names])


def check_same(one: Path, other: Path) -> None:
    """Equal to the last bit, but for the numbers of nodes, and for sums, whose order differs."""
    assert {path.name for path in one.iterdir()} == {path.name for path in other.iterdir()}
    for path in sorted(one.glob("*.parquet")):
        mine, theirs = by_path(pq.read_table(path)), by_path(pq.read_table(other / path.name))
        assert mine.column_names == theirs.column_names and mine.num_rows == theirs.num_rows
        for column in mine.column_names:
            left, right = mine.column(column), theirs.column(column)
            if pa.types.is_floating(left.type) and column not in ("noisy", "noise_variance"):
                assert np.allclose(left.to_numpy(), right.to_numpy(), 1e-11, 1e-11, equal_nan=True), column
            elif column not in ("node", "parent"):
                assert left.equals(right), (path.name, column)


@pytest.mark.parametrize(
    ("more", "how"),
    [
        ("", {}),
        ("", {"estimator": "nonnegative", "prior_until": UNTIL}),
        (MEASURES, {"prior_until": UNTIL}),
        (OTHERS, {"prior_until": UNTIL, "method": "equal"}),
    ],
)
def test_a_run_by_root_is_that_of_one_tree(
    more: str, how: dict[str, Any], small: None, shop_of: Callable[[int], Path], tmp_path: Path
) -> None:
    spec = shop_of(20_000) / "spec.toml"
    settings, tables = spec.read_text().split("\n[", 1)
    spec.write_text(f"{more if more == OTHERS else settings + more}\n[{tables}")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(run_by_root, "LARGE", 10**6)
        one = run_into(str(tmp_path / "one"), str(spec), seed=3, **how)
    assert isinstance(one, Run)
    done = run_into(str(tmp_path / "parts"), str(spec), seed=3, plan=one.plan, **how)
    assert isinstance(done, RunByRoot)
    check_same(tmp_path / "one", tmp_path / "parts")
    assert (done.leaves, done.rows) == (int(one.tree.is_leaf.sum()), len(one.tree) * len(one.plan.measures))
    assert done.errors == pytest.approx(one.errors)
    for mine, theirs in ((done.counts, one.counts), (done.before, one.before)):
        told = None if theirs is None else {k: v for k, v in theirs.summary().items() if k != "table_rows"}
        assert (None if mine is None else mine.summary()) == told
    numbers = pq.read_table(tmp_path / "parts" / "estimates.parquet").select(["node", "parent", "level"])
    node, parent, level = (numbers[name].to_numpy() for name in numbers.column_names)
    assert sorted(set(node)) == list(range(len(one.tree)))
    assert ((parent < 0) == (level == 0)).all()
    above = dict(zip(node.tolist(), level.tolist(), strict=True))
    assert all(above[p] == v - 1 for p, v in zip(parent.tolist(), level.tolist(), strict=True) if p >= 0)


def test_a_plan_of_all_roots_is_that_of_the_tree(
    small: None, shop_of: Callable[[int], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = str(shop_of(20_000) / "spec.toml")
    done = run_into(str(tmp_path / "parts"), spec, prior_until=UNTIL, seed=3)
    monkeypatch.setattr(run_by_root, "LARGE", 10**6)
    one = run_into(str(tmp_path / "one"), spec, prior_until=UNTIL, seed=3)
    assert isinstance(done, RunByRoot) and isinstance(one, Run)
    assert done.plan == one.plan
    check_same(tmp_path / "one", tmp_path / "parts")


@pytest.mark.parametrize("split_by", ["", 'split_by = "campaign"'])
@pytest.mark.parametrize(
    ("more", "how"),
    [("", {}), ("", {"prior_until": UNTIL}), (MEASURES, {"prior_until": UNTIL}), (OTHERS, {"prior_until": UNTIL})],
)
def test_a_plan_of_classes_is_that_of_the_tree(
    split_by: str,
    more: str,
    how: dict[str, Any],
    small: None,
    shop_of: Callable[[int], Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(run_by_root, "SAMPLE", 1)
    spec = shop_of(20_000) / "spec.toml"
    settings, tables = spec.read_text().replace('split_by = "campaign"', "").split("\n[", 1)
    spec.write_text(f"{split_by}\n{more if more == OTHERS else settings + more}\n[{tables}")
    done = run_into(str(tmp_path / "parts"), str(spec), seed=3, **how)
    monkeypatch.setattr(run_by_root, "LARGE", 10**6)
    one = run_into(str(tmp_path / "one"), str(spec), seed=3, **how)
    assert isinstance(done, RunByRoot) and isinstance(one, Run)
    check_same_plan(done.plan, one.plan)
    assert len(done.tree) < len(one.tree) and done.tree.number.sum() == len(one.tree)


def test_the_command_says_which_levels_it_shows(
    small: None, shop_of: Callable[[int], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_by_root, "ON_PAGE", 30)
    spec, out = str(shop_of(20_000) / "spec.toml"), tmp_path / "out"
    told = CliRunner().invoke(main, ["run", spec, "-o", str(out), "--format", "csv", "--seed", "1"])
    assert told.exit_code == 0, told.output
    table = read_table(str(out / "estimates.csv"))
    assert (
        f"{table.num_rows:,} rows written to {out}/estimates.csv; below are the upper levels: campaign" in told.output
    )
    page = (out / "report.html").read_text()
    assert "This page shows the upper levels: campaign" in page and "NOT PRIVATE" in page
    assert set(table["not_private"].to_pylist()) == {
        "NOT PRIVATE: its noise is seeded, and protects nobody; not for release"
    }
    refused = CliRunner().invoke(main, ["run", spec, "-o", str(out)])
    assert refused.exit_code == 77 and "second release" in refused.output


def test_of_many_roots_the_page_shows_the_largest(
    small: None, shop_of: Callable[[int], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_by_root, "ON_PAGE", 3)
    done = run_into(str(tmp_path / "out"), str(shop_of(20_000) / "spec.toml"), seed=1)
    assert isinstance(done, RunByRoot) and done.shown.first is not None
    table = pq.read_table(tmp_path / "out" / "estimates.parquet")
    roots = table.filter(pa.compute.equal(table["level"], 0))["estimate"].to_numpy()
    assert sorted(done.shown.first.estimate) == pytest.approx(sorted(roots)[-3:])


def test_what_fails_on_the_way_leaves_the_run_before(
    small: None, shop_of: Callable[[int], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec, out = str(shop_of(20_000) / "spec.toml"), tmp_path / "out"
    run_into(str(out), spec, seed=1)
    before = {path.name: path.read_bytes() for path in out.iterdir()}
    add = run_by_root.SoFar.add

    def fails(self: Any, done: Run) -> Any:
        if self.counts[0]:
            raise RuntimeError("no")
        return add(self, done)

    monkeypatch.setattr(run_by_root.SoFar, "add", fails)
    with pytest.raises(RuntimeError, match="no"):
        run_into(str(out), spec, seed=2)
    assert {path.name: path.read_bytes() for path in out.iterdir()} == before
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


@pytest.mark.parametrize("how", [{"estimator": "learned"}, {"method": "per-node"}])
def test_what_looks_at_all_roots_is_done_in_memory(
    how: dict[str, Any], small: None, shop_of: Callable[[int], Path], tmp_path: Path
) -> None:
    done = run_into(str(tmp_path / "out"), str(shop_of(20_000) / "spec.toml"), seed=1, prior_until=UNTIL, **how)
    assert isinstance(done, Run)


def test_conversions_outside_all_domains_are_refused(
    small: None, shop_of: Callable[[int], Path], tmp_path: Path
) -> None:
    spec = shop_of(20_000) / "spec.toml"
    spec.write_text(spec.read_text() + '\n[[attribute]]\nname = "campaign2"\nunknown = true\ndomain = ["x"]\n')
    with pytest.raises(InputError):
        run_into(str(tmp_path / "out"), str(spec))
    assert not (tmp_path / "out").exists()


SPEC = """
epsilon = 4
[[attribute]]
name = "campaign"
[[attribute]]
name = "location"
[[attribute]]
name = "day"
[[attribute]]
name = "kind"
unknown = true
domain = ["0", "1", "2", "3", "4", "5", "6", "7", "8", "9"]
[logs]
attributed = "rows.parquet"
converted = "converted"
"""
PEAK = """
import sys
from attributary.cli import main
try:
    main(sys.argv[1:])
finally:
    with open("/proc/self/status") as status:  # ru_maxrss has the parent's peak, which a child begins with
        print(next(line.split()[1] for line in status if line.startswith("VmHWM")))
"""


@pytest.mark.sweep
@pytest.mark.parametrize("roots", [700, 8])
def test_ten_million_leaves_within_two_gigabytes(roots: int, tmp_path: Path) -> None:
    import duckdb

    rows = f"""SELECT p % {roots} AS campaign, p // {roots} % 40 AS location, p // {40 * roots} AS day,
        hash(p) % 3 = 0 AS converted, CAST(hash(p + 1) % 10 AS VARCHAR) AS kind FROM range(1000000) AS paths(p)"""
    with duckdb.connect() as connection:
        connection.execute("SET enable_progress_bar = false")
        connection.execute(f"COPY ({rows}) TO '{tmp_path}/rows.parquet'")
    (tmp_path / "spec.toml").write_text(SPEC)
    how = ["run", "spec.toml", "-o", "out", "--memory", "1GB", "-q"]
    done = subprocess.run([sys.executable, "-c", PEAK, *how], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) / 1024 < 2000
    estimates = pq.ParquetFile(tmp_path / "out" / "estimates.parquet")
    assert estimates.metadata.num_rows > 11_000_000
    opened = session(str(tmp_path / "out" / "estimates.parquet"))
    rows = client(opened).get("/api/rows").json()["rows"]
    below = client(opened).get("/api/rows", params={"node": str(rows[-1]["node"])}).json()["rows"]
    parents = pq.read_table(tmp_path / "out" / "estimates.parquet", columns=["node", "parent"])
    for shown, parent in ((rows, -1), (below, rows[-1]["node"])):
        children = parents["node"].to_numpy()[parents["parent"].to_numpy() == parent]
        assert shown and {row["node"] for row in shown} <= set(children.tolist())


OUTSIDE = """epsilon = 4
[[attribute]]
name = "campaign"
[[attribute]]
name = "location"
[[attribute]]
name = "kind"
unknown = true
domain = ["p", "q"]
[logs]
attributed = "rows.parquet"
converted = "converted"
"""


@pytest.mark.parametrize("told", [1000, 2, 1])
def test_what_is_outside_of_a_domain_is_told_of_all_roots(
    told: int, small: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever each root has most of; where a root has more values than it tells, those whose number is known."""
    outside = {"A": {"x": 3, "z": 1}, "B": {"y": 4}, "C": {"x": 3, "y": 4, "z": 1}, "D": {"y": 1}}
    rows = [(root, str(i), True, "p") for root in outside for i in range(40)]
    rows += [(root, "0", True, v) for root, values in outside.items() for v, n in values.items() for _ in range(n)]
    names = ("campaign", "location", "converted", "kind")
    table = pa.table({name: [row[i] for row in rows] for i, name in enumerate(names)})
    pq.write_table(table, tmp_path / "rows.parquet")
    (tmp_path / "spec.toml").write_text(OUTSIDE)
    monkeypatch.setattr(run_parts, "OF_PART", told)
    done = run_into(str(tmp_path / "parts"), str(tmp_path / "spec.toml"), seed=3)
    assert isinstance(done, RunByRoot) and done.counts.left_out == 17
    (found,) = done.counts.outside
    assert (found.conversions, found.kept) == (17, False)
    everything = [("y", 9), ("x", 6), ("z", 2)]
    assert list(found.values.items()) == {1000: everything, 2: everything[:2], 1: []}[told]


def test_sums_of_values_of_parts_add_up_to_the_millionth() -> None:
    parts = [ValueTotals("revenue", None, n / 10**6, 1, 2, -n / 10**6, None, 3, n / 10**6) for n in (100_000, 200_000)]
    assert parts[0].plus(parts[1]) == ValueTotals("revenue", None, 0.3, 2, 4, -0.3, None, 6, 0.3)
