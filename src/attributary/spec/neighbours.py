"""Neighbours: the relations between datasets that ε may be asked to hide, and the privacy loss under each.

A row is an impression with its counted conversion. Against none, it moves one key of every level: Σ ε_i. Changing the
value of an unknown attribute moves two keys, the old and the new one, of every level at or below the first unknown
attribute: 2·Σ ε_i over those. Definition 1 of the paper allows either, and its loss is the larger. With Gaussian noise
it is μ² that adds up so. A logged purchase is another matter: without it, the next one may be counted instead.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

from attributary.noise import NoiseModel


class PrivacyLoss(NamedTuple):
    """In ε."""

    conversion: float  # of whether an impression has its counted conversions, all together
    change: float  # of changing their unknown attributes; 0 where there are none
    purchase: float | None  # of one logged purchase more or less; None where it may affect other impressions

    @classmethod
    def of(cls, path: float, unknown: float, purchase: float | None, noise: NoiseModel) -> Self:
        """From the largest parts of the budget: of counted conversions, at their unknown levels, of a purchase."""
        return cls(noise.loss(path), noise.loss(2 * unknown), None if purchase is None else noise.loss(purchase))

    def under(self, relation: str) -> float:
        """The loss under a relation, by its name."""
        return NEIGHBOURS[relation].loss(self)


@dataclass(frozen=True)
class Neighbours:
    """One relation between datasets."""

    name: str
    protects: str  # in words
    unknown_levels: int  # the levels of unknown attributes have 1/this of the budget together at most
    loss: Callable[[PrivacyLoss], float]

    def budget_of_unknown(self, budget: int) -> int:
        """What the contributions to unknown levels may sum to."""
        return budget // self.unknown_levels


COUNTED = "whether an impression has its counted conversion"
NEIGHBOURS = {
    relation.name: relation
    for relation in (
        Neighbours("conversion", COUNTED, 1, lambda loss: loss.conversion),
        Neighbours("definition-1", "also its unknown attributes", 2, lambda loss: max(loss.conversion, loss.change)),
    )
}


def known_relation(name: Any) -> str:
    """The name of a relation; a pydantic validator."""
    if not isinstance(name, str) or name not in NEIGHBOURS:
        raise ValueError(f"neighbours are one of {', '.join(NEIGHBOURS)}")
    return name
