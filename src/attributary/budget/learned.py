"""Learned: what a split is judged by where estimates will use what is expected of each node."""

from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import ArrayLike

from attributary.budget.classes import Classes, classes
from attributary.budget.predicted import gain, predicted
from attributary.budget.task import Task
from attributary.budget.weights import class_weights
from attributary.denoising.prior import ROUNDING
from attributary.noise import NoiseModel
from attributary.tree import Family, Tree
from attributary.types import Floats, Ints

FINEST = 1e-6  # the least spread that is told from none
LEAST_SHARE = 1e-4  # that is told from none
UNMEASURED = 1e-10  # of what the whole budget gives a leaf: its precision without any


@dataclass(frozen=True, eq=False)
class Learned:
    """E from the budgets of the classes, many splits at a time; nodes are classes, and siblings of like spread one."""

    forest: Classes
    weight: Floats
    model: NoiseModel
    share: Floats  # of each class, of its parent's count
    firm: Floats  # 1 / spread; 0 where nothing is expected
    nothing: float  # the precision of a leaf without budget
    joint: bool

    @classmethod
    def of(cls, task: Task, share: Floats, spread: Floats) -> Self:
        """Share and spread are in level order."""
        tree = task.tree
        kind = _kinds(share, spread)
        if task.total:  # heads have budgets of their own, also those that are leaves
            kind[tree.slice(1)] = np.arange(tree.offsets[2] - tree.offsets[1])
        forest = classes(tree, "nodes", kind)
        size, known = forest.add_up(tree), spread < np.inf
        wide = forest.add_up(tree, np.where(known, spread, 0.0)) / size
        firm = np.divide(1.0, wide, out=np.zeros(len(forest)), where=forest.add_up(tree, known.astype(np.float64)) > 0)
        nothing = UNMEASURED * min(1.0, float(task.model.precision(np.array([task.epsilon]))[0]))
        weight = class_weights(tree, forest, task.count, task.tau, task.weights)
        part = forest.add_up(tree, share) / size
        return cls(forest, weight, task.model, part, firm, nothing, joint=task.total or not task.by_root)

    def errors(self, budget: Floats) -> Floats:
        """(splits, roots), or (splits, 1) where they are judged together."""
        precision = self.model.precision(budget)
        found = predicted(self.forest, self.weight, precision, self.share, self.firm, self.nothing)
        return self._judged(found.error)

    def gains(self, budget: Floats) -> tuple[Floats, Floats]:
        """The errors, and what a little more budget takes off them: −∂E/∂ε of each class."""
        precision = self.model.precision(budget)
        sweep = predicted(self.forest, self.weight, precision, self.share, self.firm, self.nothing)
        each = gain(self.forest, self.share, self.firm, sweep) * self.model.slope(budget)
        return self._judged(sweep.error), each

    def _judged(self, errors: Floats) -> Floats:
        return errors.sum(axis=1, keepdims=True) if self.joint else errors


def expectations(tree: Tree, share: ArrayLike | None, spread: ArrayLike | None) -> tuple[Floats, Floats] | None:
    """Share and spread, checked, in level order; None where nothing is expected of any node. Roots have no parent."""
    if share is None and spread is None:
        return None
    if share is None or spread is None:
        raise ValueError("shares and their spread go together; give both, with a spread of inf where nothing is known")
    part, wide = np.asarray(share, np.float64), np.asarray(spread, np.float64)
    if part.shape != (len(tree),) or wide.shape != (len(tree),):
        raise ValueError(f"one share and one spread for each of the {len(tree)} nodes are needed; got {wide.shape}")
    part, wide = tree.to_level_order(part).copy(), tree.to_level_order(wide).copy()
    part[tree.slice(0)], wide[tree.slice(0)] = 1.0, np.inf
    if not (wide >= 0).all():
        raise ValueError("a spread is 0 or more, or inf where nothing is known; got one that is negative or nan")
    if not wide.min() < np.inf:
        return None
    for level in range(tree.depth - 1):
        family = Family(tree, level)
        if not family.size:
            continue
        c = family.children
        told = family.spread(family.sum((wide[c] < np.inf).astype(np.float64))) > 0
        part[c] = np.where(told, part[c], 1.0 / family.spread(family.count.astype(np.float64)))
        if not (part[c] >= 0).all() or not (np.abs(family.sum(part[c]) - 1) <= ROUNDING).all():
            raise ValueError("shares are 0 or more and sum to 1 in each family of which anything is expected")
    return part, np.maximum(wide, FINEST)


def _kinds(share: Floats, spread: Floats) -> Ints:
    """A number for nodes of which much the same is expected: spreads within a factor of 2, shares of 4; 0 for none."""
    known = spread < np.inf
    kind = np.zeros(len(spread), np.int64)
    like = np.floor(np.log2(spread[known])).astype(np.int64)
    part = np.floor(-0.5 * np.log2(np.maximum(share[known], LEAST_SHARE))).astype(np.int64)
    kind[known] = 1 + part - part.min() + (part.max() - part.min() + 1) * (like - like.min())
    return kind
