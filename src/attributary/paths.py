"""Paths: rows of labels, top to bottom, become the nodes of a forest."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray


class Paths(NamedTuple):
    parent: NDArray[np.int64]  # in level order
    row: NDArray[np.int64]  # the row of each node, -1 for a node that has none
    labels: tuple[Any, ...]  # an Arrow dictionary array for each attribute: the labels of the nodes of its level
    total: bool  # a row with an empty path stands above the first attribute


class RowError(ValueError):
    """A row whose path makes no sense: the `row`, counted from 0, and the `rule` it breaks. In words row 0 is row 1."""

    def __init__(self, row: int, rule: str) -> None:
        super().__init__(f"row {row + 1}: {rule}")
        self.row, self.rule = row, rule


def read_paths(table: Any, attributes: list[str], fill: bool = False) -> Paths:
    """The nodes that the rows of a table name.

    A row names a node by its leading labels; null ends a path early. Where every row is a leaf, the nodes above
    are made up. Where some rows stand above others, every node must have its row, unless `fill` is set.
    """
    import pyarrow as pa

    columns = _columns(table, attributes)
    rows = len(columns[0])
    if rows == 0:
        raise ValueError("a tree needs at least one row; the table is empty")
    codes = [column.indices.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64) for column in columns]
    depth = _depth(codes, attributes)

    total = bool((depth == 0).any())
    parent: list[NDArray[np.int64]] = [np.array([-1], np.int64)] if total else []
    labels = []
    node = np.zeros(rows, np.int64)  # of each row so far; level order throughout
    below = int(total)  # how many nodes stand above the next level
    up = np.zeros(rows, np.int64)  # the row's node within its level
    for j, (column, code) in enumerate(zip(columns, codes, strict=True)):
        here = np.flatnonzero(depth > j)
        if len(here) == 0:
            labels.append(pa.DictionaryArray.from_arrays(pa.array([], pa.int32()), column.dictionary))
            continue
        width = max(len(column.dictionary), 1)
        # Sorted by parent, then by label in its order of appearance: that is level order.
        key, place = _distinct(up[here] * width + code[here])
        above = below - (len(parent[-1]) if parent else 0)
        parent.append(key // width + above if parent else np.full(len(key), -1, np.int64))
        labels.append(pa.DictionaryArray.from_arrays(pa.array((key % width).astype(np.int32)), column.dictionary))
        up[here] = place
        node[here] = below + place
        below += len(key)

    row = _row_of_node(node, below, columns)
    found = Paths(np.concatenate(parent), row, tuple(labels), total)
    if not fill:
        _refuse_gaps(found, columns)
    return found


def describe(attributes: list[str], labels: list[Any]) -> str:
    """A path in words: campaign=123, location=Paris."""
    return ", ".join(f"{a}={label}" for a, label in zip(attributes, labels, strict=False)) or "the total"


def _columns(table: Any, attributes: list[str]) -> list[Any]:
    import pyarrow as pa
    import pyarrow.compute as pc

    if not attributes:
        raise ValueError("a path needs at least one attribute; got none")
    if len(set(attributes)) < len(attributes):
        raise ValueError(f"attributes are named once each; got {', '.join(attributes)}")
    arrow = table if isinstance(table, pa.Table) else pa.table(table)
    for name in attributes:
        if name not in arrow.column_names:
            raise ValueError(f"there is no column {name!r}; the columns are {', '.join(arrow.column_names)}")
    columns = []
    for name in attributes:
        column = arrow.column(name)
        if pa.types.is_dictionary(column.type):
            column = column.cast(column.type.value_type)
        if pa.types.is_null(column.type):
            column = column.cast(pa.string())
        columns.append(pc.dictionary_encode(column).combine_chunks())
    return [c.chunk(0) if isinstance(c, pa.ChunkedArray) else c for c in columns]


def _depth(codes: list[NDArray[np.int64]], attributes: list[str]) -> NDArray[np.int64]:
    depth = np.zeros(len(codes[0]), np.int64)
    for j, code in enumerate(codes):
        labelled = code >= 0
        gap = labelled & (depth < j)
        if gap.any():
            row = int(np.argmax(gap))
            raise RowError(
                row,
                f"{attributes[depth[row]]!r} is empty but {attributes[j]!r} below it is not; "
                "a path is empty only from some level downwards",
            )
        depth += labelled
    return depth


def _distinct(key: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The sorted distinct keys, and where each key stands among them; by hashing, since most rows repeat."""
    import pyarrow as pa
    import pyarrow.compute as pc

    encoded = pc.dictionary_encode(pa.array(key))
    distinct = encoded.dictionary.to_numpy()
    order = np.argsort(distinct, kind="stable")
    rank = np.empty_like(order)
    rank[order] = np.arange(len(order))
    return distinct[order], rank[encoded.indices.to_numpy()]


def _row_of_node(node: NDArray[np.int64], nodes: int, columns: list[Any]) -> NDArray[np.int64]:
    row = np.full(nodes, -1, np.int64)
    row[node] = np.arange(len(node))
    if (row >= 0).sum() < len(node):
        again = int(np.argmax(row[node] != np.arange(len(node))))
        path = _path_of_row(columns, again)
        raise RowError(
            _next_row(node, again), f"row {again + 1} is {path} too; a path has one row: combine them, or keep one"
        )
    return row


def _next_row(node: NDArray[np.int64], row: int) -> int:
    return int(np.flatnonzero(node == node[row])[1])


def _path_of_row(columns: list[Any], row: int) -> str:
    labels = [column[row].as_py() for column in columns]
    return ", ".join(repr(label) for label in labels if label is not None) or "the total"


def _refuse_gaps(paths: Paths, columns: list[Any]) -> None:
    missing = paths.row < 0
    inner = np.zeros(len(missing), bool)
    inner[paths.parent[paths.parent >= 0]] = True
    if not missing.any() or not (inner & ~missing).any():
        return
    orphan = np.flatnonzero((paths.parent >= 0) & missing[paths.parent] & ~missing)
    if len(orphan) == 0:  # whole families without rows cannot be: a made-up node stands above some row
        raise AssertionError("a node without a row stands above none")
    row = int(paths.row[orphan].min())
    raise RowError(
        row,
        f"the path {_path_of_row(columns, row)} has no row for its parent, though other inner nodes have theirs; "
        "add the row, or let fill (--fill) make nodes that were not measured",
    )
