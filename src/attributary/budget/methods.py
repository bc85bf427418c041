"""Ways to split the budget: equal and leaves, greedy (Algorithm 3), optimal by level, and per node."""

from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain, combinations, islice, pairwise
from typing import Self, Unpack

import numpy as np
from numpy.typing import ArrayLike, NDArray

from attributary.budget.classes import Classes
from attributary.budget.problem import BudgetProblem, Learned, Objective, Options, expectations
from attributary.budget.split import LevelBudgets, Split, class_rows
from attributary.budget.tree_error import Paths, best, improve, prune
from attributary.tree import Tree
from attributary.types import Floats, Ints


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


# Greedy (Algorithm 3): the budget in small units, each given to the level where it lowers the tree error most.

GAMMA = 1e-5  # of the budget, for all levels together to begin with: denoising needs some of each
TIE = 1e-12


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


# Optimal: the split by level with the least error; for estimates that use a prior, hedged.

STARTS = 63  # sets of levels to start from: all of up to 6 levels, of more levels the small sets
SIEVE = 3  # rounds that all starts take
FINALISTS = 6  # of which the best go on
ROUNDS = 40
MANY = 2**14  # classes: below a total, one split for all is tried first in trees of up to so many
TOTALS = (0.0, 0.02, 0.05, 0.1, 0.2, 0.4)  # shares of a total to start from


def optimal(
    tree: Tree,
    prior_count: ArrayLike,
    epsilon: float,
    tau: float,
    *,
    share: ArrayLike | None = None,
    spread: ArrayLike | None = None,
    **options: Unpack[Options],
) -> Split:
    """argmin of each root's E over all ε_i ≥ 0 with Σ ε_i = ε; never worse than equal, leaves or greedy.

    A level that is best left out has exactly 0. Precision grows with ε_i², so that a level without budget gains nothing
    from a small amount: each set of levels has its own best split, and the search starts from all of them.

    With `share` and `spread` of each node, the split is for estimates that use them as a prior, and hedged: if they are
    wrong, the error of unbiased estimates is at most 25 % above the least. A spread of inf: no expected share.
    """
    problem = BudgetProblem.of(tree, prior_count, epsilon, tau, **options)
    expected = expectations(tree, share, spread)
    rows = LevelBudgets.of(problem)
    budget = best_by_level(problem, rows)
    if expected is not None:
        if not problem.denoised:
            raise ValueError("shares are used in denoising; for raw figures, plan without them")
        budget = hedge(problem, rows, budget, _level_sets(rows), *expected)
    return rows.split(problem, budget)


def best_by_level(problem: BudgetProblem, rows: LevelBudgets) -> Floats:
    """The free budgets of least error; below a total, in trees that are not too large, never worse than one split."""
    if not rows.total or len(rows.row) > MANY:
        return optimally(rows, problem.phases)
    one = LevelBudgets.of(replace(problem, by_root=False))
    row = one.table(optimally(one, problem.phases)[None])[0]
    same = np.where(rows.open, row, 0.0) + rows.lowest * np.where(rows.open, 0.0, row).sum(axis=0)
    return optimally(rows, problem.phases, rows.pack(same[None]))


def optimally(rows: LevelBudgets, phases: int, more: Floats | None = None) -> Floats:
    """The same, never worse than `more` splits to begin with."""
    baselines = np.array([rows.equally(rows.open), rows.equally(rows.lowest), greedily(rows, phases)])
    baselines = baselines if more is None else np.concatenate([baselines, more])
    starts = np.concatenate([baselines, _with_total(rows, phases) if rows.total else _level_sets(rows)])
    budget, error = improve(rows.paths, rows.gains, starts, SIEVE)
    finalists = np.argsort(error, axis=0, kind="stable")[:FINALISTS][:, rows.paths.error]
    budget, error = improve(rows.paths, rows.gains, np.take_along_axis(budget, finalists, axis=0), ROUNDS)
    candidates = np.concatenate([prune(rows.paths, rows.errors, budget, error), baselines])
    return best(rows.paths, candidates, rows.errors(candidates))


def _level_sets(rows: LevelBudgets) -> Floats:
    """The budget shared equally by a set of levels, for one set after the other; small sets of low levels first."""
    free = np.flatnonzero(rows.open.any(axis=1))[::-1].tolist()
    sets = chain.from_iterable(combinations(free, size) for size in range(1, len(free) + 1))
    splits = []
    for levels in islice(sets, STARTS):
        chosen = np.zeros_like(rows.open)
        chosen[list(levels)] = rows.open[list(levels)]
        splits.append(rows.equally(np.where(chosen.any(axis=0), chosen, rows.lowest)))
    return np.array(splits).reshape(len(splits), rows.paths.open.size)


def _with_total(rows: LevelBudgets, phases: int) -> Floats:
    """The heads' best splits as if there were no total, beside totals of several sizes."""
    below = optimally(rows.heads, phases)
    top = np.array(TOTALS if rows.open[0, 0] else TOTALS[:1])[:, None]
    return np.concatenate([top * rows.free, (1 - top) * below], axis=1)


DOUBT = 0.1  # found on generated data: more gains less at small ε, none leaves leaves without figures to learn from
LIMIT = 1.25  # of the tree error, RMSRE = √E
HEDGE_SIEVE = 5  # rounds that all starts take
HEDGE_FINALISTS = (3, 6)  # in large trees, and in small ones
SMALL = 2**15  # classes of all starts together
HEDGE_ROUNDS = 12
MORE = np.array([2.0, 5.0, 15.0, 50.0])  # times the doubt
AGAIN = 8  # rounds with more doubt
BACK = np.linspace(0.0, 1.0, 33)  # how far on the way


@dataclass(frozen=True, eq=False)
class Hedged:
    """The weighted sum of both errors, relative to those of x₀."""

    with_it: LevelBudgets
    without: LevelBudgets
    by: Floats  # 1 / E(x₀)
    doubt: Floats  # DOUBT / E₀(x₀), the same for all splits or a row for each

    @classmethod
    def of(cls, problem: BudgetProblem, rows: LevelBudgets, plain: Floats, share: Floats, spread: Floats) -> Self:
        objective = Learned.of(problem, share, spread)
        with_it = replace(rows, objective=objective, row=class_rows(problem, objective.forest))
        by, doubt = (each.errors(plain[None])[0] for each in (with_it, rows))
        return cls(with_it, rows, _inverse(by), DOUBT * _inverse(doubt))

    @cached_property
    def paths(self) -> Paths:
        return self.without.paths

    def errors(self, budget: Floats) -> Floats:
        return self.by * self.with_it.errors(budget) + self.doubt * self.without.errors(budget)

    def gains(self, budget: Floats) -> tuple[Floats, Floats]:
        error, gain = self.with_it.gains(budget)
        plain, plain_gain = self.without.gains(budget)
        at = self.paths.error
        return self.by * error + self.doubt * plain, self.by[at] * gain + self.doubt[..., at] * plain_gain


def hedge(
    problem: BudgetProblem, rows: LevelBudgets, plain: Floats, others: Floats, share: Floats, spread: Floats
) -> Floats:
    """The free budgets for estimates that use a prior, which are still good if the prior is wrong.

    With E₀ a root's error without the prior, x₀ its best split (`plain`), and E the error with the prior, we minimise

        E(x) / E(x₀) + DOUBT · E₀(x) / E₀(x₀)    where E₀(x) ≤ LIMIT² · E₀(x₀)

    so that the tree error of unbiased estimates is at most 25 % above the least, even if the prior is worthless. A
    split beyond that limit is computed again with more weight on E₀ (the best split within the limit is the best for
    some weight) and then moved towards x₀ as far as necessary. In small trees there is time for more: the search also
    starts from `others`, and continues with more of them.
    """
    hedged = Hedged.of(problem, rows, plain, share, spread)
    small = len(others) * len(hedged.with_it.row) <= SMALL
    starts = np.concatenate([_starts(rows, plain), others[: len(others) * small]])
    sieved, error = improve(hedged.paths, hedged.gains, starts, HEDGE_SIEVE)
    number = HEDGE_FINALISTS[small]
    finalists = np.argsort(error, axis=0, kind="stable")[:number][:, hedged.paths.error]
    budget, error = improve(hedged.paths, hedged.gains, np.take_along_axis(sieved, finalists, axis=0), HEDGE_ROUNDS)
    budget = prune(hedged.paths, hedged.errors, budget, error)
    candidates = best(hedged.paths, budget, hedged.errors(budget))[None]
    if (rows.errors(candidates) > LIMIT**2 * rows.errors(plain[None])).any():
        doubt = np.append(MORE, np.full(len(sieved) * small, MORE[1]))
        starts = np.concatenate([np.repeat(candidates, len(MORE), axis=0), sieved[: len(sieved) * small]])
        more = replace(hedged, doubt=doubt[:, None] * hedged.doubt)
        again, error = improve(hedged.paths, more.gains, starts, AGAIN)
        candidates = np.concatenate([candidates, prune(hedged.paths, more.errors, again, error)])
    ends = [*((one, plain) for one in candidates), *pairwise(candidates)]
    from_starts = candidates[1 + len(MORE) :]  # what doubt made of each start, in a small tree
    ends += zip(sieved[: len(from_starts)], from_starts, strict=True)
    candidates = np.array([plain, *(_within(rows, plain, *both) for both in ends)])
    error = hedged.errors(candidates)
    chosen = best(hedged.paths, candidates, error)[None]
    pruned: Floats = prune(hedged.paths, hedged.errors, chosen, error.min(axis=0, keepdims=True))[0]
    return pruned


def _within(rows: LevelBudgets, plain: Floats, begin: Floats, end: Floats) -> Floats:
    """The first split between one and another that is within the limit; the plain one if there is none."""
    way = np.concatenate([(1 - BACK[:, None]) * begin + BACK[:, None] * end, plain[None]])
    fine = rows.errors(way) <= LIMIT**2 * rows.errors(plain[None])
    return best(rows.paths, way, np.where(fine, np.arange(len(way))[:, None], len(way)))


def _starts(rows: LevelBudgets, plain: Floats) -> Floats:
    """The plain split, and halfway from it to equal budgets and to all of the budget on each level."""
    ways = [rows.open]
    for i in range(len(rows.open)):
        only = np.zeros_like(rows.open)
        only[i] = rows.open[i]
        ways.append(np.where(only.any(axis=0), only, rows.lowest))
    return np.array([plain, *(0.5 * plain + 0.5 * rows.equally(way) for way in ways)])


def _inverse(error: Floats) -> Floats:
    return np.divide(1.0, error, out=np.zeros_like(error), where=error > 0)


# Per node: a budget for each node, such that no path from a root to a leaf spends more than ε. Leaves of one parent
# have the same budget, since each gets all that is left on its path.


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


NODE_ROUNDS = 20
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
    by_level, even = best_by_level(problem, rows), rows.equally(rows.open)
    starts = nodes.of_rows(rows, np.array([(1 - t) * by_level + t * even for t in TOWARDS_EQUAL]))
    budget, error = improve(nodes.paths, nodes.gains, starts, NODE_ROUNDS)
    candidates = np.concatenate([prune(nodes.paths, nodes.errors, budget, error), starts[:1]])
    return nodes.split(best(nodes.paths, candidates, nodes.errors(candidates)))
