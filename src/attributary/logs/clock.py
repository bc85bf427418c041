"""clock: how a log tells the time, and the moments that a user names in it."""

import re
from collections.abc import Iterable
from datetime import UTC, date, datetime, timedelta
from math import isfinite
from typing import Literal

from attributary.errors import InputError
from attributary.spec.span import span

Clock = Literal["number", "date", "time", "zoned"]  # time: without a zone
Moment = str | int | float | date | datetime
Unit = Literal["s", "ms", "us", "ns"]

IN_WORDS: dict[Clock, str] = {
    "number": "numbers",
    "date": "dates",
    "time": "times without a time zone",
    "zoned": "times with a time zone",
}
FOR_EXAMPLE: dict[Clock, str] = {
    "number": "a number, as in 3888000, or a span from 0, as in 45d",
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


def clock_of(cells: Iterable[str]) -> Clock | None:
    """The clock of these texts, or None if they are not of one."""
    texts = [cell.strip() for cell in cells]
    return next((clock for clock, shape in SHAPES.items() if all(re.fullmatch(shape, text) for text in texts)), None)


def micros(moment: Moment, clock: Clock, unit: Unit, option: str) -> int:
    """The microseconds from 0 or from 1970 to a moment in the log's clock; `option` is what an error calls it."""
    refusal = InputError(f"{option} is {FOR_EXAMPLE[clock]}, since the log's times are {IN_WORDS[clock]}; got {moment}")
    if isinstance(moment, str):
        moment = _read(moment.strip(), clock, unit, refusal)
    if clock == "number":
        if not isinstance(moment, (int, float)) or not isfinite(moment):
            raise refusal
        return round(moment * 10**6 / PER_SECOND[unit])
    if not isinstance(moment, date):
        raise refusal
    if not isinstance(moment, datetime):
        if clock == "zoned":
            raise refusal
        moment = datetime(moment.year, moment.month, moment.day)
    if (moment.tzinfo is not None) != (clock == "zoned"):
        raise refusal
    return (moment - datetime(1970, 1, 1, tzinfo=UTC if moment.tzinfo else None)) // timedelta(microseconds=1)


def _read(text: str, clock: Clock, unit: Unit, refusal: InputError) -> Moment:
    try:
        if clock != "number":
            return date.fromisoformat(text) if re.fullmatch(SHAPES["date"], text) else datetime.fromisoformat(text)
        if re.fullmatch(SHAPES["number"], text):
            return float(text)
        return span(text).seconds * PER_SECOND[unit]
    except ValueError:
        raise refusal from None
