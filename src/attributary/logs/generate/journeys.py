"""journeys: the clicks that led to the conversions of the CAMB look-alike.

Published are the numbers of conversions and of their clicks by position. A conversion follows its last click by a delay
whose law is an assumption (see campaigns); the earlier clicks lie before that one, closer ones more often, at most 30
days before the conversion and within the time that the campaign runs.
"""

from typing import NamedTuple

import numpy as np

from attributary.logs.generate.campaigns import CONVERTED, COUNT, ROWS, campaigns
from attributary.logs.generate.delays import DAY, delays
from attributary.logs.generate.fixed import generator
from attributary.logs.generate.runs import begins, impressions
from attributary.logs.generate.users import user_of
from attributary.types import Floats, Ints

POSITIONS = np.array(  # rows at click position 0, 1, 2, …: as published, then a power law that adds up to CONVERTED
    [400_152, 139_933, 73_191, 44_990, 30_527, 21_932, 16_275, 12_460, 9_769, 7_828]
)
TAIL_POWER, TAIL_SHIFT, MOST = 3.2158686, 6.023871, 200
CONVERSIONS_PER_USER = 1.073  # as in CSSCL; for CAMB none is known
WINDOW = 30 * DAY
ROOM = 10  # a campaign has this many impressions for each click of a conversion
CLOSENESS = 6  # the greater, the closer to its last click the others are
DRAWS = 2  # the key of this file's draws


class Journeys(NamedTuple):
    """One row per click, in the order of time."""

    time: Ints
    campaign: Ints
    user: Floats  # where among its campaign's users, from 0 to 1
    conversion: Ints  # its number
    conversion_time: Ints
    position: Ints
    clicks: Ints  # of the conversion


def journeys(rows: int, seed: int) -> Journeys:
    """The converted rows of a log with so many rows."""
    draw = generator(DRAWS, seed, 0).random
    clicks = _clicks(rows)
    clicks = clicks[np.argsort(draw(len(clicks)), kind="stable")]
    campaign = _campaigns(clicks, rows, draw(len(clicks)))
    last = impressions(campaign, draw(len(clicks)))
    when = last + delays(campaigns().delays.draw(campaign, draw(len(clicks))))
    user = _users(campaign, draw(len(clicks)))

    conversion = np.repeat(np.arange(len(clicks)), clicks)
    first = np.cumsum(clicks) - clicks
    position = np.arange(len(conversion)) - first[conversion]
    back = draw(len(conversion)) ** CLOSENESS
    is_last = position == clicks[conversion] - 1
    back[is_last] = 0
    end, reach = when[conversion], np.minimum(WINDOW, when - begins()[campaign])[conversion]
    delay = end - last[conversion]
    time = last[conversion] - (back * (reach - delay)).astype(np.int64)
    time = time[np.lexsort((is_last, time, conversion))]  # so that positions are in the order of time

    order = np.argsort(time, kind="stable")
    of = conversion[order]
    return Journeys(time[order], campaign[of], user[of], of, end[order], position[order], clicks[of])


def _clicks(rows: int) -> Ints:
    """The number of clicks of each conversion."""
    position = np.arange(len(POSITIONS), MOST)
    tail = POSITIONS[-1] * ((len(POSITIONS) - 1 + TAIL_SHIFT) / (position + TAIL_SHIFT)) ** TAIL_POWER
    whole = np.concatenate([POSITIONS, np.rint(tail)])
    whole[len(POSITIONS)] += CONVERTED - whole.sum()  # what the rounding left
    at = np.rint(whole * (rows / ROWS)).astype(np.int64)
    return np.repeat(np.arange(1, MOST + 1), at - np.append(at[1:], 0))


def _campaigns(clicks: Ints, rows: int, u: Floats) -> Ints:
    """The campaign of each conversion: rows are dealt out one campaign after the other, as many as it converts."""
    of = campaigns()
    share = np.cumsum(of.converted) / CONVERTED
    middle = (np.cumsum(clicks) - clicks / 2) / clicks.sum()
    campaign: Ints = np.minimum(np.searchsorted(share, middle, side="right"), COUNT - 1)
    room = of.size * (rows / ROWS) / ROOM
    tight = np.flatnonzero(clicks > room[campaign])  # too many clicks for a small campaign: one large enough has them
    large = np.maximum(np.searchsorted(-room, -clicks[tight], side="right"), 1)
    campaign[tight] = np.searchsorted(share, u[tight] * share[large - 1], side="right")
    return campaign


def _users(campaign: Ints, u: Floats) -> Floats:
    count = np.bincount(campaign, minlength=COUNT)
    order = np.argsort(campaign, kind="stable")
    within = np.empty_like(campaign)
    within[order] = np.arange(len(campaign)) - (np.cumsum(count) - count)[campaign[order]]
    users = np.maximum(np.rint(count / CONVERSIONS_PER_USER).astype(np.int64), 1)
    return (user_of(within, count[campaign], users[campaign], u) + 0.5) / users[campaign]
