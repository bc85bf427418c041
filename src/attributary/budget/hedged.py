"""hedged: a split for estimates that use what is expected, that holds up if what is expected is wrong.

With E₀ a root's error without expectations, x₀ the split that is best for it, and E the error with them, we minimise

    E(x) / E(x₀) + DOUBT · E₀(x) / E₀(x₀)

and go back towards x₀ as far as it takes to have E₀(x) ≤ LIMIT² · E₀(x₀): if nothing of what was expected is true, the
tree error of unbiased estimates is at most 25 % above the least there is.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Self

import numpy as np
from numpy.typing import NDArray

from attributary.budget.equal import equally
from attributary.budget.improve import Paths, best, improve, prune
from attributary.budget.learned import Learned
from attributary.budget.leaves import lowest
from attributary.budget.rows import Rows
from attributary.budget.task import Task

Floats = NDArray[np.float64]

DOUBT = 0.1  # found on generated data: more gains less at small ε, none leaves leaves without figures to learn from
LIMIT = 1.25  # of the tree error, RMSRE = √E
SIEVE = 3  # rounds that all starts take
FINALISTS = 2
ROUNDS = 12
BACK = np.linspace(0.0, 1.0, 17)  # how far towards x₀


@dataclass(frozen=True, eq=False)
class Hedged:
    """Both errors as one, relative to those of x₀."""

    with_it: Rows
    without: Rows
    by: Floats  # 1 / E(x₀)
    doubt: Floats  # DOUBT / E₀(x₀)

    @classmethod
    def of(cls, task: Task, rows: Rows, plain: Floats, share: Floats, spread: Floats) -> Self:
        objective = Learned.of(task, share, spread)
        forest = objective.forest
        row = np.maximum(forest.under(int(task.total)), 0) if task.by_root else np.zeros(len(forest), np.int64)
        with_it = Rows(objective, rows.fixed, rows.open, row, rows.free, rows.total)
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
        return self.by * error + self.doubt * plain, self.by[at] * gain + self.doubt[at] * plain_gain


def hedge(task: Task, rows: Rows, plain: Floats, share: Floats, spread: Floats) -> Floats:
    """The free budgets, given those that are best without expectations."""
    hedged = Hedged.of(task, rows, plain, share, spread)
    budget, error = improve(hedged.paths, hedged.gains, _starts(rows, plain), SIEVE)
    finalists = np.argsort(error, axis=0, kind="stable")[:FINALISTS][:, hedged.paths.error]
    budget, error = improve(hedged.paths, hedged.gains, np.take_along_axis(budget, finalists, axis=0), ROUNDS)
    budget = prune(hedged.paths, hedged.errors, budget, error)
    found = best(hedged.paths, budget, hedged.errors(budget))
    towards = (1 - BACK[:, None]) * found + BACK[:, None] * plain
    towards[-1] = plain  # to the last digit
    least = rows.errors(plain[None])
    within = rows.errors(towards) <= LIMIT**2 * least
    return best(hedged.paths, towards, np.where(within, hedged.errors(towards), np.inf))


def _starts(rows: Rows, plain: Floats) -> Floats:
    """The plain split, and half way from it to equal budgets and to each level's having all."""
    ways = [rows.open]
    for i in range(len(rows.open)):
        only = np.zeros_like(rows.open)
        only[i] = rows.open[i]
        ways.append(np.where(only.any(axis=0), only, lowest(rows)))
    return np.array([plain, *(0.5 * plain + 0.5 * equally(rows, way) for way in ways)])


def _inverse(error: Floats) -> Floats:
    return np.divide(1.0, error, out=np.zeros_like(error), where=error > 0)
