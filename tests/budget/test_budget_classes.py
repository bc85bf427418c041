"""Classes: their error is the nodes' error, at the price of a class for each kind of node."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attributary import Tree
from attributary.budget.classes import classes
from attributary.budget.problem import BudgetProblem
from attributary.budget.split import LevelBudgets
from support.budgets import Case, cases, levelled
from support.effort import examples
from support.forests import NAMED, STAR


@settings(max_examples=examples(100), deadline=None)
@given(case=cases(), data=st.data())
def test_the_error_of_classes_is_the_error_of_nodes(case: Case, data: st.DataObject) -> None:
    tree = case.tree
    weights = data.draw(st.sampled_from([None, np.arange(1.0, len(tree) + 1), 1.0 * tree.is_leaf]))
    denoised = data.draw(st.booleans())
    problem = BudgetProblem.of(
        tree, case.count, case.epsilon, case.tau, noise=case.noise, weights=weights, denoised=denoised
    )
    rows = LevelBudgets.of(problem)
    share = np.array([[data.draw(st.sampled_from([0.1, 1.0, 3.0])) for _ in r] for r in rows.open]) * rows.open
    share *= case.epsilon / share.sum(axis=0)
    if denoised and data.draw(st.booleans()):  # a level without budget, where the leaves keep some
        share[0, share[1:].any(axis=0)] = 0.0
    split = rows.split(problem, rows.pack(share[None])[0])
    expected = case.errors(split, weights=weights, denoised=denoised)
    found = rows.errors(rows.pack(share[None]))[0]
    weighed = np.isfinite(expected)
    assert np.allclose(found[weighed], expected[weighed], rtol=1e-11, atol=0)


@pytest.mark.parametrize("apart", [0, 1, "nodes"])
@settings(max_examples=examples(40), deadline=None)
@given(case=cases(most=20))
def test_members_share_what_the_class_has(apart: int, case: Case) -> None:
    tree = case.tree
    kinds = classes(tree, apart)
    size = kinds.add_up(tree)
    assert size.sum() == len(tree)
    values = np.arange(len(kinds), dtype=float)
    spread = kinds.spread(tree, values)
    assert np.array_equal(kinds.add_up(tree, spread), values * size)
    assert np.array_equal(kinds.spread(tree, 1.0 * kinds.leaf), tree.to_level_order(1.0 * tree.is_leaf))
    assert np.array_equal(kinds.spread(tree, kinds.level), tree.to_level_order(tree.level))
    inner = kinds.parent >= 0
    assert np.array_equal(size[inner], kinds.times[inner] * size[kinds.parent[inner]])
    above = np.array([spread[p] if p >= 0 else -1 for p in tree.family])
    assert np.array_equal(above, kinds.spread(tree, kinds.parent))


@settings(max_examples=examples(40), deadline=None)
@given(case=cases(most=20))
def test_members_have_the_same_subtree_and_the_same_above(case: Case) -> None:
    tree = case.tree
    member = classes(tree).spread(tree, np.arange(len(classes(tree)), dtype=float)).astype(int)
    shapes: list[tuple] = [()] * len(tree)
    for v in reversed(range(len(tree))):
        shapes[v] = tuple(sorted(shapes[u] for u in range(tree.first[v], tree.first[v + 1])))
    kind: list[tuple] = []
    for v, p in enumerate(tree.family):
        kind.append((kind[p] if p >= 0 else v, shapes[v]))
    pairs = set(zip(member.tolist(), kind, strict=True))
    assert len(pairs) == len(set(member.tolist())) == len(set(kind))


def test_equal_siblings_are_one_class() -> None:
    assert len(classes(Tree.from_parents(STAR))) == 2
    assert len(classes(Tree.from_parents(NAMED["twins"]))) == 3
    assert len(classes(Tree.from_parents(NAMED["twins"]), apart=1)) == 5
    assert len(classes(Tree.from_parents(NAMED["twins"]), apart="nodes")) == 5  # leaves of one parent stay together


def test_many_nodes_are_few_classes() -> None:
    parent = np.concatenate([[-1], np.zeros(300), 1 + np.repeat(np.arange(300), 1 + np.arange(300) % 4)])
    leaves = 301 + np.repeat(np.arange(len(parent) - 301), 15)
    tree = Tree.from_parents(np.concatenate([parent, leaves]).astype(int))
    assert np.diff(classes(tree).offsets).tolist() == [1, 4, 4, 4]


def test_levelled_trees_have_leaves_everywhere() -> None:
    found = {int(v) for seed in range(20) for v in levelled(seed, 4).tree.level[levelled(seed, 4).tree.is_leaf]}
    assert found == {1, 2, 3}
