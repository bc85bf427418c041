"""clicks: when the clicks of the CSSCL look-alike fall.

Published are days 0 to 90. The trend follows the quartiles of click times in a public analysis of the rows with product
data: traffic grows, sales grow less, so the sale rate falls. The weekly and the daily cycle are assumed.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from attributary.logs.generate.partners import Partners
from attributary.types import Floats, Ints

FIRST = 1_596_439_000  # seconds since 1970, in the clock of the published file, which was shifted: a Monday, 07:16
SPAN = 90 * 86_400 + 86_200
TREND = ((0.641, -0.417), (0.396, -0.477))  # of rows without a sale and with: 1 + a·x + b·x² from begin to end
WEEK = (1.06, 1.03, 1.0, 1.0, 0.97, 0.92, 1.02)
MORNING = (0.55, 0.35, 0.25, 0.2, 0.22, 0.35, 0.6, 0.85, 1.0, 1.15, 1.2, 1.22)
HOURS = (*MORNING, 1.2, 1.2, 1.2, 1.2, 1.2, 1.25, 1.35, 1.5, 1.6, 1.55, 1.25, 0.85)


class Clicks(NamedTuple):
    edge: Floats  # the share of the clicks before each second below, for rows without a sale and then, plus 2, with
    second: Floats
    low: Floats  # the share when each partner begins, without and with a sale
    width: Floats  # the share of its time
    drift: Floats


def clicks(partners: Partners) -> Clicks:
    second = np.append(np.arange(0, SPAN, 3600), SPAN)
    hour = np.arange(len(second) - 1)
    cycle = np.take(WEEK, (hour + 7) // 24 % 7) * np.take(HOURS, (hour + 7) % 24) * np.diff(second)
    edges = []
    for a, b in TREND:
        x = (second[:-1] + second[1:]) / 2 / SPAN
        edges.append(np.append(0, np.cumsum(cycle * (1 + a * x + b * x**2))))
    share = np.stack([edge / edge[-1] for edge in edges])
    low, high = (
        np.stack([np.interp(at * SPAN, second, edge) for edge in share]) for at in (partners.begin, partners.end)
    )
    both = np.concatenate([share[0], share[1] + 2])
    return Clicks(both, np.tile(second, 2).astype(float), low, high - low, partners.drift)


def click_times(of: Clicks, sale: NDArray[np.bool_], partner: Ints, u: Floats) -> Ints:
    """Seconds since 1970."""
    which, drift = sale.astype(np.int64), of.drift[partner]
    # x from 0 to 1 with density 1 + drift · (2x − 1), by its inverse
    x = 2 * u / (1 - drift + np.sqrt((1 - drift) ** 2 + 4 * drift * u))
    share = of.low[which, partner] + x * of.width[which, partner]
    return FIRST + np.interp(share + 2 * which, of.edge, of.second).astype(np.int64)
