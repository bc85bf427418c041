"""Registrations: what source and trigger say together is the plan, whatever the classes; and browsers take them."""

import json
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attributary import Tree
from attributary.api.ara import parse
from attributary.api.ara.keys.fewer_classes import classes, cluster, fewer_classes
from attributary.api.ara.keys.key_layout import layout, tree_keys
from attributary.api.ara.registration import Json, Registrations, registrations
from attributary.browsers.ara_client import matches
from attributary.errors import InputError
from attributary.plan import Plan, make_plan
from attributary.spec import Spec
from support.keyed import DELAY, LOGS, by_node, plans, whole, with_roots
from support.plans import HOURS, UNKNOWN, asked, counts, spec
from support.vectors import vectors

SITE = "https://shop.example"
DAY = 86_400


def contributions(source: Json, trigger: Json, age: float = 0.0) -> dict[int, int]:
    """What the browser makes of the two, by the rules of the API: keys joined by OR, the first values that match."""
    read, asks = parse.source(json.dumps(source)), parse.trigger(json.dumps(trigger))
    assert read.value is not None and asks.value is not None, (read.errors, asks.errors)
    assert not read.warnings and not asks.warnings
    data = read.value.filter_data
    if not matches(data, age, asks.value.filters):
        return {}
    keys = dict(read.value.aggregation_keys)
    for datum in asks.value.aggregatable_trigger_data:
        if matches(data, age, datum.filters):
            for name in set(datum.source_keys) & keys.keys():
                keys[name] |= datum.key_piece
    for config in asks.value.aggregatable_values:
        if matches(data, age, config.filters):
            return {keys[name]: value.value for name, value in config.values.items() if name in keys}
    return {}


def of_leaf(ready: Registrations, tree: Tree, leaf: int) -> dict[int, int]:
    """The contributions of a conversion in a leaf."""
    spec = ready.plan.spec
    labels = dict(zip(tree.attributes, tree.path(leaf), strict=True))
    age = 2 * DAY * DELAYS.index(labels["delay"]) if "delay" in labels else 0
    source = ready.source({a.name: labels[a.name] for a in spec.known}, SITE)
    return contributions(source, ready.trigger({name: labels[name] for name in ready.asks}), age)


DELAYS = ["0-2d", "2-4d", "4-6d"]


@settings(deadline=None)
@given(plans(), st.data())
def test_registrations_are_the_plan(asks: tuple[Plan, Tree], data: st.DataObject) -> None:
    """A conversion in any leaf, be it new to the plan, contributes to the keys on its path what the plan says."""
    plan, tree = asks
    plan = fewer_classes(plan, data.draw(st.sampled_from([50, 8, 4]))).plan
    ready = registrations(plan)
    keys, amount = whole(tree_keys(layout(plan), tree)), plan.contribution(tree)
    for leaf in data.draw(st.lists(st.sampled_from(np.flatnonzero(tree.is_leaf).tolist()), min_size=1, max_size=4)):
        path = [leaf]
        while tree.parent[path[-1]] >= 0:
            path.append(int(tree.parent[path[-1]]))
        assert of_leaf(ready, tree, leaf) == {keys[v]: int(amount[v]) for v in path if amount[v]}


@settings(deadline=None)
@given(plans(("by root", "by node")), st.integers(2, 9))
def test_fewer_classes_keep_to_the_budget(asks: tuple[Plan, Tree], most: int) -> None:
    plan, _ = asks
    most = max(most, len(plan.spec.known) + 1)
    found = fewer_classes(plan, most)
    made = classes(found.plan)
    assert len(made) == found.after <= most
    assert (made.rows.sum(axis=1) <= plan.spec.budget).all()
    assert (made.rows[:, plan.spec.first_unknown :].sum(axis=1) <= plan.spec.unknown_budget).all()
    assert found.plan.guarantees == plan.guarantees or "definition-1" in found.plan.guarantees
    again = fewer_classes(found.plan, most)
    assert not again.changed and again.plan is found.plan
    assert found.changed or found.plan is plan


def test_enough_classes_change_nothing() -> None:
    given = spec(split_by="a")
    tree = given.tree(counts(campaigns=20))
    plan = make_plan(given, tree, method="equal")
    roots = {f"r{i}": (20_000 + i, 20_000, 65_536 - 40_000 - i) for i in range(20)}
    plan = with_roots(plan, roots)
    assert not fewer_classes(plan, 21).changed
    fewer = fewer_classes(plan, 5)
    assert fewer.after == 5 and fewer.before == 21
    assert max(fewer.worst) < 1.002, "similar rows are put together"
    assert all(sum(row) == 65_536 for row in fewer.plan.roots.values())
    assert fewer.plan.roots["r0"] == fewer.plan.roots["r1"] != fewer.plan.roots["r19"]


def test_the_loss_is_that_of_the_variances() -> None:
    given = spec(split_by="a")
    tree = given.tree(counts(campaigns=9))
    plan = make_plan(given, tree, method="equal")
    plan = with_roots(plan, {f"r{i}": (6_000 * i, 500, 65_036 - 6_000 * i) for i in range(1, 9)})
    found = fewer_classes(plan, 4)
    before, after = plan.variance(tree), found.plan.variance(tree)
    head = np.array([tree.path(v)[0] != "r0" for v in range(len(tree))])
    for level in (0, 2):
        ratio = {tree.path(v)[0]: after[v] / before[v] for v in np.flatnonzero((tree.level == level) & head)}
        assert np.mean(list(ratio.values())) == pytest.approx(found.mean[level])
        assert max(ratio.values()) == pytest.approx(found.worst[level])
    assert found.mean[1] == 1.0


def test_no_key_is_lost_to_rounding() -> None:
    given = spec(split_by="a")
    tree = given.tree(counts(campaigns=30))
    plan = make_plan(given, tree, method="equal")
    rows = [(60_000 - 59_000 * (i % 2) + i, 5_000 + 59_000 * (i % 2), int(i == 7)) for i in range(30)]
    plan = with_roots(plan, {f"r{i}": row for i, row in enumerate(rows)})
    found = fewer_classes(plan, 3)
    assert found.plan.roots["r7"][2] >= 1 and np.isfinite(found.worst).all()


def test_rows_that_are_alike_are_put_together() -> None:
    rows = np.array([[100.0, 1], [101, 1], [1, 100], [1, 104], [50, 50]])
    group = cluster(rows, np.ones(5), 3)
    assert group[0] == group[1] != group[4] and group[2] == group[3] != group[4] and group[0] != group[2]
    assert len(set(cluster(rows, np.ones(5), 9).tolist())) == 5
    assert set(cluster(np.ones((4, 2)), np.ones(4), 3).tolist()) == {0}


def test_nodes_below_a_known_path_are_made_alike() -> None:
    given = spec()
    tree = given.tree(counts())
    plan = by_node(make_plan(given, tree, method="equal"), tree, 1)
    with pytest.raises(ValueError, match="nodes below one known path have contributions of their own"):
        registrations(plan)
    found = fewer_classes(plan, 1000)
    assert found.changed and registrations(found.plan)
    with pytest.raises(InputError, match="a plan by node needs at least 3 classes with 2 known attributes; got 2"):
        fewer_classes(plan, 2)
    with pytest.raises(InputError, match="there are at least 2 classes"):
        fewer_classes(plan, 1)


def test_figure_2_of_the_paper() -> None:
    """Campaign 123, New York, Friday: three keys, each with 21,845."""
    days = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"]
    unknown = {"name": "day", "unknown": True, "domain": days}
    given = Spec(epsilon=4, attributes=[{"name": "campaign"}, {"name": "location"}, unknown])
    clicks = {"campaign": [123, 456, 789, 123], "location": ["Paris", "Chicago", "London", "New York"]}
    plan = make_plan(given, given.tree(clicks), method="equal", rounding="floor")
    ready, found = registrations(plan), layout(plan)
    source = ready.source({"campaign": 123, "location": "New York"}, SITE)
    trigger = ready.trigger({"day": "Friday"})
    (values,) = trigger["aggregatable_values"]
    assert values["values"] == {"campaign": 21_845, "location": 21_845, "day": 21_845}
    assert source["filter_data"] == values["filters"] == {"plan": [found.plan]}
    path = ["123", "New York", "Friday"]
    assert contributions(source, trigger) == {found.key(level, path): 21_845 for level in range(3)}
    friday = {"key_piece": "0x5", "source_keys": ["day"]}
    assert trigger["aggregatable_trigger_data"] == [
        {"key_piece": hex(found.mark), "source_keys": ["campaign", "location", "day"]},
        friday,
    ]


def test_published_values() -> None:
    cases = json.loads(vectors("numeric_cases.json").read_text(encoding="utf-8"))
    for case in cases["key_combination"]["cases"]:
        source = {"destination": SITE, "aggregation_keys": {"x": case["source"]}}
        datum = {"key_piece": case["trigger"], "source_keys": ["x"]}
        value = case.get("value", 1)
        trigger = {"aggregatable_trigger_data": [datum], "aggregatable_values": {"x": value}}
        assert contributions(source, trigger) == {int(case["key"], 16): value}
    half = cases["scaling"]["cases"][0]
    given = spec(known="a", l1=half["L1"])
    row = make_plan(given, asked(given)[0], method="equal").default
    assert [part * half["value"] // half["max_value"] for part in row] == [half["aggregatable_value"]] * half["split"]


EDGES = st.builds(
    lambda half_days, beside: max(half_days * DAY // 2 + beside, 0), st.integers(0, 18), st.integers(-1, 1)
)


@settings(deadline=None)
@given(st.integers(0, 9 * DAY) | EDGES, st.sampled_from([None, "1d", "12h"]))
def test_the_delay_is_found_by_filters(age: int, start: str | None) -> None:
    """Buckets are half open, to the second; what is in none of them is not counted at all, not even above."""
    given = spec(unknown=({**DELAY, **({"start": start} if start else {})},))
    tree = given.tree(counts())
    ready = registrations(make_plan(given, tree, method="equal"))
    first = {None: 0, "1d": DAY, "12h": DAY // 2}[start]
    place = (age - first) // (2 * DAY)
    found = contributions(ready.source({"a": "r0", "b": "l0"}, SITE), ready.trigger({}), age)
    labels = given.attributes[-1].labels
    path = ["r0", "l0", labels[place]] if 0 <= place < 3 else []
    assert list(found) == [ready.layout.key(level, path) for level in range(len(path))]


def test_a_second_of_a_fraction_is_of_the_next_bucket() -> None:
    """A filter's window is in whole seconds, and holds at its end: what is known of the edge, and written down."""
    given = spec(unknown=(DELAY,))
    ready = registrations(make_plan(given, given.tree(counts()), method="equal"))
    source, trigger = ready.source({"a": "r0", "b": "l0"}, SITE), ready.trigger({})
    key = [ready.layout.key(2, ["r0", "l0", label]) for label in DELAYS]
    for age, bucket in ((2 * DAY - 1, 0), (2 * DAY - 0.5, 1), (2 * DAY, 1)):
        assert list(contributions(source, trigger, age))[2] == key[bucket]


@pytest.mark.parametrize(
    ("window", "expiry", "report"),
    [("30d", 30, 30 * DAY), ("5d", 5, 5 * DAY), ("36h", 2, 129_600), ("2h", 1, 7_200), ("9w", 30, 30 * DAY)],
)
def test_windows(window: str, expiry: int, report: int) -> None:
    given = spec(logs={**LOGS, "window": window})
    ready = registrations(make_plan(given, asked(given)[0]))
    source = ready.source({"a": "r0", "b": "l0"}, SITE)
    assert source["expiry"] == str(expiry * DAY) and source["aggregatable_report_window"] == str(report)
    for kind in ("navigation", "event"):
        assert not parse.source(json.dumps(source), kind).warnings
    assert "filters" not in ready.trigger({"day": "mon"})


def test_windows_that_a_source_cannot_say() -> None:
    given = spec(logs={**LOGS, "window": "10m"})
    ready = registrations(make_plan(given, asked(given)[0]))
    source, trigger = ready.source({"a": "r0", "b": "l0"}, SITE), ready.trigger({"day": "mon"})
    assert contributions(source, trigger, 599) and not contributions(source, trigger, 600)
    no_window = spec()
    assert "expiry" not in registrations(make_plan(no_window, asked(no_window)[0])).source({"a": 1, "b": 2}, SITE)


def test_an_impression_has_one_conversion() -> None:
    """The browser's budget sees to it; where two would fit, a deduplication key that all conversions share."""
    given = spec()
    ready = registrations(make_plan(given, asked(given)[0]))
    assert "aggregatable_deduplication_keys" not in ready.trigger({"day": "mon"})
    own = ready.trigger({"day": "mon"}, deduplication_key=7)
    assert own["aggregatable_deduplication_keys"] == [{"deduplication_key": "7"}]
    small = spec(l1=1000)
    ready = registrations(make_plan(small, asked(small)[0]))
    assert ready.trigger({"day": "mon"})["aggregatable_deduplication_keys"] == [{"deduplication_key": "1"}]
    assert ready.trigger({"day": "mon"}, deduplication_key=0)["aggregatable_deduplication_keys"] == [
        {"deduplication_key": "0"}
    ]


def test_long_names_are_numbered() -> None:
    long = "a" * 26
    given = Spec(epsilon=1, attributes=[{"name": long}, {"name": "l0"}])
    ready = registrations(make_plan(given, given.tree({long: ["x"], "l0": ["y"]}), method="equal"))
    source, trigger = ready.source({long: "x", "l0": "y"}, SITE), ready.trigger({})
    assert list(source["aggregation_keys"]) == ["l0", "l1"] and len(contributions(source, trigger)) == 2


def test_sources_have_what_they_are_given() -> None:
    given = spec()
    ready = registrations(make_plan(given, asked(given)[0]))
    source = ready.source({"a": "x", "b": ""}, [SITE, "https://b.test"], event_id=2**64 - 1, priority=-3)
    assert (source["source_event_id"], source["priority"]) == (str(2**64 - 1), "-3")
    read = parse.source(json.dumps(source)).value
    assert read is not None and len(read.destination) == 2
    assert source["aggregation_keys"]["day"] == hex(
        ready.layout.key(2, ["x", "missing", "mon"]) & ~3 ^ ready.layout.mark
    )


def test_destinations_that_no_header_can_hold_are_refused() -> None:
    ready = registrations(make_plan(spec(), asked(spec())[0]))
    for site in ("https://shop.example/\ud800", "https://shop.example?\udcf3"):
        with pytest.raises(InputError, match="a destination is the site of a shop, with https; got"):
            ready.source({"a": "x", "b": ""}, site)


VALUES: dict[str, tuple[dict[str, Any], Any, str]] = {
    "whole number": ({"name": "n", "unknown": True, "range": [1, 31]}, 7.0, "7"),
    "leading zero": ({"name": "n", "unknown": True, "range": [1, 31]}, "07", "7"),
    "bucket": ({"name": "n", "unknown": True, "bucket": 0.1, "buckets": 9}, 0.3, "0.3-0.4"),
    "bucket's name": ({"name": "n", "unknown": True, "bucket": 0.1, "buckets": 9}, "0.3-0.4", "0.3-0.4"),
    "missing": ({"name": "n", "unknown": True, "domain": ["x", "missing"]}, None, "missing"),
    "true": ({"name": "n", "unknown": True, "domain": [True, False]}, True, "true"),
}


@pytest.mark.parametrize("case", VALUES)
def test_values_are_coded_as_in_counts(case: str) -> None:
    attribute, value, label = VALUES[case]
    given = Spec(epsilon=1, attributes=[attribute])
    ready = registrations(make_plan(given, given.tree()))
    piece = ready.trigger({"n": value})["aggregatable_trigger_data"][-1]["key_piece"]
    assert int(piece, 16) == given.attributes[0].labels.index(label) + 1


def test_values_outside_of_the_domain_can_be_other() -> None:
    logs = {**LOGS, "other": ["n"]}
    given = Spec(epsilon=1, attributes=[{"name": "n", "unknown": True, "domain": ["x", "other"]}], logs=logs)
    ready = registrations(make_plan(given, given.tree()))
    assert ready.trigger({"n": "strange"}) == ready.trigger({"n": "other"}) != ready.trigger({"n": "x"})


def test_buckets_of_time_that_a_conversion_knows() -> None:
    logs = {**LOGS, "conversion_columns": {"stay": "seconds"}}
    stay = {"name": "stay", "unknown": True, "bucket": "1h", "buckets": 3}
    given = Spec(epsilon=1, attributes=[stay], logs=logs)
    ready = registrations(make_plan(given, given.tree()))
    assert ready.asks == ("stay",)
    assert [ready.trigger({"stay": s})["aggregatable_trigger_data"][-1]["key_piece"] for s in ("59m", "1h")] == [
        "0x1",
        "0x2",
    ]


BAD: dict[str, tuple[Any, str]] = {
    "strange": (lambda r: r.source({"a": 1, "b": 2, "c": 3}, SITE), "there is no attribute 'c' to register"),
    "unknown": (lambda r: r.source({"a": 1, "b": 2, "day": "mon"}, SITE), "there is no attribute 'day' to register"),
    "missing": (
        lambda r: r.source({"a": 1}, SITE),
        "'b' is missing; an impression has a, b: give it, or leave it empty",
    ),
    "star": (lambda r: r.source({"a": "*", "b": 2}, SITE), "'a' has the value '*', which means all values"),
    "event": (lambda r: r.source({"a": 1, "b": 2}, SITE, event_id=-1), "source_event_id is a whole number from 0"),
    "no day": (lambda r: r.trigger({}), "'day' is missing; a conversion has day"),
    "other day": (
        lambda r: r.trigger({"day": "Monday"}),
        "'day' has no value 'Monday' in its domain, which is mon, tue",
    ),
    "order": (lambda r: r.trigger({"day": "mon"}, deduplication_key=2**64), "deduplication_key is a whole number"),
    "delay": (
        lambda r: r.trigger({"day": "mon", "delay": "0-2d"}),
        "'delay' is the time from impression to",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_mistakes(case: str) -> None:
    ask, message = BAD[case]
    given = spec(unknown=(UNKNOWN, DELAY))
    ready = registrations(make_plan(given, given.tree(counts()), method="equal"))
    with pytest.raises(InputError) as error:
        ask(ready)
    assert str(error.value).startswith(message)


@pytest.mark.parametrize("value", ["0", "32", "1.5", "x", "nan", "inf"])
def test_values_outside_of_a_range(value: str) -> None:
    given = Spec(epsilon=1, attributes=[{"name": "n", "unknown": True, "range": [1, 31]}])
    with pytest.raises(InputError, match=f"'n' has no value '{value}' in its domain, which is 1, 2"):
        registrations(make_plan(given, given.tree())).trigger({"n": value})


UNRULY: list[Any] = [
    *("\ud800", "\x00", "\x1b[2J", "a\nb", "9" * 5000, "1e999999999", "-1e999999999", "1e-999999999", "x" * 100_000),
    *(10**5000, 1e308, float("inf"), float("nan"), b"x", [], {}, [["deep"]], True, None, object(), "3.5", "\u2028"),
]


@pytest.mark.parametrize("value", range(len(UNRULY)))
def test_whatever_an_event_has_is_registered_or_refused_in_one_line(value: int) -> None:
    unruly = UNRULY[value]
    number = {"name": "n", "unknown": True, "range": [1, 5]}
    bucket = {"name": "b", "unknown": True, "bucket": 10, "buckets": 3}
    worth = {"name": "worth", "column": "value", "clip": 10}
    given = Spec(epsilon=4, attributes=[{"name": "a"}, UNKNOWN, number, bucket], measures=[{"name": "count"}, worth])
    ready = registrations(make_plan(given, given.tree({"a": ["x"]}), method="equal"))
    conversion = {"day": "mon", "n": 1, "b": 5, "value": 3}
    asks: list[Callable[[], Json]] = [
        lambda: ready.source({"a": unruly}, SITE),
        lambda: ready.source({"a": "x"}, unruly),
        lambda: ready.source({"a": "x"}, [SITE, unruly]),
        lambda: ready.source({"a": "x"}, SITE, event_id=unruly),
        lambda: ready.source({"a": "x"}, SITE, priority=unruly),
        lambda: ready.trigger(conversion, deduplication_key=unruly),
        lambda: ready.trigger(conversion, conversion_id=unruly),
        *(partial(ready.trigger, {**conversion, name: unruly}) for name in conversion),
    ]
    registered = 0
    for ask in asks:
        try:
            made, refused = json.dumps(ask()), ""
        except InputError as error:
            made, refused = "", str(error)
        assert len(refused) < 300 and refused.isprintable()
        assert refused or parse.source(made).value or parse.trigger(made).value
        registered += not refused
    assert registered < len(asks)


def test_plans_that_the_api_cannot_carry() -> None:
    for options, message in (
        ({"noise": "unit"}, "the API adds noise to sums of contributions"),
        ({"l1": 65_537}, "sum to 65536"),
    ):
        given = spec(**options)
        with pytest.raises(InputError, match=message):
            registrations(make_plan(given, asked(given)[0]))
    quick = spec(unknown=({"name": "delay", "unknown": True, "bucket": "1s", "buckets": 3},))
    with pytest.raises(InputError, match="a filter's window is a second at least"):
        registrations(make_plan(quick, quick.tree(counts()), method="equal")).trigger({})


def test_two_unknown_attributes_have_a_piece_each() -> None:
    given = spec(unknown=(UNKNOWN, HOURS))
    ready = registrations(make_plan(given, asked(given)[0], method="equal"))
    data = ready.trigger({"day": "tue", "hour": 1})["aggregatable_trigger_data"]
    assert [(datum["key_piece"], datum["source_keys"]) for datum in data] == [
        (hex(ready.layout.mark), ["a", "b", "day", "hour"]),
        ("0x8", ["day", "hour"]),
        ("0x2", ["hour"]),
    ]
