"""Whose ε it is, by brute force: all small logs go through a browser in memory, beside all of their neighbours.

A log is two impressions and up to three purchases. Neighbours differ by one purchase, or by the value of one. The
distance is that of the exact sums of the nodes' keys, in units of the noise: the largest of all is what the plan says.
"""

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import product
from random import Random
from typing import Any, NamedTuple

import pytest

from attributary import Plan, make_plan
from attributary.api.ara.keys.key_layout import bits, with_mark
from attributary.api.ara.parse.both_headers import BrowserLimits
from attributary.api.ara.registration import Registrations, registrations
from attributary.browsers import Client
from attributary.spec import Spec
from support.plans import HOURS, UNKNOWN, asked, spec

SHOP, OTHER_SHOP, NEWS, ADS = (f"https://{name}.example" for name in ("shop", "other", "news", "ads"))
SECOND, DAY = 1000, 86_400_000
NO_NULLS = BrowserLimits(null_rate=0, null_rate_per_day=0)
CLIP = 10
COUNT, REVENUE = {"name": "count"}, {"name": "revenue", "column": "value", "clip": CLIP}
ONE = {"name": "hour", "unknown": True, "range": [0, 0]}
Sums = Counter[int]


class Event(NamedTuple):
    """An impression of a campaign, with what it registers, or a purchase of a day and a value."""

    time: int
    campaign: str = ""
    options: tuple[tuple[str, Any], ...] = ()
    expiry: int | None = None
    day: str = ""
    value: float = 0
    at: str = SHOP


def ready(given: Spec, method: str = "optimal", **share: float) -> Registrations:
    tree, history = asked(given)
    plan = make_plan(given, tree, history, method, share=share or None)
    return registrations(Plan.from_json(with_mark(plan.model_copy(update={"keys": bits(plan, None, None)})).to_json()))


def sums(made: Registrations, log: Sequence[Event], limits: BrowserLimits = NO_NULLS) -> Sums:
    """What one browser contributes to each key of a node."""
    browser, found = Client(limits, Random(1)), Sums()
    for event in sorted(log, key=lambda event: event.time):
        if event.campaign:
            browser.source(_source(made, event), page=NEWS, reporter=ADS, time=event.time)
            continue
        for report in browser.trigger(_trigger(made, event), page=event.at, reporter=ADS, time=event.time).attributions:
            found.update({each.key: each.value for each in report.contributions if each.key})  # 0 is of no node
    return found


@cache
def _source(made: Registrations, event: Event) -> str:
    options = dict(event.options)
    known = {"a": event.campaign, "b": "l0"} if made.plan.spec.known else {}
    source = made.source(known, options.pop("destination", SHOP), **options)
    return json.dumps(source | ({} if event.expiry is None else {"expiry": str(event.expiry)}))


@cache
def _trigger(made: Registrations, event: Event) -> str:
    hours = next((each.size for each in made.plan.spec.unknown if each.name == "hour"), 1)
    values = {"day": event.day, "hour": int(event.day == "tue") % hours, "value": event.value}
    return json.dumps(made.trigger({name: values[name] for name in made.asks}, conversion_id=1))


def distance(made: Registrations, one: Sums, other: Sums) -> float:
    """In ε."""
    whole = sum(abs(one[key] - other[key]) for key in one.keys() | other.keys())
    return made.plan.spec.noise_model.loss(whole / made.plan.spec.l1)


def farthest(made: Registrations, purchases: int = 3, values: Sequence[float] = (0, CLIP)) -> float:
    """The largest distance of neighbours, over all logs of two impressions and up to so many purchases."""
    kinds = [*product((5, 15), ("mon", "tue"), values if "value" in made.asks else (0,))]
    largest = 0.0
    for campaigns in (("r0", "r1"), ("r2", "r3"), ("new", "r0"), ("r1", "r1")):
        shown = [Event(time * SECOND, campaign) for time, campaign in zip((0, 10), campaigns, strict=True)]

        @cache
        def of(log: tuple[Any, ...], shown: list[Event] = shown) -> Sums:
            bought = [Event(at * SECOND + i, day=day, value=value) for i, (at, day, value) in enumerate(log)]
            return sums(made, [*shown, *bought])

        for number in range(1, purchases + 1):
            for log in product(kinds, repeat=number):
                if list(log) == sorted(log, key=lambda kind: kind[0]):
                    largest = max(largest, *(distance(made, of(log), of(each)) for each in neighbours(log, values)))
    return largest


def neighbours(log: tuple[Any, ...], values: Sequence[float]) -> Iterator[tuple[Any, ...]]:
    """The log with a purchase less, and with one of another value."""
    for i, (at, day, value) in enumerate(log):
        yield log[:i] + log[i + 1 :]
        yield from ((*log[:i], (at, day, other), *log[i + 1 :]) for other in values if other != value)


@pytest.mark.parametrize("most", [1, 2])
@pytest.mark.parametrize("method", ["leaves", "equal", "optimal"])
@pytest.mark.parametrize("measures", [None, (COUNT, REVENUE)], ids=["count", "count and revenue"])
def test_no_logged_purchase_moves_more_than_the_plan_says_and_one_moves_as_much(
    method: str, measures: Any, most: int
) -> None:
    given = spec(conversions_per_impression=most, measures=measures)
    made = ready(given, method)
    assert farthest(made) == pytest.approx(made.plan.privacy_loss.purchase, rel=1e-12)


@pytest.mark.sweep
@pytest.mark.parametrize(("measures", "most"), [(None, 3), ((REVENUE,), 1), ((COUNT, REVENUE), 2)], ids=str)
@pytest.mark.parametrize(
    "options",
    [
        {"total": True},
        {"split_by": "a"},
        {"total": True, "split_by": "a", "neighbours": "definition-1"},
        {"known": "", "total": True},
        {"known": "", "neighbours": "definition-1"},
        {"unknown": ()},
        {"unknown": (HOURS, UNKNOWN)},
        {"unknown": (ONE, UNKNOWN)},
        {"unknown": (ONE,)},
        {"l1": 1000},
    ],
    ids=str,
)
def test_so_it_is_for_all_kinds_of_plans(options: dict[str, Any], measures: Any, most: int) -> None:
    given = spec(conversions_per_impression=most, measures=measures, **options)
    for method in ("leaves", "equal", "optimal"):
        made = ready(given, method)
        found = farthest(made, most + 1)
        assert found == pytest.approx(made.plan.privacy_loss.purchase, rel=1e-12)
        assert made.plan.privacy_words.lines[1].startswith(f"ε = {found:.4g}: one logged purchase more or less")


def bought(moment: float, **what: Any) -> Event:
    return Event(int(moment * DAY), **{"day": "mon", **what})


def shown(moment: float, campaign: str, expiry: int = 10, **options: Any) -> Event:
    return Event(int(moment * DAY), campaign, tuple(options.items()), expiry * DAY // SECOND)


def lost(made: Registrations, log: Sequence[Event]) -> float:
    """How far the sums are from those without the first event."""
    return distance(made, sums(made, log), sums(made, log[1:]))


# The first purchase goes to r0 and deletes r1. Without it, the second goes to r1 instead of r2, and r2 is deleted; and
# so on: each impression that is deleted in one of both logs lets another conversion be counted there.
PRIORITIES = (
    *(bought(2), shown(0, "r0", priority=9), shown(1, "r1", priority=8), shown(3, "r2", priority=7), bought(10.5)),
    *(shown(10.8, "r3", priority=6), bought(12)),
    *(shown(12.5, "r0", priority=5), bought(14, day="tue")),
)
# The first purchase deletes r1, which would outlive r0, to which it goes.
WINDOWS = (bought(1.5), shown(0, "r1", 30), shown(1, "r0", 1), bought(2.5))
# The first purchase deletes r1 and r0 at all of their destinations.
THIRD_SHOP = "https://third.example"
DESTINATIONS = (
    *(bought(3), shown(0, "r1", destination=(SHOP, OTHER_SHOP)), shown(1, "r0", destination=(SHOP, THIRD_SHOP))),
    *(shown(2, "r2"), bought(4, at=OTHER_SHOP), bought(5, at=THIRD_SHOP)),
)


@pytest.mark.parametrize(
    ("method", "log", "found"),
    [
        ("leaves", PRIORITIES[:5], 12),
        ("leaves", PRIORITIES[:7], 16),
        ("leaves", PRIORITIES, 20),
        ("equal", WINDOWS, 8),
        ("leaves", DESTINATIONS, 12),
    ],
)
def test_with_other_priorities_windows_or_destinations_there_is_no_such_bound_and_the_plan_says_so(
    method: str, log: tuple[Event, ...], found: float
) -> None:
    made = ready(spec(), method)
    bound = made.plan.privacy_loss.purchase or 0.0
    assert lost(made, log) == found > bound
    condition = "if all impressions have the same priority, window and destinations, and no browser limit is reached"
    assert f"{condition}; otherwise there is no such bound" in made.plan.privacy_words.lines[1]
    alike = tuple(event._replace(options=(), expiry=30 * DAY // SECOND) if event.campaign else event for event in log)
    assert lost(made, alike) <= bound


def test_a_browser_limit_lets_a_purchase_of_another_impression_in() -> None:
    made = ready(spec(), "equal")
    log = (bought(0.2), shown(0.1, "r0"), shown(0.3, "r1"), bought(0.4))
    limits = BrowserLimits(null_rate=0, null_rate_per_day=0, attributions=1)
    found = distance(made, sums(made, log, limits), sums(made, log[1:], limits))
    assert found == 8 > lost(made, log) == made.plan.privacy_loss.purchase == 4
