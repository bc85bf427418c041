"""Level order: roots first, children after parents, siblings together, families in their parents' order."""

from collections.abc import Callable
from functools import cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from attributary.kernel import kernel

PLAIN_LIMIT = 100_000  # nodes up to which a Python loop is over before numba is imported


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
    if _in_level_order(parent):
        first, order = _first_child(parent), None
    else:
        start = np.concatenate([[0], np.cumsum(np.bincount(parent + 1, minlength=n + 1))])
        if n <= PLAIN_LIMIT:
            children = np.argsort(parent, kind="stable").tolist()
            placed, first_list, placed_order = _breadth_first(  # type: ignore[no-untyped-call]
                children, start.tolist(), [0] * (n + 1), [0] * n
            )
            first, order = np.array(first_list, np.uint32), np.array(placed_order, np.int64)
        else:
            children = np.argsort(parent, kind="stable")
            placed, first, order = _compiled()(children, start, np.empty(n + 1, np.uint32), np.empty(n, np.int64))
        if placed < n:
            raise ValueError(f"a tree has no cycles; found {_cycle(parent, order[:placed])}")
    return LevelOrder(first, _offsets(first), order)


def _in_level_order(parent: NDArray[np.int64]) -> bool:
    before = bool((parent < np.arange(len(parent))).all())
    return before and bool((parent[1:] >= parent[:-1]).all())


def _first_child(parent: NDArray[np.int64]) -> NDArray[np.uint32]:
    first = np.empty(len(parent) + 1, np.uint32)
    np.cumsum(np.bincount(parent + 1, minlength=len(parent) + 1), out=first, dtype=np.uint32)
    return first


def _breadth_first(children, start, first, order):  # type: ignore[no-untyped-def]
    """Places every node that a root reaches; plain Python for small trees, compiled for large ones.

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


@cache
def _compiled() -> Callable[..., tuple[int, NDArray[np.uint32], NDArray[np.int64]]]:
    return kernel()(_breadth_first)


def _offsets(first: NDArray[np.uint32]) -> NDArray[np.int64]:
    ends = [0, int(first[0])]
    while ends[-1] < len(first) - 1:
        ends.append(int(first[ends[-1]]))
    return np.array(ends, np.int64)


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
