"""Gaussian, "gaussian": normal noise under (ε, δ). What levels share is μ², the sum of the precisions of their counts.

A node with a part b of ε has the same part of μ², so that its count has variance σ² = ε / (b·μ²). It is drawn as
discrete Gaussian noise on a grid so fine, 2¹⁹ steps or more to σ, that its variance is σ² and its δ that of the curve.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from attributary.noise.discrete_gaussian import sample_dgauss
from attributary.noise.discrete_laplace import Entropy, drawn_for_each
from attributary.noise.model import NoiseModel
from attributary.noise.privacy_account import gaussian_epsilon, gaussian_mu
from attributary.noise.shapes import NORMAL
from attributary.types import Floats, Ints

GRID = 20  # bits of σ in steps
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
        return np.where(budget > 0, np.exp2(np.maximum(GRID - np.frexp(deviation)[1], 0)), 1.0)

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
