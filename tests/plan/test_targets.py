"""Targets are met with the least ε and the least error, as a search over a grid finds them, and hold in simulation."""

from itertools import product
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attributary import Measurements, Plan, Prior, Spec, Tree, budget, denoise, make_plan, rmsre
from attributary.errors import InputError
from attributary.facts.plan import bound_lines, keeps_bounds
from attributary.plan.variants import Change, what_if
from attributary.prior import from_counts
from attributary.prior.earlier import profile
from support.bounded import case as bounded_case
from support.effort import examples, first_of

DAY = {"name": "day", "unknown": True, "range": [1, 4]}
NOISE: dict[str, dict[str, Any]] = {
    "api": {},
    "unit": {"noise": "unit"},
    "gaussian": {"noise": "gaussian", "delta": 1e-6},
}


def asked(targets: dict[str, Any] | None = None, **options: Any) -> Spec:
    attributes: list[dict[str, Any]] = [{"name": "a"}, {"name": "b"}, dict(DAY)]
    keys = targets or {}
    attributes = [{**each, **({"error": keys[each["name"]]} if each["name"] in keys else {})} for each in attributes]
    return Spec(**{"epsilon": 4, "tau": 5, **options}, attribute=attributes)


def counted(spec: Spec, seed: int, roots: int = 6) -> tuple[Tree, Prior]:
    """An uneven tree with uneven counts, some of them 0."""
    rng = np.random.default_rng(seed)
    paths = [(f"a{i}", f"b{j}") for i in range(roots) for j in range(rng.integers(1, 9))]
    tree = spec.tree({"a": [a for a, _ in paths], "b": [b for _, b in paths]})
    leaves = rng.poisson(np.exp(rng.normal(1.5, 1.6, int(tree.is_leaf.sum()))))
    return tree, Prior(tree.roll_up(leaves.astype(float)), None, True, np.zeros(len(tree), bool))


def level_errors(spec: Spec, tree: Tree, prior: Prior, share: np.ndarray, epsilon: float) -> np.ndarray:
    """Node by node, of one split for all."""
    noise = spec.at(epsilon).noise_model.variance(tree.spread(share[None] * epsilon, int(spec.total), rest=True))
    return budget.expected(tree, prior.mean, noise, spec.tau).levels


def simplex(levels: int, steps: int) -> np.ndarray:
    return np.array([s for s in product(range(steps + 1), repeat=levels) if sum(s) == steps and s[-1]]) / steps


def around(best: np.ndarray, worth: Any, width: float) -> np.ndarray:
    """A finer and finer grid around the best shares, for as long as that helps."""
    rng = np.random.default_rng(0)
    while width > 1e-3:
        near = np.maximum(best + width * rng.normal(size=(30, len(best))), 0.0)
        near = np.concatenate([best[None], near / near.sum(axis=1, keepdims=True) * best.sum()])
        values = [worth(share) for share in near]
        at = int(np.argmin(values))
        best, width = near[at], width * (0.9 if at else 0.5)
    return best


@pytest.mark.parametrize("noise", first_of(NOISE))
@pytest.mark.parametrize("seed", first_of(range(2)))
def test_the_least_epsilon_is_that_of_a_fine_grid(noise: str, seed: int) -> None:
    targets = [{"a": 0.03, "b": 0.3}, {"a": 0.05, "day": 1.0}][seed]
    spec = asked(targets, epsilon="auto", guard="none", **NOISE[noise])
    tree, prior = counted(spec, seed)
    plan = make_plan(spec, tree, prior, compare=False)
    most = np.array([targets.get(level, 1e9) for level in spec.levels])
    assert (np.array([each.error.plan for each in plan.expected.levels]) <= most * 1.001).all()

    def over(share: np.ndarray) -> float:
        """What would be missed with half a percent less."""
        return float((level_errors(spec, tree, prior, share, plan.spec.epsilon / 1.005) / most).max())

    grid = sorted(simplex(3, 20), key=over)[:2]
    assert min(over(around(share, over, 0.03)) for share in grid) > 1.0


SWEPT: list[dict[str, Any]] = [
    {},
    {"total": True},
    {"weights": "counts"},
    {"noise": "unit"},
    {"neighbours": "definition-1"},
    {"split_by": "a"},
    {"split_by": "a", "total": True},
    {"split_by": "a", "neighbours": "definition-1"},
    {"split_by": "a", "neighbours": "definition-1", "total": True},
]


@pytest.mark.sweep
@pytest.mark.parametrize("kind", SWEPT, ids=str)
@pytest.mark.parametrize("seed", range(5))
def test_the_least_epsilon_is_that_of_a_search(kind: dict[str, Any], seed: int) -> None:
    """Node by node, from a grid or, where roots have splits of their own, from random ones and from the plan's."""
    rng = np.random.default_rng(seed)
    spec = asked(guard=["none", 1.5, 2][seed % 3], **kind)
    tree, prior = counted(spec, seed, roots=int(rng.integers(1, 4)))
    depth, rows = tree.depth, int((tree.level == int(spec.total)).sum()) if spec.split_by else 1
    weights = prior.mean if spec.weights == "counts" else None
    top, first = int(spec.total and rows > 1), spec.first_unknown

    def errors(share: np.ndarray, epsilon: float) -> np.ndarray:
        each = tree.spread(share * epsilon, int(spec.total), rest=True)
        noise = spec.at(epsilon).noise_model.variance(each)
        return budget.expected(tree, prior.mean, noise, spec.tau, weights=weights).levels

    equal = errors(np.full((rows, depth), 1 / depth), spec.epsilon)
    chosen = rng.choice(depth, size=int(rng.integers(1, depth + 1)), replace=False)
    targets = {spec.levels[i]: float(equal[i] * rng.uniform(0.5, 1.3)) for i in chosen}
    plan = make_plan(spec.with_targets(targets).with_keys(epsilon="auto"), tree, prior, compare=False)
    most = np.array([targets.get(level, np.inf) for level in spec.levels])
    assert (np.array([each.error.plan for each in plan.expected.levels]) <= most * 1.001).all()
    less = plan.spec.epsilon / 1.005
    guard = spec.guard_factor * errors(np.full((rows, depth), 1 / depth), less)

    def over(flat: np.ndarray) -> float:
        """What would be missed with half a percent less."""
        share = np.maximum(flat.reshape(rows, depth), 1e-9)
        share[:, :top] = share[:, :top].mean(axis=0)
        share[:, top:] *= (1 - share[:, :top].sum(axis=1) * (top > 0))[:, None] / share[:, top:].sum(axis=1)[:, None]
        if spec.neighbours == "definition-1" and (share[:, first:].sum(axis=1) > 0.5 + 1e-9).any():
            return float("inf")
        with np.errstate(invalid="ignore"):
            return float(np.nanmax(errors(share, less) / np.minimum(most, guard)))

    if rows == 1:
        starts = sorted(simplex(depth, 20 if depth == 3 else 12), key=over)[:3]
    else:
        own = [np.array(plan.roots.get(f"a{i}", plan.default)) / spec.budget for i in range(rows)]
        random = rng.dirichlet(np.full(depth, 0.7), size=(300, rows)).reshape(300, -1)
        starts = [np.concatenate(own), *sorted(random, key=over)[:3]]
    assert min(over(around(np.asarray(share), over, 0.05)) for share in starts) > 1.0


@pytest.mark.parametrize("options", first_of([{}, {"noise": "unit", "epsilon": 0.5}, {"total": True}]), ids=str)
def test_the_rest_goes_to_the_average(options: dict[str, Any]) -> None:
    """Within targets and guard no split of a grid has a smaller error over all levels."""
    spec = asked(guard=1.4, **options)
    tree, prior = counted(spec, 3)
    equal = level_errors(spec, tree, prior, np.full(tree.depth, 1 / tree.depth), spec.epsilon)
    a = spec.levels.index("a")
    most = np.where(np.arange(tree.depth) == a, 0.8, 1.4) * equal
    plan = make_plan(spec.with_targets({"a": float(most[a])}), tree, prior, compare=False)
    assert (np.array([each.error.plan for each in plan.expected.levels]) <= most * 1.001).all()
    assert plan.unbounded is not None and plan.unbounded < plan.expected.tree.plan

    def worth(share: np.ndarray) -> float:
        errors = level_errors(spec, tree, prior, share, spec.epsilon)
        return float(np.sqrt(np.mean(errors**2)) + 1e6 * max(0.0, (errors / most).max() - 1))

    grid = sorted(simplex(tree.depth, 20 if tree.depth == 3 else 12), key=worth)[:2]
    assert plan.expected.tree.plan <= 1.002 * min(worth(around(share, worth, 0.03)) for share in grid)


KINDS: list[dict[str, Any]] = [
    {},
    {"split_by": "a"},
    {"total": True, "split_by": "a"},
    {"neighbours": "definition-1", "split_by": "a"},
    {"weights": "counts"},
    {"noise": "gaussian", "delta": 1e-6, "split_by": "a"},
    {"measures": [{"name": "count"}, {"name": "revenue", "clip": 20}]},
]


@settings(max_examples=examples(12), deadline=None)
@given(kind=st.sampled_from(KINDS), guard=st.sampled_from([1.0, 1.3, 2.0]), seed=st.integers(0, 30))
def test_no_level_is_above_the_guard(kind: dict[str, Any], guard: float, seed: int) -> None:
    """Up to rounding; and no bound makes the average better."""
    spec = asked(guard=guard, **kind)
    tree, prior = counted(spec, seed, roots=3)
    plan = make_plan(spec, tree, prior, compare=False)
    for part in plan.by_measure:
        for level in part.plan.expected.levels:
            assert level.error.plan <= guard * level.error.equal * 1.003
    free = make_plan(spec.with_keys(guard="none"), tree, prior, compare=False).expected.tree.plan
    assert spec.split_by or free <= plan.expected.tree.plan * 1.0001  # roots' own errors are not those of the pool
    assert plan.unbounded is None or plan.unbounded == pytest.approx(free)
    assert Plan.from_json(plan.to_json()) == plan


def test_a_guard_that_does_not_bind_changes_nothing() -> None:
    for kind in KINDS:
        spec = asked(guard=1e6, **kind)
        tree, prior = counted(spec, 1)
        free = make_plan(spec.with_keys(guard="none"), tree, prior, compare=False)
        plan = make_plan(spec, tree, prior, compare=False)
        assert [m.default for m in plan.measures] == [m.default for m in free.measures] and plan.unbounded is None


@pytest.mark.parametrize("kind", [{"split_by": "a"}, {"noise": "unit"}], ids=str)
def test_targets_hold_in_simulation(kind: dict[str, Any]) -> None:
    spec = asked({"a": 0.05, "day": 1.2}, epsilon="auto", **kind)
    tree, prior = counted(spec, 5)
    plan = make_plan(spec, tree, prior, compare=False)
    squared = []
    for draw in range(100):
        measured = Measurements.simulate(plan, tree, prior.mean, rng=np.random.default_rng(draw))
        off = (denoise(tree, measured).count - prior.mean) ** 2
        squared.append(rmsre.levels(tree, prior.mean, off, spec.tau) ** 2)
    mean, error = np.mean(squared, axis=0), np.std(squared, axis=0) / 10
    for level, most in (("a", 0.05), ("day", 1.2)):
        i = spec.levels.index(level)
        assert mean[i] <= most**2 + 2 * error[i]


def test_a_half_width_is_that_of_intervals() -> None:
    """Of counts of at least tau: a root mean square of half-widths relative to the count, never above the target."""
    attributes = [{"name": "a", "half_width": 0.1}, {"name": "b"}, DAY]
    spec = Spec(epsilon="auto", tau=5, attribute=attributes)
    tree, prior = counted(spec, 2)
    plan = make_plan(spec, tree, prior, compare=False)
    low, high = denoise(tree, prior.mean, plan.variance(tree)).interval()
    large = (tree.level == 0) & (prior.mean >= 5)
    half = (high - low)[large] / 2 / prior.mean[large]
    assert 0.08 <= np.sqrt(np.mean(half**2)) <= 0.1001
    with pytest.raises(InputError, match="half_width is for counts of at least tau = 1e\\+07; 'a' has none"):
        make_plan(spec.with_keys(tau=1e7), tree, prior)


@pytest.mark.parametrize("share", [0.05, 0.2])
def test_a_half_width_is_said_to_be_met(share: float) -> None:
    """If the plan was made for it; a plan for equal shares may miss it."""
    attributes = [{"name": "a", "half_width": share}, {"name": "b"}, DAY]
    spec = Spec(epsilon="auto", tau=5, attribute=attributes)
    tree, prior = counted(spec, 2)
    plan = make_plan(spec, tree, prior, compare=False)
    assert keeps_bounds(plan) and bound_lines(plan)[0].text.count(": met;") == 1
    missed = make_plan(plan.spec, tree, prior, "equal", compare=False)
    assert not keeps_bounds(missed) and bound_lines(missed)[0].warning


def test_a_target_below_what_limits_cut_off_says_so() -> None:
    """No ε meets it, and the nearest error is one of noise and limits, not a ratio to nothing."""
    spec = asked({"a": 0.05}, epsilon=2, measures=[{"name": "revenue", "clip": 20}])
    tree, _ = counted(spec, 3)
    rows = {name: [tree.path(leaf)[i] for leaf in tree.leaves] for i, name in enumerate(("a", "b", "day"))}
    number = len(tree.leaves)
    counts = {"conversions": [40] * number, "rank": [1] * number}
    table = pa.table({**rows, **counts, "revenue": [40 * 90.0] * number, "revenue_from": [90.0] * number})
    earlier = profile(tree, spec, table)
    with pytest.raises(InputError, match="what limits cut off is 77.8 % of a, whatever epsilon is") as error:
        make_plan(spec, tree, from_counts(tree, table), profile=earlier, compare=False)
    nearest = float(str(error.value).split("the nearest is a ")[1].split(" %")[0])
    assert 77.7 < nearest < 100 and "what would meet them: higher limits (clip" in str(error.value)


@pytest.mark.parametrize("seed", range(12, 240, 45))
def test_the_guard_is_said_to_be_kept_only_where_it_is(seed: int) -> None:
    """W3C's few contributions may be too few to keep it."""
    made = bounded_case(seed)
    plan = made.plan()
    said = [line.text for line in bound_lines(plan) if line.text.startswith("no level above")]
    levels = [level.error for part in plan.by_measure for level in part.plan.expected.levels]
    kept = all(error.plan <= plan.spec.guard_factor * error.equal * 1.001 for error in levels)
    assert bool(said) == (kept and np.isfinite(plan.spec.guard_factor))


def test_what_cannot_be_met_says_what_would_meet_it() -> None:
    spec = asked({"a": 0.01, "b": 0.05}, epsilon=1, guard="none")
    tree, prior = counted(spec, 4)
    with pytest.raises(InputError, match="cannot be met with epsilon = 1, the nearest is") as error:
        make_plan(spec, tree, prior)
    words = str(error.value)
    needed = float(words.split("what would meet them: epsilon = ")[1].split(",", maxsplit=1)[0])
    assert make_plan(spec.at(needed), tree, prior, compare=False).unbounded is not None
    with pytest.raises(InputError, match="cannot be met"):
        make_plan(spec.at(needed * 0.99), tree, prior)
    longer = float(words.split("a period ")[1].split(" times", maxsplit=1)[0])
    make_plan(spec, tree, prior.times(longer * 1.01), compare=False)
    with pytest.raises(InputError, match="cannot be met"):
        make_plan(spec, tree, prior.times(longer * 0.98))
    assert "no level day" not in words  # it takes as much ε without it
    near = make_plan(spec, tree, prior, strict=False, compare=False)
    assert [e.error.plan for e in near.expected.levels][:2] > [0.01, 0.05]
    with pytest.raises(InputError, match="more than the 64 that a summary report takes"):
        make_plan(asked({"a": 1e-5}, epsilon="auto"), tree, prior)


def test_a_level_left_out_is_offered_where_it_helps() -> None:
    """Under a guard, the days take a part of the budget."""
    spec = asked({"a": 0.01, "b": 0.05}, epsilon=1, guard=1.2)
    tree, prior = counted(spec, 4)
    with pytest.raises(InputError, match="cannot be met with epsilon = 1, the nearest is") as error:
        make_plan(spec, tree, prior)
    words = str(error.value)
    needed, fewer = (float(part.split(",", maxsplit=1)[0]) for part in words.split("epsilon = ")[2:])
    assert fewer < needed and "no level day and epsilon" in words
    targets = [{"name": "a", "error": 0.01}, {"name": "b", "error": 0.05}]
    above = Spec(epsilon="auto", tau=5, guard=1.2, attribute=targets)
    shorter = above.tree(tree.table().take(tree.leaves))
    counts = tree.to_level_order(prior.mean)[: len(shorter)]
    plan = make_plan(above, shorter, Prior(counts, None, True, None), compare=False)
    assert plan.spec.epsilon == pytest.approx(fewer, rel=2e-3)


def test_a_level_that_is_kept_has_half_of_an_equal_share() -> None:
    for kind in KINDS[:4]:
        spec = asked(guard="none", **kind)
        tree, prior = counted(spec, 6)
        plan = make_plan(spec, tree, prior, keep=["a"], compare=False)
        least = spec.budget / len(spec.levels) / 2 - 1
        assert min(row[spec.levels.index("a")] for row in (plan.default, *plan.roots.values())) >= least
        assert plan.guarantees[-1:] == make_plan(spec, tree, prior, compare=False).guarantees[-1:]


def test_learned_plans_keep_to_bounds_as_if_nothing_were_learned() -> None:
    spec = asked({"a": 0.05}, epsilon="auto")
    tree, prior = counted(spec, 7)
    plan = make_plan(spec, tree, prior, learn=True, compare=False)
    unbiased = budget.expected(tree, prior.mean, plan.variance(tree), spec.tau)
    assert unbiased.levels[0] <= 0.05 * 1.001 and plan.expected.levels[0].error.plan <= 0.05 * 1.001


def test_a_target_of_the_total_alone_leaves_the_last_level_its_key() -> None:
    spec = Spec(
        epsilon="auto", guard="none", split_by="a", total={"error": 0.001}, attribute=[{"name": "a"}, dict(DAY)]
    )
    tree = spec.tree({"a": ["a0", "a1"]})
    prior = Prior(tree.roll_up(np.array([400.0, 50, 10, 0, 90, 7, 3, 60])), None, True, np.zeros(len(tree), bool))
    plan = make_plan(spec, tree, prior, compare=False)
    assert plan.expected.levels[0].error.plan <= 0.001 * 1.001
    assert all(row[-1] >= 1 and sum(row) == spec.budget for row in (plan.default, *plan.roots.values()))


@pytest.mark.parametrize("kind", [{}, {"split_by": "a"}, {"split_by": "a", "total": True}], ids=str)
def test_the_least_epsilon_allows_for_levels_to_keep(kind: dict[str, Any]) -> None:
    """More of the budget for a level that nobody has a target for takes more ε, and targets are still met."""
    spec = asked({"a": 0.05}, epsilon="auto", guard="none", **kind)
    tree, prior = counted(spec, 6)
    free, kept = (make_plan(spec, tree, prior, keep=keep, compare=False) for keep in ((), ("b", "day")))
    least = spec.budget / len(spec.levels) / 2 - 1
    for row in (kept.default, *kept.roots.values()):
        assert min(row[spec.levels.index(level)] for level in ("b", "day")) >= least
    assert kept.spec.epsilon >= free.spec.epsilon * 0.999
    level = next(each for each in kept.expected.levels if each.level == "a")
    assert level.error.plan <= 0.05 * 1.001


@pytest.mark.parametrize("split_by", [None, "a"])
def test_targets_of_several_measures_are_met_together(split_by: str | None) -> None:
    """A level's is met by every measure, a measure's over all its levels; with less ε, not both can be."""
    measures = [{"name": "count"}, {"name": "revenue", "clip": 20, "tau": 100, "error": 0.6}]
    options = {} if split_by is None else {"split_by": split_by}
    spec = asked({"a": 0.2}, epsilon="auto", measures=measures, **options)
    tree, prior = counted(spec, 8)
    plan = make_plan(spec, tree, prior, compare=False)
    over = []
    for part in plan.by_measure:
        levels = part.plan.expected.levels
        over.append(levels[spec.levels.index("a")].error.plan / 0.2)
        if part.measure.name == "revenue":
            over.append(part.plan.expected.tree.plan / 0.6)
    assert 0.998 <= max(over) <= 1.001
    with pytest.raises(InputError, match="cannot be met"):
        make_plan(spec.at(plan.spec.epsilon * 0.99), tree, prior, compare=False)


def test_targets_hold_for_what_if() -> None:
    """Each variant has the plan that its own spec, tree and prior would have; targets go with their levels."""
    spec = asked({"a": 0.05, "b": 0.4}, epsilon="auto")
    tree, prior = counted(spec, 9)
    plan = make_plan(spec, tree, prior, compare=False)
    changes = [
        Change("epsilon 9", epsilon=9.0),
        Change("twice as long", times=2.0),
        Change("no b", coarser={"b": None}),
    ]
    more, longer, fewer = (each.plan for each in what_if(plan, tree, prior, changes))
    assert more.measures == make_plan(spec.at(9.0), tree, prior, compare=False).measures
    assert [e.error.plan for e in more.expected.levels][:2] < [0.05 * 1.001, 0.4 * 1.001]
    again = make_plan(plan.spec, tree, prior.times(2.0), compare=False)
    assert longer.measures == again.measures and longer.expected == again.expected
    assert fewer.levels == ("a", "day") and [target.name for target in fewer.spec.targets] == ["a"]
    assert fewer.expected.levels[0].error.plan <= 0.05 * 1.001


def test_a_level_is_kept_in_a_plan_for_what_is_learned_without_bounds() -> None:
    tree = Tree.from_paths({"a": ["x", "x", "y", "y", "y"], "b": list("pqpqr")}, ["a", "b"])
    asked = Spec(epsilon=4, guard="none", attribute=[{"name": "a"}, {"name": "b"}])
    prior = Prior(tree.roll_up(np.array([40.0, 8, 90, 11, 4])), None, True)
    kept = make_plan(asked, tree, prior, keep=["a"], learn=True)
    assert kept.default[0] >= 0.25 * asked.budget
