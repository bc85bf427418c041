"""Event level: what a source says of its event-level reports, which are read and checked but never made."""

from dataclasses import dataclass
from functools import partial
from typing import Any

from attributary.api.ara.client.limits import DAY, UINT32_MAX
from attributary.api.ara.parse.entries import Fields, distinct, each
from attributary.api.ara.parse.findings import Findings, Path
from attributary.api.ara.parse.scalars import INFINITY, clamp, positive, typed, uint64, whole, within

HOUR = 3600
MOST_REPORTS, MOST_TRIGGER_DATA, MOST_WINDOWS = 20, 32, 5
DEFAULT_REPORTS = {"navigation": 3, "event": 1}
DEFAULT_TRIGGER_DATA = {"navigation": 8, "event": 2}
EARLY_WINDOWS = {"navigation": (2 * DAY, 7 * DAY), "event": ()}


@dataclass(frozen=True, slots=True)
class EventReportWindows:
    """When event-level reports are sent: at the end of the window that the trigger falls into, in seconds."""

    start_time: int
    end_times: tuple[int, ...]


def duration(j: Any, path: Path, found: Findings) -> int | None:
    """Seconds, as a number or in a string."""
    if not typed(j, path, found, "a number", "a string"):
        return None
    if isinstance(j, str):
        return uint64(j, path, found)
    return whole(j, path, found, 0, INFINITY, "must be non-negative")


def report_window(j: Any, path: Path, found: Findings, expiry: int | None) -> int | None:
    """A window in seconds: at least an hour, at most until the source expires."""
    seconds = duration(j, path, found)
    if seconds is None:
        return None
    if expiry is None:
        found.error(path, "cannot be fully validated without a valid expiry")
        return None
    return clamp(seconds, path, found, HOUR, expiry, " (expiry)")


def event_windows(fields: Fields, expiry: int | None, source_type: str) -> EventReportWindows | None:
    """The windows that a source asks for in one of two ways, or those of its type."""

    def single(j: Any, path: Path, found: Findings) -> EventReportWindows | None:
        end = report_window(j, path, found, expiry)
        return None if end is None else _until(end, source_type)

    default = None if expiry is None else _until(expiry, source_type)
    several = partial(_windows, expiry=expiry)
    windows: EventReportWindows | None = fields.one(
        {"event_report_window": single, "event_report_windows": several}, default
    )
    return windows


def _until(end: int, source_type: str) -> EventReportWindows:
    return EventReportWindows(0, (*(early for early in EARLY_WINDOWS[source_type] if early < end), end))


def _windows(j: Any, path: Path, found: Findings, expiry: int | None) -> EventReportWindows | None:
    if not typed(j, path, found, "an object"):
        return None
    fields = Fields(j, path, found)
    start = fields.take("start_time", partial(_start, expiry=expiry), 0)
    ends = fields.need("end_times", partial(_ends, expiry=expiry, start=start))
    return EventReportWindows(start, ends) if fields.whole() else None


def _start(j: Any, path: Path, found: Findings, expiry: int | None) -> int | None:
    start = whole(j, path, found)
    if start is not None and expiry is None:
        found.error(path, "cannot be fully validated without a valid expiry")
        return None
    last = expiry or 0
    return within(start, path, found, 0, last, f"must be non-negative and <= expiry ({last})")  # type: ignore[no-any-return]


def _ends(j: Any, path: Path, found: Findings, expiry: int | None, start: int | None) -> tuple[int, ...] | None:
    for name, value in (("start_time", start), ("expiry", expiry)):
        if value is None:
            found.error(path, f"cannot be fully validated without a valid {name}")
            return None
    ends = [start or 0]

    def end(j: Any, path: Path, found: Findings) -> int | None:
        time = positive(j, path, found)
        if time is None:
            return None
        time = clamp(time, path, found, HOUR, expiry or 0, " (expiry)")
        previous = "start_time" if len(ends) == 1 else "previous end_time"
        if time <= ends[-1]:
            found.error(path, f"must be > {previous} ({ends[-1]})")
            return None
        ends.append(time)
        return time

    return each(j, path, found, end, 1, MOST_WINDOWS, stop=True)


def max_reports(j: Any, path: Path, found: Findings) -> int | None:
    return whole(j, path, found, 0, MOST_REPORTS)


def trigger_data(j: Any, path: Path, found: Findings) -> tuple[int, ...] | None:
    """The values that event-level reports may tell apart."""
    return distinct(j, path, found, partial(whole, low=0, high=UINT32_MAX), 0, MOST_TRIGGER_DATA, strict=True)
