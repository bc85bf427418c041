"""csscl: rows like those of the Criteo Sponsored Search Conversion Log, none of which is one of them."""

from typing import Any, NamedTuple

import numpy as np

from attributary.logs.generate.amounts import amounts, large_ones_to
from attributary.logs.generate.attributes import AGES, DEVICES, REVENUE, Attributes, attributes, countries
from attributary.logs.generate.choice import Laws
from attributary.logs.generate.clicks import Clicks, click_times, clicks
from attributary.logs.generate.delays import delay_laws, delays
from attributary.logs.generate.fixed import generator
from attributary.logs.generate.names import names
from attributary.logs.generate.partners import BOTH, COUNT, SALES, partners
from attributary.logs.generate.published import csscl_lines
from attributary.logs.generate.quotas import quotas
from attributary.logs.generate.shuffled import shuffled
from attributary.logs.generate.stream import Stream, checked
from attributary.logs.generate.users import user_of
from attributary.types import Floats, Ints

ROWS = 15_995_634
BLOCK = 2**18
UNKNOWN_DELAYS = 5_380  # sales whose delay is not known
DRAWS = 1  # the key of this file's draws


class Plan(NamedTuple):
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


def csscl(rows: int = ROWS, seed: int = 0) -> Stream:
    """A stream of rows; with another number of rows than was published, all figures keep their proportions."""
    checked(rows, seed)
    plan = _plan(rows, seed)
    schema = _block(plan, np.arange(0), 0).schema
    return Stream("csscl", rows, seed, schema, -(-rows // BLOCK), lambda n: _numbered(plan, n), b"", csscl_lines)


def _plan(rows: int, seed: int) -> Plan:
    of, scale = partners(), rows / ROWS
    sales = round(scale * SALES.sum())
    size = np.concatenate([quotas(of.sales.ravel(), sales), quotas(of.others.ravel(), rows - sales)])
    users = np.concatenate([quotas(each.ravel(), round(scale * each.sum())) for each in (of.converting, of.passing)])
    users = np.clip(users, size > 0, size)
    both = quotas(users[: 2 * COUNT], round(BOTH * users[: 2 * COUNT].sum()))
    both = np.minimum(both, users.reshape(2, -1).min(axis=0))
    new = users.reshape(2, -1).sum(axis=0) - both
    begin = np.cumsum(size) - size
    first_user = np.cumsum(new) - new
    at_home = of.sales[0, 0] * countries()[0, 0] / of.sales.sum()
    laws = (attributes(), clicks(of), delay_laws(of.delay), at_home)
    return Plan(rows, seed, begin, size, users, both, first_user, *laws)


def _numbered(plan: Plan, number: int) -> Any:
    return _block(plan, np.arange(number * BLOCK, min((number + 1) * BLOCK, plan.rows)), number)


def _block(plan: Plan, place: Ints, number: int) -> Any:
    import pyarrow as pa

    draw = generator(DRAWS, plan.seed, number).random
    row = shuffled(place, plan.rows, plan.seed)
    stratum = np.searchsorted(plan.begin, row, side="right") - 1
    sale, partner = stratum < 2 * COUNT, stratum % COUNT
    sold = np.flatnonzero(sale)

    cell, _ = plan.attributes.laws.draw(stratum, draw(len(row)))
    time = click_times(plan.clicks, sale, partner, draw(len(row)))
    user = _users(plan, stratum, row, draw(len(row)))
    delay, amount = np.zeros(len(row), np.int64), np.zeros(len(row))
    delay[sold] = delays(plan.delays.draw(partner[sold], draw(len(sold))))
    at_home = (partner[sold] == 0) & (plan.attributes.country[cell[sold]] == 0)
    amount[sold] = amounts(large_ones_to(at_home, plan.at_home, draw(len(sold))))
    before, after = (number * UNKNOWN_DELAYS // SALES.sum() for number in (row, row + 1))  # sales are the first rows
    unknown = after > before

    codes = plan.attributes
    columns = {
        "partner": names("partner", COUNT, partner, missing=False),
        "country": names("country", len(REVENUE), codes.country[cell]),
        "device": names("device", len(DEVICES), codes.device[cell]),
        "age_group": names("age", len(AGES), codes.age[cell]),
        "time": pa.array(time),
        "user": pa.array(user),
        "conversion": pa.array(sale.astype(np.int8)),
        "delay": pa.array(delay, mask=~sale | unknown),
        "amount": pa.array(amount, mask=~sale),
    }
    return pa.record_batch(columns)


def _users(plan: Plan, stratum: Ints, row: Ints, u: Floats) -> Ints:
    """Numbers from 0; a partner's users are its own."""
    sale, whose = stratum < 2 * COUNT, stratum % (2 * COUNT)
    within = row - plan.begin[stratum]
    user = user_of(within, plan.size[stratum], plan.users[stratum], u, faithful=stratum == 0)
    converting, both = plan.users[whose], plan.both[whose]
    # Of the users without a sale the first ones are the last who have one too.
    other = np.where(user < both, converting - 1 - user, converting + user - both)
    return plan.first_user[whose] + np.where(sale, user, other)
