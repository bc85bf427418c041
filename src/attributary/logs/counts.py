"""Counts: how many conversions each leaf has, and what became of those that none has."""

from dataclasses import dataclass
from typing import Any, NamedTuple


class Outside(NamedTuple):
    """Conversions whose value of an attribute is not in its domain."""

    attribute: str
    conversions: int
    values: dict[str, int]  # the most frequent ones, and how many conversions have each
    kept: bool  # as the value `other`; if not, they are in no leaf


class Values(NamedTuple):
    """What became of a value of the conversions that are counted, in its unit."""

    measure: str
    unit: str | None
    total: float  # of those above 0, before clipping
    missing: int  # conversions without a value, which adds 0
    not_positive: int  # conversions whose value is 0 or less, which adds 0
    refunded: float  # and the sum of these, 0 or less
    clip: float | None  # None where the plan chooses
    clipped: int  # conversions whose value is clipped
    cut: float  # what clipping takes off the total


@dataclass(frozen=True, eq=False)
class Counts:
    """A table with one row per leaf: the attributes, `impressions`, `conversions`. And what it does not show.

    With several conversions to an impression, or values, it also has a column for each value, and for all of them what
    limits cut off, as in `conversions_beyond`. Where the plan is to choose a limit, nothing is cut off: a leaf has a
    row for each `rank` and each step of values, `revenue_from` where it begins, and its rows add up.

    An impression has no unknown attributes: the impressions of a known path stand on the first of its leaves, null on
    the others, so that they add up.
    """

    table: Any
    impressions: int  # in the table
    conversions: int  # in the table
    unattributed: int = 0  # conversions that have no impression before them
    late: int = 0  # conversions whose last impression is not within the window
    exceeded: int = 0  # conversions whose impression has as many as count already
    incomplete: int = 0  # conversions without a user, another key or a time
    undated: int = 0  # impressions without a time; they can get no conversion, and are in no period
    outside: tuple[Outside, ...] = ()  # by attribute; a conversion may be outside of several domains
    left_out: int = 0  # conversions that are in no leaf since they are outside of a domain
    values: tuple[Values, ...] = ()  # of each measure that is one
    rows: int | None = None  # of the logs; None where a period passes some of them over
