"""RandomisedResponse: each person's true state among k, or with chance p one of the k at random.

    noise.RandomisedResponse.at(3, epsilon=1)       # k = 3 states; p = k / (k − 1 + e^ε)

Noise that is added to no figure: it is in the responses, as in surveys, local differential privacy and event-level
reports. Let every state y have a vector of weights w_y, which adds to some figures: its unit vector where states are
counted, or how many reports of each kind it stands for. Over the states, w has the mean w̄ and second moment M. The
n people's weights sum to T, which is asked for, and their products ww' to A. The responses' sums R and products Q say

    T̂ = (R − n·p·w̄) / (1 − p),    Â = (Q − n·p·M) / (1 − p)
    Cov(T̂) = p / (1 − p)² · [(1 − p)·(A − T·w̄' − w̄·T' + n·w̄·w̄') + n·(M − w̄·w̄')]

without bias, as each person's response is a draw of its own. For states themselves this is diagonal plus rank 2, and
correlations are of order 1/√k between a state that most people are in and another, of order 1/k between others.
"""

from dataclasses import dataclass
from math import expm1, inf, log
from typing import NamedTuple, Self

import numpy as np

from attributary.errors import InputError
from attributary.types import Floats, Ints

LARGEST_EPSILON = 500.0  # beyond which nothing is random to any digit, and before which exp overflows


def response_rate(states: int, epsilon: float) -> float:
    """The chance that a response is drawn at random from all states, for ε: k / (k − 1 + e^ε)."""
    return states / (states + expm1(min(epsilon, LARGEST_EPSILON)))


class StateWeights(NamedTuple):
    """What a state drawn at random adds to each figure: its mean w̄, and its second moment M."""

    mean: Floats
    moment: Floats


@dataclass(frozen=True)
class RandomisedResponse:
    """k-ary randomised response: with chance `rate` a response is drawn from all `states`, its true one included."""

    states: int
    rate: float

    def __post_init__(self) -> None:
        if not (self.states >= 1 and self.states == int(self.states)):
            raise InputError(f"states are a whole number, 1 or more; got {self.states}")
        if not 0 <= self.rate < 1:
            raise InputError(f"the rate of random responses is from 0 to below 1; got {self.rate}")

    @classmethod
    def at(cls, states: int, epsilon: float) -> Self:
        """The response that is ε-differentially private for each person."""
        if not epsilon > 0:
            raise InputError(f"epsilon is a positive number; got {epsilon}")
        return cls(states, response_rate(states, epsilon))

    @property
    def epsilon(self) -> float:
        """The ε of each person's response."""
        return log(self.states / self.rate - self.states + 1) if self.rate > 0 else inf

    def figures(
        self, people: Floats, sums: Floats, products: Floats, weights: StateWeights, expected: Floats | None = None
    ) -> tuple[Floats, Floats]:
        """T̂ and its covariance, (groups, figures) and (groups, figures, figures); `expected` is T in the covariance."""
        p, (mean, moment) = self.rate, weights
        n = people[:, None]
        value = (sums - n * (p * mean)) / (1 - p)
        true = (products - n[..., None] * (p * moment)) / (1 - p)
        figure = value if expected is None else expected
        true = true + np.eye(len(mean)) * (figure - value)[:, None, :]
        cross = figure[:, :, None] * mean
        square = true - cross - np.swapaxes(cross, 1, 2) + n[..., None] * np.outer(mean, mean)
        size, axes = np.linalg.eigh(square)  # a sum of squares: what is negative is noise
        square = np.einsum("gij,gj,gkj->gik", axes, np.maximum(size, 0.0), axes)
        spread = n[..., None] * (moment - np.outer(mean, mean))
        return value, p / (1 - p) ** 2 * ((1 - p) * square + spread)

    def state_figures(
        self, people: Floats, observed: Floats, expected: Floats | None = None, covariance: bool = True
    ) -> tuple[Floats, Floats]:
        """The people in each of some states; their variances alone, (groups, states), without `covariance`."""
        size, k, p = observed.shape[1], self.states, self.rate
        if covariance:
            weights = StateWeights(np.full(size, 1 / k), np.eye(size) / k)
            return self.figures(people, observed, np.eye(size) * observed[:, None, :], weights, expected)
        n = people[:, None]
        value = (observed - n * (p / k)) / (1 - p)
        true = np.maximum(value if expected is None else expected, 0.0)  # never below a state in which nobody is
        spread = (1 - p) * (true * (1 - 2 / k) + n / k**2) + n / k * (1 - 1 / k)
        return value, p / (1 - p) ** 2 * spread

    def respond(self, true: Ints, rng: "np.random.Generator") -> Ints:
        """The responses of people in these states, numbered from 0; for experiments, as `rng` protects nobody."""
        drawn = rng.integers(0, self.states, np.shape(true))
        return np.where(rng.random(np.shape(true)) < self.rate, drawn, true)
