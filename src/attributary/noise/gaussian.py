"""Gaussian, "gaussian": normal noise under (ε, δ). What levels share is μ², the sum of the precisions of their counts.

A node with a part b of ε has the same part of μ², so that its count has variance σ² = ε / (b·μ²). It is drawn as
discrete Gaussian noise on a grid so fine, 2¹⁹ steps or more to σ, that its variance is σ² and its δ that of the curve.
"""

from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from math import exp, inf, isqrt
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from attributary.errors import InputError
from attributary.noise.discrete_laplace import (
    CHUNK,
    Entropy,
    below,
    digits_of_exp,
    drawn_for_each,
    filled,
    reader,
    sample_dlap,
)
from attributary.noise.model import NoiseModel
from attributary.noise.privacy_account import gaussian_epsilon, gaussian_mu
from attributary.noise.shapes import NORMAL
from attributary.types import Floats, Ints, Values

STEPS = 20  # bits of σ in steps
GRAIN = 1e-9  # of δ: far more than a grid as fine as that changes it


@dataclass(frozen=True)
class Gaussian(NoiseModel):
    name = "gaussian"
    shape = NORMAL
    short = "normal noise, which needs delta"
    proportional: ClassVar[bool] = True
    values: ClassVar[bool] = True
    approximate: ClassVar[bool] = True
    exponent: ClassVar[int] = 1
    beside: ClassVar[str] = "api"

    @staticmethod
    def formula(rho: Floats) -> tuple[Floats, Floats]:
        """Of a figure that is ρ-zCDP, as each query of a census: σ² = 1/(2ρ)."""
        with np.errstate(divide="ignore"):
            return 1 / (2 * rho), np.ones_like(rho)

    @property
    def mu(self) -> float:
        """μ of all levels together."""
        return gaussian_mu(self.epsilon, self.delta * (1 - GRAIN))

    @property
    def account(self) -> dict[str, float]:
        return {"delta": self.delta, "mu": self.mu, "rho": self.mu**2 / 2}

    def loss(self, share: float) -> float:
        return self.epsilon if share == 1 else gaussian_epsilon(self.mu * share**0.5, self.delta * (1 - GRAIN))

    @property
    def factor(self) -> float:
        return 1 / self.mu**2

    def variance(self, budget: Floats) -> Floats:
        with np.errstate(divide="ignore", over="ignore"):
            return 1 / self.precision(budget)

    def precision(self, budget: Floats) -> Floats:
        return budget * (self.mu**2 / self.epsilon)

    def slope(self, budget: Floats) -> Floats:
        return np.full(budget.shape, self.mu**2 / self.epsilon)

    def steps(self, budget: Floats) -> Floats:
        deviation = np.sqrt(self.variance(np.where(budget > 0, budget, self.epsilon)))
        return np.where(budget > 0, np.exp2(np.maximum(STEPS - np.frexp(deviation)[1], 0)), 1.0)

    def sample(self, budget: Floats, rng: Entropy | None = None) -> Ints:
        return drawn_for_each(self._squared(budget), sample_dgauss, rng)

    def replay(self, budget: Floats, plus: Floats, minus: Floats) -> Floats:
        """By Box and Muller: √(2E) and an angle are those of two normal numbers."""
        deviation = np.sqrt(self._squared(np.where(budget > 0, budget, self.epsilon)))
        drawn: Floats = np.rint(deviation * np.sqrt(2 * plus) * np.cos(2 * np.pi * np.exp(-minus)))
        return drawn

    def _squared(self, budget: Floats) -> Floats:
        """σ² in steps, a whole number that is never too small; inf without any budget."""
        return np.floor(self.variance(budget) * np.square(self.steps(budget))) + 1

    @property
    def words(self) -> tuple[str, str]:
        return (
            "discrete Gaussian, on a fine grid",
            f"Every figure gets normal noise; 1/σ² sums to μ² = {self.mu**2:.4g} over the keys of a conversion. "
            f"ε holds but for a chance of δ = {self.delta:g}.",
        )


# Discrete Gaussian noise, P(k) ∝ exp(-k²/2σ²): its variance, and exact draws.

BITS = 54  # of the terms of σ²: what is made of them then fits 64 bits
FINE = 42  # bits of them that look up the chance of acceptance
GRID = 12  # bits of x after the point that look up the digits of exp(-x²)
FAR = 4  # beyond it the first 16 digits are 0
LARGEST, LEAST = 2**BITS, Fraction(1, 2**30)
SMOOTH = 4.0  # from this σ² on, sums over whole numbers are integrals, to the last digit of a float


def dgauss_variance(sigma2: Fraction | float | Values) -> object:
    """The variance of the discrete Gaussian with parameter σ²: never more than σ², and equal to it from about 4 on."""
    scale = np.asarray(sigma2, np.float64)
    bad = ~((scale > 0) & (scale < inf))
    if bad.any():
        raise InputError(f"the σ² of noise must be positive and finite, got {scale[bad].flat[0]}; leave it out")
    square = np.arange(1.0, 90.0) ** 2
    chance = np.exp(-square / (2 * np.minimum(scale, SMOOTH)[..., None]))
    summed = 2 * (square * chance).sum(axis=-1) / (1 + 2 * chance.sum(axis=-1))
    variance: Any = np.where(scale < SMOOTH, summed, scale)
    return variance if isinstance(sigma2, np.ndarray) else float(variance)


def sigma2_terms(sigma2: Fraction | float) -> tuple[int, int]:
    """Numerator and denominator of the σ² that is drawn for this one, the larger of them with 54 bits.

    Fractions whose terms have up to 53 bits stay what they are; others are rounded up, so never to less noise.
    """
    if not LEAST <= sigma2 < LARGEST / 2:
        raise InputError(f"the σ² of noise must be from {float(LEAST):.1g} to {LARGEST // 2:.1g}, got {sigma2}")
    exact = Fraction(sigma2)
    largest = max(exact.as_integer_ratio())
    if largest < LARGEST:
        scale = 1 << (BITS - largest.bit_length())
        return exact.numerator * scale, exact.denominator * scale
    q = 1 << (BITS - 1 - int(exact).bit_length())
    return -(-exact.numerator * q // exact.denominator), q


def sample_dgauss(
    sigma2: Fraction | float, size: int | tuple[int, ...], rng: Entropy | None = None
) -> NDArray[np.int64]:
    """Exact draws of the discrete Gaussian, by Canonne, Kamath and Steinke's Algorithm 3 (2020) in whole numbers only.

    Y of the discrete Laplace distribution with t = ⌊σ⌋ + 1 is accepted with chance exp(−(|Y| − σ²/t)²/2σ²).
    Randomness is the operating system's; `rng` is for experiments and tests, as in `sample_dlap`.
    """
    p, q = sigma2_terms(sigma2)
    read = reader(rng)
    t = isqrt(p // q) + 1

    def accepted(left: int) -> NDArray[np.int64]:
        candidates = sample_dlap(Fraction(1, t), min(CHUNK, 8 * left // 5 + 8), rng)
        first = np.frombuffer(read(2 * candidates.size), "<u2")
        return candidates.compress(_accept(candidates, first, p, q, t, read))

    return filled(size, accepted)


def _accept(Y: NDArray[np.int64], first: NDArray[np.uint16], p: int, q: int, t: int, read: Any) -> NDArray[np.bool_]:
    """Which candidates are accepted, given the first 16 bits of a uniform number for each.

    With z = |Y|·t·q − p and D = t·√(2pq) the chance is exp(−(z/D)²). The grid has its digits at both ends of a cell
    that holds z/D; only numbers between them are compared with more digits.
    """
    size = np.minimum(np.abs(Y), 64 * t)  # far beyond the grid's end
    z = np.abs(size * (t * q) - p)  # below 2⁸·2⁵⁴, as t² ≤ 4·max(σ², 1)
    drop = BITS - FINE
    above = (isqrt(2 * p * q * t * t) >> drop) + 1  # D without its last bits, from above: within 2⁻³⁹ of it
    cell = np.minimum(((z >> drop) << GRID) // above, FAR << GRID)  # so z/D lies in this cell, or just in the next
    digits = _square_grid()
    accept: NDArray[np.bool_] = first < digits[2:].take(cell)
    for i in np.flatnonzero(~accept & (first <= digits.take(cell))).tolist():
        exact = abs(int(Y[i])) * t * q - p
        accept[i] = below(int(first[i]), 16, exact * exact, 2 * p * q * t * t, read)
    return accept


@cache
def _square_grid() -> NDArray[np.uint32]:
    """The first 16 binary digits of exp(-x²), for x in steps of 2⁻¹² up to where they are 0."""
    digits = []
    for j in range((FAR << GRID) + 3):
        scaled = 2**16 * exp(-((j / 2**GRID) ** 2))
        near = abs(scaled - round(scaled)) < 1e-6 and scaled > 0.5  # too near to a whole number for a float to tell
        digits.append(digits_of_exp(j * j, 4**GRID, 16) if near else int(scaled))
    return np.array(digits, np.uint32)
