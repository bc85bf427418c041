"""Capacity: how much a source's event-level reports could tell, which the API limits."""

from functools import lru_cache
from math import comb, exp, log2

from attributary.ara.client.limits import Limits
from attributary.ara.parse.event_level import EventReportWindows
from attributary.ara.parse.findings import Findings
from attributary.ara.parse.scopes import AttributionScopes

STATES = "number of possible output states"


def check(
    found: Findings,
    limits: Limits,
    source_type: str,
    reports: int,
    data: int,
    windows: EventReportWindows,
    epsilon: float,
    scopes: AttributionScopes | None,
    note: bool,
) -> None:
    """Find an error where the states of a source's event-level reports are too many or tell too much."""
    navigation = source_type == "navigation"
    most = limits.channel_capacity_navigation if navigation else limits.channel_capacity_event
    most_scoped = limits.scopes_channel_capacity_navigation if navigation else limits.scopes_channel_capacity_event
    states = comb(data * len(windows.end_times) + reports, reports)  # reports on (trigger data, window) pairs
    if states > limits.trigger_states:
        found.error((), f"{STATES} ({states}) exceeds max cardinality ({limits.trigger_states})")
    if scopes and source_type == "event" and states > scopes.max_event_states:
        found.error((), f"{STATES} ({states}) exceeds max event states ({scopes.max_event_states})")
    _gain(
        found,
        "information gain",
        information_gain(states, epsilon),
        f"max event-level channel capacity per {source_type} source",
        most,
        note,
    )
    if scopes:
        _gain(
            found,
            "information gain for attribution scope",
            log2(states + scopes.max_event_states * (scopes.limit - 1)),
            f"max event-level attribution scope information gain per {source_type} source",
            most_scoped,
            note,
        )
    if note:
        found.note((), f"{STATES}: {states}")
        found.note((), f"randomized trigger rate: {flip_probability(states, epsilon):.7f}")


def flip_probability(states: int, epsilon: float) -> float:
    """The probability that a report is drawn at random: k-ary randomised response at this epsilon."""
    return states / (states + exp(epsilon) - 1)


@lru_cache(maxsize=256)
def information_gain(states: int, epsilon: float) -> float:
    """The capacity in bits of the channel that randomised response is: q-ary symmetric."""
    wrong = flip_probability(states, epsilon) * (states - 1) / states
    if states == 1 or wrong <= 0 or epsilon <= 0:
        return 0.0
    entropy = -wrong * log2(wrong) - (1 - wrong) * log2(1 - wrong)
    return log2(states) - entropy - wrong * log2(states - 1)


def _gain(found: Findings, what: str, gain: float, limit_name: str, limit: float, note: bool) -> None:
    if gain > limit:
        found.error((), f"{what}: {gain:.2f} exceeds {limit_name} ({limit:.2f})")
    elif note:
        found.note((), f"{what}: {gain:.2f}")
