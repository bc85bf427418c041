"""quantile: the half-width of an interval in standard deviations, for noise between normal and Laplace, or heavier.

An estimate is a weighted sum of independent Laplace figures. Its distribution is approximated by the symmetric
variance-gamma distribution of the same variance and kurtosis, which is exact for one Laplace figure (excess kurtosis
3), for equally weighted sums of n of them (3/n), and in the normal limit (0).
"""

from functools import lru_cache
from math import erfc, exp, lgamma, log, sqrt
from statistics import NormalDist

import numpy as np

from attributary.types import Floats

KNOTS = tuple(3 * (i / 48) ** 1.5 for i in range(49)) + tuple(3 * 10 ** (i / 32) for i in range(1, 129))


def quantile(level: float, excess: Floats, freedom: Floats | float = np.inf) -> Floats:
    """For each excess kurtosis, the q with P(|X| ≤ q standard deviations) = level.

    Where the variance is itself an estimate with so many degrees of freedom, as many standard deviations as estimated:
    X / √(χ²/freedom), of which the variance and the kurtosis are known, is taken to be of the same laws.
    """
    share = 1 / np.asarray(freedom)
    excess = (3 + excess) * (1 - 2 * share) / (1 - 4 * share) - 3
    if not 0 < level < 1:
        raise ValueError(f"the level of an interval is between 0 and 1; got {level}")
    ends = np.searchsorted(KNOTS, [np.min(excess, initial=np.inf), np.max(excess, initial=0.0)])
    first, last = max(int(ends.min()) - 1, 0), min(int(ends[1]) + 1, len(KNOTS))
    return np.interp(excess, KNOTS[first:last], [_knot(level, i) for i in range(first, last)]) / np.sqrt(1 - 2 * share)


def level_of(reach: float, excess: float) -> float:
    """The probability within so many standard deviations; the inverse of `quantile`."""
    if not excess > 0:
        return 1 - erfc(reach / sqrt(2))
    return 1 - _tail(reach, 3 / excess)


@lru_cache(maxsize=4096)
def _knot(level: float, i: int) -> float:
    return NormalDist().inv_cdf(0.5 + level / 2) if i == 0 else _solve(1 - level, 3 / KNOTS[i])


def _solve(outside: float, n: float) -> float:
    """The x with P(|X| > x) = outside, by bisection in log x; 0 where that little lies outside any x to speak of."""
    low, high = -20.0, 4.0
    if _tail(exp(low), n) < outside:
        return 0.0
    for _ in range(36):
        middle = (low + high) / 2
        low, high = (middle, high) if _tail(exp(middle), n) > outside else (low, middle)
    return exp((low + high) / 2)


def _tail(x: float, n: float) -> float:
    """P(|X| > x) for X = √G·Z with Z standard normal and G ~ Gamma(n) of mean 1, by the trapezoid rule in log G."""
    left = max(log(x * x / 90), -12 / sqrt(n) - 40 / n)
    right = min(log(1 + 40 / n + 12 / sqrt(n)), 12 / sqrt(n) + 6)
    steps = 64
    h = (right - left) / steps
    norm = n * log(n) - lgamma(n)
    total = 0.0
    for i in range(steps + 1):
        s = left + i * h
        total += exp(n * s - n * exp(s) + norm) * erfc(x * exp(-s / 2) / sqrt(2))
    return total * h if h > 0 else 0.0
