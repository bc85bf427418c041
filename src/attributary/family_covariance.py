"""FamilyCovariance: figures of siblings whose noise is correlated, such as the answers of one group of people.

For the passes of Algorithm 2, a family of leaves whose figures z have covariance Σ is one of independent figures z with
variances r = Σ1, its row sums: what it says of its parent, Σ z with variance Σ r = 1'Σ1, is the same, and so is each
child's share k = r / Σ r of what the parent is corrected by. Counts are then the best linear ones, exactly; only the
children's variances differ, and are diag(Σ) − k·r + k²·v̂ar of the parent. A family that knows its sum has r = 0: its
parent is then known exactly.
"""

from dataclasses import dataclass

import numpy as np

from attributary.tree import Tree
from attributary.types import Bools, Floats, Ints

ROUNDING = 1e-11  # of a row's size: a sum below it is 0
TINY = 1e-13  # of the families' variance: what stands for 0 where an exact figure joins


@dataclass(frozen=True, eq=False)
class FamilyCovariance:
    """The covariance of the figures of families of one size, all of them leaves."""

    parent: Ints  # of each family
    nodes: Ints  # (families, size): all of its children
    covariance: Floats  # (families, size, size)

    @property
    def variance(self) -> Floats:
        return np.diagonal(self.covariance, axis1=1, axis2=2)

    @property
    def rows(self) -> Floats:
        """The row sums r."""
        rows: Floats = self.covariance.sum(axis=2)
        rows[np.abs(rows) <= ROUNDING * np.abs(self.covariance).sum(axis=2)] = 0.0
        return rows

    def combine(self, figures: Floats, noisy: Floats, variance: Floats) -> "tuple[Floats, FamilyCovariance]":
        """Combined with independent figures of the same nodes: inf is not measured, 0 is exact.

        (Σ⁻¹ + V⁻¹)⁻¹ = B·(B + Σ·A)⁻¹·Σ with V = B·A⁻¹, which neither ∞ nor 0 nor a known sum stops.
        """
        unit = np.maximum(self.variance.mean(axis=1, keepdims=True), np.finfo(float).tiny)
        with np.errstate(invalid="ignore"):
            b = np.where(variance == np.inf, 1.0, np.maximum(variance / (variance + unit), TINY))
        a = np.where(variance == np.inf, 0.0, 1.0 / (variance + unit))
        gain = b[:, :, None] * np.linalg.inv(np.eye(figures.shape[1]) * b[:, :, None] + self.covariance * a[:, None, :])
        start = np.where(variance == np.inf, 0.0, noisy)
        value = start + np.where(variance > 0, np.einsum("gij,gj->gi", gain, figures - start), 0.0)
        both = gain @ self.covariance
        both *= (variance > 0)[:, :, None] & (variance > 0)[:, None, :]
        return value, self.of(self.parent, self.nodes, (both + np.swapaxes(both, 1, 2)) / 2)

    def plus(self, variance: Floats, families: "tuple[FamilyCovariance, ...]") -> "FamilyCovariance":
        """The families after adding figures with these variances and families."""
        same = [each.covariance for each in families if np.array_equal(self.nodes, each.nodes)]
        if not same and not np.isfinite(variance[self.nodes]).all():
            raise ValueError("figures with correlated noise are added to figures that are all measured; some are not")
        more = same[0] if same else np.eye(self.nodes.shape[1]) * variance[self.nodes][:, None, :]
        return self.of(self.parent, self.nodes, self.covariance + more)

    @classmethod
    def of(cls, parent: Ints, nodes: Ints, covariance: Floats) -> "FamilyCovariance":
        """The families; where a row sum is negative, which the passes cannot take, a larger diagonal covariance."""
        made = cls(parent, nodes, covariance)
        below: Bools = np.any(made.rows < 0, axis=1, keepdims=True)
        if not below.any():
            return made
        bound = np.eye(nodes.shape[1]) * np.abs(covariance).sum(axis=2)[:, None, :]
        return cls(parent, nodes, np.where(below[:, :, None], bound, covariance))

    def put_independent(self, noisy: Floats, variance: Floats) -> None:
        """Puts independent figures that the passes take into the place of these, for all nodes of a tree."""
        rows = self.rows
        known = np.flatnonzero(np.abs(rows).sum(axis=1) == 0)  # the sum
        variance[self.nodes] = rows
        variance[self.nodes[known]] = self.variance[known]
        variance[self.parent[known]] = 0.0
        noisy[self.parent[known]] = noisy[self.nodes[known]].sum(axis=1)

    def estimated(self, parent: Floats) -> Floats:
        """The variance of each child's estimate, from that of its parent's."""
        rows, total = self.rows, self.rows.sum(axis=1, keepdims=True)
        share = rows / np.where(total > 0, total, np.inf)
        moved = np.where(share > 0, share**2 * np.where(share > 0, parent[:, None], 0.0), 0.0)
        return np.maximum(self.variance - share * rows, 0.0) + moved

    def quadratic(self, weight: Floats) -> Floats:
        """Each child's part of w'Σw, for the weights of all nodes of a tree, a child's relative to its parent's."""
        here = weight[self.nodes] - weight[self.parent][:, None]
        parts: Floats = here * np.einsum("gij,gj->gi", self.covariance, here)
        return parts


def leaf_families(tree: Tree) -> list[tuple[Ints, Ints]]:
    """The parents of leaves and their children, (families,) and (families, size), one pair for each size of family."""
    first = tree.first.astype(np.int64)
    size, leaf = np.diff(first), tree.in_level_order.is_leaf
    parents = np.flatnonzero(size)
    leaves = np.add.reduceat(leaf.astype(np.int64), first[parents]) if parents.size else parents
    mixed = (leaves > 0) & (leaves < size[parents])
    if mixed.any() or leaf[tree.slice(0)].any():
        node = parents[np.argmax(mixed)] if mixed.any() else np.argmax(leaf)
        raise ValueError(
            "states are the leaves of a group, and a group has no other children; "
            f"{tree.name_at(int(node))} {'has both' if mixed.any() else 'is a leaf without a group above it'}"
        )
    of_size = {k: parents[(leaves > 0) & (size[parents] == k)] for k in np.unique(size[parents[leaves > 0]]).tolist()}
    return [(tree.at(here), tree.at(first[here][:, None] + np.arange(k))) for k, here in of_size.items()]
