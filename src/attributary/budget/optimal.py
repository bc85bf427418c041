"""Optimal: the split by level with the least error."""

from dataclasses import replace
from itertools import chain, combinations, islice
from typing import Unpack

import numpy as np
from numpy.typing import ArrayLike

from attributary.budget.equal import equally
from attributary.budget.greedy import greedily
from attributary.budget.hedge import hedge
from attributary.budget.improve import best, improve, prune
from attributary.budget.leaves import lowest
from attributary.budget.level_budgets import LevelBudgets
from attributary.budget.problem import Options, Problem, expectations
from attributary.budget.split import Split
from attributary.tree import Tree
from attributary.types import Floats

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
    problem = Problem.of(tree, prior_count, epsilon, tau, **options)
    expected = expectations(tree, share, spread)
    rows = LevelBudgets.of(problem)
    budget = best_by_level(problem, rows)
    if expected is not None:
        if not problem.denoised:
            raise ValueError("shares are used in denoising; for raw figures, plan without them")
        budget = hedge(problem, rows, budget, _level_sets(rows), *expected)
    return rows.split(problem, budget)


def best_by_level(problem: Problem, rows: LevelBudgets) -> Floats:
    """The free budgets of least error; below a total, in trees that are not too large, never worse than one split."""
    if not rows.total or len(rows.row) > MANY:
        return optimally(rows, problem.phases)
    one = LevelBudgets.of(replace(problem, by_root=False))
    row = one.table(optimally(one, problem.phases)[None])[0]
    same = np.where(rows.open, row, 0.0) + lowest(rows) * np.where(rows.open, 0.0, row).sum(axis=0)
    return optimally(rows, problem.phases, rows.pack(same[None]))


def optimally(rows: LevelBudgets, phases: int, more: Floats | None = None) -> Floats:
    """The same, never worse than `more` splits to begin with."""
    baselines = np.array([equally(rows, rows.open), equally(rows, lowest(rows)), greedily(rows, phases)])
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
        splits.append(equally(rows, np.where(chosen.any(axis=0), chosen, lowest(rows))))
    return np.array(splits).reshape(len(splits), rows.paths.open.size)


def _with_total(rows: LevelBudgets, phases: int) -> Floats:
    """The heads' best splits as if there were no total, beside totals of several sizes."""
    below = optimally(rows.heads, phases)
    top = np.array(TOTALS if rows.open[0, 0] else TOTALS[:1])[:, None]
    return np.concatenate([top * rows.free, (1 - top) * below], axis=1)
