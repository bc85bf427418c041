"""sales: what a sale brings, how long after its impression it comes, and at which hours people shop."""

from functools import cache
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from attributary.datasets.draws import Laws, laws
from attributary.types import Floats, Ints

# Amounts: log-normal between knots. The published quartiles, mean, standard deviation and maximum fix the upper tail;
# below the first quartile the curve continues as between the first two.

MORNING = (0.55, 0.35, 0.25, 0.2, 0.22, 0.35, 0.6, 0.85, 1.0, 1.15, 1.2, 1.22)
HOURS = (*MORNING, 1.2, 1.2, 1.2, 1.2, 1.2, 1.25, 1.35, 1.5, 1.6, 1.55, 1.25, 0.85)  # traffic by hour; assumed

Z_QUARTILE = NormalDist().inv_cdf(0.75)
AMOUNT_QUARTILES = (25.87, 56.66, 133.25)
LARGEST = 62_458.77
Z_KNOT, KNOT = 3.417624, 3_664.24  # with these the mean is 122.53 and the standard deviation 271.07
Z_LARGEST = 4.7  # once in 770,000 sales
Z_LARGE = 4  # 13,000 euros, which 3 sales in 100,000 exceed
STEPS = 2**14


def amounts(u: Floats) -> Floats:
    """Amounts from uniform draws, in whole cents."""
    cents: Floats = np.rint(100 * np.exp(np.interp(u, *_log_quantiles())))
    return cents / 100


def large_ones_to(some: NDArray[np.bool_], share: float, u: Floats) -> Floats:
    """Uniform draws, rearranged so that the few largest amounts fall to some sales, which are that share of all.

    Otherwise a single sale could double what a small country brings.
    """
    large = 1 - NormalDist().cdf(Z_LARGE)
    rest = 1 - large / share
    of_some = np.where(u < rest, u / rest * (1 - large), 1 - (1 - u) * share)
    return np.where(some, of_some, u * (1 - large))


@cache
def _log_quantiles() -> tuple[Floats, Floats]:
    """The logarithm of an amount at many quantiles, dense where the knots are."""
    z = np.linspace(-6, 6, STEPS)
    below = 6 / Z_QUARTILE * np.log(AMOUNT_QUARTILES[1] / AMOUNT_QUARTILES[0])
    knots = [-6, -Z_QUARTILE, 0, Z_QUARTILE, Z_KNOT, Z_LARGEST]
    logs = [np.log(AMOUNT_QUARTILES[1]) - below, *np.log([*AMOUNT_QUARTILES, KNOT, LARGEST])]
    at = np.unique(np.concatenate([z, knots]))
    return np.array([NormalDist().cdf(x) for x in at.tolist()]), np.interp(at, knots, logs)


# Delays: the published shares, quartiles, mean and maximum of CSSCL leave little freedom. Below two days the logarithm
# of a delay is uniform between the quartiles, above it the delay is uniform within its bucket.

DAY = 86_400
# The shares of the 2-day buckets as published, with two more digits, with which the mean is 359,580 seconds.
FIRST_SHARES = [0.65181, 0.06582, 0.04382, 0.03792, 0.03092, 0.02493, 0.02394, 0.02295]
SHARES = np.array([*FIRST_SHARES, 0.01696, 0.01697, 0.01698, 0.01298, 0.01299, 0.01300, 0.00801])
DELAY_QUARTILES = (707, 7_260, 463_808)
SHORTEST, LONGEST = 20, 2_588_699  # the shortest is an assumption
LONG = (2 * DAY, 4 * DAY, DELAY_QUARTILES[2], *range(6 * DAY, 29 * DAY, 2 * DAY), LONGEST + 1.0)
EDGES = np.array([SHORTEST, *DELAY_QUARTILES[:2], *LONG])
LOGARITHMIC = 3  # so many of the first bins are uniform in the logarithm
BY_QUARTILES = [0.25, 0.25, SHARES[0] - 0.5, SHARES[1], 0.75 - SHARES[:2].sum(), SHARES[:3].sum() - 0.75]
OVERALL = np.array([*BY_QUARTILES, *SHARES[3:]])


def bin_means() -> Floats:
    """The mean delay of each bin, in days."""
    low, high = EDGES[:-1], EDGES[1:]
    means: Floats = (low + high) / 2
    means[:LOGARITHMIC] = ((high - low) / np.log(high / low))[:LOGARITHMIC]
    means /= DAY
    return means


def tilted(mean: Floats) -> Floats:
    """For each mean in days, the law with that mean that is closest to the overall one: OVERALL · exp(−λ · delay)."""
    x = bin_means()
    low, high = np.full(len(mean), -50.0), np.full(len(mean), 5000.0)
    for _ in range(200):
        middle = (low + high) / 2
        too_slow = _tilted_law(middle, x) @ x > mean
        low, high = np.where(too_slow, middle, low), np.where(too_slow, high, middle)
    return _tilted_law((low + high) / 2, x)


def _tilted_law(rate: Floats, x: Floats) -> Floats:
    logs = np.log(OVERALL) - rate[:, None] * x
    law: Floats = np.exp(logs - logs.max(axis=1, keepdims=True))
    law /= law.sum(axis=1, keepdims=True)
    return law


def delay_laws(shares: Floats) -> Laws:
    """Laws to draw from, given the share of each bin (column) in each group (row)."""
    group = np.repeat(np.arange(len(shares)), shares.shape[1])
    return laws(group, shares.ravel())


def delays(drawn: tuple[Ints, Floats]) -> Ints:
    """Seconds, given the bins that were drawn and where in the bins."""
    cell, at = drawn
    which = cell % (len(EDGES) - 1)
    low, high = EDGES[which], EDGES[which + 1]
    seconds = np.where(which < LOGARITHMIC, low * (high / low) ** at, low + at * (high - low))
    whole: Ints = seconds.astype(np.int64)
    return whole
