"""Per node: a budget for each node, such that no path from a root to a leaf spends more than ε.

Leaves of one parent have the same budget, since each gets all that is left on its path.
"""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Self, Unpack

import numpy as np
from numpy.typing import ArrayLike

from attributary.budget.classes import Classes
from attributary.budget.equal import equally
from attributary.budget.optimal import best_by_level
from attributary.budget.problem import BudgetProblem, Objective, Options
from attributary.budget.split import LevelBudgets, Split
from attributary.budget.tree_error import Paths, best, improve, prune
from attributary.tree import Tree
from attributary.types import Floats, Ints


@dataclass(frozen=True, eq=False)
class NodeBudgets:
    """The free budgets of all nodes: arrays are (splits, classes), with a class for each node above the leaves."""

    problem: BudgetProblem
    objective: Objective
    row: Ints  # of each class, in a split by level

    @classmethod
    def of(cls, problem: BudgetProblem) -> Self:
        objective = problem.objective(by_node=True)
        return cls(problem, objective, _row(problem, objective.forest))

    def errors(self, budget: Floats) -> Floats:
        return self.objective.errors(budget + self._fixed)

    def gains(self, budget: Floats) -> tuple[Floats, Floats]:
        """The errors, and what a little more of each budget takes off them."""
        return self.objective.gains(budget + self._fixed)

    def of_rows(self, rows: LevelBudgets, budget: Floats) -> Floats:
        """The same split, by node."""
        forest, table = self.objective.forest, rows.table(budget)
        leaf = np.cumsum(table[:, ::-1], axis=1)[:, ::-1]
        return np.where(forest.leaf, leaf[:, forest.level, self.row], table[:, forest.level, self.row])

    @cached_property
    def paths(self) -> Paths:
        forest, free = self.objective.forest, np.isnan(self.problem.levels)
        free_below = np.cumsum(free[::-1])[::-1] > 0
        which = np.zeros(len(forest), np.int64) if self.objective.joint else forest.under(0)
        budget = max(0.0, self.problem.epsilon - float(np.nansum(self.problem.levels)))
        open_ = np.where(forest.leaf, free_below[forest.level], free[forest.level])
        return Paths(forest.links, forest.leaf, open_, which, budget, self.problem.model.exponent)

    @cached_property
    def _fixed(self) -> Floats:
        """The fixed budget of each class: that of its level and, for a leaf, also of the levels below."""
        forest, fixed = self.objective.forest, np.nan_to_num(self.problem.levels)
        return np.where(forest.leaf, np.cumsum(fixed[::-1])[::-1][forest.level], fixed[forest.level])

    def split(self, budget: Floats) -> Split:
        problem, tree = self.problem, self.problem.tree
        epsilon = self.objective.forest.spread(tree, budget + self._fixed)
        total = float(epsilon[0]) if problem.total else None
        return Split(tree, tree.from_level_order(epsilon), problem.epsilon, problem.noise, problem.l1, total)


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
    nodes = NodeBudgets.of(problem)
    by_level, even = best_by_level(problem, rows), equally(rows, rows.open)
    starts = nodes.of_rows(rows, np.array([(1 - t) * by_level + t * even for t in TOWARDS_EQUAL]))
    budget, error = improve(nodes.paths, nodes.gains, starts, ROUNDS)
    candidates = np.concatenate([prune(nodes.paths, nodes.errors, budget, error), starts[:1]])
    return nodes.split(best(nodes.paths, candidates, nodes.errors(candidates)))
