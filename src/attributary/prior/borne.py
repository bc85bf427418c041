"""borne: how far a prior of means may be trusted, so that no level is worse off for it, told by today's figures.

Let D be how far the prior moves an estimate, and V₀ and V the variances without it and with it. If the prior is as good
as it claims, D² is V₀ − V on average; if it is off by b more, V₀ − V + b². So 2·(V₀ − V) − D² is, on average and
whatever the prior, by how much it lowers the squared error.
"""

import numpy as np
from numpy.typing import NDArray

from attributary.denoising.denoise import engine
from attributary.measurements import combine
from attributary.tree import Tree

Floats = NDArray[np.float64]

DOUBTS = (1.0, 3.0, 10.0, 30.0, 100.0, 1e3, 1e4)  # how much wider; beyond the last: nothing is expected


def borne(tree: Tree, x: Floats, var: Floats, mean: Floats, claimed: Floats, tau: float) -> Floats:
    """The claimed variances, all grown by what lets no level's error rise; inf where nothing does. In level order."""
    blue, variance = engine(tree).blue(tree, x, var)
    weight = 1.0 / np.maximum(blue, tau) ** 2
    for doubt in DOUBTS:
        wide = claimed * doubt
        found, lower = engine(tree).blue(tree, *combine(np.where(var < np.inf, x, 0.0), var, mean, wide))
        known = variance < np.inf  # of the others it lowers the error, whatever it says
        gap, moved = (np.where(known, a - b, 0.0) for a, b in ((variance, lower), (found, blue)))
        gain = weight * (2 * gap - moved**2)
        if all(gain[tree.slice(i)].sum() >= 0 for i in range(tree.depth)):
            return wide
    return np.full(len(tree), np.inf)
