"""event_level: what a source says of its event-level reports, and how much they could tell, which the API limits.

Event-level reports are read and checked as browsers do, but never made.
"""

from dataclasses import dataclass
from functools import lru_cache, partial
from math import comb, exp, log2
from typing import Any

from attributary.api.ara.parse.browser_limits import DAY, UINT32_MAX, BrowserLimits
from attributary.api.ara.parse.findings import Findings, Path
from attributary.api.ara.parse.json_fields import (
    INFINITY,
    Fields,
    clamp,
    distinct,
    each,
    positive,
    short,
    string,
    typed,
    uint64,
    whole,
    within,
)
from attributary.noise.randomised_response import LARGEST_EPSILON, response_rate

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


def duration(j: Any, path: Path, findings: Findings) -> int | None:
    """Seconds, as a number or in a string."""
    if not typed(j, path, findings, "a number", "a string"):
        return None
    if isinstance(j, str):
        return uint64(j, path, findings)
    return whole(j, path, findings, 0, INFINITY, "must be non-negative")


def report_window(j: Any, path: Path, findings: Findings, expiry: int | None) -> int | None:
    """A window in seconds: at least an hour, at most until the source expires."""
    seconds = duration(j, path, findings)
    if seconds is None:
        return None
    if expiry is None:
        findings.error(path, "cannot be fully validated without a valid expiry")
        return None
    return clamp(seconds, path, findings, HOUR, expiry, " (expiry)")


def event_windows(fields: Fields, expiry: int | None, source_type: str) -> EventReportWindows | None:
    """The windows that a source asks for in one of two ways, or those of its type."""

    def single(j: Any, path: Path, findings: Findings) -> EventReportWindows | None:
        end = report_window(j, path, findings, expiry)
        return None if end is None else _until(end, source_type)

    default = None if expiry is None else _until(expiry, source_type)
    several = partial(_windows, expiry=expiry)
    windows: EventReportWindows | None = fields.one(
        {"event_report_window": single, "event_report_windows": several}, default
    )
    return windows


def _until(end: int, source_type: str) -> EventReportWindows:
    return EventReportWindows(0, (*(early for early in EARLY_WINDOWS[source_type] if early < end), end))


def _windows(j: Any, path: Path, findings: Findings, expiry: int | None) -> EventReportWindows | None:
    if not typed(j, path, findings, "an object"):
        return None
    fields = Fields(j, path, findings)
    start = fields.take("start_time", partial(_start, expiry=expiry), 0)
    ends = fields.need("end_times", partial(_ends, expiry=expiry, start=start))
    return EventReportWindows(start, ends) if fields.whole() else None


def _start(j: Any, path: Path, findings: Findings, expiry: int | None) -> int | None:
    start = whole(j, path, findings)
    if start is not None and expiry is None:
        findings.error(path, "cannot be fully validated without a valid expiry")
        return None
    last = expiry or 0
    return within(start, path, findings, 0, last, f"must be non-negative and <= expiry ({last})")  # type: ignore[no-any-return]


def _ends(j: Any, path: Path, findings: Findings, expiry: int | None, start: int | None) -> tuple[int, ...] | None:
    for name, value in (("start_time", start), ("expiry", expiry)):
        if value is None:
            findings.error(path, f"cannot be fully validated without a valid {name}")
            return None
    ends = [start or 0]

    def end(j: Any, path: Path, findings: Findings) -> int | None:
        time = positive(j, path, findings)
        if time is None:
            return None
        time = clamp(time, path, findings, HOUR, expiry or 0, " (expiry)")
        previous = "start_time" if len(ends) == 1 else "previous end_time"
        if time <= ends[-1]:
            findings.error(path, f"must be > {previous} ({ends[-1]})")
            return None
        ends.append(time)
        return time

    return each(j, path, findings, end, 1, MOST_WINDOWS, stop=True)


def max_reports(j: Any, path: Path, findings: Findings) -> int | None:
    return whole(j, path, findings, 0, MOST_REPORTS)


def trigger_data(j: Any, path: Path, findings: Findings) -> tuple[int, ...] | None:
    """The values that event-level reports may tell apart."""
    return distinct(j, path, findings, partial(whole, low=0, high=UINT32_MAX), 0, MOST_TRIGGER_DATA, strict=True)


MOST_SCOPES, LONGEST_SCOPE, DEFAULT_STATES = 20, 50, 3


@dataclass(frozen=True, slots=True)
class AttributionScopes:
    """The scopes of a source, how many there may be, and how many event states each may take."""

    limit: int
    values: tuple[str, ...]
    max_event_states: int


def attribution_scopes(j: Any, path: Path, findings: Findings, limits: BrowserLimits) -> AttributionScopes | None:
    if not typed(j, path, findings, "an object"):
        return None
    fields = Fields(j, path, findings)
    limit = fields.need("limit", partial(whole, low=1, high=UINT32_MAX))
    values = fields.need("values", partial(_scopes, limit=limit))
    states = fields.take("max_event_states", partial(whole, low=1, high=limits.trigger_states), DEFAULT_STATES)
    return AttributionScopes(limit, values, states) if fields.whole() else None


def _scopes(j: Any, path: Path, findings: Findings, limit: int | None) -> tuple[str, ...] | None:
    values = distinct(j, path, findings, _scope)
    if values is None:
        return None
    if limit is None:
        findings.error(path, "cannot be fully validated without a valid limit")
        return None
    if not values:
        findings.error(path, "must be non-empty if limit is set")
        return None
    most, what = (limit, "limit") if limit < MOST_SCOPES else (MOST_SCOPES, "max number of attribution scopes")
    message = f"size must be less than or equal to {what} ({most}) if limit is set"
    return None if within(len(values), path, findings, 1, most, message) is None else values


def _scope(j: Any, path: Path, findings: Findings) -> str | None:
    text = string(j, path, findings)
    fits = text is not None and short(text, path, findings, LONGEST_SCOPE, "exceeds max length per attribution scope")
    return text if fits else None


STATES = "number of possible output states"


def check_capacity(
    findings: Findings,
    limits: BrowserLimits,
    source_type: str,
    reports: int,
    data: int,
    windows: EventReportWindows,
    epsilon: float,
    scopes: AttributionScopes | None,
    note: bool,
) -> None:
    """Find an error where the states of a source's event-level reports are too many or tell too much.

    In the order of Chromium, which reports the first limit alone.
    """
    navigation = source_type == "navigation"
    most = limits.channel_capacity_navigation if navigation else limits.channel_capacity_event
    most_scoped = limits.scopes_channel_capacity_navigation if navigation else limits.scopes_channel_capacity_event
    states = output_states(data, len(windows.end_times), reports)
    if states > limits.trigger_states:
        findings.exceeds(
            "trigger-state-cardinality", f"{STATES} ({states}) exceeds max cardinality ({limits.trigger_states})"
        )
    _gain(
        findings,
        "channel-capacity",
        "information gain",
        information_gain(states, epsilon),
        f"max event-level channel capacity per {source_type} source",
        most,
        note,
    )
    if scopes and source_type == "event" and states > scopes.max_event_states:
        findings.exceeds(
            "max-event-states", f"{STATES} ({states}) exceeds max event states ({scopes.max_event_states})"
        )
    if scopes:
        _gain(
            findings,
            "scopes-channel-capacity",
            "information gain for attribution scope",
            log2(states + scopes.max_event_states * (scopes.limit - 1)),
            f"max event-level attribution scope information gain per {source_type} source",
            most_scoped,
            note,
        )
    if note:
        findings.note((), f"{STATES}: {states}")
        findings.note((), f"randomized trigger rate: {response_rate(states, epsilon):.7f}")


def output_states(data: int, windows: int, reports: int) -> int:
    """What a source's event-level reports may be: so many of them at most, each with a trigger data and a window."""
    return comb(data * windows + reports, reports)


@lru_cache(maxsize=256)
def information_gain(states: int, epsilon: float) -> float:
    """The capacity in bits of the channel that randomised response is: q-ary symmetric."""
    if states == 1 or epsilon <= 0:
        return 0.0
    odds = exp(min(epsilon, LARGEST_EPSILON))  # of the true state against one other; both parts stay above 0
    right, wrong = odds / (states - 1 + odds), (states - 1) / (states - 1 + odds)
    entropy = -wrong * log2(wrong) - right * log2(right)
    return log2(states) - entropy - wrong * log2(states - 1)


def _gain(findings: Findings, name: str, what: str, gain: float, limit_name: str, limit: float, note: bool) -> None:
    if gain > limit:
        findings.exceeds(name, f"{what}: {gain:.2f} exceeds {limit_name} ({limit:.2f})")
    elif note:
        findings.note((), f"{what}: {gain:.2f}")
