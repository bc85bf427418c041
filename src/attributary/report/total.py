"""Total: what all roots come to, with its interval."""

from typing import NamedTuple

import numpy as np

from attributary.ratio import delta
from attributary.report.estimates import Estimates


class Total(NamedTuple):
    estimate: float
    low: float
    high: float
    variance: float

    def error(self, tau: float) -> float:
        """Relative to the estimate, or to tau if that is larger."""
        with np.errstate(divide="ignore"):
            return float(np.sqrt(self.variance) / np.maximum(tau, self.estimate))


def total_of(est: Estimates) -> Total:
    """The sum of the roots. They are independent of each other, so that the squares of their half-widths add up."""
    roots = slice(0, int(est.tree.first[0]))
    total = float(est.estimate[roots].sum())
    below, above = (float(np.sqrt(np.sum((bound[roots] - est.estimate[roots]) ** 2))) for bound in (est.low, est.high))
    return Total(total, total - below, total + above, float(est.variance[roots].sum()))


def total_ratio(ratio: Estimates, value: Estimates, count: Estimates) -> Total:
    """The ratio of the sums, with an interval as many standard deviations wide as those of the nodes."""
    of_value, of_count = total_of(value), total_of(count)
    found, variance = delta(of_value.estimate, of_value.variance, of_count.estimate, of_count.variance)
    known = np.isfinite(ratio.estimate) & (ratio.variance > 0)
    wide = (ratio.high - ratio.estimate)[known] / np.sqrt(ratio.variance[known])
    reach = float(np.median(wide)) * float(np.sqrt(variance)) if len(wide) else float("nan")
    return Total(float(found), float(found) - reach, float(found) + reach, float(variance))
