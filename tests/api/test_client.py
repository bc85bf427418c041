"""The client: attribution, limits and reports; against a slow and plain one, then case by case."""

import inspect
import json
import random
import re
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attributary.api.ara.parse.both_headers import SOURCE_TYPES, TRIGGER_TYPES, BrowserLimits
from attributary.api.ara.wire import encryption, payload
from attributary.api.ara.wire.aggregatable_report import from_json, to_json
from attributary.api.ara.wire.payload import Contribution
from attributary.browsers import Attribution, report
from attributary.browsers.ara_client import Client, SourceResult, TriggerResult, attribute
from attributary.browsers.ara_storage import Distinct
from attributary.errors import InputError

PUBLISHER, SHOP, ADTECH = "https://publisher.test", "https://shop.test", "https://adtech.test"
DAY = 86_400_000
QUIET: dict[str, Any] = {"null_rate": 0, "null_rate_per_day": 0, "delay_span": 0}


def client(**limits: Any) -> Client:
    return Client(BrowserLimits(**{**QUIET, **limits}), random.Random(1))


def source(on: Client, time: int = 0, page: str = PUBLISHER, reporter: str = ADTECH, **header: Any) -> SourceResult:
    options = {name: header.pop(name) for name in ("source_type", "debug") if name in header}
    header = {"destination": SHOP, "aggregation_keys": {"a": "0x1"}, **header}
    return on.source(json.dumps(header), page=page, reporter=reporter, time=time, **options)


def trigger(on: Client, time: int = 1, page: str = SHOP, reporter: str = ADTECH, **header: Any) -> TriggerResult:
    options = {name: header.pop(name) for name in ("debug",) if name in header}
    header = {"aggregatable_values": {"a": 1}, **header}
    return on.trigger(json.dumps(header), page=page, reporter=reporter, time=time, **options)


@dataclass
class Slow:
    """Attribution in its plainest form: a list of sources, searched each time."""

    sources: list[dict[str, Any]] = field(default_factory=list)

    def source(self, time: int, destination: list[str], reporter: str, priority: int, expiry: int, key: int) -> None:
        self.sources.append(
            {"time": time, "destination": destination, "reporter": reporter, "priority": priority, "key": key}
            | {"expires": time + 1000 * expiry, "budget": 65_536, "once": set(), "reports": 0, "gone": False}
        )

    def trigger(self, time: int, page: str, reporter: str, value: int, once: str | None) -> tuple[str, int | None]:
        there = [
            one
            for one in self.sources
            if not one["gone"] and page in one["destination"] and one["reporter"] == reporter and time < one["expires"]
        ]
        if not there:
            return "trigger-no-matching-source", None
        best = max(enumerate(there), key=lambda at: (at[1]["priority"], at[1]["time"], at[0]))[1]
        for other in there:
            other["gone"] |= other is not best
        if once in best["once"]:
            return "trigger-aggregate-deduplicated", None
        if best["reports"] >= 3:
            return "trigger-aggregate-excessive-reports", None
        if value > best["budget"]:
            return "trigger-aggregate-insufficient-budget", None
        best["budget"] -= value
        best["reports"] += 1
        best["once"] |= {once} - {None}
        return "success", best["key"]


SHOPS = st.sampled_from([SHOP, "https://other.test", "https://third.test"])
ADTECHS = st.sampled_from([ADTECH, "https://rival.test"])
GAPS = st.sampled_from([0, 1, 1000, DAY // 2, DAY])
IMPRESSIONS = st.tuples(
    st.lists(SHOPS, min_size=1, max_size=3, unique=True),
    ADTECHS,
    st.integers(-1, 1),
    st.sampled_from([86_400, 172_800]),
)
CONVERSIONS = st.tuples(
    SHOPS, ADTECHS, st.sampled_from([1, 21_845, 40_000, 65_536]), st.sampled_from([None, None, "1", "2"])
)


@settings(deadline=None)
@given(st.lists(st.tuples(GAPS, IMPRESSIONS | CONVERSIONS), max_size=30))
def test_the_client_attributes_as_a_slow_one_does(events: list[tuple[int, tuple[Any, ...]]]) -> None:
    fast, slow, time = client(reports_per_source=3), Slow(), 0
    for number, (gap, event) in enumerate(events, 1):
        time += gap
        if isinstance(event[0], list):
            destination, reporter, priority, expiry = event
            slow.source(time, destination, reporter, priority, expiry, number)
            header = {"priority": str(priority), "expiry": expiry, "aggregation_keys": {"a": hex(number)}}
            assert source(fast, time, reporter=reporter, destination=destination, **header).outcome == "source-success"
        else:
            page, reporter, value, once = event
            header = {} if once is None else {"aggregatable_deduplication_keys": [{"deduplication_key": once}]}
            made = trigger(fast, time, page, reporter, aggregatable_values={"a": value}, **header)
            key = made.attributions[0].contributions[0].key if made.attributions else None
            assert (made.outcome, key) == slow.trigger(time, page, reporter, value, once)


@dataclass
class Tables:
    """The limits as a browser has them: tables of all that ever was, read from end to end each time."""

    limits: BrowserLimits
    sources: list[dict[str, Any]] = field(default_factory=list)
    records: list[dict[str, Any]] = field(default_factory=list)  # one for each source or attribution, and destination
    reports: list[dict[str, Any]] = field(default_factory=list)
    made: int = 0

    def source(  # noqa: PLR0911, one for each limit
        self, time: int, origin: str, destinations: list[str], reporter: str, priority: int
    ) -> str:
        site, reporting_site = SITE_OF[origin], SITE_OF[reporter]
        of_site = [one for one in self.records if one["scope"] == "source" and one["site"] == site]
        of_both = [one for one in of_site if one["reporting_site"] == reporting_site]
        limits = self.limits

        def distinct(records: list[dict[str, Any]], column: str, seconds: int, new: list[str]) -> int:
            return len({one[column] for one in records if one["time"] > time - 1000 * seconds} | set(new))

        alive = [one for one in self.sources if one["alive"] and one["expires"] > time and one["origin"] == origin]
        if len(alive) >= limits.sources_per_origin:
            return "source-storage-limit"
        if distinct(of_both, "reporter", limits.reporters_window, [reporter]) > limits.reporters_per_site:
            return "source-reporting-origin-per-site-limit"
        of_window = distinct(of_both, "destination", limits.destination_window, destinations)
        if of_window > limits.destinations_per_window_and_reporter:
            return "source-destination-rate-limit"
        if distinct(of_both, "destination", 86_400, destinations) > limits.destinations_per_day:
            return "source-destination-per-day-rate-limit"
        new = [{"destination": one, "time": time, "priority": priority, "source": -1} for one in destinations]
        rows = [*new, *(one for one in of_both if one["expires"] > time and not one["off"])]
        kept: list[str] = []
        for row in sorted(rows, key=lambda row: (row["priority"], row["time"], row["destination"]), reverse=True):
            if len(kept) < limits.destinations and row["destination"] not in kept:
                kept.append(row["destination"])
        off = {row["source"] for row in rows if row["destination"] not in kept}
        if -1 in off:
            return "source-destination-limit"
        for number in off:
            self.sources[number]["alive"] = False
            gone = [one for one in self.reports if one["source"] == number and one["due"] > time]
            self.reports = [one for one in self.reports if one not in gone]
            self.records = [one for one in self.records if one.get("report") not in {one["report"] for one in gone}]
            for record in self.records:
                record["off"] |= record["source"] == number
        if distinct(of_site, "destination", limits.destination_window, destinations) > limits.destinations_per_window:
            return "source-destination-global-rate-limit"
        for one in destinations:
            there = [record for record in of_site if record["destination"] == one]
            if distinct(there, "reporter", limits.rate_window, [reporter]) > limits.source_reporters:
                return "source-reporting-origin-limit"
        number = len(self.sources)
        row = {"site": site, "reporter": reporter, "reporting_site": reporting_site, "time": time, "source": number}
        row |= {"expires": time + DAY, "off": False, "priority": priority}
        self.sources.append({**row, "origin": origin, "destinations": destinations, "alive": True})
        self.records += [{**row, "scope": "source", "destination": one} for one in destinations]
        return "source-success"

    def trigger(self, time: int, page: str, reporter: str, due: int) -> str:
        there = [
            one
            for one in self.sources
            if one["alive"] and one["expires"] > time and page in one["destinations"] and one["reporter"] == reporter
        ]
        if not there:
            return "trigger-no-matching-source"
        best = max(there, key=lambda one: one["source"])
        for one in there:
            one["alive"] = one is best
        if (
            sum(one["due"] > time and one["page"] == page for one in self.reports)
            >= self.limits.reports_per_destination
        ):
            return "trigger-aggregate-storage-limit"
        recent = [
            one
            for one in self.records
            if (one["scope"], one["site"], one["destination"]) == ("attribution", best["site"], page)
            and one["time"] > time - 1000 * self.limits.rate_window
        ]
        if sum(one["reporting_site"] == best["reporting_site"] for one in recent) >= self.limits.attributions:
            return "trigger-aggregate-attributions-per-source-destination-limit"
        if len({one["reporter"] for one in recent} | {reporter}) > self.limits.attribution_reporters:
            return "trigger-reporting-origin-limit"
        self.made += 1
        self.reports.append({"source": best["source"], "due": due, "page": page, "report": self.made})
        columns = ("site", "reporter", "reporting_site", "time", "source", "expires", "off", "priority")
        shared = {name: best[name] for name in columns}
        self.records.append({**shared, "scope": "attribution", "destination": page, "report": self.made})
        return "success"


PAGES = ["https://news.test", "https://www.news.test", "https://blog.test"]
SERVERS = ["https://ads.test", "https://eu.ads.test", "https://rival.test"]
SITE_OF = {one: one.replace("www.", "").replace("eu.", "") for one in (*PAGES, *SERVERS)}
STORES = [SHOP, "https://other.test", "https://third.test", "https://fourth.test"]
NUMBERS = [
    *("sources_per_origin", "reporters_per_site", "destinations_per_window_and_reporter", "source_reporters"),
    *("destinations_per_day", "destinations", "destinations_per_window", "attribution_reporters"),
    *("attributions", "reports_per_destination"),
]


@pytest.mark.parametrize("seed", range(200))
def test_limits_hold_as_in_tables_that_are_read_from_end_to_end(seed: int) -> None:
    draw, wait, time = random.Random(seed), 45, 0
    tight = draw.sample(NUMBERS, draw.choice([1, 2, 2, 3]))
    limits = {name: draw.choice([1, 2, 3]) if name in tight else 99 for name in NUMBERS}
    limits |= {"rate_window": 43_200, "minimum_delay": wait, "reports_per_source": 999}
    fast, slow = client(**limits), Tables(BrowserLimits(**{**QUIET, **limits}))
    for _ in range(120):
        time += draw.choice([0, 0, 1, 1000, 30_000, 60_000, DAY // 8, DAY // 2])
        reporter = draw.choice(SERVERS)
        if draw.random() < 0.5:
            page, priority = draw.choice(PAGES), draw.choice([-1, 0, 0, 1])
            destination = draw.sample(STORES, draw.choice([1, 1, 2, 3]))
            header = {"destination": destination, "expiry": 86_400, "destination_limit_priority": str(priority)}
            outcome = source(fast, time, page, reporter, **header).outcome
            assert outcome == slow.source(time, page, destination, reporter, priority)
        else:
            page = draw.choice(STORES)
            outcome = trigger(fast, time, page, reporter).outcome
            assert outcome == slow.trigger(time, page, reporter, time + 1000 * wait)
    assert len(fast.sent()) == len(slow.reports)


HEX = st.integers(0, 2**128 - 1)
NAMES = st.sampled_from(["a", "b", "c", "d"])


@settings(deadline=None)
@given(
    st.dictionaries(NAMES, HEX, min_size=1),
    st.lists(st.tuples(st.lists(NAMES, unique=True), HEX)),
    st.dictionaries(NAMES, st.integers(1, 9000)),
)
def test_each_key_with_a_value_gets_its_pieces_by_or(
    keys: dict[str, int], data: list[tuple[list[str], int]], values: dict[str, int]
) -> None:
    expected = []
    for name, key in sorted(keys.items()):
        for names, piece in data:
            key |= piece if name in names else 0
        if name in values:
            expected.append(Contribution(key, values[name]))
    on = client()
    source(on, aggregation_keys={name: hex(key) for name, key in keys.items()})
    pieces = [{"source_keys": names, "key_piece": hex(piece)} for names, piece in data]
    made = trigger(on, aggregatable_trigger_data=pieces, aggregatable_values=values)
    assert [c for one in made.attributions for c in one.contributions] == expected
    nothing = "trigger-aggregate-no-contributions" if pieces or values else "not-registered"
    assert made.outcome == ("success" if expected else nothing)


def test_a_source_expires_to_the_millisecond() -> None:
    for time, outcome in [(DAY - 1, "success"), (DAY, "trigger-no-matching-source")]:
        on = client()
        source(on, expiry=86_400)
        assert trigger(on, time).outcome == outcome


def test_a_report_window_passes_before_the_source_expires() -> None:
    on = client()
    source(on, aggregatable_report_window=3600)
    assert trigger(on, 3_599_999).outcome == "success"
    assert trigger(on, 3_600_000).outcome == "trigger-aggregate-report-window-passed"


def test_a_report_over_budget_is_dropped_whole_and_spends_nothing() -> None:
    on = client()
    source(on, aggregation_keys={"a": "0x1", "b": "0x2"})
    over = trigger(on, aggregatable_values={"a": 65_536, "b": 1})
    assert (over.outcome, over.attributions) == ("trigger-aggregate-insufficient-budget", ())
    assert trigger(on, aggregatable_values={"a": 65_535, "b": 1}).outcome == "success"
    assert trigger(on).outcome == "trigger-aggregate-insufficient-budget"


def test_what_is_set_aside_for_debug_reports_is_not_for_others() -> None:
    on = client()
    source(on, aggregatable_debug_reporting={"budget": 1024, "key_piece": "0x1"})
    assert trigger(on, aggregatable_values={"a": 64_513}).outcome == "trigger-aggregate-insufficient-budget"
    assert trigger(on, aggregatable_values={"a": 64_512}).outcome == "success"


def test_a_named_budget_is_a_part_of_the_budget() -> None:
    on = client()
    source(on, named_budgets={"x": 10, "": 1})
    over = "trigger-aggregate-insufficient-named-budget"
    for value, name, outcome in [
        (11, "x", over),
        (10, "x", "success"),
        (1, "x", over),
        (20, None, "success"),
        (20, "y", "success"),
        (65_487, "y", "trigger-aggregate-insufficient-budget"),
        (65_486, "y", "success"),
    ]:
        budget = [] if name is None else [{"name": name}]
        assert trigger(on, aggregatable_values={"a": value}, named_budgets=budget).outcome == outcome


def test_shops_that_share_a_host_by_the_public_suffix_list_are_apart() -> None:
    on = client()
    source(on, destination="https://a.myshopify.com")
    assert trigger(on, page="https://b.myshopify.com/cart").outcome == "trigger-no-matching-source"
    (made,) = trigger(on, page="https://checkout.a.myshopify.com").attributions
    assert made.destination == "https://a.myshopify.com"


def test_sources_that_a_trigger_passed_over_are_forgotten_everywhere() -> None:
    on = client()
    other = "https://other.test"
    source(on, destination=[SHOP, other], aggregation_keys={"a": "0x10"})
    source(on, 1, reporter="https://rival.test", aggregation_keys={"a": "0x20"})
    source(on, 2, expiry=86_400, aggregation_keys={"a": "0x40"})
    (made,) = trigger(on, 3).attributions
    assert made.contributions[0].key == 0x40
    assert trigger(on, 3, other).outcome == "trigger-no-matching-source"
    assert trigger(on, 3, reporter="https://rival.test").outcome == "success"
    assert trigger(on, 3).outcome == "success"
    assert trigger(on, 2 + DAY).outcome == "trigger-no-matching-source"


LOST = [  # triggers without an aggregatable report, and what becomes of them
    ({"aggregatable_values": {"b": 1}}, "trigger-aggregate-no-contributions"),
    ({"aggregatable_values": {"a": 65_536, "c": 1}}, "trigger-aggregate-insufficient-budget"),
    ({"aggregatable_values": {}, "event_trigger_data": [{"filters": {"x": ["2"]}}]}, "not-registered"),
    ({"aggregatable_values": {}, "event_trigger_data": [{}]}, "not-registered"),
]
KEPT = [
    ({"filters": {"x": ["2"]}}, "trigger-no-matching-filter-data"),
    ({"aggregatable_values": {}}, "not-registered"),
    (
        {"aggregatable_values": {}, "event_trigger_data": [{}], "not_filters": {"x": ["1"]}},
        "trigger-no-matching-filter-data",
    ),
]


@pytest.mark.parametrize(
    ("header", "outcome", "gone"), [*((*one, True) for one in LOST), *((*one, False) for one in KEPT)]
)
def test_sources_that_lose_are_gone_once_the_filters_of_the_trigger_match(
    header: dict[str, Any], outcome: str, gone: bool
) -> None:
    on = client()
    source(on, filter_data={"x": ["1"]}, aggregation_keys={"a": "0x10"})
    source(on, 1, expiry=86_400, filter_data={"x": ["1"]}, aggregation_keys={"a": "0x20", "c": "0x40"})
    assert trigger(on, 2, **header).outcome == outcome
    after = trigger(on, 1 + DAY)  # the second source has expired
    assert after.outcome == ("trigger-no-matching-source" if gone else "success")


def test_a_source_has_twenty_reports() -> None:
    on = client()
    source(on)
    assert Counter(trigger(on).outcome for _ in range(22)) == {"success": 20, "trigger-aggregate-excessive-reports": 2}


def test_triggers_with_a_context_id_have_a_report_each() -> None:
    on = client()
    source(on)
    outcomes = Counter(trigger(on, trigger_context_id=str(i)).outcome for i in range(25))
    assert outcomes == {"success": 25}
    assert trigger(on).outcome == "trigger-aggregate-excessive-reports"
    assert trigger(on, aggregatable_values={"a": 65_536}, trigger_context_id="x").outcome.endswith(
        "insufficient-budget"
    )


def test_contributions_come_in_the_order_of_their_keys_names() -> None:
    on = client()
    keys = {"b": "0x1", "a": "0x2", "é": "0x3", "Z": "0x4", "10": "0x5", "9": "0x6"}
    source(on, aggregation_keys=keys)
    (made,) = trigger(on, aggregatable_values=dict.fromkeys(keys, 1)).attributions
    assert [c.key for c in made.contributions] == [5, 6, 4, 2, 1, 3]  # 10, 9, Z, a, b, é


def test_a_deduplication_key_counts_once_and_only_when_its_filters_match() -> None:
    on = client()
    source(on, filter_data={"x": ["1"]})
    once = {"deduplication_key": "9", "filters": {"x": ["1"]}}
    other = {"deduplication_key": "9", "filters": {"x": ["2"]}}
    assert trigger(on, aggregatable_deduplication_keys=[other]).outcome == "success"
    assert trigger(on, aggregatable_deduplication_keys=[other, once]).outcome == "success"
    assert trigger(on, aggregatable_deduplication_keys=[once]).outcome == "trigger-aggregate-deduplicated"


def test_a_dropped_report_does_not_use_up_its_deduplication_key() -> None:
    on = client()
    source(on)
    key = {"aggregatable_deduplication_keys": [{"deduplication_key": "1"}]}
    assert trigger(on, aggregatable_values={"b": 1}, **key).outcome == "trigger-aggregate-no-contributions"
    assert trigger(on, **key).outcome == "success"


def test_filters_choose_among_triggers_data_and_values() -> None:
    on = client()
    source(on, source_type="event", filter_data={"class": ["2"]}, expiry=DAY // 1000)
    assert trigger(on, filters={"source_type": ["navigation"]}).outcome == "trigger-no-matching-filter-data"
    assert trigger(on, 5001, filters={"_lookback_window": 5}).outcome == "trigger-no-matching-filter-data"
    pieces = [
        {"source_keys": ["a"], "key_piece": "0x10", "filters": {"class": ["1"]}},
        {"source_keys": ["a"], "key_piece": "0x20", "not_filters": {"class": ["1"]}},
        {"source_keys": ["a"], "key_piece": "0x40", "filters": {"_lookback_window": 6}},
    ]
    values = [
        {"values": {"a": 100}, "filters": {"class": ["1"]}},
        {"values": {"a": 200}, "filters": {"class": ["2"]}},
        {"values": {"a": 300}},
    ]
    made = trigger(on, 5500, aggregatable_trigger_data=pieces, aggregatable_values=values)
    assert made.attributions[0].contributions == (Contribution(0x61, 200),)
    made = trigger(on, 6001, aggregatable_trigger_data=pieces, aggregatable_values=values)
    assert made.attributions[0].contributions == (Contribution(0x21, 200),)


def test_only_the_best_source_is_looked_at_even_where_its_filters_do_not_match() -> None:
    on = client()
    source(on, filter_data={"x": ["1"]}, aggregation_keys={"a": "0x10"})
    source(on, 1, filter_data={"x": ["2"]}, aggregation_keys={"a": "0x20"})
    assert trigger(on, filters={"x": ["1"]}).outcome == "trigger-no-matching-filter-data"
    (made,) = trigger(on, filters={"x": ["2"]}).attributions
    assert made.contributions[0].key == 0x20


def test_a_report_says_only_what_it_should() -> None:
    on = client(minimum_delay=60)
    source(on, DAY + 5, debug_key="1", debug=True)
    (plain,) = trigger(on, DAY + 1999).attributions
    (told,) = trigger(on, DAY + 1999, aggregatable_source_registration_time="include").attributions
    info = {"api": "attribution-reporting", "attribution_destination": SHOP, "report_id": plain.report_id}
    info |= {"reporting_origin": ADTECH, "scheduled_report_time": "86461", "version": "1.0"}
    assert report(plain).shared_info == json.dumps(info, separators=(",", ":"))
    assert json.loads(report(told).shared_info)["source_registration_time"] == "86400"
    assert "source_debug_key" not in report(plain).others
    assert plain.url == "https://adtech.test/.well-known/attribution-reporting/report-aggregate-attribution"


@pytest.mark.parametrize(("of_source", "of_trigger"), [(True, True), (True, False), (False, True)])
def test_debug_keys_are_told_where_both_sides_may(of_source: bool, of_trigger: bool) -> None:
    on = client()
    source(on, debug_key="1", debug=of_source)
    (made,) = trigger(on, debug_key="2", debug=of_trigger).attributions
    sent = json.loads(to_json(report(made)))
    both = of_source and of_trigger
    assert (sent.get("source_debug_key"), sent.get("trigger_debug_key")) == (("1", "2") if both else (None, None))
    assert ("debug_cleartext_payload" in sent["aggregation_service_payloads"][0]) == both
    assert ('"debug_mode":"enabled"' in sent["shared_info"]) == both


def test_a_report_is_padded_and_decrypts() -> None:
    secret = bytes(range(32))
    on = client()
    source(on)
    values = {"a": {"value": 7, "filtering_id": "300"}}
    (made,) = trigger(on, aggregatable_values=values, aggregatable_filtering_id_max_bytes=2).attributions
    sent = from_json(to_json(report(made, encryption.public_key(secret), "key 1")))
    clear = encryption.decrypt(sent.payload, sent.shared_info, secret)
    assert payload.decode(clear) == [Contribution(1, 7, 300)] + [Contribution(0, 0)] * 19
    assert (sent.key_id, sent.debug_cleartext_payload) == ("key 1", None)


def test_reports_leave_when_they_are_due() -> None:
    on = client(minimum_delay=10)
    source(on)
    first, second = (trigger(on, time).attributions[0] for time in (5, 2005))
    assert on.sent(10_004) == []
    assert on.sent(10_005) == [first]
    assert on.sent() == [second]
    assert on.sent() == []


@settings(deadline=None)
@given(st.integers(0, 2**32))
def test_a_report_comes_within_the_delay_and_the_same_chance_gives_the_same_report(seed: int) -> None:
    def once() -> Attribution:
        on = Client(BrowserLimits(minimum_delay=60, null_rate=0), random.Random(seed))
        source(on)
        return trigger(on).attributions[0]

    assert once() == once()
    assert 60_001 <= once().due <= 660_001


def test_a_trigger_with_a_context_gets_its_report_at_once_real_or_null() -> None:
    on = client(minimum_delay=600)
    source(on)
    context = {"trigger_context_id": "c"}
    (real,) = trigger(on, 7, **context).attributions
    (null,) = trigger(on, 7, "https://nowhere.test", **context).attributions
    assert (real.due, real.is_null, null.due, null.is_null) == (7, False, 7, True)
    assert report(null).others["trigger_context_id"] == "c"
    assert payload.decode(report(null).payload) == [Contribution(0, 0)] * 20
    assert len(report(null).payload) == len(report(real).payload)


def test_null_reports_come_at_their_rate() -> None:
    on = Client(BrowserLimits(), random.Random(2))
    missing = sum(len(trigger(on, time, "https://nowhere.test").attributions) for time in range(4000))
    assert 150 <= missing <= 250  # 5 %: 200 ± 14
    include = {"aggregatable_source_registration_time": "include"}
    days = Counter(
        made.source_registration_time
        for time in range(31 * DAY, 31 * DAY + 4000)
        for made in trigger(on, time, "https://nowhere.test", **include).attributions
    )
    assert set(days) == {86_400 * day for day in range(1, 32)}
    assert 880 <= sum(days.values()) <= 1110  # 0.8 % on each of 31 days: 992 ± 31


def test_a_real_report_has_no_null_one_for_its_day_or_none_at_all() -> None:
    on = client(null_rate=1, null_rate_per_day=1)
    source(on, 40 * DAY)
    assert [made.is_null for made in trigger(on, 40 * DAY).attributions] == [False]
    told = trigger(on, 40 * DAY, aggregatable_source_registration_time="include").attributions
    assert [made.is_null for made in told] == [False] + [True] * 30
    assert len({made.source_registration_time for made in told}) == 31


def test_a_trigger_that_asks_for_nothing_gets_nothing() -> None:
    on = client(null_rate=1)
    source(on)
    asked = trigger(on, aggregatable_values={})
    assert (asked.outcome, asked.attributions) == ("not-registered", ())


def test_registrations_that_are_wrong_are_told() -> None:
    on = client()
    wrong = source(on, destination=[])
    assert wrong.outcome == "header-parsing-error"
    assert str(wrong.parsed.errors[0]) == "destination: length must be in the range [1, 3]; got 0"
    assert trigger(on, aggregatable_values={"a": 0}).outcome == "header-parsing-error"


def test_an_origin_has_so_many_sources_until_they_expire() -> None:
    on = client(sources_per_origin=2)
    outcomes = [source(on, time, expiry=86_400).outcome for time in (0, 1, 2, DAY - 1, DAY, DAY)]
    full = "source-storage-limit"
    assert outcomes == ["source-success", "source-success", full, full, "source-success", full]
    assert source(on, DAY, "https://elsewhere.test").outcome == "source-success"


def test_a_destination_has_so_many_reports_waiting() -> None:
    on = client(reports_per_destination=1, minimum_delay=60)
    source(on)
    assert [trigger(on, time).outcome for time in (1, 2, 60_000, 60_001)] == [
        "success",
        "trigger-aggregate-storage-limit",
        "trigger-aggregate-storage-limit",
        "success",
    ]


def test_attributions_are_limited_by_site_within_a_window() -> None:
    on = client(attributions=1, rate_window=86_400)
    source(on, expiry=30 * 86_400)
    assert trigger(on, 5).outcome == "success"
    assert trigger(on, DAY - 1).outcome == "trigger-aggregate-attributions-per-source-destination-limit"
    assert trigger(on, DAY).outcome == "success"


def test_reporting_origins_are_limited_within_a_window() -> None:
    others = [f"https://r{i}.test" for i in range(3)]
    on = client(source_reporters=3, rate_window=60)
    assert [source(on, 0, reporter=one).outcome for one in others] == ["source-success"] * 3
    limit = "source-reporting-origin-limit"
    assert [source(on, time, reporter=ADTECH).outcome for time in (59_999, 60_000)] == [limit, "source-success"]
    on = client(attribution_reporters=2)
    for one in others:
        source(on, reporter=one)
    outcomes = [trigger(on, reporter=one).outcome for one in others]
    assert outcomes == ["success", "success", "trigger-reporting-origin-limit"]


def test_reporting_origins_are_counted_by_the_time_of_their_sources() -> None:
    on = client(attribution_reporters=1, rate_window=86_400)
    source(on)
    source(on, 5, reporter="https://rival.test")
    assert trigger(on, DAY - 1).outcome == "success"
    limit = "trigger-reporting-origin-limit"
    assert trigger(on, DAY - 1, reporter="https://rival.test").outcome == limit
    assert trigger(on, DAY, reporter="https://rival.test").outcome == "success"
    assert trigger(on, DAY).outcome == limit, "the rival's source is in the window still"
    assert trigger(on, DAY + 5).outcome == "success"


def test_event_level_reports_count_for_the_reporting_origins() -> None:
    on = client(attribution_reporters=1)
    event = {
        "aggregatable_values": {},
        "event_trigger_data": [{"trigger_data": "1", "filters": {"source_type": ["event"]}}],
    }
    source(on)
    source(on, reporter="https://rival.test", source_type="event")
    assert trigger(on, **event).outcome == "not-registered"  # no report, as the click is no view
    assert trigger(on, 2, reporter="https://rival.test", **event).outcome == "not-registered"  # a report
    assert trigger(on, 3).outcome == "trigger-reporting-origin-limit"
    assert trigger(on, 3, event_trigger_data=[{}], aggregatable_values={"b": 1}).outcome.endswith("no-contributions")
    assert trigger(on, 3, reporter="https://rival.test").outcome == "success"


@pytest.mark.parametrize(
    ("header", "datum", "age"),
    [
        ({"max_event_level_reports": 0}, {}, 1),
        ({"trigger_data": [], "max_event_level_reports": 0}, {}, 1),
        ({"trigger_data": [0, 1], "trigger_data_matching": "exact"}, {"trigger_data": "2"}, 1),
        ({"event_report_window": 3600}, {}, 3_600_000),
        ({"event_report_windows": {"start_time": 60, "end_times": [3600]}}, {}, 59_999),
    ],
)
def test_what_gives_no_event_level_report_counts_for_no_reporting_origin(
    header: dict[str, Any], datum: dict[str, str], age: int
) -> None:
    on = client(attribution_reporters=1)
    source(on, **header)
    source(on, reporter="https://rival.test")
    trigger(on, age, aggregatable_values={}, event_trigger_data=[datum])
    assert trigger(on, age, reporter="https://rival.test").outcome == "success"


def test_an_event_level_report_of_each_destination_needs_room() -> None:
    """A click has three at most; a fourth takes the place of one of lower priority in the same window."""
    on = client(attribution_reporters=1)
    source(on, destination=[SHOP, "https://other.test", "https://third.test"])
    source(
        on, 0, "https://publisher.test", "https://rival.test", destination=["https://other.test", "https://third.test"]
    )
    event: dict[str, Any] = {"aggregatable_values": {}}
    for i in range(4):  # the last two are one, by their deduplication key
        trigger(on, i, **event, event_trigger_data=[{"priority": "5", "deduplication_key": str(min(i, 2))}])
    trigger(on, 5, "https://other.test", **event, event_trigger_data=[{"priority": "5"}])
    trigger(on, 5, "https://third.test", **event, event_trigger_data=[{"priority": "6"}])
    assert trigger(on, 6, "https://other.test", "https://rival.test").outcome == "success"
    assert trigger(on, 6, "https://third.test", "https://rival.test").outcome == "trigger-reporting-origin-limit"


def test_reports_that_went_with_their_source_leave_room_for_another_reporting_origin() -> None:
    on = client(destinations=1, attribution_reporters=1, minimum_delay=3600)
    source(on)
    assert trigger(on, 1).outcome == "success"
    source(on, 2, destination="https://other.test")
    source(on, 3, reporter="https://rival.test")
    assert trigger(on, 4, reporter="https://rival.test").outcome == "success"


def test_one_reporting_origin_of_a_site_in_a_day() -> None:
    on = client()
    assert source(on, reporter="https://a.adtech.test").outcome == "source-success"
    limit = "source-reporting-origin-per-site-limit"
    assert [source(on, time, reporter="https://b.adtech.test").outcome for time in (DAY - 1, DAY)] == [
        limit,
        "source-success",
    ]


@pytest.mark.parametrize(
    ("limits", "outcome"),
    [
        ({"destinations_per_window": 2}, "source-destination-global-rate-limit"),
        ({"destinations_per_window_and_reporter": 2}, "source-destination-rate-limit"),
        ({"destinations_per_day": 2, "destination_window": 1}, "source-destination-per-day-rate-limit"),
    ],
)
def test_destinations_are_limited_within_a_window(limits: dict[str, int], outcome: str) -> None:
    on = client(**limits)
    shops = [f"https://s{i}.test" for i in (0, 1, 0, 2)]
    assert [source(on, 0, destination=one).outcome for one in shops] == ["source-success"] * 3 + [outcome]
    assert source(on, DAY, destination=shops[3]).outcome == "source-success"


def test_the_oldest_destination_makes_room_and_its_waiting_reports_go() -> None:
    on = client(destinations=2, minimum_delay=60)
    for time, shop in enumerate(["https://one.test", "https://two.test"]):
        source(on, time, destination=shop)
    assert trigger(on, 2, "https://one.test").outcome == "success"
    source(on, 3, destination="https://three.test")
    assert trigger(on, 4, "https://one.test").outcome == "trigger-no-matching-source"
    assert trigger(on, 4, "https://two.test").outcome == "success"
    assert [made.destination for made in on.sent()] == ["https://two.test"]


def test_reports_that_went_with_their_source_count_no_more() -> None:
    on = client(destinations=1, attributions=1, reports_per_destination=1, minimum_delay=3600)
    source(on)
    assert trigger(on, 1).outcome == "success"
    source(on, 2, destination="https://other.test")
    source(on, 3)
    assert trigger(on, 4).outcome == "success"
    assert [made.due for made in on.sent()] == [3_600_004]


def test_a_destination_of_low_priority_finds_no_room() -> None:
    on = client(destinations=1)
    source(on, destination_limit_priority="1")
    assert source(on, 1, destination="https://other.test").outcome == "source-destination-limit"
    assert trigger(on, 2).outcome == "success"


def test_destinations_of_sources_that_lost_count_until_these_expire() -> None:
    on = client(destinations=2)
    source(on, destination=[SHOP, "https://other.test"], expiry=86_400)
    source(on, 1, expiry=2 * 86_400)
    assert trigger(on, 2).outcome == "success"  # and the first source is gone
    late = {"destination": "https://third.test", "destination_limit_priority": "-1"}
    assert source(on, DAY - 1, **late).outcome == "source-destination-limit"
    assert source(on, DAY, **late).outcome == "source-success"


ORDERED = {  # the limits that a second source meets, in their order
    "sources_per_origin": "source-storage-limit",
    "reporters_per_site": "source-reporting-origin-per-site-limit",
    "destinations_per_window_and_reporter": "source-destination-rate-limit",
    "destinations_per_day": "source-destination-per-day-rate-limit",
    "destinations": "source-destination-limit",
    "destinations_per_window": "source-destination-global-rate-limit",
    "source_reporters": "source-reporting-origin-limit",
}


@pytest.mark.parametrize("first", range(len(ORDERED) + 1))
def test_the_limits_of_sources_are_checked_in_the_order_of_the_specification(first: int) -> None:
    names = list(ORDERED)
    on = client(**{name: 1 if i >= first else 100 for i, name in enumerate(names)})
    source(on, destination="https://one.test")
    header = {"destination": ["https://one.test", "https://two.test"], "destination_limit_priority": "-1"}
    met = source(on, 1, reporter="https://b.adtech.test", **header).outcome
    assert met == [*ORDERED.values(), "source-success"][first]


@pytest.mark.parametrize("shared", ["destinations_per_window", "source_reporters"])
def test_limits_shared_with_others_do_not_show_in_what_the_destination_limit_removes(shared: str) -> None:
    on = client(**{"destinations": 1, "reporters_per_site": 9, shared: 1})
    source(on)
    source(on, 0, reporter="https://rival.test", destination="https://two.test")
    refused = source(on, 1, reporter="https://b.adtech.test", destination="https://two.test")
    assert refused.outcome in list(ORDERED.values())[-2:]
    assert trigger(on, 2).outcome == trigger(on, 2, "https://two.test").outcome == "trigger-no-matching-source"


SCOPES = {"limit": 3, "values": ["1"], "max_event_states": 1000}
CAPACITY = [
    ({"trigger_data": list(range(32)), "max_event_level_reports": 16}, "trigger-state-cardinality"),
    ({"trigger_data": list(range(32)), "max_event_level_reports": 3}, "channel-capacity"),
    ({"attribution_scopes": {**SCOPES, "max_event_states": 2}, "source_type": "event"}, "max-event-states"),
    ({"attribution_scopes": SCOPES}, "scopes-channel-capacity"),
]


@pytest.mark.parametrize(("header", "limit"), CAPACITY)
def test_sources_that_could_tell_too_much_are_refused_by_the_limits_name(header: dict[str, Any], limit: str) -> None:
    windows = {"event_report_windows": {"end_times": [3600 * (i + 1) for i in range(5)]}}
    on = client()
    refused = source(on, **(windows if header.get("max_event_level_reports") == 16 else {}), **header)
    assert refused.outcome == refused.parsed.limit == f"source-{limit}-limit" and refused.parsed.errors
    assert source(on, destination=[], attribution_scopes=SCOPES).outcome == "header-parsing-error"


def test_all_outcomes_of_limits_are_names_of_the_api() -> None:
    assert {*ORDERED.values(), *(f"source-{limit}-limit" for _, limit in CAPACITY), "source-success"} <= SOURCE_TYPES
    text = Path(inspect.getfile(attribute)).read_text(encoding="utf-8")
    named = set(re.findall('"(trigger-[a-z-]+)"', text)) - {"trigger-aggregate-"}
    assert len(named) >= 8 and named <= TRIGGER_TYPES


def test_time_does_not_go_back() -> None:
    on = client()
    source(on, 5)
    with pytest.raises(ValueError, match="time must not go back: it is 5 ms; got 4"):
        trigger(on, 4)
    with pytest.raises(ValueError, match="time must not go back"):
        on.advance(float("nan"))  # type: ignore[arg-type]


@pytest.mark.parametrize("page", ["shop", "http://shop.test", ""])
def test_pages_are_addresses(page: str) -> None:
    with pytest.raises(InputError, match="must be an https address, as in https://shop.example; got"):
        trigger(client(), page=page)


SEEN = st.lists(st.tuples(st.integers(0, 5), st.lists(st.sampled_from("abcd"), min_size=1, unique=True)))


@settings(deadline=None)
@given(SEEN)
def test_the_distinct_values_of_late_are_counted(events: list[tuple[int, list[str]]]) -> None:
    window, log, time = Distinct(2, 10), list[tuple[int, str]](), 0
    for gap, values in events:
        time += gap
        late = {value for at, value in log if at > time - 10} | set(values)
        assert window.allows("key", values, time) == (len(late) <= 2)
        if len(late) <= 2:
            window.add("key", values, time)
            log += [(time, value) for value in values]


def test_the_papers_figure_gives_its_three_contributions() -> None:
    """Figure 2: campaign 123, New York, Friday; each key gets a third of 65,536, rounded down."""
    on = client()
    levels = {"campaign": "0x7b000", "campaign, location": "0x7b1001", "campaign, location, day": "0x7b2001"}
    source(on, aggregation_keys=levels)
    friday = [{"source_keys": ["campaign, location, day"], "key_piece": "0x50000000"}]
    (made,) = trigger(
        on, aggregatable_trigger_data=friday, aggregatable_values=dict.fromkeys(levels, 21_845)
    ).attributions
    assert made.contributions == tuple(Contribution(key, 21_845) for key in (0x7B000, 0x7B1001, 0x507B2001))
