"""Total: what all roots come to, with its interval."""

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from attributary.ratio import delta
from attributary.report.estimates import Estimates


class Total(NamedTuple):
    estimate: float
    low: float
    high: float
    variance: float
    unbiased: float  # the same sum of unbiased counts, where the table tells them

    def error(self, tau: float) -> float:
        """Relative to the estimate, or to tau if that is larger."""
        with np.errstate(divide="ignore"):
            return float(np.sqrt(self.variance) / np.maximum(tau, self.estimate))


def total_of(est: Estimates) -> Total:
    """The sum of the roots, with the interval of the unbiased sum, widened to hold the sum shown.

    Of a table without its noisy figures, roots with intervals around their estimates are unbiased and independent, so
    that the squares of their half-widths add up. Of any others the bounds do, the lower one with room for what was cut.
    """
    roots = slice(0, int(est.tree.first[0]))
    count, variance = float(est.estimate[roots].sum()), float(est.variance[roots].sum())
    low, high = est.low[roots], est.high[roots]
    least = 0.0 if (est.low >= 0).all() else -np.inf
    if est.plain is not None:
        total = replace(est.plain.total(est.tree.parent < 0), count=count, least=least)
        return Total(count, *total.interval(est.level), variance, total.unbiased)
    with np.errstate(invalid="ignore"):
        around = np.isclose(est.estimate[roots] - low, high - est.estimate[roots], rtol=1e-6)
    if est.from_prior is None and around.all():
        half = float(np.sqrt(np.sum((high - low) ** 2))) / 2
        return Total(count, count - half, count + half, variance, count)
    cut = float(np.sqrt(np.sum((high - low) ** 2)))
    return Total(count, max(float(low.sum()) - cut, least), float(high.sum()), variance, count)


def total_ratio(ratio: Estimates, value: Estimates, count: Estimates) -> Total:
    """The ratio of the sums, with an interval as many standard deviations wide as those of the nodes.

    Around the ratio of the unbiased sums, and widened to hold the one shown.
    """
    of_value, of_count = total_of(value), total_of(count)
    found, variance = map(float, delta(of_value.estimate, of_value.variance, of_count.estimate, of_count.variance))
    around, spread = map(float, delta(of_value.unbiased, of_value.variance, of_count.unbiased, of_count.variance))
    if np.isnan(around):
        around, spread = found, variance
    known = np.isfinite(ratio.estimate) & (ratio.variance > 0)
    wide = (ratio.high - ratio.low)[known] / 2 / np.sqrt(ratio.variance[known])
    reach = float(np.median(wide)) * float(np.sqrt(spread)) if len(wide) else float("nan")
    return Total(found, min(around - reach, found), max(around + reach, found), variance, around)
