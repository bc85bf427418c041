"""RoundedLaplace, "bigquery": Laplace noise on counts, rounded to whole numbers; a count has half of its budget.

BigQuery spends ε / (n + 1) on each of a query's n aggregates, and as much on dropping groups of few privacy units. A
query of one count has noise of scale 2/ε, and its answer is a whole number.
"""

from dataclasses import dataclass

import numpy as np

from attributary.noise.discrete_laplace import Entropy, sample_each
from attributary.noise.model import NoiseModel, OnCounts
from attributary.noise.shapes import LAPLACE
from attributary.types import Floats, Ints

PARTS = 2  # of the budget, of which the count has one
FINE = 2**16  # steps of what is drawn before it is rounded


@dataclass(frozen=True)
class RoundedLaplace(OnCounts):
    name = "bigquery"
    shape = LAPLACE
    short = "whole counts of BigQuery"
    beside = None
    approximate = True  # groups of few privacy units are dropped, but for a chance of δ

    def variance(self, budget: Floats) -> Floats:
        with np.errstate(divide="ignore", over="ignore"):
            return np.where(budget > 0, 2 * (PARTS / budget) ** 2 + 1 / 12, np.inf)

    def precision(self, budget: Floats) -> Floats:
        return budget**2 / (2 * PARTS**2 + budget**2 / 12)

    def slope(self, budget: Floats) -> Floats:
        return 4 * PARTS**2 * budget / (2 * PARTS**2 + budget**2 / 12) ** 2

    def sample(self, budget: Floats, rng: Entropy | None = None) -> Ints:
        return np.rint(sample_each(budget / (PARTS * FINE), rng) / FINE).astype(np.int64)

    def replay(self, budget: Floats, plus: Floats, minus: Floats) -> Floats:
        return np.rint((plus - minus) * PARTS / np.where(budget > 0, budget, 1.0))

    log_likelihood = NoiseModel.log_likelihood

    @property
    def words(self) -> tuple[str, str]:
        return "rounded Laplace on whole counts", "Every count gets Laplace noise of scale 2/ε, ε that of its query."
