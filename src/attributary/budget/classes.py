"""Classes: nodes whose estimates have the same variance, grouped so that errors are computed by class, not by node.

v̂ar depends on the shape of the tree and on the split. With one split for each head, nodes of one level that have the
same subtree shape and whose parents are of one class share it. The classes form a tree themselves: every member of a
class has `times` children in each of its child classes.

A condensed tree has the classes of a tree that need not be held: what a plan takes memory for is classes, not nodes.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from attributary.tree import Tree
from attributary.types import Bools, Floats, Ints


class Link(NamedTuple):
    """The families between two levels of classes."""

    parent: slice | Ints  # the classes above that have children
    child: slice
    start: Ints  # where each family begins, counted from child.start
    size: Ints

    def sum(self, of_children: Floats) -> Floats:
        """The sum over each family, along the last axis; only children are their own sums."""
        alone = len(self.start) == of_children.shape[-1]
        return of_children if alone else np.add.reduceat(of_children, self.start, axis=-1)

    def spread(self, of_parents: Floats) -> Floats:
        """What each parent has, handed to its children."""
        alone = len(self.start) == self.child.stop - self.child.start
        return of_parents if alone else np.repeat(of_parents, self.size, axis=-1)


@dataclass(frozen=True, eq=False)
class Classes:
    """A forest of classes in level order; the classes of level 0 are the roots."""

    parent: Ints  # -1 for a root
    offsets: Ints  # level i is offsets[i]:offsets[i + 1]
    times: Floats  # children of this class that each member of the parent class has
    leaf: NDArray[np.bool_]
    of_node: tuple[Ints, ...]  # for each level its nodes' classes, from the level's first; the last may be left out

    def __len__(self) -> int:
        return len(self.parent)

    @property
    def depth(self) -> int:
        return len(self.offsets) - 1

    @property
    def level(self) -> Ints:
        return np.repeat(np.arange(self.depth), np.diff(self.offsets))

    def slice(self, level: int) -> slice:
        return slice(int(self.offsets[level]), int(self.offsets[level + 1]))

    def under(self, level: int) -> Ints:
        """The class of this level that each class stands under, counted from the level's first; itself above it."""
        place: Ints = np.arange(len(self)) - self.offsets[level]
        for i in range(level + 1, self.depth):
            place[self.slice(i)] = place[self.parent[self.slice(i)]]
        return place

    def below(self) -> "Classes":
        """The classes without the roots; the next level's are the roots."""
        roots, heads = int(self.offsets[1]), self.slice(1)
        parent, times = self.parent[roots:] - roots, self.times[roots:].copy()
        parent[: heads.stop - roots], times[: heads.stop - roots] = -1, 1.0
        return Classes(parent, self.offsets[1:] - roots, times, self.leaf[roots:], self.of_node[1:])

    @cached_property
    def links(self) -> tuple[Link, ...]:
        """The families below each level but the last, top to bottom."""
        pairs = []
        for i in range(1, self.depth):
            child = self.slice(i)
            up = self.parent[child]
            start = np.flatnonzero(np.concatenate([[True], up[1:] != up[:-1]]))
            above = self.slice(i - 1)
            parent = above if len(start) == above.stop - above.start else up[start]
            pairs.append(Link(parent, child, start, np.diff(start, append=len(up))))
        return tuple(pairs)

    def add_up(self, tree: Tree, values: Floats | None = None) -> Floats:
        """The sum of a value over the members of each class; how many they are, without values."""
        sums = np.empty(len(self))
        for i, place in enumerate(self.of_node):
            nodes = self.slice(i)
            some = None if values is None else values[tree.slice(i)]
            sums[nodes] = np.bincount(place, some, nodes.stop - nodes.start)
        if len(self.of_node) < self.depth:  # the last level by family: one pass over its leaves
            place, begin, end = self._last_families(tree)
            family = end - begin if values is None else np.add.reduceat(values[tree.slice(self.depth - 1)], begin)
            last = self.slice(self.depth - 1)
            sums[last] = np.bincount(place, family, last.stop - last.start)
        return sums

    def spread(self, tree: Tree, values: Floats) -> Floats:
        """A value of each class, handed to its members, in level order."""
        parts = [values[self.slice(i)][place] for i, place in enumerate(self.of_node)]
        if len(self.of_node) < self.depth:
            place, begin, end = self._last_families(tree)
            parts.append(np.repeat(values[self.slice(self.depth - 1)][place], end - begin))
        return np.concatenate(parts)

    def _last_families(self, tree: Tree) -> tuple[Ints, Ints, Ints]:
        """The class of each family of the last level, and where it begins and ends, counted from the level's first."""
        above = self.depth - 2
        begin, end = children(tree, above)
        some = end > begin
        number = np.cumsum(~self.leaf[self.slice(above)]) - 1
        start = tree.offsets[above + 1]
        return number[self.of_node[above][some]], begin[some] - start, end[some] - start


def classes(tree: Tree, apart: int | Literal["nodes"] = 0, kind: Ints | None = None) -> Classes:
    """The classes of a tree's nodes; all nodes down to level `apart` are classes of their own, with -1 no roots either.

    With "nodes", all nodes are but leaves, which have what their siblings have. Nodes of different `kind` (numbers from
    0 on, in level order) are never of one class; what is below a node is then what is below its class on average.
    """
    if isinstance(tree, CondensedTree):
        if apart == "nodes" or kind is not None:
            raise ValueError("nodes of a condensed tree have no budgets or shares of their own; take one that is held")
        return tree.pooled if apart == -1 else tree.forest
    shape = _shapes(tree) if apart != "nodes" else _nodes(tree)
    roots = int(tree.first[0])
    member = [shape.get(0, np.zeros(roots, np.int64)) if apart == -1 else np.arange(roots)]
    parent, times, leaf = [np.full(int(member[0].max()) + 1, -1)], [np.bincount(member[0]).astype(np.float64)], []
    for i in range(1, tree.depth):
        begin, end = children(tree, i - 1)
        fan = np.empty(len(parent[-1]), np.int64)
        fan[member[-1]] = end - begin
        leaf.append(fan == 0)
        if i == tree.depth - 1 and kind is None:
            has = np.flatnonzero(fan)
            parent.append(has)
            times.append(fan[has].astype(np.float64))
            leaf.append(np.ones(len(has), bool))
            break
        above = np.repeat(member[-1], end - begin)
        code = (
            np.arange(len(above)) if apart != "nodes" and i <= apart else shape.get(i, np.zeros(len(above), np.int64))
        )
        if kind is not None:
            code = code * (int(kind.max()) + 1) + kind[tree.slice(i)]
        shapes = int(code.max()) + 1
        place, key = _dense(above * shapes + code, len(parent[-1]) * shapes)
        parent.append(key // shapes)
        size, size_above = np.bincount(place), np.bincount(member[-1])
        times.append(size / size_above[parent[-1]])
        member.append(place)
    if len(member) == tree.depth:
        leaf.append(np.ones(len(parent[-1]), bool))
    offsets = np.concatenate([[0], np.cumsum([len(p) for p in parent])])
    up = [p + offsets[i - 1] if i else p for i, p in enumerate(parent)]
    return Classes(np.concatenate(up), offsets, np.concatenate(times), np.concatenate(leaf), tuple(member))


def children(tree: Tree, level: int) -> tuple[Ints, Ints]:
    """Where the children of each node of a level begin and end."""
    first = tree.first[tree.offsets[level] : tree.offsets[level + 1] + 1].astype(np.int64)
    return first[:-1], first[1:]


def _shapes(tree: Tree) -> dict[int, Ints]:
    """A number for the subtree shape of each node of all levels but the last; equal for equal shapes.

    A shape is the multiset of the shapes below. It is known by the sum of 64 bits for each, drawn once and for all:
    that two of a million shapes share a sum has a chance of 3e-8.
    """
    shape: dict[int, Ints] = {}
    for i in reversed(range(tree.depth - 1)):
        begin, end = children(tree, i)
        number = end - begin
        if i < tree.depth - 2:
            has = number > 0
            bits = np.random.Generator(np.random.Philox(i)).bytes(8 * (int(shape[i + 1].max()) + 1))
            below = np.frombuffer(bits, np.uint64)[shape[i + 1]]
            total = np.zeros(len(number), np.uint64)
            total[has] = np.add.reduceat(below, begin[has] - tree.offsets[i + 1])
            number = total.view(np.int64)
        shape[i] = np.unique(number, return_inverse=True)[1]
    return shape


def _nodes(tree: Tree) -> dict[int, Ints]:
    number = {}
    for i in range(1, tree.depth - 1):
        begin, end = children(tree, i)
        number[i] = np.where(end > begin, np.arange(1, len(begin) + 1), 0)
    return number


def _dense(key: Ints, bound: int) -> tuple[Ints, Ints]:
    """The place of each key among the different ones, and these in order."""
    if bound > 4 * len(key):
        different, place = np.unique(key, return_inverse=True)
        return place, different
    seen = np.zeros(bound, bool)
    seen[key] = True
    return (np.cumsum(seen) - 1)[key], np.flatnonzero(seen)


# CondensedTree: one node stands for all that are alike.


@dataclass(frozen=True, eq=False, repr=False)
class CondensedTree(Tree):
    """A tree in which each node stands for a number of nodes of one class that have the same figures.

    A node's parent stands for the parents of those that it stands for. A plan sees in it what it sees in the tree that
    it was made from; what takes each node with its own children is refused.
    """

    forest: Classes = None  # type: ignore[assignment]
    each: Floats = None  # type: ignore[assignment]  # how many nodes each node stands for
    shape: NDArray[np.uint64] = None  # type: ignore[assignment]  # of each class: equal for equal subtrees
    example: Any = None  # an Arrow table with the labels of one of the nodes that each stands for

    @classmethod
    def of(cls, nodes: "ClassNodes", example: Any, total: bool) -> "tuple[CondensedTree, Ints]":
        """The tree of these nodes, each with the labels of an example, and the order that they are in there."""
        up, times, place, parent, order = ([] for _ in range(5))
        firsts, starts, offsets, key = list[Ints](), [0], [0], nodes.key[:0]
        size: Floats = np.empty(0)
        for i in range(int(nodes.level.max()) + 1):
            here = np.flatnonzero(nodes.level == i)
            by_key = np.argsort(key)
            above = by_key[np.searchsorted(key[by_key], nodes.above[here])] if i else np.full(len(here), -1)
            by_class = np.lexsort((nodes.key[here], above))
            here, above = here[by_class], above[by_class]
            keys = nodes.key[here]
            begins = np.append(True, keys[1:] != keys[:-1])
            first, member = np.flatnonzero(begins), np.cumsum(begins) - 1
            number = np.bincount(member, nodes.number[here]).astype(np.float64)
            times.append(number / size[above[first]] if i else np.ones(len(first)))
            up.append(above[first] + offsets[-2] if i else above[first])
            parent.append(firsts[-1][above] if i else above)
            place.append(member)
            order.append(here)
            firsts.append(starts[-1] + first)
            key, size = keys[first], number
            starts.append(starts[-1] + len(here))
            offsets.append(offsets[-1] + len(first))
        every, a_node = np.concatenate(order), np.concatenate(firsts)
        leaf, shape = nodes.leaf[every][a_node], nodes.shape[every][a_node]
        forest = Classes(np.concatenate(up), np.array(offsets), np.concatenate(times), leaf, tuple(place))
        example = example.take(every)
        names = tuple(example.column_names)
        labels = tuple(
            example.column(name).combine_chunks().dictionary_encode()[starts[j] : starts[j + 1]]
            for j, name in enumerate(names, int(total))
        )
        roots = np.array([starts[1]], np.uint32)  # where there are no families, nothing else begins
        up_node = np.concatenate(parent).astype(np.int32)
        each = nodes.number[every]
        return cls(up_node, roots, np.array(starts), None, names, labels, total, forest, each, shape, example), every

    @property
    def number(self) -> Floats:
        return self.each

    @cached_property
    def family(self) -> NDArray[np.int64]:
        return self.parent.astype(np.int64)

    @property
    def is_leaf(self) -> Bools:
        leaf: Bools = self.forest.spread(self, self.forest.leaf.astype(np.float64)) > 0
        return leaf

    @property
    def of_class(self) -> Ints:
        """A node of each class."""
        members = zip(self.forest.of_node, self.offsets, strict=False)
        return np.concatenate([first + np.unique(place, return_index=True)[1] for place, first in members])

    @cached_property
    def pooled(self) -> Classes:
        """The classes where roots of the same shape are one."""
        own, place = self.forest, np.empty(0, np.int64)
        number = own.add_up(self, self.number)
        up, times, leaf, member = ([] for _ in range(4))
        size, offsets = np.empty(0), [0]
        for i in range(own.depth):
            here = own.slice(i)
            shape = np.unique(self.shape[here], return_inverse=True)[1]
            above = place[own.parent[here] - own.offsets[i - 1]] if i else np.zeros(len(shape), np.int64)
            _, first, place = np.unique(above * len(shape) + shape, return_index=True, return_inverse=True)
            count = np.bincount(place, number[here])
            times.append(count / size[above[first]] if i else count)
            up.append(above[first] + offsets[-2] if i else np.full(len(first), -1))
            leaf.append(own.leaf[here][first])
            member.append(place[own.of_node[i]])
            size = count.astype(np.float64)
            offsets.append(offsets[-1] + len(first))
        every = np.concatenate(up), np.array(offsets), np.concatenate(times), np.concatenate(leaf)
        return Classes(*every, tuple(member))

    def path(self, node: int) -> list[Any]:
        """The labels down to one of the nodes that a node stands for."""
        names = self.attributes[: max(int(self.level[node]) + 1 - self.total, 0)]
        return [self.example.column(name)[node].as_py() for name in names]

    def families(self, upwards: bool = False, start: int = 0) -> Any:
        raise TypeError(
            "nodes of a condensed tree stand for others; take the families of the tree that it is made from"
        )


class ClassNodes(NamedTuple):
    """Nodes of a condensed tree; keys tell classes apart."""

    level: Ints
    key: NDArray[np.uint64]  # of the class
    above: NDArray[np.uint64]  # the key of the class above; 0 of roots
    shape: NDArray[np.uint64]
    leaf: Bools
    number: Floats
