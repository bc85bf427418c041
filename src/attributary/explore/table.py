"""Table: estimates in a file, opened to be looked at; its rows stay where they are."""

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from attributary.errors import InputError
from attributary.estimates import (
    FIGURES,
    FROM_PRIOR,
    MEASURE,
    NEEDED,
    NODE,
    Estimates,
    earlier_words,
    has_measures,
    is_estimates,
    label_columns,
    measure_names,
    read_estimates,
    read_measures,
    stated_confidence,
)
from attributary.explore.forest import Forest, Kept, read_forest
from attributary.explore.stamp import ChangedError, Stamp, stamp
from attributary.ratio import is_ratios
from attributary.tables import read_table
from attributary.tables.format import by_content
from attributary.tables.not_private import NAME, mark, together, words_in, words_of

Stage = Callable[[str], None]


@dataclass(frozen=True, eq=False)
class Table:
    """Where the rows are, and what is known of them without asking for any."""

    path: str  # as the user calls it
    file: str  # the Parquet file that is asked: the same, or a copy in the order of the tree
    attributes: tuple[str, ...]  # the columns that name a node, top to bottom
    figures: tuple[str, ...]  # the columns of figures that are there
    total: bool  # a node above the first attribute
    forest: Forest
    stamp: Stamp  # of `path`, when it was opened
    not_private: str = ""  # why they are not, if the file says so
    confidence: float | None = None
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

    def check(self) -> None:
        """Refuses a file that is no longer the one that was opened."""
        try:
            same = stamp(self.path) == self.stamp
        except InputError as error:
            raise ChangedError(str(error)) from None
        if not same:
            raise ChangedError(f"{self.path} has changed since it was opened; open it again")


def open_tables(path: str, levels: list[str] | None, folder: str, stage: Stage) -> list[Table]:
    """The estimates in a file, a table for each measure.

    Parquet with the tree's columns is asked as it is; any other gets a copy in `folder`.
    """
    import pyarrow as pa
    from pyarrow import parquet

    opened = stamp(path)
    file = _plainly(path, folder)
    if levels or not _is_ours(path):
        stage(f"reading {path}")
        file = _beside(folder)
        parquet.write_table(_in_order(path, levels), file, row_group_size=2**17)
    try:
        with parquet.ParquetFile(file) as source:
            if not has_measures(source.schema_arrow.names):
                return [_open(source, path, file, opened, stage)]
            names = measure_names(source.read([MEASURE]), path)
            told = {str(each["values"]): int(each["counts"]) for each in names.value_counts().to_pylist()}
            return [_open(source, path, file, opened, stage, Kept(MEASURE, *each)) for each in told.items()]
    except (pa.ArrowException, OSError, UnicodeError) as error:
        raise InputError(f"{path} is not a whole Parquet file: {str(error).splitlines()[0][:200]}") from error


def _open(source: Any, path: str, file: str, opened: Stamp, stage: Stage, kept: Kept | None = None) -> Table:
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
    metadata = schema.metadata or {}
    return Table(
        path,
        file,
        tuple(attributes),
        tuple(name for name in (*FIGURES, FROM_PRIOR) if name in schema.names),
        total,
        forest,
        opened,
        _not_private(source),
        stated_confidence(metadata),
        kept.value if kept else None,
    )


def _not_private(source: Any) -> str:
    """What a file says of itself, in its metadata or in a column."""
    import pyarrow as pa

    schema = source.schema_arrow
    batches = source.iter_batches(2**16, columns=[NAME]) if NAME in schema.names else []
    words = [words_of(pa.Table.from_batches([batch])) for batch in batches]
    return together(words_in(schema.metadata), *words) or earlier_words(schema.metadata or {})


def _plainly(path: str, folder: str) -> str:
    """The path, or a link to it without the characters that DuckDB takes for a pattern."""
    if not set("*?[") & set(os.path.abspath(path)):
        return path
    link = _beside(folder)
    os.symlink(os.path.abspath(path), link)
    return link


def _beside(folder: str) -> str:
    return os.path.join(folder, f"{len(os.listdir(folder))}.parquet")


def _is_ours(path: str) -> bool:
    """Whether a file is Parquet and has the tree's columns; one that is no table of estimates is refused."""
    import pyarrow as pa
    from pyarrow import parquet

    try:
        with open(path, "rb") as file:
            beginning = file.read(4096)
        if not beginning or by_content(beginning) != "parquet":
            return False
        names = parquet.read_schema(path).names
    except (pa.ArrowException, OSError, UnicodeError) as error:
        raise InputError(f"{path} is not a whole Parquet file: {str(error).splitlines()[0][:200]}") from error
    refuse_other(names, path)
    return set(NODE) <= set(names) and len(names) == len(set(names))


def refuse_other(names: list[str], path: str) -> None:
    if is_ratios(names):
        raise InputError(f"{path} holds ratios; the explorer looks at the estimates beside it, and a report at both")
    if not is_estimates(names):
        counts = " It holds true counts: denoise them first, or explore their estimates." * ("conversions" in names)
        raise InputError(
            f"{path} is no table of estimates: it has no columns {', '.join(n for n in NEEDED if n not in names)}; its "
            f"columns are {', '.join(names)[:200]}.{counts}"
        )


def _in_order(path: str, levels: list[str] | None) -> Any:
    """A table of estimates of any kind as one of ours: the tree's columns, then the figures."""
    import pyarrow as pa

    table = read_table(path)
    refuse_other(table.column_names, path)
    if not has_measures(table.column_names, levels):
        made = _ours(read_estimates(table, path, levels)).replace_schema_metadata(table.schema.metadata)
        return mark(made, words_of(table))
    each = [_ours(given).add_column(0, MEASURE, pa.array([name] * len(given))) for name, given in
            read_measures(table, path, levels).items()]  # fmt: skip
    return mark(pa.concat_tables(each).replace_schema_metadata(table.schema.metadata), words_of(table))


def _ours(given: Estimates) -> Any:
    """Estimates as a table of ours."""
    import pyarrow as pa

    made = given.tree.table()
    for name in FIGURES:
        values = given.tree.from_level_order(getattr(given, name))
        made = made.append_column(name, pa.array(values, from_pandas=True))
    if given.from_prior is not None:
        made = made.append_column(FROM_PRIOR, pa.array(given.tree.from_level_order(given.from_prior)))
    return made


def _above_first(source: Any, first: str) -> bool:
    """Whether there is a root without a first attribute: the total."""
    import pyarrow.compute as pc

    for batch in source.iter_batches(2**16, columns=["level", first]):
        roots = pc.equal(batch.column("level"), 0)
        if pc.any(roots).as_py():
            return bool(pc.any(pc.and_(roots, pc.is_null(batch.column(first)))).as_py())
    return False
