"""Suspicion: corrections that noise hardly makes, and whether there is as much noise as was claimed."""

from math import sqrt
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from attributary.denoising.limit import FALSE_ALARMS, limit
from attributary.measurements import Measurements
from attributary.report.estimates import Estimates

Floats = NDArray[np.float64]
Z_FINE = 3.0


class Suspicion(NamedTuple):
    implausible: NDArray[np.bool_]  # of each node
    limit: float  # the standard deviations that it takes
    z: float | None  # about standard normal if the noise is as claimed; None where nothing is measured twice
    ratio: float  # how many times the claimed standard deviation the noise looks like

    @property
    def nodes(self) -> int:
        return int(self.implausible.sum())


def suspicion(est: Estimates, measured: Measurements) -> Suspicion:
    """What a careful reader asks of corrections: none too large, and all together as large as they should be."""
    size = np.abs(np.nan_to_num(est.correction))
    beyond = limit(measured, FALSE_ALARMS / max(int((size > 0).sum()), 1))
    use = est.measured & (measured.variance > 0) & (measured.variance < np.inf)
    var = measured.variance[use]
    spare = np.maximum(1 - est.plain_variance[use] / var, 0)
    df = float(spare.sum())
    implausible = size > beyond
    if df < 1e-9:
        return Suspicion(implausible, float(np.min(beyond)), None, 1.0)
    q = float(np.sum((est.noisy[use] - est.unbiased[use]) ** 2 / var))
    z = (q - df) / float(np.sqrt(2 * df + np.sum(measured.excess()[use] * spare**2)))
    return Suspicion(implausible, float(np.min(beyond)), z, sqrt(q / df))
