"""Variants: what is asked otherwise is planned as if it had been asked from the beginning."""

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from attributary import prior, rmsre
from attributary.errors import InputError
from attributary.plan import Plan, expected, make_plan
from attributary.plan.variants import Change, Coarser, what_if
from attributary.prior import from_counts, from_estimates
from attributary.prior.earlier import profile
from attributary.report.page import budget_section
from attributary.spec import Spec
from support.effort import first_of
from support.plans import DAYS, counts, spec

LAND = {f"l{i}": "north" if i % 2 else "south" for i in range(6)}
HALF = dict(zip(DAYS, ("early", "early", "late"), strict=True))
KINDS: dict[str, dict[str, Any]] = {
    "one split": {},
    "a split for each root": {"split_by": "a"},
    "with a total": {"total": True},
    "weighted": {"weights": "counts"},
    "noise on counts": {"noise": "unit"},
    "definition 1": {"neighbours": "definition-1"},
}


def one(change: Change, asks: Spec, table: dict[str, list[Any]], **options: Any) -> Plan:
    tree = asks.tree(table)
    before = from_counts(tree, table, known=[a.name for a in asks.known])
    (found,) = what_if(make_plan(asks, tree, before, **options), tree, before, [change], **options)
    assert found.change is change
    return found.plan


def directly(asks: Spec, table: dict[str, list[Any]], **options: Any) -> Plan:
    tree = asks.tree(table)
    before = from_counts(tree, table, known=[a.name for a in asks.known])
    return make_plan(asks, tree, before, compare=False, **options)


def alike(found: Plan, wanted: Plan) -> None:
    assert found.spec == wanted.spec and found.levels == wanted.levels
    assert found.expected.tree.plan == pytest.approx(wanted.expected.tree.plan, rel=1e-9)
    for ours, theirs in zip(found.expected.levels, wanted.expected.levels, strict=True):
        assert (ours.level, ours.nodes) == (theirs.level, theirs.nodes)
        assert ours.error.plan == pytest.approx(theirs.error.plan, rel=1e-9)
        assert (ours.median or 0) == pytest.approx(theirs.median or 0, rel=1e-9)
    assert found.roots == wanted.roots and found.default == wanted.default


@pytest.mark.parametrize("kind", first_of(KINDS))
@pytest.mark.parametrize("seed", first_of(range(3)))
def test_a_longer_period_is_that_of_counts_in_proportion(kind: str, seed: int) -> None:
    table, asks = counts(seed), spec(**KINDS[kind])
    for times in (0.25, 3.0):
        longer = {**table, "conversions": [times * x for x in table["conversions"]]}
        alike(one(Change("longer", times=times), asks, table), directly(asks, longer))


@pytest.mark.parametrize("kind", first_of(KINDS))
@pytest.mark.parametrize("seed", first_of(range(3)))
def test_a_coarser_attribute_is_as_if_the_table_had_it_alone(kind: str, seed: int) -> None:
    table = counts(seed)
    asks, wanted = spec(**KINDS[kind]), spec(known="ac", **KINDS[kind])
    coarser = {**table, "c": [LAND[label] for label in table["b"]]}
    del coarser["b"]
    alike(one(Change("c", coarser={"b": Coarser("c", LAND)}), asks, table), directly(wanted, coarser))


def test_the_first_attribute_takes_its_split_along() -> None:
    table = counts(1)
    group = {f"r{i}": f"g{i // 2}" for i in range(4)}
    coarser = {"c": [group[label] for label in table["a"]], **table}
    wanted = directly(spec(known="cb", split_by="c"), coarser)
    alike(one(Change("c", coarser={"a": Coarser("c", group)}), spec(split_by="a"), table), wanted)
    less = one(Change("no a", coarser={"a": None}), spec(split_by="a"), table)
    alike(less, directly(spec(known="b"), table))


def test_unknown_attributes_have_the_coarser_labels_as_their_domain() -> None:
    table = counts(2)
    coarser = {**table, "half": [HALF[label] for label in table["day"]]}
    asks = spec(unknown=({"name": "half", "unknown": True, "domain": ["early", "late"]},))
    found = one(Change("half", coarser={"day": Coarser("half", HALF)}), spec(), table)
    alike(found, directly(asks, coarser))
    alike(one(Change("no day", coarser={"day": None}), spec(), table), directly(spec(unknown=()), table))


def test_several_changes_at_once_and_shares_of_levels_that_are_called_otherwise() -> None:
    table, options = counts(3), {"share": {"b": 0.25, "day": 0.5}, "keep": ("a", "b")}
    both = Change("longer", epsilon=2, times=2).also(Change("c", coarser={"b": Coarser("c", LAND)}))
    assert both.words == "longer; c" and both.levels(["a", "b"]) == ["a", "c"]
    coarser = {**table, "c": [LAND[x] for x in table["b"]], "conversions": [2 * x for x in table["conversions"]]}
    wanted = directly(spec(known="ac", epsilon=2), coarser, share={"c": 0.25, "day": 0.5}, keep=("a", "c"))
    alike(one(both, spec(), table, **options), wanted)
    less = one(Change("no b", coarser={"b": None}), spec(), table, **options)
    alike(less, directly(spec(known="a"), table, share={"day": 0.5}, keep=("a",)))


@pytest.mark.parametrize("noise", ["api", "unit"])
def test_another_budget_is_that_of_a_new_plan(noise: str) -> None:
    table = counts(4)
    found = one(Change("epsilon=1", epsilon=1), spec(noise=noise), table)
    wanted = directly(spec(noise=noise, epsilon=1), table)
    assert found.expected.tree.plan == pytest.approx(wanted.expected.tree.plan, rel=1e-4)  # whole contributions
    for ours, theirs in zip(found.expected.levels, wanted.expected.levels, strict=True):
        assert ours.worst is not None and theirs.worst is not None
        assert ours.worst.error == pytest.approx(theirs.worst.error, rel=1e-3) and ours.worst.node == theirs.worst.node


def test_values_and_limits_go_along() -> None:
    rng = np.random.default_rng(5)
    rows = [(f"r{i}", f"l{j}", day) for i in range(3) for j in range(4) for day in DAYS]
    table = {name: [row[k] for row in rows] for k, name in enumerate(("a", "b", "day"))}
    number = rng.poisson(20, len(rows)) + 1
    sums: dict[str, Any] = {"conversions": number, "revenue": number * 7.5, "revenue_beyond": number * 0.5}
    asks = spec(measures=[{"name": "count"}, {"name": "revenue", "clip": 30}])

    def planned(asks: Spec, table: Any, change: Change | None) -> Plan:
        tree = asks.tree(table)
        before, known = from_counts(tree, table), profile(tree, asks, table)
        plan = make_plan(asks, tree, before, profile=known, compare=False)
        return plan if change is None else next(iter(what_if(plan, tree, before, [change], profile=known))).plan

    change = Change("longer, coarser", times=4, coarser={"b": Coarser("c", LAND)})
    fourfold = {name: column * 4 for name, column in sums.items()}
    coarser = pa.table({**table, "c": [LAND[x] for x in table["b"]], **fourfold})
    wanted = spec(known="ac", measures=[{"name": "count"}, {"name": "revenue", "clip": 30}])
    alike(planned(asks, pa.table({**table, **sums}), change), planned(wanted, coarser, None))


def test_estimates_of_an_earlier_report_go_along() -> None:
    table, asks = counts(6), spec()
    tree = asks.tree(table)
    rows = tree.table().drop_columns(["node", "parent", "level"])
    rng = np.random.default_rng(6)
    leaves = np.where(tree.is_leaf, rng.poisson(9, len(tree)), 0)
    variance = tree.sum_up(np.where(tree.is_leaf, rng.uniform(1, 3, len(tree)), 0.0))
    rows = rows.append_column("estimate", [tree.sum_up(leaves).astype(float)]).append_column("variance", [variance])
    before = from_estimates(tree, rows, known=["a", "b"])
    for learn in (False, True):
        plan = make_plan(asks, tree, before, learn=learn)
        (found,) = what_if(plan, tree, before, [Change("c", coarser={"b": Coarser("c", LAND)})])
        assert bool(found.plan.learn) == learn and found.plan.prior.protected
        assert found.plan.prior.conversions == pytest.approx(leaves.sum())


def test_what_cannot_be_changed_is_refused() -> None:
    table, asks = counts(), spec()
    with pytest.raises(InputError, match="'l0' has no c"):
        one(Change("c", coarser={"b": Coarser("c", {})}), asks, table)
    with pytest.raises(InputError, match="there is no attribute 'x' to make coarser; the attributes are a, b, day"):
        one(Change("c", coarser={"x": None}), asks, table)
    tree = asks.tree(table)
    nothing = prior.none(tree)
    plan = make_plan(asks, tree, nothing)
    with pytest.raises(InputError, match="another period needs counts of an earlier one"):
        list(what_if(plan, tree, nothing, [Change("longer", times=2)]))
    with pytest.raises(InputError, match="a length above 0"):
        one(Change("never", times=float("nan")), asks, table)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(3))
def test_the_nodes_of_a_level_are_told_as_they_are(kind: str, seed: int) -> None:
    """Beside a slow pass over the nodes: the median, the worst and the largest ones."""
    table, asks = counts(seed), spec(**KINDS[kind])
    tree = asks.tree(table)
    before = from_counts(tree, table, known=["a", "b"], protected=True)
    plan = make_plan(asks, tree, before)
    error = rmsre.nodes(before.mean, expected(plan, tree, before).variance, asks.tau)
    for i, level in enumerate(plan.expected.levels):
        nodes = [v for v in range(len(tree)) if tree.level[v] == i]
        assert level.median == pytest.approx(np.median([error[v] for v in nodes])) and level.nodes == len(nodes)
        assert level.worst is not None and level.worst.error == max(error[v] for v in nodes)
        sizes = sorted((before.mean[v] for v in nodes), reverse=True)[:2]
        assert [node.count for node in level.largest] == sizes
        for node in (level.worst, *level.largest):
            place = [v for v in nodes if tuple(tree.path(v)) == node.node]
            assert len(place) == 1 and (node.count, node.error) == (before.mean[place[0]], error[place[0]])


@pytest.mark.parametrize("protected", [True, False])
def test_plans_files_and_pages_name_nodes_only_if_the_prior_was_protected(protected: bool) -> None:
    table, asks = counts(1), spec()
    tree = asks.tree(table)
    before = from_counts(tree, table, known=["a", "b"], protected=protected)
    plan = make_plan(asks, tree, before)
    again = Plan.from_json(plan.to_json())
    for told, kept in zip(plan.expected.levels, again.expected.levels, strict=True):
        assert told.worst is not None and told.names == protected and kept == told
        assert protected or (kept.largest, told.worst.node, told.worst.count) == ((), (), 0)
    rows = budget_section(plan.by_measure[0], lambda chart: {})["rows"]
    named = [worst for _, _, worst, *_ in (row["errors"] for row in rows)]
    assert all(("(" in words) == protected for words in named) and all(named)
    assert ("worst: " in plan._repr_html_()) == protected
