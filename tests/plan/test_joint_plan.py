"""Plans of several breakdowns: as good as the best fixed division of the budget, and better than an equal one."""

import json
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
