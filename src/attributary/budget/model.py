"""Model: what noise a budget buys, in the API (the default) or on unit counts."""

from typing import Literal, NamedTuple, Self, cast, get_args

import numpy as np
from numpy.typing import NDArray

from attributary.noise import dlap_variance

Floats = NDArray[np.float64]
Noise = Literal["api", "unit"]

LARGE = 300.0  # a unit count with this budget has variance 1e-130; more must not let its precision overflow


class Model(NamedTuple):
    """The noise of a node that has a part of the whole budget ε.

    `api`: the summary report adds DLap(ε/L1) to sums of contributions, and a node with budget ε_v contributes
    C = L1 · ε_v/ε: its count has variance var(DLap(ε/L1)) / C². `unit`: DLap(ε_v) is added to the count itself.
    """

    noise: Noise
    scale: float  # api: a node's variance is scale / ε_v², about 2 / ε_v²

    @classmethod
    def of(cls, noise: str, epsilon: float, l1: int) -> Self:
        if not 0 < epsilon < np.inf:
            raise ValueError(f"epsilon is a positive number; got {epsilon}: give the budget of all levels together")
        if noise not in get_args(Noise):
            raise ValueError(f'noise is "api" (scaled contributions) or "unit" (whole counts); got {noise!r}')
        if not 1 <= l1 < np.inf or l1 != int(l1):
            raise ValueError(f"l1 is a whole number, 1 or more; got {l1}: the API's is 65536")
        rate = epsilon / l1
        return cls(cast(Noise, noise), dlap_variance(float(rate)) * rate**2)

    def variance(self, budget: Floats) -> Floats:
        """Of a count with this budget; inf without any."""
        variance = np.full(budget.shape, np.inf)
        some = budget > 0
        with np.errstate(over="ignore"):  # a budget of next to nothing: inf, too
            variance[some] = (
                self.scale / budget[some] / budget[some] if self.noise == "api" else dlap_variance(budget[some])
            )
        return variance

    def precision(self, budget: Floats) -> Floats:
        """1 / variance; 0 without any budget."""
        if self.noise == "api":
            return budget * (budget / self.scale)
        half = np.sinh(np.minimum(budget, LARGE) / 2)
        return 2.0 * half * half

    def slope(self, budget: Floats) -> Floats:
        """How fast the precision grows with the budget."""
        if self.noise == "api":
            return budget * (2.0 / self.scale)
        growth: Floats = np.sinh(np.minimum(budget, LARGE))
        return growth
