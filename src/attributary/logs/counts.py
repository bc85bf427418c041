"""Counts: how many conversions each leaf has, and what became of those that none has."""

from dataclasses import dataclass
from typing import Any, NamedTuple


class Outside(NamedTuple):
    """Conversions whose value of an attribute is not in its domain."""

    attribute: str
    conversions: int
    values: dict[str, int]  # the most frequent ones, and how many conversions have each
    kept: bool  # as the value `other`; if not, they are in no leaf


@dataclass(frozen=True, eq=False)
class Counts:
    """A table with one row per leaf: the attributes, `impressions`, `conversions`. And what it does not show.

    An impression has no unknown attributes: the impressions of a known path stand on the first of its leaves, null on
    the others, so that they add up.
    """

    table: Any
    impressions: int  # in the table
    conversions: int  # in the table
    unattributed: int = 0  # conversions that have no impression before them
    late: int = 0  # conversions whose last impression is not within the window
    exceeded: int = 0  # conversions whose impression has one already
    incomplete: int = 0  # conversions without a user, another key or a time
    undated: int = 0  # impressions without a time; they can get no conversion, and are in no period
    outside: tuple[Outside, ...] = ()  # by attribute; a conversion may be outside of several domains
    left_out: int = 0  # conversions that are in no leaf since they are outside of a domain
