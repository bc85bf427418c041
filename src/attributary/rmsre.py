"""rmsre: the root mean squared relative error at threshold τ of a node, a level, a tree (the paper's section 3.2).

A node's error is √Var(ĉ) / max(τ, c). A level's is the root mean square of its nodes', a tree's that of its levels'.
In a forest, nodes of all roots are pooled level by level; `roots` gives each root's own tree error.

`variance` is the mean squared error of each estimate. That of a biased one is its variance + bias²; of one draw whose
true counts are known, the squared error:

    >>> rmsre.tree(tree, count, (estimate - count) ** 2, tau=10)
"""

from collections.abc import Callable
from typing import NamedTuple, Self, TypedDict, Unpack

import numpy as np
from numpy.typing import ArrayLike, NDArray

from attributary.tree import Tree
from attributary.types import Floats

TAU = 10.0  # the default: below this count, errors are relative to it
Metric = Callable[[Floats, float], Floats]  # (count, tau) → the weight of each node's squared error


def weights(count: ArrayLike, tau: float) -> Floats:
    """The weight of a node's squared error, 1 / max(τ, c)²: the metric that everything here minimises and reports."""
    scale = np.maximum(tau, np.asarray(count, np.float64))
    weight: Floats = 1.0 / (scale * scale)
    return weight


METRICS: dict[str, Metric] = {"rmsre": weights}  # by the names that a spec may give


def relative(count: ArrayLike, variance: ArrayLike, tau: float, metric: Metric = weights) -> Floats:
    """The error of each node under a metric: √(variance · weight), which is √Var(ĉ) / max(τ, c)."""
    with np.errstate(divide="ignore", over="ignore"):
        error: Floats = np.sqrt(np.asarray(variance, np.float64) * metric(np.asarray(count, np.float64), tau))
    return error


def nodes(count: ArrayLike, variance: ArrayLike, tau: float, metric: Metric = weights) -> Floats:
    """RMSRE_τ of each node, from its true (or prior) count and the mean squared error of its estimate.

    Of an unbiased estimate that is its variance; of a biased one, variance + bias², or (estimate − count)² of a draw.
    """
    if not 0 < tau < np.inf:
        raise ValueError(f"tau is a positive number; got {tau}")
    c, v = np.asarray(count, np.float64), np.asarray(variance, np.float64)
    if not (v >= 0).all():
        raise ValueError(f"variances are 0 or more; got {v[~(v >= 0)].flat[0]}")
    if np.isnan(c).any():
        raise ValueError("counts are numbers; got nan")
    return relative(c, v, tau, metric)


class Pooled(TypedDict, total=False):
    """What the errors of levels and trees take besides counts, variances and τ."""

    weights: ArrayLike | None  # one per node, in place of the paper's 1/|L_i|; a level without weight has no error
    metric: Metric


class Errors(NamedTuple):
    """Variances of estimates, or their squared errors, and what they mean as RMSRE_τ."""

    variance: Floats  # of each node's estimate, in the tree's order
    levels: Floats  # RMSRE_τ of each level, all roots pooled
    tree: float  # of the tree, all roots pooled
    roots: Floats  # of each root's own tree, in level order
    nodes: Floats  # of each node

    @classmethod
    def of(
        cls,
        tree: Tree,
        count: ArrayLike,
        variance: ArrayLike,
        tau: float,
        weights: ArrayLike | None = None,
        metric: Metric = weights,
    ) -> Self:
        """All of them at once."""
        error, weight = _per_node(tree, count, variance, tau, weights, metric)
        squared, depth, number = error**2, tree.depth, int(tree.first[0])
        of_levels = _means(squared, weight, tree.level, depth)
        of_roots = _means(squared, weight, tree.root * depth + tree.level, number * depth).reshape(number, depth)
        present = ~np.isnan(of_roots)
        with np.errstate(invalid="ignore"):
            of_roots = np.sqrt(np.where(present, of_roots, 0).sum(axis=1) / present.sum(axis=1))
        whole = float(np.sqrt(np.nanmean(of_levels)))
        return cls(np.asarray(variance, np.float64), np.sqrt(of_levels), whole, of_roots, error)


def errors(tree: Tree, count: ArrayLike, variance: ArrayLike, tau: float, **pooled: Unpack[Pooled]) -> Errors:
    """The errors of nodes, levels, roots and the tree at once."""
    return Errors.of(tree, count, variance, tau, **pooled)


def levels(tree: Tree, count: ArrayLike, variance: ArrayLike, tau: float, **pooled: Unpack[Pooled]) -> Floats:
    """RMSRE_τ of each level; nan for one without weight."""
    error, weight = _per_node(tree, count, variance, tau, **pooled)
    return np.sqrt(_means(error**2, weight, tree.level, tree.depth))


def tree(tree: Tree, count: ArrayLike, variance: ArrayLike, tau: float, **pooled: Unpack[Pooled]) -> float:
    """RMSRE_τ(T): the root mean square over the levels that have weight."""
    error, weight = _per_node(tree, count, variance, tau, **pooled)
    return float(np.sqrt(np.nanmean(_means(error**2, weight, tree.level, tree.depth))))


def roots(tree: Tree, count: ArrayLike, variance: ArrayLike, tau: float, **pooled: Unpack[Pooled]) -> Floats:
    """RMSRE_τ of each root's own tree, in level order; its levels are those that it has."""
    return errors(tree, count, variance, tau, **pooled).roots


def _per_node(
    tree: Tree,
    count: ArrayLike,
    variance: ArrayLike,
    tau: float,
    weights: ArrayLike | None = None,
    metric: Metric = weights,
) -> tuple[Floats, Floats]:
    error = np.broadcast_to(nodes(count, variance, tau, metric), len(tree))
    return error, checked_weights(tree, tree.number if weights is None else weights)


def checked_weights(tree: Tree, weights: ArrayLike) -> Floats:
    """Weights of the nodes as numbers; whatever makes no sense is refused."""
    weight: Floats = np.asarray(weights, np.float64)
    if weight.shape != (len(tree),) or not (weight >= 0).all() or not 0 < weight.sum() < np.inf:
        raise ValueError(
            f"weights are one number, 0 or more, for each of the {len(tree)} nodes, and not all 0; "
            f"got {weight.size} numbers that sum to {weight.sum()}"
        )
    return weight


def _means(squared: Floats, weight: Floats, group: NDArray[np.integer], groups: int) -> Floats:
    """The weighted mean of each group; nan for a group without weight."""
    mass = np.bincount(group, weight, groups)
    with np.errstate(invalid="ignore"):
        weighted = np.where(weight > 0, squared, 0.0) * weight  # no weight, no say: not even ∞'s
        mean: Floats = np.bincount(group, weighted, groups) / mass
    return mean
