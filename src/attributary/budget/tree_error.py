"""The tree error E = Σ w_v · v̂ar_v of each root on its classes, and what a little more precision would take off it.

With a node's precision π_v = 1/var_v (0 if it is not measured), the passes of Algorithm 2 read

    var↑_p = Σ var⇑_c    var⇑_p = var↑_p / (1 + π_p · var↑_p)    k_c = var⇑_c / var↑_p
    v̂ar_c = (1 − k_c) · var⇑_c + k_c² · v̂ar_p

so that the error from a node down is affine in its v̂ar, bulk · v̂ar + rest, and both add up on the way up. One sweep up
gives E; one more down, the adjoint of the first, all gains. Arrays are (splits, classes): many splits at a time; with
precisions of (splits, 1, classes) and several rows of weights, (splits, weights, classes): many errors at a time, too.
"""

from typing import NamedTuple

import numpy as np

from attributary.budget.classes import Classes
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
