"""Span: a length of time, as in 2d."""

import re
from typing import Any, NamedTuple

SECONDS = {"s": 1, "m": 60, "h": 3_600, "d": 86_400, "w": 604_800}
RULE = 'a whole number of seconds, minutes, hours, days or weeks, as in "90s", "30m", "6h", "2d" or "1w"'


class Span(NamedTuple):
    number: int
    unit: str  # s, m, h, d or w

    @property
    def seconds(self) -> int:
        return self.number * SECONDS[self.unit]

    def in_units(self, unit: str) -> int:
        """How many of these units it is; they must divide it."""
        return self.seconds // SECONDS[unit]


def span(text: Any) -> Span:
    """The span that a text names; a ValueError where it names none."""
    found = re.fullmatch(r"\s*(\d{1,9})\s*([smhdw])\s*", text) if isinstance(text, str) else None
    if not found:
        raise ValueError(RULE)
    return Span(int(found[1]), found[2])
