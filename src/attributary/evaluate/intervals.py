"""intervals: estimates that say how sure they are, one function each, all of one signature; and how often they hold.

Arrays are in level order, and the counts are those of the estimators of the same names.
"""

from collections.abc import Callable

import numpy as np

from attributary.denoising import Estimate, denoise
from attributary.measurements import Measurements
from attributary.prior import Prior, learn
from attributary.tree import Tree
from attributary.types import Floats

Intervals = Callable[[Tree, Measurements, Prior], Estimate]

LEVEL = 0.95
ROUNDING = 1e-9  # of counts that are known exactly


def blue(tree: Tree, measured: Measurements, prior: Prior) -> Estimate:
    """Those of Algorithm 2, which know the noise's shape."""
    return denoise(tree, measured)


def top_down(tree: Tree, measured: Measurements, prior: Prior) -> Estimate:
    """The same, cut at 0."""
    return denoise(tree, measured, nonnegative="top-down")


def learned(tree: Tree, measured: Measurements, prior: Prior) -> Estimate:
    """With shares learned from these figures and from the prior."""
    return denoise(tree, measured, prior=learn(tree, measured, None, prior), nonnegative="top-down")


def inside(estimate: Estimate, count: Floats) -> Floats:
    """1 for each node whose 95 % interval holds the true count, else 0."""
    low, high = estimate.interval(LEVEL)
    slack = ROUNDING * np.maximum(count, 1.0)
    held: Floats = ((low - slack <= count) & (count <= high + slack)).astype(np.float64)
    return held
