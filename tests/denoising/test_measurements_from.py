"""Measurements from tables, plans and summary reports: denoise them, and it is what the commands write."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

from attributary import Measurements, Spec, Tree, denoise, estimators, make_plan
from attributary.api.ara.keys.key_layout import layout, tree_keys
from attributary.api.ara.service.summary_report import write_summary
from attributary.cli import main
from attributary.errors import InputError
from attributary.estimates import Estimates
from attributary.estimators import Estimator, EstimatorKind
from attributary.prior import from_counts
from attributary.read_estimates import read_estimates
from attributary.tables import read_table, write_table
from support.effort import examples

FRAME: dict[str, list[Any]] = {
    "campaign": ["shoes", "shoes", "shoes", "hats"],
    "day": [None, "mon", "tue", None],
    "noisy": [103.0, 58.0, 51.0, -4.0],
    "v": [8.0, 4.0, 4.0, 8.0],
}
LEVELS = ["campaign", "day"]


@pytest.mark.parametrize(
    "noise",
    [{"variance": "v"}, {"variance": [8, 4]}, {"std": [8**0.5, 2]}, {"noise": "laplace:scale=2,1.4142135623730951"}],
)
def test_a_table_is_denoised_as_its_figures_are(noise: dict[str, Any]) -> None:
    measured = Measurements.from_table(FRAME, LEVELS, "noisy", **noise)
    est, plain = denoise(measured), denoise(Tree.from_paths(FRAME, LEVELS), FRAME["noisy"], FRAME["v"])
    np.testing.assert_allclose(est.count, plain.count, rtol=1e-14)
    np.testing.assert_allclose(est.variance, plain.variance, rtol=1e-14)
    assert measured.tree is not None and measured.tree.path(1) == ["shoes", "mon"]


def test_a_shape_alone_goes_with_a_variance() -> None:
    measured = Measurements.from_table(FRAME, LEVELS, "noisy", variance="v", noise="normal")
    assert measured.shape == "normal"
    with pytest.raises(InputError, match="got `variance` and `noise`"):
        Measurements.from_table(FRAME, LEVELS, "noisy", variance="v", noise="normal:std=2")
    with pytest.raises(ValueError, match="if they know their tree"):
        denoise(Measurements(np.zeros(1), np.ones(1)))


def world() -> tuple[Any, Tree, Any]:
    leaves = {"a": ["x"] * 3 + ["y"] * 2, "b": ["1", "2", "3", "1", "2"], "conversions": [40, 30, 5, 9, 0]}
    spec = Spec(epsilon=4, attribute=[{"name": "a"}, {"name": "b"}])
    tree = spec.tree(pa.table(leaves))
    prior = from_counts(tree, pa.table(leaves))
    return make_plan(spec, tree, prior), tree, prior.mean


def test_a_simulation_has_the_noise_of_its_plan() -> None:
    plan, tree, count = world()
    rng = np.random.default_rng(1)
    draws = np.array([Measurements.simulate(plan, tree, count, rng).noisy for _ in range(2000)])
    variance = plan.variance(tree)
    keyed = variance < np.inf
    np.testing.assert_allclose(draws.var(axis=0)[keyed], variance[keyed], rtol=0.2)
    np.testing.assert_allclose(draws.mean(axis=0)[keyed], count[keyed], atol=0.2)
    assert "seeded" in Measurements.simulate(plan, tree, count, rng).not_private
    assert Measurements.simulate(plan, tree, count).not_private == ""


def test_a_summary_report_is_denoised_as_by_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    plan, tree, count = world()
    measured, contribution = Measurements.simulate(plan, tree, count), plan.contribution(tree)
    keyed = contribution > 0
    sums = np.rint(measured.noisy * contribution).astype(np.int64)
    write_summary("s.avro", tree_keys(layout(plan), tree)[keyed], sums[keyed])
    plan.save("plan.json")
    write_table(tree.table(), "tree.parquet")
    est = denoise(Measurements.from_summary(plan, "s.avro", tree))
    result = CliRunner().invoke(main, ["denoise", "plan.json", "s.avro", "-q", "-o", "out.parquet"])
    assert result.exit_code == 0, result.output
    assert read_table("out.parquet").equals(est.table())


@given(st.integers(0, 100), st.sampled_from(["unbiased", "nonnegative", "learned"]))
@settings(max_examples=examples(20), deadline=None)
def test_estimates_in_memory_are_those_read_from_their_table(seed: int, name: str) -> None:
    plan, tree, count = world()
    measured = Measurements.simulate(plan, tree, count, np.random.default_rng(seed))
    est = Estimator(name).denoise(tree, measured)
    one, other = Estimates.of(est, 0.9), read_estimates(est.table(0.9), "t")
    for field in ("noisy", "noise_variance", "estimate", "variance", "low", "high", "correction", "from_prior"):
        np.testing.assert_array_equal(getattr(one, field), getattr(other, field))
    assert (one.confidence, one.shape, one.not_private) == (other.confidence, other.shape, other.not_private)


def test_an_estimator_of_ones_own_is_one_function_and_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def zero(tree: Tree, measured: Measurements, *_: Any) -> Any:
        return denoise(tree, np.zeros(len(tree)), measured.variance)

    monkeypatch.setitem(estimators.ESTIMATORS, "zero", EstimatorKind("zero", zero, "nothing at all"))
    source = tmp_path / "t.csv"
    source.write_text("a,n\nx,5\ny,7\n")
    args = ["denoise", "--table", str(source), "--levels", "a", "--value", "n", "--variance", "1", "-q"]
    result = CliRunner().invoke(main, [*args, "--estimator", "zero"])
    assert result.exit_code == 0 and "x,5,0,1," in result.stdout, result.output
    assert "zero: nothing at all" in " ".join(CliRunner().invoke(main, ["run", "--help"]).output.split())
