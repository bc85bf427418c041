"""nodes: contributions node by node, whole numbers on every path."""

import numpy as np

from attributary.spec import Spec
from attributary.tree import Tree
from attributary.types import Ints


def down(tree: Tree, own: Ints, default: Ints, spec: Spec) -> Ints:
    """Contributions in level order that stay within the spec's budget on every path, and at its unknown levels.

    A node has its own; one without (-1) takes of what is left on its path what the default split would. A leaf takes
    all that is left, unless it is to have nothing.
    """
    contribution, budget, unknown = own.copy(), spec.budget, spec.first_unknown
    left, spent = np.full(len(tree), budget), np.zeros(len(tree), np.int64)  # on the path; at unknown levels
    after = np.cumsum(default[::-1])[::-1]
    leaf = tree.in_level_order.is_leaf
    for i in range(tree.depth):
        level = tree.slice(i)
        up = tree.family[level]
        if i:
            left[level] = left[up] - contribution[up]
            spent[level] = spent[up] + (contribution[up] if i > unknown else 0)
        room = np.minimum(left[level], spec.unknown_budget - spent[level]) if i >= unknown else left[level]
        mine = np.where(own[level] >= 0, own[level], left[level] * int(default[i]) // max(int(after[i]), 1))
        mine = np.where(leaf[level] & (mine > 0), room, mine)
        contribution[level] = np.minimum(mine, room)
    return contribution


def paths(tree: Tree, contribution: Ints, unknown: int) -> tuple[Ints, Ints]:
    """What is contributed on the way down to each node, in all and at unknown levels; in level order."""
    below = np.where(np.arange(len(tree)) < tree.offsets[min(unknown, tree.depth)], 0, contribution)
    return tree.in_level_order.sum_down(contribution), tree.in_level_order.sum_down(below)
