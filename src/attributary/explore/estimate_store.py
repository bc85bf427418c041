"""EstimateStore: estimates that are open to be looked at, behind one DuckDB that can read their files and nothing else.

Rows stay in a file; in memory is the forest alone, nine bytes a node.
"""

import os
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from attributary.changes import Series, periods
from attributary.errors import InputError
from attributary.estimates import (
    COLUMNS,
    FIGURES,
    NODE,
    OPTIONAL,
    About,
    Column,
    about,
    by_measure,
    has_measures,
    label_columns,
    labelled,
    noted,
    with_columns,
)
from attributary.facts.estimates import LevelGain, level_gain
from attributary.file_kind import KnownFile, file_kind
from attributary.logs.duckdb import literal, print_no_progress
from attributary.read_estimates import measure_names, read_estimates, read_measures
from attributary.tables import read_table
from attributary.tables.as_written import MEASURE, NEEDED
from attributary.tables.table_columns import NAME, mark, words_of
from attributary.tables.table_source import by_content, readable
from attributary.types import Arrow, Record

Stage = Callable[[str], None]
CHANGES = ("old", "change", "spread", "z", "chance", "relative", "relative_low", "relative_high", "verdict")
REMEDIES: dict[str, str] = {
    "ratios": "explore the estimates beside it, or make a report of both",
    "counts": "denoise them first, or explore their estimates; if they are noisy, state their noise with `noise`",
}
BLOCK = 2**18  # rows
LEVELS = 2**7  # the most that a level's number has room for
GROUP = 2**17  # rows of a copy that are read together


class ChangedError(InputError):
    """A file is no longer the one that was opened."""


Stamp = tuple[int, int, int, int]  # device, inode, size, and when it changed


def stamp(path: str) -> Stamp:
    with readable(path, "give a table of estimates, as `attributary run` writes it"):
        stat = os.stat(path)
    return (stat.st_dev, stat.st_ino, stat.st_size, stat.st_mtime_ns)


class Forest(NamedTuple):
    """Arrays are indexed by a node's number."""

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


class ColumnCheck(NamedTuple):
    """Figures over all rows of a table."""

    corrections: int  # figures that denoising moved
    total: float  # what the roots sum to
    variance: float | None  # the median, of those above 0


@dataclass(frozen=True, eq=False)
class EstimateStore:
    """The estimates of a measure to look at; of periods, the last one's, with what changed since the one before."""

    path: str  # as the user calls it
    measure: str | None  # None where no column tells measures apart
    attributes: tuple[str, ...]  # the columns that name a node, top to bottom
    figures: tuple[str, ...]  # the columns of figures that every answer has
    total: bool  # a node above the first attribute
    forest: Forest
    about: About  # what the file states
    checked: ColumnCheck
    connection: Any
    folder: tempfile.TemporaryDirectory[str]  # for copies, and for what does not fit into memory
    files: dict[str, Stamp]  # that were opened, as they were then
    view: str  # what the table of this measure is called in SQL
    series: Series | None = None  # where there are several periods
    others: tuple["EstimateStore", ...] = ()  # the other measures, of the first

    def __len__(self) -> int:
        return len(self.forest.parent)

    @property
    def levels(self) -> tuple[str, ...]:
        """A name for each level that has nodes."""
        depth = len(self.forest.sizes)
        if not self.attributes:
            return tuple(f"level {i}" for i in range(depth))
        return (("total",) * self.total + self.attributes)[:depth]

    def of(self, measure: str) -> "EstimateStore":
        """The same of one measure; "" is the first."""
        stores = {store.measure: store for store in (self, *self.others)}
        if measure and measure not in stores:
            names = ", ".join(map(str, stores)) if self.measure else "one without a name"
            raise InputError(f"there is no measure {measure[:40]!r} here, only {names}")
        return stores[measure] if measure else self

    def check(self) -> None:
        """Refuses files that are no longer those that were opened."""
        for path, stamped in self.files.items():
            try:
                same = stamp(path) == stamped
            except InputError as error:
                raise ChangedError(str(error)) from None
            if not same:
                raise ChangedError(f"{path} has changed since it was opened; open it again")

    def close(self) -> None:
        self.connection.close()
        self.folder.cleanup()


def open_store(
    paths: list[str] | dict[str, str],
    levels: list[str] | None = None,
    memory: str | None = None,
    stage: Stage = lambda words: None,
    made: Callable[[], Arrow] | None = None,
) -> EstimateStore:
    """One table, THIS and LAST, or periods by name, looked through once: an InputError says what is wrong with them.

    Where the one table has noisy figures, `made` gives their estimates.
    """
    import duckdb
    import pyarrow as pa
    from pyarrow import parquet

    named = paths if isinstance(paths, dict) else {path: path for path in reversed(paths)}
    files = {path: stamp(path) for path in named.values()}
    path, series = list(files)[-1], dict[str, Series]()
    folder = tempfile.TemporaryDirectory(prefix="attributary-")
    connection = duckdb.connect()
    print_no_progress(connection)
    try:
        if len(named) > 1:
            stage(f"comparing {', '.join(named)}")
            file, series = write_periods(named, levels, folder.name)
        else:
            file = _as_ours(path, levels, folder.name, stage, made)
        _limit(connection, file, folder.name, memory)
        schema = parquet.read_schema(file)
        names, known = schema.names, about(schema.metadata)
        several = has_measures(names)
        measures = (
            measure_names(parquet.read_table(file, columns=[MEASURE]), path).unique().to_pylist() if several else [None]
        )
        attributes = label_columns([name for name in names if not several or name != MEASURE])
        figures = [name for name in OPTIONAL if name in names]
        marked = parquet.read_table(file, columns=[NAME] if NAME in names else [], read_dictionary=[NAME])
        known = replace(known, not_private=words_of(marked))
        total = bool(attributes) and _above_first(connection, file, attributes[0])
        stores: list[EstimateStore] = []
        for number, measure in enumerate(measures):
            view, called = f"now_{number}", path if measure is None else f"{path}, {measure}"
            connection.execute(_view(view, file, measure, attributes, figures, total, bool(series)))
            forest = read_forest(connection, view, called, stage)
            if stores and not np.array_equal(forest.parent, stores[0].forest.parent):
                raise InputError(
                    f"{path}: {measure!r} has other nodes than {measures[0]!r}, {len(forest.parent):,} and "
                    f"{len(stores[0]):,}; measures of one table have a row for each node"
                )
            forest = stores[0].forest if stores else forest  # trees that are alike are kept once
            if attributes and len(forest.sizes) > len(attributes) + total:
                raise InputError(
                    f"{path} has {len(forest.sizes)} levels, but {len(attributes)} columns that name them: "
                    f"{', '.join(attributes)[:200]}"
                )
            stage(f"checking {called}")
            checked = _checked(connection, view, path, figures, not series)
            every = tuple(name for name in OPTIONAL if name in FIGURES or name in figures)
            opened = (path, measure, tuple(attributes), every, total, forest, known, checked, connection, folder, files)
            stores.append(EstimateStore(*opened, view, series.get(measure or "")))
        return replace(stores[0], others=tuple(stores[1:]))
    except BaseException as error:
        connection.close()
        folder.cleanup()
        if isinstance(error, duckdb.Error | pa.ArrowException | OSError | UnicodeError):
            reason = str(error).splitlines()[0][:200]
            raise InputError(f"{' and '.join(files)} cannot be read: {reason}") from error
        raise


def _as_ours(path: str, levels: list[str] | None, folder: str, stage: Stage, made: Callable[[], Arrow] | None) -> str:
    """The Parquet file to ask: the one at this path, if it has the tree's columns, or else a copy in `folder`."""
    from pyarrow import parquet

    copy = os.path.join(folder, "estimates.parquet")
    if made is None:
        known = file_kind(path, "explore", levels)
        if known.kind != "estimates":
            known.refuse("explore", REMEDIES.get(known.kind, f"estimates have the columns {', '.join(NEEDED)}"))
        if not levels and _is_ours(known):
            if not set("*?[") & set(os.path.abspath(path)):
                return path
            os.symlink(os.path.abspath(path), copy)  # a name without the characters that DuckDB takes for a pattern
            return copy
    stage(f"reading {path}")
    parquet.write_table(made() if made else _in_order(path, known.table, levels), copy, row_group_size=GROUP)
    return copy


def _is_ours(known: KnownFile) -> bool:
    """Whether a file is Parquet and has the tree's columns."""
    with open(known.path, "rb") as file:
        is_parquet = by_content(file.read(4096)) == "parquet"
    return is_parquet and set(NODE) <= set(known.names) and len(known.names) == len(set(known.names))


def _in_order(path: str, table: Arrow, levels: list[str] | None) -> Arrow:
    """A table of estimates of any kind as one of ours: the tree's columns, then the figures."""
    stated: Record = {}
    if has_measures(table.column_names, levels):
        made = labelled({name: est.table() for name, est in read_measures(table, path, levels).items()})
    else:
        est = read_estimates(table, path, levels)
        made, stated = est.table(), {"figure": est.figure}
        stated |= {"confidence": round(200 * est.level) / 200} if est.level_known else {}  # text does not state it
    return mark(noted(made.replace_schema_metadata(table.schema.metadata), **stated), words_of(table))


def _above_first(connection: Any, file: str, first: str) -> bool:
    """Whether there is a root without a first attribute: the total."""
    query = f"SELECT coalesce(bool_or({quoted(first)} IS NULL), false) FROM {_rows_of(file)} WHERE level = 0"
    return bool(connection.execute(query).fetchone()[0])


def read_forest(connection: Any, view: str, name: str, stage: Stage) -> Forest:
    """The forest of a view; a number that is there twice, a parent that is not there or a cycle is refused."""
    import pyarrow as pa

    (rows,) = connection.execute(f"SELECT count(*) FROM {view}").fetchone()
    parent, level, done = np.full(rows, -2, np.int32), np.full(rows, -1, np.int8), 0
    for batch in connection.cursor().sql(f"SELECT {', '.join(NODE)} FROM {view}").to_arrow_reader(BLOCK):
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
        stage(f"looking at {name}, {done / rows:.0%}")
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


def write_periods(named: dict[str, str], levels: list[str] | None, folder: str) -> tuple[str, dict[str, Series]]:
    """Writes a table of the last period with what changed since the one before, a row for each node of any period.

    And gives the series of each measure, by its name.
    """
    import pyarrow as pa
    from pyarrow import parquet

    last = read_table(list(named.values())[-1])
    several = has_measures(last.column_names, levels)
    measures = measure_names(last, "the last period").unique().to_pylist() if several else [""]
    series = {name: periods(named, measure=name or None, levels=levels) for name in measures}
    tables = {}
    for name, each in series.items():
        step, now = each.steps[-1], each.course
        columns: Record = dict(zip(("estimate", "low", "high"), (values[-1] for values in now), strict=True))
        columns |= {"correction": np.full(len(each.tree), np.nan), "variance": step.now.figures.variance}
        columns |= {"old": step.before.figures.count}
        with np.errstate(divide="ignore", invalid="ignore"):
            z = np.where(step.difference.change == 0, 0.0, step.difference.change / step.standard_error)
        columns |= {"change": step.difference.change, "spread": step.standard_error, "z": z, "chance": step.chance}
        columns |= dict(zip(("relative", "relative_low", "relative_high"), step.relative, strict=True))
        made = with_columns(each.tree.in_level_order.table(), columns)
        made = made.append_column("verdict", pa.array(step.verdict))
        made = noted(made, confidence=each.confidence, figure=each.figure)
        made = noted(made, generated="logs") if each.generated else made
        tables[name] = mark(made, each.not_private)
    file = os.path.join(folder, "periods.parquet")
    parquet.write_table(by_measure(tables), file, row_group_size=GROUP)
    return file, series


def _limit(connection: Any, file: str, folder: str, memory: str | None) -> None:
    """Whatever a query says, it reads these files and writes what does not fit to this folder, and cannot undo that."""
    import duckdb

    settings: Record = {
        "temp_directory": folder,
        "python_enable_replacements": False,
        "autoinstall_known_extensions": False,
        "autoload_known_extensions": False,
        "parquet_metadata_cache": True,
        "allowed_paths": [os.path.abspath(file)],
    }
    for name, value in settings.items():
        connection.execute(f"SET {name} = {literal(value)}")
    if memory is not None:
        try:
            connection.execute(f"SET memory_limit = {literal(memory)}")
        except duckdb.Error:
            raise InputError(f"`memory` is a size, as in 4GB; got {memory!r}") from None
    connection.execute("SET enable_external_access = false")
    connection.execute("SET lock_configuration = true")


def _view(
    name: str, file: str, measure: str | None, attributes: list[str], figures: list[str], total: bool, compared: bool
) -> str:
    """A view with the same columns for all tables: node, parent, level, label, a0, a1, …, and the figures."""
    labels = [f"CAST({quoted(attribute)} AS VARCHAR)" for attribute in attributes]
    cases = " ".join(f"WHEN {i + total} THEN {label}" for i, label in enumerate(labels))
    label = f"CASE level {cases} ELSE 'total' END" if labels else "'node ' || node"
    columns = [*NODE, f"{label} AS label", *(f"{cell} AS a{i}" for i, cell in enumerate(labels))]
    columns += [f"CAST({name if name in figures else 'NULL'} AS DOUBLE) AS {name}" for name in OPTIONAL]
    columns += CHANGES if compared else ()
    rows = "" if measure is None else f" WHERE CAST({quoted(MEASURE)} AS VARCHAR) = {literal(measure)}"
    return f"CREATE VIEW {name} AS SELECT {', '.join(columns)} FROM {_rows_of(file)}{rows}"


def _rows_of(file: str) -> str:
    return f"read_parquet({literal(os.path.abspath(file))})"


def quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _checked(connection: Any, view: str, path: str, figures: list[str], whole: bool) -> ColumnCheck:
    """What all rows come to; a figure that is none is refused with its node, unless nodes may have gone."""
    checks = [c for c in COLUMNS if c.name in figures and (c.key or (whole and c.name in NEEDED))]
    wrong = [f"min(node) FILTER (NOT {_rule(column)})" for column in checks]
    summary = ["count(*) FILTER (correction <> 0)", "sum(estimate) FILTER (level = 0)"]
    summary += ["approx_quantile(variance, 0.5) FILTER (variance > 0 AND isfinite(variance))"]
    row = connection.execute(f"SELECT {', '.join([*wrong, *summary])} FROM {view}").fetchone()
    *first, corrections, total, variance = row
    for column, node in zip(checks, first, strict=True):
        if node is not None:
            (value,) = connection.execute(f"SELECT {column.name} FROM {view} WHERE node = ?", [node]).fetchone()
            got = "none" if value is None else value
            raise InputError(f"{path}: {column.name} is {column.rule}; node {node} has {got}")
    if total is None:
        raise InputError(f"{path} has no rows of level 0; give a table of estimates that has all its nodes")
    return ColumnCheck(int(corrections), float(total), variance)


def _rule(column: Column) -> str:
    """In SQL, where a cell is what a column's must be; nan is above all numbers there."""
    x = column.name
    if isinstance(column.least, str) or isinstance(column.most, str):
        return f"coalesce(isfinite({x}), false)"
    within = f"{x} BETWEEN CAST('{column.least}' AS DOUBLE) AND CAST('{column.most}' AS DOUBLE)"
    return f"coalesce({within} AND NOT isnan({x}), {str(column.empty).lower()})"


def level_gains(store: EstimateStore, cursor: Any, tau: float) -> list[LevelGain]:
    """What denoising made of each level, by what all its rows come to."""
    weight, measured = "1 / pow(greatest($tau, estimate), 2)", "isfinite(noisy) AND isfinite(noise_variance)"
    known, judged = "isfinite(variance)", f"isfinite(variance) AND {measured}"
    figures = [
        f"avg(noise_variance) FILTER ({measured})",
        f"coalesce(avg(variance) FILTER ({measured}), avg(variance))",
        f"sqrt(avg(noise_variance * {weight}) FILTER ({measured}))",
        f"sqrt(avg(variance * {weight}) FILTER ({known}))",
        f"sqrt(avg(variance * {weight}) FILTER ({judged}))",
        f"median(sqrt(variance * {weight}))",
    ]
    sizes = f"level, count(*), count(*) FILTER ({measured}), count(*) FILTER (NOT {known})"
    query = f"SELECT {sizes}, {', '.join(figures)} FROM {store.view} GROUP BY level ORDER BY level"
    rows = cursor.execute(query, {"tau": tau}).fetchall()
    nan = [[np.nan if x is None else float(x) for x in row[4:]] for row in rows]
    names = store.levels
    return [level_gain(names[row[0]], row[1], row[2], row[3], x) for row, x in zip(rows, nan, strict=True)]
