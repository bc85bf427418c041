"""Learning with measures: the same noise, a smaller error, in whatever unit; and each measure by its own past."""

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from tests.plan.test_plan_measures import planned, rows, spec

from attributary import Tree, denoise
from attributary.api.ara.keys.key_layout import layout, tree_keys
from attributary.api.ara.service.summary_report import write_summary
from attributary.cli import main
from attributary.estimates import by_measure, estimates_table
from attributary.estimators import Background, Estimator, learned_shares
from attributary.measurements import Measurements
from attributary.pipeline.run import measured_prior
from attributary.plan import Plan, make_plan
from attributary.prior import from_counts, from_estimates
from attributary.prior.earlier import profile
from attributary.tables import read_table, write_table
from attributary.tables.table_columns import EXACT_PRIOR, SEEDED, mark, words_of

pytestmark = pytest.mark.usefixtures("undrawn")

MEASURES = '\n[[measure]]\nname = "count"\n[[measure]]\nname = "revenue"\ncolumn = "value"\nclip = '


@pytest.fixture(scope="module")
def shop(shop_of: Callable[[int], Path]) -> Path:
    folder = shop_of(20_000)
    text = (folder / "spec.toml").read_text().replace("epsilon = 1", "epsilon = 2")
    (folder / "auto.toml").write_text(f'conversions_per_impression = "auto"\n{text}{MEASURES}"auto"\n')
    (folder / "fixed.toml").write_text(f"conversions_per_impression = 2\n{text}{MEASURES}100\n")
    return folder


def run(*args: object) -> str:
    result = CliRunner().invoke(main, ["run", *map(str, args)])
    assert result.exit_code == 0, result.output
    return result.stderr


@pytest.mark.sweep
def test_learning_leaves_the_noise_and_lowers_the_error(shop: Path, tmp_path: Path) -> None:
    errors: dict[str, list[float]] = {"without": [], "with": []}
    for seed in range(3):
        for name, estimator in (("without", "nonnegative"), ("with", "learned")):
            asked = ["--prior-until", "2026-02-02", "--estimator", estimator, "--seed", seed, "-o", tmp_path / name]
            told = run(shop / "auto.toml", *asked)
            errors[name] += [float(e) for e in re.findall(r"error of this run: ([0-9.]+)%", told)]
        plain, learned = (pq.read_table(tmp_path / name / "estimates.parquet") for name in ("without", "with"))
        assert plain.column("noisy").equals(learned.column("noisy"))
        assert "from_prior" in learned.column_names and "from_prior" not in plain.column_names
    assert len(errors["with"]) == 6
    for measure in (0, 1):
        one, other = (np.mean(np.square(errors[name][measure::2])) for name in ("with", "without"))
        assert one < other


def test_learning_goes_without_an_earlier_period(shop: Path, tmp_path: Path) -> None:
    run(shop / "fixed.toml", "--estimator", "learned", "--whole", "--seed", 1, "-o", tmp_path)
    found = pq.read_table(tmp_path / "estimates.parquet").to_pylist()
    counts = [row["estimate"] for row in found if row["measure"] == "count"]
    assert counts == [round(count) for count in counts]
    assert max(row["from_prior"] for row in found if row["measure"] == "revenue") > 0


def times(table: pa.Table, factor: float) -> pa.Table:
    for name in ("revenue", "revenue_from"):
        cells = table.column(name).to_numpy() * factor
        table = table.set_column(table.column_names.index(name), name, [cells])
    return table


def test_what_is_learned_does_not_depend_on_the_unit() -> None:
    found = []
    for unit in (1, 100):  # euros, and cents
        asked, table = spec(2, 40 * unit), times(rows(0, 30, size=60), unit)
        tree = asked.tree(table)
        known, prior = profile(tree, asked, table), from_counts(tree, table)
        plan = make_plan(asked, tree, prior, profile=known)
        part = plan.by_measure[1]
        limited = known.limited(part.measure, 2, part.clip)
        noisy = limited + unit * np.random.default_rng(0).normal(0, 50, len(tree))
        past = measured_prior(part, tree, known, prior, np.random.default_rng(1))
        assert past.protected and past.history
        for before in (None, past):
            measured = Measurements(noisy, part.variance(tree))
            expected = learned_shares(tree, measured, Background(before, part.tau, part.share.worth))
            assert expected.share is not None and expected.spread is not None
            found.append(np.concatenate([expected.share, expected.mean / unit, expected.spread / unit**2]))
    assert found[0] == pytest.approx(found[2], rel=1e-6)
    assert found[1] == pytest.approx(found[3], rel=1e-6)
    assert np.isfinite(found[0][-90:]).any() and not np.allclose(found[0], found[1])


Made = tuple[Plan, Tree, Any]
TOML = """epsilon = 1
[[attribute]]
name = "a"
[[attribute]]
name = "day"
unknown = true
domain = ["mon", "tue", "wed"]
"""


@pytest.fixture
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Made:
    """A plan of two measures, its summary report, the report of an earlier period, and that period's counts."""
    monkeypatch.chdir(tmp_path)
    then, now = rows(1, 30, size=60), rows(2, 30, size=60)
    asked = spec(2, 40, epsilon=1, tau=7)
    plan, tree, known = planned(asked, then)
    plan.save("plan.json")
    Path("counts.toml").write_text(TOML, encoding="utf-8")
    more = '[[measure]]\nname = "count"\n[[measure]]\nname = "revenue"\nclip = 40\n'
    Path("spec.toml").write_text(f"conversions_per_impression = 2\n{TOML}{more}", encoding="utf-8")
    write_table(tree.table(), "tree.parquet")
    write_table(then, "counts.parquet")
    own, rng, most = plan.by_measure, np.random.default_rng(3), plan.most_of_heads(tree)
    truth, keys, sums, said = profile(tree, asked, now), [], [], {}
    for k, part in enumerate(own):
        noisy = Measurements.simulate(part.plan, tree, truth.limited(part.measure, most, part.clip), rng).noisy
        keys.append(tree_keys(layout(plan), tree, k))
        sums.append(np.rint(noisy * part.contribution(tree) / part.clip).astype(np.int64))
        past = Measurements.simulate(part.plan, tree, known.limited(part.measure, most, part.clip), rng).noisy
        said[part.measure.name] = estimates_table(denoise(tree, past, part.variance(tree)), 0.95)
    write_summary("s.avro", np.concatenate(keys), np.concatenate(sums))
    write_table(by_measure(said), "e.parquet")
    return plan, tree, said


def told(*options: str, code: int = 0) -> str:
    given = ["denoise", "plan.json", "s.avro", "-o", "out.parquet", *options]
    result = CliRunner().invoke(main, given)
    assert result.exit_code == code, result.output
    return result.stderr


@pytest.mark.parametrize("option", ["report", "report.csv", "counts", "today"])
def test_each_measure_of_a_summary_report_has_its_own_past_and_tau(made: Made, option: str) -> None:
    plan, tree, said = made
    write_table(read_table("e.parquet"), "e.csv")
    told(
        *{
            "report": ["--prior", "e.parquet"],
            "counts": ["--prior", "counts.parquet"],
            "today": ["--estimator", "learned"],
        }.get(option, ["--prior", "e.csv"])
    )
    table = read_table("out.parquet")
    counts = read_table("counts.parquet")
    limited = profile(tree, plan.spec, counts)
    assert len({part.tau for part in plan.by_measure}) == 2
    for part in plan.by_measure:
        here = table.filter(pa.array([name == part.measure.name for name in table.column("measure").to_pylist()]))
        noisy, variance = here.column("noisy").fill_null(0).to_numpy(), here.column("noise_variance").to_numpy()
        past = None
        if option.startswith("report"):
            past = from_estimates(tree, said[part.measure.name], known=["a"])
        elif option == "counts":
            mean = limited.limited(part.measure, plan.most_of_heads(tree), part.clip)
            past = replace(from_counts(tree, counts, known=["a"]), mean=mean)
        known = {"earlier": past, "tau": part.tau, "worth": part.share.worth}
        wanted = Estimator("learned").denoise(tree, Measurements(noisy, variance), **known).count
        assert np.allclose(here.column("estimate").to_numpy(), wanted)
        assert not np.allclose(wanted, denoise(tree, noisy, variance).count)


def without(*names: str) -> Callable[[pa.Table], pa.Table]:
    return lambda table: table.filter(pa.array([name not in names for name in table.column("measure").to_pylist()]))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (without("revenue"), "no rows of measure 'revenue', only of count"),
        (without("count"), "no rows of measure 'count', only of revenue"),
        (lambda table: without("count")(table).drop_columns(["measure"]), "no column 'measure'"),
    ],
)
def test_a_report_that_lacks_a_measure_is_refused(
    made: Made, change: Callable[[pa.Table], pa.Table], said: str
) -> None:
    write_table(change(read_table("e.parquet")), "less.parquet")
    words = told("--prior", "less.parquet", code=2)
    assert said in words and words.count("\n") == 1
    result = CliRunner().invoke(main, ["plan", "spec.toml", "--prior", "less.parquet"])
    assert result.exit_code == 2 and said in result.stderr, result.output


def test_another_unit_is_told_and_only_its_shares_are_used(made: Made) -> None:
    said = made[2]
    cents = said | {
        "revenue": said["revenue"].set_column(
            said["revenue"].column_names.index("estimate"),
            "estimate",
            [said["revenue"].column("estimate").to_numpy() * 100],
        )
    }
    write_table(by_measure(cents), "cents.parquet")
    words = told("--prior", "cents.parquet")
    assert "revenue of the prior is" in words and "count of the prior is" not in words
    assert "of the prior is" not in told("--prior", "e.parquet")


def test_counts_alone_take_the_counts_of_a_report_of_several_measures(made: Made) -> None:
    said = made[2]
    write_table(said["count"], "alone.parquet")
    plans, errors = [], []
    for path in ("e.parquet", "alone.parquet"):
        done = CliRunner().invoke(main, ["plan", "counts.toml", "--prior", path, "-o", "p.json"])
        assert done.exit_code == 0, done.output
        plans.append(Plan.load("p.json").roots)
        given = ["evaluate", "counts.toml", "--counts", "counts.parquet", "--prior", path, "--draws", "2"]
        done = CliRunner().invoke(main, [*given, "--method", "optimal-learned", "-o", "x.csv", "-q"])
        assert done.exit_code == 0, done.output
        errors.append(Path("x.csv").read_text(encoding="utf-8"))
    assert plans[0] == plans[1] and errors[0] == errors[1]


def test_counts_from_standard_input_are_read_once(made: Made) -> None:
    write_table(read_table("counts.parquet"), "counts.csv")
    told("--prior", "counts.csv")
    given = ["denoise", "plan.json", "s.avro", "-o", "again.parquet", "--prior", "-"]
    result = CliRunner().invoke(main, given, input=Path("counts.csv").read_bytes())
    assert result.exit_code == 0, result.stderr
    assert read_table("again.parquet").equals(read_table("out.parquet"))


def write_later(made: Made) -> None:
    """noisy.csv: figures of a later period."""
    table = made[2]["count"].select(["a", "day"])
    write_table(table.append_column("noisy", [made[2]["count"].column("estimate").to_numpy() + 1.5]), "noisy.csv")


def test_a_table_without_a_plan_refuses_a_report_of_several_measures(made: Made) -> None:
    write_later(made)
    given = ["denoise", "--table", "noisy.csv", "--levels", "a,day", "--value", "noisy", "--variance", "50", "-q"]
    refused = CliRunner().invoke(main, [*given, "--prior", "e.parquet"])
    assert refused.exit_code == 2 and "several measures (count, revenue)" in refused.stderr
    write_table(without("revenue")(read_table("e.parquet")), "one.parquet")
    assert CliRunner().invoke(main, [*given, "--prior", "one.parquet"]).exit_code == 0


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_a_prior_that_is_not_private_marks_what_is_made_from_it(made: Made, ending: str) -> None:
    write_table(mark(read_table("e.parquet"), SEEDED), f"marked.{ending}")
    assert SEEDED in told("--prior", f"marked.{ending}")
    assert words_of(read_table("out.parquet")) == SEEDED
    assert "NOT PRIVATE" not in told("--prior", "e.parquet") and not words_of(read_table("out.parquet"))
    assert EXACT_PRIOR in told("--prior", "counts.parquet") and words_of(read_table("out.parquet")) == EXACT_PRIOR
    assert "NOT PRIVATE" not in told("--prior", "counts.parquet", "--protected")
    for name, protected in ((f"marked.{ending}", False), ("e.parquet", True)):
        done = CliRunner().invoke(main, ["plan", "spec.toml", "--prior", name, "--protected", "-o", "next.json"])
        assert done.exit_code == 0, done.output
        assert Plan.load("next.json").prior.protected == protected and ("NOT protected" in done.stderr) != protected
    write_later(made)
    write_table(mark(made[2]["count"], SEEDED), f"one.{ending}")
    given = ["denoise", "--table", "noisy.csv", "--levels", "a,day", "--value", "noisy", "--variance", "50"]
    done = CliRunner().invoke(main, [*given, "--prior", f"one.{ending}", "-o", "table.csv"])
    assert SEEDED in done.stderr and words_of(read_table("table.csv")) == SEEDED
