"""Source: what an ad-tech server registers for an impression; event-level reports are read and checked, too."""

from collections.abc import Mapping, Set
from dataclasses import dataclass
from functools import cache, lru_cache, partial
from math import comb, exp, log2
from typing import NamedTuple

from attributary.api.ara.parse import both_headers as both
from attributary.api.ara.parse import json_fields as read
from attributary.api.ara.parse.json_fields import Fields, Findings, Json, Parsed, Reader
from attributary.noise.randomised_response import LARGEST_EPSILON, response_rate

HOUR = 3600
MOST_KEYS, LONGEST_KEY, MOST_BUDGETS, LONGEST_BUDGET = 20, 25, 25, 25
LONGEST_EXPIRY = 30 * both.DAY
MOST_REPORTS, MOST_TRIGGER_DATA, MOST_WINDOWS = 20, 32, 5
DEFAULT_REPORTS = {"navigation": 3, "event": 1}
DEFAULT_TRIGGER_DATA = {"navigation": 8, "event": 2}
EARLY_WINDOWS = {"navigation": (2 * both.DAY, 7 * both.DAY), "event": ()}
MOST_SCOPES, LONGEST_SCOPE, DEFAULT_STATES = 20, 50, 3


class EventReportWindows(NamedTuple):
    """When event-level reports are sent: at the end of the window that the trigger falls into, in seconds."""

    start_time: int
    end_times: tuple[int, ...]


class AttributionScopes(NamedTuple):
    """The scopes of a source, how many there may be, and how many event states each may take."""

    limit: int
    values: tuple[str, ...]
    max_event_states: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """A source registration as a client understands it: checked, clamped, with its defaults; times in seconds."""

    destination: tuple[str, ...]
    source_type: str
    aggregation_keys: Mapping[str, int]
    filter_data: Mapping[str, Set[str]]
    expiry: int
    aggregatable_report_window: int
    priority: int
    source_event_id: int
    debug_key: int | None
    debug_reporting: bool
    destination_limit_priority: int
    aggregatable_debug_reporting: both.DebugReporting | None
    named_budgets: Mapping[str, int]
    attribution_scopes: AttributionScopes | None
    event_level_epsilon: float
    event_report_windows: EventReportWindows
    max_event_level_reports: int
    trigger_data: tuple[int, ...]
    trigger_data_matching: str


def source(
    text: str, source_type: str = "navigation", limits: both.BrowserLimits = both.DEFAULT, note_gain: bool = False
) -> Parsed[Source]:
    """A source registration from the JSON of its header, or why it is refused.

    `source_type` is "navigation" for a click, "event" for a view; `note_gain` adds what event-level reports could tell.
    """
    if source_type not in DEFAULT_REPORTS:
        raise ValueError(f"source_type must be one of {', '.join(DEFAULT_REPORTS)}; got {source_type!r}")

    def checked(j: Json) -> Source:
        value = _source(source_type, limits)(j)
        numbers = value.trigger_data
        if value.trigger_data_matching == "modulus" and sorted(numbers) != list(range(len(numbers))):
            contiguous = "trigger_data must form a contiguous sequence of integers starting at 0 for modulus"
            raise j.at("trigger_data_matching").error(contiguous)
        _check_event_level(value, j.findings, limits, note_gain)
        return value

    return read.parsed(text, checked)


@cache
def _source(source_type: str, limits: both.BrowserLimits) -> Reader[Source]:
    most, data = limits.event_level_epsilon, tuple(range(DEFAULT_TRIGGER_DATA[source_type]))
    numbers = read.distinct(read.whole(0, both.UINT32_MAX), 0, MOST_TRIGGER_DATA, strict=True)
    scopes = read.record(
        AttributionScopes,
        limit=read.required(read.whole(1, both.UINT32_MAX)),
        values=read.required(_scopes, after="limit"),
        max_event_states=read.optional(read.whole(1, limits.trigger_states), DEFAULT_STATES),
    )
    return read.record(
        partial(Source, source_type=source_type),
        expiry=read.optional(partial(_expiry, source_type), LONGEST_EXPIRY),
        event_report_windows=partial(_event_windows, source_type),
        max_event_level_reports=read.optional(read.whole(0, MOST_REPORTS), DEFAULT_REPORTS[source_type]),
        trigger_data=read.optional(numbers, data),
        aggregatable_report_window=_aggregatable_window,
        aggregation_keys=read.optional(_keys, {}),
        destination=read.required(_destinations),
        event_level_epsilon=read.optional(lambda j: j.within(read.number(j), 0, most), most),
        filter_data=read.optional(both.filter_data, {}),
        source_event_id=read.optional(read.uint64, 0),
        aggregatable_debug_reporting=read.lenient(both.debug_reporting(both.SOURCE_TYPES, limits, budgeted=True)),
        trigger_data_matching=read.optional(read.one_of("exact", "modulus"), "modulus"),
        destination_limit_priority=read.optional(read.int64, 0),
        attribution_scopes=read.optional(scopes),
        named_budgets=read.optional(_budgets, {}),
        debug_key=read.lenient(read.uint64),
        debug_reporting=read.lenient(read.boolean, False),
        priority=read.optional(read.int64, 0),
    )


def _site(j: Json) -> str:
    url = read.address(j)
    if url.more_than_site:
        j.warning(f"URL components other than site ({url.site}) will be ignored")
    if url.public_suffix:
        words = "is a public suffix, which no one site has, and does not match the sites below it"
        j.warning(f"{url.site} {words}: write the whole domain, as in https://shop.example")
    return url.site


# The sites where a source may be attributed: one, or a list of up to three.
_destinations = read.one_or_list(("a string", "a list"), _site, read.distinct(_site, 1, 3))


def _expiry(source_type: str, j: Json) -> int:
    seconds = j.clamp(_duration(j), both.DAY, LONGEST_EXPIRY, "")
    days = (seconds + both.DAY // 2) // both.DAY * both.DAY
    if source_type == "event" and days != seconds:
        j.warning(f"will be rounded to nearest day ({days}) as source type is event")
        return days
    return seconds


_short_key = read.short_keyed(LONGEST_KEY, "key exceeds max length per aggregation key identifier", read.hex128)
_keys = read.entries(_short_key, MOST_KEYS)
_budget = read.short_keyed(LONGEST_BUDGET, "name exceeds max length per budget name", read.whole(0, both.BUDGET))
_budgets = read.entries(_budget, MOST_BUDGETS)


def _duration(j: Json) -> int:
    """Seconds, as a number or in a string."""
    j.typed("a number", "a string")
    return read.uint64(j) if j.is_a("a string") else read.whole(0, read.INFINITY, "must be non-negative")(j)


def _aggregatable_window(fields: Fields, name: str) -> int | None:
    expiry: int | None = fields.values["expiry"]
    window: int | None = fields.take(name, partial(_report_window, expiry), expiry)
    return window


def _report_window(expiry: int | None, j: Json) -> int:
    """A window in seconds: at least an hour, at most until the source expires."""
    seconds = _duration(j)
    return j.clamp(seconds, HOUR, j.needs("expiry", expiry), " (expiry)")


def _event_windows(source_type: str, fields: Fields, _name: str) -> EventReportWindows | None:
    """The windows that a source asks for in one of two ways, or those of its type."""
    expiry: int | None = fields.values["expiry"]

    def until(end: int) -> EventReportWindows:
        return EventReportWindows(0, (*(time for time in EARLY_WINDOWS[source_type] if time < end), end))

    readers: dict[str, Reader[EventReportWindows]] = {
        "event_report_window": lambda j: until(_report_window(expiry, j)),
        "event_report_windows": read.record(
            EventReportWindows,
            start_time=read.optional(partial(_start, expiry), 0),
            end_times=read.required(partial(_ends, expiry), after="start_time"),
        ),
    }
    here = [name for name in readers if name in fields.j.value]
    windows: list[EventReportWindows | None] = [fields.take(name, readers[name]) for name in here]
    if len(here) > 1:
        fields.refuse(fields.j, f"mutually exclusive fields: {', '.join(here)}")
    return windows[0] if here else None if expiry is None else until(expiry)


def _start(expiry: int | None, j: Json) -> int:
    start = read.whole()(j)
    last = j.needs("expiry", expiry)
    return j.within(start, 0, last, f"must be non-negative and <= expiry ({last})")


def _ends(expiry: int | None, start: int | None, j: Json) -> tuple[int, ...]:
    ends, last = [j.needs("start_time", start)], j.needs("expiry", expiry)

    def end(j: Json) -> int:
        time = j.clamp(read.positive(j), HOUR, last, " (expiry)")
        before = "start_time" if len(ends) == 1 else "previous end_time"
        ends.append(j.within(time, ends[-1] + 1, last, f"must be > {before} ({ends[-1]})"))
        return time

    return read.each(end, 1, MOST_WINDOWS, stop=True)(j)


def _scopes(limit: int | None, j: Json) -> tuple[str, ...]:
    values = read.distinct(read.short_string(LONGEST_SCOPE, "exceeds max length per attribution scope"))(j)
    limit = j.needs("limit", limit)
    if not values:
        raise j.error("must be non-empty if limit is set")
    most, what = (limit, "limit") if limit < MOST_SCOPES else (MOST_SCOPES, "max number of attribution scopes")
    j.within(len(values), 1, most, f"size must be less than or equal to {what} ({most}) if limit is set")
    return values


STATES = "number of possible output states"


def _check_event_level(value: Source, findings: Findings, limits: both.BrowserLimits, note: bool) -> None:
    """Find an error where the states of a source's event-level reports are too many or tell too much.

    In the order of Chromium, which reports the first limit alone.
    """
    reports, data, scopes = value.max_event_level_reports, len(value.trigger_data), value.attribution_scopes
    kind, epsilon = value.source_type, value.event_level_epsilon
    per = f"per {kind} source"

    def gain(name: str, what: str, bits: float, limit_name: str, limit: float) -> None:
        if bits > limit:
            findings.exceeds(name, f"{what}: {bits:.2f} exceeds {limit_name} ({limit:.2f})")
        elif note:
            findings.note(f"{what}: {bits:.2f}")

    states = output_states(data, len(value.event_report_windows.end_times), reports)
    if states > limits.trigger_states:
        words = f"{STATES} ({states}) exceeds max cardinality ({limits.trigger_states})"
        findings.exceeds("trigger-state-cardinality", words)
    most, bits = getattr(limits, f"channel_capacity_{kind}"), information_gain(states, epsilon)
    gain("channel-capacity", "information gain", bits, f"max event-level channel capacity {per}", most)
    if scopes:
        if kind == "event" and states > scopes.max_event_states:
            words = f"{STATES} ({states}) exceeds max event states ({scopes.max_event_states})"
            findings.exceeds("max-event-states", words)
        most = getattr(limits, f"scopes_channel_capacity_{kind}")
        bits = log2(states + scopes.max_event_states * (scopes.limit - 1))
        what, named = "information gain for attribution scope", "max event-level attribution scope information gain"
        gain("scopes-channel-capacity", what, bits, f"{named} {per}", most)
    if note:
        findings.note(f"{STATES}: {states}")
        findings.note(f"randomized trigger rate: {response_rate(states, epsilon):.7f}")
    always = "event-level attribution will always fail because"
    if reports and not data:
        findings.warning((), f"max_event_level_reports > 0 but {always} trigger_specs is empty")
    if data and not reports:
        findings.warning((), f"trigger_specs non-empty but {always} max_event_level_reports = 0")


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
