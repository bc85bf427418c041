"""Table: estimates in a file, opened to be looked at; its rows stay where they are."""

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from attributary.errors import InputError
from attributary.explore.forest import Forest, read_forest
from attributary.explore.stamp import ChangedError, Stamp, stamp
from attributary.report.estimates import FIGURES, FROM_PRIOR, NEEDED, NODE, is_estimates, read_estimates
from attributary.tables import read_table
from attributary.tables.format import by_content

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
    note: str = ""  # what the file says of itself
    confidence: float | None = None

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


def open_table(path: str, levels: list[str] | None, folder: str, stage: Stage) -> Table:
    """The estimates in a file. Parquet with the tree's columns is asked as it is; any other gets a copy in `folder`."""
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
            schema = source.schema_arrow
            forest = read_forest(source, path, lambda part: stage(f"looking at {path}, {part:.0%}"))
            attributes = _attributes(schema.names)
            total = bool(attributes) and _above_first(source, attributes[0])
    except (pa.ArrowException, OSError, UnicodeError) as error:
        raise InputError(f"{path} is not a whole Parquet file: {str(error).splitlines()[0][:200]}") from error
    if attributes and len(forest.sizes) > len(attributes) + total:
        raise InputError(
            f"{path} has {len(forest.sizes)} levels, but {len(attributes)} columns that name them: "
            f"{', '.join(attributes)[:200]}"
        )
    metadata = schema.metadata or {}
    confidence = metadata.get(b"confidence")
    return Table(
        path,
        file,
        tuple(attributes),
        tuple(name for name in (*FIGURES, FROM_PRIOR) if name in schema.names),
        total,
        forest,
        opened,
        metadata.get(b"attributary", b"").decode(errors="replace"),
        None if confidence is None else float(confidence),
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
    given = read_estimates(table, path, levels)
    made = given.tree.table()
    for name in FIGURES:
        values = given.tree.from_level_order(getattr(given, name))
        made = made.append_column(name, pa.array(values, from_pandas=True))
    if given.from_prior is not None:
        made = made.append_column(FROM_PRIOR, pa.array(given.tree.from_level_order(given.from_prior)))
    return made.replace_schema_metadata(table.schema.metadata)


def _attributes(names: list[str]) -> list[str]:
    """The columns between the node's three and the figures."""
    rest = [name for name in names if name not in NODE]
    end = next(i for i, name in enumerate(rest) if name in FIGURES)
    return rest[:end]


def _above_first(source: Any, first: str) -> bool:
    """Whether there is a root without a first attribute: the total."""
    import pyarrow.compute as pc

    for batch in source.iter_batches(2**16, columns=["level", first]):
        roots = pc.equal(batch.column("level"), 0)
        if pc.any(roots).as_py():
            return bool(pc.any(pc.and_(roots, pc.is_null(batch.column(first)))).as_py())
    return False
