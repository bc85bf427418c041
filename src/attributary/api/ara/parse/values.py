"""Values: what a trigger adds to the sum of each key."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from attributary.api.ara.client.filters import EVERY, FilterPair
from attributary.api.ara.parse.entries import Fields, each, key_values
from attributary.api.ara.parse.filters import filter_pair
from attributary.api.ara.parse.findings import Findings, Path
from attributary.api.ara.parse.scalars import contribution_value, is_a, typed, uint, within

DEFAULT_RANGE = (
    "must be in the range [0, 255]. It exceeds the default max size of 1 byte. "
    "To increase, specify the aggregatable_filtering_id_max_bytes property."
)


@dataclass(frozen=True, slots=True)
class Value:
    """What is added to a key's sum, and the id by which a query may select it."""

    value: int
    filtering_id: int = 0


@dataclass(frozen=True, slots=True)
class Values:
    """The values of each key, for the sources that pass the filters."""

    values: Mapping[str, Value]
    filters: FilterPair


def values_list(j: Any, path: Path, found: Findings, id_bytes: int | None) -> tuple[Values, ...] | None:
    """The values for all sources, or a list of values with filters, of which the first match wins."""
    if not typed(j, path, found, "an object", "a list"):
        return None
    if is_a(j, "a list"):
        return each(j, path, found, partial(_values, id_bytes=id_bytes))
    values = key_values(j, path, found, partial(_value, id_bytes=id_bytes))
    return None if values is None else (Values(values, EVERY),)


def _values(j: Any, path: Path, found: Findings, id_bytes: int | None) -> Values | None:
    if not typed(j, path, found, "an object"):
        return None
    fields = Fields(j, path, found)
    values = fields.need("values", partial(key_values, read=partial(_value, id_bytes=id_bytes)))
    pair = filter_pair(fields)
    return Values(values, pair) if fields.whole() and pair else None


def _value(_key: str, j: Any, path: Path, found: Findings, id_bytes: int | None) -> Value | None:
    if not typed(j, path, found, "a number", "an object"):
        return None
    if is_a(j, "a number"):
        value = contribution_value(j, path, found)
        return None if value is None else Value(value)
    fields = Fields(j, path, found)
    value = fields.need("value", contribution_value)
    filtering_id = fields.take("filtering_id", partial(_filtering_id, id_bytes=id_bytes), 0)
    return Value(value, filtering_id) if fields.whole() and value is not None else None


def _filtering_id(j: Any, path: Path, found: Findings, id_bytes: int | None) -> int | None:
    n = uint(j, path, found)
    if n is None:
        return None
    if id_bytes is None:
        found.error(path, "cannot be fully validated without a valid aggregatable_filtering_id_max_bytes")
        return None
    return within(n, path, found, 0, 256**id_bytes - 1, DEFAULT_RANGE if id_bytes == 1 else None)  # type: ignore[no-any-return]
