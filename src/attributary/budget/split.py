"""Split: how much of the privacy budget each level (of each root) or each node gets, and the error to expect of it."""

from dataclasses import dataclass
from functools import cached_property
from typing import Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from attributary import rmsre
from attributary.budget.classes import Classes, Link
from attributary.budget.problem import BudgetProblem, Learned, Objective, expectations
from attributary.budget.tree_error import ENDLESS, Paths
from attributary.denoising.passes import engine
from attributary.denoising.prior import predict
from attributary.noise import NoiseModel, model
from attributary.tree import Tree
from attributary.types import Floats, Ints, Values


@dataclass(frozen=True, eq=False)
class Split:
    """A budget for every node such that no path from a root to a leaf spends more than `budget`.

    By level, `epsilon` is (roots, levels), with roots in level order. With a `total` above the roots, common to all,
    its rows are the nodes of level 1 and its columns the levels from 1 on. Or it is one number per node.
    """

    tree: Tree
    epsilon: Floats
    budget: float
    noise: str | NoiseModel = "api"
    l1: int = 65536
    total: float | None = None

    def __post_init__(self) -> None:
        top = int(self.total is not None)
        heads = int(self.tree.offsets[1 + top] - self.tree.offsets[top])
        shapes = ((len(self.tree),), (heads, self.tree.depth - top))
        if self.epsilon.shape not in shapes:
            raise ValueError(
                f"a split is of shape {shapes[1]}, by level, or {shapes[0]}, by node; got {self.epsilon.shape}"
            )
        path = self.tree.sum_down(self.epsilon) if self.by_node else self._rows().sum(axis=1)
        spent = max(float(path.max()), 0.0)
        if not (self.epsilon >= 0).all() or not spent <= self.budget * (1 + 1e-9):
            raise ValueError(
                f"budgets are 0 or more, and no path spends more than {self.budget}; got {self.epsilon.min()} as the "
                f"least, and a path that spends {spent}"
            )

    @property
    def by_node(self) -> bool:
        return self.epsilon.ndim == 1

    def nodes(self) -> Floats:
        """The budget of each node, in the tree's order; a leaf above the last level takes what is below it, too."""
        if self.by_node:
            return self.epsilon
        return self.tree.spread(self._rows(), int(self.total is not None), rest=True)

    def variance(self) -> Floats:
        """The noise variance of each node's figure, in the tree's order; inf for a node without budget."""
        return model(self.noise, self.budget, self.l1).variance(self.nodes())

    def _rows(self) -> Floats:
        """By level, with a common total in front of every row."""
        if self.total is None:
            return self.epsilon
        return np.column_stack([np.full(len(self.epsilon), self.total), self.epsilon])


Expected = rmsre.Errors  # variances to expect and what they mean as RMSRE_τ


def expected(
    tree: Tree,
    prior_count: ArrayLike,
    split: Split | ArrayLike,
    tau: float,
    *,
    weights: ArrayLike | None = None,
    denoised: bool = True,
    share: ArrayLike | None = None,
    spread: ArrayLike | None = None,
    metric: rmsre.Metric = rmsre.weights,
) -> Expected:
    """What to expect of a split, or of noise variances (one per node), if the counts will be as in the prior.

    With `share` and `spread`, of estimates that use them, if they hold.
    """
    noise = split.variance() if isinstance(split, Split) else np.asarray(split, np.float64)
    if noise.shape != (len(tree),):
        raise ValueError(f"one noise variance for each of the {len(tree)} nodes is needed; got shape {noise.shape}")
    count = np.broadcast_to(np.asarray(prior_count, np.float64), len(tree))
    variance = noise
    known = expectations(tree, share, spread)
    if known is not None:
        if not denoised:
            raise ValueError("shares are used in denoising; what is expected of raw figures is without them")
        variance = tree.from_level_order(predict(tree, np.zeros(len(tree)), tree.to_level_order(noise), *known)[1])
    elif denoised:
        _, in_level_order = engine(tree).blue(tree, np.zeros(len(tree)), tree.to_level_order(noise))
        variance = tree.from_level_order(in_level_order)
    return Expected.of(tree, count, variance, tau, weights, metric)


# LevelBudgets: budgets by level, a row for each head or one for all, and what they mean for the classes below.

CHUNK = 2**17  # classes in one sweep


@dataclass(frozen=True, eq=False)
class LevelBudgets:
    """The free budgets of all rows, level by level: arrays are (splits, levels × rows), a common total once.

    The budget of a level in a row is what is fixed for it plus what is free. A leaf above the last level also takes
    the budgets of the levels below it: nothing else on its path can use them.
    """

    objective: Objective | Learned
    fixed: Floats  # of each level; 0 for free ones
    open: NDArray[np.bool_]  # (levels, rows): where free budget may go
    row: Ints  # of each class
    free: float  # what each row has besides what is fixed
    total: bool  # level 0 is common to all rows

    @classmethod
    def of(cls, problem: BudgetProblem) -> Self:
        objective = problem.objective()
        row = class_rows(problem, objective.forest)
        fixed = np.nan_to_num(problem.levels)
        free = max(0.0, problem.epsilon - float(fixed.sum()))
        open_ = _open(np.isnan(problem.levels), objective.forest.level, row)
        rows = cls(objective, fixed, open_, row, free, problem.total and problem.by_root)
        rows._refuse(problem)
        return rows

    @cached_property
    def heads(self) -> "LevelBudgets":
        """The rows without their common total, each head for itself."""
        objective = self._plain.heads()
        row = self.row[len(self.row) - len(objective.forest) :]
        return LevelBudgets(objective, self.fixed[1:], self.open[1:], row, self.free, total=False)

    def pack(self, table: Values) -> Values:
        """(splits, levels, rows) as one line for each split, with a common total once."""
        flat = table.reshape(len(table), -1)
        return np.concatenate([flat[:, :1], flat[:, self.open.shape[1] :]], axis=1) if self.total else flat

    def table(self, budget: Floats) -> Floats:
        """(splits, levels, rows) of free budgets."""
        if self.total:
            budget = np.concatenate([np.repeat(budget[:, :1], self.open.shape[1], axis=1), budget[:, 1:]], axis=1)
        return budget.reshape(len(budget), *self.open.shape)

    def errors(self, budget: Floats) -> Floats:
        return np.concatenate([self.objective.errors(self._spread(part)) for part in self._parts(budget)])

    def gains(self, budget: Floats) -> tuple[Floats, Floats]:
        """The errors, and what a little more of each budget takes off them."""
        errors, gains = zip(*(self.objective.gains(self._spread(part)) for part in self._parts(budget)), strict=True)
        return np.concatenate(errors), self._places(np.concatenate(gains))

    def errors_by(self, budget: Floats, weights: Floats) -> Floats:
        """(splits, weights): the errors of all roots together under other weights of the classes."""
        return np.concatenate([self._plain.errors_by(self._spread(part), weights) for part in self._parts(budget)])

    def gains_by(self, budget: Floats, weights: Floats) -> tuple[Floats, Floats]:
        """The same, and what a little more of each budget takes off them, (splits, weights, places)."""
        by = self._plain.gains_by
        errors, gains = zip(
            *(by(self._spread(part), weights) for part in self._parts(budget, len(weights))), strict=True
        )
        places = self._places(np.concatenate(gains).reshape(-1, len(self.row)))
        return np.concatenate(errors), places.reshape(len(budget), len(weights), -1)

    def equally(self, among: NDArray[np.bool_]) -> Floats:
        """The free budget of each row divided equally among some of its levels (levels, rows), a total included."""
        if self.total:
            top = among[0, 0] / max(1, among.any(axis=1).sum())
            return np.concatenate([[top * self.free], self.heads.equally(among[1:]) * (1 - top)])
        packed: Floats = self.pack((self.free * among / np.maximum(1, among.sum(axis=0)))[None])[0]
        return packed

    @property
    def lowest(self) -> NDArray[np.bool_]:
        """The last open level of each row."""
        last: NDArray[np.bool_] = self.open & (np.cumsum(self.open[::-1], axis=0)[::-1] == 1)
        return last

    @property
    def _plain(self) -> Objective:
        if isinstance(self.objective, Learned):
            raise ValueError("heads alone, and other weights, are for errors without expectations")
        return self.objective

    def _parts(self, budget: Floats, times: int = 1) -> list[Floats]:
        """Some splits at a time, so that a sweep over their classes stays in the cache."""
        return np.array_split(budget, min(len(budget), len(budget) * times * len(self.row) // CHUNK + 1))

    def _places(self, gain: Floats) -> Floats:
        """The gains of classes as those of the budgets that they have."""
        rows, cells = len(gain), 2 * self.open.size
        cell = self._slot + cells * np.arange(rows)[:, None]
        by_slot = np.bincount(cell.ravel(), gain.ravel(), rows * cells).reshape(rows, 2, *self.open.shape)
        by_level = by_slot[:, 0] + np.cumsum(by_slot[:, 1], axis=1)
        if self.total:
            by_level[:, 0] = by_level[:, 0].sum(axis=1, keepdims=True)
        return self.pack(by_level)

    @cached_property
    def paths(self) -> Paths:
        """Top to bottom, one path for each row; they part below a common total."""
        levels, rows = self.open.shape
        ends = np.cumsum([1 if self.total and i == 0 else rows for i in range(levels)])
        links = []
        for i in range(1, levels):
            above, child = slice(ends[i - 2] if i > 1 else 0, ends[i - 1]), slice(ends[i - 1], ends[i])
            families = above.stop - above.start
            size = np.full(families, rows // families)
            links.append(Link(above, child, np.arange(families) * size, size))
        last = np.arange(ends[-1]) >= (ends[-2] if levels > 1 else 0)
        which = np.tile(np.arange(rows), (1, levels, 1)) * (not self.objective.joint)
        open_, error = self.pack(self.open[None])[0], self.pack(which)[0]
        return Paths(tuple(links), last, open_, error, self.free, self.objective.model.exponent)

    def split(self, problem: BudgetProblem, budget: Floats) -> Split:
        """The split that these free budgets make together with the fixed ones."""
        rows = (self.table(budget[None])[0] + self.fixed[:, None]).T
        heads = int(problem.tree.offsets[2] - 1 if problem.total else problem.tree.first[0])
        rows = np.repeat(rows, heads, axis=0) if len(rows) < heads else rows
        total = float(rows[0, 0]) if problem.total else None
        return Split(problem.tree, rows[:, int(problem.total) :], problem.epsilon, problem.noise, problem.l1, total)

    def _refuse(self, problem: BudgetProblem) -> None:
        """Raises ValueError where what is left out cannot be told from what is measured."""
        share = self.free * self.open / np.maximum(1, self.open.sum(axis=0))
        if (self.errors(self.pack(share[None])) > ENDLESS).any():
            largest = share.max(axis=1) + self.fixed
            without = [name for name, most in zip(problem.tree.level_names, largest, strict=True) if most == 0]
            raise ValueError(
                f"counts need a figure of their own, or one of all below them; without budget: {', '.join(without)}: "
                "give it some, or no weight"
            )

    @cached_property
    def _slot(self) -> Ints:
        """Where the budget of each class stands: in its level or, for a leaf, in the sums from its level down."""
        forest = self.objective.forest
        return np.ravel_multi_index((forest.leaf.astype(np.int64), forest.level, self.row), (2, *self.open.shape))

    def _spread(self, budget: Floats) -> Floats:
        """The budget of each class."""
        table = self.table(budget) + self.fixed[:, None]
        leaf = np.cumsum(table[:, ::-1], axis=1)[:, ::-1]
        spread: Floats = np.concatenate([table, leaf], axis=1).reshape(len(table), -1)[:, self._slot]
        return spread


def class_rows(problem: BudgetProblem, forest: Classes) -> Ints:
    """The row of each class in a split by level."""
    return np.maximum(forest.under(int(problem.total)), 0) if problem.by_root else np.zeros(len(forest), np.int64)


def _open(free: NDArray[np.bool_], level: Ints, row: Ints) -> NDArray[np.bool_]:
    """Free levels that a row has; where its last one is fixed, also the next free one, which its leaves take."""
    levels, rows = len(free), int(row.max()) + 1
    last = np.zeros(rows, np.int64)
    np.maximum.at(last, row, level)
    after = np.array([next((j for j in range(i, levels) if free[j]), i) for i in range(levels)])
    reach: NDArray[np.bool_] = np.arange(levels)[:, None] <= after[last]
    return free[:, None] & reach
