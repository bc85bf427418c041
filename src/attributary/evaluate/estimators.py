"""Estimators: what is made of noisy values. One function each, all of one signature.

An estimator takes the tree, the noisy value and the noise variance of every node, and the prior, and gives a count for
every node; arrays are in level order. A function of the same name with `_variance` gives the variances of its counts,
if they are linear, and one with `_intervals` gives an `Estimate` that has intervals.
"""

from collections.abc import Callable

import numpy as np

from attributary.denoising import Estimate, denoise
from attributary.denoising.nonnegative import nonnegative as settle
from attributary.denoising.passes import engine
from attributary.evaluate.known_process import known_families
from attributary.measurements import Measurements
from attributary.prior import Prior, learn
from attributary.prior.whole_counts import posterior_estimate
from attributary.tree import Tree
from attributary.types import Floats


def raw(tree: Tree, noisy: Floats, variance: Floats, prior: Prior) -> Floats:
    """The noisy values as they are: they do not add up, and nodes that were not measured are infinite."""
    return np.where(variance < np.inf, noisy, np.inf)


def raw_variance(tree: Tree, variance: Floats) -> Floats:
    """The variances of `raw`: those of the noise."""
    return variance


def unbiased(tree: Tree, noisy: Floats, variance: Floats, prior: Prior) -> Floats:
    """Algorithm 2: the best linear unbiased estimates that add up."""
    count: Floats = engine(tree).blue(tree, noisy, variance)[0]
    return count


def unbiased_variance(tree: Tree, variance: Floats) -> Floats:
    """The variances of `unbiased`, which depend on the noise and never on the counts."""
    variances: Floats = engine(tree).blue(tree, np.zeros(len(tree)), variance)[1]
    return variances


def nonnegative(tree: Tree, noisy: Floats, variance: Floats, prior: Prior) -> Floats:
    """Counts that add up and are never negative, family by family from the roots down."""
    return settle(tree, noisy, variance, unbiased(tree, noisy, variance, prior), "top-down")


def learned(tree: Tree, noisy: Floats, variance: Floats, prior: Prior) -> Floats:
    """Counts that add up and are never negative, with shares learned from the noisy values and the prior."""
    known = learn(tree, noisy, variance, prior)
    return np.asarray(denoise(tree, noisy, variance, prior=known, nonnegative="top-down").count, np.float64)


def zeros(tree: Tree, noisy: Floats, variance: Floats, prior: Prior) -> Floats:
    """0 for every node: whoever is above that error had better not measured anything."""
    return np.zeros(len(tree))


def zeros_variance(tree: Tree, variance: Floats) -> Floats:
    """The variances of `zeros`: none."""
    return np.zeros(len(tree))


Intervals = Callable[[Tree, Measurements, Prior], Estimate]

LEVEL = 0.95
ROUNDING = 1e-9  # of counts that are known exactly


def unbiased_intervals(tree: Tree, measured: Measurements, prior: Prior) -> Estimate:
    """The estimates of `unbiased` with intervals for the shape of the noise."""
    return denoise(tree, measured)


def nonnegative_intervals(tree: Tree, measured: Measurements, prior: Prior) -> Estimate:
    """The estimates of `nonnegative` with intervals that are cut off at 0."""
    return denoise(tree, measured, nonnegative="top-down")


def learned_intervals(tree: Tree, measured: Measurements, prior: Prior) -> Estimate:
    """The estimates of `learned` with intervals."""
    return denoise(tree, measured, prior=learn(tree, measured, None, prior), nonnegative="top-down")


def posterior_intervals(tree: Tree, measured: Measurements, prior: Prior) -> Estimate:
    """Posterior means of whole counts with intervals, their prior learned from these figures and the prior."""
    return denoise(tree, measured, prior=prior, posterior=True)


def limit0_intervals(tree: Tree, measured: Measurements, prior: Prior) -> Estimate:
    """Posterior means under the very process that generated the counts: no estimator has a smaller squared error."""
    return posterior_estimate(denoise(tree, measured, nonnegative=True), families=known_families(prior, False))


def limit1_intervals(tree: Tree, measured: Measurements, prior: Prior) -> Estimate:
    """The same for estimators that know an earlier period: with its counts as they were, without noise."""
    return posterior_estimate(denoise(tree, measured, nonnegative=True), families=known_families(prior, True))


def inside(estimate: Estimate, count: Floats) -> Floats:
    """1 for each node whose 95 % interval holds the true count, else 0."""
    low, high = estimate.interval(LEVEL)
    slack = ROUNDING * np.maximum(count, 1.0)
    held: Floats = ((low - slack <= count) & (count <= high + slack)).astype(np.float64)
    return held


# What treats each root on its own; one that learns from the tree would learn from other draws of the same counts.
BATCHED = (raw, unbiased, nonnegative, unbiased_intervals, nonnegative_intervals)
