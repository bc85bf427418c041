"""Limit: how far noise hardly moves a figure."""

from math import log, sqrt
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from attributary.measurements import Measurements

Floats = NDArray[np.float64]
FALSE_ALARMS = 0.05  # the chance that noise alone makes any correction of a table implausible


def limit(measured: Measurements, chance: float) -> Floats | float:
    """The standard deviations that the noise exceeds with this chance at most."""
    if measured.shape == "normal":
        return NormalDist().inv_cdf(1 - chance / 2)
    if measured.shape == "laplace":
        return -log(chance) / sqrt(2)
    var = np.where((measured.variance > 0) & (measured.variance < np.inf), measured.variance, 1.0)
    rate = 2 * np.arcsinh(1 / np.sqrt(2 * var))
    whole: Floats = np.ceil(log(2 / chance) / rate)  # P(|X| ≥ k) < 2·exp(−rate·k)
    return whole / np.sqrt(var)
