"""Aggregator noise: one or two aggregators each add DLap(ε/(2·maxValue)) to every sum of a W3C histogram.

A report may move from one index to another, so that sums get twice the noise that ε alone asks for. Where all levels
share a report, a conversion adds whole credits, `l1` in all (`AggregatorSums`); where each level has reports of its
own, it adds 1 to one count (`AggregatorCounts`). With X = X₁ + X₂, both DLap(a), as two aggregators draw them:

    P(X = k) = tanh²(a/2) · exp(−a·|k|) · (|k| + coth a)      excess kurtosis 3/2 + 1/var

of which a fine grid makes the sum of two Laplace variables, with density (1 + |x|/b) · exp(−|x|/b) / 4b.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np

from attributary.noise.discrete_laplace import Entropy, dlap_log_likelihood, dlap_variance, sample_dlap, sample_each
from attributary.noise.model import NoiseModel, OnCounts, OnSums
from attributary.noise.shapes import NoiseShape, dlap_rate, dlap_variances
from attributary.types import Floats, Ints

STEPS = 12  # of Newton's method: from above it needs fewer


def _twice_log_likelihood(k: Floats, a: Floats) -> Floats:
    value: Floats = 2 * np.log(np.tanh(a / 2)) - a * np.abs(k) + np.log(np.abs(k) + 1 / np.tanh(a))
    return value


def _laplace_twice_likelihood(noise: Floats, variance: Floats) -> Floats:
    scale = np.sqrt(np.where((variance > 0) & (variance < np.inf), variance, 1.0)) / 2
    far = np.abs(noise) / scale
    value: Floats = np.log1p(far) - far - np.log(4 * scale)
    return value


def _root(value: float, rise: Callable[[float], float], slope: Callable[[float], float], start: float) -> float:
    """Where a convex function that rises is `value`, from a start beyond."""
    x = start
    for _ in range(100):
        step = (rise(x) - value) / slope(x)
        x -= step
        if abs(step) < 1e-14 * x:
            break
    return x


def _laplace_twice_beyond(chance: float) -> float:
    """x in standard deviations with P(|X| > x) = (1 + t/2)·exp(−t) = chance, where t = 2x."""
    surprise = -float(np.log(chance))
    t = _root(surprise, lambda t: t - float(np.log1p(t / 2)), lambda t: 1 - 1 / (2 + t), 2 * surprise + 2)
    return t / 2


def _dlap_twice_beyond(variance: Floats, chance: float) -> Floats:
    """The same for whole numbers: the tail from k on is at most that of the continuous sum from k − 1 on."""
    some = np.where((variance > 0) & (variance < np.inf), variance, 1.0)
    rate = dlap_rate(some / 2)
    whole = np.ceil(2 * _laplace_twice_beyond(chance) / rate) + 1
    far: Floats = whole / np.sqrt(some)
    return far


LAPLACE_TWICE = NoiseShape(
    "laplace-twice",
    "the sum of two Laplace draws; also of two discrete ones that were scaled down",
    lambda variance: np.full_like(variance, 1.5),
    lambda variance, chance: np.full_like(variance, _laplace_twice_beyond(chance)),
    _laplace_twice_likelihood,
    (lambda scale: (4 * scale**2, np.ones_like(scale)),),
)
DLAP_TWICE = NoiseShape(
    "dlap-twice",
    "the sum of two discrete Laplace draws, on whole counts",
    lambda variance: 1.5 + 1.0 / np.where(variance > 0, variance, np.inf),
    _dlap_twice_beyond,
    lambda noise, variance: _twice_log_likelihood(noise, dlap_rate(variance / 2)),
    (lambda rate: (2 * dlap_variances(rate), np.ones_like(rate)),),
)


def _log_likelihood(draws: int, drawn: Floats, rate: Floats) -> Floats:
    return dlap_log_likelihood(drawn, rate) if draws == 1 else _twice_log_likelihood(drawn, rate)


def _replay(draws: int, rate: Floats, plus: Floats, minus: Floats) -> Floats:
    """Draws made of two standard exponential numbers each: a difference of two geometric numbers, or of sums of two.

    Of two, the sum is at least k with chance exp(−a·k)·(1 + k·(1 − e⁻ᵃ)), which is inverted.
    """
    if draws == 1:
        first: Floats = np.floor(plus / rate) - np.floor(minus / rate)
        return first
    fall = -np.expm1(-rate)

    def inverse(surprise: Floats) -> Floats:
        k = (2 * surprise + 2) / rate
        for _ in range(STEPS):
            k -= (rate * k - np.log1p(k * fall) - surprise) / (rate - fall / (1 + k * fall))
        return np.floor(np.maximum(k, 0.0))

    twice: Floats = inverse(plus) - inverse(minus)
    return twice


@dataclass(frozen=True)
class AggregatorSums(OnSums):
    """Of sums of credit, `l1` for each conversion."""

    name = "one-aggregator"
    short = "credit, noise of one aggregator"
    beside = None  # type: ignore[assignment]
    values = False
    formula = None  # type: ignore[assignment]
    draws: ClassVar[int] = 1

    @property
    def _rate(self) -> float:
        return self.epsilon / (2 * self.l1)

    @cached_property
    def factor(self) -> float:
        return self.draws * dlap_variance(self._rate)

    def sample(self, budget: Floats, rng: Entropy | None = None) -> Ints:
        drawn, some = np.zeros(budget.shape, np.int64), budget > 0
        drawn[some] = sample_dlap(self._rate, (self.draws, int(some.sum())), rng).sum(axis=0)
        return drawn

    def log_likelihood(self, drawn: Floats, budget: Floats) -> Floats:
        return np.where(budget > 0, _log_likelihood(self.draws, drawn, np.full(budget.shape, self._rate)), 0.0)

    def replay(self, budget: Floats, plus: Floats, minus: Floats) -> Floats:
        return _replay(self.draws, np.full(budget.shape, self._rate), plus, minus)

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
    draws: ClassVar[int] = 1

    def variance(self, budget: Floats) -> Floats:
        return self.draws * dlap_variances(budget / 2)

    def precision(self, budget: Floats) -> Floats:
        return super().precision(budget / 2) / self.draws

    def slope(self, budget: Floats) -> Floats:
        return super().slope(budget / 2) / (2 * self.draws)

    def sample(self, budget: Floats, rng: Entropy | None = None) -> Ints:
        each = np.broadcast_to(budget / 2, (self.draws, *budget.shape))
        drawn: Ints = sample_each(each, rng).sum(axis=0)
        return drawn

    def log_likelihood(self, drawn: Floats, budget: Floats) -> Floats:
        rate = np.where(budget > 0, budget, 1.0) / 2
        return np.where(budget > 0, _log_likelihood(self.draws, drawn, rate), 0.0)

    def replay(self, budget: Floats, plus: Floats, minus: Floats) -> Floats:
        return _replay(self.draws, np.where(budget > 0, budget, 1.0) / 2, plus, minus)

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


PAGES: tuple[type[NoiseModel] | NoiseShape, ...] = (
    *(AggregatorSums, TwoAggregatorSums, AggregatorCounts, TwoAggregatorCounts),
    *(LAPLACE_TWICE, DLAP_TWICE),
)
