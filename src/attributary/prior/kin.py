"""Kin: which nodes of a level are alike: those of one label, and among them the cousins under one root."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from attributary.tree import Family, Tree

Codes = NDArray[np.int64]

DENSE = 4  # numbers for each node, up to which groups without members cost less than sorting them out


class Kin(NamedTuple):
    """The families under the parents of a level, and the groups that their members belong to."""

    family: Family
    label: Codes  # of each child: nodes with the same label
    cousins: Codes  # and under the same root


def label_codes(tree: Tree) -> NDArray[np.int32]:
    """A number for the label of each node, in level order, equal for equal labels of a level; 0 without labels."""
    codes = np.zeros(len(tree), np.int32)
    for j, labels in enumerate(tree.labels):
        if j + tree.total < tree.depth:
            codes[tree.slice(j + tree.total)] = labels.indices.to_numpy()
    return codes


def roots(tree: Tree) -> Codes:
    """The root that each node stands under, in level order; under a total, a node below it."""
    level = int(tree.total)
    return tree.in_level_order.ancestor(level).astype(np.int64) + int(tree.offsets[level])


def kin(tree: Tree, label: NDArray[np.int32]) -> list[Kin]:
    """The kin of each level below the roots; `label` in level order."""
    root, found = roots(tree), []
    for i in range(1, tree.depth):
        nodes = tree.slice(i)
        codes = label[nodes].astype(np.int64)
        pairs = root[nodes] * (int(codes.max()) + 1) + codes
        few = int(pairs.max()) < DENSE * len(pairs)
        found.append(Kin(Family(tree, i - 1), codes, pairs if few else np.unique(pairs, return_inverse=True)[1]))
    return found
