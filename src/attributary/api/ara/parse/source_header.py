"""Source: what an ad-tech server registers for an impression."""

from collections.abc import Mapping, Set
from dataclasses import dataclass
from functools import partial
from typing import Any

from attributary.api.ara.parse.browser_limits import BUDGET, DAY, DEFAULT, BrowserLimits
from attributary.api.ara.parse.debug_reporting import SOURCE_TYPES, DebugReporting, debug_reporting
from attributary.api.ara.parse.event_level import (
    DEFAULT_REPORTS,
    DEFAULT_TRIGGER_DATA,
    AttributionScopes,
    EventReportWindows,
    attribution_scopes,
    check_capacity,
    duration,
    event_windows,
    max_reports,
    report_window,
    trigger_data,
)
from attributary.api.ara.parse.filter_rules import filter_data
from attributary.api.ara.parse.findings import Findings, Parsed, Path, load, parsed
from attributary.api.ara.parse.json_fields import (
    Fields,
    boolean,
    clamp,
    destinations,
    hex128,
    int64,
    key_values,
    number,
    one_of,
    short,
    typed,
    uint64,
    whole,
    within,
)

MOST_KEYS, LONGEST_KEY, MOST_BUDGETS, LONGEST_BUDGET = 20, 25, 25, 25
SHORTEST_EXPIRY, LONGEST_EXPIRY = DAY, 30 * DAY


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
    aggregatable_debug_reporting: DebugReporting | None
    named_budgets: Mapping[str, int]
    attribution_scopes: AttributionScopes | None
    event_level_epsilon: float
    event_report_windows: EventReportWindows
    max_event_level_reports: int
    trigger_data: tuple[int, ...]
    trigger_data_matching: str


def source(
    text: str, source_type: str = "navigation", limits: BrowserLimits = DEFAULT, note_gain: bool = False
) -> Parsed[Source]:
    """A source registration from the JSON of its header, or why it is refused.

    `source_type` is "navigation" for a click, "event" for a view; `note_gain` adds what event-level reports could tell.
    """
    if source_type not in DEFAULT_REPORTS:
        raise ValueError(f"source_type must be one of {', '.join(DEFAULT_REPORTS)}; got {source_type!r}")
    findings = Findings()
    j = load(text, findings)
    value = None if findings.errors else _source(j, findings, source_type, limits, note_gain)
    return parsed(value, findings)


def _source(j: Any, findings: Findings, source_type: str, limits: BrowserLimits, note_gain: bool) -> Source | None:
    if not typed(j, (), findings, "an object"):
        return None
    fields, values = Fields(j, (), findings), dict[str, Any]()
    expiry = fields.take("expiry", partial(_expiry, source_type=source_type), LONGEST_EXPIRY)
    windows = event_windows(fields, expiry, source_type)
    reports = fields.take("max_event_level_reports", max_reports, DEFAULT_REPORTS[source_type])
    data = fields.take("trigger_data", trigger_data, tuple(range(DEFAULT_TRIGGER_DATA[source_type])))
    values["aggregatable_report_window"] = fields.take(
        "aggregatable_report_window", partial(report_window, expiry=expiry), expiry
    )
    values["aggregation_keys"] = fields.take("aggregation_keys", _keys, {})
    values["destination"] = fields.need("destination", destinations)
    values["event_level_epsilon"] = fields.take(
        "event_level_epsilon", partial(_epsilon, most=limits.event_level_epsilon), limits.event_level_epsilon
    )
    values["filter_data"] = fields.take("filter_data", filter_data, {})
    values["source_event_id"] = fields.take("source_event_id", uint64, 0)
    values["aggregatable_debug_reporting"] = fields.lenient(
        "aggregatable_debug_reporting",
        partial(debug_reporting, types=SOURCE_TYPES, limits=limits, budgeted=True),
    )
    values["trigger_data_matching"] = fields.take("trigger_data_matching", _matching, "modulus")
    values["destination_limit_priority"] = fields.take("destination_limit_priority", int64, 0)
    values["attribution_scopes"] = fields.take("attribution_scopes", partial(attribution_scopes, limits=limits))
    values["named_budgets"] = fields.take("named_budgets", _budgets, {})
    values["debug_key"] = fields.lenient("debug_key", uint64)
    values["debug_reporting"] = fields.lenient("debug_reporting", boolean, False)
    values["priority"] = fields.take("priority", int64, 0)
    if not fields.whole():
        return None
    if values["trigger_data_matching"] == "modulus" and sorted(data) != list(range(len(data))):
        where = ("trigger_data_matching",)
        findings.error(where, "trigger_data must form a contiguous sequence of integers starting at 0 for modulus")
        return None
    parsed_source = Source(
        source_type=source_type,
        expiry=expiry,
        event_report_windows=windows,  # type: ignore[arg-type]  # whole, so none was refused
        max_event_level_reports=reports,
        trigger_data=data,
        **values,
    )
    _event_level(parsed_source, findings, limits, note_gain)
    return parsed_source


def _event_level(value: Source, findings: Findings, limits: BrowserLimits, note_gain: bool) -> None:
    reports, data = value.max_event_level_reports, value.trigger_data
    windows, epsilon, scopes = value.event_report_windows, value.event_level_epsilon, value.attribution_scopes
    check_capacity(findings, limits, value.source_type, reports, len(data), windows, epsilon, scopes, note_gain)
    always = "event-level attribution will always fail because"
    if reports and not data:
        findings.warning((), f"max_event_level_reports > 0 but {always} trigger_specs is empty")
    if data and not reports:
        findings.warning((), f"trigger_specs non-empty but {always} max_event_level_reports = 0")


def _expiry(j: Any, path: Path, findings: Findings, source_type: str) -> int | None:
    seconds = duration(j, path, findings)
    if seconds is None:
        return None
    seconds = clamp(seconds, path, findings, SHORTEST_EXPIRY, LONGEST_EXPIRY)
    days = (seconds + DAY // 2) // DAY * DAY
    if source_type == "event" and days != seconds:
        findings.warning(path, f"will be rounded to nearest day ({days}) as source type is event")
        return days
    return seconds


def _keys(j: Any, path: Path, findings: Findings) -> dict[str, int] | None:
    return key_values(j, path, findings, _key_piece, MOST_KEYS)


def _key_piece(key: str, j: Any, path: Path, findings: Findings) -> int | None:
    if not short(key, path, findings, LONGEST_KEY, "key exceeds max length per aggregation key identifier"):
        return None
    return hex128(j, path, findings)


def _budgets(j: Any, path: Path, findings: Findings) -> dict[str, int] | None:
    return key_values(j, path, findings, _budget, MOST_BUDGETS)


def _budget(key: str, j: Any, path: Path, findings: Findings) -> int | None:
    if not short(key, path, findings, LONGEST_BUDGET, "name exceeds max length per budget name"):
        return None
    return whole(j, path, findings, 0, BUDGET)


def _matching(j: Any, path: Path, findings: Findings) -> str | None:
    return one_of(j, path, findings, ("exact", "modulus"))


def _epsilon(j: Any, path: Path, findings: Findings, most: float) -> float | None:
    return within(number(j, path, findings), path, findings, 0, most)  # type: ignore[no-any-return]
