"""drift: the earlier period as one more measurement of each leaf, with the drift since."""

import numpy as np
from numpy.typing import ArrayLike

from attributary.denoising.denoise import measurements
from attributary.denoising.nonnegative import nonnegative
from attributary.denoising.passes import engine
from attributary.denoising.prior import Prior
from attributary.measurements import Measurements
from attributary.prior.earlier import as_period
from attributary.prior.kin import roots
from attributary.prior.robust import doubt, together, widening, with_mean
from attributary.prior.spread import EACH, FEWEST, forgiving, rising, spread
from attributary.tree import Tree
from attributary.types import Floats

BINS = 24
LEAST = 0.01  # conversions expected of a leaf


def drifted(
    tree: Tree,
    noisy: ArrayLike | Measurements,
    variance: ArrayLike | None = None,
    earlier: Prior | None = None,
    *,
    tau: float = 5.0,
) -> Prior:
    """What the earlier period predicts for each leaf: a mean, and a variance that includes its noise and the drift.

    Both are learned level by level, from leaves that had about the same count: the mean is their average count today,
    the variance how far they are from it. Only leaves have a prior: the earlier estimates of the nodes above hold the
    same information. Nodes that are new or far off (a leaf, a root, or a node whose leaves moved together) are
    estimated from today's figures. If whole roots drift, such a prior is worth little; shares, from `learn`, are not
    affected.
    """
    if (earlier := as_period(tree, earlier)) is None or earlier.new is None:
        raise ValueError(
            "there is no drift without an earlier period; without one, prior.learn goes by today's figures"
        )
    if not 0 < tau < np.inf:
        raise ValueError(f"tau is a positive number; got {tau}")
    given = measurements(tree, noisy, variance)
    order = tree.to_level_order
    x, var, then, known = order(given.noisy), order(given.variance), order(earlier.mean), ~order(earlier.new)
    z, v = engine(tree).upward(tree, x, var)
    plain: tuple[Floats, Floats] = engine(tree).blue(tree, x, var)
    first = nonnegative(tree, x, var, plain[0], "top-down")
    leaf = tree.in_level_order.is_leaf & known
    mean, wide = np.zeros(len(tree)), np.full(len(tree), np.inf)
    for i in range(tree.depth):
        here = np.flatnonzero(leaf[tree.slice(i)]) + tree.slice(i).start
        weight = np.where(v[here] < np.inf, 1.0 / np.maximum(first[here], tau) ** 2, 0.0)
        if (weight > 0).sum() >= FEWEST:
            mean[here] = _expected(then[here], z[here], v[here], tau)
            wide[here] = spread(mean[here], np.zeros(len(here)), z[here], v[here], weight)
    root = roots(tree)
    wide *= doubt(root, mean, wide, z, v, len(tree))[root]
    wide = together(tree, mean, forgiving(wide, mean, z, v), z, v)
    wide *= widening(tree, *plain, first, tau, lambda doubt: with_mean(tree, x, var, mean, wide * doubt))
    back = tree.from_level_order
    kept = (earlier.protected, earlier.new, earlier.gone, earlier.lost, earlier.example)
    return Prior(back(mean), back(wide), *kept, not_private=earlier.not_private)


def _expected(then: Floats, z: Floats, v: Floats, tau: float) -> Floats:
    """Today's mean count of leaves by their earlier count: increasing, and proportional to it above the last bin."""
    use = np.flatnonzero(v < np.inf)
    weight = 1.0 / (v[use] + np.maximum(then[use], tau) ** 2)
    parts = np.array_split(np.argsort(then[use], kind="stable"), min(BINS, max(1, len(use) // EACH)))
    mass = np.array([weight[part].sum() for part in parts])
    at = np.array([np.dot(weight[part], then[use][part]) for part in parts]) / mass
    level = np.maximum(rising(np.array([np.dot(weight[p], z[use][p]) for p in parts]) / mass, mass), LEAST)
    expected = np.interp(then, at, level)
    above = then > at[-1]
    expected[above] *= then[above] / max(at[-1], LEAST)
    return expected
