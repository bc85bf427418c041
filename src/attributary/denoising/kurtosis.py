"""excess_kurtosis: the shape of every estimate's noise, from the fourth cumulants of what went into it.

Each of the paper's z is a weighted sum of *independent* figures, so that cumulants add with the weights' fourth power,
in the same two passes: up for K⇑, down for K↓ and K⇓. Here all of them are relative to the square of the variance.
"""

import numpy as np
from numpy.typing import NDArray

from attributary.denoising.linear import Family
from attributary.measurements import Measurements
from attributary.tree import Tree

Floats = NDArray[np.float64]


def excess_kurtosis(tree: Tree, measured: Measurements, variance: Floats) -> Floats:
    """The excess kurtosis of each estimate, in the tree's order; `variance` is that of the estimates."""
    from attributary.denoising.denoise import engine

    noise = measured.excess()
    if not noise.any():
        return noise
    var, own, blue = (tree.to_level_order(a) for a in (measured.variance, noise, variance))
    _, up = engine(tree).upward(tree, tree.to_level_order(measured.noisy), var)

    e_up = own.copy()  # excess of z⇑
    for level in reversed(range(tree.depth - 1)):
        family = Family(tree, level)
        if family.size:
            c, p = family.children, family.parent
            below = family.sum(up[c])
            e_up[p] = _mix(var[p], own[p], below, _of_sum(family, e_up[c], up[c], below))

    excess, down, e_down = e_up.copy(), var.copy(), own.copy()  # of x̂; var⇓ and excess of z⇓
    for level in range(tree.depth - 1):
        family = Family(tree, level)
        if not family.size:
            continue
        c, p = family.children, family.parent
        known = np.where(up[c] == np.inf, 0.0, up[c])
        holes = family.spread(family.sum((up[c] == np.inf).astype(np.float64))) - (up[c] == np.inf)
        others = np.maximum(family.spread(family.sum(known)) - known, 0.0)
        fourth = e_up[c] * known**2
        others_fourth = np.maximum(family.spread(family.sum(fourth)) - fourth, 0.0)
        around = np.where(holes > 0, np.inf, family.spread(down[p]) + others)  # var↓
        finite = np.where((around > 0) & (around < np.inf), around, 1.0)
        given = family.spread(np.where(down[p] < np.inf, down[p], 0.0) ** 2 * e_down[p])
        e_around = np.minimum((given + others_fourth) / finite**2, np.maximum(e_up[c].max(), own.max()))
        excess[c] = _mix(up[c], e_up[c], around, e_around)
        e_down[c] = _mix(var[c], own[c], around, e_around)
        with np.errstate(invalid="ignore", divide="ignore"):
            both = np.where(around == np.inf, var[c], np.where(var[c] == np.inf, around, _parallel(var[c], around)))
        down[c] = both
    excess[~(blue < np.inf)] = 0.0
    return np.maximum(tree.from_level_order(excess), 0.0)


def _parallel(a: Floats, b: Floats) -> Floats:
    total = a + b
    return np.where(total > 0, a / np.where(total > 0, total, 1.0) * b, 0.0)


def _of_sum(family: Family, excess: Floats, var: Floats, total: Floats) -> Floats:
    """The excess of a sum of independent figures: the variances' shares squared weigh each one's."""
    finite = np.where((total > 0) & (total < np.inf), total, np.inf)
    share = np.where(var < np.inf, var, 0.0) / family.spread(finite)
    return family.sum(excess * share**2)


def _mix(var_x: Floats, x: Floats, var_y: Floats, y: Floats) -> Floats:
    """The excess after CombineEstimates: the share of the variance that each contributes is the other's share of it."""
    with np.errstate(invalid="ignore"):
        both = var_x + var_y
        share = var_y / both  # of x in the combined variance
    share = np.where(var_x == np.inf, 0.0, np.where(var_y == np.inf, 1.0, np.where(both > 0, share, 0.0)))
    mixed: Floats = x * share**2 + y * (1 - share) ** 2
    return mixed
