"""The tree error E = Σ w_v · v̂ar_v where estimates use shares of the parent's count, too, and the gains of precision.

With a node's precision π_v, and 1/spread as the precision ρ_u of what is expected of it, s_u · x_p, the passes of
`denoising.shares` read

    k_u = 1 / (1 + ρ_u · var⇑_u)    t_u = k_u · var⇑_u    T = Σ t    S = Σ k · s    A = Σ s² · ρ · k
    1 / var⇑_p = π_p + A + S² / T    g_u = (1 − k_u) · s_u + S · t_u / T
    v̂ar_u = (1 − t_u / T) · t_u + g_u² · v̂ar_p

so that, as in `error`, the error from a node down is affine in its v̂ar: one sweep up gives E, its adjoint all gains.
"""

from typing import NamedTuple

import numpy as np

from attributary.budget.classes import Classes
from attributary.types import Floats


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


def gain(forest: Classes, share: Floats, firm: Floats, sweep: PredictedSweep) -> Floats:
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
