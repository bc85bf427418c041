"""doubted: a prior that claims too much, made to claim what today's figures bear out."""

from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike

from attributary.denoising.denoise import measurements
from attributary.denoising.nonnegative import nonnegative
from attributary.denoising.passes import engine
from attributary.denoising.prior import Prior, measured, shares_of
from attributary.measurements import Measurements
from attributary.prior.borne import borne
from attributary.prior.doubt import doubt
from attributary.prior.drift import with_mean
from attributary.prior.gain import widened
from attributary.prior.kin import roots
from attributary.prior.learn import TAU
from attributary.prior.together import together
from attributary.tree import Tree
from attributary.types import Floats


def doubted(tree: Tree, noisy: ArrayLike | Measurements, variance: ArrayLike | None, prior: Prior) -> Prior:
    """The same prior, its variance and its spread grown where today's figures contradict it, by their χ².

    First level by level, then root by root: what a prior says of one root may be wrong while the rest is right.
    """
    given = measurements(tree, noisy, variance)
    order, back = tree.to_level_order, tree.from_level_order
    x, var = order(given.noisy), order(given.variance)
    z, v = engine(tree).upward(tree, x, var)
    plain: tuple[Floats, Floats] = engine(tree).blue(tree, x, var)
    first = nonnegative(tree, x, var, plain[0], "top-down")
    expected, shares = measured(tree, prior), shares_of(tree, prior)
    if expected is not None:
        mean, claimed = (order(values) for values in expected)
        grown = _grown(tree, mean, claimed, z, v)
        for _ in range(2):  # the second time finds what the first has left
            grown = together(tree, mean, grown, z, v)
        grown *= borne(tree, *plain, first, TAU, lambda doubt: with_mean(tree, x, var, mean, grown * doubt))
        prior = replace(prior, variance=back(grown))
    if shares is not None:
        share, spread = shares
        parent = np.where(tree.family >= 0, first[tree.family], np.inf)
        claimed = np.where(tree.family >= 0, spread, np.inf)
        mean = np.where(claimed < np.inf, share * np.where(parent < np.inf, parent, 0.0), 0.0)
        wide = _grown(tree, mean, claimed, z, v)
        wide = widened(tree, x, var, plain, share, wide, TAU)
        prior = replace(prior, spread=back(wide))
    return prior


def _grown(tree: Tree, mean: Floats, claimed: Floats, z: Floats, v: Floats) -> Floats:
    for group in (tree.in_level_order.level, roots(tree)):
        claimed = claimed * doubt(group, mean, claimed, z, v, len(tree))[group]
    return claimed
