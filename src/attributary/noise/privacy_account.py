"""Privacy accounts: what Gaussian noise, Laplace noise or both together lose, as ε for a δ and as δ for an ε.

Gaussian noise on figures with precisions π_i, each moved by 1, is μ-GDP with μ² = Σ π_i, ρ-zCDP with ρ = μ²/2, and

    δ(ε) = Φ(μ/2 − ε/μ) − e^ε · Φ(−μ/2 − ε/μ)

exactly (Balle and Wang 2018). Discrete Gaussian noise has the same ρ. On whole counts with a small σ its δ may be above
this curve or below; on the fine grid that `gaussian` draws on, it is within 1e-10 of it.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, lru_cache
from math import erfc, exp, inf, pi, sqrt

import numpy as np

from attributary.errors import InputError
from attributary.types import Floats

POINTS = 1024  # of the grid of losses, from 0 to the sum of all ε
STEPS = 2048  # that stand for continuous Laplace noise: more would lose less by no more than ε/4·STEPS of δ
TINY = 1e-11  # of a solution


def gaussian_delta(mu: float, epsilon: float | Floats) -> Floats:
    """The δ of μ-GDP at an ε, which may be negative; accurate for the tiniest δ, too."""
    loss = np.asarray(epsilon, np.float64)
    if mu == 0:
        return np.maximum(-np.expm1(loss), 0.0)
    t = loss / mu - mu / 2  # so that φ(t) = e^ε·φ(t + μ), and both terms are φ(t) times ratios R of one size
    density = np.exp(-t * t / 2) / sqrt(2 * pi)
    first = np.where(t < 0, _upper(np.minimum(t, 0.0)), density * _mills(np.maximum(t, 0.0)))
    low = np.exp(np.minimum(loss, 0.0)) * _upper(np.minimum(t + mu, 0.0))
    return first - np.where(t + mu < 0, low, density * _mills(np.maximum(t + mu, 0.0)))


@lru_cache(1024)
def gaussian_mu(epsilon: float, delta: float) -> float:
    """The largest μ whose noise has this (ε, δ): `gaussian_delta` solved for μ, rounded down."""
    _check(epsilon, delta)
    return _solve(lambda mu: float(gaussian_delta(mu, epsilon)) > delta, 1.0)[0]


@lru_cache(1024)
def gaussian_epsilon(mu: float, delta: float) -> float:
    """The least ε that μ-GDP has at this δ, rounded up."""
    return PrivacyAccount(mu).epsilon(delta)


@dataclass(frozen=True)
class PrivacyAccount:
    """Figures with Gaussian noise of `mu` in all, and levels with Laplace noise, of the same people.

    A level is its ε, for continuous Laplace noise, or (ε, steps) for discrete Laplace noise whose grid has so many
    steps to a conversion: 1 for noise on whole counts (and an upper bound for any noise that is ε-DP), the contribution
    for an API's. What it says is never below the truth, and close to it.
    """

    mu: float = 0.0
    laplace: tuple[float | tuple[float, int], ...] = ()

    def __post_init__(self) -> None:
        if not 0 <= self.mu < inf or not all(0 < e < inf and n >= 1 and n == int(n) for e, n in self._levels):
            raise InputError(
                "an account has mu, 0 or more, and for each level of Laplace noise its epsilon, above 0, or (epsilon, "
                f"steps) with 1 step or more; got mu = {self.mu} and {', '.join(map(str, self.laplace)) or 'no levels'}"
            )

    @property
    def rho(self) -> float:
        """ρ of zero-concentrated differential privacy."""
        return (self.mu**2 + sum(epsilon**2 for epsilon, _ in self._levels)) / 2

    def delta(self, epsilon: float) -> float:
        """δ at this ε: the mean over what Laplace noise loses of the Gaussian δ at what is left of ε."""
        if not 0 <= epsilon < inf:
            raise InputError(f"epsilon is 0 or more; got {epsilon}")
        if self.mu == 0 and epsilon >= self._pure:
            return 0.0
        loss, chance = self._losses
        return float(min(1.0, np.dot(chance, gaussian_delta(self.mu, epsilon - loss))))

    def epsilon(self, delta: float) -> float:
        """The least ε at this δ, rounded up; at δ = 0 there is none with Gaussian noise."""
        if delta == 0 and self.mu == 0:
            return self._pure
        _check(1.0, delta)
        if self.delta(0.0) <= delta:
            return 0.0
        return _solve(lambda epsilon: self.delta(epsilon) <= delta, 1.0)[1]

    def plus(self, other: "PrivacyAccount") -> "PrivacyAccount":
        """Both of them together."""
        return PrivacyAccount(sqrt(self.mu**2 + other.mu**2), self.laplace + other.laplace)

    @cached_property
    def _levels(self) -> list[tuple[float, int]]:
        return [each if isinstance(each, tuple) else (each, STEPS) for each in self.laplace]

    @cached_property
    def _pure(self) -> float:
        """The ε of Laplace noise at δ = 0: the sum of all."""
        return sum(epsilon for epsilon, _ in self._levels)

    @cached_property
    def _losses(self) -> tuple[Floats, Floats]:
        """The privacy losses of all levels of Laplace noise together, on a grid, and the chance of each."""
        width, first = self._pure / POINTS, 0
        chance: Floats = np.ones(1)
        for epsilon, steps in self._levels:
            begin, each = _laplace_losses(epsilon, steps, width)
            first, chance = first + begin, np.convolve(chance, each).astype(np.float64)
        return np.arange(first, first + len(chance), dtype=np.float64) * width, chance


def _laplace_losses(epsilon: float, steps: int, width: float) -> tuple[int, Floats]:
    """The losses of discrete Laplace noise as multiples of `width`, from the first on, and their chances.

    They are a·(steps − 2j) with a = ε/steps. A loss between two points of the grid is divided among them such that
    both its chances, with and without a conversion, stay: merging the two again is post-processing, so that the grid
    loses no less (Doroshenko and others 2022). Continuous noise is discrete noise plus more, so it loses no more.
    """
    a = epsilon / steps
    j = np.arange(steps + 1)
    chance = np.exp(-a * j) * np.where((j == 0) | (j == steps), 1.0, -np.expm1(-a)) / (1 + exp(-a))
    place = (epsilon - 2 * a * j) / width
    begin = np.floor(place).astype(np.int64)
    lower = chance * np.clip(np.expm1((begin + 1 - place) * width) / np.expm1(width), 0.0, 1.0)
    first = int(begin[-1])
    losses: Floats = np.bincount(begin - first, lower, int(begin[0]) - first + 2).astype(np.float64)
    losses += np.bincount(begin - first + 1, chance - lower, len(losses))
    return first, losses


def _check(epsilon: float, delta: float) -> None:
    if not 0 < epsilon < inf or not 0 < delta < 1:
        raise InputError(f"epsilon is above 0, and delta above 0 and below 1; got {epsilon} and {delta}")


def _solve(beyond: Callable[[float], bool], start: float) -> tuple[float, float]:
    """The numbers next to where something begins to hold that holds from there on: without it, and with it."""
    low, high = 0.0, start
    while not beyond(high):
        low, high = high, 2 * high
    while high - low > TINY * high:
        middle = (low + high) / 2
        low, high = (low, middle) if beyond(middle) else (middle, high)
    return low, high


def _upper(t: Floats) -> Floats:
    """Φ(−t)."""
    return np.array([erfc(x) / 2 for x in (np.ravel(t) / sqrt(2)).tolist()]).reshape(np.shape(t))


def _mills(t: Floats) -> Floats:
    """Φ(−t)/φ(t) for t from 0 on: by erfc, and from 8 on by its continued fraction 1/(t + 1/(t + 2/(t + …)))."""
    near = np.minimum(t, 8.0)
    ratio, far = _upper(near) * np.exp(near * near / 2) * sqrt(2 * pi), np.maximum(t, 8.0)
    fraction = far
    for k in range(60, 0, -1):
        fraction = far + k / fraction
    return np.where(t < 8, ratio, 1 / fraction)
