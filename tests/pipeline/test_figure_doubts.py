"""Figure doubts: honest figures raise none, and figures that were cut, rounded or do not add up do."""

import numpy as np
import pytest

from attributary import Measurements, Tree
from attributary.errors import InputError
from attributary.pipeline.figure_doubts import clamped, doubts_of, level_gaps, refuse_averages, rounding_step
from attributary.types import Floats

FAMILIES = 12
TREE = Tree.from_parents([-1] + [0] * FAMILIES + [1 + i % FAMILIES for i in range(FAMILIES * 20)])


def counts(rng: np.random.Generator, mean: float) -> Floats:
    return np.asarray(TREE.roll_up(rng.poisson(mean, FAMILIES * 20).astype(float)), float)


def measured(rng: np.random.Generator, count: Floats, std: float, whole: bool) -> Measurements:
    noisy = count + rng.laplace(0, std / 2**0.5, len(TREE))
    return Measurements.of(TREE, np.rint(noisy) if whole else noisy, std**2 + whole / 12)


@pytest.mark.parametrize("whole", [False, True])
@pytest.mark.parametrize("std", [0.5, 3.0, 30.0])
@pytest.mark.parametrize("mean", [0.05, 3.0, 400.0])
def test_honest_figures_raise_no_doubt(whole: bool, std: float, mean: float) -> None:
    rng = np.random.default_rng(1)
    for _ in range(20):
        assert doubts_of(measured(rng, counts(rng, mean), std, whole), "t") == []


@pytest.mark.parametrize("std", [6.0, 30.0])
def test_cut_figures_are_seen(std: float) -> None:
    rng = np.random.default_rng(2)
    for _ in range(20):
        honest = measured(rng, counts(rng, 3.0), std, True)
        cut = Measurements.of(TREE, np.maximum(honest.noisy, 0), honest.variance)
        assert clamped(honest.noisy, honest.variance) == 0 < clamped(cut.noisy, cut.variance)
        assert any("figures look cut at 0" in doubt for doubt in doubts_of(cut, "t"))


@pytest.mark.parametrize("step", [1, 2, 5, 10, 25, 100])
def test_the_step_of_rounding_is_found(step: int) -> None:
    noisy = np.random.default_rng(3).normal(0, 300 * step, 500)
    assert rounding_step(step * np.rint(noisy / step)) == step
    assert rounding_step(noisy) == 0 == rounding_step(np.zeros(500))


def test_rounding_is_told_where_it_matters_and_is_not_stated() -> None:
    noisy = 10 * np.rint(np.random.default_rng(4).normal(300, 60, len(TREE)) / 10)
    star = Measurements.of(Tree.from_parents([-1] * len(TREE)), noisy, 20.0)
    assert "rounded=10" in doubts_of(star, "t")[0]
    assert doubts_of(star, "t", rounded=True) == []
    assert doubts_of(Measurements.of(Tree.from_parents([-1] * len(TREE)), noisy, 2000.0), "t") == []


def test_levels_that_do_not_measure_the_same_are_told() -> None:
    rng = np.random.default_rng(5)
    honest = measured(rng, counts(rng, 400.0), 10.0, True)
    leaves = TREE.is_leaf
    short = Measurements.of(TREE, np.where(leaves, 0.8 * honest.noisy, honest.noisy), honest.variance)
    (gap,) = level_gaps(TREE, short)
    assert gap.share == pytest.approx(0.8, abs=0.01) and gap.z < -8 and not gap.averages
    assert "add up to 80% of those of" in doubts_of(short, "t")[0]
    loud = Measurements.of(TREE, honest.noisy, honest.variance / 400)  # much more noise than stated is no such gap
    assert level_gaps(TREE, loud) == []


def test_averages_are_refused() -> None:
    rng = np.random.default_rng(6)
    leaf = rng.normal(400, 30, FAMILIES * 20)
    sums = np.asarray(TREE.roll_up(leaf), float)
    size = np.asarray(TREE.roll_up(np.ones(FAMILIES * 20)), float)
    with pytest.raises(InputError, match="as averages and rates are, which do not add up"):
        refuse_averages(Measurements.of(TREE, sums / size, 4.0), "minutes", "t")


def test_averages_are_refused_in_small_tables_and_honest_figures_are_not() -> None:
    tree = Tree.from_parents([-1, -1, 0, 0, 1, 1])
    minutes = Measurements.of(tree, [3.1, 4.1, 3.0, 3.4, 4.0, 4.2], 0.02)
    with pytest.raises(InputError, match="as averages and rates are"):
        refuse_averages(minutes, "minutes", "t")
    loud = Measurements.of(tree, minutes.noisy, 4.0)  # of which noise alone might be the reason
    refuse_averages(loud, "minutes", "t")
    with pytest.raises(InputError, match="as averages and rates are"):
        refuse_averages(loud, "minutes per visit", "t")
    rng = np.random.default_rng(7)
    for mean in (0.05, 3.0, 400.0):
        for std in (0.5, 3.0, 30.0):
            refuse_averages(measured(rng, counts(rng, mean), std, False), "products", "t")
