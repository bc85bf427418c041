"""What a client remembers: sources, found by where they may be attributed, reports not yet due, and limits on both.

Reports are in the clear until they are sent: real ones, and the null reports that hide them.
"""

import uuid
from collections.abc import Hashable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from itertools import chain
from random import Random
from typing import NamedTuple

from attributary.api.ara.parse import Source, Trigger
from attributary.api.ara.parse.both_headers import BUDGET, DAY, BrowserLimits
from attributary.api.ara.wire.aggregatable_report import IN_THE_CLEAR, Report, build
from attributary.api.ara.wire.payload import Contribution
from attributary.api.ara.wire.shared_info import SharedInfo
from attributary.api.sites import Url

WELL_KNOWN = "/.well-known/attribution-reporting/report-aggregate-attribution"
DAYS = 31  # a source is at most 30 days old: it may have come on each of these days


@dataclass(frozen=True, slots=True)
class Attribution:
    """What a report will say, and when it is due in milliseconds; a null report has no contributions."""

    report_id: str
    due: int
    destination: str
    reporting_origin: str
    contributions: tuple[Contribution, ...]
    coordinator: str
    id_bytes: int = 1
    source_registration_time: int | None = None  # in seconds, by the day
    source_debug_key: int | None = None
    trigger_debug_key: int | None = None
    trigger_context_id: str | None = None

    @property
    def is_null(self) -> bool:
        return not self.contributions

    @property
    def url(self) -> str:
        """Where the report is sent."""
        return self.reporting_origin + WELL_KNOWN

    @property
    def debug(self) -> bool:
        """Whether both sides asked for a report in the clear, and were allowed to."""
        return self.source_debug_key is not None and self.trigger_debug_key is not None


class Conversion(NamedTuple):
    """A trigger, and where and when it was registered, in milliseconds."""

    trigger: Trigger
    destination: str
    reporting_origin: str
    time: int


def attribution(
    of: Conversion,
    contributed: tuple[Contribution, ...],
    source_time: int | None,
    debug_keys: tuple[int | None, int | None],
    limits: BrowserLimits,
    rng: Random,
) -> Attribution:
    """The report of a trigger; it includes the day of the source only if the trigger asks for it."""
    trigger, wait = of.trigger, 0
    if not at_once(trigger):
        wait = 1000 * limits.minimum_delay + round(rng.uniform(0, 1000 * limits.delay_span))
    with_time = trigger.aggregatable_source_registration_time == "include" and source_time is not None
    return Attribution(
        str(uuid.UUID(int=rng.getrandbits(128), version=4)),
        of.time + wait,
        of.destination,
        of.reporting_origin,
        contributed,
        trigger.aggregation_coordinator_origin,
        trigger.aggregatable_filtering_id_max_bytes,
        day(source_time) if with_time and source_time is not None else None,
        *((None, None) if None in debug_keys else debug_keys),
        trigger.trigger_context_id,
    )


def nulls(of: Conversion, source_time: int | None, limits: BrowserLimits, rng: Random) -> list[Attribution]:
    """The null reports beside the real one (from a source of this time) or in its place, which hide whether it is real.

    If reports include the day of the source, there may be one for each other day; otherwise only a missing report is
    replaced, always so if its absence would be noticed.
    """
    if of.trigger.aggregatable_source_registration_time == "include":
        shown = None if source_time is None else day(source_time)
        days = (of.time - 1000 * DAY * i for i in range(DAYS))
        rate = limits.null_rate_per_day
        times = [t for t in days if rng.random() < rate and day(t) != shown] if rate > 0 else []
    else:
        rate = 1.0 if at_once(of.trigger) else limits.null_rate
        times = [of.time] if source_time is None and rng.random() < rate else []
    return [attribution(of, (), time, (None, None), limits, rng) for time in times]


def at_once(trigger: Trigger) -> bool:
    """Whether a report is sent for every trigger without delay, so that its presence and its time reveal nothing."""
    return trigger.trigger_context_id is not None or trigger.aggregatable_filtering_id_max_bytes != 1


def day(time: int) -> int:
    """The first second of the day that a time in milliseconds falls into."""
    return time // (1000 * DAY) * DAY


def report(value: Attribution, public_key: bytes | None = None, key_id: str = IN_THE_CLEAR) -> Report:
    """The report as it is sent: encrypted for a key, or without one in the clear."""
    info = SharedInfo(
        value.report_id,
        value.reporting_origin,
        value.due // 1000,
        value.destination,
        value.source_registration_time,
        debug_mode=value.debug,
    )
    members = {
        "aggregation_coordinator_origin": value.coordinator,
        "source_debug_key": value.source_debug_key,
        "trigger_context_id": value.trigger_context_id,
        "trigger_debug_key": value.trigger_debug_key,
    }
    others = {name: str(member) for name, member in members.items() if member is not None}
    return build(value.contributions, info, public_key, key_id, value.id_bytes, others)


@dataclass(slots=True, eq=False)
class Stored:
    """A source, where it came from, and what became of it; times in milliseconds."""

    source: Source
    number: int
    time: int
    origin: str
    site: str
    reporting_origin: str
    reporting_site: str
    debug_key: int | None
    expires: int
    window_ends: int
    data: Mapping[str, Set[str]]
    budget: int
    named_budgets: dict[str, int]
    reports: int = 0
    event_reports: list[tuple[int, int]] = field(default_factory=list)  # the end of its window, and its priority
    event_deduplication_keys: set[int] = field(default_factory=set)
    deduplication_keys: set[int] = field(default_factory=set)
    alive: bool = True  # whether a trigger may be attributed to it; its destinations count until it expires

    @property
    def sites(self) -> tuple[str, str]:
        return (self.site, self.reporting_site)


def store(source: Source, number: int, time: int, page: Url, reporter: Url, debug: bool) -> Stored:
    """A source that is new; what it sets aside for debug reports is not for others."""
    debugging = source.aggregatable_debug_reporting
    return Stored(
        source,
        number,
        time,
        *(page.origin, page.site, reporter.origin, reporter.site),
        source.debug_key if debug else None,
        time + 1000 * source.expiry,
        time + 1000 * source.aggregatable_report_window,
        {**source.filter_data, "source_type": {source.source_type}},
        BUDGET - ((debugging.budget or 0) if debugging else 0),
        dict(source.named_budgets),
    )


class Held(NamedTuple):
    """A report that is not yet due, and its source; a null report has none."""

    due: int
    number: int
    value: Attribution
    stored: Stored | None


class Counted(NamedTuple):
    """An attribution as limits count it; of an event-level report without a number."""

    sites: tuple[str, str]  # of the source, and the destination
    reporting_site: str
    reporting_origin: str
    source_time: int
    number: int | None


class Distinct:
    """For each key, the distinct values of the last `span` milliseconds, of which there may be up to a limit."""

    __slots__ = ("_limit", "_seen", "_span")

    def __init__(self, limit: int, span: int) -> None:
        self._limit, self._span = limit, span
        self._seen: dict[Hashable, dict[str, int]] = {}

    def allows(self, key: Hashable, values: Iterable[str], time: int) -> bool:
        """Whether the values could be added without more than the limit."""
        seen = {value for value, last in self._seen.get(key, {}).items() if last > time - self._span}
        return seen.issuperset(values) or len(seen.union(values)) <= self._limit

    def add(self, key: Hashable, values: Iterable[str], time: int) -> None:
        self._seen.setdefault(key, {}).update(dict.fromkeys(values, time))


class Storage:
    """What a client remembers, and what its limits let it."""

    def __init__(self, limits: BrowserLimits) -> None:
        self.limits = limits
        self.number = 0
        self.sources: list[Stored] = []
        self.sent: list[Attribution] = []
        self._waiting: list[Held] = []
        self._counted: list[Counted] = []
        window = 1000 * limits.destination_window
        self._globally = Distinct(limits.destinations_per_window, window)
        self._by_reporter = Distinct(limits.destinations_per_window_and_reporter, window)
        self._by_day = Distinct(limits.destinations_per_day, 1000 * DAY)
        self._origins_of_site = Distinct(limits.reporters_per_site, 1000 * limits.reporters_window)
        self._origins = Distinct(limits.source_reporters, 1000 * limits.rate_window)

    def admit(self, stored: Stored) -> str | None:
        """Keep a source, or say which limit forbids it, by the API's name for it.

        The limits that other reporting sites have a part in come last, and what the destination limit removed by then
        stays removed: whether they were met is not to be seen.
        """
        sites, destinations, reporter = stored.sites, stored.source.destination, [stored.reporting_origin]
        limited: dict[str, list[tuple[Distinct, Hashable, Sequence[str]]]] = {
            "storage": [],
            "reporting-origin-per-site": [(self._origins_of_site, sites, reporter)],
            "destination-rate": [(self._by_reporter, sites, destinations)],
            "destination-per-day-rate": [(self._by_day, sites, destinations)],
            "destination": [],
            "destination-global-rate": [(self._globally, stored.site, destinations)],
            "reporting-origin": [(self._origins, (stored.site, each), reporter) for each in destinations],
        }
        rooms = {"storage": self._has_room, "destination": self._make_room}
        for name, counts in limited.items():
            fits = name not in rooms or rooms[name](stored)
            if not (fits and all(distinct.allows(key, values, stored.time) for distinct, key, values in counts)):
                return f"source-{name}-limit"
        for distinct, key, values in chain.from_iterable(limited.values()):
            distinct.add(key, values, stored.time)
        self.sources.append(stored)
        return None

    def _has_room(self, new: Stored) -> bool:
        return sum(one.alive for one in self.sources if one.origin == new.origin) < self.limits.sources_per_origin

    def _make_room(self, new: Stored) -> bool:
        """Drop the sources of the destinations that come last, by priority, then time; False if it would be the new.

        Destinations of sources count until these expire. Those of one that is dropped are forgotten with its reports.
        """
        others = [one for one in self.sources if one.sites == new.sites]
        rank: dict[str, tuple[int, int, str]] = {}
        for one in [*others, new]:
            for destination in one.source.destination:
                mine = (one.source.destination_limit_priority, one.time, destination)
                rank[destination] = max(rank.get(destination, mine), mine)
        gone = set(sorted(rank, key=rank.__getitem__, reverse=True)[self.limits.destinations :])
        if not gone.isdisjoint(new.source.destination):
            return False
        for other in others:
            if not gone.isdisjoint(other.source.destination):
                self.sources.remove(other)
                numbers = {held.number for held in self._waiting if held.stored is other}
                self._waiting = [held for held in self._waiting if held.number not in numbers]
                self._counted = [one for one in self._counted if one.number not in numbers]
        return True

    def advance(self, time: int) -> None:
        """Let sources expire and reports leave up to a time."""
        self.sources = [stored for stored in self.sources if stored.expires > time]
        self.sent += [held.value for held in sorted(held for held in self._waiting if held.due <= time)]
        self._waiting = [held for held in self._waiting if held.due > time]

    @property
    def last(self) -> int | None:
        """When the last of the reports that wait is due."""
        return max((held.due for held in self._waiting), default=None)

    def matching(self, of: Conversion) -> list[Stored]:
        """The sources that a trigger may be attributed to: the highest priority, then the most recent comes first."""
        destination, reporter = of.destination, of.reporting_origin
        there = (
            one
            for one in self.sources
            if one.alive and one.reporting_origin == reporter and destination in one.source.destination
        )
        return sorted(there, key=lambda one: (-one.source.priority, -one.time, -one.number))

    def hold(self, value: Attribution, stored: Stored | None) -> None:
        """Keep a report until it is due; a real one counts towards the limits of its sites."""
        self.number += 1
        self._waiting.append(Held(value.due, self.number, value, stored))
        if stored is not None:
            self.count(stored, value.destination, self.number)

    def count(self, stored: Stored, destination: str, number: int | None = None) -> None:
        """Count an attribution towards limits, as that of the event-level report that a browser would have made."""
        origin, sites = stored.reporting_origin, (stored.site, destination)
        self._counted.append(Counted(sites, stored.reporting_site, origin, stored.time, number))

    def crowded(self, destination: str) -> bool:
        real = (held for held in self._waiting if held.stored is not None)
        return sum(held.value.destination == destination for held in real) >= self.limits.reports_per_destination

    def exhausted(self, stored: Stored, of: Conversion) -> bool:
        """Whether a source site, destination and reporting site have had as many attributions as they may."""
        ours = (one for one in self._in_window(stored, of) if one.reporting_site == stored.reporting_site)
        return sum(one.number is not None for one in ours) >= self.limits.attributions

    def too_many_reporters(self, stored: Stored, of: Conversion) -> bool:
        """Whether the source's reporting origin would be one too many for a source site and destination."""
        origins = {one.reporting_origin for one in self._in_window(stored, of)} | {stored.reporting_origin}
        return len(origins) > self.limits.attribution_reporters

    def _in_window(self, stored: Stored, of: Conversion) -> list[Counted]:
        """The attributions of two sites whose sources came within the window; time never goes back, so others go."""
        start = of.time - 1000 * self.limits.rate_window
        self._counted = [one for one in self._counted if one.source_time > start]
        return [one for one in self._counted if one.sites == (stored.site, of.destination)]
