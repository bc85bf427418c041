"""calendar: the day, week, month, weekday or hour of a time, on the clocks of a time zone, as portable SQL.

Offsets from UTC are Python's, as numbers in the SQL: so engines need to know no time zone, and give the same.
"""

from datetime import UTC, date, datetime, timedelta
from functools import lru_cache
from zoneinfo import ZoneInfo

from attributary.spec.attribute import Calendar

DAY, HOUR = 86_400 * 10**6, 3_600 * 10**6  # microseconds
FIRST, LAST = 0, 4_102_444_800  # seconds from 1970: what zones are looked at, to 2100
EPOCH = date(1970, 1, 1)  # a Thursday


@lru_cache
def offsets(zone: str) -> tuple[tuple[int, int], ...]:
    """The offsets of a zone's clocks from UTC in seconds, each with the second that it begins at."""
    place = ZoneInfo(zone)

    def offset(second: int) -> int:
        ahead = datetime.fromtimestamp(second, place).utcoffset()
        return 0 if ahead is None else int(ahead.total_seconds())

    found = [(FIRST, offset(FIRST))]
    for day in range(FIRST, LAST, 86_400):
        low, high = day, day + 86_400
        if offset(high) == found[-1][1]:
            continue
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if offset(middle) == found[-1][1] else (low, middle)
        found.append((high, offset(high)))
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
    return (moment if zone is None else moment.astimezone(ZoneInfo(zone))).date()


def place_sql(calendar: Calendar, shown: str, begins: date) -> str:
    """SQL for the place of a time from 0: of days, weeks and months from the one that `begins` is in.

    `shown` is what the clocks show, in microseconds.
    """
    day = f"CAST(FLOOR(({shown}) / {DAY}) AS INT)"
    first = (begins - EPOCH).days
    if calendar == "hour":
        return f"CAST(FLOOR(((({shown}) % {DAY} + {DAY}) % {DAY}) / {HOUR}) AS INT)"
    if calendar == "weekday":
        return f"(({day} + 3) % 7 + 7) % 7"
    if calendar == "day":
        return f"{day} - {first}"
    if calendar == "week":
        return f"CAST(FLOOR(({day} + 3) / 7) AS INT) - {(first + 3) // 7}"
    on = f"(DATE '1970-01-01' + {day})"
    return f"YEAR({on}) * 12 + MONTH({on}) - {begins.year * 12 + begins.month}"
