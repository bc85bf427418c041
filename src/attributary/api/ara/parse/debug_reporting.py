"""Debug reporting: what a registration wants to learn in aggregate when something goes wrong."""

from collections import Counter
from dataclasses import dataclass
from functools import partial
from typing import Any

from attributary.api.ara.parse.browser_limits import BrowserLimits
from attributary.api.ara.parse.findings import Findings, Path
from attributary.api.ara.parse.json_fields import (
    Fields,
    contribution_value,
    coordinator,
    distinct,
    each,
    hex128,
    string,
    typed,
)

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


@dataclass(frozen=True, slots=True)
class DebugDatum:
    """What to contribute when one of the types of failure occurs."""

    key_piece: int
    types: tuple[str, ...]
    value: int


@dataclass(frozen=True, slots=True)
class DebugReporting:
    """The debug contributions asked for; a source sets aside a budget for them."""

    key_piece: int
    debug_data: tuple[DebugDatum, ...]
    aggregation_coordinator_origin: str
    budget: int | None = None


def debug_reporting(
    j: Any, path: Path, findings: Findings, types: frozenset[str], limits: BrowserLimits, budgeted: bool
) -> DebugReporting | None:
    """The debug contributions asked for; `budgeted` for a source, which must say how much they may take."""
    if not typed(j, path, findings, "an object"):
        return None
    fields = Fields(j, path, findings)
    budget = fields.need("budget", contribution_value) if budgeted else None
    data = fields.take("debug_data", partial(_data, types=types), ())
    origin = fields.take(
        "aggregation_coordinator_origin", partial(coordinator, allowed=limits.coordinators), limits.coordinators[0]
    )
    key_piece = fields.need("key_piece", hex128)
    if not fields.whole():
        return None
    if budget is not None and any(datum.value > budget for datum in data):
        findings.error(path, f"data contains value greater than budget ({budget})")
        return None
    return DebugReporting(key_piece, data, origin, budget)


def _data(j: Any, path: Path, findings: Findings, types: frozenset[str]) -> tuple[DebugDatum, ...] | None:
    data = each(j, path, findings, partial(_datum, types=types))
    if data is None:
        return None
    times = Counter(name for datum in data for name in datum.types)
    twice = [name for name, count in times.items() if count > 1]
    if twice:
        findings.error(path, f"duplicate type: {', '.join(twice)}")
        return None
    return data


def _datum(j: Any, path: Path, findings: Findings, types: frozenset[str]) -> DebugDatum | None:
    if not typed(j, path, findings, "an object"):
        return None
    fields = Fields(j, path, findings)
    named = fields.need("types", partial(distinct, read=partial(_type, types=types), low=1, strict=True))
    value = fields.need("value", contribution_value)
    key_piece = fields.need("key_piece", hex128)
    return DebugDatum(key_piece, named, value) if fields.whole() else None


def _type(j: Any, path: Path, findings: Findings, types: frozenset[str]) -> str | None:
    text = string(j, path, findings)
    if text is not None and text not in types:
        findings.warning(path, "unknown type")
    return text
