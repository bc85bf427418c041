"""The error to expect under a split, before a single conversion is measured."""

from typing import NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike

from attributary import rmsre
from attributary.budget.learned import expectations
from attributary.budget.split import Split
from attributary.denoising.family_shares import predict
from attributary.denoising.passes import engine
from attributary.tree import Tree
from attributary.types import Floats


class Expected(NamedTuple):
    """Variances to expect and what they mean as RMSRE_τ."""

    variance: Floats  # of each node's estimate, in the tree's order
    levels: Floats  # RMSRE_τ of each level, all roots pooled
    tree: float  # RMSRE_τ of the tree, all roots pooled
    roots: Floats  # RMSRE_τ of each root's own tree, in level order

    @classmethod
    def of(cls, tree: Tree, count: Floats, variance: Floats, tau: float, weights: ArrayLike | None = None) -> Self:
        """What variances, or squared errors, of estimates mean."""
        return cls(
            variance,
            rmsre.levels(tree, count, variance, tau, weights=weights),
            rmsre.tree(tree, count, variance, tau, weights=weights),
            rmsre.roots(tree, count, variance, tau, weights=weights),
        )


def expected(
    tree: Tree,
    prior_count: ArrayLike,
    split: Split | ArrayLike,
    tau: float,
    *,
    weights: ArrayLike | None = None,
    denoised: bool = True,
    share: ArrayLike | None = None,
    spread: ArrayLike | None = None,
) -> Expected:
    """What to expect of a split, or of noise variances (one per node), if the counts will be as in the prior.

    With `share` and `spread`, of estimates that use them, if they hold.
    """
    noise = split.variance() if isinstance(split, Split) else np.asarray(split, np.float64)
    if noise.shape != (len(tree),):
        raise ValueError(f"one noise variance for each of the {len(tree)} nodes is needed; got shape {noise.shape}")
    count = np.broadcast_to(np.asarray(prior_count, np.float64), len(tree))
    variance = noise
    known = expectations(tree, share, spread)
    if known is not None:
        if not denoised:
            raise ValueError("shares are used in denoising; what is expected of raw figures is without them")
        variance = tree.from_level_order(predict(tree, np.zeros(len(tree)), tree.to_level_order(noise), *known)[1])
    elif denoised:
        _, in_level_order = engine(tree).blue(tree, np.zeros(len(tree)), tree.to_level_order(noise))
        variance = tree.from_level_order(in_level_order)
    return Expected.of(tree, count, variance, tau, weights)
