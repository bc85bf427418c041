"""Values on the command line: what is told, what is written, what goes from one command to the next."""

import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.plan.test_plan_measures import rows, spec

from attributary.api.ara.keys.fewer_classes import classes, fewer_classes
from attributary.api.ara.registration import registrations
from attributary.plan import Plan, make_plan
from attributary.prior import from_counts
from attributary.prior.earlier import profile
from attributary.tables import read_table
from support.command import attributary as run

pytestmark = pytest.mark.usefixtures("undrawn")

MEASURES = '\n[[measure]]\nname = "count"\n[[measure]]\nname = "revenue"\ncolumn = "value"\nunit = "EUR"\nclip = '


@pytest.fixture(scope="module")
def shop(shop_of: Callable[[int], Path]) -> Path:
    folder = shop_of(10_000)
    text = (folder / "spec.toml").read_text().replace("epsilon = 1", "epsilon = 20")
    (folder / "auto.toml").write_text(f'conversions_per_impression = "auto"\n{text}{MEASURES}"auto"\n')
    (folder / "fixed.toml").write_text(f"conversions_per_impression = 2\n{text}{MEASURES}100\n")
    (folder / "two.toml").write_text(f"conversions_per_impression = 2\n{text}")
    return folder


def test_counting_tells_what_is_clipped(shop: Path, tmp_path: Path) -> None:
    told = run("count", shop / "fixed.toml", "-o", tmp_path / "counts.csv").stderr
    for words in ("EUR counted", "values above 100 EUR, counted as 100 EUR", "has 2 conversions already"):
        assert words in told, told
    assert (
        "the plan chooses the limit at which values are clipped"
        in run("count", shop / "auto.toml", "-o", tmp_path / "rows.csv").stderr
    )


def test_the_whole_way(shop: Path, tmp_path: Path) -> None:
    done = run("run", shop / "auto.toml", "--prior-until", "2026-02-02", "--seed", 1, "-o", tmp_path)
    files = {"counts.parquet", "estimates.parquet", "plan.json", "prior.parquet", "ratios.parquet", "report.html"}
    assert set(os.listdir(tmp_path)) == files
    for words in (
        "revenue in EUR, clipped at",
        "chosen",
        "of revenue (or of tau, if that is larger)",
        "not for release",
        "report: ",
    ):
        assert words in done.stderr, words
    found = read_table(str(tmp_path / "estimates.parquet"))
    assert found.column("measure").cast(pa.string()).unique().to_pylist() == ["count", "revenue"]
    for name in ("count", "revenue"):
        table = found.filter(pa.array([x == name for x in found.column("measure").to_pylist()]))
        below = np.bincount(table.column("parent").to_numpy() + 1, table.column("estimate").to_numpy())[1:]
        inner = np.flatnonzero(np.bincount(table.column("parent").to_numpy() + 1, minlength=len(table) + 1)[1:])
        assert np.allclose(below[inner], table.column("estimate").to_numpy()[inner])


def test_an_earlier_report_is_a_prior_for_limits_that_are_given(shop: Path, tmp_path: Path) -> None:
    run("run", shop / "fixed.toml", "--seed", 1, "-o", tmp_path, "--format", "csv", "-q")
    planned = run("plan", shop / "fixed.toml", "--prior", tmp_path / "estimates.csv", "-o", tmp_path / "next.json")
    assert "the prior does not show how much of count, revenue the limits cut off" in planned.stderr
    assert not Plan.load(str(tmp_path / "next.json")).prior.protected  # its noise is seeded
    refused = run("plan", shop / "auto.toml", "--prior", tmp_path / "estimates.csv", code=2)
    assert "needs a prior with ranks" in refused.stderr
    run("plan", shop / "fixed.toml", "--last", tmp_path / "plan.json", "--prior", tmp_path / "counts.csv")
    refused = run(
        "plan", shop / "two.toml", "--last", tmp_path / "plan.json", "--prior", tmp_path / "counts.csv", code=2
    )
    assert "plans are compared measure by measure; the plan has count and revenue" in refused.stderr


def test_several_conversions_without_values(shop: Path, tmp_path: Path) -> None:
    """A limit in the spec makes a plan of counts, whose errors know what the limit cuts off."""
    run("count", shop / "two.toml", "-o", tmp_path / "counts.csv", "-q")
    told = run("plan", shop / "two.toml", "--prior", tmp_path / "counts.csv", "-o", tmp_path / "plan.json").stderr
    plan = Plan.load(str(tmp_path / "plan.json"))
    assert [share.clip for share in plan.measures] == [1] and plan.most() == 2 and sum(plan.default) <= 32768
    assert "whether an impression has its counted conversions, all of them together" in told
    beyond = read_table(str(tmp_path / "counts.csv")).column("conversions_beyond").to_pylist()
    assert sum(map(int, beyond)) > 0


def test_a_prior_without_the_value_is_refused(shop: Path, tmp_path: Path) -> None:
    run("count", shop / "two.toml", "-o", tmp_path / "counts.csv", "-q")
    refused = run("plan", shop / "fixed.toml", "--prior", tmp_path / "counts.csv", code=2)
    assert "has no column 'revenue', which the spec measures" in refused.stderr


def test_fewer_classes_keep_to_every_budget() -> None:
    asked = spec(epsilon=30)
    table = rows(0, 70, 0.5, 400)
    tree = asked.tree(table)
    plan = make_plan(asked, tree, from_counts(tree, table), profile=profile(tree, asked, table))
    assert len(classes(plan)) > 50 and len({plan.most(label) for label in plan.roots}) > 1
    found = fewer_classes(plan, 20)
    assert len(classes(found.plan)) <= 20 and found.changed
    registrations(found.plan)
    for label, row in found.plan.roots.items():
        assert sum(row) * found.plan.most(label) <= asked.l1 and found.plan.most(label) == plan.most(label)
    for before, after in zip(plan.by_measure, found.plan.by_measure, strict=True):
        was, now = before.contribution(tree), after.contribution(tree)
        assert np.median(np.abs(now - was)[was > 0] / was[was > 0]) < 0.1


def test_headers_have_the_value(shop: Path, tmp_path: Path) -> None:
    run("run", shop / "fixed.toml", "--seed", 1, "-o", tmp_path, "-q")
    event = ["--impression", "campaign=brand,location=Paris", "--conversion", "day=Monday,value=50"]
    first, second = (run("keys", tmp_path / "plan.json", *event, "--deduplication-key", 7, "-q").stdout for _ in "ab")
    assert first == second and '"day revenue"' in first and '"rest":"0x0"' in first
    assert pq.read_table(tmp_path / "counts.parquet").column("revenue").to_pylist()
    refused = run("keys", tmp_path / "plan.json", "--conversion", "day=Monday", code=2)
    assert "'value' is missing; measure 'revenue' needs it" in refused.stderr
