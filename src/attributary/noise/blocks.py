"""blocks: noise drawn block by block, which hangs on a seed or secret and the block alone.

Whoever draws a block, in whatever order and however often, draws the same noise: one machine, the workers of a cluster,
and a worker that does again what a lost one did. A forest of up to LEAVES leaves is one block. Of a larger one, roots
are dealt into blocks by a hash of their labels. A root that is itself larger has blocks of its own: the nodes below it
are dealt into them, and so on down the known attributes, and the nodes above these are one more. So no other root has
a part in a root's noise, and a forest can be drawn root by root.
"""

from collections.abc import Iterator
from hashlib import blake2b, sha256, shake_256
from typing import TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from attributary.noise.discrete_laplace import Entropy
from attributary.noise.model import NoiseModel
from attributary.tree import Tree
from attributary.types import Floats, Ints

Codes: TypeAlias = NDArray[np.uint64]

LEAVES = 250_000  # of a block, about; it decides what noise a seed gives


class BlockEntropy:
    """Entropy for each block of a forest: of a seed, which is NOT private, or of a secret of 32 random bytes.

    With `only` and the `number` of blocks in all, for a tree that is part of that block, down from level `first`: nodes
    above it are of another block, and get nan.
    """

    def __init__(self, key: int | bytes, only: int | None = None, number: int | None = None, first: int = 0) -> None:
        if isinstance(key, bytes) and len(key) < 32:
            raise ValueError(f"a secret has 32 bytes or more; got {len(key)}: take os.urandom(32)")
        self.private = isinstance(key, bytes)
        self._key, self._only, self._number, self._first = key, only, number, first
        self._begun = dict[int, Entropy]()

    def bytes(self, length: int, /) -> bytes:
        """The bytes of the first block, for what has no blocks."""
        return self.block(0, np.empty(0)).bytes(length)

    def block(self, number: int, counts: Floats) -> Entropy:
        """The entropy of a block, which goes on where it was left.

        A secret's depends on the true counts, too: should they change before a block is drawn once more, its noise is
        drawn anew, since the same noise on other counts would tell their difference.
        """
        if isinstance(self._key, bytes):
            stream = self._begun.setdefault(number, SecretStream(self._key + number.to_bytes(8, "little")))
            assert isinstance(stream, SecretStream)
            stream.absorb(np.ascontiguousarray(counts, np.float64).tobytes())
            return stream
        if number not in self._begun:
            self._begun[number] = np.random.default_rng([self._key, number] if number else self._key)
        return self._begun[number]

    def measure(self, model: NoiseModel, tree: Tree, known: int, count: Floats, budget: Floats) -> Floats:
        """Noisy counts of all nodes (`NoiseModel.measure`), block by block."""
        count, budget = tree.to_level_order(count), tree.to_level_order(budget)
        place, order = in_blocks(tree, known, self._number)
        place = place if self._only is None else np.full(len(tree), self._only)
        order = order[order >= tree.offsets[self._first]]
        order, noisy = order[np.argsort(place[order], kind="stable")], np.full(len(tree), np.nan)
        for nodes in np.split(order, np.flatnonzero(np.diff(place[order])) + 1):
            entropy = self.block(int(place[nodes[0]]), count[nodes])
            noisy[nodes] = model.measure(count[nodes], budget[nodes], entropy)
        return np.asarray(tree.from_level_order(noisy))


class SecretStream:
    """Bytes that nobody can tell from random ones without the secret: SHAKE-256 of it and a counter."""

    def __init__(self, secret: bytes) -> None:
        self._state, self._number = secret, 0

    def absorb(self, data: bytes) -> None:
        """What comes from now on depends on this, too."""
        self._state = sha256(self._state + sha256(data).digest()).digest()

    def bytes(self, length: int, /) -> bytes:
        self._number += 1
        return shake_256(self._state + self._number.to_bytes(8, "little")).digest(length)


def in_blocks(tree: Tree, known: int, number: int | None = None) -> tuple[Ints, Ints]:
    """The block of each node, in level order, and an order of the nodes that does not hang on what other blocks hold.

    `known` is how many attributes are known to an impression. The order of several blocks is by level and code of the
    path; of a forest that is one block, level order.
    """
    leaves = tree.in_level_order.roll_up(np.ones(int(tree.is_leaf.sum()), np.int64))
    number = number or block_number(int(leaves[tree.slice(0)].sum()))
    place = np.zeros(len(tree), np.int64)
    if number == 1 or not known:  # without known attributes, all nodes are one family
        return place, np.arange(len(tree))
    order, was_cut = list[Ints](), np.zeros(1, bool)
    for level, path in enumerate(codes_by_level(tree)):
        here, depth = tree.slice(level), level - int(tree.total)
        up = np.maximum(tree.family[here] - (tree.offsets[level - 1] if level else 0), 0)
        cut = (leaves[here] > LEAVES) & (depth < known - 1)
        if depth < 0:
            place[here] = TOP
        elif depth == 0:
            own, first = block_number(leaves[here]), own_block(path)
            place[here] = np.where(cut, first, block_of(path, number))
        else:  # what is above a node decides, unless it is above the blocks of a large root
            own, first, cut = own[up], first[up], cut & was_cut[up]
            dealt = np.where(cut, first, first + 1 + (depth - 1) * own + block_of(path, own))
            place[here] = np.where(was_cut[up], dealt, place[tree.slice(level - 1)][up])
        was_cut = cut
        order.append(here.start + np.argsort(path, kind="stable"))
    return place, np.concatenate(order)


def codes_by_level(tree: Tree) -> Iterator[Codes]:
    """63 bits of the path of each node, level by level: the same wherever they are made."""
    path: Codes = np.zeros(1, np.uint64)
    for level in range(tree.depth):
        up = np.maximum(tree.family[tree.slice(level)] - (tree.offsets[level - 1] if level else 0), 0)
        if level >= tree.total:
            labels = tree.labels[level - int(tree.total)]
            path = path_codes(path[up], label_hashes(labels.dictionary.to_pylist())[labels.indices.to_numpy()])
        yield path


TOP = 2**62  # the block of a node above all attributes; those of large roots come after it
ROOM = 2**20  # for the blocks of a root


Number = TypeVar("Number", int, Ints)


def block_number(leaves: Number) -> Number:
    """How many blocks the roots of a forest with so many leaves are dealt into; or, of each root, the nodes below."""
    return -(-leaves // LEAVES)


def block_of(path: Codes, number: int | Ints) -> Ints:
    """The block, of so many, of nodes with these codes of their paths."""
    place: Ints = (path % np.asarray(number).astype(np.uint64)).astype(np.int64)
    return place


def own_block(root: Codes) -> Ints:
    """The first of the blocks that a root has alone, by the code of its path."""
    place: Ints = TOP + (root >> np.uint64(1)).astype(np.int64) // ROOM * ROOM
    return place


def label_hashes(labels: list[str]) -> Codes:
    """64 bits of each label, the same on every machine."""
    digests = b"".join(blake2b(label.encode(), digest_size=8).digest() for label in labels)
    return np.frombuffer(digests, "<u8").astype(np.uint64)


def path_codes(above: Codes, label: Codes) -> Codes:
    """63 bits of each path, from the code of the path above and the hash of its last label."""
    with np.errstate(over="ignore"):
        mixed = (above ^ label) * np.uint64(0x9E3779B97F4A7C15)
        mixed = (mixed ^ (mixed >> np.uint64(32))) * np.uint64(0xD6E8FEB86659FD93)
    return (mixed ^ (mixed >> np.uint64(32))) >> np.uint64(1)
