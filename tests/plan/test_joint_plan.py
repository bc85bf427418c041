"""Plans of several breakdowns: as good as the best fixed division of the budget, and better than an equal one."""

import json
import re
from itertools import product
from math import sqrt
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from attributary import Spec, Tree
from attributary.denoising.crossed import crossed
from attributary.denoising.joint import meetings_of
from attributary.denoising.meeting import Breakdown
from attributary.errors import InputError
from attributary.facts import breakdowns as of_breakdowns
from attributary.facts.plan import bound_lines
from attributary.plan import Plan, make_plan
from attributary.plan.make import each_asked, solve
from attributary.plan.proposals import Wishes
from attributary.plan.sections import Sharing
from attributary.plan.together import plan_together
from attributary.prior import Prior, from_counts
from attributary.rmsre import tree as rmsre

SETS = [["a", "b"], ["ab", "ac"], ["ab", "c"], ["a", "b", "c"], ["ab", "bc"], ["ab", "b"], ["abc", "c"], ["ab", "a"]]


def case(seed: int, sets: list[str], **keys: Any) -> tuple[Spec, list[Tree], list[Prior]]:
    """A spec of breakdowns, their trees and what is expected, from one generated table of cells."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(2, 9, 3)
    counts = rng.poisson(rng.choice([0.3, 2, 20]) * rng.gamma(0.5, 2, sizes)).ravel()
    cells = {name: index.ravel().astype(str) for name, index in zip("abc", np.indices(sizes), strict=True)}
    spec = Spec(
        epsilon=float(rng.choice([0.5, 2, 8])),
        attribute=[{"name": name} for name in "abc" if any(name in each for each in sets)],
        breakdown=[{"attributes": list(names), "weight": float(rng.choice([1, 1, 3]))} for names in sets],
        **keys,
    )
    table = pa.table({**cells, "conversions": counts, "impressions": np.full(len(counts), 100)})
    trees, priors = [], []
    for part, names in zip(spec.parts, sets, strict=True):
        sums = table.group_by(list(names)).aggregate([("impressions", "sum"), ("conversions", "sum")])
        sums = sums.rename_columns([*names, "impressions", "conversions"]).sort_by([(n, "ascending") for n in names])
        trees.append(part.tree(sums))
        priors.append(from_counts(trees[-1], sums, known=list(names), spec=part))
    return spec, trees, priors


def sharing(plan: Plan) -> Sharing:
    assert plan.sharing is not None
    return plan.sharing


def apart(spec: Spec, trees: list[Tree], priors: list[Prior], parts: list[float] | None = None) -> Plan:
    """The plan of breakdowns that are planned by themselves."""
    return plan_together(spec, each_asked(spec, trees, priors), Wishes("optimal"), solve, join=False, parts=parts)


def joint_error(spec: Spec, trees: list[Tree], priors: list[Prior], rows: list[Any]) -> float:
    """The error of the joint estimate under these contributions, a row of parts of the budget for each breakdown."""
    breakdowns = []
    for tree, row in zip(trees, rows, strict=True):
        level = tree.spread(np.asarray(row)[None] * spec.budget)
        noise = spec.noise_model.variance(level * (spec.epsilon / spec.l1))
        breakdowns.append(Breakdown(tree, np.zeros(len(tree)), noise))
    errors = [
        rmsre(tree, prior.mean, counts.variance, spec.tau)
        for tree, prior, counts in zip(trees, priors, crossed(breakdowns, meetings_of(trees, spec.called)), strict=True)
    ]
    weights = [each.weight for each in spec.breakdowns or ()]
    return sqrt(sum(w * e**2 for w, e in zip(weights, errors, strict=True)) / sum(weights))


@pytest.mark.parametrize("seed", range(8))
def test_no_division_of_a_grid_is_better_by_half_a_percent(seed: int) -> None:
    spec, trees, priors = case(seed, SETS[seed % len(SETS)], guard="none")
    plan = make_plan(spec, trees, priors)
    widths, best = [tree.depth for tree in trees], float("inf")
    steps = 12 if sum(widths) <= 3 else 7
    for parts in product(range(steps + 1), repeat=sum(widths) - 1):
        if sum(parts) <= steps:
            flat = np.array([*parts, steps - sum(parts)]) / steps
            best = min(best, joint_error(spec, trees, priors, np.split(flat, np.cumsum(widths)[:-1])))
    assert plan.error <= 1.005 * best
    rows = [np.array(one.default) / spec.budget for one in plan.breakdowns]
    assert plan.error == pytest.approx(joint_error(spec, trees, priors, rows), rel=1e-6)
    assert plan.error <= min(sharing(plan).apart, sharing(plan).direct) * (1 + 1e-9)


@pytest.mark.parametrize("mean", [0.5, 1, 2, 5])
@pytest.mark.parametrize("stores", [12, 40])
@pytest.mark.parametrize("seed", range(6))
def test_margins_gain_on_an_equal_division_what_their_needs_say(seed: int, stores: int, mean: float) -> None:
    """By themselves, parts in proportion to need^⅓ have an error of (Σ need^⅓)^3/2; equal parts, of 2·√(Σ need).

    So margins of like needs gain little, whatever their counts; those that are joined must not gain less.
    """
    rng = np.random.default_rng(seed)
    months = {12: 12, 40: 6}[stores]
    counts = rng.poisson(rng.gamma(0.5, 2 * mean, (stores, months)))
    spec = Spec(
        epsilon=1,
        attribute=[{"name": "store"}, {"name": "month"}],
        breakdown=[{"attributes": ["store"]}, {"attributes": ["month"]}],
    )
    trees, priors = [], []
    for part, margin in zip(spec.parts, (counts.sum(1), counts.sum(0)), strict=True):
        names = [f"{i:03}" for i in range(len(margin))]
        table = pa.table({part.levels[0]: names, "conversions": margin, "impressions": np.full(len(margin), 100)})
        trees.append(part.tree(table))
        priors.append(from_counts(trees[-1], table, known=list(part.levels), spec=part))
    plan = make_plan(spec, trees, priors)
    need = np.square(sharing(plan).alone)
    gain = 1 - sqrt((need ** (1 / 3)).sum() ** 3 / (4 * need.sum()))
    assert plan.error <= 1.005 * (1 - gain) * sharing(plan).equal
    assert plan.error <= 1.005 * sharing(plan).equal
    if mean >= 1 and stores == 40:
        assert gain > 0.1 and plan.error <= 0.9 * sharing(plan).equal


def test_equal_parts_are_what_the_plan_compares_with() -> None:
    spec, trees, priors = case(3, ["ab", "bc"])
    plan = make_plan(spec, trees, priors)
    assert apart(spec, trees, priors, parts=[0.5, 0.5]).error == pytest.approx(sharing(plan).equal)
    assert apart(spec, trees, priors).error == pytest.approx(sharing(plan).apart)


def test_what_each_costs_is_what_the_others_gain_without_it() -> None:
    spec, trees, priors = case(3, ["a", "b", "c"])
    plan = make_plan(spec, trees, priors)
    rest = Spec(
        epsilon=spec.epsilon,
        attribute=[{"name": "a"}, {"name": "b"}],
        breakdown=[{"attributes": list(each.attributes), "weight": each.weight} for each in spec.breakdowns[:2]],  # type: ignore[index]
    )
    without = make_plan(rest, trees[:2], priors[:2]).error
    weights = [each.weight for each in rest.breakdowns or ()]
    errors = [one.expected.tree.plan for one in plan.breakdowns[:2]]
    now = sqrt(sum(w * e**2 for w, e in zip(weights, errors, strict=True)) / sum(weights))
    assert sharing(plan).costs[2] == pytest.approx(1 - without / now, abs=0.005)


def test_direct_figures_have_the_error_that_the_plan_says() -> None:
    spec, trees, priors = case(2, ["ab", "c"])
    plan = make_plan(spec, trees, priors)
    best = float("inf")
    weights = [each.weight for each in spec.breakdowns or ()]
    for parts in product(np.linspace(0.02, 0.96, 48), repeat=2):
        if sum(parts) < 1:
            shares, total = (np.array(parts), np.array([1 - sum(parts)])), 0.0
            for tree, prior, row, weight in zip(trees, priors, shares, weights, strict=True):
                noise = spec.noise_model.variance(tree.spread(row[None] * spec.budget) * (spec.epsilon / spec.l1))
                total += weight * rmsre(tree, prior.mean, noise, spec.tau) ** 2
            best = min(best, sqrt(total / sum(weights)))
    assert sharing(plan).direct == pytest.approx(best, rel=0.01)


def test_a_breakdown_without_weight_helps_where_it_pays(tmp_path: Any) -> None:
    spec, trees, priors = case(11, ["a", "b", "ab"])
    keys = spec.model_dump(by_alias=True, exclude_none=True)
    keys["breakdown"] = [{"attributes": list(names), "weight": float(len(names) < 2)} for names in ("a", "b", "ab")]
    plan = make_plan(Spec(**keys), trees, priors)
    alone = make_plan(Spec(**{**keys, "breakdown": keys["breakdown"][:2]}), trees[:2], priors[:2])
    assert plan.error <= alone.error * (1 + 1e-4) and sharing(plan).costs[2] == 0
    plan.save(str(tmp_path / "plan.json"))
    assert Plan.load(str(tmp_path / "plan.json")) == plan
    keys["breakdown"] = [{**each, "weight": 0.0} for each in keys["breakdown"]]
    with pytest.raises(InputError, match="one is above 0"):
        Spec(**keys)


@pytest.mark.parametrize("sets", [["ab", "ab"], ["ab", "ba"]])
def test_breakdowns_of_the_same_cells_share_their_keys(sets: list[str]) -> None:
    spec, trees, priors = case(4, ["ab"] if sets[0] == sets[1] else sets, total=True)
    if sets[0] == sets[1]:
        keys = spec.model_dump(by_alias=True, exclude_none=True)
        keys.pop("breakdown", None)
        keys["breakdown"] = [{"attributes": ["a", "b"]}, {"attributes": ["a", "b"], "name": "again"}]
        spec, trees, priors = Spec(**keys), trees * 2, priors * 2
    plan = make_plan(spec, trees, priors)
    asked = [sum(1 for n in one.default if n) for one in plan.breakdowns]
    assert isinstance(plan, Plan) and sum(asked) <= sum(tree.depth for tree in trees) - 2
    assert all(
        len({round(one.expected.levels[level].error.plan, 9) for one in plan.breakdowns}) == 1 for level in (0, 2)
    )


def test_a_plan_written_before_is_read_and_written_the_same() -> None:
    text = (Path(__file__).parent / "several_breakdowns.json").read_text()
    plan = Plan.from_json(text)
    assert plan.names == ("a > b > c", "c") and plan.to_json() == text
    assert plan.fingerprint == ",".join(one.fingerprint for one in plan.breakdowns)


@pytest.mark.parametrize("name", ["default", "roots", "by_measure"])
def test_what_is_of_one_breakdown_is_refused_by_name(name: str) -> None:
    spec, trees, priors = case(4, ["a", "b"])
    plan = make_plan(spec, trees, priors)
    with pytest.raises(InputError, match=r"of several breakdowns \('a', 'b'\), and one is needed here"):
        getattr(plan, name)
    with pytest.raises(InputError, match="of several breakdowns"):
        plan.at(5.0)
    with pytest.raises(InputError, match="a tree for each breakdown, 2; got 1 trees"):
        make_plan(spec, trees[:1], priors[:1])
    assert [one.only.levels for one in plan.breakdowns] == [("a",), ("b",)]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"breakdowns": {}}, "no plans under breakdowns"),
        ({"breakdowns": {"a": 3}}, "is not a plan"),
        ({"alone": [0.1]}, "what each of its 2 breakdowns costs"),
        ({"alone": "x"}, "alone"),
        ({"joined": 1}, "joined"),
        ({"spec": {"epsilon": 2, "attribute": [{"name": "a"}]}}, "one part for each breakdown"),
        ({"format": 2}, "has format 2"),
    ],
)
def test_a_file_of_several_that_was_changed_is_refused(change: dict[str, Any], words: str) -> None:
    data = json.loads((Path(__file__).parent / "several_breakdowns.json").read_text())
    with pytest.raises(InputError, match=words):
        Plan.from_json(json.dumps({**data, **change}))


def test_what_a_large_breakdown_costs_is_told_as_well() -> None:
    """One of more than 300 leaves that is left out leaves nothing unknown that anyone asks for."""
    spec = Spec(
        epsilon=2,
        attribute=[{"name": "a"}, {"name": "b"}],
        breakdown=[{"attributes": ["a", "b"]}, {"attributes": ["b"]}],
    )
    wide, narrow = np.repeat(np.arange(50), 8).astype(str), np.tile(np.arange(8), 50).astype(str)
    table = pa.table({"a": wide, "b": narrow, "impressions": [100] * 400, "conversions": [5] * 400})
    sums = table.group_by("b").aggregate([("impressions", "sum"), ("conversions", "sum")])
    tables = [table, sums.rename_columns(["b", "impressions", "conversions"]).sort_by("b")]
    trees = [part.tree(each) for part, each in zip(spec.parts, tables, strict=True)]
    each = zip(trees, tables, spec.parts, strict=True)
    priors = [from_counts(tree, rows, known=list(part.levels), spec=part) for tree, rows, part in each]
    plan = make_plan(spec, trees, priors)
    alone, now = sharing(plan).alone[1], plan.breakdowns[1].error
    assert sharing(plan).costs[0] == pytest.approx(1 - alone / now, abs=0.005) and sharing(plan).costs[0] > 0.2


@pytest.mark.parametrize("method", ["equal", "leaves", "greedy"])
def test_another_method_gives_the_split_that_it_names(method: str) -> None:
    spec, trees, priors = case(3, ["ab", "bc"])
    plan = make_plan(spec, trees, priors, method)
    for part, tree, prior in zip(plan.breakdowns, trees, priors, strict=True):
        alone = np.array(make_plan(part.spec, tree, prior, method).default) / spec.budget
        row = np.array(part.default) / part.largest_row
        assert row == pytest.approx(alone, abs=1e-3)
    assert not sharing(plan).joined and plan.error == pytest.approx(sharing(plan).apart)
    assert any(f"method {method} gives each breakdown its own split" in line.text for line in of_breakdowns.lines(plan))


def test_fixed_shares_are_a_reason_to_plan_apart() -> None:
    spec, trees, priors = case(3, ["ab", "bc"])
    plan = make_plan(spec, trees, priors, keep=["b"])
    assert not sharing(plan).joined
    assert any(
        "not part of planning (shares of levels are fixed, or" in line.text for line in of_breakdowns.lines(plan)
    )


def test_a_plan_for_what_is_learned_is_refused_as_denoise_refuses_it() -> None:
    with pytest.raises(InputError, match="learned denoises one tree alone"):
        make_plan(*case(3, ["ab", "bc"]), learn=True)


def test_a_breakdown_without_weight_is_compared_with_an_equal_part() -> None:
    spec, trees, priors = case(4, ["ab", "b"], guard="none")
    keys = spec.model_dump(by_alias=True, exclude_none=True)
    keys["breakdown"] = [{"attributes": ["a", "b"], "weight": 1.0}, {"attributes": ["b"], "weight": 0.0}]
    plan = make_plan(Spec(**keys), trees, priors)
    halves = apart(Spec(**keys), trees, priors, parts=[0.5, 0.5])
    assert plan.breakdowns[1].expected.tree.equal == pytest.approx(halves.breakdowns[1].expected.tree.equal)


def test_a_breakdown_that_nothing_tells_is_not_said_to_be_told() -> None:
    spec, trees, priors = case(4, ["a", "b"])
    keys = spec.model_dump(by_alias=True, exclude_none=True)
    keys["breakdown"] = [{"attributes": [name], "weight": float(name == "a")} for name in "ab"]
    plan = make_plan(Spec(**keys), trees, priors)
    said = [line.text for line in of_breakdowns.lines(plan)]
    assert not any("since other levels tell them" in text for text in said)
    assert any("told by no other level: b of b; a weight above 0" in text for text in said)
    assert not any("come no closer" in line.text for line in bound_lines(plan.breakdowns[1]))


@pytest.mark.parametrize("noise", [{}, {"noise": "gaussian", "delta": 1e-6}])
def test_targets_that_are_refused_are_met_with_the_epsilon_that_is_named(noise: dict[str, Any]) -> None:
    spec, trees, priors = case(3, ["ab", "bc"], guard="none", **noise)
    keys = spec.model_dump(by_alias=True, exclude_none=True)
    keys["attribute"] = [{"name": "a"}, {"name": "b", "error": 0.01}, {"name": "c"}]
    spec = Spec(**keys)
    with pytest.raises(InputError, match=f"cannot be met with epsilon = {spec.epsilon:g}, ") as refused:
        make_plan(spec, trees, priors)
    named = max(float(number) for number in re.findall(r"what would meet them: epsilon = ([\d.]+)", str(refused.value)))
    make_plan(spec.at(named * 1.01), trees, priors)
    with pytest.raises(InputError, match="cannot be met"):
        make_plan(spec.at(named * 0.9), trees, priors)


def test_splits_by_root_are_said_to_have_no_registration() -> None:
    spec, trees, priors = case(3, ["ab", "ac"], split_by="a")
    plan = make_plan(spec, trees, priors, "equal")
    said = of_breakdowns.lines(plan.model_copy(update={"method": "optimal"}))
    assert any(line.warning and "`keys` refuses this plan; leave split_by out" in line.text for line in said)
    assert any("asked by each breakdown that has them" in line.text and "sums by a" in line.text for line in said)


VALUES = ({"name": "count"}, {"name": "revenue", "clip": 10})


@pytest.mark.parametrize("measures", [None, VALUES])
@pytest.mark.parametrize("most", [1, 2])
@pytest.mark.parametrize("sets", [["ab", "ac"], ["ac", "b"], ["ac", "bc"], ["a", "b", "c"], ["abc", "a"]])
@pytest.mark.parametrize("kind", ["api", "gaussian"])
def test_one_purchase_takes_of_all_breakdowns_what_neighbouring_logs_differ_by(
    sets: list[str], most: int, measures: Any, kind: str
) -> None:
    """All logs of up to four purchases of an impression, against the same without one of them; c is of a purchase."""
    noise = {"noise": kind, "delta": 1e-6} if kind == "gaussian" else {}
    spec = Spec(
        epsilon=2,
        conversions_per_impression=most,
        attribute=[{"name": "a"}, {"name": "b"}, {"name": "c", "unknown": True, "domain": ["x", "y", "z"]}],
        breakdown=[{"attributes": list(names)} for names in sets],
        **noise,
        **({"measures": measures} if measures else {}),
    )
    rng, trees = np.random.default_rng(1), []
    for part, names in zip(spec.parts, sets, strict=True):
        known = [name for name in names if name != "c"]
        grid = list(product(*(["1", "2"] for _ in known)))
        columns = {name: [row[i] for row in grid] for i, name in enumerate(known)}
        trees.append(part.tree(pa.table({**columns, "impressions": rng.integers(5, 90, len(grid))})))
    plan = make_plan(spec, trees)
    power, largest = 2 if kind == "gaussian" else 1, 0.0
    purchases = list(product("xyz", (0.0, 1.0) if measures else (1.0,)))

    def sums(log: tuple[tuple[str, float], ...]) -> dict[Any, float]:
        """What the impression's first purchases add to each key."""
        made: dict[Any, float] = {}
        for day, value in log[:most]:
            for i, part in enumerate(plan.breakdowns):
                for k, share in enumerate(part.measures):
                    for level, contribution in enumerate(share.default):
                        key = i, k, level, *(day for name in part.levels[: level + 1] if name == "c")
                        amount = 1.0 if part.spec.asked[k].is_count else value
                        made[key] = made.get(key, 0.0) + amount
                        budget[key] = contribution / spec.l1
        return made

    budget: dict[Any, float] = {}
    for number in range(1, most + 2):
        for log in product(purchases, repeat=number):
            before = sums(log)
            for out in range(number):
                after = sums(log[:out] + log[out + 1 :])
                moved = {key: abs(before.get(key, 0) - after.get(key, 0)) for key in {*before, *after}}
                largest = max(largest, sum(x**power * budget[key] for key, x in moved.items()))
    loss = spec.noise_model.loss(largest)
    assert plan.privacy_loss.purchase == pytest.approx(loss, rel=1e-6)
    assert all(part.privacy_loss == plan.privacy_loss for part in plan.breakdowns)
    assert Plan.from_json(plan.to_json()).privacy_loss == plan.privacy_loss
