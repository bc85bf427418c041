"""Privacy unit: what ε protects, as a frozen value: what neighbouring datasets differ in, its loss, and its words.

A row is an impression with its counted conversions. Against none, it moves one key of every level: Σ ε_i. Changing the
value of an unknown attribute moves two keys, the old and the new one, of every level at or below the first unknown
attribute: 2·Σ ε_i over those. Definition 1 of the paper allows either, and its loss is the larger. With Gaussian noise
it is μ² that adds up so. A logged purchase is another matter: without it, the next one may be counted instead.

    register(PrivacyUnit("purchase", "one logged purchase more or less", lambda loss: loss.purchase or inf))
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, Self

from attributary.noise import NoiseModel


class PrivacyLoss(NamedTuple):
    """In ε, of each way in which neighbours may differ."""

    conversion: float  # of whether an impression has its counted conversions, all together
    change: float  # of changing their unknown attributes; 0 where there are none
    purchase: float | None  # of one logged purchase more or less; None where it may affect other impressions

    @classmethod
    def of(cls, path: float, unknown: float, purchase: float | None, noise: NoiseModel) -> Self:
        """From the largest parts of the budget: of counted conversions, at their unknown levels, of a purchase."""
        return cls(noise.loss(path), noise.loss(2 * unknown), None if purchase is None else noise.loss(purchase))

    def under(self, unit: str) -> float:
        """The loss of a privacy unit, by its name."""
        return UNITS[unit].loss(self)


@dataclass(frozen=True)
class PrivacyUnit:
    """What neighbouring datasets differ in, and what of the budget may be spent so that ε is its loss."""

    name: str  # as `neighbours` in a spec has it
    protects: str  # in words
    loss: Callable[[PrivacyLoss], float]
    unknown_part: float = 1.0  # of the budget: what levels of unknown attributes may have together
    title: str = ""  # of one that protects unknown attributes too
    sentence: str = ""  # what is said of its loss beside that of the others

    def budget_of_unknown(self, budget: int) -> int:
        """What the contributions to unknown levels may sum to."""
        return int(budget * self.unknown_part)


COUNTED = "whether an impression has its counted conversion"
UNITS: dict[str, PrivacyUnit] = {}


def register(unit: PrivacyUnit) -> None:
    """Adds a privacy unit: to specs, plans and what is said of them; a name that is taken is refused."""
    if unit.name in UNITS:
        raise ValueError(f"a privacy unit named {unit.name!r} is registered already; choose another name")
    UNITS[unit.name] = unit


register(PrivacyUnit("conversion", COUNTED, lambda loss: loss.conversion))
DEFINITION_1 = "Definition 1 of the paper"
register(PrivacyUnit("definition-1", "also its unknown attributes", lambda loss: max(loss[:2]), 0.5, DEFINITION_1))
