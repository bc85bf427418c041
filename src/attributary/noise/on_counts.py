"""OnCounts, "unit": DLap(ε_v) is added to a node's whole count itself, ε_v the node's budget."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from attributary.noise.discrete_laplace import Entropy, dlap_log_likelihood, sample_each
from attributary.noise.model import NoiseModel
from attributary.noise.shapes import DISCRETE_LAPLACE, dlap_variances
from attributary.types import Floats, Ints

LARGE = 300.0  # a count with this budget has variance 1e-130; more must not let its precision overflow


@dataclass(frozen=True)
class OnCounts(NoiseModel):
    name = "unit"
    shape = DISCRETE_LAPLACE
    short = "whole counts"
    on_sums: ClassVar[bool] = False
    proportional: ClassVar[bool] = False
    beside: ClassVar[str | None] = "gaussian"

    def variance(self, budget: Floats) -> Floats:
        return dlap_variances(budget)

    def precision(self, budget: Floats) -> Floats:
        half = np.sinh(np.minimum(budget, LARGE) / 2)
        return 2.0 * half * half

    def slope(self, budget: Floats) -> Floats:
        growth: Floats = np.sinh(np.minimum(budget, LARGE))
        return growth

    def steps(self, budget: Floats) -> Floats:
        return np.ones(budget.shape)

    def sample(self, budget: Floats, rng: Entropy | None = None) -> Ints:
        return sample_each(budget, rng)

    def log_likelihood(self, drawn: Floats, budget: Floats) -> Floats:
        """log of tanh(a/2)·exp(−a·|k|), with a the node's budget."""
        return np.where(budget > 0, dlap_log_likelihood(drawn, np.where(budget > 0, budget, 1.0)), 0.0)

    def replay(self, budget: Floats, plus: Floats, minus: Floats) -> Floats:
        rate = np.where(budget > 0, budget, 1.0)
        drawn: Floats = np.floor(plus / rate)
        drawn -= np.floor(minus / rate)
        return drawn

    @property
    def words(self) -> tuple[str, str]:
        return "discrete Laplace on whole counts", "Every count gets noise DLap(ε of its level)."
