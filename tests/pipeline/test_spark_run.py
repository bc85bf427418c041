"""On Spark, a run comes out as on one machine: the same plan, counts and noise to the bit, estimates to rounding."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from attributary.cli import main
from attributary.errors import InputError, PrivacyRefusal
from attributary.logs.spark import Spark
from attributary.noise import blocks
from attributary.noise.blocks import BlockEntropy
from attributary.pipeline.run import Run, run
from attributary.pipeline.spark_run import SparkRun, run_spark
from attributary.tables.table_columns import plain
from support.condensed import check_same_plan
from support.spark_driver import rows_collected

UNTIL = "2026-02-02"


@pytest.fixture
def engine(spark: Any) -> Iterator[Spark]:
    with Spark(spark) as running:
        yield running


def saved(done: SparkRun, folder: Path, one: Run) -> dict[str, pa.Table]:
    """What a run saved, with the columns of one machine, whose tables it must have, sorted by path."""
    done.save(str(folder))
    assert sorted(path.stem for path in folder.glob("*.parquet")) == sorted(one.tables)
    return {name: by_path(pq.read_table(folder / f"{name}.parquet"), one) for name in one.tables}


def by_path(table: pa.Table, one: Run) -> pa.Table:
    made = pa.table({name: plain(table.column(name)) for name in table.column_names if name != "not_private"})
    keys = [name for name in ("measure", *one.tree.attributes, "rank", "revenue_from") if name in made.column_names]
    return made.sort_by([(name, "ascending") for name in keys])


def check_same(found: dict[str, pa.Table], one: Run) -> None:
    """Equal to the last bit, but for the numbers of nodes, and for what is computed from all figures of a root."""
    for name, table in found.items():
        expected = by_path(one.tables[name], one)
        assert table.column_names == expected.column_names
        for column in table.column_names:
            mine, theirs = table.column(column), expected.column(column)
            if pa.types.is_floating(theirs.type) and column not in ("noisy", "noise_variance"):
                assert np.allclose(mine.to_numpy(), theirs.to_numpy(), rtol=1e-12, atol=1e-12, equal_nan=True), column
            elif column not in ("node", "parent"):
                assert mine.to_pylist() == theirs.to_pylist(), (name, column)


@pytest.mark.parametrize("leaves", [250_000, 150])
def test_a_run_is_that_of_one_machine(
    leaves: int, engine: Spark, shop_of: Callable[[int], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a prior, by an estimator that is not linear, in one block and in several."""
    monkeypatch.setattr(blocks, "LEAVES", leaves)
    spec = str(shop_of(20_000) / "spec.toml")
    ready = None if leaves > 1000 else run(spec, prior_until=UNTIL, rng=BlockEntropy(1)).plan
    how: dict[str, Any] = {"prior_until": UNTIL, "estimator": "nonnegative", "plan": ready}
    done, one = run_spark(spec, engine=engine, seed=3, **how), run(spec, rng=BlockEntropy(3), **how)
    assert done.plan == one.plan
    assert done.before is not None and one.before is not None
    for mine, theirs in ((done.counts, one.counts), (done.before, one.before)):
        told = {**theirs.summary()}
        told.pop("table_rows")
        assert mine.summary() == told
    assert (done.parts.leaves, sum(done.parts.levels)) == (int(one.tree.is_leaf.sum()), len(one.tree))
    found = saved(done, tmp_path / "out", one)
    check_same(found, one)
    nodes = found["estimates"].column("node").to_numpy()
    assert sorted(nodes) == list(range(len(nodes)))
    roots = found["estimates"].column("level").to_numpy() == 0
    assert (found["estimates"].column("parent").to_numpy() < 0).tolist() == roots.tolist()


@pytest.mark.parametrize("words", ["", "total = true"])
def test_roots_too_large_for_a_block_are_cut(
    words: str, engine: Spark, shop_of: Callable[[int], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Blocks below roots, and below a total: counts and noise to the bit, estimates to rounding."""
    monkeypatch.setattr(blocks, "LEAVES", 150 if words else 30)
    spec = shop_of(20_000) / "spec.toml"
    text = spec.read_text()
    spec.write_text(f"{words}\n" + (text.replace("split_by", "# split_by") if words else text))
    plan = run(str(spec), rng=BlockEntropy(1)).plan
    done, one = run_spark(str(spec), engine=engine, seed=3, plan=plan), run(str(spec), plan=plan, rng=BlockEntropy(3))
    assert done.parts.above[0] == (1 if words else len(one.tree.roots))
    assert sum(done.parts.levels) == len(one.tree)
    check_same(saved(done, tmp_path / "out", one), one)


@pytest.mark.parametrize(
    ("leaves", "words", "how"),
    [
        (150, 'split_by = "campaign"', {"prior_until": UNTIL}),
        (30, 'split_by = "campaign"', {"prior_until": UNTIL}),
        (150, "total = true", {"prior_until": UNTIL}),
        (30, "", {}),
    ],
)
def test_the_plan_is_that_of_one_machine(
    leaves: int,
    words: str,
    how: dict[str, Any],
    engine: Spark,
    shop_of: Callable[[int], Path],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Made of classes on the workers, also of roots that are cut, and below a total."""
    monkeypatch.setattr(blocks, "LEAVES", leaves)
    spec = shop_of(20_000) / "spec.toml"
    spec.write_text(f"{words}\n" + spec.read_text().replace("split_by", "# split_by"))
    done, one = run_spark(str(spec), engine=engine, seed=3, **how), run(str(spec), rng=BlockEntropy(3), **how)
    assert len(done.parts.nodes) > 1 and bool(done.parts.above) == (leaves == 30 or bool("total" in words))
    check_same_plan(done.plan, one.plan)
    assert len(done.tree) < len(one.tree) and done.tree.number.sum() == len(one.tree)


def test_the_driver_gets_no_leaves(
    engine: Spark, shop_of: Callable[[int], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a forest of several blocks, the driver gets at most one, and the levels of the page."""
    monkeypatch.setattr(blocks, "LEAVES", 150)
    monkeypatch.setattr("attributary.pipeline.spark_run.ON_PAGE", 60)
    sizes = rows_collected(monkeypatch)
    done = run_spark(str(shop_of(20_000) / "spec.toml"), engine=engine)
    shown = done.save(str(tmp_path / "out"))
    assert sizes and max(sizes) < done.parts.leaves / 2
    assert shown.upper and shown.upper in (tmp_path / "out" / "report.html").read_text()


def test_of_many_roots_the_page_shows_the_largest(
    engine: Spark, shop_of: Callable[[int], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the first measure; of each other one the same nodes, although their values are larger."""
    monkeypatch.setattr("attributary.pipeline.spark_run.ON_PAGE", 3)
    spec = shop_of(20_000) / "spec.toml"
    measures = '[[measure]]\nname = "count"\n[[measure]]\nname = "revenue"\ncolumn = "value"\nclip = 100\n[logs]'
    spec.write_text("conversions_per_impression = 2\n" + spec.read_text().replace("[logs]", measures))
    shown = run_spark(str(spec), engine=engine, seed=1).save(str(tmp_path / "out"))
    table = pq.read_table(tmp_path / "out" / "estimates.parquet")
    roots = table.filter(pa.compute.equal(table["level"], 0))
    largest = None
    for name in ("count", "revenue"):
        mine = roots.filter(pa.compute.equal(roots["measure"], name)).sort_by("node")
        estimate = mine["estimate"].to_numpy()
        largest = np.argsort(estimate)[-3:] if largest is None else largest
        assert sorted(shown.measures[name].estimate) == pytest.approx(sorted(estimate[largest]))


def test_noise_that_is_released_is_drawn_anew(engine: Spark, shop_of: Callable[[int], Path], tmp_path: Path) -> None:
    spec, figures = str(shop_of(20_000) / "spec.toml"), []
    for name in ("one", "two"):
        run_spark(spec, engine=engine).save(str(tmp_path / name))
        table = pq.read_table(tmp_path / name / "estimates.parquet")
        assert "not_private" not in table.column_names
        figures.append(table.column("noisy").to_pylist())
    assert figures[0] != figures[1]
    with pytest.raises(PrivacyRefusal, match="second release"):
        run_spark(spec, engine=engine).save(str(tmp_path / "one"))


def test_the_command_runs_on_spark(engine: Spark, shop_of: Callable[[int], Path], tmp_path: Path) -> None:
    spec, out = str(shop_of(20_000) / "spec.toml"), tmp_path / "out"
    how = ["run", spec, "--engine", "spark", "--seed", "3", "-o", str(out)]
    assert (told := CliRunner().invoke(main, how)).exit_code == 0, told.output
    assert json.loads((out / "plan.json").read_text())
    assert "NOT PRIVATE" in told.output and "NOT PRIVATE" in (out / "report.html").read_text()
    words = pq.read_table(out / "estimates.parquet").column("not_private").unique().to_pylist()
    assert len(words) == 1 and words[0].startswith("NOT PRIVATE")
    refused = CliRunner().invoke(main, [*how, "--format", "csv"])
    assert refused.exit_code == 2 and "Parquet" in refused.output


def test_what_a_worker_refuses_is_the_users_mistake(
    engine: Spark, shop_of: Callable[[int], Path], tmp_path: Path
) -> None:
    folder = shop_of(20_000)
    rows = pq.read_table(folder / "impressions.parquet")
    bad = rows.set_column(rows.column_names.index("campaign"), "campaign", pa.array(["*"] * len(rows)))
    pq.write_table(bad, folder / "impressions.parquet")
    with pytest.raises(InputError, match="means all values"):
        run_spark(str(folder / "spec.toml"), engine=engine)
