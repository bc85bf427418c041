"""Improving: steps that never fail with the API's noise, and paths that spend what they have."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attributary.budget.methods import NodeBudgets
from attributary.budget.problem import BudgetProblem
from attributary.budget.split import LevelBudgets
from attributary.budget.tree_error import _rest, _step, improve, prune
from support.budgets import Case, cases, path_sums
from support.effort import examples


def start(case: Case, kind: str, data: st.DataObject, noise: str) -> tuple[LevelBudgets | NodeBudgets, np.ndarray]:
    """Places for budgets, and some budgets in proportions that leave nothing unspent."""
    fixed = np.full(case.tree.depth, np.nan)
    if case.tree.depth > 1 and data.draw(st.booleans()):
        fixed[0] = data.draw(st.sampled_from([0.0, 0.3])) * case.epsilon
    options = {"by_root": data.draw(st.booleans())} if kind == "rows" else {}
    denoised = data.draw(st.booleans())
    problem = BudgetProblem.of(
        case.tree, case.count, case.epsilon, case.tau, noise=noise, levels=fixed, denoised=denoised, **options
    )
    rng = np.random.default_rng(data.draw(st.integers(0, 99)))
    rows = LevelBudgets.of(problem)
    share = rows.open * rng.uniform(0.01, 1, rows.open.shape) ** 2
    budget = rows.pack((share * rows.free / share.sum(axis=0))[None])
    if kind == "rows":
        return rows, budget
    nodes = NodeBudgets.of(problem)
    return nodes, nodes.of_rows(rows, budget)


@pytest.mark.parametrize("kind", ["rows", "nodes"])
@settings(max_examples=examples(30), deadline=None)
@given(case=cases(), data=st.data())
def test_with_the_api_s_noise_a_whole_step_never_fails(kind: str, case: Case, data: st.DataObject) -> None:
    places, budget = start(case, kind, data, "api")
    for _ in range(3):
        errors, gains = places.gains(budget)
        budget = _step(places.paths, budget, gains, np.ones_like(budget))
        assert (places.errors(budget) <= errors * (1 + 1e-12)).all()


@pytest.mark.parametrize("kind", ["rows", "nodes"])
@settings(max_examples=examples(30), deadline=None)
@given(case=cases(), data=st.data(), length=st.floats(0, 3))
def test_a_step_spends_what_was_spent(kind: str, case: Case, data: st.DataObject, length: float) -> None:
    places, budget = start(case, kind, data, case.noise)
    paths = places.paths
    moved = _step(paths, budget, places.gains(budget)[1], np.full_like(budget, length))
    roots = slice(0, paths.links[0].child.start) if paths.links else slice(None)
    assert (moved >= 0).all() and not moved[:, ~paths.open].any()
    assert np.allclose((moved + _rest(paths, moved))[:, roots], paths.budget, rtol=1e-12)
    if kind == "nodes":
        spread = places.objective.forest.spread(case.tree, moved[0])
        assert np.allclose(path_sums(case.tree, case.tree.from_level_order(spread)), paths.budget, rtol=1e-12)
    if length == 0:
        assert np.allclose(moved, budget, rtol=1e-9)


@pytest.mark.parametrize("kind", ["rows", "nodes"])
@settings(max_examples=examples(30), deadline=None)
@given(case=cases(), data=st.data())
def test_improving_never_raises_an_error_and_pruning_hardly(kind: str, case: Case, data: st.DataObject) -> None:
    places, budget = start(case, kind, data, case.noise)
    before = places.errors(budget)
    better, error = improve(places.paths, places.gains, budget, 10)
    assert np.array_equal(error, places.errors(better)) and (error <= before).all()
    pruned = prune(places.paths, places.errors, better, error)
    assert (places.errors(pruned) <= error * (1 + 2e-9)).all()
