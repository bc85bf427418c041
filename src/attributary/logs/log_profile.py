"""log_profile: what is in the columns of a log that nobody has described yet: how many values, numbers, times."""

import re
from typing import Any, NamedTuple

from attributary.errors import InputError
from attributary.logs.engine import Engine
from attributary.logs.log_columns import EARLIEST, LATEST, PER_SECOND, Clock, LogTable, Unit, clock_of, sample_cells
from attributary.logs.log_files import files

WORDS_MISSING = ("NA", "N/A", "NULL", "null", "None", "NaN", "nan", "\\N")
MOST_COLUMNS = 500
TIMES = {"time", "timestamp", "ts", "date", "datetime", "at", "when", "epoch"}  # words in a column's name
DELAYS = {"delay", "lag", "since", "duration"}


class LogColumn(NamedTuple):
    """A column and what is in it; missing cells are left out."""

    name: str
    clock: Clock | None  # of its cells, were they times
    labels: bool  # whether its type is one that labels and keys have
    present: int
    distinct: int  # about
    numbers: int  # cells that are
    whole: int
    least: float
    most: float
    missing: tuple[str, ...]  # cells that look as if they meant a missing value

    @property
    def words(self) -> list[str]:
        """The words of its name in lower case: campaignId is campaign, id."""
        return [word.lower() for word in re.findall(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|\d+", self.name)]

    @property
    def is_amount(self) -> bool:
        """Whether it holds amounts, such as prices, rather than labels."""
        return 0 < self.numbers == self.present and self.whole < self.present

    @property
    def unit(self) -> Unit:
        """The unit of its cells, were they times that count from 1970."""
        return next((unit for unit, per in PER_SECOND.items() if self.most < LATEST * per), "ns")

    @property
    def counts_from_1970(self) -> bool:
        return self.least >= EARLIEST * PER_SECOND[self.unit]

    @property
    def time_likeness(self) -> int:
        """How much it looks like a time, by its cells and its name; 0 where it does not."""
        if self.clock is None or not self.present or DELAYS.intersection(self.words):
            return 0
        named = 2 * bool(TIMES.intersection(self.words))
        if self.clock != "number":
            return 3 + named
        return 0 if self.least < 0 else named + (self.counts_from_1970 and self.whole == self.present)


class LogProfile(NamedTuple):
    """A log, its rows and its columns by name."""

    table: LogTable
    rows: int
    columns: dict[str, LogColumn]

    @property
    def name(self) -> str:
        return self.table.relation.name

    def run(self, sql: str) -> list[Any]:
        """The cells of the one row that a query gives."""
        columns = self.table.engine.run(sql, "looking at the rows").columns
        return [column[0].as_py() for column in columns]

    def text(self, name: str) -> str:
        """SQL for a column as text, null where it is missing."""
        here = f"CAST({self.table.engine.column(name)} AS VARCHAR)"
        cells = ", ".join(self.table.engine.text(cell) for cell in ("", *self.table.missing))
        return f"CASE WHEN {here} NOT IN ({cells}) THEN {here} END"


def profile_log(engine: Engine, names: str, missing: tuple[str, ...] = ()) -> LogProfile:
    """What is in the columns of a log: a file, a pattern or a folder. Cells in `missing` mean a missing value."""
    relation = engine.open(files([names]))
    log, columns = LogProfile(LogTable(engine, relation, {}, missing, "s"), 0, {}), list(relation.kinds)
    odd = next((name for name in columns if clock_of([name]) is not None), None)
    if odd is not None:
        raise InputError(f"{relation.name} begins with values ({odd!r:.40}); give its first line the columns' names")
    if len(columns) > MOST_COLUMNS:
        raise InputError(f"{relation.name} has {len(columns):,} columns; at most {MOST_COLUMNS} are looked at")
    figures = [figure for name in columns for figure in _figures(log.text(name))]
    rows, *cells = log.run(f"SELECT COUNT(*), {', '.join(figures)} FROM {relation.sql}")
    if not rows:
        raise InputError(f"{relation.name} has no rows; a log with some tells what its columns are")
    each = len(figures) // len(columns)
    of_name = (cells[each * i : each * (i + 1)] for i in range(len(columns)))
    return log._replace(rows=rows, columns={name: _column(log.table, name, next(of_name)) for name in columns})


def _figures(cell: str) -> list[str]:
    number = f"TRY_CAST({cell} AS DOUBLE)"
    words = ", ".join(f"'{word}'" for word in WORDS_MISSING)
    return [
        f"COUNT({cell})",
        f"APPROX_COUNT_DISTINCT({cell})",
        f"COUNT({number})",
        f"COUNT(*) FILTER (REGEXP_FULL_MATCH({cell}, '[-+]?[0-9]+'))",
        f"MIN({number}) FILTER (ISFINITE({number}))",
        f"MAX({number}) FILTER (ISFINITE({number}))",
        f"COUNT(*) FILTER ({cell} = '-1') > 0 AND MIN({number}) FILTER ({cell} <> '-1') >= 0",
        f"ARRAY_AGG(DISTINCT {cell}) FILTER ({cell} IN ({words}))",
    ]


def _column(table: LogTable, name: str, figures: list[Any]) -> LogColumn:
    present, distinct, numbers, whole, least, most, minus_one, words = figures
    kind = table.relation.kinds[name]
    clocks: dict[str, Clock] = {
        "date": "date",
        "time": "time",
        "zoned": "zoned",
        "whole": "number",
        "number": "number",
    }
    clock = clock_of(sample_cells(table, name)) if kind == "text" and present else clocks.get(kind)
    missing = (*(("-1",) if minus_one and kind in ("text", "whole") else ()), *(words or ()))
    labels = kind in ("text", "whole", "bool")
    low, high = float(least or 0), float(most or 0)
    return LogColumn(name, clock, labels, present, distinct, numbers, whole, low, high, missing)
