"""predict: counts from figures and from shares of the parent's count, non-negative if asked."""

import numpy as np

from attributary.denoising.nonnegative import least
from attributary.denoising.shares import Up, downward, upward
from attributary.denoising.topdown import settled
from attributary.tree import Tree
from attributary.types import Floats


def predict(
    tree: Tree, x: Floats, var: Floats, share: Floats, spread: Floats, method: str | None = None
) -> tuple[Floats, Floats, Floats]:
    """The best linear predictions, their variances, and the counts: the same, or those made non-negative top-down.

    Then each family has the counts ≥ 0 that sum to its parent's and minimise Σ (s_u − μ_u)² / t_u.
    """
    if method == "joint":
        raise ValueError('shares go with non-negative counts "top-down"; "joint" takes a mean and a variance')
    up = upward(tree, x, var, share, spread)
    kept = Up(*(a.copy() for a in up)) if method else up
    blue, variance = downward(tree, up)
    if spread.min() == 0:
        _refuse_stuck(tree, blue)
    if method is None:
        return blue, variance, blue
    return blue, variance, settled(tree, kept.z, kept.v, blue, least(tree, x, var), kept.pull)


def _refuse_stuck(tree: Tree, count: Floats) -> None:
    """Where shares are known exactly (spread 0) and figures too, there may be no counts that go with both."""
    parents = np.flatnonzero(~tree.in_level_order.is_leaf)
    sums = np.add.reduceat(count, tree.first[parents])
    size = np.add.reduceat(np.abs(count), tree.first[parents])
    off = ~(np.abs(sums - count[parents]) <= 1e-9 * np.maximum(size, np.abs(count[parents])))
    if off.any():
        place = int(parents[np.argmax(off)])
        name = tree.name(place if tree.order is None else int(tree.order[place]))
        raise ValueError(
            f"shares known exactly (spread 0) must agree with exact figures (variance 0); below {name} they do not: "
            "give the shares some spread"
        )
