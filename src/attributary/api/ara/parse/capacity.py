"""Capacity: how much a source's event-level reports could tell, which the API limits."""

from functools import lru_cache
from math import comb, exp, log2

from attributary.api.ara.client.limits import Limits
from attributary.api.ara.parse.event_level import EventReportWindows
from attributary.api.ara.parse.findings import Findings
from attributary.api.ara.parse.scopes import AttributionScopes

STATES = "number of possible output states"
MOST_EPSILON = 500.0  # beyond which nothing is random to any digit, and before which exp overflows


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
        found.exceeds(
            "trigger-state-cardinality", f"{STATES} ({states}) exceeds max cardinality ({limits.trigger_states})"
        )
    if scopes and source_type == "event" and states > scopes.max_event_states:
        found.exceeds("max-event-states", f"{STATES} ({states}) exceeds max event states ({scopes.max_event_states})")
    _gain(
        found,
        "channel-capacity",
        "information gain",
        information_gain(states, epsilon),
        f"max event-level channel capacity per {source_type} source",
        most,
        note,
    )
    if scopes:
        _gain(
            found,
            "scopes-channel-capacity",
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
    return states / (states - 1 + exp(min(epsilon, MOST_EPSILON)))


@lru_cache(maxsize=256)
def information_gain(states: int, epsilon: float) -> float:
    """The capacity in bits of the channel that randomised response is: q-ary symmetric."""
    if states == 1 or epsilon <= 0:
        return 0.0
    odds = exp(min(epsilon, MOST_EPSILON))  # of the true state against one other; both parts stay above 0
    right, wrong = odds / (states - 1 + odds), (states - 1) / (states - 1 + odds)
    entropy = -wrong * log2(wrong) - right * log2(right)
    return log2(states) - entropy - wrong * log2(states - 1)


def _gain(found: Findings, name: str, what: str, gain: float, limit_name: str, limit: float, note: bool) -> None:
    if gain > limit:
        found.exceeds(name, f"{what}: {gain:.2f} exceeds {limit_name} ({limit:.2f})")
    elif note:
        found.note((), f"{what}: {gain:.2f}")
