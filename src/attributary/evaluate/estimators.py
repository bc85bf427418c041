"""What is made of noisy figures: counts, and estimates with their intervals; one function each, of one signature.

Arrays are in level order. Estimators are given the prior, too, for those that make use of it."""

from collections.abc import Callable

import numpy as np

from attributary.denoising import Estimate, denoise
from attributary.denoising.nonnegative import nonnegative
from attributary.denoising.passes import engine
from attributary.measurements import Measurements
from attributary.prior import Prior, learn
from attributary.tree import Tree
from attributary.types import Floats


def raw(tree: Tree, noisy: Floats, variance: Floats, prior: Prior) -> Floats:
    """The noisy figures as they are; they do not add up, and what was not measured is anybody's guess."""
    return np.where(variance < np.inf, noisy, np.inf)


def raw_variance(tree: Tree, variance: Floats) -> Floats:
    """That of the noise."""
    return variance


def blue(tree: Tree, noisy: Floats, variance: Floats, prior: Prior) -> Floats:
    """Algorithm 2: the best linear unbiased counts that add up."""
    count: Floats = engine(tree).blue(tree, noisy, variance)[0]
    return count


def blue_variance(tree: Tree, variance: Floats) -> Floats:
    """Algorithm 2's: it depends on the noise, never on the counts."""
    found: Floats = engine(tree).blue(tree, np.zeros(len(tree)), variance)[1]
    return found


def top_down(tree: Tree, noisy: Floats, variance: Floats, prior: Prior) -> Floats:
    """Counts that add up and are never negative, family by family from the roots down."""
    return nonnegative(tree, noisy, variance, blue(tree, noisy, variance, prior), "top-down")


def learned(tree: Tree, noisy: Floats, variance: Floats, prior: Prior) -> Floats:
    """Counts that add up and are never negative, with shares learned from these figures and from the prior."""
    known = learn(tree, noisy, variance, prior)
    return np.asarray(denoise(tree, noisy, variance, prior=known, nonnegative="top-down").count, np.float64)


Intervals = Callable[[Tree, Measurements, Prior], Estimate]

LEVEL = 0.95
ROUNDING = 1e-9  # of counts that are known exactly


def blue_intervals(tree: Tree, measured: Measurements, prior: Prior) -> Estimate:
    """Those of Algorithm 2, which know the noise's shape."""
    return denoise(tree, measured)


def top_down_intervals(tree: Tree, measured: Measurements, prior: Prior) -> Estimate:
    """The same, cut at 0."""
    return denoise(tree, measured, nonnegative="top-down")


def learned_intervals(tree: Tree, measured: Measurements, prior: Prior) -> Estimate:
    """With shares learned from these figures and from the prior."""
    return denoise(tree, measured, prior=learn(tree, measured, None, prior), nonnegative="top-down")


def inside(estimate: Estimate, count: Floats) -> Floats:
    """1 for each node whose 95 % interval holds the true count, else 0."""
    low, high = estimate.interval(LEVEL)
    slack = ROUNDING * np.maximum(count, 1.0)
    held: Floats = ((low - slack <= count) & (count <= high + slack)).astype(np.float64)
    return held


# What treats each root on its own; one that learns from the tree would learn from other draws of the same counts.
BATCHED = (raw, blue, top_down, blue_intervals, top_down_intervals)
