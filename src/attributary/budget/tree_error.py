"""The tree error E = Σ w_v · v̂ar_v of each root on its classes, and what a little more precision would take off it.

With a node's precision π_v = 1/var_v (0 if it is not measured), the passes of Algorithm 2 read

    var↑_p = Σ var⇑_c    var⇑_p = var↑_p / (1 + π_p · var↑_p)    k_c = var⇑_c / var↑_p
    v̂ar_c = (1 − k_c) · var⇑_c + k_c² · v̂ar_p

so that the error from a node down is affine in its v̂ar, bulk · v̂ar + rest, and both add up on the way up. One sweep up
gives E; one more down, the adjoint of the first, all gains. Arrays are (splits, classes): many splits at a time; with
precisions of (splits, 1, classes) and several rows of weights, (splits, weights, classes): many errors at a time, too.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from attributary.budget.classes import Classes, Link
from attributary.types import Floats

NOTHING = 1e-100  # the precision of a leaf without budget: a variance that stands for ∞ and can still be divided
ENDLESS = 1e50  # an error above it comes of such a variance


class ErrorSweep(NamedTuple):
    error: Floats  # (splits, roots), or (splits, weights, roots)
    up: Floats  # var⇑ of each class
    below: Floats  # var↑ of each class; 0 for leaves
    bulk: Floats  # what v̂ar counts for, in the class and all below it


def denoised(forest: Classes, weight: Floats, precision: Floats) -> ErrorSweep:
    """E of each root after denoising, by one sweep up."""
    up = np.divide(1.0, np.maximum(precision, NOTHING))
    below = np.zeros_like(up)
    bulk = np.broadcast_to(weight, np.broadcast_shapes(weight.shape, up.shape)).copy()
    rest = np.zeros_like(bulk)
    for link in reversed(forest.links):
        parent, child = link.parent, link.child
        u, b = up[..., child], bulk[..., child]
        v = link.sum(forest.times[child] * u)
        k = u / link.spread(v)
        kb = k * b
        rest[..., parent] = link.sum((b - kb) * u + rest[..., child])
        bulk[..., parent] += link.sum(k * kb)
        below[..., parent] = v
        up[..., parent] = v / (1.0 + precision[..., parent] * v)
    roots = forest.slice(0)
    return ErrorSweep(bulk[..., roots] * up[..., roots] + rest[..., roots], up, below, bulk)


def variances(forest: Classes, precision: Floats) -> Floats:
    """v̂ar of each class, by one sweep up and one down."""
    _, up, below, _ = denoised(forest, np.zeros(len(forest)), precision)
    variance = up.copy()
    for link in forest.links:
        u, v = up[:, link.child], below[:, link.parent]
        variance[:, link.child] = u * (1.0 - u * link.spread((1.0 - variance[:, link.parent] / v) / v))
    return variance


def gain(forest: Classes, weight: Floats, sweep: ErrorSweep) -> Floats:
    """−∂E/∂π of each class, by one sweep down."""
    _, up, below, bulk = sweep
    roots = forest.slice(0)
    variance, by_up = up.copy(), np.empty_like(bulk)  # v̂ar and ∂E/∂var⇑
    by_up[..., roots] = bulk[..., roots]
    for link in forest.links:
        parent, child = link.parent, link.child
        u, v = up[..., child], below[..., parent]
        settled = variance[..., parent] / v
        by_below = (bulk[..., parent] - weight[..., parent]) * (1.0 - 2.0 * settled)
        by_below += by_up[..., parent] * (up[..., parent] / v) ** 2
        moved = u * link.spread((1.0 - settled) / v)  # k_c · (1 − v̂ar_p / var↑_p)
        variance[..., child] = u * (1.0 - moved)
        by_up[..., child] = bulk[..., child] * (1.0 - 2.0 * moved)
        by_up[..., child] += forest.times[child] * link.spread(by_below)
    return up**2 * by_up


def raw(forest: Classes, weight: Floats, precision: Floats) -> tuple[Floats, Floats]:
    """E of each root without denoising, Σ w_v · var_v, and −∂E/∂π of each class."""
    variance = 1.0 / np.maximum(precision, NOTHING)
    splits, roots = len(variance), int(forest.offsets[1])
    cell = forest.under(0) + roots * np.arange(splits)[:, None]
    error = np.bincount(cell.ravel(), (weight * variance).ravel(), splits * roots).astype(np.float64)
    return error.reshape(splits, roots), weight * variance**2


# The same where estimates use shares of the parent's count, too. With 1/spread as the precision ρ_u of what is expected
# of a node, s_u · x_p, the passes of `denoising.family_shares` read
#
#     k_u = 1 / (1 + ρ_u · var⇑_u)    t_u = k_u · var⇑_u    T = Σ t    S = Σ k · s    A = Σ s² · ρ · k
#     1 / var⇑_p = π_p + A + S² / T    g_u = (1 − k_u) · s_u + S · t_u / T
#     v̂ar_u = (1 − t_u / T) · t_u + g_u² · v̂ar_p
#
# so that here, too, the error from a node down is affine in its v̂ar.


class PredictedFamily(NamedTuple):
    """What the way down needs of the families between two levels; k, t, w and g by child, the others by parent."""

    k: Floats
    t: Floats
    w: Floats  # t / T
    g: Floats
    total: Floats  # T
    left: Floats  # S


class PredictedSweep(NamedTuple):
    error: Floats  # (splits, roots)
    up: Floats  # var⇑ of each class
    bulk: Floats  # what v̂ar counts for, in the class and all below it
    families: tuple[PredictedFamily, ...]  # top to bottom


def predicted(
    forest: Classes, weight: Floats, precision: Floats, share: Floats, firm: Floats, nothing: float
) -> PredictedSweep:
    """E of each root, by one sweep up; `firm` is ρ, and `nothing` the precision of a leaf without budget."""
    up = np.divide(1.0, np.maximum(precision, nothing))
    rest, bulk = np.zeros_like(up), np.repeat(weight[None], len(up), axis=0)
    families = []
    for link in reversed(forest.links):
        parent, child = link.parent, link.child
        n, s, rho = forest.times[child], share[child], firm[child]
        v, b = up[:, child], bulk[:, child]
        k = 1.0 / (1.0 + rho * v)
        t, ns = k * v, n * s
        total = link.sum(n * t)
        left = link.sum(ns * k)
        known = link.sum(ns * s * rho * k)
        w = t / link.spread(total)
        g = rho * t * s + w * link.spread(left)
        rest[:, parent] = link.sum(b * t * (1.0 - w) + rest[:, child])
        bulk[:, parent] += link.sum(g * g * b)
        up[:, parent] = 1.0 / (precision[:, parent] + known + left * left / total)
        families.append(PredictedFamily(k, t, w, g, total, left))
    roots = forest.slice(0)
    return PredictedSweep(bulk[:, roots] * up[:, roots] + rest[:, roots], up, bulk, tuple(reversed(families)))


def predicted_gain(forest: Classes, share: Floats, firm: Floats, sweep: PredictedSweep) -> Floats:
    """−∂E/∂π of each class, by one sweep down."""
    _, up, bulk, families = sweep
    roots = forest.slice(0)
    variance, by_up = up.copy(), np.empty_like(up)  # v̂ar and ∂E/∂var⇑
    by_up[:, roots] = bulk[:, roots]
    for link, (k, t, w, g, total, left) in zip(forest.links, families, strict=True):
        parent, child = link.parent, link.child
        n, s, rho = forest.times[child], share[child], firm[child]
        b, above = bulk[:, child], link.spread(variance[:, parent])
        ratio = left / total
        by_below = -by_up[:, parent] * up[:, parent] ** 2  # by A + S² / T
        by_g = 2.0 * b * g * above
        pulled = link.sum(by_g * w)
        by_total = link.sum(b * w * w) - pulled * ratio - by_below * ratio * ratio
        by_left = pulled + 2.0 * by_below * ratio
        by_t = b * (1.0 - 2.0 * w) + by_g * link.spread(ratio) + n * link.spread(by_total)
        by_k = s * (n * link.spread(by_left) - by_g)
        by_told = n * link.spread(by_below) * (s * rho) ** 2
        by_up[:, child] = k * k * (by_t - rho * by_k - by_told)
        variance[:, child] = t * (1.0 - w) + g * g * above
    return up**2 * by_up


# improve: better splits, step by step: the best split for given estimates, the best estimates for given splits.
#
# For given estimates Σ a_vu · x_u the error is Σ Q_u · var_u. With var_u = 1/ε_u², the best budgets have a closed form:
# with a budget b, the error of a node v and all below it is (q_v + s_v)³/b², where q_v = Q_v^⅓ and s_v³ is the sum of
# its children's errors at b = 1; v gets q_v / (q_v + s_v) of b. The best estimates for these budgets come from
# denoising. With var_u = 1/ε_u, as for Gaussian noise, cubes and cube roots are squares and square roots. Neither step
# raises the error. Q_u is the derivative of E by var_u, computed by the adjoint.

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
    root, power = (np.cbrt, lambda cost: cost * cost * cost) if paths.exponent == 2 else (np.sqrt, np.square)
    q = budget * root(np.maximum(gain, 0.0))  # as −∂E/∂ε = 2Q/ε³, and the 2 is common to all
    cost, s = power(q), np.zeros_like(q)
    for link in reversed(paths.links):
        s[:, link.parent] = root(link.sum(cost[:, link.child]))
        cost[:, link.parent] = power(q[:, link.parent] + s[:, link.parent])
    with np.errstate(all="ignore"):
        odds = budget / rest * (q * rest / (s * budget)) ** length
    unsure = np.isnan(odds)  # nothing to gain here, or nothing to spend: as it was
    return _spend(paths, np.where(unsure, budget, odds), np.where(unsure, rest, 1.0))


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
