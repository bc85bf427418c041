"""How the errors of nodes become those of levels and of the tree, and the exact errors of linear methods."""

from dataclasses import dataclass
from typing import Literal, NamedTuple, Self, get_args

import numpy as np

from attributary import rmsre
from attributary.errors import InputError
from attributary.tree import Tree
from attributary.types import Floats

Pool = Literal["nodes", "roots"]
SMALL = 0.1  # an RMSRE to be below


@dataclass(frozen=True, eq=False)
class Pooling:
    """RMSRE_τ of a tree in level order (the paper's section 3.2).

    The paper leaves open how the roots of a forest are pooled. "nodes": all nodes of a level count alike, whatever
    their root, as in `rmsre.tree`. "roots": all roots count alike, whatever their size, and the tree's error is the
    root mean square of the roots' own.
    """

    tree: Tree
    weight: Floats  # of each node's squared error in its level's; 1 for each level together
    relative: Floats  # what its error is multiplied by: 1 / max(τ, c)

    @classmethod
    def of(
        cls, tree: Tree, count: Floats, tau: float, pool: Pool = "nodes", metric: rmsre.Metric = rmsre.weights
    ) -> Self:
        if pool not in get_args(Pool):
            raise InputError(f"errors are pooled by {' or by '.join(get_args(Pool))}; got {pool!r}")
        if not 0 < tau < np.inf:
            raise InputError(f"tau is a positive number; got {tau}")
        sizes = np.diff(tree.offsets)
        level = np.repeat(np.arange(tree.depth), sizes)
        if pool == "nodes":
            weight = np.repeat(1.0 / sizes, sizes)
        else:
            cell = tree.root.astype(np.int64) * tree.depth + level
            each = np.bincount(cell, minlength=int(tree.first[0]) * tree.depth)
            roots = (each.reshape(-1, tree.depth) > 0).sum(axis=0)
            weight = 1.0 / each[cell] / roots[level]
        return cls(tree, weight, np.sqrt(metric(count, tau)))

    def levels(self, squared: Floats) -> Floats:
        """The squared error of each level, from the nodes' squared errors relative to max(τ, c)."""
        total: Floats = np.add.reduceat(squared * self.weight, self.tree.offsets[:-1])
        return total

    def below(self, squared: Floats) -> Floats:
        """The share of each level's nodes whose RMSRE is below 0.1, and of all nodes."""
        small = (squared < SMALL**2).astype(np.float64)
        each: Floats = np.add.reduceat(small, self.tree.offsets[:-1]) / np.diff(self.tree.offsets)
        return np.append(each, small.mean())


class PooledErrors(NamedTuple):
    """Of each level and, last, of the tree."""

    rmsre: Floats
    standard_error: Floats  # nan where the error is exact
    below: Floats  # the share of nodes whose own RMSRE is below 0.1
    coverage: Floats | None = None  # the share of nodes whose interval holds the true count; last, of all nodes
    coverage_error: Floats | None = None  # its standard error
    draws: Floats | None = None  # the squared error of each draw: (draws, levels and tree)


def with_tree(levels: Floats) -> Floats:
    """Squared errors of levels, along the last axis, and behind them the tree's, which is their mean."""
    return np.concatenate([levels, levels.mean(axis=-1, keepdims=True)], axis=-1)


def exact(measure: Pooling, variance: Floats, bias: Floats | float = 0.0) -> PooledErrors:
    """The errors of estimates with these variances, in level order; unbiased but for what limits cut off."""
    squared = (variance + np.square(bias)) * measure.relative**2
    rmsre: Floats = np.sqrt(with_tree(measure.levels(squared)))
    return PooledErrors(rmsre, np.full(len(rmsre), np.nan), measure.below(squared))
