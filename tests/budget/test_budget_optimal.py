"""Optimal: as good as a fine grid, never worse than a baseline, and exact where the answer is known."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attributary import Tree, budget
from attributary.budget.problem import BudgetProblem
from attributary.budget.split import LevelBudgets
from support.budgets import Case, cases, levelled
from support.effort import examples, first_of
from support.forests import grown


def grid(levels: int, steps: int) -> np.ndarray:
    upper = np.array([p for p in product(range(steps + 1), repeat=levels - 1) if sum(p) <= steps])
    return np.column_stack([upper, steps - upper.sum(axis=1)]) / steps


@pytest.mark.parametrize("levels", first_of([2, 3, 4]))
def test_no_split_of_a_fine_grid_is_better(levels: int) -> None:
    shares = grid(levels, {2: 2000, 3: 120, 4: 36}[levels])
    for seed in range(34):
        case = levelled(seed, levels)
        rows = LevelBudgets.of(BudgetProblem.of(case.tree, case.count, case.epsilon, case.tau, noise=case.noise))
        errors = rows.errors(shares * case.epsilon)
        best = rows.errors(case.split("optimal").epsilon)
        assert best.item() <= 1.001 * errors.min()


@settings(max_examples=examples(50), deadline=None)
@given(case=cases(), data=st.data())
def test_never_worse_than_a_baseline(case: Case, data: st.DataObject) -> None:
    weights = data.draw(st.sampled_from([None, np.linspace(0, 1, len(case.parent) + 1)[1:]]))
    best = case.errors(case.split("optimal", weights=weights), weights=weights)
    for baseline in ("equal", "leaves", "greedy"):
        assert (best <= case.errors(case.split(baseline, weights=weights), weights=weights) * (1 + 1e-12)).all()


@pytest.mark.parametrize("seed", range(4))
def test_never_worse_than_a_baseline_on_larger_trees(seed: int) -> None:
    tree = grown(3000, seed, depth=5)
    count = np.random.default_rng(seed).pareto(0.5, len(tree))
    case = Case(tree.parent.tolist(), count.tolist(), 4.0, 5.0, ["api", "unit"][seed % 2])
    best = case.errors(case.split("optimal"))
    for baseline in ("equal", "leaves", "greedy"):
        assert (best <= case.errors(case.split(baseline)) * (1 + 1e-12)).all()


@settings(max_examples=examples(25), deadline=None)
@given(case=cases())
def test_levels_with_budget_gain_alike_and_others_have_none(case: Case) -> None:
    rows = LevelBudgets.of(BudgetProblem.of(case.tree, case.count, case.epsilon, case.tau, noise=case.noise))
    share = case.split("optimal").epsilon
    assert np.allclose(share.sum(axis=1), case.epsilon)
    assert ((share == 0) | (share > 1e-6 * case.epsilon)).all()
    _, gains = rows.gains(rows.pack(share.T[None]))
    for own, gain in zip(share, rows.table(gains)[0].T, strict=True):
        assert np.allclose(gain[own > 0], gain[own > 0].max(), rtol=2e-3)


@pytest.mark.parametrize("noise", ["api", "unit"])
def test_levels_that_always_coincide_waste_nothing(noise: str) -> None:
    tree = Tree.from_parents([-1, 0, 1, 1, 2, 3, 4, 5])  # 0-1, and 2-4-6 beside 3-5-7
    split = budget.optimal(tree, [90, 90, 60, 30, 60, 30, 60, 30], epsilon=3, tau=5, noise=noise)
    assert (split.epsilon[0, :2] > 0).sum() <= 1
    assert (split.epsilon[0, 2:] > 0).sum() == 1


@pytest.mark.parametrize("seed", range(5))
def test_raw_figures_take_the_cube_root_of_their_level_s_weight(seed: int) -> None:
    tree = grown(200, seed, depth=4)
    count = np.random.default_rng(seed).pareto(1, len(tree)) * 10
    split = budget.optimal(tree, count, epsilon=2, tau=5, denoised=False)
    weight = np.array([np.mean(1 / np.maximum(5, count[tree.level == i]) ** 2) for i in range(4)])
    assert np.allclose(split.epsilon[0], 2 * np.cbrt(weight) / np.cbrt(weight).sum(), rtol=1e-4)


@settings(max_examples=examples(25), deadline=None)
@given(case=cases())
def test_planning_for_raw_figures_makes_raw_figures_best(case: Case) -> None:
    raw = case.errors(case.split("optimal", denoised=False), denoised=False)
    for baseline in ("equal", "greedy"):
        other = case.errors(case.split(baseline, denoised=False), denoised=False)
        assert (raw <= other * (1 + 1e-12)).all()
    assert (raw <= case.errors(case.split("optimal"), denoised=False) * (1 + 1e-9)).all()


def test_with_api_noise_the_best_shares_do_not_depend_on_epsilon() -> None:
    case = levelled(2, 4)
    shares = [case._replace(epsilon=e, noise="api").split("optimal").epsilon / e for e in (0.1, 1, 64)]
    assert np.allclose(shares[0], shares[1], atol=1e-4) and np.allclose(shares[1], shares[2], atol=1e-4)


def test_many_levels_are_no_trouble() -> None:
    chain = Tree.from_parents(np.arange(60) - 1)
    share = budget.optimal(chain, 7, epsilon=2, tau=1).epsilon[0]
    assert share.max() == 2 and (share > 0).sum() == 1
