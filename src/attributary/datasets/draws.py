"""draws: uniform draws that are the same for the same version and seed, and what is built from them.

Who sells where and how slowly is part of a version; a seed only draws rows from it. Nothing but uniform draws of PCG64
is used, since NumPy may change how it draws anything else.
"""

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
