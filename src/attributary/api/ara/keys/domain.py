"""domain: the keys that a service is asked for."""

import numpy as np
from numpy.typing import NDArray

from attributary.api.ara.keys.layout import layout
from attributary.api.ara.keys.nodes import tree_keys
from attributary.plan import Plan
from attributary.plan.parts import parts
from attributary.tree import Tree
from attributary.types import Keys


def domain(plan: Plan, tree: Tree) -> Keys:
    """The keys to query, in the tree's order: those of all nodes that conversions contribute to; by measure."""
    keys = layout(plan)
    each = enumerate(parts(plan))
    return np.concatenate([tree_keys(keys, tree, k)[has_key(part.plan, tree)] for k, part in each])


def has_key(plan: Plan, tree: Tree) -> NDArray[np.bool_]:
    """The nodes that conversions contribute to."""
    return plan.contribution(tree) > 0
