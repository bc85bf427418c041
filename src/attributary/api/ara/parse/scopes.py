"""Scopes: which of several sources a trigger may be attributed to; read and checked, and passed over."""

from dataclasses import dataclass
from functools import partial
from typing import Any

from attributary.api.ara.client.limits import UINT32_MAX, Limits
from attributary.api.ara.parse.entries import Fields, distinct
from attributary.api.ara.parse.findings import Findings, Path
from attributary.api.ara.parse.scalars import short, string, typed, whole, within

MOST, LONGEST, DEFAULT_STATES = 20, 50, 3


@dataclass(frozen=True, slots=True)
class AttributionScopes:
    """The scopes of a source, how many there may be, and how many event states each may take."""

    limit: int
    values: tuple[str, ...]
    max_event_states: int


def attribution_scopes(j: Any, path: Path, found: Findings, limits: Limits) -> AttributionScopes | None:
    if not typed(j, path, found, "an object"):
        return None
    fields = Fields(j, path, found)
    limit = fields.need("limit", partial(whole, low=1, high=UINT32_MAX))
    values = fields.need("values", partial(_values, limit=limit))
    states = fields.take("max_event_states", partial(whole, low=1, high=limits.trigger_states), DEFAULT_STATES)
    return AttributionScopes(limit, values, states) if fields.whole() else None


def _values(j: Any, path: Path, found: Findings, limit: int | None) -> tuple[str, ...] | None:
    values = distinct(j, path, found, _value)
    if values is None:
        return None
    if limit is None:
        found.error(path, "cannot be fully validated without a valid limit")
        return None
    if not values:
        found.error(path, "must be non-empty if limit is set")
        return None
    most, what = (limit, "limit") if limit < MOST else (MOST, "max number of attribution scopes")
    message = f"size must be less than or equal to {what} ({most}) if limit is set"
    return None if within(len(values), path, found, 1, most, message) is None else values


def _value(j: Any, path: Path, found: Findings) -> str | None:
    text = string(j, path, found)
    fits = text is not None and short(text, path, found, LONGEST, "exceeds max length per attribution scope")
    return text if fits else None
