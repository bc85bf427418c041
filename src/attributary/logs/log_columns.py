"""log_columns: the columns of a log as SQL, each for its role: a label, a key, a number, a flag."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from difflib import get_close_matches
from math import isfinite
from typing import Literal, NamedTuple

from attributary.errors import InputError
from attributary.logs.engine import Engine, Kind, Relation
from attributary.tables.table_columns import refuse_grouped

Unit = Literal["s", "ms", "us", "ns"]

NAMED = 12  # columns in a message
SAMPLE = 1000  # cells that tell what a column of text is made of
FLAGS = {"true", "false", "t", "f"}


class Doubt(NamedTuple):
    """Where to look if a CAST fails."""

    column: str
    bad: str  # SQL that holds where the CAST fails
    needed: str


@dataclass(frozen=True)
class LogTable:
    """A log to read columns from."""

    engine: Engine
    relation: Relation
    names: dict[str, str]  # what the file calls a column, where that is not what the spec does
    missing: tuple[str, ...]
    unit: Unit
    doubts: list[Doubt] = field(default_factory=list)  # noted on the way

    def doubt(self, column: str, bad: str, needed: str) -> None:
        """Notes that a column of text may hold what is not `needed`; {0} stands for it in `bad`."""
        here = present(self, column, "text")
        self.doubts.append(Doubt(column, f"{here} IS NOT NULL AND ({bad.format(f'({here})')})", needed))


def label(log: LogTable, name: str) -> str:
    """The column as it is."""
    column, kind = find_column(log, name)
    if kind == "other":
        raise wrong_kind(log, column, "labels are text, numbers or dates")
    return log.engine.column(column)


def key(log: LogTable, name: str) -> tuple[str, Kind]:
    """The column, null where its value is missing, and its kind."""
    column, kind = find_column(log, name)
    if kind in ("other", "number"):
        raise wrong_kind(log, column, "the columns that join two logs are text or whole numbers")
    return present(log, column, kind), kind


def number(log: LogTable, name: str) -> str:
    """The column as a number, null where it is missing or nan."""
    column, kind = find_column(log, name)
    if kind == "text":
        refuse_grouped(sample_cells(log, column), f"{log.relation.name}: column {column!r}")
        log.doubt(column, "TRY_CAST({0} AS DOUBLE) IS NULL", "numbers are needed, as in 12, -0.5 or 1e3")
    elif kind not in ("whole", "number"):
        raise wrong_kind(log, column, "numbers are needed")
    value = f"CAST({present(log, column, kind)} AS DOUBLE)"
    return value if kind == "whole" else f"CASE WHEN NOT ISNAN({value}) THEN {value} END"


def flag(log: LogTable, name: str) -> str:
    """Whether the column is true, or a number that is not 0; where it is missing, it is not."""
    column, kind = find_column(log, name)
    here = present(log, column, kind)
    if kind == "text" and {cell.lower() for cell in sample_cells(log, column)} <= FLAGS:
        log.doubt(column, "TRY_CAST({0} AS BOOLEAN) IS NULL", "true and false are needed")
        here, kind = f"CAST({here} AS BOOLEAN)", "bool"
    return f"COALESCE({here if kind == 'bool' else f'{number(log, name)} <> 0'}, FALSE)"


def find_column(log: LogTable, name: str) -> tuple[str, Kind]:
    """The file's column of that name, or the one that the spec says it is called, and its kind."""
    column, kinds = log.names.get(name, name), log.relation.kinds
    if column not in kinds:
        close = get_close_matches(column, kinds, 1)
        hint = f"did you mean {close[0]!r}? " if close else ""
        more = f" and {len(kinds) - NAMED} more" if len(kinds) > NAMED else ""
        called = "" if column == name else f" for {name!r}"
        raise InputError(
            f"{log.relation.name} has no column {column!r}{called}; {hint}its columns are "
            f"{', '.join(list(kinds)[:NAMED])}{more}: name it in impression_columns or conversion_columns"
        )
    return column, kinds[column]


def present(log: LogTable, column: str, kind: Kind) -> str:
    """The column, null where it holds what the spec says means missing."""
    here = log.engine.column(column)
    if kind == "text":
        cells = [log.engine.text(cell) for cell in ("", *log.missing)]
    elif kind in ("whole", "number"):
        cells = [cell for cell in log.missing if _is_number(cell) and (kind == "number" or float(cell).is_integer())]
    else:
        cells = []
    return f"CASE WHEN {here} NOT IN ({', '.join(cells)}) THEN {here} END" if cells else here


def sample_cells(log: LogTable, column: str) -> list[str]:
    """Some cells of a column of text, the missing ones left out."""
    here = present(log, column, "text")
    all_cells = f"SELECT {here} AS cell FROM {log.relation.sql}"
    sql = f"SELECT cell FROM ({all_cells}) AS cells WHERE cell IS NOT NULL LIMIT {SAMPLE}"
    cells: list[str] = log.engine.run(sql, "looking at the first rows").column("cell").to_pylist()
    return cells


def is_empty(log: LogTable) -> bool:
    """Whether the log has no rows."""
    return bool(log.engine.run(f"SELECT 1 AS one FROM {log.relation.sql} LIMIT 1").num_rows == 0)


def wrong_kind(log: LogTable, column: str, needed: str) -> InputError:
    return InputError(f"{log.relation.name}: column {column!r} is {log.relation.types[column]}; {needed}")


def _is_number(cell: str) -> bool:
    try:
        return isfinite(float(cell))
    except ValueError:
        return False


def comma_list(expressions: Iterable[str]) -> str:
    """A list to follow another one in SQL: each expression after a comma."""
    return "".join(f", {expression}" for expression in expressions)
