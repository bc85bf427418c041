"""Gains are derivatives: they equal finite differences of the error."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attributary.budget.methods import NodeBudgets
from attributary.budget.problem import BudgetProblem
from attributary.budget.split import LevelBudgets
from support.budgets import Case, cases, levelled
from support.effort import examples


def differences(places: LevelBudgets | NodeBudgets, budget: np.ndarray) -> np.ndarray:
    """−∂(sum of errors)/∂budget, by central differences."""
    found = np.empty(len(budget))
    for i in range(len(budget)):
        h = 1e-5 * max(budget.max(), 0.1)
        up, down = budget.copy(), budget.copy()
        up[i] += h
        down[i] -= h
        errors = places.errors(np.array([up, down])).sum(axis=1)
        found[i] = (errors[1] - errors[0]) / (2 * h)
    return found


def check(places: LevelBudgets | NodeBudgets, budget: np.ndarray) -> None:
    errors, gains = places.gains(budget[None])
    assert np.array_equal(errors, places.errors(budget[None]))
    assert np.allclose(gains[0], differences(places, budget), rtol=1e-5, atol=1e-6 * np.abs(gains).max())


OPTIONS = [{}, {"denoised": False}, {"by_root": False}, {"levels": "first"}, {"weights": True}]


@pytest.mark.parametrize("options", OPTIONS, ids=str)
@settings(max_examples=examples(25), deadline=None)
@given(case=cases(), seed=st.integers(0, 99))
def test_gains_by_level_are_derivatives(options: dict[str, Any], case: Case, seed: int) -> None:
    rng = np.random.default_rng(seed)
    problem = task_of(case, options, rng)
    rows = LevelBudgets.of(problem)
    budget = rows.pack((rows.open * rng.uniform(0.1, 1, rows.open.shape))[None])[0]
    check(rows, budget * case.epsilon / len(rows.open))


@pytest.mark.parametrize("options", [o for o in OPTIONS if "by_root" not in o], ids=str)
@settings(max_examples=examples(25), deadline=None)
@given(case=cases(), seed=st.integers(0, 99))
def test_gains_by_node_are_derivatives(options: dict[str, Any], case: Case, seed: int) -> None:
    rng = np.random.default_rng(seed)
    nodes = NodeBudgets.of(task_of(case, options, rng))
    check(nodes, case.epsilon * rng.uniform(0.1, 1, len(nodes.row)) / case.tree.depth)


@pytest.mark.parametrize("seed", range(4))
def test_gains_with_a_total_are_derivatives(seed: int) -> None:
    case = levelled(seed, 4, most=30)
    rng = np.random.default_rng(seed)
    problem = BudgetProblem.of(case.tree, case.count, case.epsilon, case.tau, noise=case.noise, total=True)
    rows = LevelBudgets.of(problem)
    check(rows, case.epsilon * rng.uniform(0.1, 0.3, rows.pack(rows.open[None]).size))


def task_of(case: Case, options: dict[str, Any], rng: np.random.Generator) -> BudgetProblem:
    tree = case.tree
    given = dict(options)
    if given.get("levels"):
        given["levels"] = [0.2 * case.epsilon, *[np.nan] * (tree.depth - 1)]
    if given.get("weights"):
        given["weights"] = rng.uniform(0, 1, len(tree))
    return BudgetProblem.of(tree, case.count, case.epsilon, case.tau, noise=case.noise, **given)
