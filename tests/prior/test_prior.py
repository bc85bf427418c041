"""Priors rolled onto today's tree: paths keep their counts, sums hold, what came and went is counted."""

from collections import Counter
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attributary import Tree, denoise, prior
from attributary.prior import Prior
from attributary.spec import Spec
from attributary.tree.paths import RowError
from support.effort import examples

ATTRIBUTES = ["a", "b", "c"]
paths = st.lists(st.tuples(*[st.sampled_from("xyz")] * 3), min_size=1, max_size=14)


def table(rows: list[tuple[str, ...]], **columns: Any) -> pa.Table:
    return pa.table({name: [row[j] for row in rows] for j, name in enumerate(ATTRIBUTES)} | columns)


def names(tree: Tree) -> list[tuple[str, ...]]:
    return [tuple(tree.path(v)) for v in range(len(tree))]


@settings(max_examples=examples(200), deadline=None)
@given(today=paths, then=paths, data=st.data())
def test_counts_keep_their_paths_and_sums_hold(
    today: list[tuple[str, ...]], then: list[tuple[str, ...]], data: st.DataObject
) -> None:
    tree = Tree.from_paths(table(data.draw(st.permutations(list(dict.fromkeys(today))))), ATTRIBUTES)
    counts = data.draw(st.lists(st.integers(0, 50), min_size=len(then), max_size=len(then)))
    earlier = table(then, conversions=counts)
    here, history = set(today), Counter[tuple[str, ...]]()
    for path, count in zip(then, counts, strict=True):
        history[path] += count
    if not here & set(then):
        with pytest.raises(ValueError, match="none of its"):
            prior.from_counts(tree, earlier)
        return
    found = prior.from_counts(tree, earlier)
    wanted, seen = Counter[tuple[str, ...]](), set()
    for path in then:
        seen |= {path[:i] for i in range(4)}
    for path, count in history.items():
        for i in range(4):
            wanted[path[:i]] += count if path in here else 0
    assert [wanted[path] for path in names(tree)] == found.mean.tolist()
    assert found.new is not None and [path not in seen for path in names(tree)] == found.new.tolist()
    assert (found.gone, found.lost) == (
        sum(path not in here for path in then),
        sum(count for path, count in history.items() if path not in here),
    )
    below = np.zeros(len(tree))
    np.add.at(below, tree.parent[tree.parent >= 0], found.mean[tree.parent >= 0])
    assert (below[~tree.is_leaf] == found.mean[~tree.is_leaf]).all()
    assert found.history and not found.protected and found.variance is None


def test_the_same_from_other_tables() -> None:
    tree = Tree.from_paths({"a": [1, 1, 2], "b": [5, 6, 5]}, ["a", "b"])
    wanted = prior.from_counts(tree, {"a": [2, 1, 1], "b": [5, 6, 6], "conversions": [3, 4, 1]}).mean.tolist()
    assert wanted == [0, 5, 3, 5, 3]
    as_text = {"a": ["2", "1", "1"], "b": [5.0, 6.0, 6.0], "conversions": pa.array([3, 4, 1], pa.int8())}
    assert prior.from_counts(tree, as_text).mean.tolist() == wanted
    coded = pa.table(as_text).set_column(0, "a", pa.array(["2", "1", "1"]).dictionary_encode())
    assert prior.from_counts(tree, pa.concat_tables([coded.slice(0, 1), coded.slice(1)])).mean.tolist() == wanted
    nodes = {"a": [None, 1, 1, 2], "b": [None, None, 6, 5], "conversions": [99, 99, 5, 3]}
    assert prior.from_counts(tree, nodes).mean.tolist() == wanted  # nodes above others are sums of them


SPEC = Spec.parse(
    'epsilon = 1\ntotal = true\n[[attribute]]\nname = "a"\n[[attribute]]\nname = "b"\n'
    '[[attribute]]\nname = "day"\nunknown = true\ndomain = ["mon", "tue"]'
)


def test_only_values_of_known_attributes_are_new() -> None:
    tree = SPEC.tree({"a": ["x", "x", "y"], "b": ["p", "q", "p"]})
    earlier = {"a": ["x", "x"], "b": ["p", "gone"], "day": ["tue", "mon"], "conversions": [4, 7]}
    found = prior.from_counts(tree, earlier, known=["a", "b"])
    assert found.new is not None
    new = [tree.path(int(v)) for v in np.flatnonzero(found.new)]
    assert [["y"], ["x", "q"], ["y", "p"]] == [path for path in new if len(path) < 3]
    assert [path[:2] for path in new if len(path) == 3] == [["x", "q"]] * 2 + [["y", "p"]] * 2
    assert found.new_roots(tree).tolist() == [False, True]
    assert (found.gone, found.lost, found.mean[0]) == (1, 7.0, 4.0)
    assert found.example == "a=x, b=gone, day=mon"
    domain = prior.from_counts(tree, earlier)  # every value can be new
    assert domain.new is not None and domain.new.sum() == found.new.sum() + 1


def test_no_prior_at_all() -> None:
    tree = SPEC.tree({"a": ["x"], "b": ["p"]})
    found = prior.none(tree)
    assert not found.history and found.protected and not found.mean.any()
    assert found.new_roots(tree).tolist() == [False]


def report(seed: int = 1) -> tuple[Tree, pa.Table, Any]:
    """An earlier denoised report of a forest with uneven fan-outs."""
    rng = np.random.default_rng(seed)
    rows = [(f"a{i}", f"b{j}", f"c{k}") for i in range(3) for j in range(i + 1) for k in range(2 + (i + j) % 3)]
    tree = Tree.from_paths(table(rows), ATTRIBUTES)
    estimate = denoise(tree, rng.normal(20, 5, len(tree)), rng.uniform(1, 9, len(tree)))
    columns = tree.table().append_column("estimate", [estimate.count]).append_column("variance", [estimate.variance])
    return tree, columns, estimate


def test_an_unchanged_report_is_itself_again() -> None:
    tree, rows, estimate = report()
    shuffled = rows.take(pa.array(np.random.default_rng(2).permutation(rows.num_rows)))
    found = prior.from_estimates(tree, shuffled)
    assert np.allclose(found.mean, estimate.count) and np.allclose(found.variance, estimate.variance)
    assert found.protected and found.gone == 0 and found.new is not None and not found.new.any()


def test_variances_are_never_too_small() -> None:
    tree, rows, estimate = report()
    leaves = rows.filter(pa.array(tree.is_leaf))
    only_leaves = prior.from_estimates(tree, leaves)
    assert (only_leaves.variance >= estimate.variance * (1 - 1e-9)).all()
    assert np.allclose(only_leaves.variance[tree.is_leaf], estimate.variance[tree.is_leaf])

    kept = np.flatnonzero(tree.is_leaf)[[0, 1, 3, 5, 6]]  # a smaller tree: some leaves are gone
    smaller = Tree.from_paths(rows.take(pa.array(kept)).select(ATTRIBUTES), ATTRIBUTES)
    found = prior.from_estimates(smaller, rows)
    place = {path: v for v, path in enumerate(names(tree))}
    for v, path in enumerate(names(smaller)):
        below = [int(u) for u in kept if names(tree)[u][: len(path)] == path]
        exact = estimate.total(below)
        assert np.isclose(found.mean[v], exact.count)
        assert found.variance[v] >= exact.variance * (1 - 1e-9)
        unchanged = len(below) == sum(p[: len(path)] == path for p in names(tree) if len(p) == 3)
        assert not unchanged or np.isclose(found.variance[v], estimate.variance[place[path]])
    assert found.gone == tree.is_leaf.sum() - len(kept)


def test_where_nothing_is_known_the_variance_is_infinite() -> None:
    tree = Tree.from_paths({"a": ["x", "x"], "b": ["p", "new"]}, ["a", "b"])
    found = prior.from_estimates(
        tree, {"a": ["x", "x"], "b": [None, "p"], "estimate": [3.0, 2.5], "variance": [1.0, 2.0]}
    )
    assert found.mean.tolist() == [2.5, 0, 2.5] and found.variance.tolist() == [2, np.inf, np.inf]


GOOD = {"a": ["x", "x"], "b": ["p", "q"], "conversions": [1, 2], "estimate": [1.0, 2], "variance": [1.0, 1]}
BAD: dict[str, tuple[str, dict[str, Any], str]] = {
    "no column": ("counts", {"b": None}, "there is no column 'b'; the columns are a, conversions"),
    "no counts": ("counts", {"conversions": None}, "the prior has no column 'conversions'; its columns are a, b"),
    "words": (
        "counts",
        {"conversions": ["1", "two"]},
        "the prior: row 2: 'two' in column 'conversions' is not a number",
    ),
    "negative": ("counts", {"conversions": [1, -2]}, "row 2: a count is a number, 0 or more; 'conversions' is -2"),
    "nan": (
        "counts",
        {"conversions": [np.nan, 2]},
        "row 1: a count is a number, 0 or more; 'conversions' is empty or nan",
    ),
    "null": ("counts", {"conversions": [None, 2]}, "row 1: .* is empty or nan"),
    "no rows": ("counts", {name: [] for name in GOOD}, "the table is empty"),
    "hole": ("counts", {"a": ["x", None]}, "row 2: 'a' is empty but 'b' below it is not"),
    "another tree": (
        "counts",
        {"b": ["z", "z"]},
        "none of its 2 rows is a leaf of the tree; it has a=x, b=z, .* a=x, b=p",
    ),
    "coarser": ("counts", {"b": pa.nulls(2, pa.string())}, "none of its 2 rows is a leaf"),
    "no variance": ("estimates", {"variance": None}, "the prior has no column 'variance'"),
    "infinite": ("estimates", {"estimate": [1, np.inf]}, "row 2: an estimate is a finite number; 'estimate' is inf"),
    "variance": ("estimates", {"variance": [1, -1]}, "row 2: a variance is 0 or more; 'variance' is -1"),
    "twice": ("estimates", {"b": ["p", "p"]}, "row 2: its path is that of row 1; an estimate is there once"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_priors(name: str) -> None:
    kind, changes, message = BAD[name]
    tree = Tree.from_paths({"a": ["x", "x"], "b": ["p", "q"]}, ["a", "b"])
    given = {key: value for key, value in {**GOOD, **changes}.items() if value is not None}
    make = prior.from_counts if kind == "counts" else prior.from_estimates
    with pytest.raises(ValueError, match=message) as error:
        make(tree, given)
    assert isinstance(error.value, RowError) == message.startswith("row")
    assert isinstance(make(tree, GOOD), Prior)


def test_trees_without_labels_have_no_paths_to_match() -> None:
    with pytest.raises(ValueError, match="this tree has no labels"):
        prior.from_counts(Tree.from_parents([-1, 0]), GOOD)
