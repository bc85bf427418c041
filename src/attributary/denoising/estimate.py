"""Estimate: count and variance per node, and what a careful reader asks of them."""

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from attributary.denoising.passes import blue as best_linear
from attributary.denoising.prior import Prior
from attributary.denoising.quantile import excess_kurtosis, quantile
from attributary.denoising.total import Total, predicted_variance, total
from attributary.measurements import Measurements
from attributary.tree import Tree
from attributary.types import Arrow, Floats, Frame

TOGETHER = 0.7  # measured on generated data: with it, intervals of inner nodes cover at their rate
EXCESS = 3.0  # a prior's errors are taken to be about as heavy-tailed as the noise


class Interval(NamedTuple):
    low: Floats
    high: Floats


class Fit(NamedTuple):
    """Does the noise look as claimed? If so, z is about standard normal; it is large if there is more noise."""

    q: float  # Σ (noisy − blue)² / noise variance
    df: float  # its mean: how many figures there are beyond those needed
    z: float


@dataclass(frozen=True, eq=False, repr=False)
class Estimate:
    """Consistent counts with their variances, in the tree's order.

    `variance` is that of `blue`, the unbiased counts; where counts were made non-negative or whole, `count` differs
    from `blue` and its error is smaller than or close to what `variance` says.
    """

    tree: Tree
    measurements: Measurements
    count: Floats | NDArray[np.int64]
    variance: Floats
    blue: Floats
    nonnegative: bool = False

    def __repr__(self) -> str:
        kind = "non-negative " if self.nonnegative else ""
        words = f"; {self.not_private}" if self.not_private else ""
        many = "".join(f"{size:,} × " for size in self.count.shape[:-1]) + f"{self.count.shape[-1]:,}"
        return f"Estimate({many} {kind}counts; fit z = {self.fit.z:z.2f}{words})"

    def _repr_html_(self) -> str:
        from attributary.report.notebook import estimate_html

        return estimate_html(self)

    def table(self, confidence: float = 0.95) -> Arrow:
        """The Arrow table of these estimates, one row per node: what `attributary denoise` writes.

        Many columns stand one below the other, told apart by a column `measure`.
        """
        from attributary.estimates import estimates_table

        return estimates_table(self, confidence)

    def frame(self, confidence: float = 0.95, prefix: str = "") -> Frame:
        """The table that the figures came from, in its kind, with the columns of estimates behind its own."""
        from attributary.estimates import user_frame

        return user_frame(self, confidence, prefix)

    def column(self, column: int | str) -> "Estimate":
        """The estimate of one of many columns of figures, by its number or name."""
        self.measurements.column(column)  # refuses it: there is one column alone
        return self

    @property
    def not_private(self) -> str:
        """Why these counts are not private, as they were made from what is not; nothing if they are."""
        return self.measurements.not_private

    @property
    def std(self) -> Floats:
        return np.sqrt(self.variance)

    def interval(self, level: float = 0.95) -> Interval:
        """Where the true count lies with this probability, knowing the noise's shape.

        Around the unbiased count; cut at 0, and widened to hold the estimate, where counts were made non-negative or
        were not measured. What cannot be estimated has bounds (`unmeasured_bounds`), unless figures may be negative.
        """
        unknown = (self.measurements.variance == np.inf) & self.tree.is_leaf
        unknown = (unknown | (self.variance == np.inf)) & ~np.array(self.measurements.signed)
        reach = quantile(level, self._excess, self._freedom)
        half = reach * np.sqrt(self._error)
        low, high = self.blue - half, self.blue + half
        if unknown.any() and (wide := self._error == np.inf).any():
            blue, error = (self.tree.to_level_order(a) for a in (self.blue, self._error))
            ends = unmeasured_bounds(self.tree, blue, error, float(np.max(reach)))
            low, high = (
                np.where(wide, self.tree.from_level_order(a), b) for a, b in zip(ends, (low, high), strict=True)
            )
        cut = self.nonnegative | unknown
        low, high = np.where(cut, np.maximum(low, 0), low), np.where(cut, np.maximum(high, 0), high)
        if self.count is not self.blue or unknown.any():
            low, high = np.minimum(low, self.count), np.maximum(high, self.count)
        return Interval(low, high)

    @property
    def plain(self) -> "Estimate":
        """The unbiased estimate from the figures alone: itself, without a prior."""
        return self

    @property
    def beside(self) -> str:
        """What other breakdown had a part in the counts, such as month; else empty."""
        return ""

    @property
    def zero(self) -> Floats | None:
        """The probability that a node's count is 0; None where estimates are not posterior means."""
        return None

    @property
    def from_prior(self) -> Floats:
        """How much of each estimate came from a prior, from 0 to 1; 0 without one."""
        return np.zeros(self.count.shape)

    @property
    def remark(self) -> str:
        """Which estimates are shown, where that depends on the figures; else empty."""
        return ""

    @property
    def correction(self) -> Floats:
        """How far denoising moved each figure, in standard deviations of that move; nan where nothing was measured."""
        var = self.measurements.variance
        with np.errstate(invalid="ignore", divide="ignore"):
            spread = np.where(var < np.inf, var - self.variance, np.nan)
            moved = (self.blue - self.measurements.noisy) / np.sqrt(spread)
        return np.where(spread > 1e-9 * var, moved, np.where(var < np.inf, 0.0, np.nan))

    @cached_property
    def fit(self) -> Fit:
        """The fit of the whole tree; z knows the heavy tails of the noise, where a χ² table would cry wolf."""
        q, df, tails = self._fit_sums
        return Fit(q, df, (q - df) / float(np.sqrt(2 * df + tails))) if df >= 1e-9 else Fit(0.0, 0.0, 0.0)

    @property
    def _fit_sums(self) -> tuple[float, float, float]:
        """q, its mean, and what the noise's tails add to its variance."""
        m = self.measurements
        use = (m.variance > 0) & (m.variance < np.inf)
        var = np.where(use, m.variance, 1.0)
        spare = np.where(use, np.maximum(1 - self.variance / var, 0), 0.0)
        moved = np.where(use, m.noisy - self.blue, 0.0)
        q = float(np.sum((moved / np.sqrt(var)) ** 2))
        return q, float(spare.sum()), float(np.sum(m.excess() * spare**2))

    def total(self, nodes_or_weights: ArrayLike) -> Total:
        """A sum of counts with its exact variance: of these nodes, or weighted.

        Whole numbers are nodes, each at most once; a mask of booleans picks nodes too; floats are weights, one for each
        node. Adding up `variance` would be wrong: estimates of one tree are dependent.
        """
        weights = weights_of(len(self.tree), nodes_or_weights)
        return self._shown(total(self.tree, self.measurements, self.blue, weights), weights)

    def _shown(self, of_blue: Total, weights: Floats) -> Total:
        """A total of unbiased counts as that of the counts shown."""
        counts = self.nonnegative or (of_blue.noise == np.inf and not self.measurements.signed)
        least = 0.0 if counts and (weights >= 0).all() else -np.inf
        freedom = float(np.min(np.broadcast_to(self._freedom, weights.shape)[weights != 0], initial=np.inf))
        return replace(of_blue, count=float(np.dot(weights, self.count)), freedom=freedom, least=least)

    @property
    def _error(self) -> Floats:
        """The squared error that intervals go by."""
        return self.variance

    @property
    def _freedom(self) -> Floats | float:
        """The degrees of freedom of each variance, where the noise level was estimated."""
        return np.inf if self.measurements.freedom is None else self.measurements.freedom

    @cached_property
    def _excess(self) -> Floats:
        return excess_kurtosis(self.tree, self.measurements, self.variance)


@dataclass(frozen=True, eq=False, repr=False)
class ManyColumns(Estimate):
    """The estimates of many columns of figures, each of them as if it were alone.

    Counts and intervals are of shape (nodes, columns); the variance is that of one column where they share it. `column`
    gives the estimate of one of them, with all that is asked of it.
    """

    parts: tuple[Estimate, ...] = ()

    @classmethod
    def of(cls, measured: Measurements, parts: list[Estimate]) -> Self:
        first = parts[0]
        blue = np.stack([part.blue for part in parts]).T
        count: Any = blue if first.count is first.blue else np.stack([part.count for part in parts]).T
        variance = first.variance if measured.variance.ndim == 1 else np.stack([part.variance for part in parts]).T
        return cls(first.tree, measured, count, variance, blue, first.nonnegative, tuple(parts))

    def column(self, column: int | str) -> Estimate:
        """The estimate of one of the columns, by its number or name."""
        self.measurements.column(column)  # or an error that tells what there is
        return self.parts[column if isinstance(column, int) else self.measurements.names.index(column)]

    def interval(self, level: float = 0.95) -> Interval:
        return Interval(*(np.stack(ends, 1) for ends in zip(*(p.interval(level) for p in self.parts), strict=True)))

    @property
    def correction(self) -> Floats:
        return np.stack([part.correction for part in self.parts], 1)

    @property
    def _fit_sums(self) -> tuple[float, float, float]:
        q, df, tails = np.sum([part._fit_sums for part in self.parts], axis=0).tolist()
        return q, df, tails

    def total(self, nodes_or_weights: ArrayLike) -> Total:
        """Refused: a total is of one column."""
        raise ValueError("a total is of one column of figures; est.column(0).total(…) is that of the first")


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
        return self.plain.correction

    @cached_property
    def fit(self) -> Fit:
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


def unmeasured_bounds(tree: Tree, blue: Floats, variance: Floats, reach: float) -> tuple[Floats, Floats]:
    """Bounds of the counts that were not measured (variance inf), in level order, `reach` standard deviations away.

    They are 0 at least, and at most what the node above leaves them. Below a node that has several of them, each is at
    most what is left above the others; a sum is at least that of its known parts. Their errors are independent,
    since what is unknown between them binds none of them to another.
    """
    wide = variance == np.inf
    low, high, known = np.where(wide, 0.0, blue), np.where(wide, np.inf, blue), np.where(wide, 0.0, variance)
    for family in tree.families(upwards=True):
        c, here = family.children, wide[family.parent]
        half, sums = reach * np.sqrt(family.sum(known[c])), family.sum(np.where(wide[c], 0.0, blue[c]))
        least = np.maximum(sums - half, 0) + family.sum(np.where(wide[c], low[c], 0.0))
        low[family.parent[here]], high[family.parent[here]] = least[here], (family.sum(high[c]) + half)[here]
    for family in tree.families():
        p, c = family.parent, family.children
        left = high[p] - family.sum(low[c]) + reach * np.sqrt(known[p] + family.sum(known[c]))
        room = np.maximum(family.spread(left), 0) + low[c]
        high[c] = np.where(wide[c], np.minimum(high[c], room), high[c])
    return low, high


def unbiased(tree: Tree, measured: Measurements) -> Estimate:
    """The best linear unbiased estimate, and nothing else (Algorithm 2)."""
    counts = best_linear(tree, tree.to_level_order(measured.noisy), tree.to_level_order(measured.variance))
    count, variance = (tree.from_level_order(a) for a in counts)
    return Estimate(tree, measured, count, variance, count)


def weights_of(nodes: int, given: ArrayLike) -> Floats:
    """One weight for each node, from nodes (whole numbers, each at most once), a mask or weights."""
    values = np.atleast_1d(np.asarray(given))
    if values.dtype.kind in "iu":
        if values.size and not (values.min() >= 0 and values.max() < nodes):
            raise ValueError(f"nodes are numbers from 0 to {nodes - 1}; got {values.min()} to {values.max()}")
        times = np.bincount(values.ravel(), minlength=nodes)
        if times.max(initial=0) > 1:
            raise ValueError(
                f"whole numbers are nodes, each at most once; got node {times.argmax()} {times.max():,} times: give a "
                "mask as booleans, .astype(bool), or weights as floats, .astype(float)"
            )
        return times.astype(np.float64)
    if values.shape != (nodes,) or values.dtype.kind not in "fb":
        raise ValueError(
            f"a total takes nodes (whole numbers) or one weight (float or bool) for each of the {nodes} nodes; "
            f"got {values.dtype} of shape {values.shape}"
        )
    if not np.isfinite(values).all():
        raise ValueError("weights are finite numbers; got nan or inf")
    return values.astype(np.float64)
