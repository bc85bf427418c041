"""The tree error E = Σ w_v · v̂ar_v of each root on its classes, and its slope in every class's precision.

With a node's precision π_v = 1/var_v (0 if it is not measured), the passes of Algorithm 2 read

    var↑_p = Σ var⇑_c    var⇑_p = var↑_p / (1 + π_p · var↑_p)    k_c = var⇑_c / var↑_p
    v̂ar_c = (1 − k_c) · var⇑_c + k_c² · v̂ar_p

so that the error below a node is affine in its v̂ar: bulk · v̂ar + rest, both added up on the way up. One sweep up gives
E; one more down, the adjoint of the first, all slopes. Arrays are (splits, classes): many splits at a time.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from attributary.budget.classes import Classes

Floats = NDArray[np.float64]

NOTHING = 1e-100  # the precision of a leaf without budget: 0, but for a variance that can still be divided


class Sweep(NamedTuple):
    error: Floats  # (splits, roots)
    up: Floats  # var⇑ of each class
    below: Floats  # var↑ of each class; 0 for leaves
    bulk: Floats  # what a v̂ar one larger would add to the error, over the members of the class


def error(forest: Classes, weight: Floats, precision: Floats) -> Sweep:
    """E of each root under the precisions of the classes, by one sweep up."""
    up = np.maximum(precision, np.where(forest.leaf, NOTHING, 0.0))
    np.divide(1.0, up, out=up, where=forest.leaf)
    below = np.zeros_like(up)
    bulk = np.repeat(weight[None], len(up), axis=0)
    rest = np.zeros_like(up)
    for parent, child, start, size in reversed(forest.links):
        u = up[:, child]
        v = np.add.reduceat(forest.times[child] * u, start, axis=1)
        k = u / np.repeat(v, size, axis=1)
        k_bulk = k * bulk[:, child]
        rest[:, parent] = np.add.reduceat((bulk[:, child] - k_bulk) * u + rest[:, child], start, axis=1)
        bulk[:, parent] += np.add.reduceat(k * k_bulk, start, axis=1)
        below[:, parent] = v
        up[:, parent] = v / (1.0 + precision[:, parent] * v)
    roots = forest.slice(0)
    return Sweep(bulk[:, roots] * up[:, roots] + rest[:, roots], up, below, bulk)


def slope(forest: Classes, weight: Floats, sweep: Sweep) -> Floats:
    """−∂E/∂π of each class, by one sweep down: what a little more precision takes off the error."""
    _, up, below, bulk = sweep
    roots = forest.slice(0)
    variance, by_up = up.copy(), np.empty_like(up)  # v̂ar, and ∂E/∂var⇑
    by_up[:, roots] = bulk[:, roots]
    for parent, child, _, size in forest.links:
        v, x = below[:, parent], variance[:, parent]
        r = x / v
        by_below = (bulk[:, parent] - weight[parent]) * (1.0 - 2.0 * r) + by_up[:, parent] * (up[:, parent] / v) ** 2
        k = up[:, child] / np.repeat(v, size, axis=1)
        rest = np.repeat(1.0 - r, size, axis=1)
        variance[:, child] = up[:, child] * (1.0 - k * rest)
        by_up[:, child] = bulk[:, child] * (1.0 - 2.0 * k * rest) + forest.times[child] * np.repeat(by_below, size, axis=1)
    return up**2 * by_up
