"""Per node: every path within the budget, and never worse than the best split by level."""

import numpy as np
import pytest
from hypothesis import given, settings

from attributary import Tree, budget
from support.budgets import Case, cases, levelled
from support.effort import examples


@settings(max_examples=examples(50), deadline=None)
@given(case=cases())
def test_never_worse_than_optimal_for_any_root(case: Case) -> None:
    best = case.errors(case.split("optimal"))
    assert (case.errors(case.split("per_node")) <= best * (1 + 1e-12)).all()


@pytest.mark.parametrize("noise", ["api", "unit"])
def test_better_than_by_level_where_subtrees_differ(noise: str) -> None:
    tree = Tree.from_parents([-1, 0, 0, *[1] * 30, *[2] * 2])
    case = Case(tree.parent.tolist(), [0.0] * len(tree), 4.0, 5.0, noise)
    assert case.errors(case.split("per_node")) < 0.95 * case.errors(case.split("optimal"))


@pytest.mark.parametrize("seed", range(4))
def test_no_small_change_helps(seed: int) -> None:
    case = levelled(seed, 4, most=40)
    tree, best = case.tree, case.split("per_node").epsilon
    error = case.errors(budget.Split(tree, best, case.epsilon, case.noise))
    rng = np.random.default_rng(seed)
    for size in (1e-3, 1e-2, 0.1):
        for _ in range(30):
            other = np.zeros(len(tree))  # each node takes a little more or less of what is left on its path
            left = np.full(len(tree), case.epsilon)
            was = left.copy()
            for v in np.argsort(tree.level, kind="stable"):
                p = tree.parent[v]
                if p >= 0:
                    left[v], was[v] = left[p] - other[p], was[p] - best[p]
                share = 1.0 if tree.is_leaf[v] else min(best[v] / was[v], 1) if was[v] > 0 else 0.0
                tilt = np.exp(size * rng.normal())
                other[v] = left[v] * (share * tilt / (share * tilt + 1 - share))
            found = case.errors(budget.Split(tree, np.maximum(other, 0), case.epsilon, case.noise))
            assert (found >= error * (1 - 1e-4)).all()


def test_raw_figures_have_a_closed_form() -> None:
    tree = Tree.from_parents([-1, 0, 0, 1, 1, 1, 2])
    count = np.array([90, 50, 40, 20, 20, 10, 40.0])
    split = budget.per_node(tree, count, epsilon=3, tau=5, denoised=False)
    q = np.cbrt(1 / (np.array([1, 2, 2, 4, 4, 4, 4]) * count**2))
    below_1, below_2 = np.cbrt((q[3:6] ** 3).sum()), q[6]
    below_0 = np.cbrt((q[1] + below_1) ** 3 + (q[2] + below_2) ** 3)
    top = 3 * q[0] / (q[0] + below_0)
    left = 3 - top
    first, second = left * q[1] / (q[1] + below_1), left * q[2] / (q[2] + below_2)
    assert np.allclose(split.epsilon, [top, first, second, *[left - first] * 3, left - second], rtol=1e-4)
