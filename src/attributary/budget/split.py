"""Split: how much of the privacy budget each level (of each root) or each node gets, and the error to expect of it."""

from dataclasses import dataclass
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike

from attributary import rmsre
from attributary.budget.problem import expectations
from attributary.denoising.passes import engine
from attributary.denoising.prior import predict
from attributary.noise import NoiseModel, model
from attributary.tree import Tree
from attributary.types import Floats


@dataclass(frozen=True, eq=False)
class Split:
    """A budget for every node such that no path from a root to a leaf spends more than `budget`.

    By level, `epsilon` is (roots, levels), with roots in level order. With a `total` above the roots, common to all,
    its rows are the nodes of level 1 and its columns the levels from 1 on. Or it is one number per node.
    """

    tree: Tree
    epsilon: Floats
    budget: float
    noise: str | NoiseModel = "api"
    l1: int = 65536
    total: float | None = None

    def __post_init__(self) -> None:
        top = int(self.total is not None)
        heads = int(self.tree.offsets[1 + top] - self.tree.offsets[top])
        shapes = ((len(self.tree),), (heads, self.tree.depth - top))
        if self.epsilon.shape not in shapes:
            raise ValueError(
                f"a split is of shape {shapes[1]}, by level, or {shapes[0]}, by node; got {self.epsilon.shape}"
            )
        spent = max(float(self._path().max()), 0.0)
        if not (self.epsilon >= 0).all() or not spent <= self.budget * (1 + 1e-9):
            raise ValueError(
                f"budgets are 0 or more, and no path spends more than {self.budget}; got {self.epsilon.min()} as the "
                f"least, and a path that spends {spent}"
            )

    @property
    def by_node(self) -> bool:
        return self.epsilon.ndim == 1

    def nodes(self) -> Floats:
        """The budget of each node, in the tree's order; a leaf above the last level takes what is below it, too."""
        if self.by_node:
            return self.epsilon
        return self.tree.spread(self._rows(), int(self.total is not None), rest=True)

    def variance(self) -> Floats:
        """The noise variance of each node's figure, in the tree's order; inf for a node without budget."""
        return model(self.noise, self.budget, self.l1).variance(self.nodes())

    def _rows(self) -> Floats:
        """By level, with a common total in front of every row."""
        if self.total is None:
            return self.epsilon
        return np.column_stack([np.full(len(self.epsilon), self.total), self.epsilon])

    def _path(self) -> Floats:
        """What is spent down to each node, or by each row."""
        if not self.by_node:
            spent: Floats = self._rows().sum(axis=1)
            return spent
        return self.tree.sum_down(self.epsilon)


class Expected(NamedTuple):
    """Variances to expect and what they mean as RMSRE_τ."""

    variance: Floats  # of each node's estimate, in the tree's order
    levels: Floats  # RMSRE_τ of each level, all roots pooled
    tree: float  # RMSRE_τ of the tree, all roots pooled
    roots: Floats  # RMSRE_τ of each root's own tree, in level order
    nodes: Floats  # RMSRE_τ of each node

    @classmethod
    def of(
        cls,
        tree: Tree,
        count: Floats,
        variance: Floats,
        tau: float,
        weights: ArrayLike | None = None,
        metric: rmsre.Metric = rmsre.weights,
    ) -> Self:
        """What variances, or squared errors, of estimates mean."""
        levels = rmsre.levels(tree, count, variance, tau, weights=weights, metric=metric)
        whole = rmsre.tree(tree, count, variance, tau, weights=weights, metric=metric)
        roots = rmsre.roots(tree, count, variance, tau, weights=weights, metric=metric)
        return cls(variance, levels, whole, roots, rmsre.nodes(count, variance, tau, metric))


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
    metric: rmsre.Metric = rmsre.weights,
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
    return Expected.of(tree, count, variance, tau, weights, metric)
