"""Splits under Gaussian noise: the closed form on regular trees, as good as a fine grid on awkward ones."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attributary import Tree, budget, noise
from support.budgets import METHODS, Case, cases, levelled, path_sums
from support.effort import examples, first_of

DELTA = 1e-6


def gaussian(case: Case) -> Case:
    return case._replace(noise=noise.model("gaussian", case.epsilon, delta=DELTA))  # type: ignore[arg-type]


def regular(fans: tuple[int, ...]) -> Tree:
    parent, above = [-1], [0]
    for fan in fans:
        level = [len(parent) + i for i in range(fan * len(above))]
        parent += [v for v in above for _ in range(fan)]
        above = level
    return Tree.from_parents(parent)


@pytest.mark.parametrize("fans", [(3, 4), (2, 2, 5), (10,), (6, 1, 3), (2, 3, 2, 2)])
@pytest.mark.parametrize("epsilon", [0.5, 16.0])
def test_regular_trees_have_the_closed_form(fans: tuple[int, ...], epsilon: float) -> None:
    tree, tau, model = regular(fans), 5.0, noise.model("gaussian", epsilon, delta=DELTA)
    depth = len(fans) + 1
    weight = np.full(depth, 1 / (depth * tau**2))  # of a level's mean variance
    bulk = weight.copy()
    for j in reversed(range(depth - 1)):
        bulk[j] += bulk[j + 1] / fans[j] ** 2
    root = np.sqrt(bulk)
    part = root - np.append(root[1:] / np.array(fans), 0.0)
    mu = noise.gaussian_mu(epsilon, DELTA)
    least = (root[0] + ((1 - 1 / np.array(fans)) * root[1:]).sum()) ** 2 / mu**2
    for method in ("optimal", "per_node"):
        split = METHODS[method](tree, 0.0, epsilon, tau, noise=model)
        assert budget.expected(tree, 0.0, split, tau).tree ** 2 == pytest.approx(least, rel=1e-8)
    by_level = budget.optimal(tree, 0.0, epsilon, tau, noise=model).epsilon[0]
    if 1 not in fans:  # two levels that always coincide share their budget in any way
        np.testing.assert_allclose(by_level / epsilon, part / part.sum(), atol=2e-5)
    greedy = budget.greedy(tree, 0.0, epsilon, tau, noise=model)
    assert budget.expected(tree, 0.0, greedy, tau).tree ** 2 < least * 1.01


def grid(levels: int, steps: int) -> np.ndarray:
    cells = [each for each in product(range(steps + 1), repeat=levels - 1) if sum(each) <= steps]
    shares = np.array(cells, float) / steps
    return np.column_stack([shares, 1 - shares.sum(axis=1)])


@pytest.mark.parametrize(("levels", "steps"), first_of([(2, 400), (3, 30), (4, 12)]))
def test_no_split_of_a_fine_grid_is_better(levels: int, steps: int) -> None:
    for seed in range(3):
        case = gaussian(levelled(seed, levels, 60))
        rows = grid(levels, steps) * case.epsilon
        tree = case.tree
        error = case.errors(case.split("optimal"))[0]
        best = min(case.errors(budget.Split(tree, row[None], case.epsilon, case.noise))[0] for row in rows)
        assert error <= best * (1 + 1e-4)
        assert case.errors(case.split("per_node"))[0] <= error * (1 + 1e-9)


@settings(max_examples=examples(25))
@given(cases())
def test_never_worse_than_a_baseline_and_never_above_the_budget(case: Case) -> None:
    case = gaussian(case)
    errors = {name: case.errors(case.split(name)) for name in METHODS}
    for name in METHODS:
        split = case.split(name)
        assert (path_sums(case.tree, split.nodes()) <= case.epsilon * (1 + 1e-9)).all()
        assert (errors["optimal"] <= errors[name] * (1 + 1e-9)).all() or name == "per_node"
    assert (errors["per_node"] <= errors["optimal"] * (1 + 1e-9)).all()


@settings(max_examples=examples(15))
@given(cases(), st.integers(0, 2**32))
def test_no_split_by_node_drawn_at_random_is_better(case: Case, seed: int) -> None:
    case = gaussian(case)
    tree, rng = case.tree, np.random.default_rng(seed)
    found = case.split("per_node")
    best = case.errors(found)
    for _ in range(20):
        drawn = rng.exponential(size=len(tree)) * (found.nodes() + 0.1 * case.epsilon)
        left = np.full(len(tree), case.epsilon)
        own = np.zeros(len(tree))
        below = np.zeros(len(tree))
        for v in np.argsort(-tree.level, kind="stable"):
            if tree.parent[v] >= 0:
                below[tree.parent[v]] = max(below[tree.parent[v]], drawn[v] + below[v])
        for v in np.argsort(tree.level, kind="stable"):
            if tree.parent[v] >= 0:
                left[v] = left[tree.parent[v]] - own[tree.parent[v]]
            own[v] = left[v] * drawn[v] / (drawn[v] + below[v]) if not tree.is_leaf[v] else left[v]
        other = case.errors(budget.Split(tree, own, case.epsilon * (1 + 1e-9), case.noise))
        assert (best <= other * 1.002).all()


def test_raw_figures_take_the_square_root_of_their_level_s_weight() -> None:
    tree, tau = regular((3, 2)), 2.0
    count = tree.roll_up([90.0, 1, 7, 0, 3, 20])
    split = budget.optimal(tree, count, 2.0, tau, noise=noise.model("gaussian", 2.0, delta=DELTA), denoised=False)
    relative = 1 / np.maximum(count, tau) ** 2
    need = np.sqrt([relative[tree.level == i].mean() for i in range(3)])
    np.testing.assert_allclose(split.epsilon[0] / 2.0, need / need.sum(), rtol=1e-4)


def test_gaussian_noise_by_name_needs_a_delta() -> None:
    with pytest.raises(ValueError, match="needs a delta above 0 and below 1"):
        budget.equal(regular((2,)), 0.0, 1.0, 5.0, noise="gaussian")
