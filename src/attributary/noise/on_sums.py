"""OnSums, "api": the noise of a summary report. DLap(ε/L1) is added to sums of contributions.

A node with budget ε_v contributes C = L1·ε_v/ε, so that its count has variance var(DLap(ε/L1)) / C².
"""

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np

from attributary.noise.discrete_laplace import Entropy, dlap_log_likelihood, dlap_variance, rate, sample_dlap
from attributary.noise.model import NoiseModel
from attributary.noise.shapes import LAPLACE
from attributary.types import Floats, Ints


@dataclass(frozen=True)
class OnSums(NoiseModel):
    name = "api"
    shape = LAPLACE
    short = "scaled contributions"
    on_sums: ClassVar[bool] = True
    proportional: ClassVar[bool] = True
    values: ClassVar[bool] = True
    beside: ClassVar[str] = "gaussian"

    @staticmethod
    def formula(contribution: Floats, epsilon: Floats, l1: float = 65536, sums: float = 0) -> tuple[Floats, Floats]:
        """Of counts, or with `sums` of sums of contributions, which are counts when divided by the contribution."""
        if np.size(epsilon):
            rate(float(np.min(epsilon / l1)))  # or an error, since no such noise can be drawn
        with np.errstate(divide="ignore"):  # no contribution, no measurement
            variance = dlap_variance(epsilon / l1) / contribution**2
        return variance, np.where(np.asarray(sums, bool), contribution, 1.0)

    @cached_property
    def factor(self) -> float:
        return dlap_variance(self.epsilon / self.l1)

    @cached_property
    def _scale(self) -> float:
        """A node's variance times its budget squared: about 2."""
        return self.factor * (self.epsilon / self.l1) ** 2

    def variance(self, budget: Floats) -> Floats:
        variance = np.full(budget.shape, np.inf)
        some = budget > 0
        with np.errstate(over="ignore"):  # a budget of next to nothing: inf, too
            variance[some] = self._scale / budget[some] / budget[some]
        return variance

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
        drawn = np.zeros(budget.shape, np.int64)
        some = budget > 0
        drawn[some] = sample_dlap(self.epsilon / self.l1, int(some.sum()), rng)
        return drawn

    def log_likelihood(self, drawn: Floats, budget: Floats) -> Floats:
        """log of tanh(a/2)·exp(−a·|k|), with a = ε/L1 for whole sums of contributions."""
        each: Floats = dlap_log_likelihood(drawn, np.full(budget.shape, self.epsilon / self.l1))
        return np.where(budget > 0, each, 0.0)

    def replay(self, budget: Floats, plus: Floats, minus: Floats) -> Floats:
        rate = self.epsilon / self.l1
        drawn: Floats = np.floor(plus / rate)
        drawn -= np.floor(minus / rate)  # ⌊E/a⌋ is geometric, and the difference of two such is DLap(a)
        return drawn

    @property
    def words(self) -> tuple[str, str]:
        return (
            "discrete Laplace, as in a summary report",
            f"A conversion adds its contributions, {self.l1:,} together, to one key of each level; every sum gets "
            f"noise DLap(ε / {self.l1:,}).",
        )
