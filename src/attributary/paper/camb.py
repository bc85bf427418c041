"""Generated rows like those of Criteo's Attribution Modeling for Bidding dataset; none is one of them.

The rows are in the order of time, as published, and a block is an hour. The converted rows, one in twenty, are made
beforehand, since the clicks of one conversion lie days apart; the others are made block by block.
"""

from functools import cache
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from attributary import generated
from attributary.generated import DAY, OVERALL, Laws
from attributary.paper.load import CAMB
from attributary.paper.look_alike import HOURS, Stream, bin_means, names, published_text, quotas, tilted, user_of
from attributary.types import Floats, Ints, Values

# Campaigns: 675, largest first. Published are their number, the law of their sizes and the quantiles of their
# conversion rates. That large ones convert a little less follows from the totals; which other campaign has which rate,
# and when it runs, is assumed.

CAMPAIGNS = 675
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
    sizes = np.interp(generated.normal((np.arange(CAMPAIGNS) + 0.5) / CAMPAIGNS), *SIZE_KNOTS)
    size = quotas(np.exp(sizes), ROWS)[::-1].copy()
    rate = _campaign_rates(size)
    way, when = generated.fixed("runs", CAMPAIGNS), generated.fixed("runs when", CAMPAIGNS)
    way[:40] = 1
    begin = np.select([way < 0.08, way < 0.16], [0.5 + 0.42 * when, 0.05 + 0.45 * when], 0.0)
    end = np.where((way >= 0.16) & (way < 0.26), 0.3 + 0.65 * when, 1.0)
    group, cat1, cat8, weight = _campaign_cells()
    delays = generated.delay_laws(_campaign_delays(size * rate))
    users = size.astype(float) * (USERS / ROWS)
    return Campaigns(size, size * rate, users, begin, end, generated.laws(group, weight), cat1, cat8, delays)


def _campaign_rates(size: Ints) -> Floats:
    """Converted rows per impression: the published quantiles, handed out so that the total is the published one."""
    values = np.interp((np.arange(CAMPAIGNS) + 0.5) / CAMPAIGNS, *RATE_KNOTS)
    score = generated.fixed_normal("rate of campaign", CAMPAIGNS) - SIZE_SCORE * np.linspace(1.5, -1.5, CAMPAIGNS)
    rate = np.empty(CAMPAIGNS)
    rate[np.argsort(score)] = values
    return rate * (CONVERTED / (size @ rate))


def _campaign_cells() -> tuple[Ints, Ints, Ints, Floats]:
    """The pairs of cat1 and cat8 in each campaign: a few of each, independent of one another."""
    some1, some8 = generated.fixed("cat1", CAMPAIGNS, len(CAT1)), generated.fixed("cat8", CAMPAIGNS, len(CAT8))
    has1 = some1 < np.minimum(1, 2.2 * CAT1**0.5)
    has8 = some8 < np.minimum(1, 2.2 * CAT8**0.5)
    has1[~has1.any(axis=1), 0] = True
    has8[:, 0] = True
    one = has1 * CAT1 * np.exp(0.8 * generated.fixed_normal("cat1 share", *has1.shape))
    eight = has8 * CAT8 * np.exp(0.8 * generated.fixed_normal("cat8 share", *has8.shape))
    weight = one[:, :, None] * eight[:, None, :]
    group, cat1, cat8 = np.nonzero(weight)
    return group, cat1, cat8, weight[group, cat1, cat8]


def _campaign_delays(converted: Floats) -> Floats:
    """The law of delay of each campaign. None is published: the overall law of CSSCL, tilted to means that differ."""
    means = np.exp(DELAY_SPREAD * generated.fixed_normal("delay of campaign", CAMPAIGNS))
    return tilted(means * (OVERALL @ bin_means()) * converted.sum() / (converted @ means))


# When impressions fall, hour by hour. Published are the first and the last second, and that days have 436,000 to
# 638,000 impressions with a weekly cycle. The days between, the hours of a day and the time that a campaign runs are
# assumed.

SPAN = 2_671_200  # seconds: 742 hours
HOUR = 3_600
# Rows without a conversion, in thousands; with the converted ones the days have 436 to 638. The last has 22 hours.
FIRST_DAYS = [518, 525, 509, 484, 448, 414, 451, 538, 586, 566, 497, 441, 413, 470, 573, 550]
DAYS = np.array([*FIRST_DAYS, 544, 482, 450, 421, 462, 596, 599, 548, 529, 463, 419, 469, 578, 612, 504])


@cache
def hourly_shares() -> Floats:
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


def impression_times(campaign: Ints, u: Floats) -> Ints:
    """Seconds, drawn from the time that each campaign runs."""
    of = hourly_shares()
    at = np.searchsorted((of + np.arange(len(of))[:, None]).ravel(), campaign + u, side="right") - 1
    at = np.minimum(at, (campaign + 1) * of.shape[1] - 2)
    begin, end = of.ravel()[at], of.ravel()[at + 1]
    hour = at - campaign * of.shape[1]
    second: Ints = ((hour + (u - begin) / (end - begin)) * HOUR).astype(np.int64)
    return second


# Journeys: the clicks that led to the conversions. Published are the numbers of conversions and of their clicks by
# position. A conversion follows its last click by a delay whose law is an assumption; the earlier clicks lie before
# that one, closer ones more often, at most 30 days before the conversion and within the time that the campaign runs.

POSITIONS = np.array(  # rows at click position 0, 1, 2, …: as published, then a power law that adds up to CONVERTED
    [400_152, 139_933, 73_191, 44_990, 30_527, 21_932, 16_275, 12_460, 9_769, 7_828]
)
TAIL_POWER, TAIL_SHIFT, MOST_CLICKS = 3.2158686, 6.023871, 200
CONVERSIONS_PER_USER = 1.073  # as in CSSCL; for CAMB none is known
WINDOW = 30 * DAY
ROOM = 10  # a campaign has this many impressions for each click of a conversion
CLOSENESS = 6  # the greater, the closer to its last click the others are
JOURNEY_DRAWS = 2  # the key of these draws


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
    draw = generated.generator(JOURNEY_DRAWS, seed, 0).random
    clicks = _click_counts(rows)
    clicks = clicks[np.argsort(draw(len(clicks)), kind="stable")]
    campaign = _campaign_of(clicks, rows, draw(len(clicks)))
    last = impression_times(campaign, draw(len(clicks)))
    when = last + generated.delays(campaigns().delays.draw(campaign, draw(len(clicks))))
    user = _user_places(campaign, draw(len(clicks)))

    conversion = np.repeat(np.arange(len(clicks)), clicks)
    first = np.cumsum(clicks) - clicks
    position = np.arange(len(conversion)) - first[conversion]
    back = draw(len(conversion)) ** CLOSENESS
    is_last = position == clicks[conversion] - 1
    back[is_last] = 0
    begins = ((hourly_shares() == 0).sum(axis=1) - 1) * HOUR  # the second in which each campaign begins to run
    end, reach = when[conversion], np.minimum(WINDOW, when - begins[campaign])[conversion]
    delay = end - last[conversion]
    time = last[conversion] - (back * (reach - delay)).astype(np.int64)
    time = time[np.lexsort((is_last, time, conversion))]  # so that positions are in the order of time

    order = np.argsort(time, kind="stable")
    of = conversion[order]
    return Journeys(time[order], campaign[of], user[of], of, end[order], position[order], clicks[of])


def _click_counts(rows: int) -> Ints:
    position = np.arange(len(POSITIONS), MOST_CLICKS)
    tail = POSITIONS[-1] * ((len(POSITIONS) - 1 + TAIL_SHIFT) / (position + TAIL_SHIFT)) ** TAIL_POWER
    whole = np.concatenate([POSITIONS, np.rint(tail)])
    whole[len(POSITIONS)] += CONVERTED - whole.sum()  # what the rounding left
    at = np.rint(whole * (rows / ROWS)).astype(np.int64)
    return np.repeat(np.arange(1, MOST_CLICKS + 1), at - np.append(at[1:], 0))


def _campaign_of(clicks: Ints, rows: int, u: Floats) -> Ints:
    """The campaign of each conversion: rows are dealt out one campaign after the other, as many as it converts."""
    of = campaigns()
    share = np.cumsum(of.converted) / CONVERTED
    middle = (np.cumsum(clicks) - clicks / 2) / clicks.sum()
    campaign: Ints = np.minimum(np.searchsorted(share, middle, side="right"), CAMPAIGNS - 1)
    room = of.size * (rows / ROWS) / ROOM
    tight = np.flatnonzero(clicks > room[campaign])  # too many clicks for a small campaign: one large enough has them
    large = np.maximum(np.searchsorted(-room, -clicks[tight], side="right"), 1)
    campaign[tight] = np.searchsorted(share, u[tight] * share[large - 1], side="right")
    return campaign


def _user_places(campaign: Ints, u: Floats) -> Floats:
    count = np.bincount(campaign, minlength=CAMPAIGNS)
    order = np.argsort(campaign, kind="stable")
    within = np.empty_like(campaign)
    within[order] = np.arange(len(campaign)) - (np.cumsum(count) - count)[campaign[order]]
    users = np.maximum(np.rint(count / CONVERSIONS_PER_USER).astype(np.int64), 1)
    return (user_of(within, count[campaign], users[campaign], u) + 0.5) / users[campaign]


# Rows

CLICKS = 5_947_563
CLICKED = (CLICKS - CONVERTED) / (ROWS - CONVERTED)  # of the rows without a conversion
BLOCKS = SPAN // HOUR
ROW_DRAWS = 3  # the key of these draws
TEXT = {"timestamp": "time", "uid": "user", "conversion_timestamp": "conversion_time"}  # as published
TEXT |= {name: name for name in ("campaign", "conversion_id", "click", "click_pos", "click_nb", "cat1", "cat8")}


class CambHours(NamedTuple):
    seed: int
    converted: Journeys
    first_converted: Ints  # of each hour, among the converted rows
    others: Ints  # rows without a conversion, of each campaign
    before: Ints  # how many of them come before each hour (column) in each campaign (row)
    users: Ints  # of each campaign
    first_user: Ints


class HourRows(NamedTuple):
    """Rows of an hour, converted or not; −1 where they are not."""

    time: Values  # arrays of the same length
    campaign: Values
    user: Values
    click: Values
    position: Values
    clicks: Values
    conversion: Values
    conversion_time: Values


def camb_stream(rows: int = ROWS, seed: int = 0) -> Stream:
    """A stream of rows; with another number of rows than was published, all figures keep their proportions."""
    generated.check_size(rows, seed)
    hours = _hours(rows, seed)
    schema = _block(hours, 0).schema
    header = ("\t".join(CAMB.columns) + "\n").encode()

    def text(batch: Any) -> Any:
        converted = batch.column("conversion_id").is_valid().cast(pa.int8()).cast(pa.string())
        return published_text(batch, CAMB.columns, TEXT | {"conversion": converted})

    return Stream("camb", rows, seed, schema, BLOCKS, lambda n: _block(hours, n), header, text)


def _hours(rows: int, seed: int) -> CambHours:
    of, converted = campaigns(), journeys(rows, seed)
    taken = np.bincount(converted.campaign, minlength=CAMPAIGNS)
    others = quotas(np.maximum(quotas(of.size, rows) - taken, 0), rows - len(converted.time))
    before = np.floor(hourly_shares() * others[:, None] + generated.fixed("phase", CAMPAIGNS, 1)).astype(np.int64)
    users = np.minimum(quotas(of.users, round(of.users.sum() * rows / ROWS)), others)
    users = np.maximum(users, others + taken > 0)
    first = np.searchsorted(converted.time, np.arange(0, SPAN + 1, HOUR))
    return CambHours(seed, converted, first, others, before, users, np.cumsum(users) - users)


def _block(hours: CambHours, hour: int) -> Any:
    draw = generated.generator(ROW_DRAWS, hours.seed, hour).random
    parts = zip(_other_rows(hours, hour, draw), _converted_rows(hours, hour), strict=True)
    merged = HourRows(*(np.concatenate(part) for part in parts))
    order = np.argsort(merged.time, kind="stable")
    row = HourRows(*(column[order] for column in merged))

    cell, _ = campaigns().cells.draw(row.campaign, draw(len(order)))
    time = row.time.astype(np.int64)
    converted = row.conversion >= 0
    last = converted & (row.position == row.clicks - 1)
    columns = {
        "campaign": names("", CAMPAIGNS, row.campaign, missing=False),
        "cat1": names("", len(CAT1), campaigns().cat1[cell], missing=False),
        "cat8": names("", len(CAT8), campaigns().cat8[cell], missing=False),
        "time": pa.array(time),
        "user": pa.array(hours.first_user[row.campaign] + row.user),
        "conversion": pa.array(last.astype(np.int8)),
        "delay": pa.array(row.conversion_time - time, mask=~last),
        "click": pa.array(row.click.astype(np.int8)),
        "click_pos": pa.array(row.position.astype(np.int16), mask=~converted),
        "click_nb": pa.array(row.clicks.astype(np.int16), mask=~converted),
        "conversion_id": pa.array(row.conversion, mask=~converted),
        "conversion_time": pa.array(row.conversion_time, mask=~converted),
    }
    return pa.record_batch(columns)


def _other_rows(hours: CambHours, hour: int, draw: Any) -> HourRows:
    begin, end = hours.before[:, hour], hours.before[:, hour + 1]
    campaign = np.repeat(np.arange(CAMPAIGNS), end - begin)
    rows = len(campaign)
    within = np.arange(rows) + (end - np.cumsum(end - begin))[campaign]
    second = draw(rows) * HOUR
    if rows and hour == 0:
        second[np.argmin(second)] = 0  # the published log begins and ends with the span
    if rows and hour == BLOCKS - 1:
        second[np.argmax(second)] = HOUR - 0.5
    user = user_of(within, hours.others[campaign], hours.users[campaign], draw(rows))
    click = (draw(rows) < CLICKED).astype(np.int64)
    none = np.full(rows, -1)
    return HourRows(hour * HOUR + second, campaign, user, click, none, none, none, none)


def _converted_rows(hours: CambHours, hour: int) -> HourRows:
    here = slice(hours.first_converted[hour], hours.first_converted[hour + 1])
    of = Journeys._make(column[here] for column in hours.converted)
    user = (of.user * hours.users[of.campaign]).astype(np.int64)
    journey = (of.position, of.clicks, of.conversion, of.conversion_time)
    return HourRows(of.time, of.campaign, user, np.ones_like(of.campaign), *journey)
