"""camb: rows like those of Criteo's Attribution Modeling for Bidding dataset, none of which is one of them.

The rows are in the order of time, as published, and a block is an hour. The converted rows, one in twenty, are made
beforehand, since the clicks of one conversion lie days apart; the others are made block by block.
"""

from typing import Any, NamedTuple

import numpy as np

from attributary.logs.generate.campaigns import CAT1, CAT8, CONVERTED, COUNT, ROWS, campaigns
from attributary.logs.generate.fixed import fixed, generator
from attributary.logs.generate.journeys import Journeys, journeys
from attributary.logs.generate.names import numbers
from attributary.logs.generate.published import CAMB_HEADER, camb_lines
from attributary.logs.generate.quotas import quotas
from attributary.logs.generate.runs import HOUR, SPAN, shares
from attributary.logs.generate.stream import Stream, checked
from attributary.logs.generate.users import user_of
from attributary.types import Ints

CLICKS = 5_947_563
CLICKED = (CLICKS - CONVERTED) / (ROWS - CONVERTED)  # of the rows without a conversion
BLOCKS = SPAN // HOUR
DRAWS = 3  # the key of this file's draws


class Plan(NamedTuple):
    seed: int
    converted: Journeys
    first_converted: Ints  # of each hour, among the converted rows
    others: Ints  # rows without a conversion, of each campaign
    before: Ints  # how many of them come before each hour (column) in each campaign (row)
    users: Ints  # of each campaign
    first_user: Ints


class Part(NamedTuple):
    """Rows of an hour, converted or not; −1 where they are not."""

    time: Any  # arrays of the same length
    campaign: Any
    user: Any
    click: Any
    position: Any
    clicks: Any
    conversion: Any
    conversion_time: Any


def camb(rows: int = ROWS, seed: int = 0) -> Stream:
    """A stream of rows; with another number of rows than was published, all figures keep their proportions."""
    checked(rows, seed)
    plan = _plan(rows, seed)
    schema = _block(plan, 0).schema
    return Stream("camb", rows, seed, schema, BLOCKS, lambda n: _block(plan, n), CAMB_HEADER, camb_lines)


def _plan(rows: int, seed: int) -> Plan:
    of, converted = campaigns(), journeys(rows, seed)
    taken = np.bincount(converted.campaign, minlength=COUNT)
    others = quotas(np.maximum(quotas(of.size, rows) - taken, 0), rows - len(converted.time))
    before = np.floor(shares() * others[:, None] + fixed("phase", COUNT, 1)).astype(np.int64)
    users = np.minimum(quotas(of.users, round(of.users.sum() * rows / ROWS)), others)
    users = np.maximum(users, others + taken > 0)
    first = np.searchsorted(converted.time, np.arange(0, SPAN + 1, HOUR))
    return Plan(seed, converted, first, others, before, users, np.cumsum(users) - users)


def _block(plan: Plan, hour: int) -> Any:
    import pyarrow as pa

    draw = generator(DRAWS, plan.seed, hour).random
    parts = zip(_others(plan, hour, draw), _converted(plan, hour), strict=True)
    merged = Part(*(np.concatenate(part) for part in parts))
    order = np.argsort(merged.time, kind="stable")
    row = Part(*(column[order] for column in merged))

    cell, _ = campaigns().cells.draw(row.campaign, draw(len(order)))
    time = row.time.astype(np.int64)
    converted = row.conversion >= 0
    last = converted & (row.position == row.clicks - 1)
    columns = {
        "campaign": numbers(COUNT, row.campaign),
        "cat1": numbers(len(CAT1), campaigns().cat1[cell]),
        "cat8": numbers(len(CAT8), campaigns().cat8[cell]),
        "time": pa.array(time),
        "user": pa.array(plan.first_user[row.campaign] + row.user),
        "conversion": pa.array(last.astype(np.int8)),
        "delay": pa.array(row.conversion_time - time, mask=~last),
        "click": pa.array(row.click.astype(np.int8)),
        "click_pos": pa.array(row.position.astype(np.int16), mask=~converted),
        "click_nb": pa.array(row.clicks.astype(np.int16), mask=~converted),
        "conversion_id": pa.array(row.conversion, mask=~converted),
        "conversion_time": pa.array(row.conversion_time, mask=~converted),
    }
    return pa.record_batch(columns)


def _others(plan: Plan, hour: int, draw: Any) -> Part:
    begin, end = plan.before[:, hour], plan.before[:, hour + 1]
    campaign = np.repeat(np.arange(COUNT), end - begin)
    rows = len(campaign)
    within = np.arange(rows) + (end - np.cumsum(end - begin))[campaign]
    second = draw(rows) * HOUR
    if rows and hour == 0:
        second[np.argmin(second)] = 0  # the published log begins and ends with the span
    if rows and hour == BLOCKS - 1:
        second[np.argmax(second)] = HOUR - 0.5
    user = user_of(within, plan.others[campaign], plan.users[campaign], draw(rows))
    click = (draw(rows) < CLICKED).astype(np.int64)
    none = np.full(rows, -1)
    return Part(hour * HOUR + second, campaign, user, click, none, none, none, none)


def _converted(plan: Plan, hour: int) -> Part:
    here = slice(plan.first_converted[hour], plan.first_converted[hour + 1])
    of = plan.converted
    campaign = of.campaign[here]
    user = (of.user[here] * plan.users[campaign]).astype(np.int64)
    click = np.ones_like(campaign)
    journey = (of.position[here], of.clicks[here], of.conversion[here], of.conversion_time[here])
    return Part(of.time[here], campaign, user, click, *journey)
