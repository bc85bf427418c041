"""Equal, leaves and greedy: splits by level that need no search.

Greedy (Algorithm 3) gives the budget in small units, each to the level where it lowers the tree error most.
"""

from typing import Unpack

import numpy as np
from numpy.typing import ArrayLike, NDArray

from attributary.budget.problem import BudgetProblem, Options
from attributary.budget.split import LevelBudgets, Split
from attributary.tree import Tree
from attributary.types import Floats

GAMMA = 1e-5  # of the budget, for all levels together to begin with: denoising needs some of each
TIE = 1e-12


def equal(tree: Tree, prior_count: ArrayLike, epsilon: float, tau: float, **options: Unpack[Options]) -> Split:
    """ε/(d+1) for each level that a root has, as one would without a prior; with fixed levels, the rest is divided."""
    problem = BudgetProblem.of(tree, prior_count, epsilon, tau, **options)
    rows = LevelBudgets.of(problem)
    return rows.split(problem, rows.equally(rows.open))


def leaves(tree: Tree, prior_count: ArrayLike, epsilon: float, tau: float, **options: Unpack[Options]) -> Split:
    """ε for each root's last level; with fixed levels, the rest goes to the last free one."""
    problem = BudgetProblem.of(tree, prior_count, epsilon, tau, **options)
    rows = LevelBudgets.of(problem)
    return rows.split(problem, rows.equally(rows.lowest))


def greedy(tree: Tree, prior_count: ArrayLike, epsilon: float, tau: float, **options: Unpack[Options]) -> Split:
    """ε in `phases` units, each to the level that makes RMSRE_τ(T) smallest (Algorithm 3), for each root on its own.

    Each level starts with γ·ε/(d+1), as the printed γ·ε/d would overspend. If several levels give an RMSRE within 1e-12
    of the smallest, the upper one is chosen.
    """
    problem = BudgetProblem.of(tree, prior_count, epsilon, tau, **options)
    rows = LevelBudgets.of(problem)
    return rows.split(problem, greedily(rows, problem.phases))


def greedily(rows: LevelBudgets, phases: int) -> Floats:
    """The free budgets that Algorithm 3 gives.

    A total gets the number of units that makes the error smallest; each head splits the rest.
    """
    if not rows.total:
        final: Floats = _phases(rows, phases)[-1]
        return final
    below = _phases(rows.heads, phases)
    if not rows.open[0, 0]:
        return np.concatenate([[0.0], below[-1]])
    units = np.linspace(rows.free - GAMMA * rows.free, 0.0, phases + 1)
    splits = np.column_stack([units, below])
    chosen: Floats = splits[_first_smallest(rows.errors(splits))[0]]
    return chosen


def _phases(rows: LevelBudgets, phases: int) -> Floats:
    """The splits at the beginning and after each phase."""
    budget = GAMMA * rows.equally(rows.open)
    unit = (1 - GAMMA) * rows.free / phases
    levels, width = rows.open.shape
    one_more = unit * np.eye(levels)[:, :, None] * rows.open  # candidate i: a unit more for level i
    splits = [budget]
    for _ in range(phases):
        candidates = budget + rows.pack(one_more)
        errors = np.where(rows.open, rows.errors(candidates), np.inf)
        chosen = _first_smallest(errors)
        budget = rows.table(candidates)[chosen, :, np.arange(width)].T.reshape(-1)
        splits.append(budget)
    return np.array(splits)


def _first_smallest(errors: Floats) -> NDArray[np.int64]:
    """The level of least RMSRE = √E for each root, of several the upper one."""
    rmsre = np.sqrt(errors)
    first: NDArray[np.int64] = np.argmax(rmsre <= rmsre.min(axis=0) * (1 + TIE), axis=0)
    return first
