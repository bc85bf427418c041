"""runs: when the impressions of the CAMB look-alike fall, hour by hour.

Published are the first and the last second, and that days have 436,000 to 638,000 impressions with a weekly cycle. The
days between, the hours of a day and the time that a campaign runs are assumed.
"""

from functools import cache

import numpy as np

from attributary.logs.generate.campaigns import campaigns
from attributary.logs.generate.clicks import HOURS
from attributary.types import Floats, Ints

SPAN = 2_671_200  # seconds: 742 hours
HOUR = 3_600
# Rows without a conversion, in thousands; with the converted ones the days have 436 to 638. The last has 22 hours.
FIRST_DAYS = [518, 525, 509, 484, 448, 414, 451, 538, 586, 566, 497, 441, 413, 470, 573, 550]
DAYS = np.array([*FIRST_DAYS, 544, 482, 450, 421, 462, 596, 599, 548, 529, 463, 419, 469, 578, 612, 504])


@cache
def shares() -> Floats:
    """The share of each campaign's impressions (row) before each hour begins (column), and 1 at the end."""
    weight = DAYS.astype(float)
    for _ in range(60):  # campaigns that start late or end early shift the days; shift them back
        daily = np.diff(campaigns().size @ _running(weight))
        weight *= DAYS / daily
    hours = np.tile(HOURS, len(DAYS))[: SPAN // HOUR]
    day = np.arange(len(hours)) // 24
    return _running(hours / np.bincount(day, hours)[day] * weight[day])


def _running(weight: Floats) -> Floats:
    """The share of each campaign's impressions before each piece of time, given what the pieces weigh together."""
    of = campaigns()
    edges = np.append(0, np.cumsum(weight)) / weight.sum()
    share: Floats = np.clip((edges - of.begin[:, None]) / (of.end - of.begin)[:, None], 0, 1)
    return share


def begins() -> Ints:
    """The second in which each campaign begins to run."""
    second: Ints = ((shares() == 0).sum(axis=1) - 1) * HOUR
    return second


def impressions(campaign: Ints, u: Floats) -> Ints:
    """Seconds, drawn from the time that each campaign runs."""
    of = shares()
    at = np.searchsorted((of + np.arange(len(of))[:, None]).ravel(), campaign + u, side="right") - 1
    at = np.minimum(at, (campaign + 1) * of.shape[1] - 2)
    begin, end = of.ravel()[at], of.ravel()[at + 1]
    hour = at - campaign * of.shape[1]
    second: Ints = ((hour + (u - begin) / (end - begin)) * HOUR).astype(np.int64)
    return second
