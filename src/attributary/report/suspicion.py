"""Suspicion: corrections that noise hardly makes, and whether there is as much noise as was claimed."""

from math import sqrt
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from attributary.denoising.limit import FALSE_ALARMS, limit
from attributary.report.estimates import Estimates

Z_FINE = 3.0


class Suspicion(NamedTuple):
    implausible: NDArray[np.bool_]  # of each node
    limit: float  # the standard deviations that it takes
    z: float | None  # about standard normal if the noise is as claimed; None where nothing is measured twice
    ratio: float  # how many times the claimed standard deviation the noise looks like

    @property
    def nodes(self) -> int:
        return int(self.implausible.sum())


def suspicion(est: Estimates) -> Suspicion:
    """What a careful reader asks of corrections: none too large, and all together as large as they should be.

    How well the noise fits is asked of the figures denoised again: the estimates shown may be non-negative or drawn
    towards a prior.
    """
    size = np.abs(np.nan_to_num(est.correction))
    beyond = limit(est.measurements, FALSE_ALARMS / max(int((size > 0).sum()), 1))
    implausible = size > beyond
    if (plain := est.plain) is None or plain.fit.df == 0:
        return Suspicion(implausible, float(np.min(beyond)), None, 1.0)
    fit = plain.fit
    return Suspicion(implausible, float(np.min(beyond)), fit.z, sqrt(fit.q / fit.df))
