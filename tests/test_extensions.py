"""A budget method, an estimator and a metric of one's own: a few lines each, then evaluated, planned, run and drawn."""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from pyarrow import parquet

import attributary
from attributary import Measurements, Tree, budget, denoise, estimators, rmsre
from attributary.budget import BudgetMethod, Split
from attributary.cli import main
from attributary.estimators import Background, EstimatorKind
from attributary.evaluate import Case, Evaluation, evaluate
from attributary.plan import make_plan
from attributary.prior import from_counts
from attributary.spec import privacy_unit
from attributary.spec.privacy_unit import PrivacyUnit
from support.plans import counts, spec


def halves(tree: Tree, count: Any, epsilon: float, tau: float, **options: Any) -> Split:
    """Half of what is left for each level, top to bottom."""
    levels = 0.5 ** np.arange(1, tree.depth + 1)
    levels[-1] *= 2
    return Split(tree, np.tile(levels * epsilon, (int(tree.first[0]), 1)), epsilon, options["noise"])


def shrunk(tree: Tree, measured: Measurements, known: Background) -> Any:
    """Unbiased counts, moved towards 0 by what their variance says."""
    est = denoise(tree, measured)
    return replace(est, count=est.count * est.blue**2 / (est.blue**2 + est.variance))


def absolute(count: Any, tau: float) -> Any:
    """Every conversion that is off counts alike."""
    return np.full(np.shape(count), tau**-2.0)


TWO_CHANGES = PrivacyUnit(
    "two-changes",
    "also two changes of its unknown attributes",
    lambda loss: max(loss.conversion, 2 * loss.change),
    unknown_part=0.25,
    sentence="changing its unknown attributes twice",
)


@pytest.fixture
def registered() -> Iterator[None]:
    registries: tuple[dict[str, Any], ...] = (
        *(budget.METHODS, estimators.ESTIMATORS, rmsre.METRICS, privacy_unit.UNITS),
    )
    before = [dict(registry) for registry in registries]
    budget.register(BudgetMethod("halves", halves, "half of what is left for each level"))
    estimators.register(EstimatorKind("shrunk", shrunk, "moved towards 0"))
    rmsre.METRICS["absolute"] = absolute
    privacy_unit.register(TWO_CHANGES)
    yield
    for registry, entries in zip(registries, before, strict=True):
        registry.clear()
        registry.update(entries)


def case(**options: Any) -> Case:
    asks = spec(split_by="a", **options)
    tree = asks.tree(counts(0, 5))
    prior = from_counts(tree, counts(1, 5))
    return Case.of("made up", "a > b > day", asks, tree, from_counts(tree, counts(0, 5)).mean, prior)


@pytest.mark.usefixtures("registered")
def test_a_split_and_an_estimator_of_ones_own_are_evaluated_and_drawn(tmp_path: Path) -> None:
    names = ["halves-shrunk", "halves-unbiased", "equal-shrunk", "equal-unbiased"]
    found = evaluate([case()], names, epsilons=[1, 4], taus=[10], draws=20)
    assert {row["method"] for row in found.to_pylist()} == set(names)
    found.save_figure(str(tmp_path / "errors.svg"))
    assert "halves split, shrunk" in (tmp_path / "errors.svg").read_text()
    change = next(c for c in found.compare("halves-shrunk", "halves-unbiased") if c["level"] is None)
    assert change["change"] != 0 and change["standard_error"] > 0
    assert isinstance(found, Evaluation)


@pytest.mark.usefixtures("registered", "undrawn")
def test_they_are_planned_and_run(shop_of: Callable[[int], Path], tmp_path: Path) -> None:
    made = case()
    plan = make_plan(made.spec, spec(split_by="a").tree(counts(0, 5)), made.prior, "halves")
    assert plan.default == pytest.approx([65536 / 2, 65536 / 4, 65536 / 4], abs=1)
    shop = str(shop_of(4_000) / "spec.toml")
    run = attributary.run(shop, method="halves", estimator="shrunk", rng=np.random.default_rng(0))
    assert run.plan.method == "halves" and len(run.estimates["count"].count) == len(run.tree)
    args = ["run", shop, "--method", "halves", "--estimator", "shrunk", "--seed", "1", "-o", str(tmp_path / "run")]
    result = CliRunner().invoke(main, args)
    assert result.exit_code == 0, result.output
    for command in ("evaluate", "run"):
        assert "shrunk" in CliRunner().invoke(main, [command, "--help"]).output


@pytest.mark.usefixtures("registered")
def test_a_name_that_is_taken_is_refused() -> None:
    with pytest.raises(ValueError, match="a budget method named 'halves' is registered already"):
        budget.register(BudgetMethod("halves", halves, "again"))
    with pytest.raises(ValueError, match="an estimator named 'shrunk' is registered already"):
        estimators.register(EstimatorKind("shrunk", shrunk, "again"))


@pytest.mark.usefixtures("registered")
def test_another_metric_is_what_budgets_plans_and_evaluations_go_by() -> None:
    made = case(metric="absolute")
    tree, weigh = made.tree, made.spec.weigh
    plain, other = (evaluate([c], ["optimal-unbiased"], epsilons=[1], taus=[10], draws=0) for c in (case(), made))
    (mine,) = (row["rmsre"] for row in other.to_pylist() if row["level"] is None)
    assert mine != next(row["rmsre"] for row in plain.to_pylist() if row["level"] is None)
    splits = {
        name: budget.optimal(tree, made.prior.mean, 1.0, 10.0, metric=metric)
        for name, metric in (("rmsre", rmsre.weights), ("absolute", weigh))
    }
    errors = {name: budget.expected(tree, made.prior.mean, split, 10.0, metric=weigh) for name, split in splits.items()}
    assert (errors["absolute"].roots <= errors["rmsre"].roots * (1 + 1e-9)).all()
    assert errors["absolute"].roots.sum() < errors["rmsre"].roots.sum()
    variance = budget.expected(tree, made.count, splits["absolute"], 10.0, metric=weigh).variance
    levels = np.sqrt([variance[tree.level == i].mean() / 100 for i in range(tree.depth)])
    found = budget.expected(tree, made.count, splits["absolute"], 10.0, metric=weigh)
    assert found.levels == pytest.approx(levels) and found.tree == pytest.approx(np.sqrt(np.mean(levels**2)))
    named = made.spec.tree(counts(0, 5))
    plan = make_plan(made.spec, named, from_counts(named, counts(1, 5)))
    assert plan.spec.metric == "absolute"
    assert plan.expected.tree.plan == pytest.approx(
        budget.expected(named, from_counts(named, counts(1, 5)).mean, plan.variance(named), 10.0, metric=weigh).tree
    )


def test_an_unknown_metric_is_refused() -> None:
    with pytest.raises(ValueError, match="metric"):
        spec(metric="best")


@pytest.mark.usefixtures("registered")
def test_a_privacy_unit_of_ones_own_is_asked_for_kept_to_and_told() -> None:
    tree = spec().tree(counts(0, 5))
    known = from_counts(tree, counts(1, 5))
    for method in ("optimal", "equal", "leaves"):
        plan = make_plan(spec(neighbours="two-changes"), tree, known, method)
        loose = make_plan(spec(), tree, known, method)
        loss = plan.privacy_loss
        assert loss.under("two-changes") == max(loss.conversion, 2 * loss.change) <= 4 * (1 + 1e-12)
        assert "two-changes" in plan.guarantees and "two-changes" not in loose.guarantees
        assert loose.privacy_loss.under("two-changes") > 4
        said = f"ε = {loss.under('two-changes'):.4g}: changing its unknown attributes twice"
        assert said in plan.privacy_words.all_lines and said not in loose.privacy_words.all_lines
        assert f'"two-changes": {loss.under("two-changes")}' in plan.to_json()
    with pytest.raises(ValueError, match="a privacy unit named 'two-changes' is registered already"):
        privacy_unit.register(TWO_CHANGES)


def test_a_column_of_estimates_is_a_row_of_their_schema(shop_of: Callable[[int], Path], tmp_path: Path) -> None:
    package = Path(attributary.__file__).parent
    shutil.copytree(package, tmp_path / "attributary", ignore=shutil.ignore_patterns("__pycache__"))
    schema = tmp_path / "attributary" / "estimates.py"
    lines = schema.read_text().splitlines(keepends=True)
    last = next(i for i, line in enumerate(lines) if line.startswith('    Column("zero_probability"'))
    of = "of=lambda est: np.sqrt(est.variance)"
    lines.insert(last + 1, f'    Column("doubt", "a number, 0 or more", 0, {of}, key="doubt", head="Doubt"),\n')
    schema.write_text("".join(lines))
    shop, made, page = shop_of(4_000) / "spec.toml", tmp_path / "run", tmp_path / "page.html"
    for args in (
        ["run", str(shop), "--estimator", "learned", "--seed", "1", "-q", "-o", str(made)],
        ["report", str(made / "estimates.parquet"), "-o", str(page)],
    ):
        command = [sys.executable, "-m", "attributary.cli", *args]
        subprocess.run(command, env={**os.environ, "PYTHONPATH": str(tmp_path)}, check=True, capture_output=True)
    table = parquet.read_table(made / "estimates.parquet")
    doubt, variance = (table.column(name).to_numpy() for name in ("doubt", "variance"))
    assert doubt == pytest.approx(np.sqrt(variance))
    assert all("Doubt" in path.read_text() for path in (made / "report.html", page))
