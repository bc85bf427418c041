"""log_columns: the columns of a log as SQL, each for its role: a label, a key, a number, a flag, a time."""

import re
from bisect import bisect_left
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from functools import lru_cache
from math import isfinite
from typing import Literal, NamedTuple
from zoneinfo import ZoneInfo

from attributary.errors import InputError, did_you_mean, first_few
from attributary.logs.labels import is_number
from attributary.logs.log_files import Engine, Kind, Relation
from attributary.spec import Logs
from attributary.spec.attribute import Calendar, Condition, span
from attributary.tables.table_columns import refuse_grouped

Unit = Literal["s", "ms", "us", "ns"]

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
    where: str = ""  # SQL that holds for the rows that count

    @property
    def rows(self) -> str:
        """What stands after FROM: the rows that count."""
        return f"(SELECT * FROM {self.relation.sql} WHERE {self.where}) AS chosen" if self.where else self.relation.sql

    def doubt(self, column: str, bad: str, needed: str) -> None:
        """Notes that a column of text may hold what is not `needed`; {0} stands for it in `bad`."""
        here = present(self, column, "text")
        self.doubts.append(Doubt(column, f"{here} IS NOT NULL AND ({bad.format(f'({here})')})", needed))


def label(log: LogTable, name: str) -> str:
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


def conditions(log: LogTable, where: Mapping[str, Condition]) -> str:
    """SQL that holds for the rows that meet all conditions; a missing value meets only those that exclude values."""
    parts = []
    for name, (values, without, least, below) in where.items():
        column, kind = find_column(log, name)
        here = present(log, column, kind)
        if kind == "other":
            raise wrong_kind(log, column, "conditions are on text, numbers or dates")
        as_text = f"CAST({here} AS STRING)" if kind not in ("text", "number") else here
        amount = number(log, name) if least is not None or below is not None else ""
        for cells, holds in ((values, "IN ({}), FALSE"), (without, "NOT IN ({}), TRUE")):
            if cells is not None:
                named = [repr(float(cell)) for cell in cells if not isinstance(cell, str)]
                named = named if kind == "number" else [log.engine.text(str(cell)) for cell in cells]
                if len(named) < len(cells):
                    got = f"{', '.join(map(str, cells)):.80}"
                    raise wrong_kind(log, column, f"a condition on it names numbers; got {got}")
                parts.append(f"COALESCE({as_text} {holds.format(', '.join(named))})")
        parts += [f"COALESCE({amount} >= {float(least)!r}, FALSE)"] if least is not None else []
        parts += [f"COALESCE({amount} < {float(below)!r}, FALSE)"] if below is not None else []
    return " AND ".join(parts)


def find_column(log: LogTable, name: str) -> tuple[str, Kind]:
    """The file's column of that name, or the one that the spec says it is called, and its kind."""
    column, kinds = log.names.get(name, name), log.relation.kinds
    if column not in kinds:
        called = "" if column == name else f" for {name!r}"
        raise InputError(
            f"{log.relation.name} has no column {column!r}{called}; {did_you_mean(column, kinds)}its columns are "
            f"{first_few(kinds)}: name it in impression_columns or conversion_columns"
        )
    return column, kinds[column]


def present(log: LogTable, column: str, kind: Kind) -> str:
    """The column, null where it holds what the spec says means missing."""
    here = log.engine.column(column)
    if kind == "text":
        cells = [log.engine.text(cell) for cell in ("", *log.missing)]
    elif kind in ("whole", "number"):
        cells = [cell for cell in log.missing if is_number(cell) and (kind == "number" or float(cell).is_integer())]
    else:
        cells = []
    return f"CASE WHEN {here} NOT IN ({', '.join(cells)}) THEN {here} END" if cells else here


def sample_cells(log: LogTable, column: str) -> list[str]:
    """Some cells of a column of text, the missing ones left out."""
    here = present(log, column, "text")
    all_cells = f"SELECT {here} AS cell FROM {log.rows}"
    sql = f"SELECT cell FROM ({all_cells}) AS cells WHERE cell IS NOT NULL LIMIT {SAMPLE}"
    cells: list[str] = log.engine.run(sql, "looking at the first rows").column("cell").to_pylist()
    return cells


def wrong_kind(log: LogTable, column: str, needed: str) -> InputError:
    return InputError(f"{log.relation.name}: column {column!r} is {log.relation.types[column]}; {needed}")


def comma_list(expressions: Iterable[str]) -> str:
    """A list to follow another one in SQL: each expression after a comma."""
    return "".join(f", {expression}" for expression in expressions)


Clock = Literal["number", "date", "time", "zoned"]  # time: without a zone
Moment = str | int | float | date | datetime

CLOCK_WORDS: dict[Clock, str] = {
    "number": "numbers",
    "date": "dates",
    "time": "times without a time zone",
    "zoned": "times with a time zone",
}
FOR_EXAMPLE: dict[Clock, str] = {
    "number": "a number, as in 3888000, a span from 0, as in 45d, or, if they count from 1970, a date or a time",
    "date": "a date, as in 2026-03-01",
    "time": "a time without a zone, as in 2026-03-01T12:00",
    "zoned": "a date or a time, as in 2026-03-01 or 2026-03-01T12:00Z",
}
PER_SECOND: dict[Unit, int] = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
SHAPES: dict[Clock, str] = {
    "number": r"[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?",
    "date": r"\d{4}-\d\d-\d\d",
    "time": r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d(:\d\d([.,]\d+)?)?",
    "zoned": r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d(:\d\d([.,]\d+)?)? ?(Z|UTC|[-+]\d\d(:?\d\d)?)",
}

IS_DATE = re.compile(SHAPES["date"])


def clock_of(cells: Iterable[str]) -> Clock | None:
    """The clock of these texts, or None if they are not of one."""
    texts = [cell.strip() for cell in cells]
    return next((clock for clock, shape in SHAPES.items() if all(re.fullmatch(shape, text) for text in texts)), None)


def moment_micros(moment: Moment, clock: Clock, unit: Unit, option: str, zone: str | None = None) -> int:
    """The microseconds from 0 or from 1970 to a moment in the log's clock; `option` is what an error calls it.

    For a clock of instants, dates and times without a zone are those of `zone`, or else of UTC. A log without zones is
    on the clocks of `zone`, if that is stated.
    """
    refusal = InputError(
        f"{option} is {FOR_EXAMPLE[clock]}, since the log's times are {CLOCK_WORDS[clock]}; got {moment}"
    )
    if isinstance(moment, str):
        text = moment.strip()
        try:
            if clock == "number" and re.fullmatch(SHAPES["number"], text):
                moment = float(text)
            elif clock == "number" and not IS_DATE.match(text):
                moment = span(text).seconds * PER_SECOND[unit]
            else:
                is_day = re.fullmatch(SHAPES["date"], text) is not None
                moment = date.fromisoformat(text) if is_day else datetime.fromisoformat(text)
        except ValueError:
            raise refusal from None
    if clock == "number" and isinstance(moment, (int, float)) and isfinite(moment):
        return round(moment * 10**6 / PER_SECOND[unit])
    if not isinstance(moment, date):
        raise refusal
    if not isinstance(moment, datetime):
        moment = datetime(moment.year, moment.month, moment.day)
    if clock in ("number", "zoned"):
        moment = moment if moment.tzinfo else moment.replace(tzinfo=ZoneInfo(zone or "UTC"))
    elif moment.tzinfo is not None:
        if zone is None or clock == "date":
            raise refusal
        moment = moment.astimezone(ZoneInfo(zone)).replace(tzinfo=None)
    return (moment - datetime(1970, 1, 1, tzinfo=UTC if moment.tzinfo else None)) // timedelta(microseconds=1)


class Period(NamedTuple):
    """From `since` on, and before `until`; None for no end."""

    since: Moment | None = None
    until: Moment | None = None
    zone: str | None = None  # of dates and times that name none

    @property
    def is_all(self) -> bool:
        return self.since is None and self.until is None

    @property
    def has_dates(self) -> bool:
        """Whether a date or a time is one of its ends, rather than a number or a span."""
        return any(isinstance(end, date) or IS_DATE.match(str(end).strip()) for end in self[:2])

    def words(self, clock: Clock) -> str:
        """Which clock its dates and times without a zone are read on; nothing where there is no choice."""
        bare = [str(end).strip() for end in self[:2] if getattr(end, "tzinfo", None) is None]
        bare = [end for end in bare if IS_DATE.match(end) and not re.fullmatch(SHAPES["zoned"], end)]
        return f"{' and '.join(bare)}: read in {self.zone or 'UTC'}" if bare and clock in ("number", "zoned") else ""

    def end_micros(self, end: Literal["since", "until"], clock: Clock, unit: Unit) -> int | None:
        """One end in the log's clock, in microseconds."""
        moment = self.since if end == "since" else self.until
        words = f"the period's {'beginning' if end == 'since' else 'end'}"
        return None if moment is None else moment_micros(moment, clock, unit, words, self.zone)

    def holds(self, column: str, clock: Clock, unit: Unit, times: int = 1) -> str:
        """SQL that holds where a column of microseconds, or of so many times as many, is in the period or null."""
        since, until = self.end_micros("since", clock, unit), self.end_micros("until", clock, unit)
        if since is not None and until is not None and not since < until:
            got = f"{self.since} as the beginning, {self.until} as the end"
            raise InputError(f"a period must begin before it ends; got {got}")
        ends = [f"{column} >= {times * since}"] if since is not None else []
        ends += [f"{column} < {times * until}"] if until is not None else []
        return f"({column} IS NULL OR ({' AND '.join(ends)}))" if ends else "TRUE"


EARLIEST = 315_532_800  # seconds from 1970 to 1980: below it, numbers count from a beginning of their own
LATEST = 4_102_444_800  # seconds from 1970 to 2100
ENDLESS = 2**62 - 1  # microseconds, which 64 bits hold twice
IS_ZONED = "{0} LIKE '%Z' OR {0} LIKE '%UTC' OR SUBSTRING({0}, 12) LIKE '%+%' OR SUBSTRING({0}, 12) LIKE '%-%'"


def time_of(log: LogTable, name: str, like: Clock | None = None) -> tuple[str, Clock]:
    """The column in microseconds from 0 or from 1970, and its clock: that of `like` where no cell of text tells."""
    column, kind = find_column(log, name)
    if kind in ("whole", "number"):
        return _number_time(log, name), "number"
    if kind in ("date", "time", "zoned"):
        return log.engine.micros(log.engine.column(column), kind), kind
    if kind != "text":
        raise wrong_kind(log, column, "times are numbers, dates or timestamps")
    cells = sample_cells(log, column)
    clock = clock_of(cells) if cells or like is None else like
    if clock is None:
        odd = next(cell for cell in cells if clock_of([cell]) != clock_of(cells[:1]) or clock_of([cell]) is None)
        raise InputError(
            f"{log.relation.name}: column {column!r} has {cells[0]!r} and {odd!r}; times are numbers, or as in "
            "2026-03-01, 2026-03-01T12:00:00 or 2026-03-01T12:00:00Z, all in one form"
        )
    return (_number_time(log, name) if clock == "number" else _text_time(log, column, clock)), clock


def refuse_no_epoch(log: LogTable, time: str) -> None:
    """Refuses numbers that do not count from 1970 where dates are needed: these would be after all of them."""
    first = f"SELECT {time} AS time FROM {log.rows} LIMIT {SAMPLE}"
    last = log.engine.run(f"SELECT MAX(time) AS last FROM ({first}) AS times").column("last")[0].as_py()
    if last is not None and last < EARLIEST * 10**6:
        raise InputError(
            f"dates are for times that count from 1970; those of {log.relation.name} are numbers near "
            f"{last * PER_SECOND[log.unit] // 10**6}: give a number, or a span from 0, as in 45d (is time_unit right?)"
        )


def _number_time(log: LogTable, name: str) -> str:
    """A column of numbers as microseconds; times past 2100 are in another unit, and would make most windows end."""
    column, kind = find_column(log, name)
    value = present(log, column, kind) if kind == "whole" else number(log, name)
    late = f"{value} >= {LATEST * PER_SECOND[log.unit]}"
    finer = " or ".join(f'"{unit}"' for unit in PER_SECOND if PER_SECOND[unit] > PER_SECOND[log.unit])
    remedy = f"say time_unit = {finer} in [logs]" if finer else "correct it"
    rule = f"times in {log.unit} from 1970 are out of range past 2100: is time_unit right? {remedy}"
    log.doubts.append(Doubt(column, late, rule))
    return f"CASE WHEN {late} THEN CAST(CONCAT('past 2100: ', {value}) AS BIGINT) ELSE {duration_of(log, name)} END"


def duration_of(log: LogTable, name: str) -> str:
    """The column, a length of time in the unit that the spec says, in microseconds."""
    column, kind = find_column(log, name)
    per = PER_SECOND[log.unit]
    if kind == "whole" and per <= 10**6:
        return f"CAST({present(log, column, kind)} AS BIGINT) * {10**6 // per}"
    scaled = f"{number(log, name)} * {10**6 // per}" if per <= 10**6 else f"{number(log, name)} / {per // 10**6}"
    return f"CAST(ROUND({scaled}) AS BIGINT)"


def window_micros(logs: Logs) -> int:
    """The window in microseconds; without one, more than any time is after another."""
    return ENDLESS if logs.window_seconds is None else min(ENDLESS, logs.window_seconds * 10**6)


def _text_time(log: LogTable, column: str, clock: Clock) -> str:
    """Engines read a zone where there is none, and none where there is one: what is not alike must not pass."""
    here, type_ = log.engine.column(column), log.engine.types[clock]
    odd = {"date": "LENGTH({0}) <> 10", "time": IS_ZONED, "zoned": f"NOT ({IS_ZONED})"}[clock]
    needed = f"{CLOCK_WORDS[clock]} are needed, as in the first rows"
    log.doubt(column, f"TRY_CAST({{0}} AS {type_}) IS NULL OR {odd}", needed)
    value = log.engine.micros(f"CAST({present(log, column, 'text')} AS {type_})", clock)
    fails = f"CAST(CONCAT('not alike: ', {here}) AS BIGINT)"
    return f"CASE WHEN {odd.format(here)} THEN {fails} ELSE {value} END"


# The day, week, month, weekday or hour of a time, on the clocks of a time zone. Offsets from UTC are Python's, as
# numbers in the SQL: so engines need to know no time zone, and give the same.

DAY, HOUR = 86_400 * 10**6, 3_600 * 10**6  # microseconds
EPOCH = date(1970, 1, 1)  # a Thursday


@lru_cache
def offsets(zone: str) -> tuple[tuple[int, int], ...]:
    """The offsets of a zone's clocks from UTC in seconds, each with the second that it begins at."""
    place = ZoneInfo(zone)

    def offset(second: int) -> int:
        ahead = datetime.fromtimestamp(second, place).utcoffset()
        return 0 if ahead is None else int(ahead.total_seconds())

    found = [(0, offset(0))]
    for day in range(0, LATEST, 86_400):
        if offset(day + 86_400) != found[-1][1]:
            seconds = range(day + 1, day + 86_401)
            begins = seconds[bisect_left(seconds, True, key=lambda second: offset(second) != found[-1][1])]
            found.append((begins, offset(begins)))
    return tuple(found)


def on_clocks(micros: str, zone: str | None) -> str:
    """SQL for what the clocks of a zone show at an instant, in microseconds; of None, the clocks are the log's own."""
    if zone is None:
        return micros
    parts = [(begins * 10**6, str(offset * 10**6)) for begins, offset in offsets(zone)]
    while len(parts) > 1:  # a balanced tree of comparisons
        pairs = zip(parts[::2], parts[1::2], strict=False)
        joined = [(a[0], f"CASE WHEN {micros} < {b[0]} THEN {a[1]} ELSE {b[1]} END") for a, b in pairs]
        parts = joined + (parts[-1:] if len(parts) % 2 else [])
    return f"({micros} + {parts[0][1]})"


def day_of(micros: int, zone: str | None) -> date:
    """The day that the clocks of a zone show at an instant."""
    moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=micros)
    return moment.astimezone(ZoneInfo(zone or "UTC")).date()


def place_sql(calendar: Calendar, shown: str, begins: date) -> str:
    """SQL for the place of a time from 0: of days, weeks and months from the one that `begins` is in.

    `shown` is what the clocks show, in microseconds.
    """
    day = f"CAST(FLOOR(({shown}) / {DAY}) AS INT)"
    first, on = (begins - EPOCH).days, f"(DATE '1970-01-01' + {day})"
    return {
        "hour": f"CAST(FLOOR(((({shown}) % {DAY} + {DAY}) % {DAY}) / {HOUR}) AS INT)",
        "weekday": f"(({day} + 3) % 7 + 7) % 7",
        "day": f"{day} - {first}",
        "week": f"CAST(FLOOR(({day} + 3) / 7) AS INT) - {(first + 3) // 7}",
        "month": f"YEAR({on}) * 12 + MONTH({on}) - {begins.year * 12 + begins.month}",
    }[calendar]
