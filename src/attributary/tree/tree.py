"""Tree: a forest in level order, its labels beside it."""

import sys
from collections.abc import Collection, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from attributary.kernel import IN_PYTHON, compiled, memory_threads, worth_compiling
from attributary.tree.paths import describe, read_paths
from attributary.types import Arrow, Bools, Cells, Floats, Frame, Ints, Values


@dataclass(frozen=True, eq=False, repr=False)
class Tree:
    """A forest of any shape: several roots, leaves at any depth, fan-outs of any size.

    Nodes are numbered as the caller numbered them; every array that goes in or comes out follows that order.
    Inside, the passes run in level order (children after parents, siblings together), which `first`, `offsets`
    and `order` describe; `in_level_order` is the same tree with its nodes numbered so.
    """

    parent: NDArray[np.int32]  # of each node, -1 for a root
    first: NDArray[np.uint32]  # level order: the children of node v are first[v]:first[v + 1]
    offsets: NDArray[np.int64]  # level order: level i is offsets[i]:offsets[i + 1]
    order: NDArray[np.int64] | None = None  # the caller's number of each node in level order; None where the same
    attributes: tuple[str, ...] = ()
    labels: tuple[Cells, ...] = ()  # for each attribute, the labels of the nodes of its level, in level order
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
        table: Frame,
        levels: list[str] | tuple[str, ...],
        *,
        fill: bool = False,
        totals: Collection[str] | None = (),
    ) -> Self:
        """The forest that the rows of a table name; `levels` are its path columns, top to bottom.

        The table is Arrow, pandas, polars, a DuckDB relation or a dict of columns, with one row per leaf, or one per
        node where the columns below the node's level are empty: null, nan, blank, or a *. Node i is row i; nodes
        without a row come after, in level order. `totals` are labels that mark a total, as an empty cell does; others
        that read as one, such as ALL, are refused. With None, every label is taken as it is.
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
        order = None if same else number
        return cls(by_number, layout.first, layout.offsets, order, tuple(attributes), paths.labels, paths.total)

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
    def is_leaf(self) -> Bools:
        """Whether each node is a leaf."""
        return self.from_level_order(self.first[1:] == self.first[:-1])

    @property
    def leaves(self) -> Ints:
        """The leaves, in rising order."""
        return np.flatnonzero(self.is_leaf)

    @property
    def roots(self) -> Ints:
        """The roots, in level order, in which `root` counts them."""
        number = int(self.first[0])
        return np.arange(number) if self.order is None else self.order[:number]

    @property
    def root(self) -> NDArray[np.int32]:
        """Which root each node is or stands under, counted from 0 in level order."""
        return self.ancestor(0)

    def ancestor(self, level: int) -> NDArray[np.int32]:
        """Which node of a level each node is or stands under, counted from 0 in level order; -1 for those above it."""
        at = np.full(len(self), -1, np.int32)
        here = self.slice(level)
        at[here] = np.arange(here.stop - here.start)
        for i in range(level + 1, self.depth):
            at[self.slice(i)] = at[self.family[self.slice(i)]]
        return self.from_level_order(at)

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
        return values if self.order is None else _moved(self.order, values)

    def from_level_order(self, values: Values) -> Values:
        return values if self.order is None else _moved(self.order, values, back=True)

    @cached_property
    def in_level_order(self) -> "Tree":
        """The same tree, its nodes numbered in level order."""
        if self.order is None:
            return self
        same = replace(self, parent=self.family.astype(np.int32), order=None)
        same.__dict__["family"] = self.family  # kept, not made again
        return same

    def families(self, upwards: bool = False, start: int = 0) -> Iterator["Family"]:
        """The families under the parents of each level from `start` on, level by level, top to bottom or upwards."""
        levels = range(start, self.depth - 1)
        return (Family(self, level) for level in (reversed(levels) if upwards else levels))

    def above(self, level: int) -> "Tree":
        """The nodes above a level as a tree of their own, in level order."""
        nodes, names = int(self.offsets[level]), max(level - self.total, 0)
        first = np.minimum(self.first[: nodes + 1], nodes).astype(np.uint32)
        parent = self.family[:nodes].astype(np.int32)
        offsets = self.offsets[: level + 1]
        return Tree(parent, first, offsets, None, self.attributes[:names], self.labels[:names], self.total)

    def sum_up(self, values: ArrayLike, reduce: np.ufunc = np.add) -> Values:
        """Each node's value and those of all nodes below it, added up; or reduced by another ufunc, as np.maximum."""
        total = self._of_nodes(values, reduce)
        for family in self.families(upwards=True):
            below = reduce.reduceat(total[family.children], family.start)
            total[family.parent] = reduce(total[family.parent], below)
        return self.from_level_order(total)

    def roll_up(self, values: ArrayLike) -> Values:
        """One value for each leaf, in the order of `leaves`, added up to every node."""
        given, leaf = np.asarray(values), self.is_leaf
        if given.shape[:1] != (int(leaf.sum()),):
            raise ValueError(f"one value for each of the {int(leaf.sum())} leaves is needed; got shape {given.shape}")
        each = np.zeros((len(self), *given.shape[1:]), given.dtype)
        each[leaf] = given
        return self.sum_up(each)

    def sum_down(self, values: ArrayLike, reduce: np.ufunc = np.add, start: int = 1) -> Values:
        """Each node's value and those of all nodes above it, added up from level `start` on; or reduced otherwise."""
        total = self._of_nodes(values, reduce)
        for level in range(max(start, 1), self.depth):
            here = self.slice(level)
            total[here] = reduce(total[self.family[here]], total[here])
        return self.from_level_order(total)

    def hand_down(self, values: ArrayLike, level: int = 0, above: float = 0) -> Values:
        """One value for each node of a level, in level order, given to all nodes below; `above` to those above it."""
        given, here = np.asarray(values), self.slice(level)
        if given.shape[:1] != (here.stop - here.start,):
            raise ValueError(
                f"one value for each of the {here.stop - here.start} nodes of {self.level_names[level]} is needed; "
                f"got shape {given.shape}"
            )
        each = given[self.ancestor(level)]
        if level:
            each[self.level < level] = above
        return each

    def by_level(self, values: ArrayLike) -> Floats:
        """One value per level, spread over the nodes."""
        per_level = np.asarray(values, np.float64)
        if per_level.shape != (self.depth,):
            raise ValueError(f"one value for each of the {self.depth} levels is needed; got {per_level.size}")
        return self.spread(per_level[None])

    def spread(self, rows: ArrayLike, level: int = 0, *, rest: bool = False) -> Values:
        """Rows of one value per level, spread over the nodes: one row for each node of `level`, or one for all.

        Rows are in level order; nodes above that level take the first row's values. With `rest`, a leaf above the
        last level takes what its row holds for the levels below it, too.
        """
        table, here = np.asarray(rows), self.slice(level)
        size = here.stop - here.start
        if table.ndim != 2 or table.shape[0] not in (1, size) or table.shape[1] != self.depth:
            raise ValueError(f"rows are of shape {(size, self.depth)}, nodes by levels; got {table.shape}")
        alone = len(table) == 1
        row = np.zeros(1, np.int32) if alone else np.maximum(self.in_level_order.ancestor(level), 0)
        below = np.cumsum(table[:, ::-1], axis=1)[:, ::-1] if rest else table
        leaf = self.first[1:] == self.first[:-1]
        each = np.empty(len(self), table.dtype)
        for i in range(self.depth):
            nodes = self.slice(i)
            at = 0 if alone else row[nodes]
            each[nodes] = np.where(leaf[nodes], below[at, i], table[at, i]) if rest else table[at, i]
        return self.from_level_order(each)

    def _of_nodes(self, values: ArrayLike, reduce: np.ufunc) -> Values:
        """A copy of one value for each node, in level order; to add up true and false is to count."""
        given = np.asarray(values)
        if given.shape[:1] != (len(self),):
            raise ValueError(f"one value for each of the {len(self)} nodes is needed; got shape {given.shape}")
        counted = given.astype(np.int64) if given.dtype == bool and reduce is np.add else given
        return counted.copy() if self.order is None else counted[self.order]

    def name(self, node: int) -> str:
        """A node in words: its path, or its number where there are no labels."""
        if not self.attributes:
            return f"node {node}"
        return describe(list(self.attributes), self.path(node))

    def at(self, place: Any) -> Any:
        """The node at a place in level order, or the nodes at some places, as the caller numbered them."""
        return place if self.order is None else self.order[place]

    def name_at(self, place: int) -> str:
        """A node in words, by its place in level order."""
        return self.name(int(self.at(place)))

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

    def numbered(self, names: Collection[str]) -> list[Ints]:
        """For each level a number for each node, equal where labels of these attributes are; by first appearance."""
        import pyarrow as pa

        made, every = list[Ints](), True  # whether no attribute so far is another one, so that no two nodes are alike
        for level, name in enumerate(self.level_names):
            here, place = self.slice(level), level - int(self.total)
            every &= place < 0 or name in names
            if every:
                number = np.arange(here.stop - here.start)
            elif level:
                number = made[-1][self.family[here] - self.offsets[level - 1]]
            else:
                number = np.zeros(here.stop, np.int64)
            if not every and name in names:
                labels = self.labels[place]
                pair = number * len(labels.dictionary) + labels.indices.to_numpy()
                number = pa.array(pair).dictionary_encode().indices.to_numpy().astype(np.int64)
            made.append(number)
        return made

    def table(self) -> Arrow:
        """The nodes as an Arrow table: node, parent, level, and the attributes, null below the node's level."""
        import pyarrow as pa

        columns = {"node": np.arange(len(self)), "parent": self.parent, "level": self.level}
        for j, (attribute, labels) in enumerate(zip(self.attributes, self.labels, strict=True)):
            columns[attribute] = self._spread(labels, j + self.total)
        return pa.table(columns)

    def _spread(self, labels: Cells, level: int) -> Cells:
        """The labels of a level, handed down to the nodes below it."""
        import pyarrow as pa

        if level < self.depth:
            code = self.hand_down(labels.indices.to_numpy(), level, above=-1)
        else:
            code = np.full(len(self), -1, np.int32)
        return pa.DictionaryArray.from_arrays(pa.array(code, mask=code < 0), labels.dictionary)


MANY = 500_000  # figures in the caller's order, which compiled loops on all cores move in a third of the time


def _moved(order: NDArray[np.int64], values: Values, back: bool = False) -> Values:
    """The values in level order, or back from it in the caller's."""
    if len(order) < MANY or values.ndim > 1 or values.dtype != np.float64 or "numba" not in sys.modules:
        if not back:
            return values[order]
        out = np.empty_like(values)
        out[order] = values
        return out
    out, move, threads = np.empty(len(order)), compiled(_scatter if back else _gather), memory_threads()
    ends = np.linspace(0, len(order), threads + 1).astype(np.uint64)
    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(lambda part: move(order.view(np.uint64), values, out, *part), pairwise(ends)))
    return out


def _gather(order, values, out, lo, hi):  # type: ignore[no-untyped-def]
    for i in range(lo, hi):
        out[i] = values[order[i]]


def _scatter(order, values, out, lo, hi):  # type: ignore[no-untyped-def]
    for i in range(lo, hi):
        out[order[i]] = values[i]


class Family:
    """The families under the parents of a level, for sums within them."""

    def __init__(self, tree: Tree, level: int) -> None:
        nodes = tree.slice(level)
        begin = tree.first[nodes].astype(np.int64)
        end = tree.first[nodes.start + 1 : nodes.stop + 1].astype(np.int64)
        parents = np.flatnonzero(end > begin)
        self.children = tree.slice(level + 1)
        self.start = begin[parents] - self.children.start
        self.size = len(parents)
        self.count = (end - begin)[parents]
        self.parent = parents + nodes.start

    def sum(self, values: Floats) -> Floats:
        return np.add.reduceat(values, self.start)

    def spread(self, values: Values) -> Values:
        """A value of each family, handed to its members."""
        return np.repeat(values, self.count)

    def anchor(self, weight: Floats) -> NDArray[np.int64]:
        """A member of each family that has weight."""
        place = np.where(weight > 0, np.arange(len(weight)), -1)
        return np.maximum.reduceat(place, self.start)

    def rounding(self, z: Floats, x: Floats) -> Floats:
        """What rounding alone may make of a sum: two exact figures further apart contradict each other."""
        size: Floats = np.maximum(self.sum(np.abs(z)), np.abs(x))
        return size * ((8.0 + self.count) * 2.3e-16)


def _whole(parent: ArrayLike) -> NDArray[np.int64]:
    given = np.asarray(parent)
    if given.ndim != 1 or (given.size and given.dtype.kind not in "iu"):
        raise ValueError(f"parents are whole numbers in one dimension; got {given.dtype} of shape {given.shape}")
    return given.astype(np.int64, copy=False)


# Level order: roots first, children after parents, siblings together, families in their parents' order.


class LevelOrder(NamedTuple):
    first: NDArray[np.uint32]  # the children of node v are first[v]:first[v + 1]
    offsets: NDArray[np.int64]  # level i is offsets[i]:offsets[i + 1]
    order: NDArray[np.int64] | None  # order[i] is the caller's number of node i; None where they are the same


def level_order(parent: NDArray[np.int64]) -> LevelOrder:
    """The level order of a forest given by its parents (-1 for a root); parents out of range and cycles are refused."""
    n = len(parent)
    if n == 0:
        raise ValueError("a tree needs at least one node; got none")
    if n >= 2**31:
        raise ValueError(f"a tree holds fewer than 2**31 nodes; got {n}: split the forest by root")
    outside = (parent < -1) | (parent >= n)
    if outside.any():
        v = int(np.argmax(outside))
        raise ValueError(f"node {v} has parent {parent[v]}; a parent is a node from 0 to {n - 1}, or -1 for a root")
    if bool((parent < np.arange(n)).all()) and bool((parent[1:] >= parent[:-1]).all()):
        first, order = np.empty(n + 1, np.uint32), None
        np.cumsum(np.bincount(parent + 1, minlength=n + 1), out=first, dtype=np.uint32)
    else:
        start = np.concatenate([[0], np.cumsum(np.bincount(parent + 1, minlength=n + 1))])
        if not worth_compiling(IN_PYTHON * n):
            children = np.argsort(parent, kind="stable").tolist()
            placed, first_list, placed_order = _breadth_first(  # type: ignore[no-untyped-call]
                children, start.tolist(), [0] * (n + 1), [0] * n
            )
            first, order = np.array(first_list, np.uint32), np.array(placed_order, np.int64)
        else:
            children = np.argsort(parent, kind="stable")
            placed, first, order = compiled(_breadth_first)(
                children, start, np.empty(n + 1, np.uint32), np.empty(n, np.int64)
            )
        if placed < n:
            raise ValueError(f"a tree has no cycles; found {_cycle(parent, order[:placed])}")
    ends = [0, int(first[0])]
    while ends[-1] < n:
        ends.append(int(first[ends[-1]]))
    return LevelOrder(first, np.array(ends, np.int64), order)


def _breadth_first(children, start, first, order):  # type: ignore[no-untyped-def]
    """Places every node that a root reaches; in plain Python, or compiled.

    children[start[v + 1]:start[v + 2]] are the children of v, and those of -1 are the roots.
    """
    placed = start[1]
    for i in range(placed):
        order[i] = children[i]
    for i in range(len(order)):
        if i == placed:
            break
        first[i] = placed
        v = order[i]
        for j in range(start[v + 1], start[v + 2]):
            order[placed] = children[j]
            placed += 1
    first[len(order)] = placed
    return placed, first, order


def _cycle(parent: NDArray[np.int64], reached: NDArray[np.int64]) -> str:
    lost = np.ones(len(parent), bool)
    lost[reached] = False
    v = int(np.argmax(lost))
    seen: dict[int, None] = {}
    while v not in seen:
        seen[v] = None
        v = int(parent[v])
    ring = list(seen)[list(seen).index(v) :]
    shown = [*ring, v] if len(ring) <= 8 else [*ring[:8], "…", v]
    return "node " + " → ".join(map(str, shown))
