"""What pages call by a plan: all levels of a conversion, at the charges that were planned; indexes that are reused."""

import json
import re
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest

from attributary import Plan, api, make_plan
from attributary.api.w3c import ConversionOptions, ImpressionOptions
from attributary.api.w3c.attribution_options import deduction
from attributary.api.w3c.index_layout import known_paths, lay_out
from attributary.api.w3c.page_calls import W3cClients, charged
from attributary.browsers import UserAgent, UserAgentSettings, parse_measure_conversion, parse_save_impression
from attributary.errors import InputError
from support.command import attributary
from support.effort import first_of
from support.w3c_devices import START, browse, paths, ready, spec

SHARE = {"campaign": 0.4}
WITH_DAY = {"campaign": 0.2, "location": 0.3}
CASES: list[tuple[str, dict[str, Any], dict[str, float]]] = [
    *((scheme, {}, SHARE) for scheme in "ABC"),
    *((scheme, {"day": True}, WITH_DAY) for scheme in "ABC"),
    ("C", {"split_by": "campaign"}, SHARE),
    ("C", {"day": True, "split_by": "campaign"}, WITH_DAY),
    *((scheme, {"total": True}, {"total": 0.2, "campaign": 0.3}) for scheme in "ABC"),
    *((scheme, {"site": True, "day": True}, {"shop": 0.2, "campaign": 0.4}) for scheme in "ABC"),
    ("B", {"day": True}, {"campaign": 0.5, "location": 0.0}),  # the leaves are measured in batches alone
    ("C", {"day": True}, {"campaign": 0.5, "location": 0.0}),
    ("A", {"day": True}, {"campaign": 0.0, "location": 0.0}),
]


ABOVE: list[tuple[str, dict[str, Any], dict[str, float]]] = [  # batches above indexes
    *((scheme, {"day": True, "above": i}, WITH_DAY) for scheme in "AB" for i in (0, 1)),
    *((scheme, {"day": True, "above": 0, "total": True}, {"total": 0.2, "day": 0.3}) for scheme in "AB"),
    *((scheme, {"site": True, "day": True, "above": 1}, {"shop": 0.2, "campaign": 0.4}) for scheme in "AB"),
    ("B", {"day": True, "above": 1}, {"campaign": 0.0, "day": 0.5}),
]


@pytest.mark.parametrize(("scheme", "given", "share"), [*first_of(CASES), *ABOVE])
def test_every_level_counts_the_same_conversions(
    scheme: str, given: dict[str, Any], share: dict[str, float], tmp_path: Path
) -> None:
    clients, tree = ready(spec(scheme, **given, api={"minimum_batch": 1}), share)
    measured = browse(clients, tree)
    (tmp_path / "results.json").write_text(json.dumps(measured.results()))
    counts = api.answer(clients.plan, [str(tmp_path / "results.json")], tree).measures["count"]
    truth = tree.roll_up(measured.leaves)
    asked = clients.plan.budget(tree) > 0
    assert asked.any() and truth.sum() > 100
    np.testing.assert_array_equal(
        counts.noisy[asked & (counts.variance < np.inf)], truth[asked & (counts.variance < np.inf)]
    )
    assert (truth[asked & (counts.variance == np.inf)] == 0).all()  # batches without any report
    assert measured.partial == 0  # although devices convert more often than the budget allows


def test_a_split_that_does_not_exhaust_the_budget_loses_levels_one_by_one() -> None:
    clients, tree = ready(spec("A", day=True), WITH_DAY)
    greedy = clients.plan.model_copy(update={"spec": clients.plan.spec.at(1.3)})
    grants = spec("A", day=True).api
    assert grants is not None and greedy.spec.api is not None and greedy.spec.api.site_epsilon == 2.6
    given = greedy.spec.model_copy(update={"api": grants})
    share = greedy.measures[0].model_copy(update={"default": (260_000, 390_000, 650_000)})
    small = greedy.model_copy(update={"spec": given, "measures": (share,)})
    assert browse(W3cClients(small), tree).partial > 0


@pytest.mark.parametrize(("scheme", "above"), [("A", 0), ("B", 1), *((scheme, 2) for scheme in "ABC")])
@pytest.mark.parametrize("times", first_of([1, 2, 3, 7]))
def test_what_is_charged_is_what_was_planned(scheme: str, above: int, times: int) -> None:
    """Also by levels that have attributes of the conversion alone: each is a part of every conversion's ε."""
    api_ = {"site_epsilon": 1.7, "conversions_per_epoch": times, "others": 0.3}
    clients, _ = ready(spec(scheme, day=True, above=above, api=api_), WITH_DAY)
    charged = sum(round(call.options.epsilon * 1e6) for call in clients.report_calls({"day": "mon"})) / 1e6
    assert charged == pytest.approx(clients.plan.privacy_loss.conversion, abs=1e-6)
    agent = UserAgent(UserAgentSettings(site_budget=1_400_000, activation_seconds=None, histogram_size=1000), Random(1))
    for options in clients.saved_impressions({"campaign": "campaign1", "location": "location2"}, START):
        agent.save_impression(options, "news.example", START)
    for number in range(times):
        for call in clients.report_calls({"day": "mon"}):
            assert any(agent.measure_conversion(call.options, "shop.example", START + 10 + number))
    (left,) = agent.ledgers.site.values()
    assert 0 <= left < 16 * times  # µε: fewer than any report takes
    assert not any(
        any(agent.measure_conversion(call.options, "shop.example", START + 99))
        for call in clients.report_calls({"day": "mon"})
    )


@pytest.mark.parametrize("value", [1, 7, 10, 15])
def test_an_epsilon_is_charged_to_the_last_millionth(value: int) -> None:
    rng = Random(value)
    for micro in [1, 10, 333_333, 1_000_000, *(rng.randrange(1, 5_000_000) for _ in range(300))]:
        options = charged(ConversionOptions("https://a.example", 3, value=value, max_value=value), micro)
        assert deduction(2 * value, options) == micro
        assert options.epsilon == pytest.approx(micro / 1e6, rel=1e-12)


@pytest.mark.parametrize("scheme", "ABC")
def test_scripts_and_headers_say_the_same(scheme: str) -> None:
    clients, _ = ready(spec(scheme, day=True), WITH_DAY)
    values, now = {"campaign": "campaign1", "location": "location2"}, START + 77.5
    saved = clients.impression(values, destination="https://www.shop.example", time=now)
    scripts, headers = _parsed(saved.lines, "saveImpression", "Save-Impression", now)
    read = [parse_save_impression(header) for header in headers]
    assert [ImpressionOptions.from_json(script) for script in scripts] == read
    assert read == clients.saved_impressions(values, now, ["shop.example"])
    told = clients.conversion({"day": "tue"})
    scripts, headers = _parsed(told.lines, "measureConversion", "Measure-Conversion", now)
    measured = [parse_measure_conversion(header, "https://shop.example/x")[0] for header in headers]
    assert measured == [ConversionOptions.from_json(script) for script in scripts]
    assert measured == [call.options for call in clients.report_calls({"day": "tue"})]
    assert sum(each.epsilon for each in measured) == pytest.approx(1.0)


def _parsed(lines: tuple[str, ...], call: str, header: str, now: float) -> tuple[list[Any], list[str]]:
    """The options of all calls, as a browser's script would make them, and the headers."""
    scripts = []
    for line in lines:
        found = re.match(rf"(?:for \(let i = 0; i < (\d+); i\+\+\) )?navigator\.attribution\.{call}\((.*)\);", line)
        if found:
            text = found[2].replace("Math.floor(Date.now() / 1000)", str(int(now)))
            text = re.sub(
                r"(\d+) \* \((\d+) - (\d+)\) \+ (\d+)",
                lambda m: str(int(m[1]) * (int(m[2]) - int(m[3])) + int(m[4])),
                text,
            )
            scripts += [json.loads(text)] * int(found[1] or 1)
    return scripts, [line.removeprefix(f"{header}: ") for line in lines if line.startswith(header)]


def test_an_epsilon_that_no_header_can_state_is_left_to_scripts() -> None:
    clients, _ = ready(spec("A", api={"conversions_per_epoch": 3}), SHARE)
    assert clients.plan.layout is not None
    message = clients.conversion({})
    assert [line.split(":")[0] for line in message.lines if "epsilon=" in line] == ["Measure-Conversion"]
    assert (
        f"no header for campaign-v{clients.plan.layout.version}: epsilon has at most three decimals" in message.notes[0]
    )


# Layout


def test_nodes_keep_their_indexes_new_ones_grow_and_ended_ones_give_theirs_away() -> None:
    asks = spec("B", api={"histogram": 12})
    clients, _ = ready(asks, SHARE, first=2, second=4)  # 2 + 8 of 12 indexes
    before = clients.plan.layout
    assert before is not None and before.version == int(clients.plan.fingerprint[:4], 16) * 4096 + 1
    grown = clients.with_tree(asks.tree({"campaign": ["campaign0", "new"], "location": ["location0", "x"]}))
    layout = grown.plan.layout
    assert layout is not None and layout.version == before.version and grown.changed
    assert layout.spaces["all"] == (*before.spaces["all"], ("new",), ("new", "x"))
    assert "12 indexes instead of 10" in grown.notes[0]
    reused = grown.with_tree(asks.tree({"campaign": ["new", "newer"], "location": ["x", "y"]}))
    last = reused.plan.layout
    assert last is not None and (last.version, last.start) == (before.version + 1, before.start)
    assert "2 indexes of nodes that have ended are used again" in reused.notes[0]
    assert set(last.spaces["all"]) >= {("new",), ("new", "x"), ("newer",), ("newer", "y")}
    assert len(last.spaces["all"]) == 12
    same = reused.with_tree(asks.tree({"campaign": ["new"], "location": ["x"]}))
    assert same.plan.layout == last and not same.changed
    old, new = (each.saved_impressions({"campaign": "new", "location": "x"}, START) for each in (grown, reused))
    assert [each.histogram_index for each in old] == [each.histogram_index for each in new]
    assert not {each.match_value for each in old} & {each.match_value for each in new}


@pytest.mark.parametrize("above", [0, 1, 2])
def test_nodes_are_numbered_by_some_of_their_labels(above: int) -> None:
    """Level by level, and by first appearance; and a tree has the same leaves in whatever order."""
    asks = spec("A", day=True, above=above, total=True)
    tree = asks.tree({"campaign": ["x", "y", "y", "z"], "location": ["1", "1", "2", "3"]})
    for names in ({"campaign", "location"}, {"day"}, set(tree.attributes), set[str]()):
        for level, found in enumerate(tree.numbered(names)):
            nodes = range(*tree.slice(level).indices(len(tree)))
            each = [zip(tree.attributes, tree.path(node), strict=False) for node in nodes]
            labels = [tuple(label for name, label in path if name in names) for path in each]
            assert found.tolist() == [list(dict.fromkeys(labels)).index(path) for path in labels]
    usual = spec("A", day=True, total=True).tree({"campaign": ["x", "y", "y", "z"], "location": ["1", "1", "2", "3"]})
    assert {frozenset(tree.path(leaf)) for leaf in tree.leaves} == {frozenset(usual.path(n)) for n in usual.leaves}


def test_levels_of_the_same_batches_share_a_report() -> None:
    """Of day > campaign > location: one report in B, and the three of A; a day's histogram has one index."""
    asks = spec("B", day=True, above=0)
    clients, tree = ready(asks, {"day": 0.25, "campaign": 0.25})
    (call,) = clients.report_calls({"day": "tue"})
    assert call.batch == {"day": "tue"} and len(call.options.match_values) == 3
    assert call.options.histogram_size == 1 + 4 + 20 and len(tree) == 2 * 25
    each = ready(spec("A", day=True, above=0), {"day": 0.25, "campaign": 0.25})[0].report_calls({"day": "tue"})
    assert [one.options.histogram_size for one in each] == [1, 4, 20]
    assert all(one.batch == call.batch for one in each)
    between = ready(spec("B", day=True, above=1), WITH_DAY)[0].report_calls({"day": "tue"})
    assert [(one.batch, len(one.options.match_values)) for one in between] == [({}, 1), (call.batch, 2)]


def test_too_many_nodes_are_refused_with_the_remedy() -> None:
    asks = spec("B", api={"histogram": 12})
    clients, _ = ready(asks, SHARE, first=2, second=4)
    with pytest.raises(InputError, match="need an index each, and a histogram has 12: leave nodes"):
        clients.with_tree(asks.tree(paths(asks, 3, 4)))
    with pytest.raises(InputError, match="needs 40 indexes of a histogram, and browsers take 12: raise histogram"):
        ready(asks, SHARE, first=8, second=4)


def test_nodes_without_an_index_are_refused() -> None:
    clients, tree = ready(spec("C"), SHARE)
    with pytest.raises(InputError, match="other, x has no index yet|other has no index yet"):
        clients.saved_impressions({"campaign": "other", "location": "x"}, START)
    with pytest.raises(InputError, match="priorities count"):
        ready(spec("B"), SHARE)[0].saved_impressions({"campaign": "campaign1", "location": "location1"}, 0)
    bare = api.clients(make_plan(spec("C"), tree))
    with pytest.raises(InputError, match="no indexes yet"):
        bare.impression({"campaign": "campaign1", "location": "location1"})


def test_each_site_has_indexes_of_its_own() -> None:
    clients, _ = ready(spec("B", site=True), {"shop": 0.3})
    layout = clients.plan.layout
    assert layout is not None
    assert {space: len(nodes) for space, nodes in layout.spaces.items()} == {
        f"shop{i}.example all": 6 for i in range(4)
    }
    (first, *_), (second, *_) = (
        clients.saved_impressions({"shop": f"shop{i}.example", "campaign": "campaign0"}, START) for i in (0, 3)
    )
    assert first.histogram_index == second.histogram_index
    message = clients.impression({"shop": "shop2.example", "campaign": "campaign0"}, time=START)
    assert '"conversionSites": ["shop2.example"]' in message.lines[0]


def test_paths_of_levels_are_those_of_the_tree() -> None:
    asks = spec("A", day=True, total=True)
    tree = asks.tree(paths(asks, 3, 2))
    for level in range(3):
        nodes = range(*tree.slice(level).indices(len(tree)))
        assert known_paths(asks, tree, level) == [tuple(tree.path(node)) for node in nodes]
    made, _ = lay_out(make_plan(asks, tree, share={"total": 0.2, "campaign": 0.2, "location": 0.2}), tree, START)
    assert {name: len(nodes) for name, nodes in made.spaces.items()} == {
        "total": 1,
        "campaign": 3,
        "location": 6,
    }


def test_the_command_writes_indexes_into_the_plan(tmp_path: Path) -> None:
    asks = spec("B")
    tree = asks.tree(paths(asks))
    path, table = str(tmp_path / "plan.json"), tmp_path / "impressions.csv"
    make_plan(asks, tree, share=SHARE).save(path)
    table.write_text("campaign,location\n" + "".join(f"campaign{i},l\n" for i in range(3)))
    assert "nodes have no indexes yet" in attributary("keys", path).output
    assert (
        "give a table of those that run"
        in attributary("keys", path, "--impression", "campaign=a,location=b", code=2).output
    )
    folder = tmp_path / "out"
    said = attributary(
        "keys", path, "--impressions", table, "-o", folder, "--impression", "campaign=campaign1,location=l"
    )
    assert "6 indexes" in said.output and "navigator.attribution.saveImpression" in said.stdout
    layout = Plan.load(path).layout
    assert layout is not None and f"version {layout.version} of the" in attributary("keys", path).output
    assert len(layout.spaces["all"]) == 6
    assert (folder / "indexes.csv").read_text().splitlines()[:2] == [
        "space,index,match_value,campaign,location",
        "all,0,836829201,campaign0,",
    ]
    assert "is not an option of the W3C" in attributary("keys", path, "--bits", "campaign=4", code=2).output
