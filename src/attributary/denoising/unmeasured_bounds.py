"""unmeasured_bounds: counts that were not measured are 0 at least, and at most what the node above leaves them."""

import numpy as np

from attributary.tree import Family, Tree
from attributary.types import Floats


def unmeasured_bounds(tree: Tree, blue: Floats, variance: Floats, reach: float) -> tuple[Floats, Floats]:
    """In level order, bounds of the counts that have no variance (inf), `reach` standard deviations away from others'.

    Below a node that has several of them, each is at most what is left above the others; a sum is at least that of its
    known parts. Their errors are independent, since what is unknown between them binds none of them to another.
    """
    wide = variance == np.inf
    low, high, known = np.where(wide, 0.0, blue), np.where(wide, np.inf, blue), np.where(wide, 0.0, variance)
    families = [Family(tree, level) for level in range(tree.depth - 1)]
    for family in reversed(families):
        c, here = family.children, wide[family.parent]
        half, sums = reach * np.sqrt(family.sum(known[c])), family.sum(np.where(wide[c], 0.0, blue[c]))
        least = np.maximum(sums - half, 0) + family.sum(np.where(wide[c], low[c], 0.0))
        low[family.parent[here]], high[family.parent[here]] = least[here], (family.sum(high[c]) + half)[here]
    for family in families:
        p, c = family.parent, family.children
        left = high[p] - family.sum(low[c]) + reach * np.sqrt(known[p] + family.sum(known[c]))
        room = np.maximum(family.spread(left), 0) + low[c]
        high[c] = np.where(wide[c], np.minimum(high[c], room), high[c])
    return low, high
