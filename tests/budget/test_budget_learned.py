"""Splits for estimates that use shares: errors and gains against dense algebra, the best against a grid, the hedge."""

from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from tests.budget.test_budget_error import check
from tests.budget.test_budget_optimal import grid

from attributary import Tree, budget
from attributary.budget.classes import classes
from attributary.budget.methods import DOUBT, LIMIT, Hedged, optimally
from attributary.budget.problem import BudgetProblem, Learned, expectations
from attributary.budget.split import LevelBudgets
from attributary.budget.tree_error import predicted, predicted_gain
from support.budgets import Case, cases, levelled, path_sums
from support.effort import examples


def shares(tree: Tree, rng: np.random.Generator, even: bool = False) -> np.ndarray:
    """Of each node, in the tree's order; those of a family sum to 1, and some are 0."""
    part = np.ones(len(tree)) if even else rng.choice([0.0, 1.0, 1.0, 5.0, 40.0], len(tree))
    for p in range(len(tree)):
        family = tree.parent == p
        if family.any():
            part[family] = part[family] / part[family].sum() if part[family].any() else 1 / family.sum()
    return part


def spreads(tree: Tree, rng: np.random.Generator) -> np.ndarray:
    return rng.choice([0.01, 0.3, 2.0, 50.0, 1e6, np.inf], len(tree))


def dense(tree: Tree, precision: np.ndarray, share: np.ndarray, spread: np.ndarray) -> np.ndarray:
    """The variance of each node's best linear prediction, from the information that all figures and shares give."""
    leaves = np.flatnonzero(tree.is_leaf)
    below = np.zeros((len(tree), len(leaves)))
    for j, leaf in enumerate(leaves):
        v = leaf
        while v >= 0:
            below[v, j] = 1
            v = tree.parent[v]
    off = below - share[:, None] * np.where(tree.parent >= 0, below.T[:, tree.parent], 0).T
    firm = np.where(tree.parent >= 0, 1 / spread, 0)
    known = (below.T * precision) @ below + (off.T * firm) @ off
    found: np.ndarray = np.diag(below @ np.linalg.inv(known) @ below.T)
    return found


# The objective


@pytest.mark.sweep
@settings(max_examples=examples(200), deadline=None)
@given(case=cases(), seed=st.integers(0, 999))
def test_errors_and_gains_are_those_of_dense_algebra(case: Case, seed: int) -> None:
    rng, tree = np.random.default_rng(seed), case.tree
    share, spread = shares(tree, rng), spreads(tree, rng)
    precision = rng.uniform(0.05, 2, len(tree)) * (rng.random(len(tree)) < 0.7)
    precision[tree.is_leaf] += 0.05
    weight, order = rng.random(len(tree)), tree.to_level_order
    forest = classes(tree, "nodes", np.arange(len(tree)))
    known = expectations(tree, share, spread) or (order(share), np.full(len(tree), np.inf))
    firm = 1 / known[1]
    own = [forest.add_up(tree, order(values)) for values in (weight, precision, share)]
    sweep = predicted(forest, own[0], own[1][None], own[2], forest.add_up(tree, firm), 1e-100)
    wanted = dense(tree, precision, share, spread)
    assert np.allclose(sweep.error.sum(), weight @ wanted, rtol=1e-6)
    found = tree.from_level_order(
        forest.spread(tree, predicted_gain(forest, own[2], forest.add_up(tree, firm), sweep)[0])
    )
    for v in range(len(tree)):
        step = np.zeros(len(tree))
        step[v] = 1e-4 * max(precision[v], 0.05)
        more, less = (dense(tree, precision + sign * step, share, spread) for sign in (1, -1))
        slope = weight @ (less - more) / (2 * step[v])
        assert np.isclose(found[v], slope, rtol=1e-3, atol=1e-5 * np.abs(found).max())


@settings(max_examples=examples(100), deadline=None)
@given(case=cases(), seed=st.integers(0, 99))
def test_grouped_errors_are_those_of_each_node(case: Case, seed: int) -> None:
    rng, tree = np.random.default_rng(seed), case.tree
    share = shares(tree, rng, even=True)
    spread = rng.choice([0.5, 8.0, np.inf], len(tree))
    known = expectations(tree, share, spread)
    assume(known is not None)
    assert known is not None
    problem = BudgetProblem.of(tree, case.count, case.epsilon, case.tau, noise=case.noise)
    rows = LevelBudgets.of(problem)
    plain = budget.equal(tree, case.count, case.epsilon, case.tau, noise=case.noise)
    hedged = Hedged.of(problem, rows, rows.pack(plain.epsilon.T[None])[0], *known)
    errors = hedged.with_it.errors(rows.pack(plain.epsilon.T[None]))[0]
    assert np.allclose(errors, case.errors(plain, share=share, spread=spread), rtol=1e-6)


@pytest.mark.parametrize("options", [{}, {"by_root": False}, {"levels": "last"}, {"weights": True}], ids=str)
@settings(max_examples=examples(25), deadline=None)
@given(case=cases(), seed=st.integers(0, 99))
def test_gains_are_derivatives(options: dict[str, Any], case: Case, seed: int) -> None:
    rng, tree = np.random.default_rng(seed), case.tree
    given = dict(options)
    if "weights" in options:
        given["weights"] = rng.uniform(0.1, 1, len(tree))
    if "levels" in options:
        given["levels"] = [*[np.nan] * (tree.depth - 1), case.epsilon / 3]
    hedged, _ = hedged_of(case, rng, **given)
    rows = hedged.without
    start = rows.pack((rows.open * rng.uniform(0.1, 1, rows.open.shape))[None])[0] * case.epsilon / len(rows.open)
    check(hedged, start)  # type: ignore[arg-type]


def hedged_of(case: Case, rng: np.random.Generator, **options: Any) -> tuple[Hedged, np.ndarray]:
    """Both objectives, some spread being finite, and the split that is best without expectations."""
    tree = case.tree
    share, spread = tree.to_level_order(shares(tree, rng)), tree.to_level_order(spreads(tree, rng))
    spread[: tree.first[0]] = np.inf
    problem = BudgetProblem.of(tree, case.count, case.epsilon, case.tau, noise=case.noise, **options)
    rows = LevelBudgets.of(problem)
    plain = optimally(rows, problem.phases)
    return Hedged.of(problem, rows, plain, share, np.where(spread == np.inf, 1e9, spread)), plain


# The split


@pytest.mark.sweep
@pytest.mark.parametrize("levels", [2, 3, 4])
def test_no_split_of_a_fine_grid_is_better_within_the_limit(levels: int) -> None:
    parts = grid(levels, {2: 2000, 3: 120, 4: 36}[levels])
    for seed in range(24):
        case, rng = levelled(seed, levels), np.random.default_rng(seed)
        tree = case.tree
        share, spread = shares(tree, rng), np.minimum(spreads(tree, rng), 1e4)
        known = expectations(tree, share, spread)
        assert known is not None
        problem = BudgetProblem.of(tree, case.count, case.epsilon, case.tau, noise=case.noise)
        rows = LevelBudgets.of(problem)
        plain = optimally(rows, problem.phases)
        hedged = Hedged.of(problem, rows, plain, *known)
        tried = parts * case.epsilon
        within = rows.errors(tried) <= LIMIT**2 * rows.errors(plain[None])
        least = np.where(within, hedged.errors(tried), np.inf).min()
        found = case.split("optimal", share=share, spread=spread)
        assert hedged.errors(rows.pack(found.epsilon.T[None])).item() <= 1.01 * least
        assert ((found.epsilon == 0) | (found.epsilon > 1e-6 * case.epsilon)).all()


KINDS = [{}, {"by_root": False}, {"weights": True}, {"levels": True}]


@pytest.mark.sweep
@pytest.mark.parametrize("options", KINDS, ids=str)
@settings(max_examples=examples(60), deadline=None)
@given(case=cases(), seed=st.integers(0, 999))
def test_a_prior_that_is_wrong_costs_a_quarter_at_most(options: dict[str, Any], case: Case, seed: int) -> None:
    rng, tree = np.random.default_rng(seed), case.tree
    given = dict(options)
    if "weights" in options:
        given["weights"] = rng.uniform(0.1, 1, len(tree))
    if "levels" in options:
        given["levels"] = [case.epsilon / 5, *[np.nan] * (tree.depth - 1)] if tree.depth > 1 else None
    plain = case.split("optimal", **given)
    found = case.split("optimal", share=shares(tree, rng), spread=spreads(tree, rng), **given)
    weights = given.get("weights")
    least, errors = (case.errors(split, weights=weights) for split in (plain, found))
    if "by_root" in options:
        least, errors = least.sum(), errors.sum()
    assert (np.sqrt(errors) <= LIMIT * np.sqrt(least) * (1 + 1e-6)).all()
    assert (path_sums(tree, found.nodes()) <= case.epsilon * (1 + 1e-9)).all()
    if given.get("levels") is not None:
        assert np.allclose(found.epsilon[:, 0], case.epsilon / 5)


@pytest.mark.parametrize("seed", range(6))
def test_a_total_is_hedged_with_its_heads(seed: int) -> None:
    case, rng = levelled(seed, 4, most=40), np.random.default_rng(seed)
    tree = case.tree
    expects = {"share": shares(tree, rng), "spread": rng.choice([0.1, 2.0], len(tree))}
    plain, found = case.split("optimal", total=True), case.split("optimal", total=True, **expects)
    assert np.sqrt(case.errors(found)) <= LIMIT * np.sqrt(case.errors(plain)) * (1 + 1e-6)
    assert found.total is not None
    gained = [case.errors(split, **expects) for split in (plain, found)]
    assert gained[1] <= gained[0] * (1 + DOUBT * (LIMIT**2 - 1))


@settings(max_examples=examples(40), deadline=None)
@given(case=cases(), seed=st.integers(0, 99))
def test_where_nothing_is_expected_the_split_is_the_same_to_the_last_bit(case: Case, seed: int) -> None:
    share = shares(case.tree, np.random.default_rng(seed))
    found = case.split("optimal", share=share, spread=np.full(len(case.tree), np.inf))
    assert np.array_equal(found.epsilon, case.split("optimal").epsilon)
    errors = case.errors(found, share=share, spread=np.full(len(case.tree), np.inf))
    assert np.array_equal(errors, case.errors(found))


def test_shares_that_are_known_well_need_no_figures() -> None:
    tree = Tree.from_parents([-1, *[0] * 40])
    count, share = np.array([400.0, *[10.0] * 40]), np.array([1.0, *[1 / 40] * 40])
    plain = budget.optimal(tree, count, 1, 5)
    found = budget.optimal(tree, count, 1, 5, share=share, spread=np.full(41, 0.01))
    assert plain.epsilon[0, 0] < found.epsilon[0, 0]
    wide = budget.optimal(tree, count, 1, 5, share=share, spread=np.full(41, 1e12))
    assert np.allclose(wide.epsilon, plain.epsilon, atol=1e-3)


# What is refused

TREE = Tree.from_parents([-1, 0, 0])
EVEN, WIDE = [1, 0.5, 0.5], [np.inf, 1, 1]


@pytest.mark.parametrize(
    ("share", "spread", "words"),
    [
        (EVEN, None, "go together"),
        (None, WIDE, "go together"),
        (EVEN[:2], WIDE, "one share and one spread"),
        (EVEN, [np.inf, -1, 1], "0 or more, or inf"),
        (EVEN, [np.inf, np.nan, 1], "0 or more, or inf"),
        ([1, 0.5, 0.6], WIDE, "sum to 1"),
        ([1, -0.5, 1.5], WIDE, "0 or more and sum"),
        ([1, np.nan, 1], WIDE, "0 or more and sum"),
    ],
)
def test_shares_that_make_no_sense_are_refused(share: Any, spread: Any, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        budget.optimal(TREE, 1.0, 1.0, 5.0, share=share, spread=spread)
    with pytest.raises(ValueError, match=words):
        budget.expected(TREE, 1.0, np.ones(3), 5.0, share=share, spread=spread)


def test_raw_figures_use_no_shares() -> None:
    with pytest.raises(ValueError, match="raw figures"):
        budget.optimal(TREE, 1.0, 1.0, 5.0, share=EVEN, spread=WIDE, denoised=False)
    with pytest.raises(ValueError, match="raw figures"):
        budget.expected(TREE, 1.0, np.ones(3), 5.0, share=EVEN, spread=WIDE, denoised=False)


def test_heads_are_not_split_alone_with_expectations() -> None:
    problem = BudgetProblem.of(TREE, 1.0, 1.0, 5.0)
    objective = Learned.of(problem, np.array(EVEN), np.array(WIDE))
    rows = LevelBudgets.of(problem)
    with pytest.raises(ValueError, match="without expectations"):
        _ = LevelBudgets(objective, rows.fixed, rows.open, rows.row, 1.0, total=True).heads
