"""predicted_total: the mean squared error of any weighted sum of predictions.

Let h_v say how much the sum grows with x̂_v: its own weight, and what its children pass on of it, Σ g_u·h_u. Given its
parent, a family then adds Σ t_u·(h_u − h̄)² to the variance, h̄ the mean weighted by t, and the roots add h²·var⇑.
"""

import numpy as np

from attributary.denoising.prior import Prior, shares_of
from attributary.denoising.shares import upward
from attributary.denoising.total import total
from attributary.measurements import Measurements
from attributary.tree import Family, Tree
from attributary.types import Floats


def predicted_variance(tree: Tree, given: Measurements, prior: Prior, weights: Floats) -> float:
    """The mean squared error of Σ weights · count, in the tree's order, if the prior is as good as it claims."""
    from attributary.denoising.denoise import with_means

    used, shares = with_means(tree, given, prior), shares_of(tree, prior)
    if shares is None:
        return total(tree, used, np.zeros(len(tree)), weights).variance
    x, var = tree.to_level_order(used.noisy), tree.to_level_order(used.variance)
    up = upward(tree, x, var, *shares)
    h: Floats = tree.to_level_order(weights).copy()
    variance = np.zeros(len(tree))
    for level in reversed(range(tree.depth - 1)):
        family = Family(tree, level)
        if not family.size:
            continue
        c, p = family.children, family.parent
        t, missing = up.v[c], up.v[c] == np.inf
        holes = family.sum(missing.astype(np.float64))
        weight = np.where(missing, 1.0, np.where(family.spread(holes) > 0, 0.0, t))  # they take what is left
        mass = family.sum(weight)
        weight = np.where(family.spread(mass) > 0, weight, 1.0)
        anchor = h[c][family.anchor(weight)]  # equal weights stay exactly equal, and cost exactly nothing
        mean = anchor + family.sum(weight / family.spread(family.sum(weight)) * (h[c] - family.spread(anchor)))
        off = h[c] - family.spread(mean)
        with np.errstate(invalid="ignore"):
            variance[c] = np.where(off == 0, 0.0, t * np.where(off == 0, 1.0, off) ** 2)
        h[p] += family.sum(up.pull[c] * h[c]) + (1 - family.sum(up.pull[c])) * mean
    roots = tree.slice(0)
    variance[roots] = np.where(h[roots] == 0, 0.0, up.v[roots] * np.where(h[roots] == 0, 1.0, h[roots]) ** 2)
    return float(variance.sum())
