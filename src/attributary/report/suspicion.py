"""Suspicion: corrections that noise hardly makes, and whether there is as much noise as was claimed."""

from math import log, sqrt
from statistics import NormalDist
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from attributary.measurements import Measurements
from attributary.report.estimates import Estimates

Floats = NDArray[np.float64]
FALSE_ALARMS = 0.05  # the chance that noise alone makes any correction of a table implausible
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
    limit = limits(measured, FALSE_ALARMS / max(int((size > 0).sum()), 1))
    use = est.measured & (measured.variance > 0) & (measured.variance < np.inf)
    var = measured.variance[use]
    spare = np.maximum(1 - est.variance[use] / var, 0)
    df = float(spare.sum())
    implausible = size > limit
    if df < 1e-9:
        return Suspicion(implausible, float(np.min(limit)), None, 1.0)
    q = float(np.sum((est.noisy[use] - est.unbiased[use]) ** 2 / var))
    z = (q - df) / float(np.sqrt(2 * df + np.sum(measured.excess()[use] * spare**2)))
    return Suspicion(implausible, float(np.min(limit)), z, sqrt(q / df))


def limits(measured: Measurements, chance: float) -> Floats | float:
    """The standard deviations that the noise exceeds with this chance at most."""
    if measured.shape == "normal":
        return NormalDist().inv_cdf(1 - chance / 2)
    if measured.shape == "laplace":
        return -log(chance) / sqrt(2)
    var = np.where((measured.variance > 0) & (measured.variance < np.inf), measured.variance, 1.0)
    rate = 2 * np.arcsinh(1 / np.sqrt(2 * var))
    whole: Floats = np.ceil(log(2 / chance) / rate)  # P(|X| ≥ k) < 2·exp(−rate·k)
    return whole / np.sqrt(var)
