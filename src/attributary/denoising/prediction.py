"""Prediction: an estimate that a prior had a part in."""

from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike

from attributary.denoising.estimate import Estimate, Fit, unbiased, weights_of
from attributary.denoising.prior import Prior
from attributary.denoising.total import Total, predicted_variance
from attributary.types import Floats

TOGETHER = 0.7  # measured on generated data: with it, intervals of inner nodes cover at their rate
EXCESS = 3.0  # a prior's errors are taken to be about as heavy-tailed as the noise


@dataclass(frozen=True, eq=False, repr=False)
class Prediction(Estimate):
    """Counts from today's figures and a prior: closer on average, but biased towards the prior.

    `blue` is the best linear prediction, before counts are made non-negative or whole, and `variance` its mean squared
    error if the prior is as good as it states. `correction` and `fit` are those of `plain`, from today's figures
    alone: a wrong prior does not make the noise look wrong.
    """

    prior: Prior = field(default_factory=lambda: Prior(np.empty(0)))

    @cached_property
    def plain(self) -> Estimate:
        """The unbiased estimate from today's figures alone."""
        return unbiased(self.tree, self.measurements)

    @property
    def from_prior(self) -> Floats:
        """How much of each estimate came from the prior, from 0 to 1: by how much it lowered the variance.

        For a node on its own this is exactly the prior's weight in the estimate.
        """
        without = self.plain.variance
        with np.errstate(invalid="ignore"):
            lowered = 1 - np.where(without == np.inf, self.variance == np.inf, self.variance / without)
        return np.clip(np.where(without > 0, lowered, 0.0), 0.0, 1.0)

    @property
    def correction(self) -> Floats:
        """How far denoising alone moved each figure, in standard deviations of that move, as without a prior."""
        return self.plain.correction

    @cached_property
    def fit(self) -> Fit:
        """The fit of the noise, from today's figures alone."""
        return self.plain.fit

    def total(self, nodes_or_weights: ArrayLike) -> Total:
        """A sum of counts with its mean squared error, if the prior is as good as it states.

        Its interval does not rely on the prior, whose errors are alike for many nodes and add up in a sum. It is that
        of today's figures alone; where these do not determine the sum, that of the sum of the standard errors.
        """
        weights = weights_of(len(self.tree), nodes_or_weights)
        variance = predicted_variance(self.tree, self.measurements, self.prior, weights)
        total = self.plain.total(weights)
        if total.noise == np.inf:
            used = weights != 0
            most = float(np.sum(np.abs(weights[used]) * np.sqrt(self._error[used]))) ** 2
            total = replace(total, unbiased=float(np.dot(weights, self.blue)), noise=most, excess=EXCESS)
        return self._shown(replace(total, variance=variance), weights)

    @property
    def _error(self) -> Floats:
        """Shares learned for nodes of one label err in one direction: sums are less exact than `variance` says."""
        if self.prior.share is None:
            return self.variance
        with np.errstate(invalid="ignore"):
            return np.where(self.tree.is_leaf, self.variance, self.variance * (1 + TOGETHER * self.from_prior))

    @cached_property
    def _excess(self) -> Floats:
        """Errors of the prior are taken to have tails as heavy as Laplace noise."""
        return np.where(self.variance < np.inf, EXCESS, 0.0)
