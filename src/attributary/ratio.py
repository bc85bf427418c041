"""ratio: what a conversion brings, a value's estimate over the count's, with its interval by the delta method."""

from statistics import NormalDist
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from attributary.denoising import Estimate

Floats = NDArray[np.float64]
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
    plan get noise of their own, so that they are independent.
    """
    if value.count.shape != count.count.shape:
        raise ValueError(f"estimates are of one tree; got {len(value.count):,} nodes and {len(count.count):,}")
    if not 0 < confidence < 1:
        raise ValueError(f"the level of an interval is between 0 and 1; got {confidence}")
    sure = count.count > SURE * np.sqrt(count.variance)
    below = np.where(sure, count.count, np.nan)
    with np.errstate(invalid="ignore"):
        found = value.count / below
        variance = (value.variance + found**2 * count.variance) / below**2
    reach = NormalDist().inv_cdf(0.5 + confidence / 2) * np.sqrt(variance)
    return Ratio(found, variance, found - reach, found + reach)
