"""draws: uniform draws that are the same for the same version and seed, and what is built from them: users, sales.

Who sells where and how slowly is part of a version; a seed only draws rows from it. Nothing but uniform draws of PCG64
is used, since NumPy may change how it draws anything else.
"""

from functools import cache
from statistics import NormalDist
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from attributary.types import Floats, Ints

VERSION = 1  # frozen: a generator that draws other rows has another number


def fixed(what: str, *shape: int) -> Floats:
    """Uniform draws that depend on the version and on what they are for."""
    return generator(*what.encode()).random(shape)


def fixed_normal(what: str, size: int) -> Floats:
    return normal(fixed(what, size))


def normal(u: Floats) -> Floats:
    """The quantiles of the standard normal distribution."""
    return np.array([NormalDist().inv_cdf(x) for x in u.tolist()])


def generator(*key: int) -> np.random.Generator:
    """Draws of their own for every key."""
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence((VERSION, *key))))


SHORT_OF_ONE = 1 - 1e-12  # so that rounding never reaches the next group


class Laws(NamedTuple):
    """Group g's cells fill the interval from g to g + 1, each as much as its probability."""

    edge: Floats  # where each cell ends; the cells of group 0 come first

    def draw(self, group: NDArray[np.integer], u: Floats) -> tuple[Ints, Floats]:
        """A cell of each row's group, and where in the cell the draw fell, from 0 to 1: a second draw for free."""
        at = group + u * SHORT_OF_ONE
        cell = np.searchsorted(self.edge, at, side="right")
        begin = np.where(cell > 0, self.edge[cell - 1], 0.0)
        return cell, (at - begin) / (self.edge[cell] - begin)


def laws(group: Ints, weight: Floats) -> Laws:
    """Laws from the weights of their cells, which stand in the order of their groups; each group has a weight."""
    running = np.cumsum(weight)
    last = np.flatnonzero(np.diff(group, append=group[-1] + 1))
    before = np.concatenate([[0.0], running[last[:-1]]])
    edge = group + (running - before[group]) / (running[last] - before)[group]
    edge[last] = group[last] + 1  # whatever the rounding
    return Laws(edge)


def quotas(weights: Floats | Ints, total: int) -> Ints:
    """The total in the proportions of the weights, as whole numbers that add up to it.

    They are the differences of the rounded running sum, so no run of them is off by more than one.
    """
    running = np.cumsum(weights)
    scale = total / running[-1] if total else 0
    edges = np.rint(running * scale).astype(np.int64)
    parts: Ints = np.diff(edges, prepend=0)
    return parts


ROUNDS = 4
SHUFFLE_DRAWS = 5  # the key of these draws


def shuffle(place: Ints, rows: int, seed: int) -> Ints:
    """Which row stands at each place when `rows` rows are shuffled; takes no memory.

    A Feistel network permutes the numbers below a power of four; places that land beyond the rows are sent on until
    they land among them, which keeps it a permutation.
    """
    half = 1
    while 4**half < rows:
        half += 1
    state = np.random.SeedSequence((VERSION, SHUFFLE_DRAWS, seed)).generate_state(2 * ROUNDS, np.uint64)
    keys = state.astype(np.uint64).reshape(ROUNDS, 2)
    row = _network(place.astype(np.uint64), half, keys)
    beyond = np.flatnonzero(row >= rows)
    while len(beyond):
        row[beyond] = _network(row[beyond], half, keys)
        beyond = beyond[row[beyond] >= rows]
    return row.astype(np.int64)


def _network(x: NDArray[np.uint64], half: int, keys: NDArray[np.uint64]) -> NDArray[np.uint64]:
    bits, mask = np.uint64(half), np.uint64(2**half - 1)
    left, right = x >> bits, x & mask
    for add, multiply in keys:
        mixed = (right + add) * (multiply | np.uint64(1))
        mixed ^= mixed >> np.uint64(29)
        mixed *= np.uint64(0xBF58476D1CE4E5B9)
        left, right = right, left ^ ((mixed >> np.uint64(32)) & mask)
    return (left << bits) | right


# Users in the pool for each row drawn from it; those who convert again then do so 1.245 times, as published.
POOL = 2.17
MOST_CONVERSIONS = 39  # conversions of the most faithful user


def user_of(row: Ints, rows: Ints, users: Ints, u: Floats, faithful: NDArray[np.bool_] | None = None) -> Ints:
    """The user, counted from 0, of each row of a stratum of so many rows and users, so that the number is exact.

    As many rows as the stratum has users belong to one user each, evenly spread; the others fall on users drawn from a
    pool, small enough that some of them come three times and more. User 0 takes the rows of the `faithful`.
    """
    number = row * users // rows
    again = (row + 1) * users // rows == number
    extra = rows - users
    drawn = (1 + (u * extra * POOL).astype(np.int64)) % users
    if faithful is not None:
        before = row - number  # rows of users who come again
        drawn[faithful & (before < np.minimum(MOST_CONVERSIONS - 1, extra // 50))] = 0
    return np.where(again, drawn, number)


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
