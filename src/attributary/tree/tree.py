"""Tree: a forest in level order, its labels beside it."""

from collections.abc import Collection
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from attributary.tree.level_order import level_order
from attributary.tree.paths import describe, read_paths

Values: TypeAlias = NDArray[Any]


@dataclass(frozen=True, eq=False, repr=False)
class Tree:
    """A forest of any shape: several roots, leaves at any depth, fan-outs of any size.

    Nodes are numbered as the caller numbered them; every array that goes in or comes out follows that order.
    Inside, the passes run in level order (children after parents, siblings together), which `first`, `offsets`
    and `order` describe.
    """

    parent: NDArray[np.int32]  # of each node, -1 for a root
    first: NDArray[np.uint32]  # level order: the children of node v are first[v]:first[v + 1]
    offsets: NDArray[np.int64]  # level order: level i is offsets[i]:offsets[i + 1]
    order: NDArray[np.int64] | None = None  # the caller's number of each node in level order; None where the same
    attributes: tuple[str, ...] = ()
    labels: tuple[Any, ...] = ()  # for each attribute, the labels of the nodes of its level, in level order
    total: bool = False  # a node above the first attribute

    @classmethod
    def from_parents(cls, parent: ArrayLike) -> Self:
        """The forest with these parents, -1 for a root, in any order."""
        parents = _whole(parent)
        order = level_order(parents)
        return cls(parents.astype(np.int32), order.first, order.offsets, order.order)

    @classmethod
    def from_paths(
        cls,
        table: Any,
        levels: list[str] | tuple[str, ...],
        *,
        fill: bool = False,
        totals: Collection[str] | None = (),
    ) -> Self:
        """The forest that the rows of a table name; `levels` are its path columns, top to bottom.

        The table is Arrow, pandas, polars or a dict of columns, with one row per leaf, or one per node where the
        columns below the node's level are empty: null, nan, blank, or a *. Node i is row i; nodes without a row come
        after, in level order. `totals` are labels that mark a total, as an empty cell does; others that read as one,
        such as ALL, are refused. With None, every label is taken as it is.
        """
        attributes = list(levels)
        paths = read_paths(table, attributes, fill, totals)
        number, rows = paths.row.copy(), int((paths.row >= 0).sum())
        number[number < 0] = np.arange(rows, len(number))
        parent = np.where(paths.parent < 0, -1, number[paths.parent])
        same = bool((number == np.arange(len(number))).all())
        by_number = np.empty(len(number), np.int32)
        by_number[number] = parent
        layout = level_order(paths.parent)
        return cls(
            by_number,
            layout.first,
            layout.offsets,
            None if same else number,
            tuple(attributes),
            paths.labels,
            paths.total,
        )

    def __len__(self) -> int:
        return len(self.parent)

    def __repr__(self) -> str:
        sizes = ", ".join(map(str, np.diff(self.offsets[:9]))) + (", …" if self.depth > 8 else "")
        return f"Tree({len(self):,} nodes; levels of {sizes})"

    @property
    def depth(self) -> int:
        """How many levels there are."""
        return len(self.offsets) - 1

    @property
    def level(self) -> NDArray[np.int32]:
        """The level of each node; a root's is 0."""
        return self.from_level_order(np.repeat(np.arange(self.depth, dtype=np.int32), np.diff(self.offsets)))

    @property
    def is_leaf(self) -> NDArray[np.bool_]:
        return self.from_level_order(self.first[1:] == self.first[:-1])

    @property
    def root(self) -> NDArray[np.int32]:
        """Which root each node stands under, counted from 0 in level order."""
        root = np.arange(len(self), dtype=np.int32)
        for i in range(1, self.depth):
            level = self.slice(i)
            root[level] = root[self.family[level]]
        return self.from_level_order(root)

    @property
    def level_names(self) -> tuple[str, ...]:
        """A name for each level: its attribute, or its number."""
        if not self.attributes:
            return tuple(f"level {i}" for i in range(self.depth))
        return (("total",) if self.total else ()) + self.attributes[: self.depth - self.total]

    def slice(self, level: int) -> slice:
        """A level's nodes in level order."""
        return slice(int(self.offsets[level]), int(self.offsets[level + 1]))

    @cached_property
    def family(self) -> NDArray[np.int64]:
        """Each node's parent in level order; -1 for a root."""
        roots = np.full(int(self.first[0]), -1, np.int64)
        return np.concatenate([roots, np.repeat(np.arange(len(self)), np.diff(self.first))])

    def to_level_order(self, values: Values) -> Values:
        return values if self.order is None else values[self.order]

    def from_level_order(self, values: Values) -> Values:
        if self.order is None:
            return values
        out = np.empty_like(values)
        out[self.order] = values
        return out

    def by_level(self, values: ArrayLike) -> NDArray[np.float64]:
        """One value per level, spread over the nodes."""
        per_level = np.asarray(values, np.float64)
        if per_level.shape != (self.depth,):
            raise ValueError(f"one value for each of the {self.depth} levels is needed; got {per_level.size}")
        spread: NDArray[np.float64] = self.from_level_order(np.repeat(per_level, np.diff(self.offsets)))
        return spread

    def name(self, node: int) -> str:
        """A node in words: its path, or its number where there are no labels."""
        if not self.attributes:
            return f"node {node}"
        return describe(list(self.attributes), self.path(node))

    def path(self, node: int) -> list[Any]:
        """The labels from the root down to a node."""
        place = node if self.order is None else int(np.flatnonzero(self.order == node)[0])
        labels: list[Any] = []
        while place >= 0:
            level = int(np.searchsorted(self.offsets, place, side="right")) - 1
            attribute = level - self.total
            if attribute >= 0:
                labels.append(self.labels[attribute][place - int(self.offsets[level])].as_py())
            place = int(np.searchsorted(self.first, place, side="right")) - 1
        return labels[::-1]

    def table(self) -> Any:
        """The nodes as an Arrow table: node, parent, level, and the attributes, null below the node's level."""
        import pyarrow as pa

        columns = {"node": np.arange(len(self)), "parent": self.parent, "level": self.level}
        for j, (attribute, labels) in enumerate(zip(self.attributes, self.labels, strict=True)):
            columns[attribute] = self._spread(labels, j + self.total)
        return pa.table(columns)

    def _spread(self, labels: Any, level: int) -> Any:
        """The labels of a level, handed down to the nodes below it."""
        import pyarrow as pa

        code = np.full(len(self), -1, np.int32)
        if level < self.depth:
            code[self.slice(level)] = labels.indices.to_numpy()
        for i in range(level + 1, self.depth):
            code[self.slice(i)] = code[self.family[self.slice(i)]]
        code = self.from_level_order(code)
        return pa.DictionaryArray.from_arrays(pa.array(code, mask=code < 0), labels.dictionary)


def _whole(parent: ArrayLike) -> NDArray[np.int64]:
    given = np.asarray(parent)
    if given.ndim != 1 or (given.size and given.dtype.kind not in "iu"):
        raise ValueError(f"parents are whole numbers in one dimension; got {given.dtype} of shape {given.shape}")
    return given.astype(np.int64, copy=False)
