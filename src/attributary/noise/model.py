"""NoiseModel: what noise a part of the privacy budget buys; the models of discrete Laplace noise.

Other noise has a page of its own, as `gaussian`.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from attributary.noise.discrete_laplace import (
    Entropy,
    dlap_log_likelihood,
    dlap_variance,
    rate,
    reader,
    sample_dlap,
    sample_each,
)
from attributary.noise.shapes import (
    DISCRETE_LAPLACE,
    DLAP_TWICE,
    LAPLACE,
    LAPLACE_TWICE,
    NoiseShape,
    dlap_variances,
    surpassed,
    twice_log_likelihood,
)
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
    on_sums: ClassVar[bool] = False  # whether it is added to sums of contributions, as in the API
    proportional: ClassVar[bool] = False  # whether all variances go by one factor of ε: then a split is best at every ε
    values: ClassVar[bool] = False  # whether sums of values can have it; else whole counts alone
    approximate: ClassVar[bool] = False  # whether ε holds but for a chance of δ
    exponent: ClassVar[int] = 2  # precision grows with this power of the budget, or about so
    beside: ClassVar[str | None] = None  # the noise that a plan compares it with
    draws: ClassVar[int] = 1  # of discrete Laplace noise, that are added up
    parts: ClassVar[int] = 1  # of the budget, of which each draw has one
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
        return np.where(budget > 0, (below + self.sample(budget, rng)) / steps, 0.0)


class OfDiscreteLaplace(NoiseModel):
    """Noise that is a draw of discrete Laplace noise, or the sum of two."""

    @abstractmethod
    def _rates(self, budget: Floats) -> Floats:
        """The rate of the noise of each node; any without a budget."""

    def log_likelihood(self, drawn: Floats, budget: Floats) -> Floats:
        """The logarithm of tanh(a/2)·exp(−a·|k|), or the same of a sum of two."""
        of = dlap_log_likelihood if self.draws == 1 else twice_log_likelihood
        return np.where(budget > 0, of(drawn, self._rates(budget)), 0.0)

    def replay(self, budget: Floats, plus: Floats, minus: Floats) -> Floats:
        """A difference of two geometric numbers ⌊E/a⌋, or of sums of two.

        A sum of two is at least k with chance exp(−a·k)·(1 + k·(1 − e⁻ᵃ)), which is inverted.
        """
        rate = self._rates(budget)
        if self.draws == 1:
            return np.floor(plus / rate) - np.floor(minus / rate)
        above, below = (np.maximum(surpassed(each, rate, -np.expm1(-rate)), 0.0) for each in (plus, minus))
        drawn: Floats = np.floor(above) - np.floor(below)
        return drawn


# OnSums, "api": the noise of a summary report. DLap(ε/L1) is added to sums of contributions.
#
# A node with budget ε_v contributes C = L1·ε_v/ε, so that its count has variance var(DLap(ε/L1)) / C².


@dataclass(frozen=True)
class OnSums(OfDiscreteLaplace):
    name = "api"
    shape = LAPLACE
    short = "scaled contributions"
    on_sums: ClassVar[bool] = True
    proportional: ClassVar[bool] = True
    values: ClassVar[bool] = True
    beside: ClassVar[str | None] = "gaussian"

    @staticmethod
    def formula(contribution: Floats, epsilon: Floats, l1: float = 65536, sums: float = 0) -> tuple[Floats, Floats]:
        """Of counts, or with `sums` of sums of contributions, which are counts when divided by the contribution."""
        if np.size(epsilon):
            rate(float(np.min(epsilon / l1)))  # or an error, since no such noise can be drawn
        with np.errstate(divide="ignore"):  # no contribution, no measurement
            variance = dlap_variance(epsilon / l1) / contribution**2
        return variance, np.where(np.asarray(sums, bool), contribution, 1.0)

    @property
    def _rate(self) -> float:
        return self.epsilon / (self.parts * self.l1)

    @cached_property
    def factor(self) -> float:
        return self.draws * dlap_variance(self._rate)

    @cached_property
    def _scale(self) -> float:
        """A node's variance times its budget squared: about 2."""
        return self.factor * (self.epsilon / self.l1) ** 2

    def variance(self, budget: Floats) -> Floats:
        with np.errstate(divide="ignore", over="ignore"):  # a budget of next to nothing: inf, too
            return self._scale / budget / budget

    def precision(self, budget: Floats) -> Floats:
        return budget * (budget / self._scale)

    def slope(self, budget: Floats) -> Floats:
        return budget * (2.0 / self._scale)

    def steps(self, budget: Floats) -> Floats:
        contribution = budget * self.l1 / self.epsilon
        whole = np.rint(contribution)  # a plan's is whole, but for the last digit of a float
        near = np.abs(whole - contribution) <= 1e-9 * contribution
        return np.where(budget > 0, np.where(near, whole, contribution), 1.0)

    def sample(self, budget: Floats, rng: Entropy | None = None) -> Ints:
        drawn, some = np.zeros(budget.shape, np.int64), budget > 0
        drawn[some] = sample_dlap(self._rate, (self.draws, int(some.sum())), rng).sum(axis=0)
        return drawn

    def _rates(self, budget: Floats) -> Floats:
        return np.full(budget.shape, self._rate)

    @property
    def words(self) -> tuple[str, str]:
        return (
            "discrete Laplace, as in a summary report",
            f"A conversion adds its contributions, {self.l1:,} together, to one key of each level; every sum gets "
            f"noise DLap(ε / {self.l1:,}).",
        )


# OnCounts, "unit": DLap(ε_v) is added to a node's whole count itself, ε_v the node's budget.

LARGE = 300.0  # a count with this budget has variance 1e-130; more must not let its precision overflow


@dataclass(frozen=True)
class OnCounts(OfDiscreteLaplace):
    name = "unit"
    shape = DISCRETE_LAPLACE
    short = "whole counts"
    beside: ClassVar[str | None] = "gaussian"

    def variance(self, budget: Floats) -> Floats:
        return self.draws * dlap_variances(budget / self.parts)

    def precision(self, budget: Floats) -> Floats:
        half = np.sinh(np.minimum(budget / self.parts, LARGE) / 2)
        return 2.0 * half * half / self.draws

    def slope(self, budget: Floats) -> Floats:
        return np.sinh(np.minimum(budget / self.parts, LARGE)) / (self.parts * self.draws)

    def steps(self, budget: Floats) -> Floats:
        return np.ones(budget.shape)

    def sample(self, budget: Floats, rng: Entropy | None = None) -> Ints:
        drawn: Ints = sample_each(np.broadcast_to(budget / self.parts, (self.draws, *budget.shape)), rng).sum(axis=0)
        return drawn

    def _rates(self, budget: Floats) -> Floats:
        return np.where(budget > 0, budget, 1.0) / self.parts

    @property
    def words(self) -> tuple[str, str]:
        return "discrete Laplace on whole counts", "Every count gets noise DLap(ε of its level)."


# Aggregator noise: one or two aggregators each add DLap(ε/(2·maxValue)) to every sum of a W3C histogram.
#
# A report may move from one index to another, so that sums get twice the noise that ε alone asks for. Where all levels
# share a report, a conversion adds whole credits, `l1` in all (`AggregatorSums`); where each level has reports of its
# own, it adds 1 to one count (`AggregatorCounts`).


@dataclass(frozen=True)
class AggregatorSums(OnSums):
    """Of sums of credit, `l1` for each conversion."""

    name = "one-aggregator"
    short = "credit, noise of one aggregator"
    beside = None
    formula = None  # type: ignore[assignment]
    parts = 2

    @property
    def words(self) -> tuple[str, str]:
        return (
            f"discrete Laplace of {_who(self.draws)}, on sums of credit",
            f"A conversion gives {self.l1} credits, some to each level; every sum gets noise DLap(ε / {2 * self.l1}) "
            f"from {_who(self.draws)}.",
        )


@dataclass(frozen=True)
class AggregatorCounts(OnCounts):
    """Of whole counts, each level in reports of its own."""

    name = "one-aggregator-counts"
    short = "whole counts, noise of one aggregator"
    beside = None
    values = True  # what an API refuses of them, it says itself
    parts = 2

    @property
    def words(self) -> tuple[str, str]:
        return (
            f"discrete Laplace of {_who(self.draws)}, on whole counts",
            f"Every count gets noise DLap(ε / 2) from {_who(self.draws)}, ε that of its level.",
        )


def _who(draws: int) -> str:
    return "one aggregator" if draws == 1 else "each of two aggregators"


class TwoAggregatorSums(AggregatorSums):
    name, short, shape, draws = "two-aggregators", "credit, noise of two aggregators", LAPLACE_TWICE, 2


class TwoAggregatorCounts(AggregatorCounts):
    name, short, draws = "two-aggregators-counts", "whole counts, noise of two aggregators", 2
    shape = DLAP_TWICE


# RoundedLaplace, "bigquery": Laplace noise on counts, rounded to whole numbers; a count has half of its budget.
#
# BigQuery spends ε / (n + 1) on each of a query's n aggregates, and as much on dropping groups of few privacy units. A
# query of one count has noise of scale 2/ε, and its answer is a whole number.

FINE = 2**16  # steps of what is drawn before it is rounded


@dataclass(frozen=True)
class RoundedLaplace(OnCounts):
    name = "bigquery"
    shape = LAPLACE
    short = "whole counts of BigQuery"
    parts = 2
    beside = None
    approximate = True  # groups of few privacy units are dropped, but for a chance of δ

    def variance(self, budget: Floats) -> Floats:
        with np.errstate(divide="ignore", over="ignore"):
            return np.where(budget > 0, 2 * (self.parts / budget) ** 2 + 1 / 12, np.inf)

    def precision(self, budget: Floats) -> Floats:
        return budget**2 / (2 * self.parts**2 + budget**2 / 12)

    def slope(self, budget: Floats) -> Floats:
        return 4 * self.parts**2 * budget / (2 * self.parts**2 + budget**2 / 12) ** 2

    def sample(self, budget: Floats, rng: Entropy | None = None) -> Ints:
        return np.rint(sample_each(budget / (self.parts * FINE), rng) / FINE).astype(np.int64)

    def replay(self, budget: Floats, plus: Floats, minus: Floats) -> Floats:
        return np.rint((plus - minus) * self.parts / np.where(budget > 0, budget, 1.0))

    log_likelihood = NoiseModel.log_likelihood

    @property
    def words(self) -> tuple[str, str]:
        return "rounded Laplace on whole counts", "Every count gets Laplace noise of scale 2/ε, ε that of its query."
