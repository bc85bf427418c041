"""together: nodes that err together, told by their sums.

A prior of nodes, each with a variance of its own, says that errors cancel in sums. Where a whole root has drifted they
do not, and the sums of the expectations are far from the figures of the nodes above.
"""

import numpy as np

from attributary.tree import Tree
from attributary.types import Floats


def together(tree: Tree, mean: Floats, claimed: Floats, z: Floats, v: Floats) -> Floats:
    """The claimed variances, grown until sums up to each node above are no further off than they may be.

    From the bottom to the roots: for each node, (z⇑ − Σ mean)² should be about Σ claimed + var⇑. Where it is more, all
    that is claimed below the node grows by the square of what is lacking, and so it does where nodes of its level lack
    it on average.
    """
    grown = claimed
    for i in reversed(range(tree.depth - 1)):
        nodes = tree.slice(i)
        expected, variance = _sums(tree, mean, claimed, i), _sums(tree, None, grown, i)
        judge = (variance > 0) & (variance < np.inf) & (v[nodes] < np.inf)
        if not judge.any():
            continue
        off = np.where(judge, (z[nodes] - expected) ** 2 - v[nodes], 0.0)
        own = np.where(judge, off / np.where(judge, variance, 1.0), 0.0)
        weight = np.where(judge, 1.0 / np.where(judge, variance + v[nodes], 1.0) ** 2, 0.0)
        mean_factor = float(np.dot(weight, off) / np.dot(weight, np.where(judge, variance, 0.0)))
        factor = np.maximum(own, max(mean_factor, 1.0)) ** 2  # what was wrong once is doubted more than that
        grown = grown * tree.in_level_order.hand_down(factor, i, above=1.0)
    return grown


def _sums(tree: Tree, mean: Floats | None, claimed: Floats, level: int) -> Floats:
    """For each node of a level, the sum of means (or of claimed variances) of the nodes below that claim something."""
    some = claimed < np.inf
    values = np.where(some, claimed if mean is None else mean, 0.0)
    for j in reversed(range(level, tree.depth - 1)):
        above, below = tree.slice(j), tree.slice(j + 1)
        at = tree.family[below] - above.start
        values[above] += np.bincount(at, values[below], above.stop - above.start)
    found: Floats = values[tree.slice(level)]
    return found
