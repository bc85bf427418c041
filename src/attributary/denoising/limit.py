"""Limit: how far noise hardly moves a figure."""

import numpy as np
from numpy.typing import NDArray

from attributary.measurements import Measurements

FALSE_ALARMS = 0.05  # the chance that noise alone makes any correction of a table implausible


def limit(measured: Measurements, chance: float) -> NDArray[np.float64]:
    """The standard deviations that the noise exceeds with this chance at most."""
    return measured.beyond(chance)
