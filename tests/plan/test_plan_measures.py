"""Limits and measures in plans: as good as a grid search, errors as simulated, files that say it all."""

import json
from itertools import product
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attributary import budget, rmsre
from attributary.denoising import denoise
from attributary.errors import InputError
from attributary.measurements import Measurements
from attributary.noise import dlap_variance
from attributary.plan import Plan, expected, make_plan
from attributary.prior import from_counts, none
from attributary.prior.earlier import profile
from attributary.ratio import ratio
from attributary.spec import Spec
from attributary.tree import Tree
from support.effort import examples
from support.plans import of_values as spec
from support.plans import value_rows as rows


def planned(asked: Spec, table: pa.Table, method: str = "optimal", **more: Any) -> tuple[Plan, Tree, Any]:
    tree = asked.tree(table)
    known = profile(tree, asked, table)
    return make_plan(asked, tree, from_counts(tree, table), method, profile=known, **more), tree, known


def squared(plan: Plan, tree: Tree, known: Any) -> float:
    """The mean over measures of squared errors, summed over roots: what limits and parts are to make small."""
    total = 0.0
    for part in plan.by_measure:
        found = expected(plan, tree, none(tree), profile=known, measure=part.measure.name)
        total += part.measure.weight * float((found.roots**2).sum())
    return total / sum(part.measure.weight for part in plan.by_measure)


@pytest.mark.sweep
@pytest.mark.parametrize(
    ("seed", "repeat", "epsilon", "size"), [(0, 0.05, 4, 300), (1, 0.5, 16, 60), (2, 0.7, 40, 300)]
)
def test_the_choice_is_as_good_as_a_grid_search(seed: int, repeat: float, epsilon: float, size: float) -> None:
    """Over every m, every clip of a finer grid and every split among measures and levels in steps of a fifteenth."""
    table = rows(seed, 1, repeat, size)
    asked = spec(epsilon=epsilon, split_by=None, guard="none")
    plan, tree, known = planned(asked, table)
    ours = squared(plan, tree, known)
    assert ours == pytest.approx(plan.expected.tree.plan**2, rel=1e-6)
    count, revenue = asked.asked
    taus = [part.tau for part in plan.by_measure]
    fifteenths = [s for s in product(range(16), repeat=4) if sum(s) == 15 and s[1] and s[3]]
    base, noise = dlap_variance(epsilon / asked.l1), {}
    for level in {s[:2] for s in fifteenths} | {s[2:] for s in fifteenths}:
        share = np.array(level) / 15 * asked.l1
        with np.errstate(divide="ignore"):
            variance = tree.by_level(base / share**2)
        for measure, tau in zip((count, revenue), taus, strict=True):
            full = known.full(measure)
            noise[measure.name, level] = budget.expected(tree, full, variance, tau).tree ** 2
    best = np.inf
    values = np.repeat(table.column("revenue").to_numpy(), 1)
    for m in range(1, 8):
        kept = table.column("rank").to_numpy() <= m
        gone = known.limited(count, m, 1.0) - known.full(count)
        bias = rmsre.tree(tree, known.full(count), gone**2, taus[0]) ** 2
        for clip in np.geomspace(5, 1500, 60):
            cut = table.set_column(table.column_names.index("revenue"), "revenue", [np.minimum(values, clip) * kept])
            exact = profile(tree, asked, cut).full(revenue) - known.full(revenue)
            both = bias + rmsre.tree(tree, known.full(revenue), exact**2, taus[1]) ** 2
            tries = (noise["count", s[:2]] + clip**2 * noise["revenue", s[2:]] for s in fifteenths)
            best = min(best, (both + m**2 * min(tries)) / 2)
    assert np.sqrt(ours) <= 1.01 * np.sqrt(best)


@settings(max_examples=examples(25), deadline=None)
@given(
    seed=st.integers(0, 9),
    most=st.sampled_from([1, 2, 5, "auto"]),
    clip=st.sampled_from([40, "auto"]),
    measures=st.integers(1, 3),
    total=st.booleans(),
    split=st.booleans(),
    neighbours=st.sampled_from(["conversion", "definition-1"]),
    method=st.sampled_from(["optimal", "greedy", "equal", "leaves"]),
)
def test_every_plan_keeps_to_its_budget_and_to_its_file(
    seed: int, most: Any, clip: Any, measures: int, total: bool, split: bool, neighbours: str, method: str
) -> None:
    asked = spec(most, clip, measures, total=total, split_by="a" if split else None, neighbours=neighbours)
    plan, tree, _ = planned(asked, rows(seed, 4, size=30), method)
    assert neighbours in plan.guarantees
    for label in (None, *plan.roots):
        row = plan.default if label is None else plan.roots[label]
        assert sum(row) * plan.most(label) <= asked.l1
    assert Plan.from_json(plan.to_json()) == plan.to_hand_on
    own = plan.by_measure
    assert [part.measure for part in own] == list(asked.asked)
    assert np.array_equal(sum(part.contribution(tree) for part in own), plan.contribution(tree))
    leaves = tree.is_leaf
    assert all((part.contribution(tree)[leaves] > 0).all() for part in own)
    for part in own:
        name = part.measure.name
        assert np.array_equal(plan.contribution(tree, name), part.contribution(tree))
        assert np.array_equal(plan.variance(tree, measure=name), part.variance(tree))
        assert np.array_equal(plan.budget(tree, name), part.plan.budget(tree))
        for label in (None, *plan.roots):
            assert plan.epsilon(label, name) == part.plan.epsilon(label)
    if len(own) == 1:
        assert np.array_equal(plan.variance(tree), own[0].variance(tree)) and plan.epsilon() == own[0].plan.epsilon()
    else:
        for ask in (lambda: plan.variance(tree), lambda: plan.budget(tree), plan.epsilon):
            with pytest.raises(ValueError, match="this plan has .* and .*name one, measure="):
                ask()
    with pytest.raises(ValueError, match="the plan measures .*; got 'profit'"):
        plan.variance(tree, "profit")
    broken = json.loads(plan.to_json())
    broken["default"][-1] -= 1
    with pytest.raises(InputError, match="sums of its measures' contributions"):
        Plan.from_json(json.dumps(broken))


def test_errors_are_what_a_simulation_has() -> None:
    """bias² + variance of each level agrees with draws, within three standard errors."""
    plan, tree, known = planned(spec(2, 60), rows(3, 2, 0.5))
    draws, rng = 400, np.random.default_rng(0)
    for part in plan.by_measure:
        found, full = (
            expected(plan, tree, none(tree), profile=known, measure=part.measure.name),
            known.full(part.measure),
        )
        limited = known.limited(part.measure, plan.most_of_heads(tree), part.clip)
        assert np.abs(limited - full).max() > 0
        squares = np.empty((draws, tree.depth))
        for i in range(draws):
            noisy = Measurements.simulate(part.plan, tree, limited, rng=rng).noisy
            est = denoise(tree, noisy, part.variance(tree)).count
            off = np.square((est - full) / np.maximum(full, part.tau))
            squares[i] = [off[tree.level == level].mean() for level in range(tree.depth)]
        error = squares.std(axis=0, ddof=1) / np.sqrt(draws)
        assert (np.abs(squares.mean(axis=0) - np.square(found.levels)) <= 3 * error).all()


def test_more_budget_counts_more() -> None:
    chosen = []
    for epsilon in (0.5, 4, 60):
        plan, _, _ = planned(spec(epsilon=epsilon, split_by=None), rows(0, 2, 0.6))
        chosen.append((plan.most(), plan.by_measure[1].clip))
        trade = (plan.tradeoff or {})["conversions per impression"]
        assert sum(t.chosen for t in trade) == 1 and min(trade, key=lambda t: t.error).chosen == 1
    assert chosen == sorted(chosen) and chosen[0][0] < chosen[-1][0] and chosen[0][1] < chosen[-1][1]


def test_roots_have_limits_of_their_own() -> None:
    """Where conversions do repeat, more of them are counted."""
    often, once = rows(0, 1, 0.7), rows(1, 1, 0.01)
    label = once.column_names.index("a")
    both = pa.concat_tables([often, once.set_column(label, "a", [["r9"] * len(once)])])
    plan, _, _ = planned(spec(epsilon=40), both)
    assert plan.most("r0") > plan.most("r9")


def test_what_cannot_be_chosen_is_refused() -> None:
    table = rows()
    for asked, rule in ((spec("auto", 5), "needs a prior with ranks"), (spec(1), "where to clip is chosen from")):
        tree = asked.tree(table)
        with pytest.raises(InputError, match=rule):
            make_plan(asked, tree, from_counts(tree, table))
    with pytest.raises(InputError, match="a per-node plan is for one measure, with limits that the spec gives"):
        planned(spec(), table, "per-node")
    with pytest.raises(ValueError, match="calls for other limits"):
        planned(spec(), table)[0].at(2)


@pytest.mark.parametrize(
    ("change", "rule"),
    [(("drop", "revenue"), "the prior has no column 'revenue'"), (("nan", "revenue"), "'revenue' has others")],
)
def test_a_profile_has_all_its_numbers(change: tuple[str, str], rule: str) -> None:
    table, (how, name) = rows(), change
    place = table.column_names.index(name)
    odd = table.drop_columns([name]) if how == "drop" else table.set_column(place, name, [[float("nan")] * len(table)])
    with pytest.raises(ValueError, match=rule):
        profile(spec().tree(table), spec(), odd)


def test_a_ratio_has_the_interval_of_draws() -> None:
    tree = Tree.from_parents([-1, 0, 0])
    rng, inside, draws = np.random.default_rng(0), 0, 2000
    count, value = np.array([600.0, 200, 400]), np.array([30_000.0, 14_000, 16_000])
    for _ in range(draws):
        counts = denoise(tree, count + rng.laplace(0, 8, 3), np.full(3, 128.0))
        values = denoise(tree, value + rng.laplace(0, 400, 3), np.full(3, 320_000.0))
        found = ratio(values, counts, 0.9)
        inside += int((found.low <= value / count)[1] and (value / count <= found.high)[1])
    assert 0.87 < inside / draws < 0.94
    few = denoise(tree, np.array([5.0, 2, 3]), np.full(3, 128.0))
    assert np.isnan(ratio(values, few).ratio).all()
    with pytest.raises(ValueError, match="between 0 and 1"):
        ratio(values, counts, 1.0)


def test_ratios_of_non_negative_counts_cover() -> None:
    """Beside 300 empty siblings, whose noise is cut at 0, a large count is drawn down by some standard deviations."""
    tree = Tree.from_parents(np.concatenate([[-1], np.zeros(301, np.int64)]))
    truth = np.concatenate([[200.0, 200.0], np.zeros(300)])
    rng, inside, draws = np.random.default_rng(4), 0, 300
    for _ in range(draws):
        noisy, values = (truth * each + rng.laplace(0, 8, 302) for each in (1.0, 5.0))
        found = ratio(*(denoise(tree, x, 128.0, nonnegative=True) for x in (values, noisy)), 0.9)
        assert (found.low[:2] <= found.ratio[:2]).all() and (found.ratio[:2] <= found.high[:2]).all()
        inside += int(found.low[1] <= 5 <= found.high[1])
    assert inside / draws > 0.86
