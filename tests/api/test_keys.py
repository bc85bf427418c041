"""Keys: each node has one, it can be found again, and its bits are where the layout says."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from attributary import Tree
from attributary.api.ara.keys.key_layout import (
    BITS,
    bits,
    domain,
    hashed,
    layout,
    layout_of,
    tree_keys,
    with_mark,
)
from attributary.api.ara.service.summary_report import Index
from attributary.errors import InputError
from attributary.logs.labels import MISSING
from attributary.pipeline.read_prior import queried_tree
from attributary.plan import Plan, make_plan
from attributary.plan.sections import Bits
from attributary.spec import Spec
from support.keyed import changed, plans, whole
from support.plans import asked, spec


@settings(deadline=None)
@given(plans(), st.data())
def test_every_node_has_its_own_key_made_of_its_path(asks: tuple[Plan, Tree], data: st.DataObject) -> None:
    plan, tree = asks
    widths = {a.name: data.draw(st.integers(20, 60)) for a in plan.spec.known[:2] if data.draw(st.booleans())}
    plan = changed(plan, keys=bits(plan, widths))
    found = layout(plan)
    keys = tree_keys(found, tree)
    one_by_one = [found.key(int(tree.level[v]), tree.path(v)) for v in range(len(tree))]
    assert whole(keys) == one_by_one and len(set(one_by_one)) == len(tree)
    assert all(0 < key < 2**BITS for key in one_by_one)


@settings(deadline=None)
@given(plans())
def test_fields_share_no_bits_and_fill_what_they_take(asks: tuple[Plan, Tree]) -> None:
    found = layout(asks[0])
    fields = [(field.bits, field.shift) for field in found.fields] + [(found.tag_bits, found.tag_shift)]
    masks = [((1 << bits) - 1) << shift for bits, shift in fields]
    together = 0
    for mask in masks:
        assert not together & mask
        together |= mask
    assert together == 2 ** (found.bits - 17) - 1 and found.bits <= BITS
    assert not together & (0x1FFFF << 111) and found.mark >> 112 << 112 == found.mark, "the plan's mark is on top"
    assert sum(int(line[1]) for line in found.table()[1:]) == BITS


@settings(deadline=None)
@given(plans())
def test_keys_are_found_again(asks: tuple[Plan, Tree]) -> None:
    plan, tree = asks
    keys = tree_keys(layout(plan), tree)
    order = np.random.default_rng(len(tree)).permutation(len(tree))
    strange = np.array([[7, 7], [2**63, 1], [0, 0]], np.uint64)
    assert Index.of(keys).find(keys).tolist() == list(range(len(tree)))
    assert Index.of(keys).find(np.concatenate([strange, keys[order]])).tolist() == [-1, -1, -1, *order.tolist()]


PAIRS = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3) | st.integers(2**64 - 2, 2**64 - 1)), unique=True)


@given(PAIRS, PAIRS)
def test_finding_is_looking_up(keys: list[tuple[int, int]], wanted: list[tuple[int, int]]) -> None:
    place = {key: i for i, key in enumerate(keys)}
    assert Index.of(_array(keys)).find(_array(wanted)).tolist() == [place.get(key, -1) for key in wanted]


def _array(pairs: list[tuple[int, int]]) -> NDArray[np.uint64]:
    return np.array(pairs, np.uint64).reshape(-1, 2)


def test_hashed_codes_never_change() -> None:
    """Keys that were registered must be found for years: these are SHA-256's, not ours."""
    assert hashed("campaign", "123", 47) == 41890936910658
    assert hashed("campaign", "missing", 8) == 80
    assert {hashed("a", str(i), 2) for i in range(99)} == {1, 2, 3}


def plan_of(given: Spec) -> tuple[Plan, Tree]:
    tree = asked(given)[0]
    return make_plan(given, tree, method="equal"), tree


def test_the_layout_is_stored_in_the_plan() -> None:
    plan, _ = plan_of(spec(total=True))
    assert '"keys"' not in plan.to_json() and Plan.from_json(plan.to_json()).keys is None
    stored = with_mark(changed(plan, keys=bits(plan, {"a": 30}, {"b": ["x", "y", "z", "w"]})))
    again = Plan.from_json(stored.to_json())
    assert again.keys == stored.keys and layout(again) == layout(stored)
    assert [(field.bits, field.shift) for field in layout(again).fields] == [(30, 5), (3, 2), (2, 0)]
    assert layout(plan) == layout_of(plan.spec, bits(plan), layout(plan).plan), "the same is derived each time"


def test_where_the_bits_went() -> None:
    plan, _ = plan_of(spec())
    stored = with_mark(changed(plan, keys=bits(plan, {"a": 40}, {"b": ["l0", "l1"]})))
    assert layout(stored).table() == [
        ["field", "bits", "from", "to", "values", "side"],
        ["plan", "16", "127", "112", stored.key_mark, "conversion"],
        ["marked", "1", "111", "111", "1", "impression"],
        ["level", "2", "45", "44", "3 levels", "impression"],
        ["a", "40", "43", "4", "any, hashed", "impression"],
        ["b", "2", "3", "2", "2, by their place in the list", "impression"],
        ["day", "2", "1", "0", "3, by their place in the domain", "conversion"],
        ["not used", "65", "110", "46", "", ""],
    ]


def test_hashed_values_share_what_is_left() -> None:
    names = "abcde"
    given = Spec(epsilon=1, attributes=[{"name": name} for name in names])
    plan = make_plan(given, given.tree({name: ["x"] for name in names}), method="equal")
    found = layout(plan)
    assert found.bits == BITS and {field.bits for field in found.fields} == {21, 22}


def test_missing_is_a_value_and_text_is_text() -> None:
    given = spec(logs={"impressions": "i.csv", "conversions": "c.csv", "missing": [-1]})
    tree = queried_tree(given, [{"a": [7, 7, -1], "b": [None, "q", ""]}, {"a": ["7"], "b": ["q"]}])
    paths = [tree.path(v) for v in range(len(tree)) if tree.level[v] == 1]
    assert sorted(paths) == [["7", MISSING], ["7", "q"], [MISSING, MISSING]]
    assert len(tree) == 2 + 3 + 9


def test_a_tree_of_counts_or_of_nodes_is_the_same() -> None:
    given = spec()
    tree = asked(given)[0]
    assert queried_tree(given, [tree.table()]).table() == tree.table()
    leaves = tree.table().filter(tree.level == 2)
    assert len(queried_tree(given, [leaves.drop_columns(["node", "parent", "level"])])) == len(tree)
    both = queried_tree(given, [tree.table(), {"a": ["new"], "b": ["l0"]}])
    assert len(both) == len(tree) + 1 + 1 + 3
    only_unknown = spec(known="")
    assert len(queried_tree(only_unknown, [])) == 3


def test_only_nodes_that_are_contributed_to_are_queried() -> None:
    given = spec()
    tree, _ = asked(given)
    plan = make_plan(given, tree, share={"b": 0.0})
    level = tree.level[plan.contribution(tree) > 0]
    assert 1 not in level and len(domain(plan, tree)) == len(level)


def test_collisions_are_refused() -> None:
    plan, tree = plan_of(spec())
    narrow = changed(plan, keys=bits(plan, {"a": 2}))
    with pytest.raises(
        InputError, match=r"the values 'r\d' and 'r\d' of 'a' have the same code of 2 bits.*`bits` a=18"
    ):
        tree_keys(layout(narrow), tree)


def test_levels_of_another_tree_are_refused() -> None:
    plan, _ = plan_of(spec())
    with pytest.raises(ValueError, match="the keys' levels are a, b, day; the tree has a, day"):
        tree_keys(layout(plan), asked(spec(known="a"))[0])


@pytest.mark.parametrize(
    ("widths", "values", "message"),
    [
        ({"c": 3}, {}, "there is no attribute 'c'; the attributes are a, b, day"),
        ({}, {"c": ["x"]}, "there is no attribute 'c'"),
        ({"a": 0}, {}, "a field has 1 to 64 bits; got 0 for 'a'"),
        ({"a": 65}, {}, "a field has 1 to 64 bits; got 65 for 'a'"),
        ({"day": 1}, {}, "'day' has 3 values, which take 2 bits; got 1"),
        ({"b": 1}, {"b": ["x", "y"]}, "'b' has 2 values, which take 2 bits; got 1"),
        ({}, {"day": ["x"]}, "'day' is unknown to the impression and has its values from the spec"),
        ({}, {"a": ["x", "x"]}, "the values of 'a' are listed once each, at least one; got x, x"),
        (
            {"a": 64, "b": 64},
            {},
            "a key has 128 bits; plan and level 19, a 64, b 64, day 2 make 149: leave a level out",
        ),
    ],
)
def test_bits_that_make_no_sense(widths: dict[str, int], values: dict[str, list[str]], message: str) -> None:
    plan, _ = plan_of(spec())
    with pytest.raises(InputError) as error:
        bits(plan, widths, values)
    assert str(error.value).startswith(message)


def test_a_source_has_20_keys() -> None:
    names = [f"a{i}" for i in range(21)]
    given = Spec(epsilon=1, attributes=[{"name": name} for name in names])
    tree = given.tree({name: ["x"] for name in names})
    with pytest.raises(
        InputError, match="a source has at most 20 keys, one for each level; the plan has 21: leave some"
    ):
        bits(make_plan(given, tree, method="equal"))
    listed = {name: ["x"] for name in names}
    assert len(bits(make_plan(given, tree, share={"a0": 0.0}, method="equal"), values=listed)) == 21


@pytest.mark.parametrize(
    ("stored", "message"),
    [
        ([("a", 64, "hash"), ("b", 63, "hash"), ("day", 2, "domain")], "a key has 128 bits; this layout takes 148"),
        ([("a", 9, "hash"), ("b", 9, "hash"), ("day", 1, "domain")], "the keys of 'day' do not fit its domain"),
        ([("a", 9, "domain"), ("b", 9, "hash"), ("day", 2, "domain")], "the keys of 'a' do not fit its domain"),
        ([("a", 9, "hash"), ("b", 9, "hash"), ("day", 2, "hash")], "the keys of 'day' are not those of a known"),
        ([("a", 9, "list"), ("b", 9, "hash"), ("day", 2, "domain")], "the keys of 'a' are not those of a known"),
    ],
)
def test_stored_bits_are_checked(stored: list[tuple[str, int, str]], message: str) -> None:
    fields = [Bits.model_validate({"attribute": a, "bits": n, "coded": c}) for a, n, c in stored]
    with pytest.raises(InputError) as error:
        layout_of(spec(), fields, "0000")
    assert str(error.value).startswith(message)


def test_stored_values_and_names_are_checked() -> None:
    plan, _ = plan_of(spec())
    stored = bits(plan, {}, {"a": ["x", "y"]})
    crowded = [stored[0].model_copy(update={"bits": 1}), *stored[1:]]
    with pytest.raises(InputError, match="the 2 values of 'a' do not fit 1 bits"):
        layout_of(plan.spec, crowded, "0000")
    with pytest.raises(
        ValueError, match="keys have bits for each attribute, top to bottom; these have them for b, a, day"
    ):
        changed(plan, keys=(stored[1], stored[0], stored[2]))
    with pytest.raises(InputError, match="'a' has no value 'z'; the list has x, y"):
        layout(changed(plan, keys=stored)).key(0, ["z"])
