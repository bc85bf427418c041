"""quotas: whole numbers that add up."""

import numpy as np

from attributary.types import Floats, Ints


def quotas(weights: Floats | Ints, total: int) -> Ints:
    """The total in the proportions of the weights, as whole numbers that add up to it.

    They are the differences of the rounded running sum, so no run of them is off by more than one.
    """
    running = np.cumsum(weights)
    scale = total / running[-1] if total else 0
    edges = np.rint(running * scale).astype(np.int64)
    parts: Ints = np.diff(edges, prepend=0)
    return parts
