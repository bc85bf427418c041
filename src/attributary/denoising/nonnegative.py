"""nonnegative: counts that add up and are never negative."""

from typing import NoReturn

import numpy as np
from numpy.typing import NDArray

from attributary.denoising.joint import joint
from attributary.denoising.passes import engine
from attributary.denoising.topdown import topdown
from attributary.tree import Tree
from attributary.types import Floats

METHODS = {"top-down": topdown, "joint": joint}


def nonnegative(tree: Tree, x: Floats, var: Floats, blue: Floats, method: str) -> Floats:
    """Consistent counts ≥ 0 by a method, "top-down" or "joint", in level order; no longer unbiased."""
    return METHODS[method](tree, x, var, blue, least(tree, x, var))


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
