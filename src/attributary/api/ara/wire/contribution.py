"""Contribution: what a report adds to the sum of one key."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Contribution:
    """A value for a 128-bit key; key 0 with value 0 is a null contribution, which pads a report."""

    key: int
    value: int
    filtering_id: int = 0
