"""Cut: the nodes that a page has room for, and what is left out."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from attributary.tree import Tree
from attributary.types import Bools


class Cut(NamedTuple):
    keep: Bools  # of each node in level order; a kept node's parent is kept
    left: NDArray[np.int64]  # how many children of each kept node are not

    @property
    def nodes(self) -> int:
        return int(self.keep.sum())


def cut(tree: Tree, count: NDArray[np.float64], marked: Bools, most: int) -> Cut:
    """The nodes to show: those marked first, then the largest counts, with all that stands above them; `most` in all.

    Arrays are in level order. Where even the roots are too many, the largest of them are kept.
    """
    if most < 1:
        raise ValueError(f"a page shows at least one node; got {most}")
    nodes = len(tree)
    if nodes <= most:
        return Cut(np.ones(nodes, bool), np.zeros(nodes, np.int64))
    level = np.repeat(np.arange(tree.depth), np.diff(tree.offsets))
    rank = np.lexsort((level, -count, ~marked))
    low, high = 0, most  # how many of the ranked nodes fit together with what stands above them
    while low < high:
        middle = (low + high + 1) // 2
        if int(_closed(tree, rank[:middle]).sum()) <= most:
            low = middle
        else:
            high = middle - 1
    keep = _closed(tree, rank[:low])
    children = np.diff(tree.first).astype(np.int64)
    kept = np.bincount(tree.family[keep][tree.family[keep] >= 0], minlength=nodes)
    return Cut(keep, np.where(keep, children - kept, 0)[keep])


def _closed(tree: Tree, chosen: NDArray[np.int64]) -> Bools:
    """The chosen nodes and all that stands above them."""
    keep = np.zeros(len(tree), bool)
    keep[chosen] = True
    for i in range(tree.depth - 1, 0, -1):
        here = tree.slice(i)
        keep[tree.family[here][keep[here]]] = True
    return keep
