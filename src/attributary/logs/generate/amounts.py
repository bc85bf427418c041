"""amounts: what a sale brings, in euros.

Log-normal between knots: the published quartiles, mean, standard deviation and maximum fix the upper tail; below the
first quartile it goes on as between the first two.
"""

from functools import cache
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from attributary.types import Floats

Z_QUARTILE = NormalDist().inv_cdf(0.75)
QUARTILES = (25.87, 56.66, 133.25)
LARGEST = 62_458.77
Z_KNOT, KNOT = 3.417624, 3_664.24  # with these the mean is 122.53 and the standard deviation 271.07
Z_LARGEST = 4.7  # once in 770,000 sales
Z_LARGE = 4  # 13,000 euros, which 3 sales in 100,000 exceed
STEPS = 2**14


def amounts(u: Floats) -> Floats:
    """Amounts from uniform draws, in whole cents."""
    cents: Floats = np.rint(100 * np.exp(np.interp(u, *_quantiles())))
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
def _quantiles() -> tuple[Floats, Floats]:
    """The logarithm of an amount at many quantiles, dense where the knots are."""
    z = np.linspace(-6, 6, STEPS)
    below = 6 / Z_QUARTILE * np.log(QUARTILES[1] / QUARTILES[0])
    knots = [-6, -Z_QUARTILE, 0, Z_QUARTILE, Z_KNOT, Z_LARGEST]
    logs = [np.log(QUARTILES[1]) - below, *np.log([*QUARTILES, KNOT, LARGEST])]
    at = np.unique(np.concatenate([z, knots]))
    return np.array([NormalDist().cdf(x) for x in at.tolist()]), np.interp(at, knots, logs)
