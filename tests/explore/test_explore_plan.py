"""The Plan tab: its errors are the plan's, its split is the best, its draws are of the noise that it says."""

from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attributary import Tree, prior, rmsre
from attributary.errors import InputError
from attributary.explore.plan_tab import (
    MOST_NODES,
    PlanStart,
    answer,
    best_answer,
    curve,
    draws,
    made_up_start,
    plan_start,
    start_of_plan,
    start_of_prior,
)
from attributary.facts import numerals
from attributary.facts.plan import nodes_in_words
from attributary.plan import Plan, expected, make_plan
from attributary.spec import Spec
from attributary.spec.privacy_unit import UNITS
from support import plans, w3c_devices
from support.effort import examples
from support.explored import Tab, client, closed, session, table, written  # noqa: F401


def number(x: float | str | None) -> float:
    return np.nan if x is None else np.inf if x == "inf" else float(x)


def same(shown: float | str | None, planned: float) -> bool:
    """Whether two figures agree: as people read them to the last digit, and as numbers but for rounding."""
    x = number(shown)
    equal = x == pytest.approx(planned, rel=1e-12, abs=0, nan_ok=True)
    return equal and numerals.percent(x) == numerals.percent(planned)


@settings(max_examples=examples(80), deadline=None)
@given(spec=plans.specs(), seed=st.integers(0, 50), parts=st.lists(st.integers(0, 9), min_size=5, max_size=5))
def test_every_figure_is_that_of_the_plan_with_these_shares(spec: Spec, seed: int, parts: list[int]) -> None:
    spec = spec.model_copy(update={"split_by": None})
    tree, before = plans.asked(spec, seed)
    before = replace(before, protected=True)  # a plan names nodes of a protected prior only
    start = start_of_prior(spec, tree, before, "x")
    share = np.array([*parts[: len(spec.levels) - 1], 3.0])
    found = answer(start, {"share": ",".join(map(str, share.tolist()))})
    row = [level["contribution"] for level in found["levels"]]
    assert sum(row) == found["spent"] <= spec.l1
    given_share = share / share.sum()
    if given_share[spec.first_unknown :].sum() > UNITS[spec.neighbours].unknown_part:
        given_share = np.array(row) / spec.budget  # a plan refuses what the tab's whole numbers keep within bounds
    fixed = dict(zip(spec.levels, given_share.tolist(), strict=True))
    plan = make_plan(spec, tree, before, "equal", share=fixed, compare=False)
    assert tuple(row) == plan.default
    assert found["loss"] == plan.privacy_loss._asdict() and found["privacy"] == plan.privacy_words.sentences
    free = make_plan(spec, tree, before, "equal", compare=False).expected  # beside free splits, as make_plan fixes all
    raw = rmsre.levels(tree, before.mean, plan.variance(tree), spec.tau, weights=weights(spec, before))
    zeros = rmsre.levels(tree, before.mean, before.mean**2, spec.tau, weights=weights(spec, before))
    by_node = expected(plan, tree, before).nodes
    for i, (shown, planned) in enumerate(zip(found["levels"], plan.expected.levels, strict=True)):
        assert same(shown["error"], planned.error.plan) and same(shown["raw"], raw[i])
        assert same(shown["equal"], free.levels[i].error.equal) and same(shown["leaves"], free.levels[i].error.leaves)
        assert (shown["level"], shown["nodes"]) == (planned.level, planned.nodes)
        words, (nodes, _, zero) = nodes_in_words(planned), shown["words"].rpartition("answering 0 everywhere: ")
        here = by_node[tree.level == i]
        if (here >= here.max() * (1 - 1e-12)).sum() > 1:  # equally bad but for rounding: any of them is the worst
            words, nodes = words.partition("worst")[0], nodes.partition("worst")[0]
        assert nodes.removesuffix("; ") == words.removesuffix("; ")
        assert same(shown["zeros"], zeros[i]) and zero.startswith(numerals.percent(zeros[i]))
        assert zero.endswith("(less than under this split)") == bool(zeros[i] < planned.error.plan)
    for name in ("equal", "leaves"):
        assert same(found["tree"][name], getattr(free.tree, name))
    assert same(found["tree"]["error"], plan.expected.tree.plan)
    assert same(found["tree"]["zeros"], np.sqrt(np.nanmean(zeros**2)))


def weights(spec: Spec, before: prior.Prior) -> Any:
    return np.maximum(before.mean, 0) if spec.weights == "counts" else None


def test_targets_are_met_as_by_a_plan_wherever_the_slider_was_before() -> None:
    start = made_up_start((6, 5, 4), 3000)
    what_if, prior_ = start, start.prior
    tree = start.tree
    for campaign, location in ((3.0, 12.0), (2.5, 12.0), (2.0, 9.0), (2.0, 30.0), (4.0, 7.0)):
        spec = start.spec.with_targets({"campaign": campaign / 100, "location": location / 100})
        least = make_plan(spec.with_keys(epsilon="auto"), tree, prior_, compare=False).spec.epsilon
        asked = {"target": f"{campaign},{location},", "epsilon": "4"}
        found = best_answer(what_if, asked)
        assert found["least"] == pytest.approx(least, rel=2e-3)
        plan = make_plan(spec, tree, prior_, compare=False, strict=False)
        if least < 4:
            assert number(found["tree"]) <= plan.expected.tree.plan * 1.002
            errors = [number(level["error"]) for level in found["levels"]]
            assert errors[0] <= campaign / 100 * 1.001 and errors[1] <= location / 100 * 1.001
        seen = curve(what_if, asked)
        assert seen["levels"][0]["target"] == pytest.approx(campaign / 100)
        middle = [level["error"][len(seen["epsilon"]) // 2] for level in seen["levels"]]
        assert middle == [level["error"] for level in answer(what_if, asked)["levels"]]


def test_a_spec_with_epsilon_auto_opens_at_the_least_that_meets_its_targets() -> None:
    made = made_up_start((6, 5, 4), 3000)
    spec = made.spec.with_targets({"campaign": 0.02}).with_keys(epsilon="auto")
    tree = made.tree
    what_if = start_of_prior(spec, tree, made.prior, "x")
    opened = answer(what_if, {})
    plan = make_plan(spec, tree, made.prior, compare=False)
    assert opened["epsilon"] == pytest.approx(plan.spec.epsilon, rel=2e-3)
    assert opened["levels"][0]["error"] == pytest.approx(0.02, rel=2e-3) and opened["levels"][0]["target"] == 0.02
    assert answer(what_if, {"target": "1,,"})["epsilon"] == pytest.approx(2 * plan.spec.epsilon, rel=2e-3)
    assert answer(what_if, {"epsilon": "3"})["epsilon"] == 3
    assert answer(what_if, {"target": ",,"})["epsilon"] == 4  # nothing to find it by


def test_targets_of_half_widths_are_met_as_by_a_plan() -> None:
    made = made_up_start((6, 5, 4), 3000)
    attributes = [{"name": name} for name in made.spec.levels]
    attributes[0] |= {"half_width": 0.05}
    spec = Spec(epsilon="auto", attribute=attributes)
    start = start_of_prior(spec, made.tree, made.prior, "x")
    plan = make_plan(spec, made.tree, made.prior, compare=False)
    opened = answer(start, {})
    assert opened["epsilon"] == pytest.approx(plan.spec.epsilon, rel=2e-3)
    at_four = make_plan(spec.at(4), made.tree, made.prior, compare=False, strict=False)
    assert [level["contribution"] for level in answer(start, {"epsilon": "4"})["levels"]] == list(at_four.default)


def test_a_plan_of_more_levels_than_the_table_says_nothing_of_it(tmp_path: Path) -> None:
    store = session(written(table(["x", "y"]), tmp_path / "e.parquet")).store
    names = ("campaign", "place", "day", "hour")
    spec = Spec(epsilon=2, attribute=[{"name": name} for name in names])
    tree = spec.tree({name: ["x", "y"] for name in names})
    start = plan_start(store, make_plan(spec, tree, prior.none(tree)))
    assert start.spec.levels == names[:3] and start.share is None
    assert len(answer(start, {})["levels"]) == 3


def test_a_spec_with_columns_of_logs_is_planned_for() -> None:
    made = made_up_start((3, 4))
    logs = {"impressions": "i.parquet", "conversions": "c.parquet", "impression_columns": {"campaign": "c"}}
    spec = Spec(epsilon=4, attribute=[{"name": name} for name in made.spec.levels], logs=logs)
    start = start_of_prior(spec, made.tree, made.prior, "x")
    assert answer(start, {"share": "1,1"})["spent"] == spec.l1


@settings(max_examples=examples(40), deadline=None)
@given(spec=plans.specs(), seed=st.integers(0, 50))
def test_the_best_split_is_the_plan_s_and_no_split_does_better(spec: Spec, seed: int) -> None:
    spec = spec.model_copy(update={"split_by": None})
    tree, before = plans.asked(spec, seed)
    what_if = start_of_prior(spec, tree, before, "x")
    plan = make_plan(spec, tree, before, "optimal")
    found = best_answer(what_if, {})
    assert tuple(level["contribution"] for level in found["levels"]) == plan.default
    assert number(found["tree"]) == pytest.approx(plan.expected.tree.plan, rel=1e-9)
    at = answer(what_if, {})
    assert number(at["tree"]["error"]) == pytest.approx(number(found["tree"]))
    assert number(at["tree"]["equal"]) == pytest.approx(plan.expected.tree.equal, rel=1e-9)
    assert number(at["tree"]["leaves"]) == pytest.approx(plan.expected.tree.leaves, rel=1e-9)


def test_what_is_kept_between_questions_changes_no_answer() -> None:
    what_if = made_up_start((6, 9, 5))
    values = {"epsilon": "1 8", "tau": "3 40", "noise": "api unit gaussian", "neighbours": "conversion definition-1"}
    asked = [dict(zip(values, some, strict=True)) for some in product(*(words.split() for words in values.values()))]
    warm = [best_answer(what_if, a) for a in asked + asked[::-1]]
    cold = [best_answer(made_up_start((6, 9, 5)), a) for a in asked]
    assert warm == cold + cold[::-1]
    assert len({str(c) for c in cold}) == len(cold)


def test_more_budget_never_hurts() -> None:
    what_if = made_up_start()
    errors = [
        number(answer(what_if, {"epsilon": str(e), "share": "1,2,3"})["tree"]["error"]) for e in (0.1, 0.5, 1, 4, 20)
    ]
    assert errors == sorted(errors, reverse=True)


@pytest.mark.parametrize("fans", [(1,), (5,), (3, 1, 2), (12, 20, 14), (2, 2, 2, 2, 2, 2), (1, 100_000)])
def test_a_made_up_tree_has_its_fan_outs_and_adds_up(fans: tuple[int, ...]) -> None:
    start = made_up_start(fans, 5_000)
    tree = start.tree
    assert np.diff(tree.offsets).tolist() == np.cumprod(fans).tolist()
    inner = ~tree.is_leaf
    sums = np.bincount(tree.parent[tree.parent >= 0], start.count[tree.parent >= 0], len(tree))
    np.testing.assert_array_equal(sums[inner], start.count[inner])
    assert "made-up" in start.words and start.spec.levels == start.spec.levels[: len(fans)]
    if np.prod(fans) < 5000:
        assert start.count[: fans[0]].sum() == pytest.approx(5_000, rel=0.1)


@pytest.mark.parametrize("fans", [(), (0,), (2,) * 7, (MOST_NODES + 1,), (1000, 1000)])
def test_a_made_up_tree_of_odd_size_is_refused(fans: tuple[int, ...]) -> None:
    with pytest.raises(InputError, match="a made-up tree has"):
        made_up_start(fans)


def test_a_plan_alone_has_its_levels_and_their_sizes() -> None:
    spec = plans.spec(split_by="a")
    tree, before = plans.asked(spec)
    plan = make_plan(spec, tree, before)
    start = start_of_plan(plan)
    assert np.diff(start.tree.offsets).tolist() == np.diff(tree.offsets).tolist()
    assert answer(start, {})["levels"][0]["contribution"] == plan.default[0]
    assert "made-up" in start.words
    assert start.path is not None and start.path(0) == ["a 1"]


def test_estimates_are_what_to_expect(tmp_path: Path) -> None:
    path = written(table(["x", "y"], total=True), tmp_path / "e.parquet")
    store = session(path).store
    start = plan_start(store, None)
    assert start.spec.levels == ("total", "campaign", "place", "day")
    np.testing.assert_array_equal(start.count, table(["x", "y"], total=True).column("estimate").to_numpy())
    assert start.path is not None
    assert [start.path(v) for v in (0, 2, 5)] == [[], ["y"], ["x", "City 2"]]
    spec = Spec(epsilon=2, total=True, attribute=[{"name": n} for n in ("campaign", "place", "day")])
    tree = spec.tree(table(["x", "y"]).select(["campaign", "place", "day"]).slice(12))
    plan = make_plan(spec, tree, prior.none(tree))
    assert plan_start(store, plan).spec.epsilon == 2
    assert plan_start(store, plan).share == tuple(c / 65536 for c in plan.default)
    other = Plan.from_json(plan.to_json().replace("place", "site"))
    assert plan_start(store, other).spec.epsilon == 4  # another question's plan says nothing


def test_names_that_a_spec_refuses_become_numbers(tmp_path: Path) -> None:
    odd = table(["x"]).rename_columns({"campaign": "impressions"})
    start = plan_start(session(written(odd, tmp_path / "e.parquet")).store, None)
    assert start.spec.levels == ("level 1", "level 2", "level 3")


def test_draws_are_of_the_noise_that_they_say() -> None:
    start = made_up_start((4, 5, 6))
    shares = {"share": "0.2,0.3,0.5"}
    row = np.array([level["contribution"] for level in answer(start, shares)["levels"]])
    many = [draws(start, {**shares, "seed": str(seed)}) for seed in range(150)]
    assert many[0] == draws(start, {**shares, "seed": "0"}) != many[1]
    assert many[0]["whole"] and many[0]["nodes"] == 36
    errors = start.spec.epsilon * row / start.spec.l1
    for i, shown in enumerate(many[0]["rows"]):
        raw = np.array([pair[0] - shown["count"] for d in many for pair in d["rows"][i]["draws"]])
        denoised = np.array([pair[1] - shown["count"] for d in many for pair in d["rows"][i]["draws"]])
        assert raw.var() == pytest.approx(2 / errors[shown["level"]] ** 2, rel=0.5)
        assert denoised.var() < raw.var() * 1.02
        assert abs(raw.mean()) < 5 * raw.std() / np.sqrt(len(raw))


def test_draws_show_no_figure_of_a_level_without_a_key() -> None:
    shown = draws(made_up_start((3, 3)), {"share": "0,1"})["rows"]
    assert shown[0]["draws"][0][0] is None and shown[0]["draws"][0][1] is not None
    assert shown[1]["draws"][0][0] is not None


@pytest.mark.parametrize("noise", ["api", "unit"])
def test_draws_of_a_very_large_tree_are_of_a_part_of_it(noise: str) -> None:
    start = made_up_start((1, 400, 400))
    assert not start.sample.whole and len(start.sample.tree) < 60_000
    found = draws(start, {"share": "1,1,1", "noise": noise, "seed": "3"})
    assert not found["whole"] and len(found["rows"]) == 7
    assert found["rows"][0]["count"] == start.sample.count[0]


def test_draws_of_a_tree_whose_leaves_end_early() -> None:
    tree = Tree.from_parents([-1, 0, 0, 1, 1])
    count = np.array([9.0, 5, 4, 2, 3])
    spec = Spec(epsilon=4, attribute=[{"name": n} for n in "abc"])
    start = PlanStart(spec, tree, count, "", lambda v: [str(v)])
    shares = {"share": "100,200,65236"}
    assert [r["name"] for r in draws(start, shares)["rows"]] == ["0", "1", "2", "4", "3"]
    assert number(answer(start, shares)["levels"][1]["raw"]) < np.inf


@pytest.fixture
def tab() -> Tab:
    return client(session())


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"epsilon": "nan"}, "epsilon is a number"),
        ({"epsilon": "-1"}, "epsilon"),
        ({"epsilon": "0"}, "epsilon"),
        ({"epsilon": "65"}, "at most 64"),
        ({"tau": "inf"}, "tau is a number"),
        ({"tau": "0"}, "tau"),
        ({"tau": "x" * 99}, "tau is a number"),
        ({"noise": "loud"}, "noise"),
        ({"neighbours": "all"}, "neighbours"),
        ({"share": "1,2"}, "shares are 3 numbers"),
        ({"share": "1,2,-3"}, "shares are 3 numbers"),
        ({"share": "0,0,0"}, "shares are 3 numbers"),
        ({"share": "1,1,0"}, "cannot be estimated without a key"),
        ({"share": "1,,1"}, "share is a number"),
        ({"fans": "8x-1"}, "children per node are whole numbers"),
        ({"fans": "9999999"}, "at most 1,000,000 nodes"),
        ({"fans": "2x" * 9 + "2"}, "1 to 6 levels"),
        ({"conversions": "many"}, "conversions is a whole number"),
        ({"conversions": "0"}, "1 conversion or more"),
    ],
)
def test_what_a_budget_cannot_be_is_refused(tab: Tab, asked: dict[str, str], words: str) -> None:
    answer = tab.get("/api/plan", params=asked)
    assert answer.status_code == 400 and words in answer.json()["error"]


def test_an_odd_seed_is_refused(tab: Tab) -> None:
    assert "seed is a whole number" in tab.get("/api/draws?seed=x").json()["error"]


def test_the_plan_tab_needs_no_table(tab: Tab) -> None:
    assert tab.get("/api/about").json() == {"table": None}
    assert "no table is open" in tab.get("/api/rows").json()["error"]
    found: Any = tab.get("/api/plan?fans=3x4&conversions=1000&epsilon=2&tau=5&share=1,1").json()
    assert [level["nodes"] for level in found["levels"]] == [3, 12]
    assert [level["contribution"] for level in found["levels"]] == [32768, 32768]
    assert "1,000 conversions" in found["start"]["words"]
    assert len(tab.get("/api/draws?fans=3x4").json()["rows"]) == 4


def test_a_plan_for_w3c_attribution_goes_with_another_epsilon_and_says_its_guarantee() -> None:
    for scheme in "AB":
        asks = w3c_devices.spec(scheme)
        tree = asks.tree(w3c_devices.paths(asks))
        plan = make_plan(asks, tree, share={"campaign": 0.4})
        what_if = start_of_prior(plan.spec, tree, prior.none(tree), "x")
        now, more = (answer(what_if, {"share": "2,3", **moved}) for moved in ({}, {"epsilon": "2"}))
        assert (now["epsilon"], more["epsilon"]) == (1.0, 2.0)
        assert number(more["tree"]["error"]) < number(now["tree"]["error"])
        assert now["privacy"][0].startswith("ε = 1: the reports of one conversion, of ε = 2 per device")
        assert "Individual ε-DP" in now["privacy"][1]
