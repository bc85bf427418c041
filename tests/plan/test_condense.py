"""A plan from classes, made part by part, is the plan of the tree held in memory."""

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attributary import Tree
from attributary.errors import InputError
from attributary.plan import make, make_plan
from attributary.plan.condense import Condensed, condense, merged
from attributary.prior import Prior, from_counts, none
from attributary.spec import Spec
from support.condensed import check_same
from support.effort import examples
from support.plans import counts, of_values, spec, specs
from support.plans import value_rows as rows


def part_of(asked: Spec, table: dict[str, list[Any]], here: Sequence[int], seen: int | None) -> tuple[Tree, Prior]:
    """The tree of some rows, and its prior: roots from number `seen` on are new; None: there is no prior."""
    tree = asked.tree({name: [column[i] for i in here] for name, column in table.items()})
    if seen is None:
        return tree, none(tree)
    rows = [i for i in here if int(table["a"][i][1:]) < seen]
    for attribute in asked.unknown:
        rows = [i for i in rows if str(table[attribute.name][i]) in map(str, attribute.labels)]
    if not rows:
        return tree, replace(none(tree), new=np.ones(len(tree), bool))
    earlier = {name: [column[i] for i in rows] for name, column in table.items()}
    known = [a.name for a in asked.known]
    return tree, from_counts(tree, earlier, known=known, spec=asked if asked.has_limits else None, part=True)


def of_whole(asked: Spec, table: dict[str, list[Any]], seen: int | None) -> tuple[Tree, Prior]:
    return part_of(asked, table, range(len(table["a"])), seen)


def in_parts(asked: Spec, table: dict[str, list[Any]], part: Sequence[int], seen: int | None) -> list[Condensed]:
    """The classes of parts of roots; `part` is that of each root."""
    number = np.array([part[int(label[1:])] for label in table["a"]])
    each = (np.flatnonzero(number == k).tolist() for k in sorted(set(number.tolist())))
    return [condense(*part_of(asked, table, here, seen), asked.split_by is not None) for here in each]


def planned(asked: Spec, tree: Tree, prior: Prior, **options: Any) -> Any:
    try:
        return json.loads(make_plan(asked, tree, prior, profile=prior.profile, **options).to_json())
    except InputError as error:
        return str(error)


@settings(max_examples=examples(60), deadline=None)
@given(asked=specs(), data=st.data())
def test_the_plan_of_classes_is_that_of_the_tree(asked: Spec, data: st.DataObject) -> None:
    if not asked.known:
        return
    seen, roots = data.draw(st.sampled_from([None, 0, 3, 6])), 6
    table = counts(data.draw(st.integers(0, 3)), roots)
    if asked.weights == "counts" and not seen:
        seen = 3
    part = data.draw(st.lists(st.integers(0, 2), min_size=roots, max_size=roots)) if not asked.total else [0] * roots
    method = data.draw(st.sampled_from(["optimal", "greedy", "equal", "leaves"]))
    tree, prior = merged(in_parts(asked, table, part, seen)).forest
    whole = of_whole(asked, table, seen)
    assert tree.number.sum() == len(whole[0])
    check_same(planned(asked, tree, prior, method=method), planned(asked, *whole, method=method))


@settings(max_examples=examples(25), deadline=None)
@given(data=st.data())
def test_bounds_hold_for_classes_as_for_nodes(data: st.DataObject) -> None:
    target: st.SearchStrategy[dict[str, Any]] = st.sampled_from(
        [{}, {"error": 0.3}, {"error": "equal"}, {"half_width": 0.5}]
    )
    options: dict[str, Any] = data.draw(
        st.sampled_from([{}, {"split_by": "a"}, {"epsilon": "auto"}, {"total": True}, {"guard": "none"}])
    )
    attributes = [{"name": name, **data.draw(target)} for name in "ab"]
    day: dict[str, Any] = {"name": "day", "unknown": True, "domain": ["mon", "tue", "wed"]}
    asked = Spec(**{"epsilon": 4, "tau": 5, **options}, attribute=[*attributes, {**day, "error": 3.0}])
    table = counts(data.draw(st.integers(0, 5)), 5)
    part = data.draw(st.lists(st.integers(0, 2), min_size=5, max_size=5)) if not asked.total else [0] * 5
    tree, prior = merged(in_parts(asked, table, part, 4)).forest
    check_same(planned(asked, tree, prior, strict=False), planned(asked, *of_whole(asked, table, 4), strict=False))


@pytest.mark.parametrize(
    "more", [{}, {"split_by": None}, {"most": 2}, {"clip": 200.0}, {"measures": 3}, {"measures": 1}]
)
def test_limits_are_chosen_by_classes_as_by_nodes(more: dict[str, Any]) -> None:
    asked, table = of_values(**more), rows(seed=2, roots=5, size=60)
    known, names = [a.name for a in asked.known], np.array(table.column("a").to_pylist())

    def one(here: Any) -> tuple[Tree, Prior]:
        some = table.filter(here)
        tree = asked.tree(some)
        return tree, from_counts(tree, some, known=known, spec=asked)

    blocks = [np.isin(names, [f"r{i}" for i in some]) for some in ((0, 3), (1,), (2, 4))]
    tree, prior = merged([condense(*one(here), asked.split_by is not None) for here in blocks]).forest
    check_same(planned(asked, tree, prior), planned(asked, *one(np.ones(len(names), bool))))


@pytest.mark.parametrize("split_by", [None, "a"])
@pytest.mark.parametrize("total", [False, True])
def test_parts_may_be_merged_in_any_order(split_by: str | None, total: bool) -> None:
    asked, table = spec(split_by=split_by, total=total), counts(1, 9)
    seen = 9 if total else 7
    whole = of_whole(asked, table, seen)
    number = np.array([int(label[1:]) % 4 for label in table["a"]])
    parts = [part_of(asked, table, np.flatnonzero(number == k).tolist(), seen) for k in range(4)]
    a, b, c, d = (condense(*part, split_by is not None, above=int(total)) for part in parts)
    one, other = merged([merged([a, b]), merged([c, d])]), merged([d, merged([merged([c, b]), a])])
    order = [each.nodes.column("id").to_numpy().argsort() for each in (one, other)]
    assert one.nodes.take(order[0]).equals(other.nodes.take(order[1]))
    tree, prior = one.forest
    check_same(planned(asked, tree, prior), planned(asked, *whole))
    assert tree.number.sum() == len(whole[0]) and (prior.gone, prior.lost) == (whole[1].gone, whole[1].lost)


def test_a_large_tree_is_planned_by_its_classes(monkeypatch: pytest.MonkeyPatch) -> None:
    asked, table = of_values(), rows(seed=3)
    tree = asked.tree(table)
    prior = from_counts(tree, table, spec=asked)
    one = planned(asked, tree, prior)
    condensed: list[int] = []
    monkeypatch.setattr(make, "MANY", 2)
    monkeypatch.setattr(make, "condense", lambda *known: condensed.append(len(tree)) or condense(*known))
    check_same(planned(asked, tree, prior), one)
    assert condensed


def test_what_needs_nodes_is_refused() -> None:
    asked = spec()
    tree, prior = merged(in_parts(asked, counts(), [0, 0, 0, 0], 4)).forest
    with pytest.raises(InputError, match="condensed tree"):
        make_plan(asked, tree, prior, "per-node")
    with pytest.raises(TypeError, match="stand for others"):
        tree.sum_up(prior.mean)


def test_roots_that_are_alike_are_one_node() -> None:
    asked = spec(known="a", unknown=())
    table = {"a": [f"r{i}" for i in range(5000)], "conversions": [i % 7 for i in range(5000)]}
    tree = asked.tree(table)
    little, prior = condense(tree, from_counts(tree, table)).forest
    assert len(little) == 7 and sorted(prior.mean.tolist()) == list(range(7)) and little.number.sum() == 5000
    check_same(planned(asked, little, prior), planned(asked, tree, from_counts(tree, table)))
