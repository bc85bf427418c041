"""Store: the tables that are open, behind one DuckDB that can read these files and nothing else."""

import os
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from attributary.errors import InputError
from attributary.explore.table import Stage, Table, open_table
from attributary.report.estimates import FIGURES, FROM_PRIOR, NEEDED

NAMES = ("now", "before")


@dataclass(frozen=True, eq=False)
class Store:
    """The estimates to look at and, to compare them with, earlier ones."""

    now: Table
    before: Table | None
    corrections: int  # figures that denoising moved
    connection: Any
    folder: Any  # for copies, and for what does not fit into memory

    @property
    def tables(self) -> list[Table]:
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
) -> Store:
    """One table or two, looked through once: an InputError says what is not as it should be."""
    import duckdb

    folder = tempfile.TemporaryDirectory(prefix="attributary-")
    connection = duckdb.connect()
    try:
        tables = [open_table(path, levels, folder.name, stage) for path in paths]
        _refuse_unlike(tables)
        _limit(connection, tables, folder.name, memory)
        for name, table in zip(NAMES, tables, strict=False):
            connection.execute(_view(connection, name, table))
            stage(f"checking {table.path}")
            corrections = _checked(connection, name, table)
            if name == "now":
                moved = corrections
        return Store(tables[0], tables[1] if len(tables) > 1 else None, moved, connection, folder)
    except duckdb.Error as error:
        _close(connection, folder)
        raise InputError(f"{' and '.join(paths)} cannot be read: {str(error).splitlines()[0][:200]}") from error
    except BaseException:
        _close(connection, folder)
        raise


def _close(connection: Any, folder: Any) -> None:
    connection.close()
    folder.cleanup()


def _refuse_unlike(tables: list[Table]) -> None:
    if len(tables) < 2:
        return
    now, before = tables
    if not now.attributes or not before.attributes:
        raise InputError("tables are compared by their labels; one of these has none")
    if (now.attributes, now.total) != (before.attributes, before.total):
        raise InputError(
            f"tables of one question are compared; {now.path} has the levels {', '.join(now.levels)}, "
            f"{before.path} has {', '.join(before.levels)}"
        )


def _limit(connection: Any, tables: list[Table], folder: str, memory: str | None) -> None:
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


def _view(connection: Any, name: str, table: Table) -> str:
    """A view with the same columns for all tables: node, parent, level, label, a0, a1, …, and the figures."""
    labels = [f"CAST({quoted(attribute)} AS VARCHAR)" for attribute in table.attributes]
    cases = " ".join(f"WHEN {i + table.total} THEN {label}" for i, label in enumerate(labels))
    label = f"CASE level {cases} ELSE 'total' END" if labels else "'node ' || node"
    columns = ["node", "parent", "level", f"{label} AS label", *(f"{cell} AS a{i}" for i, cell in enumerate(labels))]
    for figure in (*FIGURES, FROM_PRIOR):
        cell = quoted(figure) if figure in table.figures else "NULL"
        columns.append(f"CAST({cell} AS DOUBLE) AS {figure}")
    path = _literal(os.path.abspath(table.file))
    return f"CREATE VIEW {name} AS SELECT {', '.join(columns)} FROM read_parquet({path})"


def quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _checked(connection: Any, name: str, table: Table) -> int:
    """How many figures were moved; a figure that is none is refused with its node."""
    rules: dict[str, Callable[[str], str]] = {
        column: (lambda c: f"coalesce({c} >= 0 AND NOT isnan({c}), false)")
        if column == "variance"
        else (lambda c: f"coalesce(isfinite({c}), false)")
        for column in NEEDED
    }
    if FROM_PRIOR in table.figures:
        rules[FROM_PRIOR] = lambda c: f"coalesce({c} BETWEEN 0 AND 1, false)"
    wrong = [f"min(node) FILTER (NOT {rule(column)})" for column, rule in rules.items()]
    moved = "count(*) FILTER (correction <> 0)"
    *first, corrections = connection.execute(f"SELECT {', '.join(wrong)}, {moved} FROM {name}").fetchone()
    for column, node in zip(rules, first, strict=True):
        if node is not None:
            asks = {"variance": "a number, 0 or more", FROM_PRIOR: "a number from 0 to 1"}.get(column, "a number")
            (value,) = connection.execute(f"SELECT {column} FROM {name} WHERE node = ?", [node]).fetchone()
            raise InputError(f"{table.path}: {column} is {asks}; node {node} has {'none' if value is None else value}")
    return int(corrections)
