"""improve: better splits, step by step: the best split for given estimates, the best estimates for given splits.

For given estimates Σ a_vu · x_u the error is Σ Q_u · var_u. With var_u = 1/ε_u², the best budgets have a closed form:
with a budget b, the error of a node v and all below it is (q_v + s_v)³/b², where q_v = Q_v^⅓ and s_v³ is the sum of its
children's errors at b = 1; v gets q_v / (q_v + s_v) of b. The best estimates for these budgets come from denoising.
With var_u = 1/ε_u, as for Gaussian noise, cubes and cube roots are squares and square roots. Neither step raises the
error. Q_u is the derivative of E by var_u, computed by the adjoint.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from attributary.budget.classes import Link
from attributary.types import Floats

Gains = Callable[[Floats], tuple[Floats, Floats]]

CLOSE = 1e-9  # of the error: steps that gain less are not worth taking
SMALL = 1e-6  # of what is left: budgets below it are worth no key
LONGEST = 8.0


class Paths(NamedTuple):
    """The budgets to choose: a forest in which every path from a root to a leaf has `budget` to spend."""

    links: tuple[Link, ...]
    last: NDArray[np.bool_]  # where a path ends: it takes all that is left
    open: NDArray[np.bool_]  # a budget that is not open stays 0
    error: NDArray[np.int64]  # which of the errors a budget is for
    budget: float
    exponent: int = 2  # of the budget in the precision, or about so


def improve(paths: Paths, gains: Gains, budget: Floats, rounds: int) -> tuple[Floats, Floats]:
    """Budgets (splits, places) made better, and their errors (splits, errors), none above what it was.

    With the API's noise, or Gaussian noise, a whole step never fails. Other noise is not quite 1/ε², so that a step may
    have to be shortened; where steps succeed, longer ones are tried.
    """
    error, gain = gains(budget)
    step, idle = np.ones_like(error), 0
    for _ in range(rounds):
        moved = _step(paths, budget, gain, step[:, paths.error])
        new_error, new_gain = gains(moved)
        better = new_error < error
        idle = idle + 1 if not (new_error < (1 - CLOSE) * error).any() else 0
        step = np.where(better, np.minimum(1.5 * step, LONGEST), 0.4 * step)
        take = better[:, paths.error]
        budget, gain = np.where(take, moved, budget), np.where(take, new_gain, gain)
        error = np.where(better, new_error, error)
        if idle == 2:
            break
    return budget, error


def prune(paths: Paths, errors: Callable[[Floats], Floats], budget: Floats, error: Floats) -> Floats:
    """The same without tiny budgets, where dropping them hardly raises the error."""
    rest = _rest(paths, budget)
    enough = SMALL * (budget + rest)
    pruned = _spend(paths, np.where(budget < enough, 0.0, budget), np.where(rest < enough, 0.0, rest))
    return np.where((errors(pruned) <= (1 + CLOSE) * error)[:, paths.error], pruned, budget)


def best(paths: Paths, budget: Floats, error: Floats) -> Floats:
    """Of several splits, for each error the one that makes it smallest; the first of equals."""
    chosen: Floats = budget[np.argmin(error, axis=0)[paths.error], np.arange(budget.shape[1])]
    return chosen


def _step(paths: Paths, budget: Floats, gain: Floats, length: Floats) -> Floats:
    rest = _rest(paths, budget)
    root, power = (np.cbrt, _cube) if paths.exponent == 2 else (np.sqrt, np.square)
    q = budget * root(np.maximum(gain, 0.0))  # as −∂E/∂ε = 2Q/ε³, and the 2 is common to all
    cost, s = power(q), np.zeros_like(q)
    for link in reversed(paths.links):
        s[:, link.parent] = root(link.sum(cost[:, link.child]))
        cost[:, link.parent] = power(q[:, link.parent] + s[:, link.parent])
    with np.errstate(all="ignore"):
        odds = budget / rest * (q * rest / (s * budget)) ** length
    unsure = np.isnan(odds)  # nothing to gain here, or nothing to spend: as it was
    return _spend(paths, np.where(unsure, budget, odds), np.where(unsure, rest, 1.0))


def _cube(q: Floats) -> Floats:
    return q * q * q


def _rest(paths: Paths, budget: Floats) -> Floats:
    """What is left below each place."""
    rest = np.zeros_like(budget)
    for parent, child, start, _ in reversed(paths.links):
        rest[:, parent] = np.maximum.reduceat(budget[:, child] + rest[:, child], start, axis=1)
    return rest


def _spend(paths: Paths, here: Floats, rest: Floats) -> Floats:
    """Budgets in these proportions: at each place here of here + rest of what is left on its path, at the end all."""
    with np.errstate(all="ignore"):
        take = np.where(paths.open & (here > 0), 1.0 / (1.0 + rest / here), 0.0)
        keep = np.where(here > 0, 1.0 / (1.0 + here / rest), 1.0)
    left, spent = np.full_like(here, paths.budget), np.zeros_like(here)
    for link in paths.links:
        spent[:, link.parent] = take[:, link.parent] * left[:, link.parent]
        left[:, link.child] = link.spread(keep[:, link.parent] * left[:, link.parent])
    return np.where(paths.last & paths.open, left, spent)
