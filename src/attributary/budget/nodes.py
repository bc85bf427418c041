"""Nodes: a budget for each node, with leaves of one parent as one, since all of them take what is left."""

from dataclasses import dataclass
from functools import cached_property
from typing import Self

import numpy as np

from attributary.budget.classes import Classes
from attributary.budget.improve import Paths
from attributary.budget.objective import Objective
from attributary.budget.rows import Rows
from attributary.budget.split import Split
from attributary.budget.task import Task
from attributary.types import Floats, Ints


@dataclass(frozen=True, eq=False)
class Nodes:
    """The free budgets of all nodes: arrays are (splits, classes), with a class for each node above the leaves."""

    task: Task
    objective: Objective
    row: Ints  # of each class, in a split by level

    @classmethod
    def of(cls, task: Task) -> Self:
        objective = task.objective(apart="nodes")
        return cls(task, objective, _row(task, objective.forest))

    def errors(self, budget: Floats) -> Floats:
        return self.objective.errors(budget + self._fixed)

    def gains(self, budget: Floats) -> tuple[Floats, Floats]:
        """The errors, and what a little more of each budget takes off them."""
        return self.objective.gains(budget + self._fixed)

    def of_rows(self, rows: Rows, budget: Floats) -> Floats:
        """The same split, by node."""
        forest, own = self.objective.forest, rows.table(budget)
        leaf = np.cumsum(own[:, ::-1], axis=1)[:, ::-1]
        return np.where(forest.leaf, leaf[:, forest.level, self.row], own[:, forest.level, self.row])

    @cached_property
    def paths(self) -> Paths:
        forest, free = self.objective.forest, np.isnan(self.task.levels)
        free_below = np.cumsum(free[::-1])[::-1] > 0
        which = np.zeros(len(forest), np.int64) if self.objective.joint else forest.under(0)
        budget = max(0.0, self.task.epsilon - float(np.nansum(self.task.levels)))
        open_ = np.where(forest.leaf, free_below[forest.level], free[forest.level])
        return Paths(forest.links, forest.leaf, open_, which, budget)

    @cached_property
    def _fixed(self) -> Floats:
        """What is fixed for each class: for its level, and for a leaf also for those below."""
        forest, fixed = self.objective.forest, np.nan_to_num(self.task.levels)
        return np.where(forest.leaf, np.cumsum(fixed[::-1])[::-1][forest.level], fixed[forest.level])

    def split(self, budget: Floats) -> Split:
        task, tree = self.task, self.task.tree
        epsilon = self.objective.forest.spread(tree, budget + self._fixed)
        total = float(epsilon[0]) if task.total else None
        return Split(tree, tree.from_level_order(epsilon), task.epsilon, task.model.name, task.l1, total)


def _row(task: Task, forest: Classes) -> Ints:
    """The row of each class; leaves right below a total are one class, and any of their rows does."""
    if not task.total:
        return forest.under(0)
    row = np.zeros(int(forest.offsets[2]), np.int64)
    if forest.depth > 2:
        row[1 + forest.of_node[1]] = np.arange(len(forest.of_node[1]))
    of_class: Ints = row[forest.under(1) + 1]
    return of_class
