"""EstimateStore: the tables that are open, behind one DuckDB that can read these files and nothing else."""

import os
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from attributary.errors import InputError
from attributary.estimates import FIGURES, FROM_PRIOR, MEASURE, NEEDED
from attributary.explore.open_table import OpenTable, Stage, open_tables
from attributary.logs.duckdb import print_no_progress

NAMES = ("now", "before")


class ColumnCheck(NamedTuple):
    """What one look at all rows tells."""

    corrections: int  # figures that denoising moved
    total: float  # what the roots sum to
    variance: float | None  # the median, of those above 0


@dataclass(frozen=True, eq=False)
class EstimateStore:
    """The estimates of a measure to look at and, to compare them with, earlier ones."""

    now: OpenTable
    before: OpenTable | None
    checked: ColumnCheck
    connection: Any
    folder: Any  # for copies, and for what does not fit into memory
    number: int = 0  # of the measure
    others: tuple["EstimateStore", ...] = ()  # the other measures, of the first

    def of(self, measure: str) -> "EstimateStore":
        """The same of one measure; "" is the first."""
        store_of = next((store for store in (self, *self.others) if measure in ("", store.now.measure)), None)
        if store_of is None:
            names = (
                ", ".join(str(store.now.measure) for store in (self, *self.others))
                if self.now.measure
                else "one without a name"
            )
            raise InputError(f"there is no measure {measure[:40]!r} here, only {names}")
        return store_of

    def view(self, name: str) -> str:
        """What the table `now` or `before` of this measure is called in SQL."""
        return f"{name}_{self.number}" if self.number else name

    @property
    def tables(self) -> list[OpenTable]:
        return [self.now] if self.before is None else [self.now, self.before]

    @property
    def figures(self) -> tuple[str, ...]:
        """The columns of figures that every answer has."""
        return (*FIGURES, FROM_PRIOR) if FROM_PRIOR in self.now.figures else FIGURES

    def check(self) -> None:
        for table in self.tables:
            table.check()

    def close(self) -> None:
        self.connection.close()
        self.folder.cleanup()


def open_store(
    paths: list[str], levels: list[str] | None = None, memory: str | None = None, stage: Stage = lambda words: None
) -> EstimateStore:
    """One table or two, looked through once: an InputError says what is not as it should be."""
    import duckdb

    folder = tempfile.TemporaryDirectory(prefix="attributary-")
    connection = duckdb.connect()
    print_no_progress(connection)
    try:
        opened = [open_tables(path, levels, folder.name, stage) for path in paths]
        pairs = _paired(opened)
        _limit(connection, [table for table, *_ in opened], folder.name, memory)
        stores: list[EstimateStore] = []
        for number, tables in enumerate(pairs):
            _refuse_unlike(tables)
            looks = []
            for name, table in zip(NAMES, tables, strict=False):
                view = f"{name}_{number}" if number else name
                connection.execute(_view(view, table))
                stage(f"checking {table.path}")
                looks.append(_checked(connection, view, table))
            before = tables[1] if len(tables) > 1 else None
            stores.append(EstimateStore(tables[0], before, looks[0], connection, folder, number))
        return replace(stores[0], others=tuple(stores[1:]))
    except duckdb.Error as error:
        _close(connection, folder)
        raise InputError(f"{' and '.join(paths)} cannot be read: {str(error).splitlines()[0][:200]}") from error
    except BaseException:
        _close(connection, folder)
        raise


def _close(connection: Any, folder: Any) -> None:
    connection.close()
    folder.cleanup()


def _paired(opened: list[list[OpenTable]]) -> list[list[OpenTable]]:
    """The tables of each measure, the earlier one behind the later; trees that are alike are kept once."""
    for tables in opened:
        other = next((t for t in tables if not np.array_equal(t.forest.parent, tables[0].forest.parent)), None)
        if other is not None:
            raise InputError(
                f"{other.path}: {other.measure!r} has other nodes than {tables[0].measure!r}, {len(other):,} and "
                f"{len(tables[0]):,}; measures of one table have a row for each node"
            )
    now = opened[0]
    alike = [replace(table, forest=now[0].forest) for table in now]
    if len(opened) == 1:
        return [[table] for table in alike]
    before = {table.measure: table for table in opened[1]}
    missing = next((table.measure for table in now if table.measure not in before), None)
    if missing is not None or (None in before) != (now[0].measure is None):
        names = [", ".join(t.measure for t in tables if t.measure) or "one measure without a name" for tables in opened]
        raise InputError(
            f"only tables of the same measures are compared; {now[0].path} has {names[0]}, {opened[1][0].path} has "
            f"{names[1]}"
        )
    return [[table, before[table.measure]] for table in alike]


def _refuse_unlike(tables: list[OpenTable]) -> None:
    if len(tables) < 2:
        return
    now, before = tables
    if not now.attributes or not before.attributes:
        raise InputError("tables are compared by their labels; one of these has no labels")
    if (now.attributes, now.total) != (before.attributes, before.total):
        raise InputError(
            f"tables of one question are compared; {now.path} has the levels {', '.join(now.levels)}, "
            f"{before.path} has {', '.join(before.levels)}"
        )


def _limit(connection: Any, tables: list[OpenTable], folder: str, memory: str | None) -> None:
    """Whatever a query says, it reads these files and writes what does not fit to this folder, and cannot undo that."""
    import duckdb

    settings: dict[str, Any] = {
        "temp_directory": folder,
        "python_enable_replacements": False,
        "autoinstall_known_extensions": False,
        "autoload_known_extensions": False,
        "parquet_metadata_cache": True,
        "allowed_paths": [os.path.abspath(table.file) for table in tables],
    }
    for name, value in settings.items():
        connection.execute(f"SET {name} = {_literal(value)}")
    if memory is not None:
        try:
            connection.execute(f"SET memory_limit = {_literal(memory)}")
        except duckdb.Error:
            raise InputError(f"--memory is a size, as in 4GB; got {memory!r}") from None
    connection.execute("SET enable_external_access = false")
    connection.execute("SET lock_configuration = true")


def _literal(value: Any) -> str:
    if isinstance(value, list):
        return f"[{', '.join(map(_literal, value))}]"
    return str(value).lower() if isinstance(value, bool) else "'" + value.replace("'", "''") + "'"


def _view(name: str, table: OpenTable) -> str:
    """A view with the same columns for all tables: node, parent, level, label, a0, a1, …, and the figures."""
    labels = [f"CAST({quoted(attribute)} AS VARCHAR)" for attribute in table.attributes]
    cases = " ".join(f"WHEN {i + table.total} THEN {label}" for i, label in enumerate(labels))
    label = f"CASE level {cases} ELSE 'total' END" if labels else "'node ' || node"
    columns = ["node", "parent", "level", f"{label} AS label", *(f"{cell} AS a{i}" for i, cell in enumerate(labels))]
    for figure in (*FIGURES, FROM_PRIOR):
        cell = quoted(figure) if figure in table.figures else "NULL"
        columns.append(f"CAST({cell} AS DOUBLE) AS {figure}")
    path = _literal(os.path.abspath(table.file))
    rows = "" if table.measure is None else f" WHERE CAST({quoted(MEASURE)} AS VARCHAR) = {_literal(table.measure)}"
    return f"CREATE VIEW {name} AS SELECT {', '.join(columns)} FROM read_parquet({path}){rows}"


def quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _checked(connection: Any, name: str, table: OpenTable) -> ColumnCheck:
    """What all rows come to; a figure that is none is refused with its node."""
    rules: dict[str, Callable[[str], str]] = {
        column: (lambda c: f"coalesce({c} >= 0 AND NOT isnan({c}), false)")
        if column == "variance"
        else (lambda c: f"coalesce(isfinite({c}), false)")
        for column in NEEDED
    }
    if FROM_PRIOR in table.figures:
        rules[FROM_PRIOR] = lambda c: f"coalesce({c} BETWEEN 0 AND 1, false)"
    wrong = [f"min(node) FILTER (NOT {rule(column)})" for column, rule in rules.items()]
    summary = ["count(*) FILTER (correction <> 0)", "sum(estimate) FILTER (level = 0)"]
    summary += ["approx_quantile(variance, 0.5) FILTER (variance > 0 AND isfinite(variance))"]
    row = connection.execute(f"SELECT {', '.join([*wrong, *summary])} FROM {name}").fetchone()
    *first, corrections, total, variance = row
    for column, node in zip(rules, first, strict=True):
        if node is not None:
            asks = {"variance": "a number, 0 or more", FROM_PRIOR: "a number from 0 to 1"}.get(column, "a number")
            (value,) = connection.execute(f"SELECT {column} FROM {name} WHERE node = ?", [node]).fetchone()
            raise InputError(f"{table.path}: {column} is {asks}; node {node} has {'none' if value is None else value}")
    if total is None:
        raise InputError(f"{table.path} has no rows of level 0; give a table of estimates that has all its nodes")
    return ColumnCheck(int(corrections), float(total), variance)
