"""Client: a browser in memory: sources in, triggers in, reports of the Attribution Reporting API out."""

from collections import Counter
from collections.abc import Mapping, Sequence, Set
from functools import lru_cache
from random import Random, SystemRandom
from typing import NamedTuple, TypeVar

from attributary.api.ara import parse
from attributary.api.ara.parse import Parsed, Source, Trigger
from attributary.api.ara.parse.both_headers import DEFAULT, BrowserLimits, FilterConfig, FilterPair
from attributary.api.ara.parse.trigger_header import DeduplicationKey, EventTriggerDatum, KeyValues, NamedBudget
from attributary.api.ara.wire.payload import Contribution
from attributary.api.sites import Url, parse_url
from attributary.browsers.ara_storage import Attribution, Conversion, Storage, Stored, attribution, nulls, store
from attributary.errors import InputError, brief

INVALID = "header-parsing-error"
STORED = "source-success"
SUCCESS, NOT_REGISTERED = "success", "not-registered"
LONGEST_KEPT = 8192  # characters
Filtered = TypeVar("Filtered", DeduplicationKey, EventTriggerDatum, KeyValues, NamedBudget)


class SourceResult(NamedTuple):
    """What became of a source: "source-success", "header-parsing-error", or the API's name of the limit it met."""

    outcome: str
    parsed: Parsed[Source]


class TriggerResult(NamedTuple):
    """What became of a trigger: "success", "header-parsing-error", or the API's name of what stood in the way.

    "not-registered" is one that asks for no aggregatable report.
    `attributions` are the reports that came of it, null reports included; each is sent when it is due.
    """

    outcome: str
    parsed: Parsed[Trigger]
    attributions: tuple[Attribution, ...] = ()


class Client:
    """One browser. Times are whole milliseconds since 1970 and never go back; chance is drawn from `rng`.

    `outcomes` counts what became of triggers; "trigger-aggregate-no-contributions" is one whose values are not for its
    source, such as an impression that was registered under another plan.
    """

    __slots__ = ("_limits", "_rng", "_storage", "_time", "outcomes")

    def __init__(self, limits: BrowserLimits = DEFAULT, rng: Random | None = None) -> None:
        self._limits, self._rng, self._time = limits, rng or SystemRandom(), 0
        self._storage, self.outcomes = Storage(limits), Counter[str]()

    def source(
        self, header: str, *, page: str, reporter: str, time: int, source_type: str = "navigation", debug: bool = False
    ) -> SourceResult:
        """Register an impression: the JSON of its header, the page it was on, the server that sent it.

        `source_type` is "navigation" for a click, "event" for a view; `debug` says whether debug keys are allowed.
        """
        on, by = _url(page), _url(reporter)
        self.advance(time)
        parsed = (_kept_source if len(header) <= LONGEST_KEPT else parse.source)(header, source_type, self._limits)
        if parsed.value is None:
            return SourceResult(parsed.limit or INVALID, parsed)
        self._storage.number += 1
        stored = store(parsed.value, self._storage.number, time, on, by, debug)
        return SourceResult(self._storage.admit(stored) or STORED, parsed)

    def trigger(self, header: str, *, page: str, reporter: str, time: int, debug: bool = False) -> TriggerResult:
        """Register a conversion: the JSON of its header, the page it was on, the server that sent it."""
        on, by = _url(page), _url(reporter)
        self.advance(time)
        parsed = (_kept_trigger if len(header) <= LONGEST_KEPT else parse.trigger)(header, self._limits)
        trigger = parsed.value
        if trigger is None:
            return TriggerResult(INVALID, parsed)
        conversion = Conversion(trigger, on.site, by.origin, time)
        key = trigger.debug_key if debug else None
        outcome, real, stored = attribute(conversion, key, self._storage, self._rng)
        self.outcomes[outcome] += 1
        if not asks(trigger):
            return TriggerResult(outcome, parsed)
        null = nulls(conversion, stored.time if stored else None, self._limits, self._rng)
        for value in null:
            self._storage.hold(value, None)
        return TriggerResult(outcome, parsed, (*([real] if real else []), *null))

    def advance(self, time: int) -> None:
        """Let time pass: sources expire, and reports that are due are sent."""
        if not time >= self._time:
            raise ValueError(f"time must not go back: it is {self._time} ms; got {time}")
        self._time = time
        self._storage.advance(time)

    def sent(self, until: int | None = None) -> list[Attribution]:
        """The reports sent since the last call, in the order they were due: until a time, or else all that wait.

        Time passes with it: what is registered later must not come before the last report.
        """
        last = self._storage.last if until is None else until
        if last is not None:
            self.advance(max(last, self._time) if until is None else until)
        sent, self._storage.sent = self._storage.sent, []
        return sent


# The same headers come again and again, and those that are not huge are kept.
_kept_source = lru_cache(maxsize=4096)(parse.source)
_kept_trigger = lru_cache(maxsize=4096)(parse.trigger)


def _url(text: str) -> Url:
    url = parse_url(text)
    if url is None or not url.trustworthy:
        raise InputError(f"a page or server must be an https address, as in https://shop.example; got {brief(text)}")
    return url


def attribute(
    of: Conversion, debug_key: int | None, storage: Storage, rng: Random
) -> tuple[str, Attribution | None, Stored | None]:
    """What became of a trigger, by the API's name for it; and where it has a report, that and its source.

    The order is that of the specification. Once the filters of the whole trigger match, the other sources are gone,
    whatever comes of it. Event-level reports are not made; that one would be made counts for the reporting origins.
    """
    trigger = of.trigger
    why, stored = _matching(of, storage)
    if stored is None:
        return why, None, None
    age = (of.time - stored.time) / 1000
    event = _event(stored, age, trigger)
    dedup = _first(stored.data, age, trigger.aggregatable_deduplication_keys)
    once = dedup.deduplication_key if dedup else None
    made = contributions(stored.source.aggregation_keys, stored.data, age, trigger)
    why = _first_true(
        {
            NOT_REGISTERED: not asks(trigger),
            "trigger-aggregate-report-window-passed": of.time >= stored.window_ends,
            "trigger-aggregate-deduplicated": once in stored.deduplication_keys,
            "trigger-aggregate-no-contributions": not made,
            "trigger-aggregate-storage-limit": storage.crowded(of.destination),
            "trigger-aggregate-attributions-per-source-destination-limit": storage.exhausted(stored, of),
        }
    )
    if (event or not why) and storage.too_many_reporters(stored, of):
        why = "trigger-reporting-origin-limit" if why in ("", NOT_REGISTERED) else why
    elif event and _event_fits(stored, age, event):
        storage.count(stored, of.destination)
    named = _first(stored.data, age, trigger.named_budgets)
    name = named.name if named else None
    spent, left = sum(contribution.value for contribution in made), stored.named_budgets
    # Reports with a context id come for every trigger, so their number reveals nothing and is not limited.
    counted = trigger.trigger_context_id is None
    why = why or _first_true(
        {
            "trigger-aggregate-excessive-reports": counted and stored.reports >= storage.limits.reports_per_source,
            "trigger-aggregate-insufficient-budget": spent > stored.budget,
            "trigger-aggregate-insufficient-named-budget": name in left and spent > left[name],
        }
    )
    if why:  # the report is dropped whole, and nothing of the budget is spent
        return why, None, None
    stored.budget -= spent
    if name in left:
        left[name] -= spent
    stored.reports += 1
    if once is not None:
        stored.deduplication_keys.add(once)
    keys = (stored.debug_key, debug_key)
    real = attribution(of, made, stored.time, keys, storage.limits, rng)
    storage.hold(real, stored)
    return SUCCESS, real, stored


def asks(trigger: Trigger) -> bool:
    return bool(trigger.aggregatable_trigger_data) or any(one.values for one in trigger.aggregatable_values)


def _matching(of: Conversion, storage: Storage) -> tuple[str, Stored | None]:
    """The source that a trigger is attributed to, where it passes the filters; or why there is none."""
    if not asks(of.trigger) and not of.trigger.event_trigger_data:
        return NOT_REGISTERED, None
    if not (matching := storage.matching(of)):
        return "trigger-no-matching-source", None
    stored, *others = matching
    if not matches(stored.data, (of.time - stored.time) / 1000, of.trigger.filters):
        return "trigger-no-matching-filter-data", None
    for other in others:
        other.alive = False
    return "", stored


def _first_true(refused: Mapping[str, bool]) -> str:
    return next((why for why, is_refused in refused.items() if is_refused), "")


def _event(stored: Stored, age: float, trigger: Trigger) -> EventTriggerDatum | None:
    """What an event-level report of this age would tell, if the source would have one."""
    source, windows = stored.source, stored.source.event_report_windows
    datum = _first(stored.data, age, trigger.event_trigger_data)
    if datum is None or datum.deduplication_key in stored.event_deduplication_keys:
        return None
    exact = source.trigger_data_matching == "exact"
    if not source.trigger_data or (exact and datum.trigger_data not in source.trigger_data):
        return None
    return datum if windows.start_time <= age < windows.end_times[-1] else None


def _event_fits(stored: Stored, age: float, datum: EventTriggerDatum) -> bool:
    """Whether a source has room for an event-level report, which a lower priority in the same window makes."""
    end = next(end for end in stored.source.event_report_windows.end_times if age < end)
    if len(stored.event_reports) >= stored.source.max_event_level_reports:
        lowest = min((report for report in stored.event_reports if report[0] == end), default=None)
        if lowest is None or datum.priority <= lowest[1]:
            return False
        stored.event_reports.remove(lowest)
    stored.event_reports.append((end, datum.priority))
    if datum.deduplication_key is not None:
        stored.event_deduplication_keys.add(datum.deduplication_key)
    return True


def contributions(
    keys: Mapping[str, int], data: Mapping[str, Set[str]], age: float, trigger: Trigger
) -> tuple[Contribution, ...]:
    """One contribution for each of the source's keys that has a value, in the order of their names, as in Chromium.

    Each key is the source's piece OR the pieces of all trigger data that name it and whose filters the source, with
    this filter data and age in seconds, passes. Of several lists of values the first match counts.
    """
    first = _first(data, age, trigger.aggregatable_values)
    whole = dict(keys)
    for datum in trigger.aggregatable_trigger_data:
        if matches(data, age, datum.filters):
            whole |= {name: whole[name] | datum.key_piece for name in datum.source_keys if name in whole}
    values = first.values if first else {}
    return tuple(Contribution(key, *values[name]) for name, key in sorted(whole.items()) if name in values)


def _first(data: Mapping[str, Set[str]], age: float, several: Sequence[Filtered]) -> Filtered | None:
    """The first of several whose filters a source passes."""
    return next((each for each in several if matches(data, age, each.filters)), None)


def matches(data: Mapping[str, Set[str]], age: float, pair: FilterPair) -> bool:
    """Whether a source with this filter data (its source_type included) and age in seconds passes the pair."""
    sides = ((pair.positive, False), (pair.negative, True))
    return all(not configs or any(_all(data, age, one, negated) for one in configs) for configs, negated in sides)


def _all(data: Mapping[str, Set[str]], age: float, config: FilterConfig, negated: bool) -> bool:
    """Whether each key matches, or for a negated configuration, each does not; a key that the source lacks is ignored.

    Negation is by key and not of the whole: {a: [1], b: [2]} negated is neither a = 1 nor b = 2.
    """
    if config.lookback_window is not None and (age <= config.lookback_window) == negated:
        return False
    pairs = ((data[key], values) for key, values in config.map.items() if key in data)
    # Asking for no value is met only by a source that has none.
    return all((not mine.isdisjoint(values) if values else not mine) != negated for mine, values in pairs)
