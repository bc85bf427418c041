"""Neighbours: what a plan costs under each relation between datasets that it may be asked to hide.

A conversion against none moves one key of every level: Σ ε_i. Another value of an unknown attribute moves two keys,
the old and the new one, of every level at or below the first unknown attribute: 2·Σ ε_i over those. Definition 1 of the
paper allows either, and costs the larger.
"""

from typing import NamedTuple

from attributary.types import Ints


class Costs(NamedTuple):
    """In ε."""

    conversion: float  # a conversion against none
    change: float  # another value of an unknown attribute; 0 where there is none

    @property
    def definition_1(self) -> float:
        return max(self.conversion, self.change)


def costs(path: Ints, unknown: Ints, epsilon: float, l1: int) -> Costs:
    """From what the paths from root to leaf contribute, in all and at unknown attributes."""
    return Costs(epsilon * int(path.max()) / l1, epsilon * 2 * int(unknown.max()) / l1)
