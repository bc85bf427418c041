"""Trigger: what an ad-tech server registers for a conversion."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

from attributary.api.ara.parse import both_headers as both
from attributary.api.ara.parse import json_fields as read
from attributary.api.ara.parse.json_fields import Findings, Json, Parsed, Reader

DEFAULT_RANGE = (
    "must be in the range [0, 255]. It exceeds the default max size of 1 byte. "
    "To increase, specify the aggregatable_filtering_id_max_bytes property."
)


class KeyValue(NamedTuple):
    """What is added to a key's sum, and the id by which a query may select it."""

    value: int
    filtering_id: int = 0


class KeyValues(NamedTuple):
    """The values of each key, for the sources that pass the filters."""

    values: Mapping[str, KeyValue]
    filters: both.FilterPair


def _values_list(id_bytes: int | None, j: Json) -> tuple[KeyValues, ...]:
    """The values for all sources, or a list of values with filters, of which the first match wins."""

    def filtering_id(j: Json) -> int:
        n = read.uint(j)
        size = j.needs("aggregatable_filtering_id_max_bytes", id_bytes)
        return j.within(n, 0, 256**size - 1, DEFAULT_RANGE if size == 1 else None)

    fields = {"value": read.required(read.contribution_value), "filtering_id": read.optional(filtering_id, 0)}
    whole = read.record(KeyValue, **fields)

    def one(j: Json) -> KeyValue:
        j.typed("a number", "an object")
        return whole(j) if j.is_a("an object") else KeyValue(read.contribution_value(j))

    values = read.entries(one)
    filtered = read.each(read.record(KeyValues, values=read.required(values), filters=both.filter_pair))
    return read.one_or_list(("an object", "a list"), lambda j: KeyValues(values(j), both.EVERY), filtered)(j)


LONGEST_CONTEXT_ID, MOST_ID_BYTES = 64, 8


class TriggerDatum(NamedTuple):
    """A key piece for the source keys that it names, where the source passes the filters."""

    key_piece: int
    source_keys: tuple[str, ...]
    filters: both.FilterPair


class DeduplicationKey(NamedTuple):
    """A key that makes one report of several triggers, for the sources that pass the filters."""

    deduplication_key: int | None
    filters: both.FilterPair


class NamedBudget(NamedTuple):
    """The part of a source's budget that a report is charged to, for the sources that pass the filters."""

    name: str | None
    filters: both.FilterPair


class EventTriggerDatum(NamedTuple):
    """What an event-level report would tell; read and checked, and passed over."""

    trigger_data: int
    filters: both.FilterPair
    deduplication_key: int | None
    priority: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Trigger:
    """A trigger registration as a client understands it: checked, with its defaults."""

    aggregatable_trigger_data: tuple[TriggerDatum, ...]
    aggregatable_values: tuple[KeyValues, ...]
    aggregatable_deduplication_keys: tuple[DeduplicationKey, ...]
    aggregatable_filtering_id_max_bytes: int
    aggregatable_source_registration_time: str
    trigger_context_id: str | None
    aggregation_coordinator_origin: str
    filters: both.FilterPair
    debug_key: int | None
    debug_reporting: bool
    aggregatable_debug_reporting: both.DebugReporting | None
    named_budgets: tuple[NamedBudget, ...]
    attribution_scopes: tuple[str, ...]
    event_trigger_data: tuple[EventTriggerDatum, ...]


def trigger(text: str, limits: both.BrowserLimits = both.DEFAULT) -> Parsed[Trigger]:
    """A trigger registration from the JSON of its header, or why it is refused."""

    def checked(j: Json) -> Trigger:
        value = _trigger(limits)(j)
        _warn_of_lone_keys(value, j.findings)
        return value

    return read.parsed(text, checked)


_DATUM = read.record(
    TriggerDatum,
    source_keys=read.optional(read.distinct(read.string), ()),
    filters=both.filter_pair,
    key_piece=read.required(read.hex128),
)
_DEDUPLICATION = read.record(DeduplicationKey, deduplication_key=read.optional(read.uint64), filters=both.filter_pair)
_NAMED_BUDGET = read.record(NamedBudget, name=read.optional(read.string), filters=both.filter_pair)
_EVENT_DATUM = read.record(
    EventTriggerDatum,
    trigger_data=read.optional(read.uint64, 0),
    filters=both.filter_pair,
    deduplication_key=read.optional(read.uint64),
    priority=read.optional(read.int64, 0),
)


@cache
def _trigger(limits: both.BrowserLimits) -> Reader[Trigger]:
    when, id_bytes = "aggregatable_source_registration_time", "aggregatable_filtering_id_max_bytes"
    return read.record(
        Trigger,
        aggregatable_source_registration_time=read.optional(read.one_of("exclude", "include"), "exclude"),
        aggregatable_filtering_id_max_bytes=read.optional(_id_bytes, 1, after=when),
        aggregatable_trigger_data=read.optional(read.each(_DATUM), ()),
        aggregatable_values=read.optional(_values_list, (), after=id_bytes),
        aggregatable_deduplication_keys=read.optional(read.each(_DEDUPLICATION), ()),
        named_budgets=read.optional(read.each(_NAMED_BUDGET), ()),
        event_trigger_data=read.optional(read.each(_EVENT_DATUM), ()),
        trigger_context_id=read.optional(_context_id, after=when),
        aggregatable_debug_reporting=read.lenient(both.debug_reporting(both.TRIGGER_TYPES, limits, budgeted=False)),
        attribution_scopes=read.optional(read.distinct(read.string), ()),
        aggregation_coordinator_origin=both.coordinator(limits),
        debug_key=read.lenient(read.uint64),
        debug_reporting=read.lenient(read.boolean, False),
        filters=both.filter_pair,
    )


def _id_bytes(when: str | None, j: Json) -> int:
    size = read.whole(1, MOST_ID_BYTES)(j)
    _needs_exclude(when, j, size > 1, "with a non-default value (higher than 1) is prohibited")
    return size


def _context_id(when: str | None, j: Json) -> str:
    text = read.short_string(LONGEST_CONTEXT_ID, "exceeds max length per trigger context ID")(j)
    _needs_exclude(when, j, True, "is prohibited")
    return text


def _needs_exclude(when: str | None, j: Json, special: bool, words: str) -> None:
    """Refuses a special value of a trigger whose reports include the time of the source."""
    if j.needs("aggregatable_source_registration_time", when) != "exclude" and special:
        raise j.error(f"{words} for aggregatable_source_registration_time {when}")


def _warn_of_lone_keys(value: Trigger, findings: Findings) -> None:
    """Warn of keys that stand only in the trigger data or only in the values."""
    valued: Mapping[str, None] = {key: None for config in value.aggregatable_values for key in config.values}
    pieced = set[str]()
    for i, datum in enumerate(value.aggregatable_trigger_data):
        pieced.update(datum.source_keys)
        for key in datum.source_keys:
            if key not in valued:
                absence = "will never result in a contribution due to absence from aggregatable_values"
                findings.warning(("aggregatable_trigger_data", i, "source_keys"), f'key "{key}" {absence}')
    absence = "absence from aggregatable_trigger_data source_keys equivalent to presence with key_piece 0x0"
    for key in valued:
        if key not in pieced:
            findings.warning(("aggregatable_values",), f'key "{key}"\'s {absence}')
