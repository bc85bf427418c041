"""Greedy: Algorithm 3 word by word, only faster."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attributary import Tree, budget
from attributary.budget.methods import _phases
from attributary.budget.problem import BudgetProblem
from attributary.budget.split import LevelBudgets
from attributary.denoising import linear
from attributary.noise import dlap_variance
from support.budgets import Case, cases, levelled
from support.effort import examples, first_of

L1 = 65536


def literal(case: Case, phases: int, denoised: bool) -> list[list[list[float]]]:
    """Algorithm 3 for each root's own tree, corrected: the splits after each phase."""
    tree = case.tree
    trails = []
    for root in range(int(tree.first[0])):
        mine = np.flatnonzero(tree.root == root)
        place = {int(v): i for i, v in enumerate(mine)}
        own = Tree.from_parents([place.get(int(tree.parent[v]), -1) for v in mine])
        count = np.array(case.count)[mine]
        levels = own.depth
        eps = [1e-5 * case.epsilon / levels] * levels
        rest = (1 - 1e-5) * case.epsilon
        trail = [list(eps)]
        for _ in range(phases):
            errors = []
            for i in range(levels):
                more = list(eps)
                more[i] += rest / phases
                errors.append(tree_error(own, count, more, case, denoised))
            chosen = next(i for i in range(levels) if errors[i] <= min(errors) * (1 + 1e-12))
            eps[chosen] += rest / phases
            trail.append(list(eps))
        trails.append(trail)
    return trails


def tree_error(tree: Tree, count: np.ndarray, eps: list[float], case: Case, denoised: bool) -> float:
    """RMSRE_τ(T) as section 3.2 has it, with the noise of ALGORITHMS.md's section 1."""
    variance = np.empty(len(tree))
    for v in range(len(tree)):
        own = sum(eps[tree.level[v] :]) if tree.is_leaf[v] else eps[tree.level[v]]
        if case.noise == "api":
            contribution = L1 * own / case.epsilon
            variance[v] = dlap_variance(Fraction(case.epsilon) / L1) / contribution**2
        else:
            variance[v] = dlap_variance(np.array([own]))[0]
    if denoised:
        _, hat = linear.blue(tree, np.zeros(len(tree)), tree.to_level_order(variance))
        variance = tree.from_level_order(hat)
    means = []
    for i in range(tree.depth):
        level = tree.level == i
        means.append(np.mean(variance[level] / np.maximum(case.tau, count[level]) ** 2))
    return float(np.sqrt(np.mean(means)))


def same_choices(case: Case, phases: int, denoised: bool) -> None:
    problem = BudgetProblem.of(
        case.tree, case.count, case.epsilon, case.tau, phases=phases, noise=case.noise, denoised=denoised
    )
    rows = LevelBudgets.of(problem)
    trail = rows.table(_phases(rows, phases))  # (phases + 1, levels, roots)
    for root, expected in enumerate(literal(case, phases, denoised)):
        levels = len(expected[0])
        assert np.allclose(trail[:, :levels, root], expected, rtol=1e-9, atol=0)
        assert not trail[:, levels:, root].any()
    split = case.split("greedy", phases=phases, denoised=denoised)
    assert np.array_equal(split.epsilon, trail[-1].T)


@settings(max_examples=examples(40), deadline=None)
@given(case=cases(), phases=st.sampled_from([1, 5, 12]), denoised=st.booleans())
def test_every_choice_is_that_of_algorithm_3(case: Case, phases: int, denoised: bool) -> None:
    same_choices(case, phases, denoised)


@pytest.mark.parametrize("seed", first_of(range(8)))
def test_every_choice_is_that_of_algorithm_3_on_larger_trees(seed: int) -> None:
    same_choices(levelled(seed, 3 + seed % 3, most=60), 20, denoised=seed % 4 > 0)


def test_ties_go_to_the_upper_level() -> None:
    chain = Tree.from_parents([-1, 0, 1])
    split = budget.greedy(chain, 7, epsilon=2, tau=1)
    assert np.allclose(split.epsilon, [[2 - 4e-5 / 3, 2e-5 / 3, 2e-5 / 3]], rtol=1e-12)


@settings(max_examples=examples(40), deadline=None)
@given(case=cases(), phases=st.sampled_from([1, 3, 20]))
def test_all_of_the_budget_is_spent(case: Case, phases: int) -> None:
    assert np.allclose(case.split("greedy", phases=phases).epsilon.sum(axis=1), case.epsilon, rtol=1e-12)
