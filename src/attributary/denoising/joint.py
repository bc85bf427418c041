"""joint: the non-negative counts that fit all figures best at once.

Fix some leaves at 0, and let the others be negative if they like. Each node's count is then a line as a function of the
price λ, and lies nowhere above the true curve: 0 and x + var·λ lie below max(0, x + var·λ), and neither adding up nor
a node's own figure changes who lies below. On a lower line the same count takes a higher price, so on the way down no
price is too low, and a leaf that is negative even so is 0 at the optimum. Fix it there and repeat. When no leaf is
negative, none is missing: that is the optimum. Each round is Algorithm 2; some ten are needed, never more than leaves.
"""

import numpy as np
from numpy.typing import NDArray

from attributary.denoising.passes import engine
from attributary.denoising.topdown import topdown
from attributary.tree import Tree
from attributary.types import Floats


def joint(tree: Tree, x: Floats, var: Floats, blue: Floats, least: Floats | None) -> Floats:
    """argmin over consistent s with s_leaf ≥ 0 of Σ (x_v − s_v)² / var_v, exactly, in level order.

    Exact figures are kept. Leaves not measured share what is left as in Algorithm 2, equally among siblings with
    var⇑ = ∞; those that would be negative are 0, and the others share again.
    """
    x, var = x.copy(), var.copy()
    leaf = tree.in_level_order.is_leaf
    above = None if least is None else _nearest_exact(tree, var == 0)
    while True:
        free = leaf & (var > 0)
        negative = np.flatnonzero(free & (blue < _bar(blue, var, free, above)))
        if not negative.size:
            return topdown(tree, x, var, blue, least)  # with nothing left to do but mend the last digits
        x[negative], var[negative] = 0.0, 0.0
        blue, _ = engine(tree).blue(tree, x, var)


def _nearest_exact(tree: Tree, exact: NDArray[np.bool_]) -> NDArray[np.int64]:
    """The exact node that each node is or stands under; its root where there is none."""
    up = np.where(exact | (tree.family < 0), np.arange(len(tree)), tree.family)
    while (up[up] != up).any():
        up = up[up]
    return up


def _bar(blue: Floats, var: Floats, free: NDArray[np.bool_], above: NDArray[np.int64] | None) -> Floats | float:
    """What a count must reach to stay: 0, or the best below an exact figure: all negative there is rounding only."""
    if above is None:
        return 0.0
    best = np.where(var == 0, -np.inf, 0.0)
    np.maximum.at(best, above[free], blue[free])
    bar: Floats = np.minimum(best, 0.0)[above]
    return bar
