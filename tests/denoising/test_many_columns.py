"""Many columns of figures of one tree: each as if it were alone, on both engines."""

from types import ModuleType

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attributary import Measurements, Tree, denoise
from attributary.denoising import compiled, linear, passes
from attributary.errors import InputError
from attributary.prior import none
from attributary.read_estimates import read_measures
from support.effort import examples, first_of
from support.forests import UNEVEN, Case, cases, grown

TREE = Tree.from_parents(UNEVEN)


def matrices(case: Case, columns: int, own: bool, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Columns of figures that agree where the first one's are exact, each with variances of its own or not."""
    rng = np.random.default_rng(seed)
    noisy, variance = (case.tree.to_level_order(np.array(a)) for a in (case.noisy, case.variance))
    x = np.stack([noisy] + [noisy * rng.normal(1, 2) for _ in range(columns - 1)], 1)
    if not own:
        return x, variance
    return x, np.stack([variance] + [variance * rng.choice([1.0, 3.0, 1e-6, np.inf]) for _ in range(columns - 1)], 1)


@pytest.mark.parametrize("engine", [linear, compiled], ids=["numpy", "compiled"])
@settings(max_examples=examples(60), deadline=None)
@given(
    case=cases(spread=4.0, special=(np.inf, np.inf)), columns=st.integers(1, 5), own=st.booleans(), seed=st.integers(0)
)
def test_every_column_is_denoised_as_it_is_alone(
    engine: ModuleType, case: Case, columns: int, own: bool, seed: int
) -> None:
    tree, back = case.tree, case.tree.from_level_order
    x, var = matrices(case, columns, own, seed)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(passes, "engine", lambda *_: engine)
        est = denoise(
            tree,
            np.stack([back(one) for one in x.T], 1),
            back(var) if not own else np.stack([back(one) for one in var.T], 1),
        )
    assert est.count.shape == x.shape and est.variance.shape == var.shape
    for j in range(columns):
        alone, its_variance = linear.blue(tree, x[:, j], var[:, j] if own else var)
        size = np.abs(np.nan_to_num(x[:, j])).max() + np.abs(alone).max()
        np.testing.assert_allclose(est.count[:, j], back(alone), rtol=1e-9, atol=1e-12 * size)
        np.testing.assert_allclose(est.variance[:, j] if own else est.variance, back(its_variance), rtol=1e-9)


@pytest.mark.parametrize("own", [False, True])
def test_many_figures_of_a_small_tree_are_compiled_and_the_same(own: bool) -> None:
    tree, rng = grown(3_000, 5), np.random.default_rng(3)
    x, var = rng.normal(50, 20, (len(tree), 40)), 10 ** rng.uniform(-2, 2, (len(tree), 40))
    est = denoise(tree, x, var if own else var[:, 0])
    for j in (0, 7, 39):
        alone = denoise(tree, x[:, j], var[:, j] if own else var[:, 0])
        np.testing.assert_allclose(est.count[:, j], alone.count, rtol=1e-10, atol=1e-10)
        np.testing.assert_allclose(est.variance[:, j] if own else est.variance, alone.variance, rtol=1e-12)


def figures(own: bool) -> Measurements:
    rng = np.random.default_rng(4)
    variance = rng.uniform(1, 9, (len(TREE), 3))
    variance[4] = np.inf
    return Measurements.of(TREE, rng.normal(3, 9, (len(TREE), 3)), variance if own else variance[:, 0])


@pytest.mark.parametrize("own", [False, True])
@pytest.mark.parametrize("options", [{}, {"nonnegative": True}, {"nonnegative": "joint", "whole": True}], ids=str)
def test_an_estimate_of_columns_is_made_of_theirs(own: bool, options: dict) -> None:
    measured = figures(own)
    est = denoise(measured, **options)
    assert est.variance.ndim == 1 + own and est.count.shape == (len(TREE), 3)
    parts = [denoise(TREE, measured.column(j), **options) for j in range(3)]
    for j, alone in enumerate(parts):
        one = est.column(j)
        for of in (est, one):
            pick = (lambda a: a[:, j] if a.ndim > 1 else a) if of is est else np.asarray  # noqa: B023
            for mine, its in zip(of.interval(0.9), alone.interval(0.9), strict=True):
                np.testing.assert_allclose(pick(mine), its, rtol=1e-12)
            np.testing.assert_allclose(pick(of.correction), alone.correction, rtol=1e-9)
            np.testing.assert_allclose(pick(of.count), alone.count, rtol=1e-12)
            np.testing.assert_allclose(pick(of.variance), alone.variance, rtol=1e-12)
        assert one.total([1, 2]).interval() == pytest.approx(alone.total([1, 2]).interval())
    assert est.fit.q == pytest.approx(sum(p.fit.q for p in parts))
    assert est.fit.df == pytest.approx(sum(p.fit.df for p in parts))
    assert "10 × 3" in repr(est) and "first of 3 columns" in est._repr_html_()
    read = read_measures(est.table(), "columns")
    assert list(read) == ["0", "1", "2"]
    np.testing.assert_allclose(TREE.from_level_order(read["2"].estimate), est.count[:, 2])


def test_repeated_and_added_columns() -> None:
    own, shared = figures(True), figures(False)
    for way in (Measurements.again, Measurements.plus):
        for one, other in ((own, own), (shared, shared), (own, shared)):
            both = way(one, other)
            for j in range(3):
                alone = way(one.column(j), other.column(j))
                np.testing.assert_allclose(both.column(j).noisy, alone.noisy)
                np.testing.assert_allclose(both.column(j).variance, alone.variance)
    assert shared.again(shared).variance.ndim == 1


@pytest.mark.parametrize("columns", first_of([3, 20_000]))
@pytest.mark.parametrize("own", [False, True])
def test_the_column_at_fault_is_named(own: bool, columns: int) -> None:
    x, var = np.ones((len(TREE), columns)), np.ones((len(TREE), columns)) if own else np.ones(len(TREE))
    x[6, 2] = np.nan
    with pytest.raises(ValueError, match="column 2: a noisy figure is a finite number.*node 6 has nan"):
        denoise(TREE, x, var)
    with pytest.raises(ValueError, match="column 0: exact figures"):
        denoise(TREE, np.ones_like(x), 0 * var)


def test_what_needs_one_column_says_so() -> None:
    est = denoise(figures(False))
    with pytest.raises(ValueError, match=r"est.column\(0\).total"):
        est.total([1])
    with pytest.raises(ValueError, match="a prior is that of one column"):
        denoise(TREE, figures(False), prior=none(TREE))
    with pytest.raises(ValueError, match="no column 'clicks'; the columns are numbers"):
        est.column("clicks")
    with pytest.raises(IndexError):
        est.column(3)
    for shape in ((9, 2), (len(TREE), 0), (len(TREE), 2, 2)):
        with pytest.raises(ValueError, match="for each of the 10 nodes is needed"):
            denoise(TREE, np.ones(shape), 1.0)
    with pytest.raises(ValueError, match="one variance for each of the 10 nodes"):
        denoise(TREE, np.ones((10, 3)), np.ones((10, 2)))


def test_numbers_for_several_columns_are_told_from_those_per_level() -> None:
    frame = {"a": ["x", "x", "x"], "b": [None, "p", "q"], "n": [9.0, 4, 6], "r": [900.0, 410, 580]}
    levels, value = ["a", "b"], ["n", "r"]
    with pytest.raises(InputError, match=r"may be a number per column or per level: give \[\[8.5\], \[566\], …\]"):
        Measurements.from_table(frame, levels, value, std=[8.5, 566])
    with pytest.raises(InputError, match="may be a number per column or per level"):
        Measurements.from_table(frame, levels, value, variance=np.array([8.5, 566]))
    each = Measurements.from_table(frame, levels, value, std=[[8.5], [566]]).variance
    np.testing.assert_allclose(each, np.square([[8.5, 566]] * 3))
    both = Measurements.from_table(frame, levels, value, std=[[3, 2], [9, 4]]).variance
    np.testing.assert_allclose(both, np.square([[3, 9], [2, 4], [2, 4]]))


@pytest.mark.parametrize("shape", ["laplace", "normal", "laplace-twice"])
@pytest.mark.parametrize("times", [1e-140, 1e-80, 1e78, 1e100, 1e149])
def test_intervals_scale_with_figures_of_any_size(shape: str, times: float) -> None:
    tree = Tree.from_parents([-1, 0, 0, 1, 1, 2, 2])
    x, variance = np.array([102.0, 59, 41, 33, 30, 13, 26]), np.array([3.0, 1, 2, 5, 1, 1, 4])
    plain, large = denoise(tree, x, variance, shape=shape), denoise(tree, x * times, variance * times**2, shape=shape)
    np.testing.assert_allclose(np.array(large.interval()) / times, plain.interval(), rtol=1e-6)
    np.testing.assert_allclose(
        np.array(large.total([3, 5]).interval()) / times, plain.total([3, 5]).interval(), rtol=1e-6
    )
    assert large.fit.z == pytest.approx(plain.fit.z, rel=1e-6)
    with pytest.raises(ValueError, match=r"up to 1e\+300, or inf for a node not measured"):
        denoise(tree, x, 1e301)
