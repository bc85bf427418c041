"""partners: the 312 advertisers of the CSSCL look-alike, largest first; one giant, which takes what the others leave.

Published are the converting users of the largest, a smallest of about 33, the delays and the totals. They hold for the
rows with product data, which here are those with a country (kind 0); kind 1 are the bare rows without. All else about a
single partner is assumed: how often clicks on it convert, how many of its rows are bare, when it was active.
"""

from functools import cache
from typing import NamedTuple

import numpy as np

from attributary.logs.generate.delays import OVERALL, bin_means, tilted
from attributary.logs.generate.fixed import fixed, fixed_normal, normal
from attributary.types import Floats

COUNT = 312
ROWS = np.array([12_161_481, 3_834_153])  # with a country, and the 23.97 % without
SALES = np.array([1_279_493, 453_228])
CONVERTING = 1_192_588  # users who convert, in rows with a country; 1.0729 conversions each
USERS = 13_708_490
BOTH = 0.2107  # of the converting users also have rows without a sale
HEAD = (477_888, 52_064, 46_732, 45_704, 26_280, 22_103, 19_246)
NEXT, SMALLEST, BEND = 18_500, 33, 1.85805  # the others on a curve that adds up to CONVERTING
EXTREMES = {150: 0.005, 160: 26.2}  # mean delays in days of two small partners: the published minimum and maximum
MEDIAN_DELAY, DELAY_SPREAD = 1.68, 0.673
SIZE_SCORE = 1.5  # how much more a partner's size says about its delay than chance does


class Partners(NamedTuple):
    sales: Floats  # of each kind (row) and partner (column); expected, not whole
    others: Floats  # rows without a sale
    converting: Floats  # users with a sale
    passing: Floats  # users with a row without a sale
    delay: Floats  # the share of each delay bin, partner by partner
    begin: Floats  # when it is active, as a share of the log's time
    end: Floats
    drift: Floats  # its clicks grow (positive) or fade during that time, by at most this share


@cache
def partners() -> Partners:
    converting = np.stack([_sizes(), np.zeros(COUNT)])
    sales = converting * (SALES[0] / CONVERTING)
    bare = fixed("bare", COUNT) ** 2 * sales[0]  # most partners have few bare rows, some mostly such
    bare[0] = sales[0, 0] * 0.35
    sales[1] = bare * (SALES[1] / bare.sum())
    converting[1] = sales[1] * (CONVERTING / SALES[0])
    rate = np.exp(0.45 * fixed_normal("rate", COUNT))
    rate[0] = 1
    others = sales / rate
    others *= ((ROWS - SALES) / others.sum(axis=1))[:, None]
    passing = others * ((USERS - (1 - BOTH) * converting.sum()) / others.sum())
    begin, end = _active()
    drift = 0.8 * fixed("drift", COUNT) - 0.4
    drift[0] = 0
    return Partners(sales, others, converting, passing, _delays(sales.sum(axis=0)), begin, end, drift)


def _sizes() -> Floats:
    """Converting users of each partner, largest first."""
    rank = np.arange(len(HEAD) + 1, COUNT + 1)
    down = (np.log(rank / rank[0]) / np.log(rank[-1] / rank[0])) ** BEND
    tail = np.exp(np.log(NEXT) + down * np.log(SMALLEST / NEXT))
    tail[:-1] *= (CONVERTING - sum(HEAD) - tail[-1]) / tail[:-1].sum()  # the last digits of BEND
    return np.concatenate([HEAD, tail])


def _active() -> tuple[Floats, Floats]:
    """From when to when each partner has clicks: some appear only in the later half, some early, some leave."""
    way, when = fixed("way", COUNT), fixed("when", COUNT)
    way[:30] = 1  # the large ones are always there
    begin = np.select([way < 0.10, way < 0.18], [0.5 + 0.42 * when, 0.03 + 0.47 * when], 0.0)
    end = np.where((way >= 0.18) & (way < 0.24), 0.2 + 0.75 * when, 1.0)
    return begin, end


def _delays(sales: Floats) -> Floats:
    """Every partner's law of delay: the mixture of all is the overall law, and large partners are slower."""
    plain = np.array([p for p in range(1, COUNT) if p not in EXTREMES])
    score = SIZE_SCORE * -np.log(plain + 1) / np.log(COUNT) + fixed_normal("delay", len(plain)) / 2
    means = np.empty(COUNT)
    quantile = normal((np.arange(len(plain)) + 0.5) / len(plain))
    means[plain[np.argsort(score)]] = MEDIAN_DELAY * np.exp(DELAY_SPREAD * quantile)
    means[list(EXTREMES)] = list(EXTREMES.values())
    law = tilted(means[1:])
    share = sales / sales.sum()
    giant = (OVERALL - share[1:] @ law) / share[0]
    return np.vstack([giant, law])


def mean_delays() -> Floats:
    """The expected delay of each partner, in days."""
    return partners().delay @ bin_means()
