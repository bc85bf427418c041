"""nonnegative: counts that add up and are never negative: top-down (`topdown`), or the best fit of all figures at once.

For the joint fit, fix some leaves at 0 and let the others be negative. The count of each node is then a linear function
of the price λ that is nowhere above the true one: 0 and x + var·λ are below max(0, x + var·λ), and adding up and
combining with a node's own figure keep that order. On a lower line the same count needs a higher price, so no price on
the way down is too low, and a leaf that is negative even so is 0 at the optimum. Fix it there and repeat; when none is
negative, that is the optimum. Each round is Algorithm 2; about ten are needed, never more than there are leaves.
"""

from typing import NoReturn

import numpy as np
from numpy.typing import NDArray

from attributary.denoising.passes import engine
from attributary.denoising.topdown import topdown
from attributary.tree import Tree
from attributary.types import Floats


def nonnegative(tree: Tree, x: Floats, var: Floats, blue: Floats, method: str) -> Floats:
    """Consistent counts ≥ 0 by a method, "top-down" or "joint", in level order; no longer unbiased."""
    return METHODS[method](tree, x, var, blue, least(tree, x, var))


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


METHODS = {"top-down": topdown, "joint": joint}


def least(tree: Tree, x: Floats, var: Floats, leaves: Floats | float = 0.0) -> Floats | None:
    """The least count each node can have, knowing the exact figures below it; None where that is 0 everywhere.

    `leaves` is what is known of leaves that stand for a tree below them; that of other nodes is 0.
    """
    exact = var == 0
    if not exact.any() and not np.any(leaves):
        return None
    sure = np.where(exact, x, leaves)
    if (exact & (x < 0)).any():
        place = int(np.argmax(exact & (x < 0)))
        raise ValueError(
            f"an exact figure (variance 0) is 0 or more where counts are never negative; "
            f"{_name(tree, place)} is {x[place]:.17g}"
        )
    if not (sure > 0).any():
        return None
    leaf = tree.in_level_order.is_leaf
    # The bottom-up pass keeps an exact figure, and adds up what is below a node not measured.
    rest = np.where(leaf, 1.0, np.inf)
    bound: Floats = engine(tree).upward(tree, sure, np.where(exact, 0.0, rest))[0]
    parents = np.flatnonzero(~leaf)
    if parents.size:
        below = np.add.reduceat(bound, tree.first[parents])
        short = exact[parents] & (below > x[parents] * (1 + 1e-12))  # beyond rounding
        if short.any():
            _too_small(tree, sure, exact, int(parents[np.argmax(short)]))
    return bound


def _too_small(tree: Tree, sure: Floats, exact: NDArray[np.bool_], place: int) -> NoReturn:
    culprits: list[int] = []
    level = [place]
    while level:
        children = [c for v in level for c in range(int(tree.first[v]), int(tree.first[v + 1]))]
        culprits += [c for c in children if sure[c] > 0]
        level = [c for c in children if not exact[c]]
    below = " + ".join(f"{sure[v]:.17g} ({_name(tree, v)})" for v in culprits[:3])
    more = f" + {len(culprits) - 3} more" if len(culprits) > 3 else ""
    raise ValueError(
        f"an exact figure (variance 0) is no less than those below it where counts are never negative; "
        f"{_name(tree, place)} is {sure[place]:.17g}, but below it are exactly {below}{more}"
    )


def _name(tree: Tree, place: int) -> str:
    return tree.name(place if tree.order is None else int(tree.order[place]))
