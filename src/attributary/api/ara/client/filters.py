"""Filters: whether a source is one that a trigger, or a part of it, asks for."""

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field


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


def matches(data: Mapping[str, Set[str]], age: float, pair: FilterPair) -> bool:
    """Whether a source with this filter data (its source_type included) and age in seconds passes the pair."""
    return _any(data, age, pair.positive, False) and _any(data, age, pair.negative, True)


def _any(data: Mapping[str, Set[str]], age: float, configs: Sequence[FilterConfig], negated: bool) -> bool:
    return not configs or any(_all(data, age, config, negated) for config in configs)


def _all(data: Mapping[str, Set[str]], age: float, config: FilterConfig, negated: bool) -> bool:
    """Whether each key matches, or for a negated configuration, each does not; a key the source lacks is no hindrance.

    Negation is by key and not of the whole: {a: [1], b: [2]} negated is neither a = 1 nor b = 2.
    """
    if config.lookback_window is not None and (age <= config.lookback_window) == negated:
        return False
    return all(_meet(data[key], values) != negated for key, values in config.map.items() if key in data)


def _meet(of_source: Set[str], asked: Set[str]) -> bool:
    """Whether the two share a value; asking for none is met only by a source that has none."""
    return not of_source.isdisjoint(asked) if asked else not of_source
