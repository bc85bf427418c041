"""Equal: the budget divided equally among the levels, as one would without a prior; or all of it on the leaves."""

from typing import Unpack

import numpy as np
from numpy.typing import ArrayLike, NDArray

from attributary.budget.problem import BudgetProblem, Options
from attributary.budget.split import LevelBudgets, Split
from attributary.tree import Tree
from attributary.types import Floats


def equal(tree: Tree, prior_count: ArrayLike, epsilon: float, tau: float, **options: Unpack[Options]) -> Split:
    """ε/(d+1) for each level that a root has; with fixed levels, the rest is divided equally."""
    problem = BudgetProblem.of(tree, prior_count, epsilon, tau, **options)
    rows = LevelBudgets.of(problem)
    return rows.split(problem, equally(rows, rows.open))


def equally(rows: LevelBudgets, among: NDArray[np.bool_]) -> Floats:
    """The free budget of each row divided equally among some of its levels (levels, rows), a total included."""
    if rows.total:
        top = among[0, 0] / max(1, among.any(axis=1).sum())
        below = equally(rows.heads, among[1:])
        return np.concatenate([[top * rows.free], below * (1 - top)])
    share = rows.free * among / np.maximum(1, among.sum(axis=0))
    packed: Floats = rows.pack(share[None])[0]
    return packed


def leaves(tree: Tree, prior_count: ArrayLike, epsilon: float, tau: float, **options: Unpack[Options]) -> Split:
    """ε for each root's last level; with fixed levels, the rest goes to the last free one."""
    problem = BudgetProblem.of(tree, prior_count, epsilon, tau, **options)
    rows = LevelBudgets.of(problem)
    return rows.split(problem, equally(rows, lowest(rows)))


def lowest(rows: LevelBudgets) -> NDArray[np.bool_]:
    """The last open level of each row."""
    after = np.cumsum(rows.open[::-1], axis=0)[::-1]
    last: NDArray[np.bool_] = rows.open & (after == 1)
    return last
