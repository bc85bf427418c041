"""The logs of a shop that does not exist, small and with names, to show the whole way from logs to counts.

Users see several ads and buy at times: within the window of 30 days, to the second at its end, or after it; at the
very time of an impression; several times after one impression; or without having seen any.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from attributary import generated
from attributary.generated import DAY, OVERALL
from attributary.types import Arrow, Cells, Floats, Ints

ROWS = 200_000  # impressions
BEGIN = np.datetime64("2026-01-05T00:00:00", "ms")  # a Monday
SPAN = 56 * DAY
WINDOW = 30 * DAY
USERS = 0.3  # for each impression
DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
WEEK = (1.2, 1.1, 1.0, 1.1, 1.3, 0.7, 0.6)
CAMPAIGNS = ("autumn sale", "brand", "gift cards", "loyalty", "new arrivals", "outlet", "retargeting", "spring sale")
LOCATIONS = (
    "Berlin", "Chicago", "Lagos", "Lima", "London", "New York", "Osaka", "Paris", "Pune", "Sydney", "Toronto",
)  # fmt: skip
RATE = 0.06  # conversions for each impression, on average
AGAIN, AT_ONCE, LATE, AT_THE_END, UNSEEN = 0.12, 0.01, 0.04, 0.005, 0.06  # of the conversions
TWINS = 0.01  # impressions at the same second as the user's one before
DRAWS = 4  # the key of these draws


class Shop(NamedTuple):
    impressions: Arrow  # Arrow tables in the order of time
    conversions: Arrow


def shop(rows: int = ROWS, seed: int = 0) -> Shop:
    """Impressions (user, campaign, location, time), as many as `rows`, and conversions (user, time, day, value)."""
    generated.check_size(rows, seed)
    draw = generated.generator(DRAWS, seed, 0).random
    users = max(1, round(USERS * rows))
    user = (users * draw(rows) ** 1.5).astype(np.int64)
    people = np.cumsum(np.exp(0.6 * generated.fixed_normal("people", len(LOCATIONS))))
    location = np.searchsorted(people, draw(users) * people[-1], side="right")[user]
    time = _times(draw(rows), draw(rows))
    twin = 1 + np.flatnonzero(draw(rows - 1) < TWINS)
    user[twin], location[twin], time[twin] = user[twin - 1], location[twin - 1], time[twin - 1]
    campaign = _campaigns(location, draw(rows))
    buyer, bought = _conversions(user, campaign, time, users, draw)
    value = generated.amounts(draw(len(bought)))
    where = {"campaign": _named(CAMPAIGNS, campaign), "location": _named(LOCATIONS, location)}
    what = {"day": _named(DAYS, bought // DAY % 7), "value": value}
    return Shop(
        _log(time, rows, seed, user=_user_names(user), **where, time=_clock(time)),
        _log(bought, rows, seed, user=_user_names(buyer), time=_clock(bought), **what),
    )


def _named(labels: tuple[str, ...], code: Ints) -> Arrow:
    return pa.array(labels).take(pa.array(code))


def _times(u: Floats, v: Floats) -> Ints:
    """Seconds since the shop's first, in whole weeks."""
    week = np.tile(WEEK, SPAN // DAY // 7).cumsum()
    day = np.searchsorted(week, u * week[-1], side="right")
    hour = 24 * (v + 0.08 * np.sin(2 * np.pi * v))  # fewer by night
    second: Ints = day * DAY + (hour * 3600).astype(np.int64)
    return second


def _campaigns(location: Ints, u: Floats) -> Ints:
    """The campaign of each impression: those that run where the user lives, by their size."""
    size = np.exp(0.7 * generated.fixed_normal("campaign size", len(CAMPAIGNS)))
    runs = generated.fixed("campaign runs", len(LOCATIONS), len(CAMPAIGNS)) < 0.7
    runs[:, 1] = True  # brand is everywhere
    chance = np.cumsum(np.where(runs, size, 0.0), axis=1)
    campaign: Ints = (u[:, None] * chance[location, -1:] >= chance[location]).sum(axis=1)
    return campaign


def _conversions(
    user: Ints, campaign: Ints, time: Ints, users: int, draw: Callable[[int], Floats]
) -> tuple[Ints, Ints]:
    appeal = np.exp(0.5 * generated.fixed_normal("appeal", len(CAMPAIGNS)))
    led = np.flatnonzero(draw(len(user)) < RATE * appeal[campaign])
    delay = generated.delays(generated.delay_laws(OVERALL[None]).draw(np.zeros(len(led), np.int64), draw(len(led))))
    way, more = draw(len(led)), draw(len(led))
    cases = np.cumsum([AT_ONCE, LATE, AT_THE_END, AT_THE_END])
    late = WINDOW + 1 + (more * 15 * DAY).astype(np.int64)
    delay = np.select([way < case for case in cases], [0, late, WINDOW, WINDOW + 1], delay)
    bought = time[led] + delay
    again = np.flatnonzero(draw(len(led)) < AGAIN)
    soon = bought[again] + 60 + (draw(len(again)) * 2 * DAY).astype(np.int64)
    unseen = round(UNSEEN * len(led))
    stranger = users + (draw(unseen) * unseen).astype(np.int64)
    buyer = np.concatenate([user[led], user[led][again], stranger])
    return buyer, np.concatenate([bought, soon, _times(draw(unseen), draw(unseen))])


def _log(when: Ints, rows: int, seed: int, **columns: object) -> Arrow:
    """A table in the order of time."""
    order = pa.array(np.argsort(when, kind="stable"))
    return pa.table(columns).take(order).replace_schema_metadata(generated.label("shop", rows, seed))


def _clock(second: Ints) -> NDArray[np.datetime64]:
    return BEGIN + (second * 1000).astype("timedelta64[ms]")


def _user_names(user: Ints) -> Cells:
    return pc.binary_join_element_wise("user", pc.cast(pa.array(user + 1), pa.string()), " ")


SPEC = f"""\
# A generated shop, which does not exist: conversions by campaign > location > day.
epsilon = 1
neighbours = "definition-1"    # epsilon also hides on which day a conversion was
tau = 10
split_by = "campaign"          # every campaign has a budget split of its own

[[attribute]]
name = "campaign"              # known: an impression has it

[[attribute]]
name = "location"

[[attribute]]
name = "day"                   # of the week
unknown = true                 # only a conversion has it
domain = [{", ".join(f'"{day}"' for day in DAYS)}]

[logs]
impressions = "impressions.parquet"
conversions = "conversions.parquet"
user = "user"
time = "time"
window = "30d"
"""
