"""Change: what the difference of two estimates says, in words.

The noise of both is known, so the difference has a standard error, √(variance + variance). How often noise alone makes
one of z standard errors depends on its shape: 2·Φ(−|z|) if many figures stand behind it, exp(−√2·|z|) if one does, with
Laplace noise. The larger of the two is given.
"""

from math import erfc, exp, inf, sqrt

SURE, LIKELY = 0.001, 0.05
CHANGED, MAYBE, NOISE = "changed", "probably changed", "could be noise"


def chance(z: float) -> float:
    """How often noise alone makes a difference of this many standard errors or more."""
    size = abs(z)
    return max(erfc(size / sqrt(2)), exp(-sqrt(2) * size)) if size < inf else 0.0


def verdict(z: float | None) -> str:
    """A change in words; none where there is nothing to compare."""
    if z is None:
        return ""
    often = chance(z)
    return CHANGED if often <= SURE else MAYBE if often <= LIKELY else NOISE
