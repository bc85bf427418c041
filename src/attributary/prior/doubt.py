"""doubt: how much wider a root's expectations must be, by the χ² of today's figures against them."""

import numpy as np
from numpy.typing import NDArray

from attributary.denoising.passes import COMPILED_FROM
from attributary.types import Floats

SURE = 2.0  # standard errors by which figures must be off before a root is doubted


def doubt(group: NDArray[np.integer], expected: Floats, variance: Floats, z: Floats, v: Floats, groups: int) -> Floats:
    """The factor, 1 or more, by which the variance of expectations must grow in each group to explain its figures.

    Each (z − expected)² should be about variance + v. What it is beyond v, summed over the group, is compared with what
    was claimed; only what is beyond the error of such a sum counts, so that one node that jumped does not discredit its
    whole root. Nodes of which nothing is expected or measured (variance or v = ∞) do not judge.
    """
    found, squares, claimed = _sums(group, expected, variance, z, v, groups)
    sure = found - SURE * np.sqrt(squares)
    factor: Floats = np.where(sure > claimed, sure / np.where(claimed > 0, claimed, 1.0), 1.0)
    return factor


def _sums(group: NDArray[np.integer], expected: Floats, variance: Floats, z: Floats, v: Floats, groups: int) -> Floats:
    """For each group the weighted surplus, the sum of its squares, and what was claimed."""
    sums: Floats = np.zeros((3, groups))
    if len(z) >= COMPILED_FROM:
        from attributary.prior.compiled_sums import doubts

        doubts(group, expected, variance, z, v, sums)
        return sums
    judge = (variance < np.inf) & (v < np.inf) & (variance + v > 0)
    m, q, noise, g = expected[judge], variance[judge], v[judge], group[judge]
    weight = 1.0 / (q + noise) ** 2
    surplus = weight * ((z[judge] - m) ** 2 - noise)
    for i, values in enumerate((surplus, surplus**2, weight * q)):
        sums[i] = np.bincount(g, values, groups)
    return sums
