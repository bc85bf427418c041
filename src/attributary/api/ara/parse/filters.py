"""Filters: what a source says of itself, and what a trigger asks of a source."""

from typing import Any

from attributary.api.ara.client.filters import FilterConfig, FilterPair
from attributary.api.ara.parse.entries import Fields, distinct, each, key_values
from attributary.api.ara.parse.findings import Findings, Path
from attributary.api.ara.parse.scalars import is_a, positive, short, string, typed

SOURCE_TYPES = ("event", "navigation")
LONGEST, MOST_KEYS, MOST_VALUES = 25, 50, 50
RESERVED = 'is prohibited as keys starting with "_" are reserved'


def filter_data(j: Any, path: Path, found: Findings) -> dict[str, frozenset[str]] | None:
    """What a source says of itself: for each key, values."""
    return key_values(j, path, found, _of_source, MOST_KEYS)


def _of_source(key: str, j: Any, path: Path, found: Findings) -> frozenset[str] | None:
    if key in ("source_type", "_lookback_window"):
        found.error(path, "is prohibited because it is implicitly set")
        return None
    if key.startswith("_"):
        found.error(path, RESERVED)
        return None
    if not short(key, path, found, LONGEST, "key exceeds max length per filter string"):
        return None
    return _set(distinct(j, path, found, _value, 0, MOST_VALUES))


def _value(j: Any, path: Path, found: Findings) -> str | None:
    text = string(j, path, found)
    fits = text is not None and short(text, path, found, LONGEST, "exceeds max length per filter string")
    return text if fits else None


def filter_pair(fields: Fields) -> FilterPair | None:
    """The `filters` and `not_filters` among an object's fields."""
    positive_ones = fields.take("filters", _configs, ())
    negative_ones = fields.take("not_filters", _configs, ())
    return None if positive_ones is None or negative_ones is None else FilterPair(positive_ones, negative_ones)


def _configs(j: Any, path: Path, found: Findings) -> tuple[FilterConfig, ...] | None:
    if not typed(j, path, found, "a list", "an object"):
        return None
    if is_a(j, "a list"):
        return each(j, path, found, _config)
    config = _config(j, path, found)
    return None if config is None else (config,)


def _config(j: Any, path: Path, found: Findings) -> FilterConfig | None:
    if not typed(j, path, found, "an object"):
        return None
    faults = found.faults
    lookback = Fields(j, path, found).take("_lookback_window", positive)
    asked = key_values(j, path, found, _of_trigger)
    return FilterConfig(asked, lookback) if asked is not None and found.faults == faults else None


def _of_trigger(key: str, j: Any, path: Path, found: Findings) -> frozenset[str] | None:
    if key.startswith("_"):
        found.error(path, RESERVED)
        return None
    return _set(distinct(j, path, found, _source_type if key == "source_type" else string))


def _source_type(j: Any, path: Path, found: Findings) -> str | None:
    text = string(j, path, found)
    if text is not None and text not in SOURCE_TYPES:
        allowed = ", ".join(SOURCE_TYPES)
        found.warning(path, f"unknown value {text} (source_type can only match one of {allowed})")
    return text


def _set(values: tuple[str, ...] | None) -> frozenset[str] | None:
    return None if values is None else frozenset(values)
