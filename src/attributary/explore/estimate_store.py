"""EstimateStore: the tables that are open, behind one DuckDB that can read these files and nothing else."""

import os
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from attributary.changes import Series, periods
from attributary.errors import InputError
from attributary.estimates import COLUMNS, FIGURES, OPTIONAL, Column, by_measure, has_measures, noted, with_columns
from attributary.explore.open_table import OpenTable, Stage, Stamp, open_tables, refuse_other_stamp, stamp
from attributary.facts.estimates import LevelGain, level_gain
from attributary.logs.duckdb import literal, print_no_progress
from attributary.read_estimates import measure_names
from attributary.tables import read_table
from attributary.tables.as_written import MEASURE, NEEDED
from attributary.tables.table_columns import mark
from attributary.types import Record

CHANGES = ("old", "change", "spread", "z", "chance", "relative", "relative_low", "relative_high", "verdict")


class ColumnCheck(NamedTuple):
    """Figures over all rows of a table."""

    corrections: int  # figures that denoising moved
    total: float  # what the roots sum to
    variance: float | None  # the median, of those above 0


@dataclass(frozen=True, eq=False)
class EstimateStore:
    """The estimates of a measure to look at; of periods, the last one's, with what changed since the one before."""

    now: OpenTable
    checked: ColumnCheck
    connection: Any
    folder: Any  # for copies, and for what does not fit into memory
    files: dict[str, Stamp]  # that were opened, as they were then
    series: Series | None = None  # where there are several periods
    number: int = 0  # of the measure
    others: tuple["EstimateStore", ...] = ()  # the other measures, of the first

    def of(self, measure: str) -> "EstimateStore":
        """The same of one measure; "" is the first."""
        store_of = next((store for store in (self, *self.others) if measure in ("", store.now.measure)), None)
        if store_of is None:
            every = ", ".join(str(store.now.measure) for store in (self, *self.others))
            names = every if self.now.measure else "one without a name"
            raise InputError(f"there is no measure {measure[:40]!r} here, only {names}")
        return store_of

    @property
    def view(self) -> str:
        """What the table of this measure is called in SQL."""
        return f"now_{self.number}"

    @property
    def figures(self) -> tuple[str, ...]:
        """The columns of figures that every answer has."""
        return tuple(name for name in OPTIONAL if name in FIGURES or name in self.now.figures)

    def check(self) -> None:
        for path, stamped in self.files.items():
            refuse_other_stamp(path, stamped)

    def close(self) -> None:
        _close(self.connection, self.folder)


def open_store(
    paths: list[str] | dict[str, str],
    levels: list[str] | None = None,
    memory: str | None = None,
    stage: Stage = lambda words: None,
    made: Callable[[], Any] | None = None,
) -> EstimateStore:
    """One table, THIS and LAST, or periods by name, looked through once: an InputError says what is wrong with them.

    Where the one table has noisy figures, `made` gives their estimates.
    """
    import duckdb

    named = paths if isinstance(paths, dict) else {path: path for path in reversed(paths)}
    files = {path: stamp(path) for path in named.values()}
    folder = tempfile.TemporaryDirectory(prefix="attributary-")
    connection = duckdb.connect()
    print_no_progress(connection)
    try:
        if len(named) > 1:
            stage(f"comparing {', '.join(named)}")
            file, series = write_periods(named, levels, folder.name)
            tables = [replace(each, path=list(files)[-1]) for each in open_tables(file, None, folder.name, stage)]
        else:
            tables, series = open_tables(next(iter(files)), levels, folder.name, stage, made), {}
        for other in tables:
            if not np.array_equal(other.forest.parent, tables[0].forest.parent):
                raise InputError(
                    f"{other.path}: {other.measure!r} has other nodes than {tables[0].measure!r}, {len(other):,} and "
                    f"{len(tables[0]):,}; measures of one table have a row for each node"
                )
        _limit(connection, tables, folder.name, memory)
        stores: list[EstimateStore] = []
        for number, table in enumerate(tables):
            connection.execute(_view(f"now_{number}", table, bool(series)))
            stage(f"checking {table.path}")
            checked = _checked(connection, f"now_{number}", table, not series)
            table = replace(table, forest=tables[0].forest)  # trees that are alike are kept once
            stores.append(
                EstimateStore(table, checked, connection, folder, files, series.get(table.measure or ""), number)
            )
        return replace(stores[0], others=tuple(stores[1:]))
    except duckdb.Error as error:
        _close(connection, folder)
        raise InputError(f"{' and '.join(files)} cannot be read: {str(error).splitlines()[0][:200]}") from error
    except BaseException:
        _close(connection, folder)
        raise


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
    parquet.write_table(by_measure(tables), file, row_group_size=2**17)
    return file, series


def _close(connection: Any, folder: Any) -> None:
    connection.close()
    folder.cleanup()


def _limit(connection: Any, tables: list[OpenTable], folder: str, memory: str | None) -> None:
    """Whatever a query says, it reads these files and writes what does not fit to this folder, and cannot undo that."""
    import duckdb

    settings: Record = {
        "temp_directory": folder,
        "python_enable_replacements": False,
        "autoinstall_known_extensions": False,
        "autoload_known_extensions": False,
        "parquet_metadata_cache": True,
        "allowed_paths": [os.path.abspath(table.file) for table in tables],
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


def _view(name: str, table: OpenTable, compared: bool) -> str:
    """A view with the same columns for all tables: node, parent, level, label, a0, a1, …, and the figures."""
    labels = [f"CAST({quoted(attribute)} AS VARCHAR)" for attribute in table.attributes]
    cases = " ".join(f"WHEN {i + table.total} THEN {label}" for i, label in enumerate(labels))
    label = f"CASE level {cases} ELSE 'total' END" if labels else "'node ' || node"
    columns = ["node", "parent", "level", f"{label} AS label", *(f"{cell} AS a{i}" for i, cell in enumerate(labels))]
    for figure in OPTIONAL:
        cell = quoted(figure) if figure in table.figures else "NULL"
        columns.append(f"CAST({cell} AS DOUBLE) AS {figure}")
    columns += CHANGES if compared else ()
    path = literal(os.path.abspath(table.file))
    rows = "" if table.measure is None else f" WHERE CAST({quoted(MEASURE)} AS VARCHAR) = {literal(table.measure)}"
    return f"CREATE VIEW {name} AS SELECT {', '.join(columns)} FROM read_parquet({path}){rows}"


def quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _checked(connection: Any, name: str, table: OpenTable, whole: bool) -> ColumnCheck:
    """What all rows come to; a figure that is none is refused with its node, unless nodes may have gone."""
    checks = [c for c in COLUMNS if c.name in table.figures and (c.key or (whole and c.name in NEEDED))]
    wrong = [f"min(node) FILTER (NOT {_rule(column)})" for column in checks]
    summary = ["count(*) FILTER (correction <> 0)", "sum(estimate) FILTER (level = 0)"]
    summary += ["approx_quantile(variance, 0.5) FILTER (variance > 0 AND isfinite(variance))"]
    row = connection.execute(f"SELECT {', '.join([*wrong, *summary])} FROM {name}").fetchone()
    *first, corrections, total, variance = row
    for column, node in zip(checks, first, strict=True):
        if node is not None:
            (value,) = connection.execute(f"SELECT {column.name} FROM {name} WHERE node = ?", [node]).fetchone()
            got = "none" if value is None else value
            raise InputError(f"{table.path}: {column.name} is {column.rule}; node {node} has {got}")
    if total is None:
        raise InputError(f"{table.path} has no rows of level 0; give a table of estimates that has all its nodes")
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
    names = store.now.levels
    return [level_gain(names[row[0]], row[1], row[2], row[3], x) for row, x in zip(rows, nan, strict=True)]
