"""joint: the estimates of several breakdowns of the same conversions, each with all that is asked of an estimate."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike

from attributary.denoising.crossed import Breakdown, Meeting, crossed
from attributary.denoising.estimate import Estimate, Fit, unbiased, weights_of
from attributary.denoising.total import Total
from attributary.measurements import Measurements
from attributary.tree import Tree
from attributary.types import Floats


@dataclass(frozen=True, eq=False, repr=False)
class Joint(Estimate):
    """Unbiased counts of one breakdown that use the figures of the others, too.

    `fit` is that of `plain`, this breakdown denoised by itself; `correction` is how far all figures moved each.
    """

    breakdowns: tuple[Breakdown, ...] = field(default=())
    meetings: tuple[Meeting, ...] = field(default=())
    number: int = 0  # of this breakdown
    other: str = ""  # what the others are sums by

    @property
    def beside(self) -> str:
        """What the other breakdowns are sums by."""
        return self.other

    @cached_property
    def plain(self) -> Estimate:
        """The unbiased estimate from the figures of this breakdown alone."""
        return unbiased(self.tree, self.measurements)

    @cached_property
    def fit(self) -> Fit:
        """The fit of the noise, from the figures of this breakdown alone."""
        return self.plain.fit

    @cached_property
    def _excess(self) -> Floats:
        return joint_excess(self.plain, self.variance)

    def total(self, nodes_or_weights: ArrayLike) -> Total:
        """A sum of counts with its exact variance; with that of `plain`, at least as large, if a leaf was not measured.

        An estimate's covariance with a figure x is its variance times what the estimate gains with x. So figures of
        weight · variance, and 0 elsewhere, are denoised to the covariances of the estimates with the sum.
        """
        weights = weights_of(len(self.tree), nodes_or_weights)
        plain = self.plain.total(weights)
        pull = np.where(self.tree.is_leaf, self.tree.sum_down(weights), 0.0)
        own = self.measurements.variance
        variance = plain.noise
        if not np.isinf(own[pull != 0]).any():
            figures = pull * np.where(own < np.inf, own, 0.0)
            probes = [b._replace(noisy=figures if i == self.number else np.zeros(len(b.tree)))
                      for i, b in enumerate(self.breakdowns)]  # fmt: skip
            variance = max(float(pull @ crossed(probes, self.meetings)[self.number].count), 0.0)
        share = variance / plain.noise if 0 < plain.noise < np.inf else 1.0
        excess = plain.excess * share**2 + _largest_excess(self.measurements) * (1 - share) ** 2
        count = float(np.dot(weights, self.blue))
        return self._shown(replace(plain, variance=variance, noise=variance, unbiased=count, excess=excess), weights)


def joint_excess(plain: Estimate, variance: Floats) -> Floats:
    """The excess kurtosis of joint estimates with these variances.

    They are means of the estimate from one breakdown and what the others say, whose tails are those of one figure.
    """
    with np.errstate(invalid="ignore", divide="ignore"):
        share = np.where(plain.variance > 0, np.clip(variance / plain.variance, 0, 1), 1.0)
    share = np.where(plain.variance < np.inf, share, 0.0)
    made: Floats = plain._excess * share**2 + _largest_excess(plain.measurements) * (1 - share) ** 2
    return np.where(variance < np.inf, made, 0.0)


def _largest_excess(measured: Measurements) -> float:
    known = (measured.variance > 0) & (measured.variance < np.inf)
    return float(measured.excess()[known].max(initial=0))


def joint(each: Sequence[tuple[Tree, Measurements]], meetings: Sequence[Meeting], names: Sequence[str]) -> list[Joint]:
    """The best linear unbiased estimates of all breakdowns together; `names` say for each what the others are."""
    breakdowns = tuple(Breakdown(tree, m.noisy, m.variance) for tree, m in each)
    counts = crossed(breakdowns, meetings)
    return [
        Joint(tree, m, c.count, c.variance, c.count, False, breakdowns, tuple(meetings), i, names[i])
        for i, ((tree, m), c) in enumerate(zip(each, counts, strict=True))
    ]
