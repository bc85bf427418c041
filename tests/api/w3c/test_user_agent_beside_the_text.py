"""The user agent beside a slow one that takes the specification's steps one by one, with doubles: the same reports."""

import math
from random import Random
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from attributary.api.w3c import ConversionOptions, ImpressionOptions
from attributary.browsers import UserAgent, UserAgentSettings

DAY = 86_400
SITES = ["a.example", "b.example", "c.example"]
SERVICE = "https://agg-service.example"
SETTINGS = UserAgentSettings(activation_seconds=None, global_budget=2_500_000, impression_site_quota=1_500_000)


class Steps:
    """The algorithms of the text, step by step; chance is always 0.5."""

    def __init__(self) -> None:
        self.store: list[dict[str, Any]] = []
        self.budget: dict[Any, int] = {}
        self.everyone: dict[int, int] = {}
        self.quota: dict[Any, int] = {}
        self.start: float | None = None
        self.last_clear: float | None = None

    def current_epoch(self, t: float) -> int:
        period = 7 * DAY
        if self.start is None:
            self.start = math.floor((t - 0.5 * period) / 3600) * 3600
        return math.floor((t - self.start) / period)

    def starting_epoch(self, now: float) -> int:
        start = self.current_epoch(now - 30 * DAY)
        if self.last_clear is not None:
            clear = self.current_epoch(self.last_clear) + 1
            if clear > start:
                return clear
        return start

    def matching(self, o: dict[str, Any], top: str, by: str | None, epoch: int, now: float) -> list[dict[str, Any]]:
        found = []
        for i in self.store:
            if self.current_epoch(i["time"]) != epoch:
                continue
            if now > i["time"] + i["lifetime"]:
                continue
            if now > i["time"] + o["lookback"]:
                continue
            if i["conversionSites"] and top not in i["conversionSites"]:
                continue
            if i["conversionCallers"] and (by if by is not None else top) not in i["conversionCallers"]:
                continue
            if o["matchValues"] and i["matchValue"] not in o["matchValues"]:
                continue
            if o["impressionSites"] and i["site"] not in o["impressionSites"]:
                continue
            saver = i["intermediary"] if i["intermediary"] is not None else i["site"]
            if o["impressionCallers"] and saver not in o["impressionCallers"]:
                continue
            found.append(i)
        return found

    def histogram(self, found: list[dict[str, Any]], o: dict[str, Any]) -> list[int]:
        ordered = sorted(found, key=lambda i: i["time"], reverse=True)
        ordered = sorted(ordered, key=lambda i: i["priority"], reverse=True)
        n = min(len(o["credit"]), len(ordered))
        parts = self.fairly(o["credit"][:n], o["value"])
        filled = [0] * o["histogramSize"]
        for i, part in zip(ordered[:n], parts, strict=True):
            if i["histogramIndex"] < len(filled):
                filled[i["histogramIndex"]] += part
        return filled

    def fairly(self, credit: list[float], value: int) -> list[int]:
        rounded = [value * item / sum(credit) for item in credit]
        one = 0
        for n in range(1, len(rounded)):
            two = n
            f1, f2 = rounded[one] - math.floor(rounded[one]), rounded[two] - math.floor(rounded[two])
            if f1 == 0 and f2 == 0:
                continue
            i1, i2 = (1 - f1, 1 - f2) if f1 + f2 > 1 else (-f1, -f2)
            if 0.5 < i2 / (i1 + i2):
                step, one, two = i1, two, one
            else:
                step = i2
            rounded[two] += step
            rounded[one] -= step
        return [math.floor(item + 0.5) for item in rounded]

    def deduct(self, epoch: int, top: str, found: list[dict[str, Any]], o: dict[str, Any], l1: int | None) -> bool:
        scale = 2 * o["maxValue"] / o["epsilon"]
        full = math.ceil(2 * o["value"] / scale * 1_000_000)
        own = full if l1 is None else math.ceil(l1 / scale * 1_000_000)
        if own > self.budget.get((epoch, top), SETTINGS.site_budget):
            return False
        if full > self.everyone.get(epoch, SETTINGS.global_budget):
            return False
        for i in found:
            if full > self.quota.get((epoch, i["site"]), SETTINGS.impression_site_quota):
                return False
        self.budget[epoch, top] = self.budget.get((epoch, top), SETTINGS.site_budget) - own
        self.everyone[epoch] = self.everyone.get(epoch, SETTINGS.global_budget) - full
        for site in {i["site"] for i in found}:
            self.quota[epoch, site] = self.quota.get((epoch, site), SETTINGS.impression_site_quota) - full
        return True

    def measure(self, o: dict[str, Any], top: str, by: str | None, now: float) -> list[int]:
        zeros = [0] * o["histogramSize"]
        current, start = self.current_epoch(now), self.starting_epoch(now)
        l1 = None
        if self.current_epoch(now - o["lookback"]) == current:
            found = self.matching(o, top, by, current, now)
            if not found:
                return zeros
            l1 = sum(self.histogram(found, o))
        kept = []
        for epoch in range(start, current + 1):
            found = self.matching(o, top, by, epoch, now)
            if found and self.deduct(epoch, top, found, o, l1):
                kept += found
        return self.histogram(kept, o) if kept else zeros

    def clear_site(self, site: str) -> None:
        for i in list(self.store):
            if (i["intermediary"] is None and i["site"] == site) or i["intermediary"] == site:
                self.store.remove(i)
                continue
            for name in ("conversionSites", "conversionCallers"):
                if site in i[name]:
                    i[name] = [each for each in i[name] if each != site]
                    if not i[name] and i in self.store:
                        self.store.remove(i)

    def clear_history(self, sites: list[str], forget: bool, now: float) -> None:
        if not forget:
            for site in sites:
                start = self.starting_epoch(now)
                for epoch in range(start, self.current_epoch(now) + 1):
                    self.budget[epoch, site] = 0
            return
        if not sites:
            self.store, self.budget, self.everyone, self.quota = [], {}, {}, {}
        else:
            self.store = [i for i in self.store if i["site"] not in sites]
            self.budget = {key: left for key, left in self.budget.items() if key[1] not in sites}
            self.quota = {key: left for key, left in self.quota.items() if key[1] not in sites}
        self.last_clear = now


NAMED = st.lists(st.sampled_from(SITES), max_size=2)
SAVE = st.fixed_dictionaries(
    {
        "histogramIndex": st.integers(0, 4),
        "matchValue": st.integers(0, 1),
        "conversionSites": NAMED,
        "conversionCallers": NAMED,
        "lifetimeDays": st.integers(1, 40),
        "priority": st.integers(-1, 1),
    }
)
MEASURE = st.fixed_dictionaries(
    {
        "histogramSize": st.integers(1, 5),
        "epsilon": st.sampled_from([0.1, 0.25, 0.7, 1.0]),
        "lookbackDays": st.sampled_from([1, 2, 3, 7, 14, 40]),
        "matchValues": st.lists(st.integers(0, 1), max_size=1),
        "impressionSites": NAMED,
        "impressionCallers": NAMED,
        "credit": st.lists(st.sampled_from([1, 2, 3, 0.5]), min_size=1, max_size=3),
        "value": st.integers(1, 5),
        "maxValue": st.integers(5, 8),
    }
)
WHERE = (
    st.sampled_from(SITES),
    st.none() | st.sampled_from(SITES),
    st.sampled_from([0, 1, 3600, DAY, 3 * DAY, 8 * DAY]),
)
EVENTS = st.lists(
    st.one_of(
        *[st.tuples(st.just("save"), SAVE, *WHERE)] * 3,
        *[st.tuples(st.just("measure"), MEASURE, *WHERE)] * 3,
        st.tuples(st.just("clear site"), st.none(), *WHERE),
        st.tuples(st.just("clear history"), st.tuples(NAMED, st.booleans()), *WHERE),
    ),
    max_size=30,
)


class Half(Random):
    def random(self) -> float:
        return 0.5


@given(EVENTS)
def test_any_history_gives_the_reports_and_ledgers_of_the_text(
    events: list[tuple[str, Any, str, str | None, int]],
) -> None:
    agent, steps, now = UserAgent(SETTINGS, Half()), Steps(), 1000 * DAY
    for what, options, site, caller, pause in events:
        now += pause
        by = None if caller == site else caller
        call: dict[str, Any] = {"site": f"www.{site}", "caller": caller or "", "time": now}
        if what == "save":
            agent.save_impression(ImpressionOptions.from_json(options), **call)
            lifetime = min(options["lifetimeDays"], 30) * DAY
            steps.store.append({**options, "time": now, "site": site, "intermediary": by, "lifetime": lifetime})
        elif what == "measure":
            measured = agent.measure_conversion(
                ConversionOptions.from_json({**options, "aggregationService": SERVICE}), **call
            )
            lookback = min(options["lookbackDays"], 30) * DAY
            assert list(measured) == steps.measure({**options, "lookback": lookback}, site, by, now)
        elif what == "clear site":
            agent.clear_impressions(site)
            steps.clear_site(site)
        else:
            sites, forget = options
            if sites or forget:
                agent.clear_history(sites, forget_visits=forget, time=now)
                steps.clear_history(sites, forget, now)
        assert agent.ledgers.site == steps.budget
        assert agent.ledgers.everyone == steps.everyone
        assert agent.ledgers.impression_site == steps.quota
