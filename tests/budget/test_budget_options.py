"""What may be asked of every way to split: fixed levels, one split for all, a total, weights, more budget."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attributary import Tree, budget, rmsre
from attributary.noise import dlap_variance
from support.budgets import METHODS, Case, cases, levelled, path_sums
from support.effort import examples, first_of

EVERY = pytest.mark.parametrize("method", METHODS)
BY_LEVEL = pytest.mark.parametrize("method", [m for m in METHODS if m != "per_node"])

FOREST = [-1, -1, 0, 0, 1, 1, 1, 2, 2, 3, 4, 4, 5, 6, 6, 6]  # two roots of three levels
COUNT = [90, 30, 60, 30, 10, 15, 5, 40, 20, 30, 4, 6, 15, 1, 0, 4]


def forest(epsilon: float = 4.0, tau: float = 5.0, noise: str = "api") -> Case:
    return Case(FOREST, [float(c) for c in COUNT], epsilon, tau, noise)


def under_a_total(case: Case) -> Case:
    """The same with one node above the roots."""
    parent = [-1, *(p + 1 for p in case.parent)]
    return case._replace(
        parent=parent, count=[sum(c for c, p in zip(case.count, case.parent, strict=True) if p < 0), *case.count]
    )


@EVERY
@settings(max_examples=examples(10), deadline=None)
@given(case=cases())
def test_every_path_spends_the_budget_and_every_row_is_a_root_s(method: str, case: Case) -> None:
    split = case.split(method)
    assert np.allclose(path_sums(case.tree, split.nodes()), case.epsilon, rtol=1e-12)
    if method == "per_node":
        assert split.by_node and np.array_equal(split.nodes(), split.epsilon)
    else:
        assert split.epsilon.shape == (int(case.tree.first[0]), case.tree.depth)
        assert np.allclose(split.epsilon.sum(axis=1), case.epsilon)


@EVERY
@settings(max_examples=examples(8), deadline=None)
@given(case=cases(), more=st.sampled_from([1.2, 2.0, 10.0]))
def test_more_budget_never_raises_the_expected_error(method: str, case: Case, more: float) -> None:
    if method in ("greedy", "per_node"):  # which need not find the best; with the API's noise they do as well as before
        case = case._replace(noise="api")
    little = case.errors(case.split(method))
    much = case._replace(epsilon=case.epsilon * more)
    assert (much.errors(much.split(method)) <= little * (1 + 1e-6)).all()


def test_noise_of_both_models() -> None:
    tree = Tree.from_parents([-1, 0, 0])
    api = budget.equal(tree, 0, epsilon=4, tau=1, levels=[1.0, np.nan])
    contribution = 65536 * np.array([1, 3, 3]) / 4
    assert np.allclose(api.variance(), dlap_variance(4 / 65536) / contribution**2, rtol=1e-12)
    unit = budget.equal(tree, 0, epsilon=4, tau=1, levels=[1.0, np.nan], noise="unit")
    assert np.allclose(unit.variance(), dlap_variance(np.array([1.0, 3.0, 3.0])), rtol=1e-12)
    small = budget.equal(tree, 0, epsilon=4, tau=1, l1=10)
    assert np.allclose(small.variance(), dlap_variance(0.4) / 5**2, rtol=1e-12)
    assert budget.leaves(tree, 0, epsilon=4, tau=1).variance()[0] == np.inf


def test_arrays_follow_the_caller_s_order() -> None:
    tree = Tree.from_parents([3, 3, 0, -1, 0, -1])  # roots 3 (over 0 and 1) and 5; 2 and 4 under 0
    split = budget.equal(tree, 0, epsilon=6, tau=1)
    assert np.allclose(split.epsilon, [[2, 2, 2], [6, 0, 0]])
    assert np.allclose(split.nodes(), [2, 4, 2, 2, 2, 6])  # 1 and 5 are leaves above the last level
    assert np.allclose(split.variance(), split.variance()[0] * (2 / split.nodes()) ** 2)


@pytest.mark.parametrize("method", ["greedy", "optimal", "per_node"])
@pytest.mark.parametrize("seed", range(3))
def test_the_order_of_nodes_does_not_matter(method: str, seed: int) -> None:
    case = levelled(seed, 4, most=40)
    place = np.random.default_rng(seed).permutation(len(case.parent))
    parent, count = np.empty(len(place), int), np.empty(len(place))
    parent[place] = [place[p] if p >= 0 else -1 for p in case.parent]
    count[place] = case.count
    other = case._replace(parent=parent.tolist(), count=count.tolist())
    assert np.allclose(other.split(method).nodes()[place], case.split(method).nodes(), rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("method", ["greedy", "optimal"])
def test_roots_are_split_each_for_itself(method: str) -> None:
    both = forest().split(method)
    first = [v for v in range(len(FOREST)) if forest().tree.root[v] == 0]
    number = {v: i for i, v in enumerate(first)}
    alone = Case([number.get(FOREST[v], -1) for v in first], [float(COUNT[v]) for v in first], 4.0, 5.0, "api")
    assert np.allclose(both.epsilon[0], alone.split(method).epsilon[0], rtol=1e-6)


# One split for all roots


@pytest.mark.parametrize("noise", ["api", "unit"])
def test_one_split_for_all_has_the_least_sum_of_errors(noise: str) -> None:
    case = forest(noise=noise)
    pooled = case.split("optimal", by_root=False)
    assert (pooled.epsilon[0] == pooled.epsilon[1]).all()
    least = case.errors(pooled).sum()
    for row in (*case.split("optimal").epsilon, *case.split("greedy", by_root=False).epsilon, np.full(3, 4 / 3)):
        assert least <= case.errors(budget.Split(case.tree, np.tile(row, (2, 1)), 4.0, noise)).sum() * (1 + 1e-9)
    steps = [np.array([a, b, 20 - a - b]) / 5 for a in range(21) for b in range(20 - a)]
    grid = [case.errors(budget.Split(case.tree, np.tile(row, (2, 1)), 4.0, noise)).sum() for row in steps]
    assert least <= 1.001 * min(grid)
    assert least >= case.errors(case.split("optimal")).sum()


@BY_LEVEL
@settings(max_examples=examples(8), deadline=None)
@given(case=cases())
def test_one_split_for_all_spends_the_budget_on_every_path(method: str, case: Case) -> None:
    split = case.split(method, by_root=False)
    assert (split.epsilon == split.epsilon[0]).all()
    assert np.allclose(path_sums(case.tree, split.nodes()), case.epsilon, rtol=1e-12)


# A total above the roots


@EVERY
@settings(max_examples=examples(8), deadline=None)
@given(case=cases(most=9))
def test_a_total_is_common_to_all_heads(method: str, case: Case) -> None:
    case = under_a_total(case)
    split = case.split(method, total=True)
    assert split.nodes()[0] == split.total
    assert np.allclose(path_sums(case.tree, split.nodes()), case.epsilon, rtol=1e-12)
    if method != "per_node":
        heads = int((case.tree.level == 1).sum())
        assert split.epsilon.shape == (heads, case.tree.depth - 1)
        assert np.allclose(split.epsilon.sum(axis=1) + split.total, case.epsilon)


@settings(max_examples=examples(15), deadline=None)
@given(case=cases(most=9))
def test_with_a_total_better_ways_are_better(case: Case) -> None:
    case = under_a_total(case)
    error = {m: case.errors(case.split(m, total=True))[0] for m in METHODS}
    assert error["per_node"] <= error["optimal"] * (1 + 1e-12)
    assert error["optimal"] <= min(error["equal"], error["leaves"], error["greedy"]) * (1 + 1e-12)
    one_for_all = case.errors(case.split("optimal", total=True, by_root=False))[0]
    assert error["optimal"] <= one_for_all * 1.001  # one split is a special case of many


@pytest.mark.parametrize("noise", first_of(["api", "unit"]))
def test_the_best_total_is_that_of_a_fine_search(noise: str) -> None:
    case = under_a_total(forest(noise=noise))._replace(tau=200.0)
    best = case.split("optimal", total=True)
    fixed = [case.split("optimal", total=True, levels=[e, *[np.nan] * 3]) for e in np.linspace(0, 3.8, 20)]
    errors = [case.errors(split)[0] for split in fixed]
    assert case.errors(best)[0] <= min(errors) * (1 + 1e-4)
    assert all(split.total == pytest.approx(e) for split, e in zip(fixed, np.linspace(0, 3.8, 20), strict=True))


def test_one_split_under_a_total_is_a_split_of_one_tree() -> None:
    case = under_a_total(forest())
    whole, parts = case.split("optimal"), case.split("optimal", total=True, by_root=False)
    assert parts.total == whole.epsilon[0, 0]
    assert np.array_equal(parts.epsilon, np.tile(whole.epsilon[0, 1:], (2, 1)))


# Levels fixed or left out


@EVERY
@pytest.mark.parametrize("fixed", [{"level 1": 1.0}, {"level 0": 0.5, "level 1": 0.0}, {"level 2": 3.0}])
def test_fixed_levels_keep_their_budget(method: str, fixed: dict[str, float]) -> None:
    case = forest()
    split = case.split(method, levels=fixed)
    nodes, level = split.nodes(), case.tree.level
    for name, share in fixed.items():
        assert np.allclose(nodes[level == int(name[-1])], share, rtol=1e-12)
        if share == 0:
            assert (split.variance()[level == int(name[-1])] == np.inf).all()
    assert np.allclose(path_sums(case.tree, nodes), 4.0)
    assert np.isfinite(case.errors(split)).all()


@EVERY
@settings(max_examples=examples(10), deadline=None)
@given(case=cases(), data=st.data())
def test_what_is_left_by_fixed_levels_is_spent(method: str, case: Case, data: st.DataObject) -> None:
    tree = case.tree
    fixed = np.array([data.draw(st.sampled_from([np.nan, np.nan, 0.0, 0.1])) for _ in range(tree.depth)]) * case.epsilon
    fixed[-1] = np.nan
    split = case.split(method, levels=fixed)
    inner = ~tree.is_leaf & ~np.isnan(fixed)[tree.level]
    assert np.allclose(split.nodes()[inner], fixed[tree.level[inner]], rtol=1e-12)
    assert np.allclose(path_sums(tree, split.nodes()), case.epsilon)


@settings(max_examples=examples(15), deadline=None)
@given(case=cases(), data=st.data())
def test_with_fixed_levels_better_ways_are_better(case: Case, data: st.DataObject) -> None:
    depth = case.tree.depth
    fixed = np.array([data.draw(st.sampled_from([np.nan, np.nan, 0.0, 0.1])) for _ in range(depth)]) * case.epsilon
    fixed[-1] = np.nan
    error = {m: case.errors(case.split(m, levels=fixed)) for m in METHODS}
    assert (error["per_node"] <= error["optimal"] * (1 + 1e-12)).all()
    for baseline in ("equal", "leaves", "greedy"):
        assert (error["optimal"] <= error[baseline] * (1 + 1e-12)).all()
    free = case.errors(case.split("optimal"))
    assert (free <= error["optimal"] * 1.001).all()  # a constraint never helps


def test_all_levels_fixed_leave_nothing_to_choose() -> None:
    case, given_ = forest(), [1.0, 0.5, 2.0]
    for method in METHODS:
        split = case.split(method, levels=given_)
        assert np.allclose(split.nodes(), np.array(given_)[case.tree.level])


def test_a_leaf_level_that_coincides_with_the_one_above_may_be_left_out() -> None:
    tree = Tree.from_parents([-1, 0, 0, 1, 2])
    for method in METHODS.values():
        split = method(tree, [9, 4, 5, 4, 5], epsilon=2, tau=3, levels=[np.nan, np.nan, 0.0])
        assert np.isinf(split.variance()[3:]).all()
        assert np.isfinite(budget.expected(tree, 0, split, 3).variance).all()


def test_levels_left_out_are_not_judged_where_figures_stay_raw() -> None:
    case = forest()
    split = case.split("optimal", levels={"level 0": 0.0}, denoised=False)
    weight = [[np.mean([1 / max(5, COUNT[v]) ** 2 for v in level]) for level in root] for root in LEVELS]
    expected = [[0, *(4 * np.cbrt(w) / np.cbrt(w).sum())] for w in weight]
    assert np.allclose(split.epsilon, expected, rtol=1e-4)


LEVELS = [[[2, 3], [7, 8, 9]], [[4, 5, 6], [10, 11, 12, 13, 14, 15]]]  # of each root, without the first


# Weights


def test_weights_replace_the_number_of_nodes_as_in_rmsre() -> None:
    tree = Tree.from_parents([-1, 0, 0, *[1] * 30, *[2] * 2])
    case = Case(tree.parent.tolist(), [0.0] * len(tree), 4.0, 5.0, "api")
    weights = np.where((np.arange(len(tree)) == 2) | (tree.parent == 2), 1.0, 0.01)  # the small family above all
    best, other = case.split("optimal", weights=weights), case.split("optimal")
    assert case.errors(best, weights=weights) < 0.99 * case.errors(other, weights=weights)


def test_a_leaf_level_without_weight_may_end_up_without_budget() -> None:
    case = forest()
    weights = (case.tree.level == 0).astype(float)
    for method in ("optimal", "per_node"):
        split = case.split(method, weights=weights)
        assert np.allclose(split.nodes()[:2], 4.0) and not split.nodes()[2:].any()
    assert np.allclose(case.errors(split, weights=weights), split.variance()[:2] / np.maximum(5, COUNT[:2]) ** 2)


def test_a_root_without_weight_is_split_equally() -> None:
    weights = (forest().tree.root == 0).astype(float)
    assert np.allclose(forest().split("optimal", weights=weights).epsilon[1], 4 / 3)


# Expectations


def test_expected_errors_are_those_of_rmsre() -> None:
    case = forest()
    split = case.split("equal")
    found = budget.expected(case.tree, case.count, split, 5)
    given_variance = budget.expected(case.tree, case.count, split.variance(), 5)
    assert all(np.array_equal(a, b) for a, b in zip(found, given_variance, strict=True))
    assert found.tree == rmsre.tree(case.tree, case.count, found.variance, 5)
    raw = budget.expected(case.tree, case.count, split, 5, denoised=False)
    assert np.array_equal(raw.variance, split.variance()) and (raw.levels > found.levels).all()
