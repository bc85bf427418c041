"""Per node: a budget for each node, such that no path from a root to a leaf spends more than ε.

Leaves of one parent have the same budget, since each gets all that is left on its path.
"""

from dataclasses import replace
from typing import Unpack

import numpy as np
from numpy.typing import ArrayLike

from attributary.budget.classes import Classes
from attributary.budget.equal import equally
from attributary.budget.optimal import best_by_level
from attributary.budget.problem import BudgetProblem, Options
from attributary.budget.split import LevelBudgets, Split
from attributary.budget.tree_error import Paths, best, improve, prune
from attributary.tree import Tree
from attributary.types import Floats, Ints

ROUNDS = 20
TOWARDS_EQUAL = (0.0, 0.5)  # starts: the best split by level, and, as a 0 stays 0, half way to the equal one


def per_node(tree: Tree, prior_count: ArrayLike, epsilon: float, tau: float, **options: Unpack[Options]) -> Split:
    """A small E over all ε_v ≥ 0 whose every root-to-leaf path sums to ε; never worse than `optimal`, for any root.

    ε_v = f_v · (what is left on its path); leaves get all that is left.
    """
    problem = BudgetProblem.of(tree, prior_count, epsilon, tau, **options)
    if not problem.by_root:
        raise ValueError("per_node gives each node a budget of its own; got by_root=False: take optimal for that")
    rows = LevelBudgets.of(replace(problem, by_root=not problem.pooled))
    objective = problem.objective(by_node=True)  # a class for each node above the leaves
    forest, free = objective.forest, np.isnan(problem.levels)
    row = _row(problem, forest)

    def by_class(levels: Floats) -> Floats:
        """From (..., levels, rows) what each class has: a leaf also that of the levels below it."""
        leaf = np.cumsum(levels[..., ::-1, :], axis=-2)[..., ::-1, :]
        both = (each[..., forest.level, row] for each in (leaf, levels))
        return np.where(forest.leaf, *both)

    fixed = by_class(np.broadcast_to(rows.fixed[:, None], rows.open.shape))
    open_ = by_class(np.broadcast_to(free[:, None], rows.open.shape).astype(np.float64)) > 0
    which = np.zeros(len(forest), np.int64) if objective.joint else forest.under(0)
    paths = Paths(forest.links, forest.leaf, open_, which, rows.free, problem.model.exponent)

    def errors(budget: Floats) -> Floats:
        return objective.errors(budget + fixed)

    by_level, even = best_by_level(problem, rows), equally(rows, rows.open)
    starts = by_class(rows.table(np.array([(1 - t) * by_level + t * even for t in TOWARDS_EQUAL])))
    budget, error = improve(paths, lambda budget: objective.gains(budget + fixed), starts, ROUNDS)
    candidates = np.concatenate([prune(paths, errors, budget, error), starts[:1]])
    each = forest.spread(tree, best(paths, candidates, errors(candidates)) + fixed)
    total = float(each[0]) if problem.total else None
    return Split(tree, tree.from_level_order(each), problem.epsilon, problem.noise, problem.l1, total)


def _row(problem: BudgetProblem, forest: Classes) -> Ints:
    """The row of each class. Leaves directly below a total are one class, which has the row of any of them."""
    if problem.pooled:
        return np.zeros(len(forest), np.int64)
    if not problem.total:
        return forest.under(0)
    row = np.zeros(int(forest.offsets[2]), np.int64)
    if forest.depth > 2:
        row[1 + forest.of_node[1]] = np.arange(len(forest.of_node[1]))
    of_class: Ints = row[forest.under(1) + 1]
    return of_class
