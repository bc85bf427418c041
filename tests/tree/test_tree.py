"""Tree: any forest, in any order, from parents and from paths."""

from importlib import import_module
from unittest.mock import patch

import numba  # noqa: F401  # as in a process that has compiled something
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attributary import Tree, denoise_table
from attributary.tree import paths
from attributary.tree.paths import codes, text_labels
from attributary.tree.tree import level_order
from support.effort import examples
from support.forests import NAMED, parents
from support.runners import running


@settings(max_examples=examples(300), deadline=None)
@given(parent=parents(30))
def test_level_order_puts_children_after_parents_and_siblings_together(parent: list[int]) -> None:
    tree = Tree.from_parents(parent)
    order = np.arange(len(tree)) if tree.order is None else tree.order
    assert sorted(order) == list(range(len(parent)))
    assert tree.first[-1] == len(tree) and tree.offsets[-1] == len(tree)
    for i, v in enumerate(order):
        children = order[tree.first[i] : tree.first[i + 1]]
        assert set(children) == {u for u, p in enumerate(parent) if p == v}
        assert (tree.family[tree.first[i] : tree.first[i + 1]] == i).all()
    depth = np.array([_depth(parent, v) for v in range(len(parent))])
    assert (tree.level == depth).all()
    assert (np.diff(tree.offsets) == np.bincount(depth)).all()
    assert (tree.parent == parent).all()
    assert set(np.flatnonzero(tree.is_leaf)) == set(range(len(parent))) - set(parent)


def _depth(parent: list[int], v: int) -> int:
    return 0 if parent[v] < 0 else 1 + _depth(parent, parent[v])


@settings(max_examples=examples(100), deadline=None)
@given(parent=parents(30))
def test_compiled_and_plain_level_order_are_the_same(parent: list[int]) -> None:
    with running("plain"):
        plain = level_order(np.array(parent))
    with running("compiled"):
        compiled = level_order(np.array(parent))
    for a, b in zip(plain, compiled, strict=True):
        assert (a is None and b is None) or (a == b).all()


@settings(max_examples=examples(100), deadline=None)
@given(parent=parents(30))
def test_many_figures_are_moved_as_few_are(parent: list[int]) -> None:
    tree, values = Tree.from_parents(parent), np.arange(len(parent)) + 0.5
    few = tree.to_level_order(values), tree.from_level_order(values)
    with patch.object(import_module("attributary.tree.tree"), "MANY", 0):
        many = tree.to_level_order(values), tree.from_level_order(values)
        np.testing.assert_array_equal(tree.from_level_order(many[0]), values)
    np.testing.assert_array_equal(many, few)


@settings(max_examples=examples(100), deadline=None)
@given(parent=parents(30))
def test_root_is_the_top_of_the_path(parent: list[int]) -> None:
    tree = Tree.from_parents(parent)
    roots = [v for v in (range(len(tree)) if tree.order is None else tree.order) if parent[v] < 0]
    for v in range(len(parent)):
        top = v
        while parent[top] >= 0:
            top = parent[top]
        assert roots[tree.root[v]] == top


def test_orders_invert_each_other() -> None:
    tree = Tree.from_parents(NAMED["shuffled"])
    values = np.arange(len(tree))
    assert (tree.from_level_order(tree.to_level_order(values)) == values).all()
    assert tree.order is not None
    assert Tree.from_parents(NAMED["twins"]).order is None


BAD_PARENTS = {
    "empty": ([], "at least one node"),
    "out of range": ([-1, 5], "node 1 has parent 5; a parent is a node from 0 to 1"),
    "too negative": ([-1, -2], "node 1 has parent -2"),
    "own parent": ([-1, 1], "no cycles; found node 1 → 1"),
    "cycle": ([-1, 2, 3, 1, 1], "no cycles; found node 1 → 2 → 3 → 1"),
    "cycle without a root": ([1, 0], "no cycles; found node 0 → 1 → 0"),
    "fractions": ([-1.0, 0.5], "whole numbers in one dimension; got float64"),
    "text": (["a"], "whole numbers"),
    "two dimensions": ([[-1], [0]], "one dimension"),
}


@pytest.mark.parametrize("name", BAD_PARENTS)
def test_bad_parents_are_refused(name: str) -> None:
    parent, message = BAD_PARENTS[name]
    with pytest.raises(ValueError, match=message):
        Tree.from_parents(parent)


def test_a_long_cycle_is_cut_short() -> None:
    with pytest.raises(ValueError, match="→ 7 → … → 0"):
        Tree.from_parents((np.arange(50) + 1) % 50)


def test_a_long_chain_is_no_trouble() -> None:
    n = 30_000
    backwards = Tree.from_parents(np.append(np.arange(1, n), -1))
    assert backwards.depth == n and (backwards.level == np.arange(n)[::-1]).all()


LEAVES = {
    "campaign": ["b", "a", "a", "a", "b"],
    "location": ["x", "x", "y", "x", "x"],
    "day": [1, 2, 1, 1, 2],
}
LEVELS = ["campaign", "location", "day"]


@pytest.mark.parametrize(
    "frame", [dict, pa.table, pd.DataFrame, pl.DataFrame], ids=["dict", "arrow", "pandas", "polars"]
)
def test_leaf_rows_make_the_nodes_above_them(frame: type) -> None:
    tree = Tree.from_paths(frame(LEAVES), LEVELS)
    assert len(tree) == 5 + 2 + 3 and np.diff(tree.offsets).tolist() == [2, 3, 5]
    assert [tree.path(i) for i in range(5)] == [list(row) for row in zip(*LEAVES.values(), strict=True)]
    assert sorted(map(tuple, (tree.path(i) for i in range(5, 10)))) == [
        ("a",),
        ("a", "x"),
        ("a", "y"),
        ("b",),
        ("b", "x"),
    ]
    assert tree.name(0) == "campaign=b, location=x, day=1"
    assert tree.level_names == ("campaign", "location", "day")
    for v, p in enumerate(tree.parent):
        assert p < 0 or tree.path(v)[:-1] == tree.path(int(p))


def test_node_rows_keep_their_numbers() -> None:
    rows = {"campaign": ["a", None, "a", "b"], "location": ["x", None, None, None]}
    tree = Tree.from_paths(rows, ["campaign", "location"])
    assert tree.parent.tolist() == [2, -1, 1, 1]
    assert tree.total and tree.level_names == ("total", "campaign", "location")
    assert tree.name(1) == "the total"


def test_leaves_at_several_depths() -> None:
    tree = Tree.from_paths({"a": ["p", "q", "q"], "b": [None, "x", "y"]}, ["a", "b"])
    assert tree.parent.tolist() == [-1, 3, 3, -1] and tree.path(3) == ["q"]


def test_levels_without_rows_are_left_out() -> None:
    tree = Tree.from_paths({"a": ["p", "q"], "b": [None, None]}, ["a", "b"])
    assert tree.depth == 1 and tree.level_names == ("a",)
    assert tree.table().column("b").null_count == 2


def test_gaps_are_filled_only_when_asked() -> None:
    rows = {"a": ["p", "p", "q"], "b": [None, "x", "y"]}
    with pytest.raises(ValueError, match="'q', 'y' has no row for its parent"):
        Tree.from_paths(rows, ["a", "b"])
    tree = Tree.from_paths(rows, ["a", "b"], fill=True)
    assert tree.parent.tolist() == [-1, 0, 3, -1]


def test_the_table_holds_the_contract() -> None:
    table = Tree.from_paths(LEAVES, LEVELS).table().to_pydict()
    assert list(table) == ["node", "parent", "level", "campaign", "location", "day"]
    assert table["campaign"][:5] == LEAVES["campaign"] and table["day"][:5] == LEAVES["day"]
    assert all(table["day"][v] is None for v in range(5, 10))
    again = Tree.from_paths({k: table[k] for k in LEVELS}, LEVELS)
    assert (again.parent == table["parent"]).all()


@settings(max_examples=examples(200), deadline=None)
@given(
    rows=st.lists(st.tuples(*[st.sampled_from(["-", "a", "b", "é", "0"])] * 3), min_size=1, max_size=30, unique=True)
)
def test_paths_and_trees_invert_each_other(rows: list[tuple[str, ...]]) -> None:
    tree = Tree.from_paths({str(j): [r[j] for r in rows] for j in range(3)}, ["0", "1", "2"])
    assert [tuple(tree.path(i)) for i in range(len(rows))] == rows
    assert len(tree) == len({r[:k] for r in rows for k in (1, 2, 3)})


BAD_TABLES = {
    "empty": ({"a": []}, ["a"], "the table is empty"),
    "no such column": ({"a": [1]}, ["a", "b"], "no column 'b'; the columns are a"),
    "no levels": ({"a": [1]}, [], "at least one attribute"),
    "a level twice": ({"a": [1]}, ["a", "a"], "named once each"),
    "duplicate": ({"a": [1, 2, 1]}, ["a"], "row 3: row 1 is 1 too; a path has one row"),
    "hole": ({"a": [None], "b": [1]}, ["a", "b"], "'a' is empty but 'b' below it is not"),
}


@pytest.mark.parametrize("name", BAD_TABLES)
def test_bad_tables_are_refused(name: str) -> None:
    table, columns, message = BAD_TABLES[name]
    with pytest.raises(ValueError, match=message):
        Tree.from_paths(table, columns)


def test_one_value_per_level_is_spread_over_the_nodes() -> None:
    tree = Tree.from_parents(NAMED["shuffled"])
    assert tree.by_level([5, 6, 7, 8]).tolist() == [6, 6, 7, 5, 7, 8, 5]
    with pytest.raises(ValueError, match="each of the 4 levels is needed; got 2"):
        tree.by_level([1, 2])


def test_a_tree_shows_its_shape() -> None:
    assert repr(Tree.from_parents(NAMED["twins"])) == "Tree(7 nodes; levels of 1, 2, 4)"


@pytest.mark.parametrize("empty", [None, "", " ", "*", " * "])
def test_no_label_is_one_rule_for_python_and_files(empty: str | None) -> None:
    table = {"a": ["x", "x", "x", empty], "b": ["1", "2", empty, empty]}
    tree = Tree.from_paths(table, ["a", "b"])
    assert tree.total and tree.parent.tolist() == [2, 2, 3, -1]
    numbers = {"a": [1.0, 1.0, np.nan], "b": [1.0, np.nan, np.nan]}
    assert Tree.from_paths(numbers, ["a", "b"]).parent.tolist() == [1, 2, -1]


READ_AS_TOTALS = ["ALL", "all", "(All)", "Total", "Grand Total", " total ", "Gesamt", "Summe", "Insgesamt", "TOTALE"]


@pytest.mark.parametrize("label", [*READ_AS_TOTALS, "All stores", "all store", "North Total", "north gesamt", "合計"])
def test_a_label_that_reads_as_a_total_is_refused_or_said(label: str) -> None:
    table = {"region": ["North"] * 3, "store": ["A", "B", label]}
    levels = ["region", "store"]
    with pytest.raises(ValueError, match=r"row 3: .* reads as a total .*leave the cell empty"):
        Tree.from_paths(table, levels)
    assert len(Tree.from_paths(table, levels, totals=None)) == 4
    marked = Tree.from_paths(table, levels, totals=[label.strip()])
    assert marked.parent.tolist() == [2, 2, -1]


@pytest.mark.parametrize(
    "label", ["TotalEnergies", "Allianz", "Total Wine", "Summer", "overall bib", "South Total", "Al"]
)
def test_a_label_that_only_begins_so_is_a_label(label: str) -> None:
    assert len(Tree.from_paths({"region": ["North"] * 2, "store": ["A", label]}, ["region", "store"])) == 3


def test_one_label_of_totals_may_stand_by_itself() -> None:
    table = {"a": ["N", "N", "N"], "b": ["Total", "x", "y"], "v": ["9", "<5", "6"]}
    paths = {name: table[name] for name in "ab"}
    assert Tree.from_paths(paths, ["a", "b"], totals="Total").parent.tolist() == [-1, 0, 0]
    lists = denoise_table(table, ["a", "b"], "v", variance=4, totals=["Total"], suppressed=["<5"])
    alone = denoise_table(table, ["a", "b"], "v", variance=4, totals="Total", suppressed="<5")
    assert alone.table.equals(lists.table) and alone.recognised == lists.recognised


def test_a_total_that_is_not_there_is_told() -> None:
    with pytest.raises(ValueError, match="no row has the label 'Summe'"):
        Tree.from_paths({"a": ["x"]}, ["a"], totals=["Summe"])


@pytest.mark.parametrize(
    "column",
    [
        pa.nulls(3),
        pa.DictionaryArray.from_arrays(pa.array([1, 1, None]), pa.array(["x", None])),
        pa.array([float("nan")] * 3),
    ],
    ids=["of no type", "of a dictionary with a null", "nan"],
)
def test_labels_that_are_null_in_whatever_way_are_none(column: pa.Array) -> None:
    found = text_labels(pa.table({"a": column}), "a")
    assert (codes(found) == -1).all() and None not in found.dictionary.to_pylist()


@settings(max_examples=examples(300), deadline=None)
@given(parent=parents(30), data=st.data())
def test_sums_up_and_down_are_those_of_the_nodes_below_and_above(parent: list[int], data: st.DataObject) -> None:
    tree = Tree.from_parents(parent)
    value = np.array(data.draw(st.lists(st.integers(-9, 9), min_size=len(parent), max_size=len(parent))))
    above = [_way_up(parent, v) for v in range(len(parent))]
    below = [[u for u in range(len(parent)) if v in above[u]] for v in range(len(parent))]
    assert tree.sum_up(value).tolist() == [value[nodes].sum() for nodes in below]
    assert tree.sum_down(value).tolist() == [value[nodes].sum() for nodes in above]
    assert tree.sum_up(value, np.maximum).tolist() == [value[nodes].max() for nodes in below]
    assert tree.sum_down(value > 5, np.logical_or).tolist() == [(value[nodes] > 5).any() for nodes in above]
    assert tree.sum_up(tree.is_leaf).tolist() == [int(tree.is_leaf[nodes].sum()) for nodes in below]
    assert (tree.sum_up(np.column_stack([value, 2 * value])) == tree.sum_up(value)[:, None] * [1, 2]).all()
    leaf_value = value[tree.leaves]
    assert tree.roll_up(leaf_value).tolist() == [value[[u for u in nodes if tree.is_leaf[u]]].sum() for nodes in below]


def _way_up(parent: list[int], v: int) -> list[int]:
    return [v] if parent[v] < 0 else [v, *_way_up(parent, parent[v])]


@settings(max_examples=examples(300), deadline=None)
@given(parent=parents(30), data=st.data())
def test_values_of_a_level_are_handed_down_and_rows_are_spread(parent: list[int], data: st.DataObject) -> None:
    tree = Tree.from_parents(parent)
    level = data.draw(st.integers(0, tree.depth - 1))
    heads = [v for v in (range(len(tree)) if tree.order is None else tree.order) if tree.level[v] == level]
    head = [next((heads.index(u) for u in _way_up(parent, v) if u in heads), -1) for v in range(len(parent))]
    assert tree.ancestor(level).tolist() == head
    value = np.arange(1, len(heads) + 1) * 10
    assert tree.hand_down(value, level, above=-1).tolist() == [value[h] if h >= 0 else -1 for h in head]
    rows = np.arange(len(heads) * tree.depth).reshape(len(heads), tree.depth)
    at = np.maximum(head, 0)
    assert tree.spread(rows, level).tolist() == rows[at, tree.level].tolist()
    rest = [rows[h, i:].sum() if leaf else rows[h, i] for h, i, leaf in zip(at, tree.level, tree.is_leaf, strict=True)]
    assert tree.spread(rows, level, rest=True).tolist() == rest
    assert tree.spread(rows[:1], level).tolist() == rows[0, tree.level].tolist()
    assert tree.by_level(rows[0]).tolist() == rows[0, tree.level].tolist()


@settings(max_examples=examples(100), deadline=None)
@given(parent=parents(30))
def test_the_same_tree_in_level_order(parent: list[int]) -> None:
    tree = Tree.from_parents(parent)
    same = tree.in_level_order
    assert same.order is None and (same.family == tree.family).all() and (same.parent == tree.family).all()
    for mine, theirs in ((tree.level, same.level), (tree.is_leaf, same.is_leaf), (tree.root, same.root)):
        assert (tree.to_level_order(mine) == theirs).all()
    assert (tree.to_level_order(np.arange(len(tree)))[same.roots] == tree.roots).all()
    value = np.arange(len(tree))
    assert (tree.to_level_order(tree.sum_up(value)) == same.sum_up(tree.to_level_order(value))).all()


def test_verbs_refuse_values_of_another_shape() -> None:
    tree = Tree.from_parents(NAMED["uneven"])
    with pytest.raises(ValueError, match=r"one value for each of the 10 nodes is needed; got shape \(3,\)"):
        tree.sum_up([1, 2, 3])
    with pytest.raises(ValueError, match="one value for each of the 10 nodes"):
        tree.sum_down([1])
    with pytest.raises(ValueError, match=r"one value for each of the 5 leaves is needed; got shape \(1,\)"):
        tree.roll_up([1])
    with pytest.raises(ValueError, match="one value for each of the 2 nodes of level 0 is needed"):
        tree.hand_down([1])
    with pytest.raises(ValueError, match=r"rows are of shape \(2, 5\), nodes by levels; got \(3, 5\)"):
        tree.spread(np.ones((3, 5)))


@given(key=st.lists(st.integers(0, 40), min_size=1), few=st.booleans())
def test_distinct_keys_are_found_by_place_and_by_hash_alike(key: list[int], few: bool) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(paths, "SPARSE", 10**6 if few else 0)
        distinct, at = paths._distinct(np.array(key))
    assert distinct.tolist() == sorted(set(key))
    assert distinct[at].tolist() == key
