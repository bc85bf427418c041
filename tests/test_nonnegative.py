"""Non-negative counts: equal to exact solutions on both runners; sums hold; exact and missing figures have rules."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import assume, given, settings
from scipy.optimize import nnls

import curves
from attributary import Tree, denoise
from attributary.denoising import compiled
from exact import incidence, least_squares
from forests import Case, cases, grown

RUNNERS = pytest.mark.parametrize("runner", ["plain", "compiled"])
METHODS = pytest.mark.parametrize("method", ["top-down", "joint"])


@contextmanager
def running(runner: str) -> Iterator[None]:
    module = import_module("attributary.denoising.denoise")
    with patch.object(module, "COMPILED_FROM", 0 if runner == "compiled" else 10**9):
        yield


def settle(runner: str, case: Case, method: str) -> np.ndarray:
    with running(runner):
        return denoise(case.tree, case.noisy, case.variance, nonnegative=method).count


def agreeing(case: Case) -> Case:
    """The case with the exact figures of a truth that adds up; some of them 0."""
    leaf = case.tree.is_leaf
    truth = np.where(leaf, np.arange(len(leaf)) % 4, 0.0)
    for v in curves.bottom_up(case.parent):
        if case.parent[v] >= 0:
            truth[case.parent[v]] += truth[v]
    noisy = [float(t) if v == 0 else x for t, x, v in zip(truth, case.noisy, case.variance, strict=True)]
    return case._replace(noisy=noisy)


def largest(case: Case) -> float:
    return 1 + float(np.abs(np.nan_to_num(case.noisy)).max())


def misfit(case: Case, count: np.ndarray) -> float:
    x, var = np.array(case.noisy), np.array(case.variance)
    use = (var > 0) & (var < np.inf)
    return float(np.sum((x[use] - count[use]) ** 2 / var[use]))


@RUNNERS
@settings(max_examples=120, deadline=None)
@given(case=cases())
def test_joint_is_the_optimum_in_exact_fractions(runner: str, case: Case) -> None:
    exact = [float(c) for c in curves.joint(*case)]
    assert np.allclose(settle(runner, case, "joint"), exact, rtol=0, atol=3e-14 * largest(case))


@RUNNERS
@settings(max_examples=100, deadline=None)
@given(case=cases(most=25, spread=1.5))
def test_joint_equals_nnls_on_the_whitened_system(runner: str, case: Case) -> None:
    leaves = np.flatnonzero(case.tree.is_leaf).tolist()
    rows, weight = np.array(incidence(case.parent, leaves), float), 1 / np.sqrt(case.variance)
    theta, _ = nnls(rows * weight[:, None], np.array(case.noisy) * weight, maxiter=10_000)
    assert np.allclose(settle(runner, case, "joint"), rows @ theta, rtol=0, atol=1e-8 * largest(case))


@RUNNERS
@settings(max_examples=120, deadline=None)
@given(case=cases())
def test_topdown_settles_each_family_as_trying_all_sets_does(runner: str, case: Case) -> None:
    exact = [float(c) for c in curves.topdown(*case)]
    assert np.allclose(settle(runner, case, "top-down"), exact, rtol=0, atol=3e-14 * largest(case))


@RUNNERS
@settings(max_examples=120, deadline=None)
@given(case=cases(spread=3.0, special=(0.0, np.inf)).map(agreeing))
def test_topdown_with_exact_and_missing_figures(runner: str, case: Case) -> None:
    exact = [float(c) for c in curves.topdown(*case)]
    assert np.allclose(settle(runner, case, "top-down"), exact, rtol=0, atol=1e-13 * largest(case))


@RUNNERS
@settings(max_examples=120, deadline=None)
@given(case=cases(spread=3.0, special=(0.0, np.inf)).map(agreeing))
def test_joint_with_exact_and_missing_figures_fits_no_worse_than_the_limit(runner: str, case: Case) -> None:
    # Which of several optima is a rule of ours, tested below; that it is one shows in the misfit.
    count = settle(runner, case, "joint")
    limit = np.array([float(c) for c in curves.joint(*case)])
    assert misfit(case, count) <= misfit(case, limit) * (1 + 1e-9) + 1e-9
    pinned = np.array(case.variance) == 0
    assert np.allclose(count[pinned], np.array(case.noisy)[pinned], rtol=1e-15, atol=0)


@RUNNERS
@METHODS
@settings(max_examples=200, deadline=None)
@given(case=cases(most=30, special=(0.0, np.inf)).map(agreeing))
def test_counts_are_never_negative_add_up_and_fall_from_parent_to_child(runner: str, method: str, case: Case) -> None:
    count = settle(runner, case, method)
    assert not np.signbit(count).any() and np.isfinite(count).all()
    parent = np.array(case.parent)
    child = parent >= 0
    assert (count[child] <= count[parent[child]]).all()
    sums = np.bincount(parent[child], weights=count[child], minlength=len(parent))
    inner = ~case.tree.is_leaf
    assert np.allclose(sums[inner], count[inner], rtol=4e-15, atol=0)


@RUNNERS
@settings(max_examples=100, deadline=None)
@given(case=cases(most=30, special=(0.0, np.inf)).map(agreeing))
def test_topdown_keeps_the_roots_and_joint_fits_no_worse(runner: str, case: Case) -> None:
    top, joint = settle(runner, case, "top-down"), settle(runner, case, "joint")
    blue = denoise(case.tree, case.noisy, case.variance).count
    root = np.array(case.parent) < 0
    kept = root & (blue > 0)
    assert (top[kept] >= blue[kept]).all()
    free = root & (np.array([float(c) for c in least_of(case)]) == 0)
    assert np.allclose(top[free], np.maximum(blue[free], 0), rtol=1e-13, atol=1e-14 * largest(case))
    assert misfit(case, joint) <= misfit(case, top) * (1 + 1e-9) + 1e-9


def least_of(case: Case) -> list[float]:
    least = [0.0] * len(case.parent)
    for v in curves.bottom_up(case.parent):
        least[v] = case.noisy[v] if case.variance[v] == 0 else least[v]
        if case.parent[v] >= 0:
            least[case.parent[v]] += least[v]
    return least


@RUNNERS
@METHODS
@settings(max_examples=100, deadline=None)
@given(case=cases(spread=1.0, special=(np.inf,)))
def test_a_blue_that_is_nowhere_negative_stays(runner: str, method: str, case: Case) -> None:
    leaves = np.sum(incidence(case.parent, np.flatnonzero(case.tree.is_leaf).tolist()), axis=1)
    case = case._replace(noisy=(np.array(case.noisy) + 1000.0 * leaves).tolist())
    blue = denoise(case.tree, case.noisy, case.variance).count
    assume((blue >= 0).all())  # all but always: a figure may be missing next to one that is larger than its share
    assert np.allclose(settle(runner, case, method), blue, rtol=0, atol=1e-13 * largest(case))


@RUNNERS
@METHODS
@settings(max_examples=100, deadline=None)
@given(case=cases(most=30))
def test_other_units_give_the_same_counts_in_those_units(runner: str, method: str, case: Case) -> None:
    unit = 2.0**-7
    other = Case(case.parent, [x * unit for x in case.noisy], [v * unit**2 for v in case.variance])
    assert (settle(runner, other, method) == settle(runner, case, method) * unit).all()
