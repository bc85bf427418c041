"""filter_rules: what a source says of itself, what a trigger asks of a source, and whether the two match."""

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import Any

from attributary.api.ara.parse.findings import Findings, Path
from attributary.api.ara.parse.json_fields import (
    Fields,
    distinct,
    each,
    is_a,
    key_values,
    positive,
    short,
    string,
    typed,
)


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


SOURCE_TYPES = ("event", "navigation")
LONGEST, MOST_KEYS, MOST_VALUES = 25, 50, 50
RESERVED = 'is prohibited as keys starting with "_" are reserved'


def filter_data(j: Any, path: Path, findings: Findings) -> dict[str, frozenset[str]] | None:
    """What a source says of itself: for each key, values."""
    return key_values(j, path, findings, _of_source, MOST_KEYS)


def _of_source(key: str, j: Any, path: Path, findings: Findings) -> frozenset[str] | None:
    if key in ("source_type", "_lookback_window"):
        findings.error(path, "is prohibited because it is implicitly set")
        return None
    if key.startswith("_"):
        findings.error(path, RESERVED)
        return None
    if not short(key, path, findings, LONGEST, "key exceeds max length per filter string"):
        return None
    return _set(distinct(j, path, findings, _source_value, 0, MOST_VALUES))


def _source_value(j: Any, path: Path, findings: Findings) -> str | None:
    text = string(j, path, findings)
    fits = text is not None and short(text, path, findings, LONGEST, "exceeds max length per filter string")
    return text if fits else None


def filter_pair(fields: Fields) -> FilterPair | None:
    """The `filters` and `not_filters` among an object's fields."""
    positive_ones = fields.take("filters", _configs, ())
    negative_ones = fields.take("not_filters", _configs, ())
    return None if positive_ones is None or negative_ones is None else FilterPair(positive_ones, negative_ones)


def _configs(j: Any, path: Path, findings: Findings) -> tuple[FilterConfig, ...] | None:
    if not typed(j, path, findings, "a list", "an object"):
        return None
    if is_a(j, "a list"):
        return each(j, path, findings, _config)
    config = _config(j, path, findings)
    return None if config is None else (config,)


def _config(j: Any, path: Path, findings: Findings) -> FilterConfig | None:
    if not typed(j, path, findings, "an object"):
        return None
    faults = findings.faults
    lookback = Fields(j, path, findings).take("_lookback_window", positive)
    asked = key_values(j, path, findings, _of_trigger)
    return FilterConfig(asked, lookback) if asked is not None and findings.faults == faults else None


def _of_trigger(key: str, j: Any, path: Path, findings: Findings) -> frozenset[str] | None:
    if key.startswith("_"):
        findings.error(path, RESERVED)
        return None
    return _set(distinct(j, path, findings, _source_type if key == "source_type" else string))


def _source_type(j: Any, path: Path, findings: Findings) -> str | None:
    text = string(j, path, findings)
    if text is not None and text not in SOURCE_TYPES:
        allowed = ", ".join(SOURCE_TYPES)
        findings.warning(path, f"unknown value {text} (source_type can only match one of {allowed})")
    return text


def _set(values: tuple[str, ...] | None) -> frozenset[str] | None:
    return None if values is None else frozenset(values)
