"""times: how a log tells the time, the moments that a user names in it, and times as SQL for whole microseconds."""

import re
from collections.abc import Iterable
from datetime import UTC, date, datetime, timedelta
from math import isfinite
from typing import Literal, NamedTuple

from attributary.errors import InputError
from attributary.logs.log_columns import (
    SAMPLE,
    Doubt,
    LogTable,
    Unit,
    find_column,
    number,
    present,
    sample_cells,
    wrong_kind,
)
from attributary.spec import Logs
from attributary.spec.attribute import span

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
    "zoned": "a time with its zone, as in 2026-03-01T12:00Z",
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


def moment_micros(moment: Moment, clock: Clock, unit: Unit, option: str) -> int:
    """The microseconds from 0 or from 1970 to a moment in the log's clock; `option` is what an error calls it.

    For a clock of numbers, dates and times without a zone are UTC's.
    """
    refusal = InputError(
        f"{option} is {FOR_EXAMPLE[clock]}, since the log's times are {CLOCK_WORDS[clock]}; got {moment}"
    )
    if isinstance(moment, str):
        moment = _read_moment(moment.strip(), clock, unit, refusal)
    if clock == "number" and isinstance(moment, (int, float)) and isfinite(moment):
        return round(moment * 10**6 / PER_SECOND[unit])
    if not isinstance(moment, date):
        raise refusal
    if not isinstance(moment, datetime):
        if clock == "zoned":
            raise refusal
        moment = datetime(moment.year, moment.month, moment.day)
    if clock != "number" and (moment.tzinfo is not None) != (clock == "zoned"):
        raise refusal
    return (moment - datetime(1970, 1, 1, tzinfo=UTC if moment.tzinfo else None)) // timedelta(microseconds=1)


def _read_moment(text: str, clock: Clock, unit: Unit, refusal: InputError) -> Moment:
    try:
        if clock == "number" and re.fullmatch(SHAPES["number"], text):
            return float(text)
        if clock == "number" and not IS_DATE.match(text):
            return span(text).seconds * PER_SECOND[unit]
        return date.fromisoformat(text) if re.fullmatch(SHAPES["date"], text) else datetime.fromisoformat(text)
    except ValueError:
        raise refusal from None


class Period(NamedTuple):
    """From `since` on, and before `until`; None for no end."""

    since: Moment | None = None
    until: Moment | None = None

    @property
    def is_all(self) -> bool:
        return self.since is None and self.until is None

    @property
    def has_dates(self) -> bool:
        """Whether a date or a time is one of its ends, rather than a number or a span."""
        return any(isinstance(end, date) or IS_DATE.match(str(end).strip()) for end in self)

    def holds(self, column: str, clock: Clock, unit: Unit, times: int = 1) -> str:
        """SQL that holds where a column of microseconds, or of so many times as many, is in the period or null."""
        since = None if self.since is None else moment_micros(self.since, clock, unit, "the period's beginning")
        until = None if self.until is None else moment_micros(self.until, clock, unit, "the period's end")
        if since is not None and until is not None and not since < until:
            raise InputError(
                f"a period must begin before it ends; got {self.since} as the beginning, {self.until} as the end"
            )
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


def refuse_dates(log: LogTable, time: str, clock: Clock, period: Period) -> None:
    """Refuses a date for numbers that do not count from 1970: it would be after all of them."""
    if clock != "number" or not period.has_dates:
        return
    first = f"SELECT {time} AS time FROM {log.relation.sql} LIMIT {SAMPLE}"
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
    log.doubt(
        column, f"TRY_CAST({{0}} AS {type_}) IS NULL OR {odd}", f"{CLOCK_WORDS[clock]} are needed, as in the first rows"
    )
    value = log.engine.micros(f"CAST({present(log, column, 'text')} AS {type_})", clock)
    fails = f"CAST(CONCAT('not alike: ', {here}) AS BIGINT)"
    return f"CASE WHEN {odd.format(here)} THEN {fails} ELSE {value} END"
