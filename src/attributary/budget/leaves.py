"""Leaves: the whole budget on the leaves; every other count is a sum."""

from typing import Unpack

import numpy as np
from numpy.typing import ArrayLike, NDArray

from attributary.budget.equal import equally
from attributary.budget.level_budgets import LevelBudgets
from attributary.budget.problem import Options, Problem
from attributary.budget.split import Split
from attributary.tree import Tree


def leaves(tree: Tree, prior_count: ArrayLike, epsilon: float, tau: float, **options: Unpack[Options]) -> Split:
    """ε for each root's last level; with fixed levels, the rest goes to the last free one."""
    problem = Problem.of(tree, prior_count, epsilon, tau, **options)
    rows = LevelBudgets.of(problem)
    return rows.split(problem, equally(rows, lowest(rows)))


def lowest(rows: LevelBudgets) -> NDArray[np.bool_]:
    """The last open level of each row."""
    after = np.cumsum(rows.open[::-1], axis=0)[::-1]
    last: NDArray[np.bool_] = rows.open & (after == 1)
    return last
