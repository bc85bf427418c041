"""Simulate: the summary report that counts would give, without the reports."""

import numpy as np
from numpy.typing import ArrayLike

from attributary.noise import Entropy, sample_dlap
from attributary.types import Ints

MOST = 2**62  # of a sum; noise has room beside it


def simulated_sums(contribution: ArrayLike, count: ArrayLike) -> Ints:
    """What reports of `count` conversions add to each node's key: exact, NOT protected."""
    each, counts = np.asarray(contribution), np.asarray(count)
    if each.shape != counts.shape:
        raise ValueError(f"contributions and counts go in pairs; got {each.size} and {counts.size}")
    for name, values in (("contribution", each), ("count", counts)):
        if not (values.dtype.kind in "iuf" and (values >= 0).all() and (values == np.floor(values)).all()):
            raise ValueError(f"a {name} is a whole number, 0 or more")
    if not (each.astype(np.float64) * counts.astype(np.float64) < MOST).all():
        raise ValueError(f"the sum of a key is below {MOST}")
    sums: Ints = each.astype(np.int64) * counts.astype(np.int64)
    return sums


def simulated_summary(
    contribution: ArrayLike, count: ArrayLike, epsilon: float, l1: int, rng: Entropy | None = None
) -> Ints:
    """The noisy sum of each node's key, as a batch of reports would give it; 0 for a node without a key."""
    sums = simulated_sums(contribution, count)
    keyed = np.asarray(contribution) > 0
    if keyed.all():
        sums += sample_dlap(epsilon / l1, sums.shape, rng)
    else:
        sums[keyed] += sample_dlap(epsilon / l1, int(keyed.sum()), rng)
    return sums
