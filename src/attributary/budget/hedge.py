"""hedge: a split for estimates that use a prior, which is still good if the prior is wrong.

With E₀ a root's error without the prior, x₀ its best split, and E the error with the prior, we minimise

    E(x) / E(x₀) + DOUBT · E₀(x) / E₀(x₀)    where E₀(x) ≤ LIMIT² · E₀(x₀)

so that the tree error of unbiased estimates is at most 25 % above the least, even if the prior is worthless. A split
beyond that limit is computed again with more weight on E₀ (the best split within the limit is the best for some weight)
and then moved towards x₀ as far as necessary.
"""

from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import Self

import numpy as np

from attributary.budget.equal import equally
from attributary.budget.improve import Paths, best, improve, prune
from attributary.budget.leaves import lowest
from attributary.budget.level_budgets import LevelBudgets
from attributary.budget.problem import Learned, Problem
from attributary.types import Floats

DOUBT = 0.1  # found on generated data: more gains less at small ε, none leaves leaves without figures to learn from
LIMIT = 1.25  # of the tree error, RMSRE = √E
SIEVE = 5  # rounds that all starts take
FINALISTS = (3, 6)  # in large trees, and in small ones
SMALL = 2**15  # classes of all starts together
ROUNDS = 12
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
    def of(cls, problem: Problem, rows: LevelBudgets, plain: Floats, share: Floats, spread: Floats) -> Self:
        objective = Learned.of(problem, share, spread)
        forest = objective.forest
        row = np.maximum(forest.under(int(problem.total)), 0) if problem.by_root else np.zeros(len(forest), np.int64)
        with_it = LevelBudgets(objective, rows.fixed, rows.open, row, rows.free, rows.total)
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


def hedge(problem: Problem, rows: LevelBudgets, plain: Floats, others: Floats, share: Floats, spread: Floats) -> Floats:
    """The free budgets, given those that are best without the prior.

    In small trees there is time for more: the search also starts from `others`, and continues with more of them.
    """
    hedged = Hedged.of(problem, rows, plain, share, spread)
    small = len(others) * len(hedged.with_it.row) <= SMALL
    starts = np.concatenate([_starts(rows, plain), others[: len(others) * small]])
    sieved, error = improve(hedged.paths, hedged.gains, starts, SIEVE)
    number = FINALISTS[1] if small else FINALISTS[0]
    finalists = np.argsort(error, axis=0, kind="stable")[:number][:, hedged.paths.error]
    budget, error = improve(hedged.paths, hedged.gains, np.take_along_axis(sieved, finalists, axis=0), ROUNDS)
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
        ways.append(np.where(only.any(axis=0), only, lowest(rows)))
    return np.array([plain, *(0.5 * plain + 0.5 * equally(rows, way) for way in ways)])


def _inverse(error: Floats) -> Floats:
    return np.divide(1.0, error, out=np.zeros_like(error), where=error > 0)
