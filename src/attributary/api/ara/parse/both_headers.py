"""What the headers of both sides may have, filters and debug reporting, and the limits that browsers set."""

from collections import Counter
from collections.abc import Container, Mapping, Sequence, Set
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple

from attributary.api.ara.parse import json_fields as read
from attributary.api.ara.parse.json_fields import Field, Fields, Json, Reader

UINT32_MAX = 2**32 - 1
BUDGET = 65_536
DAY = 86_400
COORDINATORS = tuple(f"https://publickeyservice.msmt.{cloud}.privacysandboxservices.com" for cloud in ("aws", "gcp"))


@dataclass(frozen=True, slots=True)
class BrowserLimits:
    """The limits of a client; times are in seconds."""

    coordinators: tuple[str, ...] = COORDINATORS
    sources_per_origin: int = 4096
    reports_per_destination: int = 1024
    reports_per_source: int = 20
    destinations: int = 100  # covered by unexpired sources of a source site and reporting site
    destinations_per_window: int = 200  # of a source site, in destination_window
    destinations_per_window_and_reporter: int = 50
    destination_window: int = 60
    destinations_per_day: int = 100  # of a source site and reporting site
    rate_window: int = 30 * DAY
    source_reporters: int = 100  # reporting origins per source site and destination, in rate_window
    attribution_reporters: int = 10
    attributions: int = 100  # per source site, destination and reporting site, in rate_window
    reporters_per_site: int = 1  # reporting origins per source site and reporting site, in reporters_window
    reporters_window: int = DAY
    minimum_delay: int = 0
    delay_span: int = 600
    null_rate: float = 0.05  # of a null report, where the source's time is not told
    null_rate_per_day: float = 0.008  # of a null report for each of the 31 days it could have been
    event_level_epsilon: float = 14
    channel_capacity_navigation: float = 11.5  # bits that event-level reports may tell
    channel_capacity_event: float = 6.5
    scopes_channel_capacity_navigation: float = 11.55
    scopes_channel_capacity_event: float = 6.5
    trigger_states: int = UINT32_MAX


DEFAULT = BrowserLimits()


@dataclass(frozen=True, slots=True)
class FilterConfig:
    """All of these must match: for each key one of its values, and a source no older than the lookback, in seconds."""

    map: Mapping[str, Set[str]] = field(default_factory=dict)
    lookback_window: int | None = None


@dataclass(frozen=True, slots=True)
class FilterPair:
    """One of the positive configurations must match, and one of the negative ones must match negated."""

    positive: Sequence[FilterConfig] = ()
    negative: Sequence[FilterConfig] = ()


EVERY = FilterPair()
LONGEST, MOST_KEYS, MOST_VALUES = 25, 50, 50


def _of_source(j: Json) -> frozenset[str]:
    if j.key in ("source_type", "_lookback_window"):
        raise j.error("is prohibited because it is implicitly set")
    _refuse_reserved(j)
    j.short(j.key, LONGEST, "key exceeds max length per filter string")
    return frozenset(read.distinct(_VALUE, 0, MOST_VALUES)(j))


_VALUE = read.short_string(LONGEST, "exceeds max length per filter string")


filter_data = read.entries(_of_source, MOST_KEYS)  # what a source says of itself: for each key, values


def filter_pair(fields: Fields, _name: str) -> FilterPair:
    """The `filters` and `not_filters` among an object's fields."""
    return FilterPair(*(fields.take(name, _configs, ()) for name in ("filters", "not_filters")))


def _config(j: Json) -> FilterConfig:
    j.typed("an object")
    fields = Fields(j)
    lookback = fields.take("_lookback_window", read.positive)
    asked = read.entries(_of_trigger)(j)
    fields.whole()
    return FilterConfig(asked, lookback)


_configs = read.one_or_list(("a list", "an object"), _config, read.each(_config))


def _of_trigger(j: Json) -> frozenset[str]:
    _refuse_reserved(j)
    return frozenset(read.distinct(_side if j.key == "source_type" else read.string)(j))


def _refuse_reserved(j: Json) -> None:
    if j.key.startswith("_"):
        raise j.error('is prohibited as keys starting with "_" are reserved')


def _known(allowed: Container[str], message: str, j: Json) -> str:
    """A string, with a warning where it is none of those allowed."""
    if (text := read.string(j)) not in allowed:
        j.warning(message.format(text))
    return text


SIDES = ("event", "navigation")
_side = partial(_known, SIDES, f"unknown value {{}} (source_type can only match one of {', '.join(SIDES)})")


SOURCE_TYPES = frozenset(
    ["unspecified"]
    + [f"source-{name}" for name in ("success", "noised", "storage-limit", "unknown-error", "max-event-states-limit")]
    + [f"source-{name}-limit" for name in ("channel-capacity", "scopes-channel-capacity", "trigger-state-cardinality")]
    + [f"source-reporting-origin{name}-limit" for name in ("", "-per-site")]
    + [f"source-destination{name}-limit" for name in ("", "-rate", "-global-rate", "-per-day-rate")]
)
LIMITED = ("attributions-per-source-destination-limit", "deduplicated", "excessive-reports", "report-window-passed")
AGGREGATE = (*LIMITED, "storage-limit", "insufficient-budget", "insufficient-named-budget", "no-contributions")
NO_MATCH = ("no-matching-configurations", "no-matching-trigger-data")
EVENT = (*LIMITED, *NO_MATCH, "storage-limit", "low-priority", "noise", "report-window-not-started")
TRIGGER_TYPES = frozenset(
    ["unspecified", "trigger-unknown-error", "trigger-reporting-origin-limit"]
    + [f"trigger-no-matching-{name}" for name in ("source", "filter-data")]
    + [f"trigger-aggregate-{name}" for name in AGGREGATE]
    + [f"trigger-event-{name}" for name in EVENT]
)


class DebugDatum(NamedTuple):
    """What to contribute when one of the types of failure occurs."""

    key_piece: int
    types: tuple[str, ...]
    value: int


class DebugReporting(NamedTuple):
    """The debug contributions asked for; a source sets aside a budget for them."""

    key_piece: int
    debug_data: tuple[DebugDatum, ...]
    aggregation_coordinator_origin: str
    budget: int | None = None


def debug_reporting(types: frozenset[str], limits: BrowserLimits, budgeted: bool) -> Reader[DebugReporting]:
    """The debug contributions asked for; `budgeted` for a source, which must say how much they may take."""
    datum = read.record(
        DebugDatum,
        types=read.required(read.distinct(partial(_known, types, "unknown type"), 1, strict=True)),
        value=read.required(read.contribution_value),
        key_piece=read.required(read.hex128),
    )
    budget: dict[str, Field] = {"budget": read.required(read.contribution_value)} if budgeted else {}
    asked = read.record(
        DebugReporting,
        **budget,
        debug_data=read.optional(partial(_data, read.each(datum)), ()),
        aggregation_coordinator_origin=coordinator(limits),
        key_piece=read.required(read.hex128),
    )

    def within_budget(j: Json) -> DebugReporting:
        made = asked(j)
        if made.budget is not None and any(datum.value > made.budget for datum in made.debug_data):
            raise j.error(f"data contains value greater than budget ({made.budget})")
        return made

    return within_budget


def _data(each_datum: Reader[tuple[DebugDatum, ...]], j: Json) -> tuple[DebugDatum, ...]:
    data = each_datum(j)
    times = Counter(name for datum in data for name in datum.types)
    if twice := [name for name, count in times.items() if count > 1]:
        raise j.error(f"duplicate type: {', '.join(twice)}")
    return data


def coordinator(limits: BrowserLimits) -> Field:
    """The origin of the aggregation service's key server; by default the first."""
    allowed = limits.coordinators

    def origin(j: Json) -> str:
        url = read.address(j)
        if url.more_than_origin:
            j.warning(f"URL components other than origin ({url.origin}) will be ignored")
        if url.origin not in allowed:
            raise j.error(f"must be one of the following: {', '.join(allowed)}")
        return url.origin

    return read.optional(origin, allowed[0])
