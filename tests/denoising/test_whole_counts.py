"""Whole counts: sums hold exactly, each is its real count rounded down or up, and the order of ties is fixed."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attributary import Tree, denoise
from attributary.denoising import threads
from attributary.denoising.whole import whole
from support.effort import examples
from support.forests import Case, cases, grown, parents
from support.runners import WITH_NUMPY, running


def rounded(runner: str, parent: list[int], count: np.ndarray, floor: int | None = None) -> np.ndarray:
    tree = Tree.from_parents(parent)
    with running(runner):
        return tree.from_level_order(whole(tree, tree.to_level_order(np.asarray(count, float)), floor))


def added_up(parent: list[int], leaves: np.ndarray) -> np.ndarray:
    """The leaves' values, and their sums above."""
    tree = Tree.from_parents(parent)
    count = np.where(tree.is_leaf, leaves, 0).astype(leaves.dtype)
    for level in range(tree.depth - 1, 0, -1):
        nodes = np.flatnonzero(tree.level == level)
        np.add.at(count, tree.parent[nodes], count[nodes])
    return count


@WITH_NUMPY
@pytest.mark.parametrize("method", [None, "top-down", "joint"])
@settings(max_examples=examples(80), deadline=None)
@given(case=cases(most=25, spread=2.0))
def test_sums_hold_and_each_count_is_rounded_down_or_up(runner: str, method: str | None, case: Case) -> None:
    with running(runner):
        real = denoise(case.tree, case.noisy, case.variance, nonnegative=method).count
        estimate = denoise(case.tree, case.noisy, case.variance, nonnegative=method, whole=True)
    count = estimate.count
    assert count.dtype == np.int64
    assert (added_up(case.parent, count) == count).all()
    rounding = 1e-12 * (1 + np.abs(real).max())
    assert (np.floor(real - rounding) <= count).all() and (count <= np.ceil(real + rounding)).all()
    assert method is None or (count >= 0).all()


@WITH_NUMPY
@settings(max_examples=examples(80), deadline=None)
@given(parent=parents(25), seed=st.integers(0, 1000))
def test_what_is_whole_stays_even_where_rounding_blurred_it(runner: str, parent: list[int], seed: int) -> None:
    rng = np.random.default_rng(seed)
    count = added_up(parent, rng.integers(-1000, 1000, len(parent)))
    assert (rounded(runner, parent, count) == count).all()
    blurred = count + rng.uniform(-1e-11, 1e-11, len(parent))
    assert (rounded(runner, parent, blurred) == count).all()
    positive = added_up(parent, rng.integers(0, 3, len(parent)))
    blurred = positive + rng.uniform(-1e-11, 1e-11, len(parent))
    assert (rounded(runner, parent, blurred, 0) == positive).all()


@WITH_NUMPY
@settings(max_examples=examples(80), deadline=None)
@given(parent=parents(25), tenths=st.lists(st.integers(0, 30), min_size=25, max_size=25))
def test_no_sibling_with_a_larger_remainder_is_passed_over(runner: str, parent: list[int], tenths: list[int]) -> None:
    real = added_up(parent, np.array(tenths[: len(parent)])) / 10  # many ties
    count = rounded(runner, parent, real, 0)
    rest, up = np.round(real % 1, 6) % 1, count > np.floor(real + 1e-9)
    for a in range(len(parent)):
        for b in range(len(parent)):
            if parent[a] == parent[b] >= 0 and up[b] and not up[a]:
                assert rest[a] < rest[b] or (rest[a] == rest[b] and a > b)


@WITH_NUMPY
def test_ties_go_to_the_earlier_sibling_even_where_rounding_parts_them(runner: str) -> None:
    third = 1 / 3
    assert rounded(runner, [-1, 0, 0, 0], [1, third, third, third]).tolist() == [1, 1, 0, 0]
    assert rounded(runner, [-1, 0, 0, 0], [1, third - 1e-15, third, third + 1e-15]).tolist() == [1, 1, 0, 0]
    assert rounded(runner, [-1, 0, 0], [1, 0.5 - 1e-15, 0.5 + 1e-15]).tolist() == [1, 1, 0]
    assert rounded(runner, [-1, 0, 0], [-1, -0.5, -0.5]).tolist() == [-1, 0, -1]


@WITH_NUMPY
def test_roots_are_rounded_to_the_nearest_and_half_to_even(runner: str) -> None:
    real = [0.5, 1.5, 2.5, -0.5, -1.5, 2.6, -2.6]
    assert rounded(runner, [-1] * 7, real).tolist() == [0, 2, 2, 0, -2, 3, -3]


@WITH_NUMPY
def test_sums_that_are_off_by_rounding_are_mended(runner: str) -> None:
    assert rounded(runner, [-1, 0, 0], [2.4, 1, 2]).tolist() == [2, 0, 2]  # one too few for what is whole
    assert rounded(runner, [-1, 0, 0], [2.4, 1.25, 2.25]).tolist() == [2, 0, 2]
    assert rounded(runner, [-1, 0, 0], [0.4, 0, 1], 0).tolist() == [0, 0, 0]
    assert rounded(runner, [-1, 0], [-0.7, -0.7], 0).tolist() == [0, 0]
    assert rounded(runner, [-1, 0, 0], [3.6, 0.7, 0.5]).tolist() == [4, 2, 2]
    assert rounded(runner, [-1, 0, 0], [0, -1e-17, 1e-17], 0).tolist() == [0, 0, 0]


@WITH_NUMPY
@pytest.mark.parametrize("share", [0.0, 0.25, 1 / 3, 0.999])
def test_large_families(runner: str, share: float) -> None:
    n = 30_000
    rng = np.random.default_rng(1)
    leaves = np.where(rng.random(n + 1) < 0.5, share, rng.uniform(0, 3, n + 1))
    parent = [-1] + [0] * n
    real = added_up(parent, leaves)
    count = rounded(runner, parent, real)
    assert (added_up(parent, count) == count).all() and np.abs(count - real).max() < 1
    assert (rounded(runner, parent, count) == count).all()


def test_runners_agree_on_large_trees_and_threads_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    tree = grown(120_000, 1)
    count = denoise(tree, np.random.default_rng(1).normal(2, 3, len(tree)), 1.0).count
    fast = whole(tree, count)
    for runner in ("plain", "numpy"):
        with running(runner):
            assert (whole(tree, count) == fast).all()
    monkeypatch.setattr(threads, "THREADED", 100)
    assert (whole(tree, count) == fast).all()


@pytest.mark.parametrize("value", [2.0**53, -(2.0**53), np.nan, np.inf])
def test_counts_beyond_whole_doubles_are_refused_by_name(value: float) -> None:
    with pytest.raises(ValueError, match=r"below 2\*\*53; node 2 has"):
        rounded("plain", [1, -1, 1], [0.0, 0.0, value])
