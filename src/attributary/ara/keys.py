"""keys: the keys of all nodes of a tree, and the nodes of keys. A key is a row of two uint64: high, low."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from attributary.ara.layout import Field, Layout
from attributary.tree import Tree

Keys = NDArray[np.uint64]  # (n, 2)
Ints = NDArray[np.int64]

HALF = (1 << 64) - 1
MIX = np.uint64(0x9E3779B97F4A7C15)  # odd, so that no bit of the high half is lost


def tree_keys(layout: Layout, tree: Tree) -> Keys:
    """The key of each node, in the tree's order."""
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
            keys[level, half] = made | row(layout.tag(i))[half]
    found: Keys = tree.from_level_order(keys)
    return found


def row(key: int) -> Keys:
    """A key as its two halves."""
    return np.array([key >> 64, key & HALF], np.uint64)


def whole(keys: Keys) -> list[int]:
    """Keys as whole numbers."""
    return [(high << 64) | low for high, low in keys.tolist()]


def find(keys: Keys, wanted: Keys) -> Ints:
    """Where each wanted key stands among the keys, which are different; -1 where it does not."""
    if keys.shape == wanted.shape and np.array_equal(keys, wanted):
        return np.arange(len(keys))
    found = np.full(len(wanted), -1, np.int64)
    if len(keys) == 0 or len(wanted) == 0:
        return found
    ours, theirs = _mixed(keys), _mixed(wanted)
    order, asked = np.argsort(ours), np.argsort(theirs)  # both sorted: a search then stays in the cache
    ours = ours[order]
    if (ours[1:] == ours[:-1]).any():  # two keys mixed alike; once in 10**5 trees of 10**7 nodes
        return _find_slowly(keys, wanted)
    place = order[np.minimum(np.searchsorted(ours, theirs[asked]), len(ours) - 1)]
    same = (keys[place] == wanted[asked]).all(axis=1)
    found[asked[same]] = place[same]
    return found


def _pieces(field: Field, labels: Any) -> Keys:
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


def _mixed(keys: Keys) -> NDArray[np.uint64]:
    """One number for each key; for those of 64 bits or fewer, the key itself."""
    mixed: NDArray[np.uint64] = keys[:, 1] ^ (keys[:, 0] * MIX)
    return mixed


def _find_slowly(keys: Keys, wanted: Keys) -> Ints:
    """The same for keys that mix alike."""
    both = np.concatenate([keys, wanted])
    _, number = np.unique(both, axis=0, return_inverse=True)
    number = number.reshape(-1)
    place = np.full(int(number.max()) + 1, -1, np.int64)
    place[number[: len(keys)]] = np.arange(len(keys))
    found: Ints = place[number[len(keys) :]]
    return found
