"""Ticks: round values along an axis."""

import numpy as np


def ticks(least: float, most: float, number: int) -> list[float]:
    """Round values up to the largest: the room behind it, which is for words, has none."""
    step = 10.0 ** np.floor(np.log10(max(most - least, 1e-9) / number))
    step *= next(f for f in (1, 2, 2.5, 5, 10, 20) if f * step * number >= (most - least) * 0.8)
    first = np.ceil(least / step)
    return [float(round(i * step, 12)) for i in range(int(first), int(np.floor(most / step)) + 1)]
