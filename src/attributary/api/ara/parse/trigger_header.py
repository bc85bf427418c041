"""trigger_header: what an ad-tech server registers for a conversion."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from attributary.api.ara.parse.browser_limits import DEFAULT, BrowserLimits
from attributary.api.ara.parse.debug_reporting import TRIGGER_TYPES, DebugReporting, debug_reporting
from attributary.api.ara.parse.filter_rules import EVERY, FilterPair, filter_pair
from attributary.api.ara.parse.findings import Findings, Parsed, Path, load, parsed
from attributary.api.ara.parse.json_fields import (
    Fields,
    boolean,
    contribution_value,
    coordinator,
    distinct,
    each,
    hex128,
    int64,
    is_a,
    key_values,
    one_of,
    short,
    string,
    typed,
    uint,
    uint64,
    whole,
    within,
)

DEFAULT_RANGE = (
    "must be in the range [0, 255]. It exceeds the default max size of 1 byte. "
    "To increase, specify the aggregatable_filtering_id_max_bytes property."
)


@dataclass(frozen=True, slots=True)
class KeyValue:
    """What is added to a key's sum, and the id by which a query may select it."""

    value: int
    filtering_id: int = 0


@dataclass(frozen=True, slots=True)
class KeyValues:
    """The values of each key, for the sources that pass the filters."""

    values: Mapping[str, KeyValue]
    filters: FilterPair


def values_list(j: Any, path: Path, findings: Findings, id_bytes: int | None) -> tuple[KeyValues, ...] | None:
    """The values for all sources, or a list of values with filters, of which the first match wins."""
    if not typed(j, path, findings, "an object", "a list"):
        return None
    if is_a(j, "a list"):
        return each(j, path, findings, partial(_values, id_bytes=id_bytes))
    values = key_values(j, path, findings, partial(_value, id_bytes=id_bytes))
    return None if values is None else (KeyValues(values, EVERY),)


def _values(j: Any, path: Path, findings: Findings, id_bytes: int | None) -> KeyValues | None:
    if not typed(j, path, findings, "an object"):
        return None
    fields = Fields(j, path, findings)
    values = fields.need("values", partial(key_values, read=partial(_value, id_bytes=id_bytes)))
    pair = filter_pair(fields)
    return KeyValues(values, pair) if fields.whole() and pair else None


def _value(_key: str, j: Any, path: Path, findings: Findings, id_bytes: int | None) -> KeyValue | None:
    if not typed(j, path, findings, "a number", "an object"):
        return None
    if is_a(j, "a number"):
        value = contribution_value(j, path, findings)
        return None if value is None else KeyValue(value)
    fields = Fields(j, path, findings)
    value = fields.need("value", contribution_value)
    filtering_id = fields.take("filtering_id", partial(_filtering_id, id_bytes=id_bytes), 0)
    return KeyValue(value, filtering_id) if fields.whole() and value is not None else None


def _filtering_id(j: Any, path: Path, findings: Findings, id_bytes: int | None) -> int | None:
    n = uint(j, path, findings)
    if n is None:
        return None
    if id_bytes is None:
        findings.error(path, "cannot be fully validated without a valid aggregatable_filtering_id_max_bytes")
        return None
    return within(n, path, findings, 0, 256**id_bytes - 1, DEFAULT_RANGE if id_bytes == 1 else None)  # type: ignore[no-any-return]


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
    aggregatable_values: tuple[KeyValues, ...]
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


def trigger(text: str, limits: BrowserLimits = DEFAULT) -> Parsed[Trigger]:
    """A trigger registration from the JSON of its header, or why it is refused."""
    findings = Findings()
    j = load(text, findings)
    value = None if findings.errors else _trigger(j, findings, limits)
    return parsed(value, findings)


def _trigger(j: Any, findings: Findings, limits: BrowserLimits) -> Trigger | None:
    if not typed(j, (), findings, "an object"):
        return None
    fields, values = Fields(j, (), findings), dict[str, Any]()
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
    _warn_of_lone_keys(parsed_trigger, findings)
    return parsed_trigger


def _id_bytes(j: Any, path: Path, findings: Findings, when: str | None) -> int | None:
    size = whole(j, path, findings, 1, MOST_ID_BYTES)
    if size is None:
        return None
    if when is None:
        findings.error(path, UNKNOWN_TIME)
        return None
    if when != "exclude" and size != 1:
        above = "with a non-default value (higher than 1) is prohibited for"
        findings.error(path, f"{above} aggregatable_source_registration_time {when}")
        return None
    return size


def _context_id(j: Any, path: Path, findings: Findings, when: str | None) -> str | None:
    text = string(j, path, findings)
    too_long = "exceeds max length per trigger context ID"
    if text is None or not short(text, path, findings, LONGEST_CONTEXT_ID, too_long):
        return None
    if when is None:
        findings.error(path, UNKNOWN_TIME)
        return None
    if when != "exclude":
        findings.error(path, f"is prohibited for aggregatable_source_registration_time {when}")
        return None
    return text


def _datum(j: Any, path: Path, findings: Findings) -> TriggerDatum | None:
    if not typed(j, path, findings, "an object"):
        return None
    fields = Fields(j, path, findings)
    keys = fields.take("source_keys", partial(distinct, read=string), ())
    pair = filter_pair(fields)
    key_piece = fields.need("key_piece", hex128)
    return TriggerDatum(key_piece, keys, pair) if fields.whole() and pair else None


def _deduplication_key(j: Any, path: Path, findings: Findings) -> DeduplicationKey | None:
    if not typed(j, path, findings, "an object"):
        return None
    fields = Fields(j, path, findings)
    key = fields.take("deduplication_key", uint64)
    pair = filter_pair(fields)
    return DeduplicationKey(key, pair) if fields.whole() and pair else None


def _named_budget(j: Any, path: Path, findings: Findings) -> NamedBudget | None:
    if not typed(j, path, findings, "an object"):
        return None
    fields = Fields(j, path, findings)
    name = fields.take("name", string)
    pair = filter_pair(fields)
    return NamedBudget(name, pair) if fields.whole() and pair else None


def _event_datum(j: Any, path: Path, findings: Findings) -> EventTriggerDatum | None:
    if not typed(j, path, findings, "an object"):
        return None
    fields = Fields(j, path, findings)
    data = fields.take("trigger_data", uint64, 0)
    pair = filter_pair(fields)
    key = fields.take("deduplication_key", uint64)
    priority = fields.take("priority", int64, 0)
    return EventTriggerDatum(data, pair, key, priority) if fields.whole() and pair else None


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
