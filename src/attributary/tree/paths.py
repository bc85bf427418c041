"""Paths: rows of labels, top to bottom, become the nodes of a forest."""

import re
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from attributary.errors import InputError, ShortLinesError, did_you_mean
from attributary.tables import place, shown
from attributary.tables.table_columns import arrow_table, coded, is_text_type, texts_of
from attributary.tables.total_words import may_be_subtotals, reads_as_total
from attributary.types import Arrow, Cells

# Labels: a column of a table as text, whatever it is made of, so that 7 in one file is 7 in another.
#
# One rule for files and for Python: null, nan, a blank text and * are no label, and end a path.

CONTROL = "\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ufffe\uffff"  # what no page and no chart can show
ODD_BYTE = np.isin(np.arange(256), [*range(9), 11, 12, *range(14, 32), 0x7F, 0xEF])  # 0xEF begins U+FFFE
UNPRINTABLE = re.compile(f"[{CONTROL}\ud800-\udfff]")


def text_labels(table: Arrow, name: str, stars: bool = False) -> Cells:
    """A column as text, dictionary-coded: one Arrow array; whole floats look like whole numbers, no label is null.

    With `stars`, a * is a label, too.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    column = _cells(table, name).combine_chunks()
    if isinstance(column, pa.ChunkedArray):  # no rows at all
        column = pa.concat_arrays(column.chunks) if column.chunks else pa.array([], column.type)
    if pa.types.is_dictionary(column.type) and column.dictionary.null_count:  # a label that is null is none
        column = column.dictionary_decode()
    coded = column if pa.types.is_dictionary(column.type) else pc.dictionary_encode(column)
    coded = labels_only(coded, [])
    text = pa.DictionaryArray.from_arrays(coded.indices.cast(pa.int32()), coded.dictionary.cast(pa.string()))
    return labels_only(text, [""] if stars else ["", "*"])


def _cells(table: Arrow, name: str) -> Cells:
    """A column of labels as it is."""
    import pyarrow as pa

    if name not in table.column_names:
        hint = did_you_mean(name, table.column_names)
        raise ValueError(f"there is no column {name!r}; {hint}the columns are {', '.join(table.column_names)}")
    column = table.column(name)
    if pa.types.is_nested(column.type):
        raise ValueError(f"labels are text, numbers or dates; column {name!r} is {column.type}")
    return column.cast(pa.string()) if pa.types.is_null(column.type) else column


def labels_only(coded: Cells, no_labels: list[str]) -> Cells:
    """A dictionary-coded column, null where it is nan or one of the texts that are not labels, trimmed."""
    import pyarrow as pa
    import pyarrow.compute as pc

    kind = coded.dictionary.type
    if pa.types.is_floating(kind):
        none = pc.is_nan(coded.dictionary)
    elif is_text_type(kind):
        none = pc.is_in(pc.utf8_trim_whitespace(coded.dictionary), pa.array(no_labels, kind))
    else:
        return coded
    ended = np.append(pc.fill_null(none, False).to_numpy(zero_copy_only=False), True)  # code -1 is the last
    if not ended[:-1].any():
        return coded
    code = codes(coded)
    return pa.DictionaryArray.from_arrays(pa.array(code.astype(np.int32), mask=ended[code]), coded.dictionary)


def refuse_unprintable(cells: Cells, name: str) -> None:
    """Raises an InputError for a control character in an Arrow column of labels."""
    import pyarrow as pa
    import pyarrow.compute as pc

    for chunk in cells.chunks if isinstance(cells, pa.ChunkedArray) else [cells]:
        chunk = chunk.dictionary if pa.types.is_dictionary(chunk.type) else chunk
        if not is_text_type(chunk.type) or len(chunk) == 0:
            continue
        data = chunk.buffers()[2]
        if data is None or not ODD_BYTE[np.frombuffer(data, np.uint8)].any():  # as in nearly all tables
            continue
        odd = chunk.filter(pc.match_substring_regex(chunk, f"[{CONTROL}]"))
        if len(odd):
            text = odd[0].as_py()
            where = f"column {name!r} has {unprintable(text)} in {text[:40]!r}"
            raise InputError(f"labels have no control characters; {where}: leave it out")


def unprintable(text: str) -> str | None:
    """The first character of a text that no page can show, as in U+0001: a control character, or half of one."""
    match = UNPRINTABLE.search(text)
    return f"U+{ord(match[0]):04X}" if match else None


def codes(labels: Cells) -> NDArray[np.int64]:
    """The code of each label; -1 for null."""
    import pyarrow as pa
    import pyarrow.compute as pc

    indices: NDArray[np.int64] = pc.fill_null(labels.indices.cast(pa.int64()), -1).to_numpy()  # they may be unsigned
    return indices


LONGEST = 1000  # of a message, whatever names are in it
SPARSE = 8  # places for each row


class NodePaths(NamedTuple):
    parent: NDArray[np.int64]  # in level order
    row: NDArray[np.int64]  # the row of each node, -1 for a node that has none
    labels: tuple[Cells, ...]  # an Arrow dictionary array for each attribute: the labels of the nodes of its level
    total: bool  # a row with an empty path stands above the first attribute


class RowError(ShortLinesError, ValueError):
    """A row whose path makes no sense: the `row`, counted from 0, and the `rule` it breaks. In words row 0 is row 1."""

    def __init__(self, row: int, rule: str) -> None:
        super().__init__(f"row {row + 1}: {rule}")
        self.row, self.rule = row, rule


@contextmanager
def refused(path: str, rows: NDArray[np.int64] | None = None) -> Iterator[None]:
    """The core's ValueErrors about a table's data become InputErrors with its file and, where known, row and line.

    `rows` are the numbers of these rows in the file, where the table has those of one measure only.
    """
    try:
        yield
    except RowError as error:
        row, of = (error.row, "") if rows is None else (int(rows[error.row]), "of the rows of its measure, ")
        raise InputError(f"{place(path, row)}: {of}{error.rule[:LONGEST]}") from error
    except ValueError as error:
        if str(error).startswith(shown(path)):  # it says so itself
            raise
        raise InputError(f"{shown(path)}: {str(error)[:LONGEST]}") from error


def read_paths(
    table: Arrow, attributes: list[str], fill: bool = False, totals: Collection[str] | None = None
) -> NodePaths:
    """The nodes that the rows of a table name.

    A row names a node by its leading labels; null, nan, a blank text and * end a path early, and so do labels in
    `totals`. Other labels that read as a total are refused, unless `totals` is None. Where every row is a leaf, the
    nodes above are made up. Where some rows stand above others, every node must have its row, unless `fill` is set.
    """
    import pyarrow as pa

    columns = _columns(table, attributes)
    if totals is not None:
        columns = without_totals(columns, attributes, totals)
    rows = len(columns[0])
    if rows == 0:
        raise ValueError("a tree needs at least one row; the table is empty")
    coded = [codes(column) for column in columns]
    depth = depths(coded, attributes)

    total = bool((depth == 0).any())
    parent: list[NDArray[np.int64]] = [np.array([-1], np.int64)] if total else []
    labels = []
    node = np.zeros(rows, np.int64)  # of each row so far; level order throughout
    below = int(total)  # how many nodes stand above the next level
    up = np.zeros(rows, np.int64)  # the row's node within its level
    for j, (column, code) in enumerate(zip(columns, coded, strict=True)):
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
    paths = NodePaths(np.concatenate(parent), row, tuple(labels), total)
    if not fill:
        _refuse_gaps(paths, columns)
    return paths


def describe(attributes: list[str], labels: list[Cells]) -> str:
    """A path in words: campaign=123, location=Paris."""
    return ", ".join(f"{a}={label}" for a, label in zip(attributes, labels, strict=False)) or "the total"


def _columns(table: Arrow, attributes: list[str]) -> list[Any]:
    if not attributes:
        raise ValueError("a path needs at least one attribute; got none")
    if len(set(attributes)) < len(attributes):
        raise ValueError(f"attributes are named once each; got {', '.join(attributes)}")
    arrow = arrow_table(table)
    return [labels_only(coded(_cells(arrow, name)), ["", "*"]) for name in attributes]


def without_totals(columns: list[Cells], attributes: list[str], totals: Collection[str]) -> list[Any]:
    """Dictionary-coded columns, null where a label is one of `totals`; others that read as one are a RowError."""
    wanted = {label.strip() for label in texts_of(totals)}
    lacking, made = set(wanted), []
    for name, column in zip(attributes, columns, strict=True):
        if is_text_type(column.dictionary.type):
            lacking -= {label.strip() for label in column.dictionary.to_pylist()} if lacking else set()
            column = labels_only(column, list(wanted)) if wanted else column
            _refuse_total(column, name, columns)
        made.append(column)
    if lacking:
        raise ValueError(f"no row has the label {min(lacking)!r}, which is to mark a total; leave it out of totals")
    return made


def _refuse_total(column: Cells, name: str, columns: list[Cells]) -> None:
    ended = may_be_subtotals(column.dictionary).any()
    others = {str(text).lower() for other in columns for text in other.dictionary.to_pylist()} if ended else ()
    suspects = np.append(reads_as_total(column.dictionary, name, others), False)  # code -1 is the last
    if suspects.any() and suspects[codes(column)].any():
        row = int(np.argmax(suspects[codes(column)]))
        label = column[row].as_py()
        raise RowError(
            row,
            f"{label!r} in column {name!r} reads as a total of the rows beside it; leave the cell empty, say that it "
            f"marks totals (`totals={label!r}`), or that it is an ordinary label (`no_totals`)",
        )


def depths(codes: list[NDArray[np.int64]], attributes: Sequence[str]) -> NDArray[np.int64]:
    """How many labels the path of each row has, by their codes; one with a gap is refused."""
    depth = np.zeros(len(codes[0]), np.int64)
    for j, code in enumerate(codes):
        labelled = code >= 0
        gap = labelled & (depth < j)
        if gap.any():
            row = int(np.argmax(gap))
            raise RowError(
                row,
                f"{attributes[depth[row]]!r} is empty but {attributes[j]!r} below it is not; a path is empty only from "
                "some level downwards: give a missing value a label, as in 'none'",
            )
        depth += labelled
    return depth


def _distinct(key: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The sorted distinct keys, and where each key stands among them.

    By a place for each key where there are few more than rows, else by hashing.
    """
    most = int(key.max())
    if most < SPARSE * len(key):
        there = np.zeros(most + 1, bool)
        there[key] = True
        return np.flatnonzero(there), (np.cumsum(there) - 1)[key]
    import pyarrow as pa
    import pyarrow.compute as pc

    encoded = pc.dictionary_encode(pa.array(key))
    distinct = encoded.dictionary.to_numpy()
    order = np.argsort(distinct, kind="stable")
    rank = np.empty_like(order)
    rank[order] = np.arange(len(order))
    return distinct[order], rank[encoded.indices.to_numpy()]


def _row_of_node(node: NDArray[np.int64], nodes: int, columns: list[Cells]) -> NDArray[np.int64]:
    row = np.full(nodes, -1, np.int64)
    row[node] = np.arange(len(node))
    if (row >= 0).sum() < len(node):
        again = int(np.argmax(row[node] != np.arange(len(node))))
        path, next_row = _path_of_row(columns, again), int(np.flatnonzero(node == node[again])[1])
        raise RowError(next_row, f"row {again + 1} is {path} too; a path has one row: combine them, or keep one")
    return row


def _path_of_row(columns: list[Cells], row: int) -> str:
    labels = [column[row].as_py() for column in columns]
    return ", ".join(repr(label) for label in labels if label is not None) or "the total"


def _refuse_gaps(paths: NodePaths, columns: list[Cells]) -> None:
    missing = paths.row < 0
    inner = np.zeros(len(missing), bool)
    inner[paths.parent[paths.parent >= 0]] = True
    if not missing.any() or not (inner & ~missing).any():
        return
    orphan = np.flatnonzero((paths.parent >= 0) & missing[paths.parent] & ~missing)  # a made-up node is above a row
    row = int(paths.row[orphan].min())
    raise RowError(
        row,
        f"the path {_path_of_row(columns, row)} has no row for its parent, though other inner nodes have theirs; "
        "add the row, or let `fill` add nodes that were not measured",
    )
