"""Generated rows like those of the Criteo Sponsored Search Conversion Log; none is one of them.

Strata of partners, attributes and click times are fixed by the version; a seed draws rows from them.
"""

from functools import cache
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from attributary import generated
from attributary.generated import OVERALL, Laws
from attributary.paper import look_alike
from attributary.paper.load import CSSCL
from attributary.paper.look_alike import HOURS, Stream, published_text, quotas
from attributary.types import Floats, Ints

# Partners: the 312 advertisers, largest first; one giant, which takes what the others leave. Published are the
# converting users of the largest, a smallest of about 33, the delays and the totals. They hold for the rows with
# product data, which here are those with a country (kind 0); kind 1 are the bare rows without. All else about a single
# partner is assumed: how often clicks on it convert, how many of its rows are bare, when it was active.

PARTNERS = 312
ROWS_BY_KIND = np.array([12_161_481, 3_834_153])  # with a country, and the 23.97 % without
SALES_BY_KIND = np.array([1_279_493, 453_228])
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
    converting = np.stack([_partner_sizes(), np.zeros(PARTNERS)])
    sales = converting * (SALES_BY_KIND[0] / CONVERTING)
    bare = generated.fixed("bare", PARTNERS) ** 2 * sales[0]  # most partners have few bare rows, some mostly such
    bare[0] = sales[0, 0] * 0.35
    sales[1] = bare * (SALES_BY_KIND[1] / bare.sum())
    converting[1] = sales[1] * (CONVERTING / SALES_BY_KIND[0])
    rate = np.exp(0.45 * generated.fixed_normal("rate", PARTNERS))
    rate[0] = 1
    others = sales / rate
    others *= ((ROWS_BY_KIND - SALES_BY_KIND) / others.sum(axis=1))[:, None]
    passing = others * ((USERS - (1 - BOTH) * converting.sum()) / others.sum())
    begin, end = _active()
    drift = 0.8 * generated.fixed("drift", PARTNERS) - 0.4
    drift[0] = 0
    return Partners(sales, others, converting, passing, _partner_delays(sales.sum(axis=0)), begin, end, drift)


def _partner_sizes() -> Floats:
    """Converting users of each partner, largest first."""
    rank = np.arange(len(HEAD) + 1, PARTNERS + 1)
    down = (np.log(rank / rank[0]) / np.log(rank[-1] / rank[0])) ** BEND
    tail = np.exp(np.log(NEXT) + down * np.log(SMALLEST / NEXT))
    tail[:-1] *= (CONVERTING - sum(HEAD) - tail[-1]) / tail[:-1].sum()  # the last digits of BEND
    return np.concatenate([HEAD, tail])


def _active() -> tuple[Floats, Floats]:
    """From when to when each partner has clicks: some appear only in the later half, some early, some leave."""
    way, when = generated.fixed("way", PARTNERS), generated.fixed("when", PARTNERS)
    way[:30] = 1  # the large ones are always there
    begin = np.select([way < 0.10, way < 0.18], [0.5 + 0.42 * when, 0.03 + 0.47 * when], 0.0)
    end = np.where((way >= 0.18) & (way < 0.24), 0.2 + 0.75 * when, 1.0)
    return begin, end


def _partner_delays(sales: Floats) -> Floats:
    """Every partner's law of delay: the mixture of all is the overall law, and large partners are slower."""
    plain = np.array([p for p in range(1, PARTNERS) if p not in EXTREMES])
    score = SIZE_SCORE * -np.log(plain + 1) / np.log(PARTNERS) + generated.fixed_normal("delay", len(plain)) / 2
    means = np.empty(PARTNERS)
    quantile = generated.normal((np.arange(len(plain)) + 0.5) / len(plain))
    means[plain[np.argsort(score)]] = MEDIAN_DELAY * np.exp(DELAY_SPREAD * quantile)
    means[list(EXTREMES)] = list(EXTREMES.values())
    law = look_alike.tilted(means[1:])
    share = sales / sales.sum()
    giant = (OVERALL - share[1:] @ law) / share[0]
    return np.vstack([giant, law])


# Country, device and age group of a row, given its partner. Published are the numbers of values, the shares that are
# missing, and the revenue of the largest countries. That most partners sell in one country or two and give few age
# groups is assumed, and so are the shares of devices and ages.

REVENUE_PUBLISHED = [72.1, 39.7, 20.5, 17.6, 4.0, 0.89, 0.60, 0.41, 0.25, 0.16, 0.078, 0.039]
REVENUE_ASSUMED = [0.030, 0.023, 0.018, 0.014, 0.011, 0.008, 0.006, 0.005, 0.004, 0.003, 0.0022]
REVENUE = np.array(REVENUE_PUBLISHED + REVENUE_ASSUMED)  # of each country, in millions of euros
DEVICES = np.array([0.34, 0.25, 0.17, 0.10, 0.07, 0.045, 0.02, 0.005])
BUYERS = np.array([1.35, 0.75, 1.15, 0.9, 0.7, 1.1, 0.6, 0.8])  # how much likelier a device is among sales
AGES = np.array([0.66, 0.12, 0.07, 0.045, 0.03, 0.025, 0.02, 0.012, 0.008, 0.006, 0.004])
NO_DEVICE = 0.0002
NO_AGE = 0.7352
Codes = NDArray[np.int8]


class Attributes(NamedTuple):
    """Cells of country, device and age group; the last code of each is `missing`."""

    laws: Laws  # of the cells in each stratum: sale and kind 0, sale and 1, no sale and 0, no sale and 1, by partner
    country: Codes
    device: Codes
    age: Codes


def attributes() -> Attributes:
    country, age = countries(), _ages()
    cells: list[tuple[Ints, ...]] = []
    weights = []
    for sale in (True, False):
        device = _devices(BUYERS if sale else np.ones(len(DEVICES)))
        for kind in range(2):
            for p in range(PARTNERS):
                c, a = (country[p], age[p]) if kind == 0 else (np.eye(len(REVENUE) + 1)[-1], np.eye(len(AGES) + 1)[-1])
                weight = c[:, None, None] * device[p][None, :, None] * a[None, None, :]
                here = np.nonzero(weight)
                stratum = np.full(len(here[0]), (2 * (not sale) + kind) * PARTNERS + p)
                cells.append((stratum, *here))
                weights.append(weight[here])
    stratum, *codes = (np.concatenate(part) for part in zip(*cells, strict=True))
    return Attributes(generated.laws(stratum, np.concatenate(weights)), *(code.astype(np.int8) for code in codes))


def countries() -> Floats:
    """The share of each country among a partner's rows that have one; the giant sells what is left of each country."""
    size = partners().converting[0]
    target = REVENUE / REVENUE.sum() * size.sum()
    room = 0.85 * target
    sold = np.zeros((PARTNERS, len(REVENUE)))
    how_many, u = generated.fixed("how many countries", PARTNERS), generated.fixed("which country", PARTNERS, 6)
    for p in range(1, PARTNERS):
        number = 1 + int(np.searchsorted([0.60, 0.82, 0.92, 0.96, 0.98], how_many[p], side="right"))
        part = np.array([0.8, *[0.2 / (number - 1)] * (number - 1)]) if number > 1 else np.ones(1)
        for n, share in enumerate(part):
            enough = (room >= share * size[p]) & ((sold[p] == 0) | (room == room.max()))
            chance = np.cumsum(np.where(enough, room**0.7, 0))  # small countries have more than their share of partners
            c = int(np.searchsorted(chance, u[p, n] * chance[-1], side="right"))
            sold[p, c] += share * size[p]
            room[c] -= share * size[p]
    sold[0] = target - sold.sum(axis=0)
    return np.pad(sold / size[:, None], ((0, 0), (0, 1)))


def _devices(likelier: Floats) -> Floats:
    """The share of each device among a partner's rows; two rare devices are unknown to half of the partners."""
    shares = (
        DEVICES
        * likelier
        * np.exp(0.4 * generated.fixed_normal("device", PARTNERS * len(DEVICES))).reshape(PARTNERS, -1)
    )
    shares[:, 6:] *= generated.fixed("rare device", PARTNERS, 2) < 0.5
    shares[0] = DEVICES * likelier
    shares *= (1 - NO_DEVICE) / shares.sum(axis=1, keepdims=True)
    return np.pad(shares, ((0, 0), (0, 1)), constant_values=NO_DEVICE)


def _ages() -> Floats:
    """The share of each age group among a partner's rows with a country; half of the partners never give one."""
    gives, most = generated.fixed("gives ages", PARTNERS, 2), generated.fixed("most ages", PARTNERS)
    first = generated.fixed("ages", PARTNERS, len(AGES))
    share = np.where(gives[:, 0] < 0.5, 0, 0.3 + 0.7 * gives[:, 1])
    rows = (partners().sales + partners().others)[0]
    given = (1 - NO_AGE) * ROWS_BY_KIND.sum() - rows[1:] @ share[1:]
    share[0] = given / rows[0]
    known = first < np.minimum(1, 6 * AGES ** (0.25 + 0.5 * most[:, None]))  # the rarer, the fewer partners give it
    known[:, 0] = True
    known[0] = True
    ages = AGES * known * np.exp(0.5 * generated.fixed_normal("age share", PARTNERS, len(AGES)))
    ages *= (share / ages.sum(axis=1))[:, None]
    return np.column_stack([ages, 1 - share])


# Click times. Published are days 0 to 90. The trend follows the quartiles of click times in a public analysis of the
# rows with product data: traffic grows, sales grow less, so the sale rate falls. The weekly and the daily cycle are
# assumed.

FIRST = 1_596_439_000  # seconds since 1970, in the clock of the published file, which was shifted: a Monday, 07:16
SPAN = 90 * 86_400 + 86_200
TREND = ((0.641, -0.417), (0.396, -0.477))  # of rows without a sale and with: 1 + a·x + b·x² from begin to end
WEEK = (1.06, 1.03, 1.0, 1.0, 0.97, 0.92, 1.02)


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
    which, drift = sale.astype(np.int64), of.drift[partner]
    # x from 0 to 1 with density 1 + drift · (2x − 1), by its inverse
    x = 2 * u / (1 - drift + np.sqrt((1 - drift) ** 2 + 4 * drift * u))
    share = of.low[which, partner] + x * of.width[which, partner]
    return FIRST + np.interp(share + 2 * which, of.edge, of.second).astype(np.int64)


# Rows

ROWS = 15_995_634
BLOCK = 2**18
UNKNOWN_DELAYS = 5_380  # sales whose delay is not known
DRAWS = 1  # the key of these draws
TEXT = {"Sale": "conversion", "SalesAmountInEuro": "amount", "Time_delay_for_conversion": "delay"}  # as published
TEXT |= {"click_timestamp": "time", "product_age_group": "age_group", "device_type": "device"}
TEXT |= {"product_country": "country", "partner_id": "partner"}


class CssclStrata(NamedTuple):
    """What a block needs.

    There are four strata of rows (sales with a country, bare sales, others with a country, other bare rows), and in
    each the partners, largest first.
    """

    rows: int
    seed: int
    begin: Ints  # of each stratum before shuffling, in rows
    size: Ints
    users: Ints
    both: Ints  # of each kind and partner: users that have rows with a sale and without
    first_user: Ints
    attributes: Attributes
    clicks: Clicks
    delays: Laws
    at_home: float  # the share of the largest partner's sales in the largest country among all sales


def csscl_stream(rows: int = ROWS, seed: int = 0) -> Stream:
    """A stream of rows; with another number of rows than was published, all figures keep their proportions."""
    generated.check_size(rows, seed)
    strata = _strata(rows, seed)
    schema = _block(strata, np.arange(0), 0).schema

    def block(n: int) -> Any:
        return _block(strata, np.arange(n * BLOCK, min((n + 1) * BLOCK, rows)), n)

    def text(batch: Any) -> Any:
        users = look_alike.user_ids(batch.column("user").to_numpy())
        return published_text(batch, CSSCL.columns, TEXT | {"user_id": users})

    return Stream("csscl", rows, seed, schema, -(-rows // BLOCK), block, b"", text)


def _strata(rows: int, seed: int) -> CssclStrata:
    of, scale = partners(), rows / ROWS
    sales = round(scale * SALES_BY_KIND.sum())
    size = np.concatenate([quotas(of.sales.ravel(), sales), quotas(of.others.ravel(), rows - sales)])
    users = np.concatenate([quotas(each.ravel(), round(scale * each.sum())) for each in (of.converting, of.passing)])
    users = np.clip(users, size > 0, size)
    both = quotas(users[: 2 * PARTNERS], round(BOTH * users[: 2 * PARTNERS].sum()))
    both = np.minimum(both, users.reshape(2, -1).min(axis=0))
    new = users.reshape(2, -1).sum(axis=0) - both
    begin = np.cumsum(size) - size
    first_user = np.cumsum(new) - new
    at_home = of.sales[0, 0] * countries()[0, 0] / of.sales.sum()
    laws = (attributes(), clicks(of), generated.delay_laws(of.delay), at_home)
    return CssclStrata(rows, seed, begin, size, users, both, first_user, *laws)


def _block(strata: CssclStrata, place: Ints, number: int) -> Any:
    draw = generated.generator(DRAWS, strata.seed, number).random
    row = look_alike.shuffle(place, strata.rows, strata.seed)
    stratum = np.searchsorted(strata.begin, row, side="right") - 1
    sale, partner = stratum < 2 * PARTNERS, stratum % PARTNERS
    sold = np.flatnonzero(sale)

    cell, _ = strata.attributes.laws.draw(stratum, draw(len(row)))
    time = click_times(strata.clicks, sale, partner, draw(len(row)))
    user = _users(strata, stratum, row, draw(len(row)))
    delay, amount = np.zeros(len(row), np.int64), np.zeros(len(row))
    delay[sold] = generated.delays(strata.delays.draw(partner[sold], draw(len(sold))))
    at_home = (partner[sold] == 0) & (strata.attributes.country[cell[sold]] == 0)
    amount[sold] = generated.amounts(look_alike.large_ones_to(at_home, strata.at_home, draw(len(sold))))
    # Sales are the first rows.
    before, after = (number * UNKNOWN_DELAYS // SALES_BY_KIND.sum() for number in (row, row + 1))
    unknown = after > before

    codes = strata.attributes
    columns = {
        "partner": look_alike.names("partner", PARTNERS, partner, missing=False),
        "country": look_alike.names("country", len(REVENUE), codes.country[cell]),
        "device": look_alike.names("device", len(DEVICES), codes.device[cell]),
        "age_group": look_alike.names("age", len(AGES), codes.age[cell]),
        "time": pa.array(time),
        "user": pa.array(user),
        "conversion": pa.array(sale.astype(np.int8)),
        "delay": pa.array(delay, mask=~sale | unknown),
        "amount": pa.array(amount, mask=~sale),
    }
    return pa.record_batch(columns)


def _users(strata: CssclStrata, stratum: Ints, row: Ints, u: Floats) -> Ints:
    """Numbers from 0; a partner's users are its own."""
    sale, whose = stratum < 2 * PARTNERS, stratum % (2 * PARTNERS)
    within = row - strata.begin[stratum]
    user = look_alike.user_of(within, strata.size[stratum], strata.users[stratum], u, faithful=stratum == 0)
    converting, both = strata.users[whose], strata.both[whose]
    # Of the users without a sale the first ones are the last who have one too.
    other = np.where(user < both, converting - 1 - user, converting + user - both)
    return strata.first_user[whose] + np.where(sale, user, other)
