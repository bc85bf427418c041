"""Shapes: what is known of a figure's noise besides its variance; intervals, alarms and likelihoods go by it."""

from collections.abc import Callable
from dataclasses import dataclass
from math import log, sqrt
from typing import Any

import numpy as np

from attributary.noise.discrete_laplace import dlap_log_likelihood, dlap_variance
from attributary.noise.privacy_account import gaussian_mu
from attributary.types import Floats


@dataclass(frozen=True)
class NoiseShape:
    """A family of distributions around 0 with one member for each variance above 0.

    Where the variance is 0 or inf, what the functions give is finite and of no use.
    """

    name: str
    words: str
    excess: Callable[[Floats], Floats]  # kurtosis, by variance: 0 if normal, 3 if Laplace
    beyond: Callable[[Floats, float], Floats]  # the standard deviations that it exceeds with this chance at most
    log_likelihood: Callable[[Floats, Floats], Floats]  # of noise, by variance
    formulas: tuple[Callable[..., Any], ...] = ()  # variance and divisor of figures, from what a user states of them


def _some(variance: Floats) -> Floats:
    """Variances with 1 in the place of 0 and inf."""
    return np.where((variance > 0) & (variance < np.inf), variance, 1.0)


def dlap_rate(variance: Floats) -> Floats:
    """The rate of discrete Laplace noise with this variance: `dlap_variance` the other way round."""
    return 2 * np.arcsinh(1 / np.sqrt(2 * _some(variance)))


def _laplace_likelihood(noise: Floats, variance: Floats) -> Floats:
    scale = np.sqrt(_some(variance) / 2)
    value: Floats = -np.abs(noise) / scale - np.log(2 * scale)
    return value


def twice_log_likelihood(k: Floats, a: Floats) -> Floats:
    """The same of the sum of two DLap(a): P(k) = tanh²(a/2) · exp(−a·|k|) · (|k| + coth a)."""
    return 2 * np.log(np.tanh(a / 2)) - a * np.abs(k) + np.log(np.abs(k) + 1 / np.tanh(a))


def _laplace_twice_likelihood(noise: Floats, variance: Floats) -> Floats:
    """Of the sum of two Laplace variables, with density (1 + |x|/b) · exp(−|x|/b) / 4b."""
    scale = np.sqrt(_some(variance)) / 2
    far = np.abs(noise) / scale
    return np.log1p(far) - far - np.log(4 * scale)


STEPS = 12  # of Newton's method: from above it needs fewer


def surpassed(surprise: Any, rate: Any, fall: Any) -> Any:
    """k with exp(−rate·k)·(1 + fall·k) = exp(−surprise), the chance that a sum of two Laplace draws is beyond k."""
    k = (2 * surprise + 2) / rate
    for _ in range(STEPS):
        k -= (rate * k - np.log1p(k * fall) - surprise) / (rate - fall / (1 + k * fall))
    return k


def _laplace_twice_beyond(chance: float) -> float:
    """x in standard deviations with P(|X| > x) = (1 + t/2)·exp(−t) = chance, where t = 2x."""
    return float(surpassed(-log(chance), 1.0, 0.5) / 2)


def _dlap_twice_beyond(variance: Floats, chance: float) -> Floats:
    """The tail from k on is at most that of the continuous sum from k − 1 on."""
    some = _some(variance)
    return (np.ceil(2 * _laplace_twice_beyond(chance) / dlap_rate(some / 2)) + 1) / np.sqrt(some)


def dlap_variances(rate: Floats) -> Floats:
    """The variance of discrete Laplace noise of this rate; inf for a rate of 0."""
    variance = np.full(rate.shape, np.inf)
    variance[rate > 0] = dlap_variance(rate[rate > 0])
    return variance


def _rate(epsilon: Floats, levels: Floats, sensitivity: Floats) -> Floats:
    """ε is for all levels together, which have equal parts of it, and a person moves a figure by the sensitivity."""
    return epsilon / (levels * sensitivity)


def _of_account(epsilon: Floats, delta: Floats, levels: object = 1, sensitivity: object = 1) -> tuple[Floats, Floats]:
    """Gaussian noise of (ε, δ) for all levels together, which have equal parts of it."""
    pairs, row = np.unique(np.stack(np.broadcast_arrays(epsilon, delta), -1), axis=0, return_inverse=True)
    mu = np.array([gaussian_mu(float(e), float(d)) for e, d in pairs])[row.reshape(np.shape(epsilon))]
    return levels * (sensitivity / mu) ** 2, np.ones_like(epsilon)


LAPLACE = NoiseShape(
    "laplace",
    "Laplace; also discrete Laplace that was scaled down, as the API's",
    lambda variance: np.full_like(variance, 3.0),
    lambda variance, chance: np.full_like(variance, -log(chance) / sqrt(2)),
    _laplace_likelihood,
    (
        lambda scale: (2 * scale**2, np.ones_like(scale)),
        lambda epsilon, levels=1, sensitivity=1: (2 / _rate(epsilon, levels, sensitivity) ** 2, np.ones_like(epsilon)),
    ),
)
DISCRETE_LAPLACE = NoiseShape(
    "dlap",
    "discrete Laplace on whole counts",
    lambda variance: 3.0 + 1.0 / np.where(variance > 0, variance, np.inf),
    # P(|X| ≥ k) < 2·exp(−rate·k)
    lambda variance, chance: np.ceil(log(2 / chance) / dlap_rate(variance)) / np.sqrt(_some(variance)),
    lambda noise, variance: dlap_log_likelihood(noise, dlap_rate(variance)),
    (
        lambda rate: (dlap_variances(rate), np.ones_like(rate)),
        lambda epsilon, levels=1, sensitivity=1: (
            dlap_variances(_rate(epsilon, levels, sensitivity)),
            np.ones_like(epsilon),
        ),
    ),
)


def _normal_beyond(variance: Floats, chance: float) -> Floats:
    from statistics import NormalDist  # which takes longer to import than the rest

    return np.full_like(variance, NormalDist().inv_cdf(1 - chance / 2))


NORMAL = NoiseShape(
    "normal",
    "normal",
    np.zeros_like,
    _normal_beyond,
    lambda noise, variance: -0.5 * (np.square(noise) / _some(variance) + np.log(2 * np.pi * _some(variance))),
    (lambda std: (std**2, np.ones_like(std)), _of_account),
)
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
    lambda noise, variance: twice_log_likelihood(noise, dlap_rate(variance / 2)),
    (lambda rate: (2 * dlap_variances(rate), np.ones_like(rate)),),
)
