"""Stored: a source as a client keeps it, with what is left of its budget."""

from collections.abc import Mapping, Set
from dataclasses import dataclass, field

from attributary.api.ara.client.limits import BUDGET
from attributary.api.ara.parse import Source


@dataclass(slots=True, eq=False)
class Stored:
    """A source, where it came from, and what became of it; times in milliseconds."""

    source: Source
    number: int
    time: int
    origin: str
    site: str
    reporting_origin: str
    reporting_site: str
    debug_key: int | None
    expires: int
    window_ends: int
    data: Mapping[str, Set[str]]
    budget: int
    named_budgets: dict[str, int]
    reports: int = 0
    event_reports: list[tuple[int, int]] = field(default_factory=list)  # the end of its window, and its priority
    event_deduplication_keys: set[int] = field(default_factory=set)
    deduplication_keys: set[int] = field(default_factory=set)
    attributions: list[int] = field(default_factory=list)
    alive: bool = True  # whether a trigger may be attributed to it
    covers: bool = True  # whether its destinations count, which they do until it expires, alive or not


def store(
    source: Source,
    number: int,
    time: int,
    origin: str,
    site: str,
    reporting_origin: str,
    reporting_site: str,
    debug: bool,
) -> Stored:
    """A source that is new; what it sets aside for debug reports is not for others."""
    debugging = source.aggregatable_debug_reporting
    return Stored(
        source,
        number,
        time,
        origin,
        site,
        reporting_origin,
        reporting_site,
        source.debug_key if debug else None,
        time + 1000 * source.expiry,
        time + 1000 * source.aggregatable_report_window,
        {**source.filter_data, "source_type": {source.source_type}},
        BUDGET - ((debugging.budget or 0) if debugging else 0),
        dict(source.named_budgets),
    )
