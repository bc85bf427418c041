"""Open table: estimates in a file, opened to be looked at; its rows stay where they are."""

import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from attributary.errors import InputError
from attributary.estimates import NODE, OPTIONAL, About, about, has_measures, label_columns, labelled, noted
from attributary.file_kind import KnownFile, file_kind
from attributary.read_estimates import measure_names, read_estimates, read_measures
from attributary.tables.as_written import MEASURE, NEEDED
from attributary.tables.table_columns import NAME, mark, together, words_in, words_of
from attributary.tables.table_source import by_content, readable
from attributary.types import Arrow

Stage = Callable[[str], None]
Progress = Callable[[float], None]
BLOCK = 2**18  # rows
LEVELS = 2**7  # the most that a level's number has room for
REMEDIES: dict[str, str] = {
    "ratios": "explore the estimates beside it, or make a report of both",
    "counts": "denoise them first, or explore their estimates; if they are noisy, state their noise with `noise`",
}


class ChangedError(InputError):
    """A file is no longer the one that was opened."""


Stamp = tuple[int, int, int, int]  # device, inode, size, and when it changed


def stamp(path: str) -> Stamp:
    with readable(path, "give a table of estimates, as `attributary run` writes it"):
        stat = os.stat(path)
    return (stat.st_dev, stat.st_ino, stat.st_size, stat.st_mtime_ns)


def refuse_other_stamp(path: str, stamped: Stamp) -> None:
    """Refuses a file that is no longer the one that was opened."""
    try:
        same = stamp(path) == stamped
    except InputError as error:
        raise ChangedError(str(error)) from None
    if not same:
        raise ChangedError(f"{path} has changed since it was opened; open it again")


class MeasureRows(NamedTuple):
    """Rows of a table that are looked at."""

    column: str
    value: str
    rows: int  # how many there are

    def of(self, batch: Any) -> Any:
        import pyarrow as pa
        import pyarrow.compute as pc

        return batch.filter(pc.equal(batch.column(self.column).cast(pa.string()), self.value))


class Forest(NamedTuple):
    """Nine bytes a node; arrays are indexed by a node's number."""

    parent: NDArray[np.int32]  # -1 for a root
    level: NDArray[np.int8]
    children: NDArray[np.int32]  # how many
    sizes: tuple[int, ...]  # how many nodes each level has

    def above(self, node: int) -> list[int]:
        """The nodes from the root down to this one."""
        path = []
        while node >= 0:
            path.append(node)
            node = int(self.parent[node])
        return path[::-1]


@dataclass(frozen=True, eq=False)
class OpenTable:
    """Where the rows are, and what is known of them without asking for any."""

    path: str  # as the user calls it
    file: str  # the Parquet file that is asked: the same, or a copy in the order of the tree
    attributes: tuple[str, ...]  # the columns that name a node, top to bottom
    figures: tuple[str, ...]  # the columns of figures that are there
    total: bool  # a node above the first attribute
    forest: Forest
    about: About  # what the file states
    measure: str | None = None  # whose rows are looked at, where a column tells measures apart

    def __len__(self) -> int:
        return len(self.forest.parent)

    @property
    def levels(self) -> tuple[str, ...]:
        """A name for each level that has nodes."""
        depth = len(self.forest.sizes)
        if not self.attributes:
            return tuple(f"level {i}" for i in range(depth))
        return ((("total",) if self.total else ()) + self.attributes)[:depth]


def open_tables(
    path: str, levels: list[str] | None, folder: str, stage: Stage, made: Callable[[], Any] | None = None
) -> list[OpenTable]:
    """The estimates in a file, a table for each measure.

    Parquet with the tree's columns is asked as it is; any other gets a copy in `folder`. Of noisy figures, the
    estimates are `made`.
    """
    import pyarrow as pa
    from pyarrow import parquet

    stamp(path)  # or an error that says what is wrong with it
    file, known = _plainly(path, folder), None if made else estimates_in(path, levels)
    if known is None or levels or not _is_ours(known):
        stage(f"reading {path}")
        file, table = _beside(folder), made() if made else None
        table = table if known is None else _in_order(known, levels)
        parquet.write_table(table, file, row_group_size=2**17)
    try:
        with parquet.ParquetFile(file) as source:
            if not has_measures(source.schema_arrow.names):
                return [_open(source, path, file, stage)]
            names = measure_names(source.read([MEASURE]), path)
            counts = {str(each["values"]): int(each["counts"]) for each in names.value_counts().to_pylist()}
            return [_open(source, path, file, stage, MeasureRows(MEASURE, *each)) for each in counts.items()]
    except (pa.ArrowException, OSError, UnicodeError) as error:
        raise InputError(f"{path} is not a whole Parquet file: {str(error).splitlines()[0][:200]}") from error


def _open(source: Arrow, path: str, file: str, stage: Stage, kept: MeasureRows | None = None) -> OpenTable:
    import pyarrow as pa

    schema = source.schema_arrow
    called = path if kept is None else f"{path}, {kept.value}"
    forest = read_forest(source, called, lambda part: stage(f"looking at {called}, {part:.0%}"), kept)
    attributes = label_columns([name for name in schema.names if kept is None or name != MEASURE])
    total = bool(attributes) and _above_first(source, attributes[0])
    if attributes and len(forest.sizes) > len(attributes) + total:
        raise InputError(
            f"{path} has {len(forest.sizes)} levels, but {len(attributes)} columns that name them: "
            f"{', '.join(attributes)[:200]}"
        )
    stated = about(schema.metadata)
    marked = source.iter_batches(2**16, columns=[NAME]) if NAME in schema.names else []
    words = [words_of(pa.Table.from_batches([batch])) for batch in marked]
    return OpenTable(
        path,
        file,
        tuple(attributes),
        tuple(name for name in OPTIONAL if name in schema.names),
        total,
        forest,
        replace(stated, not_private=together(words_in(schema.metadata), *words) or stated.not_private),
        kept.value if kept else None,
    )


def _plainly(path: str, folder: str) -> str:
    """The path, or a link to it without the characters that DuckDB takes for a pattern."""
    if not set("*?[") & set(os.path.abspath(path)):
        return path
    link = _beside(folder)
    os.symlink(os.path.abspath(path), link)
    return link


def _beside(folder: str) -> str:
    return os.path.join(folder, f"{len(os.listdir(folder))}.parquet")


def estimates_in(path: str, levels: list[str] | None = None) -> KnownFile:
    """The file with a table of estimates at this path; any other is refused."""
    known = file_kind(path, "explore", levels)
    if known.kind != "estimates":
        known.refuse("explore", REMEDIES.get(known.kind, f"estimates have the columns {', '.join(NEEDED)}"))
    return known


def _is_ours(known: KnownFile) -> bool:
    """Whether a file is Parquet and has the tree's columns."""
    with open(known.path, "rb") as file:
        is_parquet = by_content(file.read(4096)) == "parquet"
    return is_parquet and set(NODE) <= set(known.names) and len(known.names) == len(set(known.names))


def _in_order(known: KnownFile, levels: list[str] | None) -> Arrow:
    """A table of estimates of any kind as one of ours: the tree's columns, then the figures."""

    path, table = known.path, known.table
    if not has_measures(table.column_names, levels):
        est = read_estimates(table, path, levels)
        made = est.table().replace_schema_metadata(table.schema.metadata)
        stated = {"confidence": round(200 * est.level) / 200} if est.level_known else {}  # text does not state it
        return mark(noted(made, figure=est.figure, **stated), words_of(table))
    read = read_measures(table, path, levels)
    made = labelled({name: est.table() for name, est in read.items()})
    return mark(made.replace_schema_metadata(table.schema.metadata), words_of(table))


def _above_first(source: Arrow, first: str) -> bool:
    """Whether there is a root without a first attribute: the total."""
    import pyarrow.compute as pc

    for batch in source.iter_batches(2**16, columns=["level", first]):
        roots = pc.equal(batch.column("level"), 0)
        if pc.any(roots).as_py():
            return bool(pc.any(pc.and_(roots, pc.is_null(batch.column(first)))).as_py())
    return False


def read_forest(file: Any, name: str, progress: Progress, kept: MeasureRows | None = None) -> Forest:
    """The forest in a Parquet file; a number that is there twice, a parent that is not there or a cycle is refused.

    Of a table of several measures, `kept` names the column and the value of the rows that are looked at.
    """
    import pyarrow as pa

    rows = file.metadata.num_rows if kept is None else kept.rows
    parent, level = np.full(rows, -2, np.int32), np.full(rows, -1, np.int8)
    done = 0
    for batch in file.iter_batches(BLOCK, columns=[*NODE, *([] if kept is None else [kept.column])]):
        if kept is not None:
            batch = kept.of(batch)
        cells = {column: batch.column(column) for column in NODE}
        for column, of in cells.items():
            if not pa.types.is_integer(of.type) or of.null_count:
                what = f"{of.null_count} empty cells" if of.null_count else str(of.type)
                raise InputError(f"{name}: column {column!r} holds whole numbers; got {what}")
        node, up, depth = (of.to_numpy().astype(np.int64) for of in cells.values())
        _refuse(~((node >= 0) & (node < rows)), node, name, f"nodes are numbered from 0 to {rows - 1}; one is")
        _refuse(~((up >= -1) & (up < rows)), up, name, f"a parent is a node from 0 to {rows - 1}, or -1; one is")
        _refuse(~((depth >= 0) & (depth < LEVELS)), depth, name, f"a level is from 0 to {LEVELS - 1}; one is")
        parent[node], level[node] = up, depth
        done += len(node)
        progress(done / max(rows, 1))
    if (level < 0).any():
        raise InputError(f"{name}: node {int(np.argmax(level < 0))} has no row, and another node has two")
    children = np.bincount(parent[parent >= 0], minlength=rows).astype(np.int32)
    odd = np.where(parent < 0, level != 0, level != level[parent] + 1)  # so that there is no cycle, either
    if odd.any():
        v = int(np.argmax(odd))
        raise InputError(f"{name}: a node is one level below its parent; node {v} is on level {level[v]}")
    return Forest(parent, level, children, tuple(np.bincount(level).tolist()))


def _refuse(bad: NDArray[np.bool_], values: NDArray[np.int64], name: str, rule: str) -> None:
    if bad.any():
        raise InputError(f"{name}: {rule} {int(values[np.argmax(bad)])}")
