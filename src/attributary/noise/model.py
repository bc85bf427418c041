"""NoiseModel: what noise a part of the privacy budget buys. Each model is a page of its own."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from attributary.noise.discrete_laplace import Entropy, reader
from attributary.noise.shapes import NoiseShape
from attributary.types import Floats, Ints


@dataclass(frozen=True)
class NoiseModel(ABC):
    """Noise under a budget of ε for all levels together; `budget` is the part of it that each node has.

    The parts of levels sum to ε, whether it is ε that adds up or, as for Gaussian noise, something else in proportion.
    A node measures its count in steps of the noise's grid: what is added to them is a whole number.
    """

    epsilon: float
    l1: int = 65536
    delta: float = 0.0  # of noise that needs one

    name: ClassVar[str]
    shape: ClassVar[NoiseShape]
    short: ClassVar[str]  # in a few words
    on_sums: ClassVar[bool]  # whether it is added to sums of contributions, as in the API
    proportional: ClassVar[bool]  # whether all variances go by one factor of ε: then a split is best at every ε
    values: ClassVar[bool] = False  # whether sums of values can have it; else whole counts alone
    approximate: ClassVar[bool] = False  # whether ε holds but for a chance of δ
    exponent: ClassVar[int] = 2  # precision grows with this power of the budget, or about so
    beside: ClassVar[str | None] = None  # the noise that a plan compares it with
    formula: ClassVar[Callable[..., Any] | None] = None  # variance and divisor of figures, from what a user states

    def __post_init__(self) -> None:
        if not 0 < self.epsilon < np.inf:
            raise ValueError(
                f"epsilon is a positive number; got {self.epsilon}: give the budget of all levels together"
            )
        if not 1 <= self.l1 < np.inf or self.l1 != int(self.l1):
            raise ValueError(f"l1 is a whole number, 1 or more; got {self.l1}: the API's is 65536")
        if self.approximate and not 0 < self.delta < 1:
            raise ValueError(f'noise "{self.name}" needs a delta above 0 and below 1, such as 1e-6; got {self.delta:g}')
        if not self.approximate and self.delta != 0:
            raise ValueError(f'noise "{self.name}" has no delta; got {self.delta:g}: leave it out')

    @classmethod
    def repeats(cls, conversions: float) -> float:
        """How many times the budget of one so many conversions take that may all be of one key."""
        return conversions ** (2 // cls.exponent)

    def loss(self, share: float) -> float:
        """The ε of a part of the budget, at its δ."""
        return self.epsilon * share

    @property
    def account(self) -> dict[str, float]:
        """What else is to be said of its privacy, such as δ."""
        return {}

    @property
    def factor(self) -> float:
        """What all variances go by if they are proportional, whatever the parts are; else 1."""
        return 1.0

    @abstractmethod
    def variance(self, budget: Floats) -> Floats:
        """Of a count whose node has this budget; inf without any."""

    @abstractmethod
    def precision(self, budget: Floats) -> Floats:
        """1 / variance; 0 without any budget."""

    @abstractmethod
    def slope(self, budget: Floats) -> Floats:
        """How fast the precision grows with the budget."""

    @abstractmethod
    def steps(self, budget: Floats) -> Floats:
        """How many steps of the grid a conversion is; 1 or more, also where there is no budget."""

    @abstractmethod
    def sample(self, budget: Floats, rng: Entropy | None = None) -> Ints:
        """Exact draws in steps, from the operating system's entropy; 0 without any budget."""

    @abstractmethod
    def replay(self, budget: Floats, plus: Floats, minus: Floats) -> Floats:
        """Draws in steps, for experiments alone: made of two standard exponential numbers for each node."""

    @property
    @abstractmethod
    def words(self) -> tuple[str, str]:
        """What it is, and how it comes about, for people."""

    def log_likelihood(self, drawn: Floats, budget: Floats) -> Floats:
        """The logarithm of the chance of these draws in steps; 0 without any budget, where nothing is drawn."""
        some = budget > 0
        steps, variance = self.steps(budget), np.where(some, self.variance(np.where(some, budget, 1.0)), 1.0)
        each: Floats = self.shape.log_likelihood(drawn / steps, variance) - np.log(steps)
        return np.where(some, each, 0.0)

    def measure(self, count: Floats, budget: Floats, rng: Entropy | None = None) -> Floats:
        """Noisy counts; 0 where nothing is measured, so that nothing is given away.

        A count that is no whole number of steps is rounded up as often as its fraction says. What comes out is a
        function of whole noisy steps, so that no rounding of floats can tell more than they do.
        """
        steps = self.steps(budget)
        exact = count * steps
        below = np.floor(exact + 1e-9)
        fraction = np.maximum(exact - below, 0.0)
        if fraction.any():
            chance = np.frombuffer(reader(rng)(4 * exact.size), "<u4").reshape(exact.shape) / 2**32
            below = below + (chance < fraction)
        noisy: Floats = np.where(budget > 0, (below + self.sample(budget, rng)) / steps, 0.0)
        return noisy
