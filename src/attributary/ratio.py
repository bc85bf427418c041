"""ratio: what a conversion brings, a value's estimate over the count's, with its interval by the delta method."""

from statistics import NormalDist
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from attributary.denoising import Estimate
from attributary.types import Floats

SURE = 3.0  # standard deviations that a count is above 0 before it divides anything


class Ratio(NamedTuple):
    """Of each node, in the tree's order; nan where the count is not well above 0."""

    ratio: Floats
    variance: Floats
    low: Floats
    high: Floats


def ratio(value: Estimate, count: Estimate, confidence: float = 0.95) -> Ratio:
    """The value of a conversion at each node.

    With independent noise in both, Var(v̂ / ĉ) is about (Var v̂ + r² · Var ĉ) / ĉ² for r = v̂ / ĉ. That holds where ĉ is
    well above 0: a node whose count is not three standard deviations above it has no ratio. Counts and values of one
    plan get noise of their own, so that they are independent. As those of counts, intervals are around the unbiased
    ratio, where there is one; cut at 0, and widened to hold the ratio shown, where counts were made non-negative.
    """
    if value.count.shape != count.count.shape:
        raise ValueError(f"estimates are of one tree; got {len(value.count):,} nodes and {len(count.count):,}")
    if not 0 < confidence < 1:
        raise ValueError(f"the level of an interval is between 0 and 1; got {confidence}")
    found, variance = delta(value.count, value.variance, count.count, count.variance)
    around, spread = delta(value.blue, value.variance, count.blue, count.variance)
    none = np.isnan(around)
    around, spread = np.where(none, found, around), np.where(none, variance, spread)
    reach = NormalDist().inv_cdf(0.5 + confidence / 2) * np.sqrt(spread)
    least = 0.0 if value.nonnegative and count.nonnegative else -np.inf
    low, high = np.maximum(around - reach, least), np.maximum(around + reach, least)
    return Ratio(found, variance, np.minimum(low, found), np.maximum(high, found))


def delta(value: ArrayLike, of_value: ArrayLike, count: ArrayLike, of_count: ArrayLike) -> tuple[Floats, Floats]:
    """The ratio of two independent estimates with these variances, and its own; nan where the count is not sure."""
    value, of_value, count, of_count = (np.asarray(x, np.float64) for x in (value, of_value, count, of_count))
    below = np.where(count > SURE * np.sqrt(of_count), count, np.nan)
    with np.errstate(invalid="ignore"):
        found = value / below
        return found, (of_value + found**2 * of_count) / below**2
