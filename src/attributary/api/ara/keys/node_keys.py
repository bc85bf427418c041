"""node_keys: the keys of all nodes of a tree, and those to query. A key is a row of two uint64: high, low."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from attributary.api.ara.keys.key_layout import KeyField, KeyLayout, layout
from attributary.plan import Plan
from attributary.tree import Tree
from attributary.types import Keys

HALF = (1 << 64) - 1


def tree_keys(layout: KeyLayout, tree: Tree, measure: int = 0) -> Keys:
    """The key of each node, in the tree's order, for one of the measures."""
    if tree.level_names != layout.levels:
        raise ValueError(f"the keys' levels are {', '.join(layout.levels)}; the tree has {', '.join(tree.level_names)}")
    pieces = [_pieces(field, labels) for field, labels in zip(layout.fields, tree.labels, strict=True)]
    keys = np.empty((len(tree), 2), np.uint64)
    for half in (0, 1):  # each for itself, as long rows of numbers go faster than pairs
        made = np.zeros(1, np.uint64)
        for i in range(tree.depth):
            level = tree.slice(i)
            above = tree.slice(i - 1).start if i else -1
            made = made[tree.family[level] - above]
            if i >= layout.total:
                j = i - layout.total
                made |= pieces[j][:, half][tree.labels[j].indices.to_numpy()]
            keys[level, half] = made | row(layout.mark | layout.tag(i, measure))[half]
    in_order: Keys = tree.from_level_order(keys)
    return in_order


def row(key: int) -> Keys:
    """A key as its two halves."""
    return np.array([key >> 64, key & HALF], np.uint64)


def whole(keys: Keys) -> list[int]:
    """Keys as whole numbers."""
    return [(high << 64) | low for high, low in keys.tolist()]


def _pieces(field: KeyField, labels: Any) -> Keys:
    """The part of a key that each entry of a level's dictionary is; entries that no node has are left 0."""
    import pyarrow as pa

    used = np.zeros(len(labels.dictionary), bool)
    used[labels.indices.to_numpy()] = True
    names = labels.dictionary.cast(pa.string()).filter(pa.array(used)).to_pylist()
    code = np.zeros(len(used), np.uint64)
    code[used] = field.code.all(names)
    return _shifted(code, field.shift)


def _shifted(code: NDArray[np.uint64], shift: int) -> Keys:
    """Codes of at most 64 bits, so many bits up in 128."""
    up, down = np.uint64(shift % 64), np.uint64((64 - shift) % 64)
    if shift >= 64:
        return np.column_stack([code << up, np.zeros_like(code)])
    return np.column_stack([code >> down if shift else np.zeros_like(code), code << up])


def domain(plan: Plan, tree: Tree) -> Keys:
    """The keys to query, in the tree's order: those of all nodes that conversions contribute to; by measure."""
    keys = layout(plan)
    each = enumerate(plan.by_measure)
    return np.concatenate([tree_keys(keys, tree, k)[has_key(part.plan, tree)] for k, part in each])


def has_key(plan: Plan, tree: Tree) -> NDArray[np.bool_]:
    """The nodes that conversions contribute to."""
    return plan.contribution(tree) > 0
