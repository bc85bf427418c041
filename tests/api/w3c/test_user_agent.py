"""The user agent of W3C Attribution: what it admits, whom it credits, and that no budget is ever exceeded."""

import math
from collections import defaultdict
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from attributary.api.w3c import AttributionError, ConversionOptions, ImpressionOptions
from attributary.browsers import UserAgent, UserAgentSettings
from attributary.browsers.w3c_user_agent import allocate_credit
from attributary.errors import InputError

DAY, WEEK = 86_400, 7 * 86_400
SERVICE = "https://agg-service.example"
FREE = UserAgentSettings(activation_seconds=None)


def agent(start: float = 0.0, **settings: Any) -> UserAgent:
    """A browser whose first epoch starts that part of a week before it is first needed."""
    made = UserAgent(replace(FREE, **settings), Random(1))
    made._rng.random = iter([start, *[0.5] * 1000]).__next__  # type: ignore[method-assign]
    return made


def save(to: UserAgent, index: int, time: float, site: str = "news.example", **options: Any) -> None:
    to.save_impression(ImpressionOptions(index, **options), site=site, time=time)


def measure(by: UserAgent, time: float, site: str = "shop.example", size: int = 4, **options: Any) -> list[int]:
    return list(by.measure_conversion(ConversionOptions(SERVICE, size, **options), site=site, time=time))


# Credit


class Branch:
    """A random number that is compared with probabilities as a script says, and multiplies up how probable that is."""

    def __init__(self, script: list[bool]) -> None:
        self.script, self.probability = list(script), Fraction(1)

    def __call__(self) -> "Branch":
        return self

    def __lt__(self, p: Fraction) -> bool:
        assert 0 <= p <= 1
        below = self.script.pop(0)
        self.probability *= p if below else 1 - p
        return below


CREDITS = st.lists(st.floats(5e-324, 1.7e308) | st.integers(1, 20).map(float), min_size=1, max_size=5)


@given(CREDITS, st.integers(1, 2**32 - 1) | st.integers(1, 20))
def test_credit_adds_up_is_off_by_less_than_one_and_is_unbiased(credit: list[float], value: int) -> None:
    exact = [value * Fraction(str(c)) / sum(Fraction(str(c)) for c in credit) for c in credit]
    mean, total = [Fraction(0)] * len(credit), Fraction(0)
    steps = len(credit) - 1
    for number in range(2**steps):
        branch = Branch([bool(number >> i & 1) for i in range(steps)])
        parts = allocate_credit(credit, value, branch)  # type: ignore[arg-type]
        probability = branch.probability / 2 ** len(branch.script)  # steps that were not drawn come up in both ways
        total += probability
        mean = [m + probability * part for m, part in zip(mean, parts, strict=True)]
        if probability:
            assert sum(parts) == value
            assert all(abs(part - e) < 1 for part, e in zip(parts, exact, strict=True))
    assert total == 1
    assert mean == exact


@pytest.mark.parametrize(("credit", "value"), [([6, 3, 3], 12), ([0.1, 0.2, 0.7], 10), ([2], 3), ([2, 1, 1], 8)])
def test_credit_that_divides_evenly_draws_nothing(credit: list[float], value: int) -> None:
    def none() -> float:
        raise AssertionError("no random number is needed")

    parts = allocate_credit(credit, value, none)
    assert [part * Fraction(str(sum(credit))) for part in parts] == [Fraction(str(c)) * value for c in credit]


def test_the_highest_priority_comes_first_then_the_latest_then_the_first_saved() -> None:
    browser = agent(conversion_sites=9)
    for index, time, priority in [(0, 1, 0), (1, 2, 0), (2, 2, 0), (3, 1, 5)]:
        save(browser, index, time, priority=priority)
    assert measure(browser, 3, value=10, max_value=10, credit=[4, 3, 2, 1]) == [1, 3, 2, 4]


def test_an_index_beyond_the_histogram_drops_out_with_its_value() -> None:
    browser = agent()
    save(browser, 0, 1)
    save(browser, 9, 2)
    assert measure(browser, 3, value=4, max_value=4, credit=[3, 1]) == [1, 0, 0, 0]


# Budgets

VISITS = st.tuples(
    st.sampled_from(["save", "measure", "measure", "clear"]),
    st.integers(0, 12 * DAY),
    st.sampled_from(["a.example", "b.example", "c.example"]),
    st.sampled_from([0.1, 0.3, 0.5, 1.0]),
    st.integers(1, 4),
    st.sampled_from([1, 3, 7, 30]),
)


@given(st.lists(VISITS, max_size=40), st.floats(0, 0.999), st.booleans())
def test_no_budget_is_exceeded_whatever_happens(
    visits: list[tuple[str, int, str, float, int, int]], start: float, tight: bool
) -> None:
    """Checked by what comes out alone: an index tells its epoch and impression site, which the test knows."""
    budgets = {"site_budget": 1_000_000, "global_budget": 1_500_000 if tight else 8_000_000}
    browser = agent(start, histogram_size=1000, impression_site_quota=900_000, **budgets)
    spent: dict[Any, Fraction] = defaultdict(Fraction)
    time, first, saved = 100 * DAY, browser.epoch(100 * DAY), []
    for what, pause, site, epsilon, value, lookback in visits:
        time += pause
        if what == "save":
            saved.append((browser.epoch(time) - first, site))
            save(browser, len(saved) - 1, time, site=f"news-{site}")
        elif what == "measure":
            options = {"epsilon": epsilon, "value": value, "max_value": 4, "credit": [2, 1], "lookback_days": lookback}
            histogram = measure(browser, time, site=site, size=1000, **options)
            single = browser.epoch(time - lookback * DAY) == browser.epoch(time)
            cost = Fraction(str(epsilon)) * value / 4
            assert sum(histogram) in (0, value)
            credited = {saved[i] for i, part in enumerate(histogram) if part}
            for epoch in {epoch for epoch, _ in credited}:
                spent["site", site, epoch] += cost / 2 if single else cost
                spent["all", epoch] += cost
            for each in credited:
                spent["impression site", each] += cost
        else:
            browser.clear_history([site], forget_visits=False, time=time)
    for key, sum_ in spent.items():
        assert (
            sum_ * 1_000_000
            <= {
                "site": budgets["site_budget"],
                "all": budgets["global_budget"],
                "impression site": 900_000,
            }[key[0]]
        )
    ledgers = browser.ledgers
    assert all(left >= 0 for ledger in (ledgers.site, ledgers.impression_site) for left in ledger.values())
    assert all(left >= 0 for left in ledgers.everyone.values())


def test_a_single_epoch_is_charged_half_and_only_for_what_is_reported() -> None:
    browser = agent(0.5)
    save(browser, 0, 100 * DAY)
    assert measure(browser, 100 * DAY + 1, lookback_days=1, epsilon=0.6) == [1, 0, 0, 0]
    (epoch, _), left = next(iter(browser.ledgers.site.items()))
    assert left == 700_000
    assert browser.ledgers.everyone == {epoch: 400_000 + 7_000_000}  # all sites together pay in full
    assert measure(browser, 100 * DAY + 2, lookback_days=1, epsilon=1, size=1, match_values=[7]) == [0]
    assert browser.ledgers.site[epoch, "shop.example"] == 700_000  # nothing matches, nothing is paid
    assert measure(browser, 100 * DAY + 3, lookback_days=8, epsilon=0.8) == [0, 0, 0, 0]  # in full, too much
    assert measure(browser, 100 * DAY + 4, lookback_days=1, epsilon=0.8) == [1, 0, 0, 0]


def test_charges_are_rounded_up_to_whole_microepsilons() -> None:
    browser = agent()
    save(browser, 0, 1)
    assert [sum(measure(browser, 2, epsilon=1, value=1, max_value=3)) for _ in range(4)] == [1, 1, 0, 0]


def test_all_sites_together_have_a_budget_and_each_impression_site_a_quota() -> None:
    sites = [f"shop-{i}.example" for i in range(6)]
    together = agent(global_budget=3_000_000, impression_site_quota=9_000_000)
    save(together, 1, 1)
    assert [sum(measure(together, 2, site=site)) for site in sites] == [1, 1, 1, 0, 0, 0]
    quota = agent(global_budget=9_000_000, impression_site_quota=2_000_000)
    save(quota, 1, 1)
    save(quota, 2, 1)  # of the same site: charged once
    assert [sum(measure(quota, 2, site=site)) for site in sites] == [1, 1, 0, 0, 0, 0]
    save(quota, 3, 1, site="blog.example", match_value=5)
    assert measure(quota, 3, site=sites[5]) == [0, 0, 0, 0]  # one that has nothing left spoils the epoch
    assert measure(quota, 3, site=sites[5], match_values=[5]) == [0, 0, 0, 1]


# Sites, activation, policy


@pytest.mark.parametrize("site", ["localhost", "a.localhost", "127.0.0.1", "[::1]", "com", "github.io", "a b", ":", ""])
def test_what_has_no_registrable_domain_is_no_site(site: str) -> None:
    for call in ({"site": site}, {"site": "news.example", "caller": site or ":"}):
        with pytest.raises(AttributionError, match="shop.example") as error:
            agent().save_impression(ImpressionOptions(0), time=1, **call)
        assert error.value.name == "SyntaxError"


def test_a_caller_of_the_same_site_is_the_site() -> None:
    browser = agent()
    browser.save_impression(ImpressionOptions(1), site="news.example", caller="ads.news.example", time=1)
    assert measure(browser, 2, impression_callers=["www.news.example"]) == [0, 1, 0, 0]


def named(call: Callable[[], object]) -> str:
    with pytest.raises(AttributionError) as error:
        call()
    return error.value.name


def test_a_call_needs_an_activation_that_one_site_can_use() -> None:
    browser = UserAgent(UserAgentSettings(activation_seconds=5), Random(1))

    def call(time: float, tab: str = "") -> None:
        browser.save_impression(ImpressionOptions(0), site="news.example", time=time, tab=tab)

    assert named(lambda: call(1)) == "NotAllowedError"
    browser.activate(10)
    assert named(lambda: call(15.1)) == "NotAllowedError"
    browser.navigate()
    call(15)  # not used yet: it holds on the next site
    call(1000)  # used in time: it holds as long as the tab stays
    assert named(lambda: call(15, tab="other")) == "NotAllowedError"
    browser.activate(1000)
    browser.navigate()
    assert named(lambda: call(1001)) == "NotAllowedError"
    browser.activate(1001)
    call(1002)
    assert len(browser.impressions) == 3


def test_errors_come_in_the_order_of_the_specification() -> None:
    options: dict[str, Any] = {
        "aggregation_service": "https://other.example", "epsilon": 5000, "histogram_size": 0, "value": 0,
        "max_value": 0, "credit": [], "lookback_days": 0, "match_values": range(31), "impression_sites": [":"] * 31,
        "impression_callers": [":"] * 11,
    }  # fmt: skip
    steps: list[tuple[str, dict[str, Any]]] = [
        ("aggregationService", {"aggregation_service": SERVICE}),
        ("epsilon", {"epsilon": 4294}),
        ("histogramSize", {"histogram_size": 101}),
        ("histogramSize", {"histogram_size": 1}),
        ("value must be positive", {"value": 1}),
        ("at most maxValue", {"max_value": 1}),
        ("at least one", {"credit": [0] * 11}),
        ("positive numbers", {"credit": [1] * 11}),
        ("at most 10 numbers", {"credit": [1]}),
        ("lookbackDays", {"lookback_days": 10**12}),
        ("matchValues", {"match_values": [1]}),
        ("impressionSites must be at most 30", {"impression_sites": [":"]}),
        ("a site is", {"impression_sites": ["a.example"]}),
        ("impressionCallers", {"impression_callers": ["a"]}),
        ("a site is", {"impression_callers": ["b.example"]}),
    ]
    browser = UserAgent(rng=Random(1))

    def call(**where: Any) -> object:
        return browser.measure_conversion(ConversionOptions(**options), **{"site": "a.example", "time": 1, **where})

    assert named(lambda: call(site="localhost", allowed=False)) == "SyntaxError"
    with pytest.raises(AttributionError, match="policy.*measure-conversion"):
        call(allowed=False)
    with pytest.raises(AttributionError, match="activation"):
        call()
    browser.activate(1)
    for words, mended in steps:
        with pytest.raises(AttributionError, match=words):
            call()
        options |= mended
    assert call() == (0,)


def test_an_impression_is_checked_in_the_order_of_the_specification() -> None:
    options: dict[str, Any] = {"histogram_index": 100, "lifetime_days": 0, "conversion_sites": ["a"] * 6}
    steps: list[tuple[str, dict[str, Any]]] = [
        ("histogramIndex must be below 100", {"histogram_index": 99, "conversion_callers": ["a"] * 11}),
        ("lifetimeDays", {"lifetime_days": 1}),
        ("conversionSites must be at most 5", {"conversion_sites": ["a"]}),
        ("a site is", {"conversion_sites": []}),
        ("conversionCallers must be at most 10", {"conversion_callers": ["a"]}),
        ("a site is", {"conversion_callers": ["www.a.example"]}),
    ]
    browser = agent()
    for words, mended in steps:
        with pytest.raises(AttributionError, match=words):
            browser.save_impression(ImpressionOptions(**options), site="a.example", time=1)
        assert not browser.impressions
        options |= mended
    browser.save_impression(ImpressionOptions(**options), site="a.example", time=1)
    (saved,) = browser.impressions
    assert saved.options.conversion_callers == ("a.example",)


@pytest.mark.parametrize(
    ("member", "value"),
    [
        *(("histogramIndex", v) for v in (-1, 2**32, 1.5, "1", True, None)),
        *(("priority", v) for v in (-(2**31) - 1, 2**31)),
        ("lifetimeDays", 10**15),
        *(("conversionSites", v) for v in ("a.example", [1], {}, None)),
    ],
)
def test_members_of_another_type_are_refused(member: str, value: Any) -> None:
    with pytest.raises(AttributionError, match=f"TypeError: {member} must be"):
        ImpressionOptions.from_json({"histogramIndex": 1, member: value})


def test_numbers_of_numpy_are_numbers() -> None:
    credit, epsilon = np.array([2.0, 1.0]), np.float32(0.5)
    options = ConversionOptions("", np.int64(3), epsilon, credit=credit, match_values=np.arange(2))  # type: ignore[arg-type]
    assert options == ConversionOptions("", 3, 0.5, credit=[2, 1], match_values=[0, 1])
    assert {type(options.histogram_size), type(options.epsilon), *map(type, options.credit)} == {int, float}


@pytest.mark.parametrize(("member", "value"), [("epsilon", math.nan), ("epsilon", 10**400), ("credit", [math.inf])])
def test_numbers_must_be_finite(member: str, value: Any) -> None:
    with pytest.raises(AttributionError, match="must be a finite number"):
        ConversionOptions.from_json({"aggregationService": "", "histogramSize": 1, member: value})


@pytest.mark.parametrize("loaded", ["", "{}", [], None, 7, [["histogramIndex", 1]]])
def test_options_must_be_a_json_object(loaded: Any) -> None:
    with pytest.raises(InputError, match="options must be a JSON object"):
        ImpressionOptions.from_json(loaded)


def test_required_members_are_required_and_unknown_ones_ignored() -> None:
    with pytest.raises(AttributionError, match="histogramSize is required"):
        ConversionOptions.from_json({"aggregationService": "x"})
    assert ImpressionOptions.from_json({"histogramIndex": 2, "more": 1}) == ImpressionOptions(2)


@pytest.mark.parametrize("time", [math.nan, math.inf])
def test_times_are_finite(time: float) -> None:
    with pytest.raises(InputError, match="finite number of seconds"):
        measure(agent(), time)


@pytest.mark.parametrize(
    ("setting", "words"),
    [
        ({"epoch_days": 0}, "epoch_days must be at least 1"),
        ({"lookback_days": 0}, "lookback_days must be at least 1"),
        ({"site_budget": -1}, "site_budget must be at least 0"),
        ({"activation_seconds": math.nan}, "activation_seconds must be at least 0"),
        ({"aggregation_services": "https://a.example"}, "aggregation_services must be a list"),
    ],
)
def test_settings_that_no_browser_can_have(setting: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        UserAgentSettings(**setting)


# Clearing


def test_nothing_before_the_next_epoch_is_measured_after_visits_were_forgotten() -> None:
    for forgotten in ([], ["elsewhere.example"]):
        browser = agent(0.5)
        start = 1000 * DAY
        save(browser, 0, start)
        assert sum(measure(browser, start + 1, epsilon=0.1)) == 1
        browser.clear_history(forgotten, forget_visits=True, time=start + 2)
        assert len(browser.impressions) == len(forgotten)
        save(browser, 1, start + 3)
        assert measure(browser, start + 4) == [0, 0, 0, 0]
        assert measure(browser, start + 5, lookback_days=1) == [0, 0, 0, 0]
        save(browser, 2, start + WEEK)
        assert measure(browser, start + WEEK + 1, credit=[1, 1], value=2, max_value=2) == [0, 0, 2, 0]


def test_forgetting_a_site_forgets_its_impressions_and_budgets_alone() -> None:
    browser = agent(0.5)
    for index, site in enumerate(["a.example", "b.example"]):
        save(browser, index, 1, site=site)
    measure(browser, 2, site="a.example", epsilon=0.5)
    measure(browser, 2, site="shop.example", epsilon=0.5)
    everyone = dict(browser.ledgers.everyone)
    browser.clear_history(["www.a.example"], forget_visits=True, time=3)
    assert [saved.site for saved in browser.impressions] == ["b.example"]
    assert {site for _, site in browser.ledgers.site} == {"shop.example"}
    assert {site for _, site in browser.ledgers.impression_site} == {"b.example"}
    assert browser.ledgers.everyone == everyone


def test_clearing_data_spends_the_budget_of_its_sites_and_needs_some() -> None:
    browser = agent()
    save(browser, 1, 1)
    browser.clear_history(["shop.example"], forget_visits=False, time=2)
    assert measure(browser, 3) == [0, 0, 0, 0]
    assert measure(browser, 3, site="other.example") == [0, 1, 0, 0]
    with pytest.raises(InputError, match="needs the sites"):
        browser.clear_history([], forget_visits=False, time=4)


def test_expired_impressions_are_dropped() -> None:
    browser = agent()
    save(browser, 1, 0, lifetime_days=1)
    save(browser, 2, 0, lifetime_days=90)  # 30 at most
    assert sum(measure(browser, DAY)) == 1
    assert len(browser.impressions) == 2
    assert measure(browser, 30 * DAY, site="other.example") == [0, 0, 1, 0]
    measure(browser, 30 * DAY + 1)
    assert not browser.impressions
