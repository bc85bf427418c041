"""Trigger: what an ad-tech server registers for a conversion."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from attributary.api.ara.client.filters import FilterPair
from attributary.api.ara.client.limits import DEFAULT, Limits
from attributary.api.ara.parse.debug_reporting import TRIGGER_TYPES, DebugReporting, debug_reporting
from attributary.api.ara.parse.entries import Fields, distinct, each
from attributary.api.ara.parse.filters import filter_pair
from attributary.api.ara.parse.findings import Findings, Parsed, Path, parsed
from attributary.api.ara.parse.place import coordinator
from attributary.api.ara.parse.scalars import boolean, hex128, int64, one_of, short, string, typed, uint64, whole
from attributary.api.ara.parse.text import load
from attributary.api.ara.parse.values import Values, values_list

LONGEST_CONTEXT_ID, MOST_ID_BYTES = 64, 8
UNKNOWN_TIME = "cannot be fully validated without a valid aggregatable_source_registration_time"


@dataclass(frozen=True, slots=True)
class TriggerDatum:
    """A key piece for the source keys that it names, where the source passes the filters."""

    key_piece: int
    source_keys: tuple[str, ...]
    filters: FilterPair


@dataclass(frozen=True, slots=True)
class DeduplicationKey:
    """A key that makes one report of several triggers, for the sources that pass the filters."""

    key: int | None
    filters: FilterPair


@dataclass(frozen=True, slots=True)
class NamedBudget:
    """The part of a source's budget that a report is charged to, for the sources that pass the filters."""

    name: str | None
    filters: FilterPair


@dataclass(frozen=True, slots=True)
class EventTriggerDatum:
    """What an event-level report would tell; read and checked, and passed over."""

    trigger_data: int
    filters: FilterPair
    deduplication_key: int | None
    priority: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Trigger:
    """A trigger registration as a client understands it: checked, with its defaults."""

    aggregatable_trigger_data: tuple[TriggerDatum, ...]
    aggregatable_values: tuple[Values, ...]
    aggregatable_deduplication_keys: tuple[DeduplicationKey, ...]
    aggregatable_filtering_id_max_bytes: int
    aggregatable_source_registration_time: str
    trigger_context_id: str | None
    aggregation_coordinator_origin: str
    filters: FilterPair
    debug_key: int | None
    debug_reporting: bool
    aggregatable_debug_reporting: DebugReporting | None
    named_budgets: tuple[NamedBudget, ...]
    attribution_scopes: tuple[str, ...]
    event_trigger_data: tuple[EventTriggerDatum, ...]


def trigger(text: str, limits: Limits = DEFAULT) -> Parsed[Trigger]:
    """A trigger registration from the JSON of its header, or why it is refused."""
    found = Findings()
    j = load(text, found)
    value = None if found.errors else _trigger(j, found, limits)
    return parsed(value, found)


def _trigger(j: Any, found: Findings, limits: Limits) -> Trigger | None:
    if not typed(j, (), found, "an object"):
        return None
    fields, values = Fields(j, (), found), dict[str, Any]()
    when = fields.take(
        "aggregatable_source_registration_time", partial(one_of, allowed=("exclude", "include")), "exclude"
    )
    id_bytes = fields.take("aggregatable_filtering_id_max_bytes", partial(_id_bytes, when=when), 1)
    values["aggregatable_trigger_data"] = fields.take("aggregatable_trigger_data", partial(each, read=_datum), ())
    values["aggregatable_values"] = fields.take("aggregatable_values", partial(values_list, id_bytes=id_bytes), ())
    values["aggregatable_deduplication_keys"] = fields.take(
        "aggregatable_deduplication_keys", partial(each, read=_deduplication_key), ()
    )
    values["named_budgets"] = fields.take("named_budgets", partial(each, read=_named_budget), ())
    values["event_trigger_data"] = fields.take("event_trigger_data", partial(each, read=_event_datum), ())
    values["trigger_context_id"] = fields.take("trigger_context_id", partial(_context_id, when=when))
    values["aggregatable_debug_reporting"] = fields.lenient(
        "aggregatable_debug_reporting",
        partial(debug_reporting, types=TRIGGER_TYPES, limits=limits, budgeted=False),
    )
    values["attribution_scopes"] = fields.take("attribution_scopes", partial(distinct, read=string), ())
    values["aggregation_coordinator_origin"] = fields.take(
        "aggregation_coordinator_origin", partial(coordinator, allowed=limits.coordinators), limits.coordinators[0]
    )
    values["debug_key"] = fields.lenient("debug_key", uint64)
    values["debug_reporting"] = fields.lenient("debug_reporting", boolean, False)
    values["filters"] = filter_pair(fields)
    if not fields.whole():
        return None
    parsed_trigger = Trigger(
        aggregatable_source_registration_time=when, aggregatable_filtering_id_max_bytes=id_bytes, **values
    )
    _warn_of_lone_keys(parsed_trigger, found)
    return parsed_trigger


def _id_bytes(j: Any, path: Path, found: Findings, when: str | None) -> int | None:
    size = whole(j, path, found, 1, MOST_ID_BYTES)
    if size is None:
        return None
    if when is None:
        found.error(path, UNKNOWN_TIME)
        return None
    if when != "exclude" and size != 1:
        above = "with a non-default value (higher than 1) is prohibited for"
        found.error(path, f"{above} aggregatable_source_registration_time {when}")
        return None
    return size


def _context_id(j: Any, path: Path, found: Findings, when: str | None) -> str | None:
    text = string(j, path, found)
    too_long = "exceeds max length per trigger context ID"
    if text is None or not short(text, path, found, LONGEST_CONTEXT_ID, too_long):
        return None
    if when is None:
        found.error(path, UNKNOWN_TIME)
        return None
    if when != "exclude":
        found.error(path, f"is prohibited for aggregatable_source_registration_time {when}")
        return None
    return text


def _datum(j: Any, path: Path, found: Findings) -> TriggerDatum | None:
    if not typed(j, path, found, "an object"):
        return None
    fields = Fields(j, path, found)
    keys = fields.take("source_keys", partial(distinct, read=string), ())
    pair = filter_pair(fields)
    key_piece = fields.need("key_piece", hex128)
    return TriggerDatum(key_piece, keys, pair) if fields.whole() and pair else None


def _deduplication_key(j: Any, path: Path, found: Findings) -> DeduplicationKey | None:
    if not typed(j, path, found, "an object"):
        return None
    fields = Fields(j, path, found)
    key = fields.take("deduplication_key", uint64)
    pair = filter_pair(fields)
    return DeduplicationKey(key, pair) if fields.whole() and pair else None


def _named_budget(j: Any, path: Path, found: Findings) -> NamedBudget | None:
    if not typed(j, path, found, "an object"):
        return None
    fields = Fields(j, path, found)
    name = fields.take("name", string)
    pair = filter_pair(fields)
    return NamedBudget(name, pair) if fields.whole() and pair else None


def _event_datum(j: Any, path: Path, found: Findings) -> EventTriggerDatum | None:
    if not typed(j, path, found, "an object"):
        return None
    fields = Fields(j, path, found)
    data = fields.take("trigger_data", uint64, 0)
    pair = filter_pair(fields)
    key = fields.take("deduplication_key", uint64)
    priority = fields.take("priority", int64, 0)
    return EventTriggerDatum(data, pair, key, priority) if fields.whole() and pair else None


def _warn_of_lone_keys(value: Trigger, found: Findings) -> None:
    """Warn of keys that stand only in the trigger data or only in the values."""
    valued: Mapping[str, None] = {key: None for config in value.aggregatable_values for key in config.values}
    pieced = set[str]()
    for i, datum in enumerate(value.aggregatable_trigger_data):
        pieced.update(datum.source_keys)
        for key in datum.source_keys:
            if key not in valued:
                absence = "will never result in a contribution due to absence from aggregatable_values"
                found.warning(("aggregatable_trigger_data", i, "source_keys"), f'key "{key}" {absence}')
    absence = "absence from aggregatable_trigger_data source_keys equivalent to presence with key_piece 0x0"
    for key in valued:
        if key not in pieced:
            found.warning(("aggregatable_values",), f'key "{key}"\'s {absence}')
