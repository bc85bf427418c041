"""campaigns: the 675 advertisers' campaigns of the CAMB look-alike, largest first.

Published are their number, the law of their sizes and the quantiles of their conversion rates. That large ones convert
a little less follows from the totals; which other campaign has which rate, and when it runs, is assumed.
"""

from functools import cache
from typing import NamedTuple

import numpy as np

from attributary.logs.generate.choice import Laws, laws
from attributary.logs.generate.delays import OVERALL, bin_means, delay_laws, tilted
from attributary.logs.generate.fixed import fixed, fixed_normal, normal
from attributary.logs.generate.quotas import quotas
from attributary.types import Floats, Ints

COUNT = 675
ROWS = 16_468_027
CONVERTED = 806_196  # rows
USERS = 6_142_256
SIZE_KNOTS = (  # standard normal quantiles, and the logarithm of the size there: log-normal but for the extremes
    (-3.17829, -2.5, -1.5, -0.7, 0, 0.7, 1.5, 2.5, 3.17829),
    (2.995732, 6.661136, 7.534469, 8.337531, 9.245418, 10.094266, 11.326015, 12.536047, 12.988569),
)
RATE_KNOTS = ((0, 0.10, 0.25, 0.50, 0.75, 0.90, 1), (0.002, 0.012, 0.023, 0.051, 0.086, 0.117, 0.25))
SIZE_SCORE = 0.2535  # how much the size says about the rate; chance says 1
CAT1 = np.array([0.30, 0.22, 0.15, 0.11, 0.08, 0.06, 0.04, 0.025, 0.015])
CAT8 = np.array([0.72, 0.09, 0.06, 0.04, 0.03, 0.02, 0.015, 0.01, 0.008, 0.005, 0.002])
DELAY_SPREAD = 0.5  # of the logarithm of a campaign's mean delay


class Campaigns(NamedTuple):
    size: Ints  # impressions
    converted: Floats  # rows of them with a conversion, as expected
    users: Floats
    begin: Floats  # when it runs, as a share of the log's rows
    end: Floats
    cells: Laws  # of cat1 and cat8
    cat1: Ints
    cat8: Ints
    delays: Laws


@cache
def campaigns() -> Campaigns:
    size = _sizes()
    rate = _rates(size)
    way, when = fixed("runs", COUNT), fixed("runs when", COUNT)
    way[:40] = 1
    begin = np.select([way < 0.08, way < 0.16], [0.5 + 0.42 * when, 0.05 + 0.45 * when], 0.0)
    end = np.where((way >= 0.16) & (way < 0.26), 0.3 + 0.65 * when, 1.0)
    group, cat1, cat8, weight = _cells()
    delays = delay_laws(_delays(size * rate))
    users = size.astype(float) * (USERS / ROWS)
    return Campaigns(size, size * rate, users, begin, end, laws(group, weight), cat1, cat8, delays)


def _sizes() -> Ints:
    logs = np.interp(normal((np.arange(COUNT) + 0.5) / COUNT), *SIZE_KNOTS)
    size = quotas(np.exp(logs), ROWS)
    return size[::-1].copy()


def _rates(size: Ints) -> Floats:
    """Converted rows per impression: the published quantiles, handed out so that the total is the published one."""
    values = np.interp((np.arange(COUNT) + 0.5) / COUNT, *RATE_KNOTS)
    score = fixed_normal("rate of campaign", COUNT) - SIZE_SCORE * np.linspace(1.5, -1.5, COUNT)
    rate = np.empty(COUNT)
    rate[np.argsort(score)] = values
    return rate * (CONVERTED / (size @ rate))


def _cells() -> tuple[Ints, Ints, Ints, Floats]:
    """The pairs of cat1 and cat8 in each campaign: a few of each, independent of one another."""
    some1, some8 = fixed("cat1", COUNT, len(CAT1)), fixed("cat8", COUNT, len(CAT8))
    has1 = some1 < np.minimum(1, 2.2 * CAT1**0.5)
    has8 = some8 < np.minimum(1, 2.2 * CAT8**0.5)
    has1[~has1.any(axis=1), 0] = True
    has8[:, 0] = True
    one = has1 * CAT1 * np.exp(0.8 * fixed_normal("cat1 share", has1.size)).reshape(has1.shape)
    eight = has8 * CAT8 * np.exp(0.8 * fixed_normal("cat8 share", has8.size)).reshape(has8.shape)
    weight = one[:, :, None] * eight[:, None, :]
    group, cat1, cat8 = np.nonzero(weight)
    return group, cat1, cat8, weight[group, cat1, cat8]


def _delays(converted: Floats) -> Floats:
    """The law of delay of each campaign. None is published: the overall law of CSSCL, tilted to means that differ."""
    means = np.exp(DELAY_SPREAD * fixed_normal("delay of campaign", COUNT))
    return tilted(means * (OVERALL @ bin_means()) * converted.sum() / (converted @ means))
