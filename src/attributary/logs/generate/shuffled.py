"""shuffled: a random order of any number of rows that takes no memory."""

import numpy as np
from numpy.typing import NDArray

from attributary.logs.generate.fixed import VERSION
from attributary.types import Ints

ROUNDS = 4
DRAWS = 5  # the key of this file's draws


def shuffled(place: Ints, rows: int, seed: int) -> Ints:
    """Which row stands at each place when `rows` rows are shuffled.

    A Feistel network permutes the numbers below a power of four; places that land beyond the rows are sent on until
    they land among them, which keeps it a permutation.
    """
    half = 1
    while 4**half < rows:
        half += 1
    state = np.random.SeedSequence((VERSION, DRAWS, seed)).generate_state(2 * ROUNDS, np.uint64)
    keys = state.astype(np.uint64).reshape(ROUNDS, 2)
    found = _network(place.astype(np.uint64), half, keys)
    beyond = np.flatnonzero(found >= rows)
    while len(beyond):
        found[beyond] = _network(found[beyond], half, keys)
        beyond = beyond[found[beyond] >= rows]
    return found.astype(np.int64)


def _network(x: NDArray[np.uint64], half: int, keys: NDArray[np.uint64]) -> NDArray[np.uint64]:
    bits, mask = np.uint64(half), np.uint64(2**half - 1)
    left, right = x >> bits, x & mask
    for add, multiply in keys:
        mixed = (right + add) * (multiply | np.uint64(1))
        mixed ^= mixed >> np.uint64(29)
        mixed *= np.uint64(0xBF58476D1CE4E5B9)
        left, right = right, left ^ ((mixed >> np.uint64(32)) & mask)
    return (left << bits) | right
