"""Copies: a tree several times over, so that one pass denoises several draws."""

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from attributary.tree import Tree
from attributary.types import Floats

BATCH = 250_000  # nodes at a time: compiled passes pay, and one thread is enough


@dataclass(frozen=True, eq=False)
class Copies:
    """The forest of `number` copies of a tree; level by level, one copy after the other."""

    one: Tree
    forest: Tree
    number: int

    @classmethod
    def of(cls, tree: Tree, number: int) -> Self:
        """So many copies of a tree that is in level order."""
        if number == 1:
            return cls(tree, tree, 1)
        offsets = tree.offsets * number
        first = [np.zeros(0, np.int64)]
        for i in range(tree.depth):
            here = tree.slice(i)
            size = int(tree.offsets[i + 2] - tree.offsets[i + 1]) if i + 1 < tree.depth else 0
            start = tree.first[here].astype(np.int64) - tree.offsets[i + 1]
            copy = np.arange(number)[:, None] * size
            first.append((offsets[i + 1] + copy + start).ravel())
        flat = np.concatenate([*first, offsets[-1:]]).astype(np.uint32)
        parent = np.repeat(np.arange(len(flat) - 1, dtype=np.int32), np.diff(flat))
        roots = np.full(int(flat[0]), -1, np.int32)
        return cls(tree, Tree(np.concatenate([roots, parent]), flat, offsets), number)

    def spread(self, values: NDArray[Any]) -> NDArray[Any]:
        """Values of the tree, the same for all copies."""
        if self.number == 1:
            return values
        return np.concatenate([np.tile(values[self.one.slice(i)], self.number) for i in range(self.one.depth)])

    def apart(self, values: Floats) -> list[Floats]:
        """The values of each copy."""
        parts = [values[self.forest.slice(i)].reshape(self.number, -1) for i in range(self.one.depth)]
        return list(np.concatenate(parts, axis=1))

    def joined(self, each: list[Floats]) -> Floats:
        """The values of all copies, from those of each."""
        rows = np.stack(each)
        return np.concatenate([rows[:, self.one.slice(i)].ravel() for i in range(self.one.depth)])

    def levels(self, values: Floats) -> Floats:
        """The sum of values over each level of each copy: (copies, levels)."""
        parts = [values[self.forest.slice(i)].reshape(self.number, -1).sum(axis=1) for i in range(self.one.depth)]
        return np.stack(parts, axis=1)

    def nodes(self, values: Floats) -> Floats:
        """The sum of values over the copies, node by node."""
        if self.number == 1:
            return values
        parts = [values[self.forest.slice(i)].reshape(self.number, -1).sum(axis=0) for i in range(self.one.depth)]
        return np.concatenate(parts)


def batches(nodes: int, draws: int) -> list[int]:
    """How many draws to make at a time, for a tree of so many nodes; it depends on nothing else."""
    most = max(1, min(draws, BATCH // nodes))
    return [most] * (draws // most) + ([draws % most] if draws % most else [])
