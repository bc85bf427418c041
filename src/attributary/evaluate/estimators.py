"""estimators: what is made of noisy figures, one function each, all of one signature; arrays are in level order.

They are given the prior, too, for those that make use of it.
"""

import numpy as np

from attributary.denoising import denoise
from attributary.denoising.nonnegative import nonnegative
from attributary.denoising.passes import engine
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
