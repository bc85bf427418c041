"""joint: the non-negative counts that fit all figures best at once.

Take a set of leaves as fixed at 0 and let the others be negative if they like. Each node's count as a function of the
price λ is then a line that lies below the true one, since the leaf's own x + var·λ and 0 lie below max(0, x + var·λ) and
neither adding up nor a node's own figure changes who lies below. Downwards, a lower line needs a higher price for the same
count. So the prices are never too low: a leaf that is negative even so is 0 at the optimum. Fix it there and
repeat until none is negative; what is left is the optimum. Each round is Algorithm 2; about ten suffice.
"""

import numpy as np
from numpy.typing import NDArray

from attributary.denoising.denoise import engine
from attributary.denoising.topdown import topdown
from attributary.tree import Tree

Floats = NDArray[np.float64]


def joint(tree: Tree, x: Floats, var: Floats, blue: Floats, least: Floats | None) -> Floats:
    """argmin over consistent s with s_leaf ≥ 0 of Σ (x_v − s_v)² / var_v, exactly, in level order."""
    x, var = x.copy(), var.copy()
    leaf = tree.first[1:] == tree.first[:-1]
    while (negative := np.flatnonzero((blue < 0) & leaf)).size:
        x[negative], var[negative] = 0.0, 0.0
        blue, _ = engine(tree).blue(tree, x, var)
    return topdown(tree, x, var, blue, least)
