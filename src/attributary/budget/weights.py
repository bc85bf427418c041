"""The weight w_v of each node's variance in its root's tree error, added up over the members of each class."""

import numpy as np

from attributary.budget.classes import Classes
from attributary.tree import Tree
from attributary.types import Floats


def class_weights(tree: Tree, forest: Classes, count: Floats, tau: float, weights: Floats | None) -> Floats:
    """w_v = 1/((d+1) · |L_i| · max(τ, c_v)²), with d + 1 and |L_i| of the root's own tree (the paper's section 3.2).

    `weights` replace 1/|L_i|, normalised within each level; a level without weight does not count. As in `rmsre`.
    Counts and weights are in level order.
    """
    score = np.maximum(count, tau)
    np.multiply(score, score, out=score)
    np.divide(1.0 if weights is None else weights, score, out=score)
    root = forest.under(0)
    cell = root * forest.depth + forest.level
    mass = np.bincount(cell, forest.add_up(tree, weights), int(forest.offsets[1]) * forest.depth)
    levels = (mass.reshape(-1, forest.depth) > 0).sum(axis=1)
    norm = mass[cell] * levels[root]
    share: Floats = np.divide(forest.add_up(tree, score), norm, out=np.zeros(len(forest)), where=norm > 0)
    return share
