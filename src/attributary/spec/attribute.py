"""Attribute: one level of the tree; known to the impression, or unknown to it and with a domain."""

import re
from collections.abc import Iterator
from contextlib import suppress
from datetime import date, datetime
from decimal import Decimal
from functools import cached_property
from itertools import pairwise
from math import isfinite
from typing import Annotated, Any, Literal, NamedTuple
from zoneinfo import ZoneInfo

from pydantic import AfterValidator, BeforeValidator, Field, PlainSerializer, PlainValidator

from attributary.spec.measure import Targets
from attributary.spec.mistakes import Listed, Mistake, Name, Section, value_in_words
from attributary.types import Record

Calendar = Literal["day", "week", "month", "weekday", "hour"]
CALENDARS: dict[str, tuple[str, ...]] = {  # those with values of their own; of the others, places are counted from 1
    "weekday": ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"),
    "hour": tuple(f"{hour:02}" for hour in range(24)),
}
DOMAINS = ("domain", "range", "bucket", "calendar")  # the ways to give one; a bucket goes with buckets and start
LARGEST = 10_000_000  # values in a domain
LEAST, FURTHEST = 1e-9, 1e15  # of a bucket's width, and of where it is
TAKEN = {
    *("node", "parent", "level", "total", "impressions", "conversions", "contribution"),
    *("noisy", "noise_variance", "estimate", "variance", "low", "high", "correction"),
}  # the other columns of our tables
SECONDS = {"s": 1, "m": 60, "h": 3_600, "d": 86_400, "w": 604_800}
ZONE = 'a time zone, as in "UTC" or "Europe/Berlin"'
A_SPAN = 'a whole number of seconds, minutes, hours, days or weeks, as in "90s", "30m", "6h", "2d" or "1w"'


def _label(value: object) -> Any:
    """A label as text, as Arrow writes it; what cannot be one is left for pydantic to refuse."""
    if isinstance(value, str) and value.strip() in ("", "*"):  # which stand for no label, and for all
        raise ValueError
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float) and isfinite(value):
        return _plain(Decimal(repr(value)))
    if isinstance(value, date) and not isinstance(value, datetime):
        return value.isoformat()
    return value


def _zone(name: str) -> str:
    """The name of a time zone that is known."""
    try:
        ZoneInfo(name)
    except (KeyError, OSError, ValueError):  # no such name, a folder of them, or no path at all
        raise ValueError(ZONE) from None
    return name


def _start(value: Any) -> float | int | str:
    if isinstance(value, str):
        span(value)
    elif not _is_number(value):
        raise ValueError
    return value  # type: ignore[no-any-return]


def _width(value: object) -> float | int | str:
    """The width of a bucket: a number or a span, above 0."""
    width = _start(value)
    if (span(width).number if isinstance(width, str) else width) < LEAST:
        raise ValueError
    return width


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= FURTHEST


Label = Annotated[str, BeforeValidator(_label)]


class Attribute(Targets):
    """An attribute of impressions or conversions, such as campaign or day.

    One that is known takes the values that occur in the impressions; one that is unknown is queried at all values
    of its domain, whether they occur or not (the paper's section 3.1).
    """

    name: Name = Field(description='the name of a column, as in name = "campaign"')
    unknown: bool = Field(default=False, description="true if only a conversion has it, else false")
    domain: Listed[Label] | None = Field(
        default=None,
        min_length=1,
        description='a list of all values it can take, text or numbers, as in ["Monday", "Tuesday"]',
    )
    range: tuple[int, int] | None = Field(
        default=None, strict=False, description="two whole numbers, the first and the last value, as in [1, 31]"
    )
    bucket: Annotated[int | float | str, PlainValidator(_width)] | None = Field(
        default=None, description='how wide a bucket is, above 0: a number up to 1e15, or a time as in "2d" or "6h"'
    )
    buckets: int | None = Field(
        default=None, ge=1, le=LARGEST, description=f"how many buckets there are, 1 to {LARGEST:,}"
    )
    start: Annotated[int | float | str, PlainValidator(_start)] | None = Field(
        default=None, description='where the first bucket begins: a number, or a time as in "1d"'
    )
    calendar: Calendar | None = Field(
        default=None, description='a part of the time of its row: "day", "week", "month", "weekday" or "hour"'
    )
    timezone: Annotated[str, AfterValidator(_zone)] | None = Field(default=None, description=ZONE)

    @classmethod
    def mistakes(cls, given: Record) -> Iterator[Mistake]:
        """What is wrong between the keys of an attribute, whatever else is wrong with them."""
        yield from super().mistakes(given)
        name, ways = given.get("name"), [way for way in DOMAINS if way in given]
        if isinstance(name, str) and name in TAKEN:
            yield Mistake("name", f"{name!r} is the name of a column that our tables add; rename it")
        if given.get("unknown") is True:
            for way in ways[1:]:
                yield Mistake(way, f"a domain is given in one way; got {ways[0]} too: keep one of them")
        elif ways and ways != ["calendar"]:
            rule = f"a known attribute takes the values that occur; add unknown = true to {name!r}, or leave it out"
            yield Mistake(ways[0], rule)
        if "bucket" in given and "buckets" not in given:
            yield Mistake("buckets", "is missing; say how many, as in buckets = 15")
        calendar, unknown = given.get("calendar"), given.get("unknown") is True
        if calendar is None and "timezone" in given:
            yield Mistake("timezone", 'goes with calendar, which is missing; say which, as in calendar = "weekday"')
        if calendar is not None and "buckets" in given and (not unknown or calendar in CALENDARS):
            why = f"has {calendar}s of its own" if unknown else "takes the values that occur"
            yield Mistake("buckets", f'calendar = "{calendar}" {why}; leave it out')
        if calendar is not None and "buckets" not in given and unknown and calendar not in CALENDARS:
            yield Mistake("buckets", f"is missing; say how many {calendar}s a period has, as in buckets = 31")
        for key in ("buckets", "start"):
            if key in given and "bucket" not in given and (key == "start" or "calendar" not in given):
                yield Mistake(key, 'goes with bucket, which is missing; say how wide they are, as in bucket = "2d"')
        yield from _wrong_domain(given)

    @property
    def occurs(self) -> bool:
        """Whether only a conversion has it, and its values are those that occur."""
        return self.unknown and all(way is None for way in (self.domain, self.range, self.bucket, self.calendar))

    @property
    def size(self) -> int:
        """How many values the domain has."""
        if self.domain is not None:
            return len(self.domain)
        if self.calendar in CALENDARS:
            return len(CALENDARS[self.calendar])
        if self.range is not None:
            return self.range[1] - self.range[0] + 1
        if self.buckets is not None:
            return self.buckets
        raise ValueError(f"the values of a known attribute are those that occur; {self.name!r} has no domain")

    @cached_property
    def labels(self) -> tuple[str, ...]:
        """The domain's values as text, in order; a bucket is named by its ends, as in 0-2d, and the last is outside."""
        if self.domain is not None:
            return self.domain
        if self.calendar is not None:
            return CALENDARS.get(self.calendar) or tuple(str(place + 1) for place in range(self.size))
        if self.range is not None:
            return tuple(map(str, range(self.range[0], self.range[1] + 1)))
        places, unit = range(self.size + 1), ""
        if isinstance(self.bucket, str):
            width, start = span(self.bucket), span(self.start or "0w")
            unit = min(width.unit, start.unit, key=SECONDS.__getitem__)
            step, first = (Decimal(each.seconds // SECONDS[unit]) for each in (width, start))
        else:
            step, first = Decimal(repr(self.bucket)), Decimal(repr(self.start or 0))
        ends = (_plain(first + place * step) for place in places)
        return tuple(f"{low}-{high}{unit}" for low, high in pairwise(ends))

    def label_at(self, moment: datetime, begins: date) -> str:
        """The label of a time, of one that has a `calendar`; places are counted from the day that a period `begins`.

        A moment with a time zone is shown by the clocks of the attribute's, if it has one.
        """
        there = moment.astimezone(ZoneInfo(self.timezone)) if self.timezone and moment.tzinfo else moment
        day, first = there.toordinal(), begins.toordinal()
        places = {
            "hour": there.hour,
            "weekday": there.weekday(),
            "day": day - first,
            "week": (day - 1) // 7 - (first - 1) // 7,  # day 1 is a Monday
            "month": 12 * (there.year - begins.year) + there.month - begins.month,
        }
        place = places[self.calendar or "day"]
        return CALENDARS[self.calendar][place] if self.calendar in CALENDARS else str(place + 1)


def _plain(number: Decimal) -> str:
    return f"{number.normalize():f}"


def _wrong_domain(given: Record) -> Iterator[Mistake]:
    domain, ends = given.get("domain"), given.get("range")
    if isinstance(domain, list | tuple):
        seen: set[object] = set()
        for value in domain:
            with suppress(ValueError, TypeError):  # another mistake, reported as such
                label = _label(value)
                if label in seen:
                    rule = f"values are distinct; got {value_in_words(value)} twice: leave one out"
                    yield Mistake("domain", rule)
                    break
                seen.add(label)
        if len(domain) > LARGEST:
            yield Mistake("domain", f"a domain has at most {LARGEST:,} values; got {len(domain):,}")
    if isinstance(ends, list | tuple) and len(ends) == 2 and all(isinstance(end, int) for end in ends):
        low, high = ends
        if not low <= high:
            yield Mistake("range", f"the first value comes first; got {value_in_words(ends)}: swap them")
        elif high - low >= LARGEST:
            yield Mistake("range", f"a domain has at most {LARGEST:,} values; got {high - low + 1:,}: use buckets")
    if isinstance(given.get("bucket"), str) != isinstance(given.get("start", 0), str) and given.get("start", 0) != 0:
        yield Mistake("start", "is a number where bucket is one, and a time where bucket is one; make them alike")


class Span(NamedTuple):
    """A length of time, as in 2d."""

    number: int
    unit: str  # s, m, h, d or w

    @property
    def seconds(self) -> int:
        return self.number * SECONDS[self.unit]


def span(text: object) -> Span:
    """The span that a text names; a ValueError where it names none."""
    match = re.fullmatch(r"\s*(\d{1,9})\s*([smhdw])\s*", text) if isinstance(text, str) else None
    if not match:
        raise ValueError(A_SPAN)
    return Span(int(match[1]), match[2])


# Logs: where impressions and conversions are, and what their columns are called.

PAIR = ("impressions", "conversions")  # keys of two logs that are yet to be joined
ROWS = ("attributed", "converted", "conversion_time", "delay")  # keys of one whose rows have their conversions
FILES = 'a file or a list of files, as in "logs/*.parquet"'
COLUMNS = 'a table of names, as in {campaign = "cmp_id"}: the name in the spec, then the name in the file'

CONDITIONS = (
    "a table of columns, each with a value, a list of values, {not = a list}, or {from = a number, until = a number}, "
    'as in {country = ["DE", "AT"], status = {not = ["void"]}, price = {from = 1}}'
)

Cell = str | int | float


def _window(text: str) -> str:
    if span(text).number == 0:
        raise ValueError
    return text


class Condition(NamedTuple):
    """Which rows count, by one column: those with a value, those without, or with a number in a range."""

    values: tuple[Cell, ...] | None = None
    without: tuple[Cell, ...] | None = None
    least: float | None = None
    below: float | None = None


def _condition(given: Any) -> Condition:
    if isinstance(given, Condition):
        return given
    cells = given if isinstance(given, dict) else {"in": given}
    lists = {key: _cells(value) for key, value in cells.items() if key in ("in", "not")}
    ends = {key: value for key, value in cells.items() if key in ("from", "until")}
    if not cells or len(lists) + len(ends) < len(cells) or not all(map(_is_number, ends.values())):
        raise ValueError
    return Condition(lists.get("in"), lists.get("not"), ends.get("from"), ends.get("until"))


def _cells(given: object) -> tuple[Cell, ...]:
    cells = tuple(given) if isinstance(given, list | tuple) else (given,)
    if not cells or not all(isinstance(cell, bool | str) or _is_number(cell) for cell in cells):
        raise ValueError
    return tuple(str(cell).lower() if isinstance(cell, bool) else cell for cell in cells)


def _given(condition: Condition) -> Record:
    """A condition as a spec has it."""
    keys = zip(("in", "not", "from", "until"), condition, strict=True)
    return {key: list(value) if isinstance(value, tuple) else value for key, value in keys if value is not None}


Where = dict[Name, Annotated[Condition, PlainValidator(_condition), PlainSerializer(_given)]]
Files = Annotated[
    Listed[Name], Field(min_length=1), BeforeValidator(lambda files: (files,) if isinstance(files, str) else files)
]


class Logs(Section):
    """The section [logs] of a spec: two logs to be joined, or one whose rows have their conversions.

    Files are relative to the spec's folder. Columns are called as the spec calls them, the attributes by their names;
    where a file calls one otherwise, `impression_columns` or `conversion_columns` says so.
    """

    impressions: Files | None = Field(default=None, description=FILES)
    conversions: Files | None = Field(default=None, description=FILES)
    attributed: Files | None = Field(default=None, description=FILES)
    user: Name | None = Field(default=None, description="the column that joins a conversion to its impressions")
    keys: Listed[Name] = Field(
        default=(), description='a list of further columns that both must agree in, as in ["advertiser"]'
    )
    time: Name | None = Field(default=None, description="the column that says when")
    window: Annotated[str, AfterValidator(_window)] | None = Field(default=None, description=A_SPAN)
    converted: Name | None = Field(default=None, description="the column that is 1 or true where there is a conversion")
    conversion_time: Name | None = Field(default=None, description="the column that says when the conversion was")
    delay: Name | None = Field(default=None, description="the column of the time from impression to conversion")
    time_unit: Literal["s", "ms", "us", "ns"] = Field(
        default="s", description='the unit of times that are numbers: "s", "ms", "us" or "ns"'
    )
    timezone: Annotated[str, AfterValidator(_zone)] | None = Field(default=None, description=ZONE)
    missing: Listed[Cell] = Field(default=(), description='a list of cells that mean a missing value, as in [-1, "NA"]')
    other: Listed[Name] = Field(
        default=(),
        description='a list of attributes whose values outside of the domain count as its value "other", as in ["day"]',
    )
    header: Listed[Name] | None = Field(
        default=None,
        min_length=1,
        description="a list of the column names of a text file that does not begin with them",
    )
    impression_columns: dict[Name, Name] = Field(default={}, description=COLUMNS)
    conversion_columns: dict[Name, Name] = Field(default={}, description=COLUMNS)
    impressions_where: Where = Field(default={}, description=CONDITIONS)
    conversions_where: Where = Field(default={}, description=CONDITIONS)

    @classmethod
    def mistakes(cls, given: Record) -> Iterator[Mistake]:
        """What is wrong between the keys of the section, whatever else is wrong with them."""
        rows, pair = ([key for key in keys if key in given] for keys in (ROWS, PAIR))
        if rows and pair:
            rule = f"is of a log whose rows have their conversions, and {pair[0]} of two that are yet to be joined"
            yield Mistake(rows[0], f"{rule}; keep one")
        if rows and given.get("conversions_where"):
            yield Mistake("conversions_where", "is of two logs; the rows of one log are chosen by impressions_where")
        if "delay" in given and "conversion_time" in given:
            yield Mistake("delay", "either says when a conversion was; got conversion_time too: keep one of them")
        if given.get("keys") and "user" not in given:
            yield Mistake("user", 'is missing; keys go with it, as in user = "user"')

    @property
    def is_attributed(self) -> bool:
        """Whether the rows have their conversions already."""
        return any(getattr(self, key) is not None for key in ROWS)

    @property
    def window_seconds(self) -> int | None:
        return None if self.window is None else span(self.window).seconds
