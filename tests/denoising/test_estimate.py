"""What an estimate says of itself: intervals that cover, a fit that does not cry wolf, totals with exact variances."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from attributary import Tree, denoise, rmsre
from attributary.denoising.quantile import level_of, quantile
from support.effort import examples, first_of
from support.exact import incidence
from support.forests import Case, cases, grown


def hat(case: Case) -> np.ndarray:
    """The dense matrix that takes noisy figures to estimates."""
    inner = {p for p in case.parent if p >= 0}
    a = np.array(incidence(case.parent, [v for v in range(len(case.parent)) if v not in inner]), float)
    weighted = a / np.array(case.variance)[:, None]
    return a @ np.linalg.solve(a.T @ weighted, weighted.T)


@settings(max_examples=examples(150), deadline=None)
@given(case=cases(most=15, spread=1.5), data=st.data())
def test_totals_have_their_exact_variance_and_shape(case: Case, data: st.DataObject) -> None:
    est = denoise(case.tree, case.noisy, case.variance)
    weights = np.array(data.draw(st.lists(st.floats(-3, 3), min_size=len(case.parent), max_size=len(case.parent))))
    found = est.total(weights)
    var, coefficient = np.array(case.variance), weights @ hat(case)
    assert np.isclose(found.count, weights @ est.count, rtol=1e-9, atol=1e-6)
    assert np.isclose(found.variance, coefficient**2 @ var, rtol=1e-6, atol=1e-9 * var.max())
    if found.variance > 1e-6 * var.max():
        assert np.isclose(found.excess, coefficient**4 @ (3 * var**2) / found.variance**2, rtol=1e-4, atol=1e-6)


@settings(max_examples=examples(150), deadline=None)
@given(case=cases(most=15, spread=1.5))
def test_kurtosis_equals_the_dense_one(case: Case) -> None:
    est = denoise(case.tree, case.noisy, case.variance)
    var = np.array(case.variance)
    dense = hat(case) ** 4 @ (3 * var**2) / est.variance**2
    assert np.allclose(est._excess, dense, rtol=1e-5, atol=1e-7)


def test_a_node_is_the_total_of_its_leaves() -> None:
    tree = grown(300, 3)
    rng = np.random.default_rng(3)
    est = denoise(tree, rng.normal(0, 1, len(tree)), 10 ** rng.uniform(-3, 3, len(tree)))
    for node in (0, 1, 5):
        children = np.flatnonzero(tree.parent == node)
        assert np.isclose(est.total(children).variance, est.variance[node], rtol=1e-9)
        assert np.isclose(est.total(node).variance, est.variance[node], rtol=1e-9)
    mask = tree.parent == 0
    assert est.total(mask) == est.total(mask.astype(float)) == est.total(np.flatnonzero(mask))


def test_totals_with_unmeasured_nodes() -> None:
    tree = Tree.from_parents([-1, 0, 0, 0])
    est = denoise(tree, [10, 4, np.nan, np.nan], [1, 2, np.inf, np.inf])
    remainder = est.total([2, 3])
    assert (remainder.count, remainder.variance) == (6.0, 3.0)
    assert est.total([2]).variance == np.inf
    assert est.total([1, 2, 3]).variance == 1.0


def test_wrong_totals_are_refused() -> None:
    est = denoise(Tree.from_parents([-1, 0]), [1, 2], 1)
    with pytest.raises(ValueError, match="numbers from 0 to 1; got 2 to 2"):
        est.total([2])
    with pytest.raises(ValueError, match="for each of the 2 nodes; got float64 of shape"):
        est.total([0.5])
    with pytest.raises(ValueError, match="finite"):
        est.total([np.nan, 1.0])


def test_whole_numbers_are_nodes_and_no_weights() -> None:
    tree = grown(300, 3)
    n = len(tree)
    est = denoise(tree, np.arange(float(n)), 1)
    chosen = (tree.parent == 0).astype(np.int64)
    with pytest.raises(ValueError, match=r"nodes, each at most once; got node 0 \d+ times: .*astype\(bool\)"):
        est.total(chosen)
    with pytest.raises(ValueError, match="got node 7 2 times"):
        est.total([7, 3, 7])
    assert est.total(chosen.astype(bool)).count == est.total(chosen.astype(float)).count == chosen @ est.count
    assert est.total(np.random.default_rng(0).permutation(n)).count == pytest.approx(est.count.sum())
    assert est.total(np.zeros(n, bool)).interval() == est.total(np.arange(0)).interval() == (0, 0)


def pairs(roots: int) -> tuple[Tree, np.ndarray]:
    """So many roots with two leaves each, of 10 and of 0."""
    parent = np.concatenate([np.full(roots, -1), np.repeat(np.arange(roots), 2)])
    return Tree.from_parents(parent), np.concatenate([np.full(roots, 10.0), np.tile([10.0, 0.0], roots)])


@pytest.mark.parametrize(
    "how", first_of([{}, {"nonnegative": True}, {"nonnegative": "joint"}, {"nonnegative": True, "whole": True}])
)
@pytest.mark.parametrize("roots", first_of([1, 50, 200]))
def test_intervals_of_totals_cover_however_many_biased_counts_they_sum(roots: int, how: dict[str, Any]) -> None:
    tree, truth = pairs(roots)
    rng = np.random.default_rng(roots)
    variance = 4 * rng.uniform(0.5, 2, len(tree))
    empty = np.arange(roots + 1, 3 * roots, 2)
    weights = rng.uniform(-1, 2, len(tree))
    held = np.zeros(3)
    for _ in range(400):
        noisy = truth + rng.laplace(0, np.sqrt(variance / 2))
        est = denoise(tree, noisy, variance, **how)
        for i, asked in enumerate((empty, empty - 1, weights)):
            total = est.total(asked)
            low, high = total.interval()
            assert low <= total.count <= high
            assert low >= 0 or i == 2 or not how
            true = truth @ asked if i == 2 else truth[asked].sum()
            held[i] += low <= true <= high
    assert (held / 400 > 0.92).all()  # 2.7 standard errors below 0.95


def test_totals_of_one_node_have_its_interval() -> None:
    tree = grown(60, 2)
    rng = np.random.default_rng(6)
    est = denoise(tree, rng.normal(0, 3, len(tree)), 10 ** rng.uniform(-2, 2, len(tree)), nonnegative=True)
    low, high = est.interval(0.9)
    found = np.array([est.total([v]).interval(0.9) for v in range(len(tree))])
    assert np.allclose(found.T, (low, high), rtol=1e-6, atol=1e-6)


def test_quantiles_of_none_are_none_and_of_many_are_those_of_each() -> None:
    assert quantile(0.9, np.array([])).shape == (0,)
    excess = np.array([0.0, 0.01, 1.7, 3.0, 250.0, 1e9])
    each = [quantile(0.9, np.array([e]))[0] for e in excess]
    np.testing.assert_allclose(quantile(0.9, excess), each, rtol=1e-12)


@pytest.mark.parametrize("level", [0.01, 0.25, 0.5, 0.8, 0.95, 0.99, 0.999])  # each has a table of its own
@pytest.mark.parametrize("excess", [0.0, 0.02, 0.4, 1.5, 3.0, 6.0])
def test_levels_and_quantiles_invert_each_other(level: float, excess: float) -> None:
    assert level_of(float(quantile(level, np.array([excess]))[0]), excess) == pytest.approx(level, abs=2e-4)


@pytest.mark.parametrize("level", [0.5, 0.8, 0.95, 0.99, 0.999])
def test_quantiles_are_exact_where_the_law_is_known(level: float) -> None:
    assert np.isclose(quantile(level, np.array([0.0]))[0], stats.norm.ppf(0.5 + level / 2), rtol=1e-12)
    assert np.isclose(quantile(level, np.array([3.0]))[0], -np.log(1 - level) / np.sqrt(2), rtol=1e-7)
    # The sum of two Laplace figures of scale 1: P(|X| > x) = (1 + x/2)·e^-x, variance 4.
    x = 2 * quantile(level, np.array([1.5]))[0]
    assert np.isclose((1 + x / 2) * np.exp(-x), 1 - level, rtol=2e-3)


def test_intervals_cover_at_their_rate() -> None:
    tree = grown(400, 5)
    rng = np.random.default_rng(5)
    variance = tree.by_level([1.0, 30.0, 4.0, 8.0])
    inside = {0.5: [], 0.95: [], 0.999: []}
    for _ in range(200):
        est = denoise(tree, rng.laplace(0, np.sqrt(variance / 2)), variance)
        for level, hits in inside.items():
            low, high = est.interval(level)
            hits.append((low <= 0) & (0 <= high))
    for level, hits in inside.items():
        for i in range(tree.depth):
            share = np.mean([h[tree.slice(i)] for h in hits])
            draws = 200 * len(range(*tree.slice(i).indices(len(tree))))
            # Estimates of one tree are dependent: a tenth of them counts as independent, and the law is approximate.
            slack = 4 * np.sqrt(level * (1 - level) / max(200, draws / 10)) + 0.1 * (1 - level)
            assert abs(share - level) <= slack, (level, i, share)
    assert np.mean(inside[0.999]) > 0.9985


def test_normal_intervals_would_not_cover() -> None:
    tree, rng = Tree.from_parents([-1] * 20_000), np.random.default_rng(6)
    est = denoise(tree, rng.laplace(0, 1, 20_000), 2.0)
    assert np.isclose(np.mean(np.abs(est.count) <= est.interval(0.999).high - est.count), 0.999, atol=7e-4)
    normal = denoise(tree, est.count, 2.0, shape="normal").interval(0.999)
    assert np.mean((normal.low <= 0) & (0 <= normal.high)) < 0.993


def test_intervals_of_nothing_and_of_certainty() -> None:
    est = denoise(Tree.from_parents([-1, 0, 0]), [5, 2, np.nan], [0, np.inf, np.inf])
    low, high = est.interval()
    assert (low[0], high[0]) == (5, 5)
    assert (low[1:] == 0).all() and (high[1:] == 5).all()  # what was not measured is between 0 and all of it
    for level in (0, 1, np.nan, -1):
        with pytest.raises(ValueError, match="between 0 and 1"):
            est.interval(level)


def test_the_fit_knows_heavy_tails() -> None:
    tree = grown(300, 7)
    rng = np.random.default_rng(7)
    variance = 10 ** rng.uniform(-1, 1, len(tree))
    z = [denoise(tree, rng.laplace(0, np.sqrt(variance / 2)), variance).fit.z for _ in range(400)]
    assert abs(np.mean(z)) < 4 / 20 and 0.8 < np.std(z) < 1.2


def test_the_fit_sees_noise_that_is_not_as_claimed() -> None:
    tree = Tree.from_parents((np.arange(2**12 - 1) - 1) // 2)
    rng = np.random.default_rng(7)
    variance = 10 ** rng.uniform(-1, 1, len(tree))
    more = denoise(tree, rng.laplace(0, np.sqrt(variance * 0.75)), variance).fit
    less = denoise(tree, rng.laplace(0, np.sqrt(variance * 0.3)), variance).fit
    assert more.z > 4 and less.z < -4
    assert np.isclose(more.df, len(tree) - tree.is_leaf.sum())


def test_the_fit_of_a_tree_without_spare_figures_says_nothing() -> None:
    assert denoise(Tree.from_parents([-1, -1]), [1, 2], 1).fit == (0, 0, 0)


def test_corrections_are_standard() -> None:
    tree = grown(2000, 8)
    rng = np.random.default_rng(8)
    variance = 10 ** rng.uniform(-1, 1, len(tree))
    correction = denoise(tree, rng.normal(0, np.sqrt(variance)), variance).correction
    assert abs(correction.std() - 1) < 0.1 and abs(correction.mean()) < 0.1
    lone = denoise(Tree.from_parents([-1, -1]), [4, np.nan], [1, np.inf]).correction
    assert lone[0] == 0 and np.isnan(lone[1])


def test_an_estimate_shows_its_fit() -> None:
    assert repr(denoise(Tree.from_parents([-1, 0]), [1, 3], 1)) == "Estimate(2 counts; fit z = 0.53)"


PUBLISHED = [  # (noise, true count): the design guide of the summary reports, T = 5
    ([(10, 100), (20, 100), (20, 200)], 0.1414),
    ([(10, 100), (20, 100), (20, 20)], 0.5916),
    ([(10, 100), (20, 100), (20, 0)], 2.313),
]


@pytest.mark.parametrize(("noise_true", "expected"), PUBLISHED)
def test_rmsre_of_the_published_examples(noise_true: list[tuple[int, int]], expected: float) -> None:
    noise, true = np.array(noise_true, float).T
    tree = Tree.from_parents([-1] * len(true))
    assert abs(rmsre.tree(tree, true, noise**2, 5) - expected) < 5e-4
    assert np.allclose(rmsre.nodes(true, noise**2, 5), noise / np.maximum(5, true))


@settings(max_examples=examples(100), deadline=None)
@given(case=cases(most=20, spread=2))
def test_rmsre_is_the_papers_double_mean(case: Case) -> None:
    tree = case.tree
    squared = np.array(case.variance) / np.maximum(7, case.noisy) ** 2
    by_level = [np.mean([squared[v] for v in np.flatnonzero(tree.level == i)]) for i in range(tree.depth)]
    assert np.allclose(rmsre.levels(tree, case.noisy, case.variance, 7) ** 2, by_level)
    assert np.isclose(rmsre.tree(tree, case.noisy, case.variance, 7) ** 2, np.mean(by_level))
    same = rmsre.tree(tree, case.noisy, case.variance, 7, weights=np.full(len(tree), 3.0))
    assert np.isclose(same**2, np.mean(by_level))
    for r, own in enumerate(rmsre.roots(tree, case.noisy, case.variance, 7)):
        mine = tree.root == r
        parts = [squared[mine & (tree.level == i)] for i in range(tree.depth)]
        assert np.isclose(own**2, np.mean([p.mean() for p in parts if p.size]))


def test_rmsre_with_weights_of_ones_own() -> None:
    tree = Tree.from_parents([-1, 0, 0])
    weights = [1, 3, 1]
    assert np.isclose(rmsre.tree(tree, [0, 0, 0], [4, 4, 36], 2, weights=weights) ** 2, (1 + (3 * 1 + 9) / 4) / 2)
    only_leaves = rmsre.levels(tree, [0, 0, 0], [4, 4, 36], 2, weights=[0, 1, 0])
    assert np.isnan(only_leaves[0]) and only_leaves[1] == 1


BAD = {
    "tau": (([1], [1], 0), {}, "tau is a positive number; got 0"),
    "nan tau": (([1], [1], np.nan), {}, "tau is a positive number"),
    "negative variance": (([1], [-1], 5), {}, "variances are 0 or more; got -1"),
    "nan count": (([np.nan], [1], 5), {}, "counts are numbers"),
    "weights": (([1], [1], 5), {"weights": [-1]}, "0 or more, for each of the 1 nodes"),
    "no weight": (([1], [1], 5), {"weights": [0]}, "not all 0"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input_to_rmsre(name: str) -> None:
    arguments, options, message = BAD[name]
    with pytest.raises(ValueError, match=message):
        rmsre.tree(Tree.from_parents([-1]), *arguments, **options)


def test_a_tiny_weight_is_a_weight() -> None:
    found = denoise(Tree.from_parents([-1]), [5], 2.0).total([1e-94])
    assert np.isclose(found.variance, 2e-188, atol=0) and np.isclose(found.excess, 3)
