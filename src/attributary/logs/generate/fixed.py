"""fixed: the draws that make the population, the same for every seed.

Who sells where and how slowly is part of a version; a seed only draws rows from it. Nothing but uniform draws of PCG64
is used here and for rows, since NumPy may change how it draws anything else.
"""

from statistics import NormalDist

import numpy as np

from attributary.types import Floats

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
