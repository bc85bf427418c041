"""Values and many conversions through the API: reports say what SQL says, and no impression spends more than L1."""

import json
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attributary.api.ara.registration import Registrations, registrations
from attributary.api.ara.wire.avro import write_reports
from attributary.api.ara.wire.encryption import public_key
from attributary.api.event_values import DRAWS, draw, micros, scaled
from attributary.browsers import Attribution, Client, report
from attributary.errors import InputError
from attributary.logs.count import count
from attributary.plan import Plan, make_plan
from attributary.prior import from_counts
from attributary.prior.earlier import profile
from attributary.spec import Spec
from support.command import attributary as run
from support.effort import examples, first_of

PRIVATE_KEY = bytes(range(32))
SHOP, NEWS, ADS = "https://shop.example", "https://news.example", "https://ads.example"
COUNT = '\n[[measure]]\nname = "count"\n'
REVENUE = '\n[[measure]]\nname = "revenue"\ncolumn = "value"\nclip = '


@pytest.fixture(scope="module")
def shop(shop_of: Callable[[int], Path]) -> Path:
    return shop_of(6_000)


def reports(ready: Registrations, folder: Path) -> list[Attribution]:
    """What the browsers send; conversions at one instant come in the order of attributes and values, as in SQL."""
    events: dict[Any, list[tuple[Any, ...]]] = defaultdict(list)
    for kind, name, columns in ((0, "impressions", ["campaign", "location"]), (1, "conversions", ["day", "value"])):
        for number, row in enumerate(pq.read_table(folder / f"{name}.parquet").to_pylist()):
            labels = {column: row[column] for column in columns if column in ready.asks or kind == 0}
            order = [row[column] for column in columns]
            moment = int(row["time"].timestamp() * 1000)
            events[row["user"]].append((moment, kind, order, number, labels))
    found: list[Attribution] = []
    for seed, mine in enumerate(events.values()):
        browser = Client(rng=Random(seed))
        for moment, kind, _, number, values in sorted(mine, key=lambda event: event[:3]):
            if kind == 0:
                made = browser.source(json.dumps(ready.source(values, SHOP)), page=NEWS, reporter=ADS, time=moment)
                assert made.outcome == "source-success" and not made.parsed.warnings, made
            else:
                trigger = json.dumps(ready.trigger(values, conversion_id=number))
                browser.trigger(trigger, page=SHOP, reporter=ADS, time=moment)
        found += browser.sent()
    return found


@pytest.mark.parametrize(
    ("most", "measures", "method"),
    first_of(
        [
            (2, "", "optimal"),
            (3, "", "per-node"),
            (1, COUNT + REVENUE + "200", "optimal"),
            (2, COUNT + REVENUE + "200", "equal"),
            ("auto", REVENUE + '"auto"', "optimal"),
            ("auto", COUNT + REVENUE + '"auto"', "optimal"),
        ]
    ),
)
def test_without_noise_the_api_gives_the_sums_of_sql(
    most: Any, measures: str, method: str, shop: Path, tmp_path: Path
) -> None:
    text = (shop / "spec.toml").read_text().replace("epsilon = 1", "epsilon = 40")
    spec = Spec.parse(f"conversions_per_impression = {json.dumps(most)}\n{text}{measures}")
    counts = count(spec, str(shop)).table
    tree = spec.tree(counts)
    known = profile(tree, spec, counts)
    plan = make_plan(spec, tree, from_counts(tree, counts), method, profile=known)
    plan.save(str(tmp_path / "plan.json"))
    run("keys", tmp_path / "plan.json", "--impressions", shop / "impressions.parquet", "-o", tmp_path / "keys", "-q")
    plan = Plan.load(str(tmp_path / "plan.json"))
    sent = reports(registrations(plan), shop)
    write_reports(str(tmp_path / "reports.avro"), [report(each, public_key(PRIVATE_KEY), "1") for each in sent])
    (tmp_path / "private.key").write_bytes(PRIVATE_KEY)
    query = ["--domain", tmp_path / "keys" / "domain.avro", "--key", tmp_path / "private.key"]
    summary = tmp_path / "keys" / "summary.avro"
    run("aggregate", tmp_path / "plan.json", tmp_path / "reports.avro", *query, "--no-noise", "-o", summary)
    run("denoise", tmp_path / "plan.json", summary, "-o", tmp_path / "estimates.parquet")
    found = pq.read_table(tmp_path / "estimates.parquet")
    own = plan.by_measure
    assert ("measure" in found.column_names) == (len(own) > 1) and len(found) == len(own) * len(tree)
    for k, part in enumerate(own):
        rows = found.slice(k * len(tree), len(tree))
        here = spec.tree(rows)
        expected = profile(here, spec, counts).limited(part.measure, plan.most_of_heads(here), part.clip)
        noisy, measured = (
            rows.column("noisy").to_numpy(zero_copy_only=False),
            rows.column("noisy").is_valid().to_numpy(),
        )
        assert measured.any() and expected.max() > 20
        number = profile(here, spec, counts).limited(
            spec.asked[0] if not part.measure.is_count else part.measure, 20, 1e9
        )
        off = 0.0 if part.measure.is_count else part.clip / np.maximum(part.contribution(here), 1)  # each is rounded
        room = np.maximum(number, 1) * off + 1e-6
        assert (np.abs(noisy - expected) <= room)[measured].all()
        if not part.measure.is_count:
            assert np.abs(noisy - expected)[measured].max() < 1e-2 * expected.max()


def test_a_refund_adds_what_a_sale_of_as_much_would(shop: Path) -> None:
    text = (shop / "spec.toml").read_text().replace("epsilon = 1", "epsilon = 40") + COUNT + REVENUE + "200"
    counts = count(Spec.parse(text), str(shop)).table
    plans = []
    for spec in (Spec.parse(text), Spec.parse(f"{text}\nrefunds = true")):
        tree = spec.tree(counts)
        plans.append(make_plan(spec, tree, from_counts(tree, counts), "equal", profile=profile(tree, spec, counts)))
    sale, refund = (registrations(plan) for plan in plans)
    assert plans[0].fingerprint != plans[1].fingerprint

    def added(by: Registrations, value: Any) -> Any:
        made = by.trigger({"day": "Monday", "value": value}, conversion_id=7)["aggregatable_values"]
        return [each["values"] for each in made]

    for value in (0.01, 49.9, 200, 1e6, 0, None):
        assert added(refund, None if value is None else -value) == added(sale, value)
        assert added(refund, value) == added(sale, None)
    assert added(refund, -49.9) != added(refund, 49.9)


@settings(max_examples=examples(150), deadline=None)
@given(
    micro=st.integers(-(10**9), 10**13),
    clip=st.integers(1, 10**15),
    contribution=st.integers(0, 65536),
    drawn=st.integers(0, DRAWS - 1),
)
def test_a_value_adds_at_most_its_contribution(micro: int, clip: int, contribution: int, drawn: int) -> None:
    found = scaled(micro, clip, contribution, drawn)
    exact = min(max(micro, 0), clip) * contribution / clip
    assert 0 <= found <= contribution and abs(found - exact) < 1 + 1e-9 * contribution
    if micro >= clip:
        assert found == contribution
    if micro <= 0:
        assert found == 0


def test_rounding_is_right_on_average() -> None:
    clip, contribution, micro = 200_000_000, 12_345, 78_901_234
    found = [scaled(micro, clip, contribution, draw("revenue", number)) for number in range(20_000)]
    exact = micro * contribution / clip
    assert abs(np.mean(found) - exact) < 4 * np.std(found) / np.sqrt(len(found)) and np.std(found) > 0
    assert draw("revenue", 7) == draw("revenue", 7) != draw("minutes", 7)


@pytest.mark.parametrize(
    ("value", "micro"), [("", 0), (None, 0), (float("nan"), 0), ("12.5", 12_500_000), (-3, -3 * 10**6)]
)
def test_values_are_read_as_logs_are(value: Any, micro: int) -> None:
    assert micros("revenue", value, {""}) == micro


@pytest.mark.parametrize("value", ["twelve", "inf", "1,5"])
def test_what_is_no_value_is_refused(value: str) -> None:
    with pytest.raises(InputError, match="a value is a number, as in 12.5"):
        micros("revenue", value, {""})


@pytest.fixture(scope="module")
def made(shop: Path) -> Callable[[Any], Registrations]:
    found = {}
    for most, l1 in ((1, 65536), (3, 65536), (7, 1000), (20, 65536), ("auto", 65536)):
        text = (shop / "spec.toml").read_text().replace("epsilon = 1", f"epsilon = 40\nl1 = {l1}")
        clip = '"auto"' if most == "auto" else "150"
        spec = Spec.parse(f"conversions_per_impression = {json.dumps(most)}\n{text}{COUNT}{REVENUE}{clip}")
        counts = count(spec, str(shop)).table
        tree = spec.tree(counts)
        plan = make_plan(spec, tree, from_counts(tree, counts), profile=profile(tree, spec, counts))
        found[most] = registrations(plan)
    return lambda most: found[most]  # whose repr is short


@settings(max_examples=examples(80), deadline=None)
@given(
    most=st.sampled_from([1, 3, 7, 20, "auto"]),
    values=st.lists(st.sampled_from(["", 0, -4, 0.01, 3.5, 149.99, 150, 10_000]), min_size=1, max_size=25),
    campaign=st.sampled_from(["brand", "outlet", "never seen"]),
    seed=st.integers(0, 99),
)
def test_an_impression_never_spends_more_than_l1(
    most: Any, values: list[Any], campaign: str, seed: int, made: Callable[[Any], Registrations]
) -> None:
    """And as many of its conversions count as the plan says, whatever their values."""
    ready = made(most)
    browser, spent, reported = Client(rng=Random(seed)), 0, 0
    source = ready.source({"campaign": campaign, "location": "Paris"}, SHOP)
    browser.source(json.dumps(source), page=NEWS, reporter=ADS, time=1_767_225_600_000)
    limit = ready.plan.most(campaign)
    keyed = set(source["aggregation_keys"]) - {ready.rest}
    row = ready.classes.rows[ready.classes.of([campaign, "Paris"])]
    for number, value in enumerate(values):
        trigger = ready.trigger({"day": "Monday", "value": value}, conversion_id=f"{seed}-{number}")
        done = browser.trigger(json.dumps(trigger), page=SHOP, reporter=ADS, time=1_767_225_600_000 + 1000 * number)
        for attribution in done.attributions[:1] if done.outcome == "success" else ():  # the others are null reports
            reported += 1
            spent += sum(contribution.value for contribution in attribution.contributions if contribution.key)
    assert reported == min(limit, len(values))
    assert spent <= limit * int(row.sum()) <= ready.plan.spec.l1 and keyed


def test_keys_of_measures_differ_only_where_there_are_several(shop: Path) -> None:
    text = (shop / "spec.toml").read_text()
    counts = count(Spec.parse(text), str(shop)).table
    found = {}
    for name, measures in (("plain", ""), ("count", COUNT), ("both", COUNT + REVENUE + "50")):
        spec = Spec.parse(text + measures)
        tree = spec.tree(counts)
        found[name] = registrations(make_plan(spec, tree, from_counts(tree, counts), "equal"))
    event = {"campaign": "brand", "location": "Paris"}
    plain, one, both = (found[name].source(event, SHOP)["aggregation_keys"] for name in ("plain", "count", "both"))
    assert plain == one and found["plain"].trigger({"day": "Monday"}) == found["count"].trigger({"day": "Monday"})
    assert len(both) == 2 * len(plain) + 1 and len(set(both.values())) == len(both)
    with pytest.raises(InputError, match="'value' is missing; measure 'revenue' needs it"):
        found["both"].trigger({"day": "Monday"})
