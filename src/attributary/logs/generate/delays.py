"""delays: how long after its impression a conversion comes.

The published shares, quartiles, mean and maximum of CSSCL leave little freedom: below two days the logarithm of a delay
is uniform between the quartiles, above it the delay is uniform within its bucket.
"""

import numpy as np

from attributary.logs.generate.choice import Laws, laws
from attributary.types import Floats, Ints

DAY = 86_400
# The shares of the 2-day buckets as published, with two more digits, with which the mean is 359,580 seconds.
FIRST_SHARES = [0.65181, 0.06582, 0.04382, 0.03792, 0.03092, 0.02493, 0.02394, 0.02295]
SHARES = np.array([*FIRST_SHARES, 0.01696, 0.01697, 0.01698, 0.01298, 0.01299, 0.01300, 0.00801])
QUARTILES = (707, 7_260, 463_808)
SHORTEST, LONGEST = 20, 2_588_699  # the shortest is an assumption
EDGES = np.array(
    [SHORTEST, *QUARTILES[:2], 2 * DAY, 4 * DAY, QUARTILES[2], *range(6 * DAY, 29 * DAY, 2 * DAY), LONGEST + 1.0]
)
LOGARITHMIC = 3  # so many of the first bins are uniform in the logarithm
OVERALL = np.concatenate(
    [
        [0.25, 0.25, SHARES[0] - 0.5, SHARES[1], 0.75 - SHARES[:2].sum(), SHARES[:3].sum() - 0.75],
        SHARES[3:],
    ]
)


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
        too_slow = _law(middle, x) @ x > mean
        low, high = np.where(too_slow, middle, low), np.where(too_slow, high, middle)
    return _law((low + high) / 2, x)


def _law(rate: Floats, x: Floats) -> Floats:
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
