"""Evaluation: closed forms are what simulation finds, copies are what single trees are, and seeds are all there is."""

import json
import os
import pickle
import signal
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attributary import Tree, budget, denoise, rmsre
from attributary.budget import BudgetMethod, Split
from attributary.errors import InputError
from attributary.estimators import ESTIMATORS, Background, EstimatorKind
from attributary.evaluate import Case, Method, Store, evaluate, methods, private_prior, user_cases
from attributary.evaluate.case import node_shares
from attributary.evaluate.methods import chosen
from attributary.evaluate.simulation import BATCH, Copies, Pooling, SimulatedNoise, batches, draws_of, exact, simulate
from attributary.facts.evaluation import PAPER
from attributary.measurements import Measurements
from attributary.noise import dlap_variance
from attributary.noise import model as noise_model
from attributary.plan import make_plan
from attributary.prior import Prior, from_counts, learn
from attributary.spec import Spec
from support.effort import examples, first_of
from support.forests import NAMED, parents
from support.plans import UNKNOWN, asked, counts, spec, specs

LINEAR = [name for name, method in methods().items() if method.estimator.linear and name != "zeros"]
EVERY = ("equal", "leaves", "greedy", "optimal", "per-node", "planned")
SOME = ["equal-unbiased", "optimal-nonnegative"]


def case(noise: str = "api", seed: int = 0, seen: int = 4, **options: Any) -> Case:
    """Four roots and three days: unequal fan-outs, unequal counts."""
    asks = spec(noise=noise, split_by="a", **options)
    tree, prior = asked(asks, seed, 5, seen)
    return Case.of("made up", "a > b > day", asks, tree, from_counts(tree, counts(seed, 5)).mean, prior)


def share_of(made: Case, method: str) -> Any:
    """What each node gets of the budget, in level order."""
    return node_shares(made, methods()[method])


def mine(split: Any = budget.equal, make: Any = ESTIMATORS["unbiased"].make, **kind: Any) -> Method:
    """A method of one's own, which nobody registered."""
    return Method(BudgetMethod("my", split, "mine"), EstimatorKind("own", make, "mine", **kind))


def rows(table: Any, **wanted: Any) -> list[dict[str, Any]]:
    return [row for row in table.to_pylist() if all(row[name] == value for name, value in wanted.items())]


# Closed forms and simulation


@pytest.mark.parametrize("noise", ["api", "unit"])
def test_closed_forms_are_within_three_standard_errors_of_simulation(noise: str) -> None:
    table = evaluate([case(noise)], LINEAR, epsilons=[0.5, 2], taus=[5, 10], draws=2_000, seed=3)
    exact_ones, simulated = rows(table, kind="exact"), rows(table, kind="simulated")
    assert len(exact_ones) == len(simulated) == len(LINEAR) * 2 * 2 * 4
    assert set(PAPER) <= set(LINEAR)
    for one, other in zip(exact_ones, simulated, strict=True):
        assert [one[name] for name in ("method", "epsilon", "tau", "level")] == [
            other[name] for name in ("method", "epsilon", "tau", "level")
        ]
        assert abs(one["rmsre"] - other["rmsre"]) < 3 * other["standard_error"], one
        assert one["standard_error"] is None


@pytest.mark.parametrize("noise", ["api", "unit"])
@pytest.mark.parametrize("way", ["equal", "leaves", "greedy", "optimal", "per_node"])
def test_exact_errors_are_those_that_a_budget_expects(way: str, noise: str) -> None:
    made = case(noise, seen=5)
    split = getattr(budget, way)(made.tree, made.prior.mean, 4.0, 10.0, noise=noise)
    name = f"{way.replace('_', '-')}-unbiased"
    found = rows(evaluate([made], [name], epsilons=[4], taus=[10], draws=0), kind="exact")
    wanted = budget.expected(made.tree, made.count, split, 10.0)
    assert [row["rmsre"] for row in found] == pytest.approx([*wanted.levels, wanted.tree], rel=1e-6)
    small = rmsre.nodes(made.count, wanted.variance, 10.0) < 0.1
    assert found[-1]["below_10_percent"] == pytest.approx(small.mean())


def test_one_split_serves_every_epsilon_under_the_apis_noise() -> None:
    together = evaluate([case()], epsilons=[0.5, 3, 64], taus=[7], draws=4)
    for epsilon in (0.5, 3.0, 64.0):
        alone = rows(evaluate([case()], epsilons=[epsilon], taus=[7], draws=4))
        for one, other in zip(alone, rows(together, epsilon=epsilon), strict=True):
            assert one.pop("rmsre") == pytest.approx(other.pop("rmsre"), rel=1e-5)
            assert (one.pop("standard_error") or 0) == pytest.approx(other.pop("standard_error") or 0, rel=1e-4)
            assert one == other


def test_simulation_is_denoising_draw_by_draw() -> None:
    made, draws = case("unit"), 7
    noise = SimulatedNoise("unit", 2.0, 65536, share_of(made, "greedy-unbiased"))
    measure = Pooling.of(made.tree, made.count, 5.0)
    kinds = [ESTIMATORS["unbiased"], ESTIMATORS["nonnegative"]]
    found = simulate(made, [noise], kinds, measure, draws, 1, Background(tau=5.0))[0]
    drawn = draws_of(1, "made up/a > b > day", 0, draws * made.nodes)
    copies = Copies.of(made.tree, draws)
    noisy = noise._replace(share=copies.spread(noise.share)).added(copies.spread(made.count), drawn)
    for errors, option in zip(found, (None, "top-down"), strict=True):
        squared = []
        for i in range(draws):
            levels = [noisy[copies.forest.slice(j)].reshape(draws, -1)[i] for j in range(made.tree.depth)]
            est = denoise(made.tree, np.concatenate(levels), noise.variance, nonnegative=option)  # type: ignore[arg-type]
            off = np.square(est.count - made.count)
            squared.append(
                [*rmsre.levels(made.tree, made.count, off, 5.0) ** 2, rmsre.tree(made.tree, made.count, off, 5) ** 2]
            )
        assert errors.rmsre == pytest.approx(np.sqrt(np.mean(squared, axis=0)))
        spread = np.std(squared, axis=0, ddof=1) / np.sqrt(draws)
        assert errors.standard_error == pytest.approx(spread / 2 / errors.rmsre)


# Coverage

SURE = ["equal-raw", "equal-unbiased", "optimal-nonnegative", "optimal-learned"]


@pytest.mark.parametrize("noise", first_of(["api", "unit"]))
def test_coverage_adds_two_columns_and_changes_no_other(noise: str) -> None:
    asked_for: dict[str, Any] = {"epsilons": [0.5, 2], "taus": [5], "draws": 20}
    without = evaluate([case(noise)], SURE, **asked_for).table
    with_ = evaluate([case(noise)], SURE, coverage=True, **asked_for).table
    assert with_.column_names == [*without.column_names, "coverage", "coverage_error"]
    same = with_.select(without.column_names)
    for one, other in zip(rows(without), rows(same), strict=True):
        assert one.pop("rmsre") == pytest.approx(other.pop("rmsre"), rel=1e-12)
        assert (one.pop("standard_error") or 0) == pytest.approx(other.pop("standard_error") or 0, rel=1e-9)
        assert one == other
    for row in rows(with_):
        told = row["kind"] == "simulated" and row["method"] != "equal-raw"
        assert (row["coverage"] is not None) == (row["coverage_error"] is not None) == told, row


def test_intervals_of_unbiased_counts_cover_at_their_rate() -> None:
    table = evaluate(
        [case()], ["equal-unbiased", "greedy-unbiased"], epsilons=[1], taus=[5], draws=1_000, coverage=True
    )
    for row in rows(table, kind="simulated"):
        assert abs(row["coverage"] - 0.95) < 3 * row["coverage_error"] + 0.005, row
        assert 0 < row["coverage_error"] < 0.01


def test_coverage_is_counted_draw_by_draw() -> None:
    made, draws = case(), 6
    (row,) = rows(evaluate([made], ["optimal-learned"], epsilons=[1], taus=[5], draws=draws, coverage=True), level="b")
    noise = SimulatedNoise("api", 1.0, made.spec.l1, share_of(made.at(5, 1), "optimal-learned"))
    drawn = draws_of(0, "made up/a > b > day", 0, draws * made.nodes)
    copies = Copies.of(made.tree, draws)
    noisy = noise._replace(share=copies.spread(noise.share)).added(copies.spread(made.count), drawn)
    held = []
    for each in copies.apart(noisy):
        known = learn(made.tree, each, noise.variance, made.prior, tau=5.0)
        low, high = denoise(made.tree, each, noise.variance, prior=known, nonnegative=True).interval(0.95)
        held.append(((low <= made.count) & (made.count <= high))[made.tree.slice(1)].mean())
    assert row["coverage"] == pytest.approx(np.mean(held))
    assert row["coverage_error"] == pytest.approx(np.std(held, ddof=1) / np.sqrt(draws))


def test_what_is_finished_without_coverage_does_not_answer_for_it(tmp_path: Path) -> None:
    store = str(tmp_path / "finished.jsonl")
    evaluate([case()], SOME, draws=3, store=Store(store))
    kept = Path(store).read_text()
    assert evaluate([case()], SOME, draws=3, store=Store(store), coverage=True).table.column("coverage").null_count < 99
    assert Path(store).read_text() != kept
    assert "coverage" not in evaluate([case()], SOME, draws=3, store=Store(store)).table.column_names


def sure(tree: Tree, measured: Measurements, known: Background) -> Any:
    """Always right, since nothing is known: what the tree was measured as has a variance of inf."""
    return denoise(tree, Measurements(measured.noisy, np.full(len(tree), np.inf)))


def test_a_method_of_ones_own_may_say_how_sure_it_is() -> None:
    table = evaluate([case()], [mine(make=sure)], epsilons=[1], taus=[5], draws=3, coverage=True)
    assert {row["coverage"] for row in rows(table)} == {1.0}


# Copies, noise and measures


@given(parents(), st.integers(1, 5))
def test_copies_are_denoised_as_one_is(parent: list[int], number: int) -> None:
    flat = Tree.from_parents(parent)
    tree = Tree.from_parents(flat.family)
    copies = Copies.of(tree, number)
    rng = np.random.default_rng(len(parent))
    variance, noisy = rng.uniform(1, 9, len(tree)), rng.normal(9, 5, (number, len(tree)))
    given_ = np.concatenate([noisy[:, tree.slice(i)].ravel() for i in range(tree.depth)])
    found = denoise(copies.forest, given_, copies.spread(variance)).count
    alone = [denoise(tree, each, variance).count for each in noisy]
    for i in range(tree.depth):
        assert found[copies.forest.slice(i)].reshape(number, -1) == pytest.approx(np.array(alone)[:, tree.slice(i)])
    assert copies.nodes(found) == pytest.approx(np.sum(alone, axis=0))
    assert copies.levels(found)[:, 0] == pytest.approx([a[tree.slice(0)].sum() for a in alone])
    assert (copies.forest.family == Tree.from_parents(copies.forest.parent).family).all()


@pytest.mark.parametrize(("nodes", "draws"), [(1, 1), (3, 1000), (BATCH // 3, 10), (BATCH * 2, 5), (BATCH, 2)])
def test_batches_make_all_draws(nodes: int, draws: int) -> None:
    found = batches(nodes, draws)
    assert sum(found) == draws
    assert max(found) * nodes <= max(BATCH, nodes)


@pytest.mark.parametrize("rate", [0.05, 0.5, 3.0])
def test_luck_is_discrete_laplace_at_any_rate(rate: float) -> None:
    drawn = noise_model("unit", 3.0).replay(np.full(400_000, rate), *draws_of(5, "x", 0, 400_000))
    p = np.exp(-rate)
    for k in (0, 1, -1, 4):
        chance = (1 - p) / (1 + p) * p ** abs(k)
        assert abs((drawn == k).mean() - chance) < 4 * np.sqrt(chance / len(drawn))
    assert drawn.var() == pytest.approx(dlap_variance(rate), rel=0.02)
    assert (drawn == np.rint(drawn)).all()


@pytest.mark.parametrize("model", ["api", "unit"])
def test_noise_has_the_variance_that_a_split_buys(model: str) -> None:
    made = case(model)
    split = budget.optimal(made.tree, made.prior.mean, 4.0, 10.0, noise=model)
    noise = SimulatedNoise(model, 4.0, 65536, split.nodes() / 4)
    assert noise.variance == pytest.approx(split.variance())
    size = 20_000
    shares = np.repeat(noise.share[noise.share > 0][:3], size)
    many = noise._replace(share=shares, epsilon=0.5)
    off = many.added(np.full(len(shares), 9.0), draws_of(0, "y", 0, len(shares))) - 9
    assert (off.reshape(3, size) ** 2).mean(axis=1) == pytest.approx(many.variance[::size], rel=0.06)


def test_what_is_not_measured_is_not_given_away() -> None:
    noise = SimulatedNoise("api", 1.0, 65536, np.array([0.0, 1.0]))
    assert noise.added(np.array([50.0, 50.0]), draws_of(0, "z", 0, 2))[0] == 0
    assert noise.variance[0] == np.inf
    tree = Tree.from_parents([-1, 0])
    raw = ESTIMATORS["raw"].make(tree, Measurements(np.array([0.0, 5.0]), noise.variance), Background())
    assert raw.count[0] == np.inf


@pytest.mark.parametrize("shape", list(NAMED))
def test_pools(shape: str) -> None:
    tree = Tree.from_parents(Tree.from_parents(NAMED[shape]).family)
    rng = np.random.default_rng(1)
    count, variance = rng.poisson(20, len(tree)).astype(float), rng.uniform(1, 9, len(tree))
    found = exact(Pooling.of(tree, count, 5.0), variance).rmsre
    assert found[:-1] == pytest.approx(rmsre.levels(tree, count, variance, 5.0))
    assert found[-1] == pytest.approx(rmsre.tree(tree, count, variance, 5.0))
    assert rmsre.errors(tree, count, variance, 5.0).tree == rmsre.tree(tree, count, variance, 5.0)
    roots = rmsre.roots(tree, count, variance, 5.0)
    if tree.is_leaf[tree.level < tree.depth - 1].any():
        return  # a root that lacks a level has no say in it
    pooled = exact(Pooling.of(tree, count, 5.0, "roots"), variance).rmsre
    assert pooled[-1] == pytest.approx(np.sqrt(np.mean(roots**2)))


# Ways to split


@settings(deadline=None, max_examples=examples(60))
@given(specs(), st.integers(0, 3), st.integers(2, 5))
def test_no_way_overspends_on_any_path(asks: Spec, seed: int, seen: int) -> None:
    tree, prior = asked(asks, seed, 5, seen)
    made = Case.of("made up", "tree", asks, tree, np.ones(len(tree)), prior)
    for name in (
        "equal-raw",
        "leaves-unbiased",
        "greedy-unbiased",
        "greedy-raw",
        "optimal-learned",
        "per-node-learned",
    ):
        share = share_of(made, name)
        assert share.shape == (len(tree),)
        assert (share >= 0).all()
        spent = share.copy()
        for i in range(1, tree.depth):
            spent[tree.slice(i)] += spent[tree.family[tree.slice(i)]]
        assert spent.max() <= 1 + 1e-9


def test_new_roots_below_a_total_do_not_overspend_where_unknown_levels_are_limited() -> None:
    asks = spec(noise="gaussian", delta=1e-6, total=True, weights="counts", neighbours="definition-1", split_by="a")
    tree, prior = asked(asks, 4, 5, 2)
    made = Case.of("made up", "tree", asks, tree, np.ones(len(tree)), prior)
    spent = tree.in_level_order.sum_down(share_of(made, "per-node-unbiased"))
    assert spent.max() <= 1 + 1e-9


@pytest.mark.parametrize("way", ["greedy", "optimal", "per-node"])
def test_a_new_root_takes_the_split_that_is_best_for_the_known_ones(way: str) -> None:
    made = case(seen=3)
    new = np.flatnonzero(made.prior.new_roots(made.tree))
    assert len(new) == 2
    share = share_of(made, f"{way}-unbiased")
    root, level = made.tree.root, made.tree.level
    by_level = [[share[(root == i) & (level == j)] for j in range(made.tree.depth)] for i in new]
    for each in by_level:
        assert [values.min() for values in each] == pytest.approx([values.max() for values in each])
        assert [values[0] for values in each] == pytest.approx([values[0] for values in by_level[0]])
    weights = np.where(np.isin(root, new), 0.0, 1.0)
    method = budget.greedy if way == "greedy" else budget.optimal
    pooled = method(made.tree, made.prior.mean, 4.0, 10.0, by_root=False, weights=weights)
    assert [values[0] for values in by_level[0]] == pytest.approx(pooled.epsilon[0] / 4)


def test_raw_figures_have_a_split_of_their_own() -> None:
    made = case(seen=5)
    share = share_of(made, "greedy-raw")
    assert share.min() > 0.01
    split = budget.greedy(made.tree, made.prior.mean, 4.0, 10.0, denoised=False)
    assert share == pytest.approx(split.nodes() / 4)


def test_a_private_prior_has_the_noise_of_an_equal_split() -> None:
    asks = spec(split_by="a")
    tree, table = asks.tree(counts(0, 5)), counts(0, 5)
    truth = from_counts(tree, table).mean
    sure = private_prior(asks, tree, table, np.random.default_rng(0), 1e6)
    assert sure.mean == pytest.approx(truth, abs=1e-3)
    assert sure.protected
    expected = budget.expected(tree, truth, budget.equal(tree, truth, 1.0, 10.0), 10.0).variance
    draws = [private_prior(asks, tree, table, np.random.default_rng(i)).mean - truth for i in range(300)]
    assert np.mean(np.square(draws) / expected) == pytest.approx(1, rel=0.06)
    assert abs(np.mean(draws / np.sqrt(expected))) < 0.03


# Seeds, workers, resuming


def test_one_worker_and_two_make_the_same_table() -> None:
    cases = [case(), case("unit")]
    one = evaluate(cases, epsilons=[1, 8], draws=20, seed=5)
    two = evaluate(cases, epsilons=[1, 8], draws=20, seed=5, workers=2)
    assert one.equals(two)
    other = evaluate(cases, epsilons=[1, 8], draws=20, seed=6)
    assert not one.equals(other)
    assert rows(one, kind="exact") == rows(other, kind="exact")


def test_functions_that_are_wrapped_and_count_their_calls_make_the_same_table() -> None:
    calls: dict[str, int] = {}

    def counted(call: Any, part: str) -> Any:
        def run(*given: Any, **options: Any) -> Any:
            calls[part] = calls.get(part, 0) + 1
            return call(*given, **options)

        return run

    tried = [method for method in methods().values() if not method.slow]
    splits = {m.split.name: replace(m.split, split=counted(m.split.split, m.split.name)) for m in tried}
    kinds = {m.estimator.name: m.estimator for m in tried}
    kinds = {name: replace(kind, make=counted(kind.make, name)) for name, kind in kinds.items()}
    wrapped = [replace(m, split=splits[m.split.name], estimator=kinds[m.estimator.name]) for m in tried]
    found = evaluate([case()], wrapped, epsilons=[1, 8], draws=20, seed=5)
    assert min(calls.values()) > 0 and {"greedy", "raw", "nonnegative"} <= set(calls)
    assert found.equals(evaluate([case()], epsilons=[1, 8], draws=20, seed=5))


def test_a_case_is_the_same_in_another_process() -> None:
    made = case(seen=3, total=True)
    again = pickle.loads(pickle.dumps(made))
    assert again.key == made.key
    assert evaluate([again], draws=3).equals(evaluate([made], draws=3))
    assert case(seen=2, total=True).key != made.key


def test_a_grid_goes_on_where_it_stopped(tmp_path: Path) -> None:
    path, done = tmp_path / "finished.jsonl", []

    def stop(number: int, of: int) -> None:
        if number == 4:
            raise KeyboardInterrupt

    whole = evaluate([case()], draws=5)
    with pytest.raises(KeyboardInterrupt):
        evaluate([case()], draws=5, store=Store(str(path)), progress=stop)
    assert len(path.read_text().splitlines()) == 4
    path.write_bytes(path.read_bytes()[:-100])  # the last line is cut off
    again = evaluate([case()], draws=5, store=Store(str(path)), progress=lambda number, of: done.append((number, of)))
    assert again.equals(whole)
    assert done[0] == (3, 12)
    kept = path.read_text()
    assert evaluate([case()], draws=5, store=Store(str(path))).equals(whole)
    assert path.read_text() == kept
    assert len(evaluate([case()], draws=6, store=Store(str(path)))) == len(whole)
    assert path.read_text() != kept


def test_a_store_passes_over_what_is_cut_off(tmp_path: Path) -> None:
    path = tmp_path / "kept.jsonl"
    path.write_text('["a", [{"x": 1}]]\n["b", [{"x"')
    store = Store(str(path))
    assert (store.get("a"), store.get("b")) == ([{"x": 1}], None)
    store.put("b", [{"x": float("inf")}])
    assert Store(str(path)).get("b") == [{"x": float("inf")}]
    assert json.loads(path.read_text().splitlines()[0])[0] == "a"


def test_a_store_that_cannot_be_kept_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be read: Is a directory; choose another folder"):
        Store(str(tmp_path))
    with pytest.raises(InputError, match="cannot be written: No such file"):
        Store(str(tmp_path / "none" / "kept.jsonl")).put("a", [])


# Which methods


@pytest.mark.parametrize(
    ("names", "estimates", "wanted"),
    [
        ([], [], [name for name, method in methods().items() if not method.slow]),
        (["optimal"], [], ["optimal-unbiased", "optimal-nonnegative"]),
        (["optimal"], ["learned"], ["optimal-learned"]),
        (["per-node", "equal-raw"], [], ["equal-raw", "per-node-unbiased", "per-node-nonnegative"]),
        (["optimal-learned"], [], ["optimal-learned"]),
        (["planned", "zeros"], [], ["planned-nonnegative", "planned-learned", "planned-posterior", "zeros"]),
        (["planned-posterior"], ["posterior"], ["planned-posterior"]),
        ([], ["limit1"], [f"{split}-limit1" for split in EVERY]),
        ([], ["learned"], [f"{split}-learned" for split in EVERY]),
        (["greedy", "leaves"], ["unbiased", "raw"], ["leaves-unbiased", "greedy-raw", "greedy-unbiased"]),
    ],
)
def test_methods_are_chosen_by_name_by_split_and_by_estimator(
    names: list[str], estimates: list[str], wanted: list[str]
) -> None:
    assert [method.name for method in chosen(names, estimates)] == wanted


@pytest.mark.parametrize(
    ("names", "estimates", "rule"),
    [
        (["best"], [], "a method is one of optimal, .*; got 'best'"),
        ([], ["blue"], "an estimator is one of raw, .*; got 'blue'"),
        (["leaves", "optimal"], ["raw"], "leaves is tried with the estimator unbiased or .*; got raw"),
        (["optimal-learned"], ["raw"], "optimal-learned is tried with the estimator learned; got raw"),
    ],
)
def test_methods_that_there_are_not_are_refused(names: list[str], estimates: list[str], rule: str) -> None:
    with pytest.raises(InputError, match=rule):
        chosen(names, estimates)


def test_estimators_are_chosen_in_a_grid() -> None:
    table = evaluate([case()], ["equal"], estimators=["unbiased"], epsilons=[2], taus=[10], draws=0)
    assert {row["method"] for row in rows(table)} == {"equal-unbiased"}


# Methods of one's own, and the table


def twice(tree: Tree, count: Any, epsilon: float, tau: float, **options: Any) -> Split:
    """Two thirds for the leaves."""
    level = np.full(tree.depth, epsilon / 3 / (tree.depth - 1))
    level[-1] = epsilon * 2 / 3
    return Split(tree, np.tile(level, (int(tree.first[0]), 1)), epsilon, options["noise"])


def test_another_method_is_another_pair_of_functions() -> None:
    own = Method(BudgetMethod("twice", twice, "two thirds for the leaves"), ESTIMATORS["unbiased"])
    table = evaluate([case()], [own, "equal-unbiased"], epsilons=[2], taus=[10], draws=200)
    assert {row["method"] for row in rows(table)} == {"twice-unbiased", "equal-unbiased"}
    (exact_one,) = rows(table, method="twice-unbiased", level=None, kind="exact")
    (simulated,) = rows(table, method="twice-unbiased", level=None, kind="simulated")
    assert exact_one["title"] == "twice split, unbiased"
    assert abs(exact_one["rmsre"] - simulated["rmsre"]) < 3 * simulated["standard_error"]


def test_two_methods_of_one_name_are_refused() -> None:
    own = Method(BudgetMethod("equal", twice, "another one"), ESTIMATORS["unbiased"])
    with pytest.raises(InputError, match="two methods are named 'equal-unbiased'"):
        evaluate([case()], [own, "equal-unbiased"], draws=2)


def expecting(tree: Tree, measured: Measurements, known: Background) -> Any:
    """What was there before, whatever is measured."""
    assert known.earlier is not None
    return replace(denoise(tree, measured), count=known.earlier.mean)


def test_an_estimator_is_given_the_prior() -> None:
    made = case()
    table = evaluate([made], [mine(make=expecting)], epsilons=[1], taus=[10], draws=5)
    wanted = rmsre.tree(made.tree, made.count, np.square(made.prior.mean - made.count), 10.0)
    (found,) = rows(table, level=None)
    assert found["rmsre"] == pytest.approx(wanted)


@pytest.mark.parametrize(
    ("share", "rule"),
    [
        (np.full((5, 3), 1.0), "no path spends more than 1.0; got 1.0 as the least, and a path that spends 3.0"),
        (np.full((5, 3), np.nan), "budgets are 0 or more.*got nan"),
        (np.full((5, 3), -0.1), "budgets are 0 or more.*got -0.1"),
        (np.ones(1), "a split is of shape"),
    ],
)
def test_a_split_of_ones_own_keeps_to_the_budget(share: Any, rule: str) -> None:
    own = mine(lambda tree, count, epsilon, tau, **options: Split(tree, share * epsilon, epsilon))
    with pytest.raises(InputError, match=f"my-own: .*{rule}"):
        evaluate([case()], [own], epsilons=[1], taus=[10], draws=2)


seen: list[int] = []


def pooling(tree: Tree, measured: Measurements, known: Background) -> Any:
    """Every root is the mean of all roots."""
    seen.append(len(tree))
    first = int(tree.first[0])
    found = measured.noisy.copy()
    found[:first] = measured.noisy[:first].mean()
    return replace(denoise(tree, measured), count=found)


def test_an_estimator_of_ones_own_sees_one_draw_unless_it_may_be_batched() -> None:
    """One that pools roots averages the noise of all draws away if it sees them all."""
    made, options = case(), {"epsilons": [1.0], "taus": [10], "draws": 40}
    seen.clear()
    alone = evaluate([made], [mine(make=pooling)], **options)
    assert seen == [made.nodes] * 40
    pooled = evaluate([made], [mine(make=pooling, batched=True)], **options)
    assert seen[40:] == [40 * made.nodes]
    one, other = (rows(table, level="a")[0]["rmsre"] for table in (alone, pooled))
    assert other < one


def greedy_hands(tree: Tree, measured: Measurements, known: Background) -> Any:
    measured.noisy[:] = 0
    return denoise(tree, measured)


@pytest.mark.parametrize("batched", [True, False])
def test_what_estimators_are_handed_cannot_be_changed(batched: bool) -> None:
    """Or one that works in place would change the figures of the others."""
    with pytest.raises(ValueError, match="read-only"):
        evaluate([case()], [mine(make=greedy_hands, batched=batched)], epsilons=[1], taus=[10], draws=3)


def in_place(tree: Tree, count: Any, epsilon: float, tau: float, **options: Any) -> Split:
    np.minimum(count, 1, out=count)
    return budget.equal(tree, count, epsilon, tau, **options)


def at_the_prior(tree: Tree, measured: Measurements, known: Background) -> Any:
    assert known.earlier is not None
    known.earlier.mean[:] = 0
    return denoise(tree, measured)


def test_nor_can_what_splits_and_closed_forms_are_handed() -> None:
    for own in (mine(in_place), mine(make=greedy_hands, linear=True), mine(make=at_the_prior, linear=True)):
        with pytest.raises((ValueError, InputError), match="read-only"):
            evaluate([case()], [own], epsilons=[1], taus=[10], draws=0)


@pytest.mark.parametrize("guard", [1.05, 2, "none"])
@pytest.mark.parametrize("split_by", ["a", None])
def test_the_split_is_that_of_the_plan_within_its_guard(guard: Any, split_by: str | None) -> None:
    made = case(guard=guard)
    made = replace(made, spec=made.spec.model_copy(update={"split_by": split_by}))
    named = made.spec.tree(counts(0, 5))
    _, prior = asked(made.spec, 0, 5, 4)
    plan = make_plan(made.at(10, 4).spec, named, prior)
    share = share_of(made.at(10, 4), "optimal-unbiased")
    assert share * 65536 == pytest.approx(named.to_level_order(plan.contribution(named)), abs=1.01)


@pytest.mark.parametrize(("made", "told"), [(np.nan, "nan"), (np.ones(2), r"shape \(2,\)")])
def test_an_estimator_gives_a_count_for_each_node(made: Any, told: str) -> None:
    def odd(tree: Tree, measured: Measurements, known: Background) -> Any:
        return replace(denoise(tree, measured), count=made + np.zeros(len(made) if np.ndim(made) else len(tree)))

    with pytest.raises(InputError, match=f"a count for each of the .* got {told}"):
        evaluate([case()], [mine(make=odd)], epsilons=[1], taus=[10], draws=2)


def test_squared_errors_of_draws_have_the_error_of_a_simulation() -> None:
    """rmsre takes the mean of squared errors, where estimates are biased."""
    made = case()
    table = evaluate([made], ["greedy-nonnegative"], epsilons=[1], taus=[10], draws=300)
    share = share_of(made.at(10, 1), "greedy-nonnegative")
    noise = SimulatedNoise("api", 1.0, made.spec.l1, share)
    squared = []
    for i in range(300):
        noisy = noise.added(made.count, draws_of(5, "mine", i, made.nodes))
        est = denoise(made.tree, noisy, noise.variance, nonnegative=True)
        squared.append((est.count - made.count) ** 2)
    found = rmsre.tree(made.tree, made.count, np.mean(squared, axis=0), 10.0)
    (simulated,) = rows(table, level=None, kind="simulated")
    assert found == pytest.approx(simulated["rmsre"], abs=5 * simulated["standard_error"])


def by_budget(tree: Tree, count: Any, epsilon: float, tau: float, **options: Any) -> Split:
    """More for the leaves the less there is."""
    leaf = 1 / (1 + epsilon)
    level = np.array([*[(1 - leaf) / (tree.depth - 1)] * (tree.depth - 1), leaf])
    return Split(tree, np.tile(level * epsilon, (int(tree.first[0]), 1)), epsilon, options["noise"])


def test_a_split_of_ones_own_is_asked_at_every_epsilon() -> None:
    own = mine(by_budget, linear=True)
    together = rows(evaluate([case()], [own], epsilons=[1, 4], taus=[10], draws=3))
    alone = [row for e in (1, 4) for row in rows(evaluate([case()], [own], epsilons=[e], taus=[10], draws=3))]
    assert together == alone
    once = replace(own, split=replace(own.split, scales=True))  # which is not so
    assert rows(evaluate([case()], [once], epsilons=[1, 4], taus=[10], draws=3)) != alone


def ending(*_: Any, **options: Any) -> Any:
    os._exit(3)


def test_workers_that_end_are_told_of() -> None:
    with pytest.raises(InputError, match="a worker process ended early: .*; use 1 worker"):
        evaluate([case()], [mine(ending)], draws=2, workers=2)
    nameless = mine(lambda *given, **options: replace(twice(*given, **options)))
    with pytest.raises(InputError, match="functions must be importable by name"):
        evaluate([case()], [nameless], draws=2, workers=2)
    assert len(evaluate([case()], [nameless], draws=2))


def deaf(*given: Any, **options: Any) -> Split:
    """An equal split where this process does not hear Ctrl-C."""
    if signal.SIGINT not in signal.pthread_sigmask(signal.SIG_BLOCK, []):
        raise InputError("Ctrl-C would end this worker")
    return budget.equal(*given, **options)


def test_workers_leave_ctrl_c_to_their_parent() -> None:
    assert len(evaluate([case()], [mine(deaf)], epsilons=[1], draws=2, workers=2))
    with pytest.raises(InputError, match="Ctrl-C would end"):
        evaluate([case()], [mine(deaf)], epsilons=[1], draws=2)


# What is kept


def test_results_of_ones_own_methods_are_not_kept(tmp_path: Path) -> None:
    """Their code may change: functions of one name differ in a constant, in what they call or in what they hold."""

    def method(number: int, helper: int) -> Method:
        space: dict[str, Any] = {"denoise": denoise, "replace": replace, "__name__": "mine"}
        code = "def once(): return 1\ndef part(): return {1}\n"
        code += "def halved(tree, measured, known):\n    est = denoise(tree, measured)\n"
        exec(code.format(0, helper) + f"    return replace(est, count=est.count / {number} / once() / part())", space)
        return mine(make=space["halved"])

    errors, path = {}, tmp_path / "kept.jsonl"
    for number, helper in ((2, 1), (3, 1), (2, 5)):
        tried = [method(number, helper), "equal-unbiased"]
        table = evaluate([case()], tried, epsilons=[1], taus=[5], draws=2, store=Store(str(path)))
        errors[number, helper] = rows(table, level=None, method="my-own")[0]["rmsre"]
        assert table.equals(evaluate([case()], tried, epsilons=[1], taus=[5], draws=2))
        assert len(path.read_text().splitlines()) == 1
    assert len(set(errors.values())) == 3


def test_differences_are_paired() -> None:
    """Their standard errors are those of draws that both methods met, against a bootstrap of the draws."""
    found = evaluate([case()], ["optimal-unbiased", "optimal-nonnegative"], epsilons=[1, 4], taus=[5], draws=200)
    changes = found.compare("optimal-nonnegative", "optimal-unbiased")
    assert len(changes) == 2 * 4
    rng = np.random.default_rng(0)
    for change in changes:
        of = {name: change[name] for name in ("epsilon", "level")}
        one, other = (
            np.array(rows(found.draws, method=m, **of)[0]["squared"])
            for m in ("optimal-nonnegative", "optimal-unbiased")
        )
        assert change["change"] == pytest.approx(np.sqrt(one.mean() / other.mean()) - 1)
        again = rng.integers(0, 200, (400, 200))
        ratios = np.sqrt(one[again].mean(axis=1) / other[again].mean(axis=1))
        assert change["standard_error"] == pytest.approx(ratios.std(), rel=0.25)
        simulated = rows(found, method="optimal-nonnegative", kind="simulated", **of)[0]
        assert simulated["rmsre"] == pytest.approx(np.sqrt(one.mean()))
    with pytest.raises(InputError, match="methods with draws are optimal-unbiased, optimal-nonnegative; got 'best'"):
        found.compare("best", "optimal-unbiased")


def test_the_table_keeps_its_contract() -> None:
    table = evaluate([case()], SOME, epsilons=[1, 2], taus=[5], draws=3).table
    contract = ["dataset", "tree", "method", "noise", "epsilon", "tau", "level", "rmsre", "standard_error"]
    assert table.column_names[: len(contract)] == contract
    found = rows(table)
    assert [row["level"] for row in found[:4]] == ["a", "b", "day", None]
    assert {(row["method"], row["kind"]) for row in found} == {
        ("equal-unbiased", "exact"),
        ("equal-unbiased", "simulated"),
        ("optimal-nonnegative", "simulated"),
    }
    assert [row["epsilon"] for row in found] == sorted(row["epsilon"] for row in found)
    assert found[0]["nodes"] == 5 and found[3]["nodes"] == len(case().tree)


def test_never_negative_beats_unbiased_on_a_sparse_tree() -> None:
    table = evaluate([case()], ["optimal-unbiased", "optimal-nonnegative"], epsilons=[0.5], taus=[5], draws=200)
    blue, top_down = (
        rows(table, method=name, level=None, kind="simulated")[0]
        for name in ("optimal-unbiased", "optimal-nonnegative")
    )
    assert top_down["rmsre"] < 0.95 * blue["rmsre"]


# A user's own counts


def test_own_counts_are_the_truth_and_estimates_below_0_are_0() -> None:
    asks, table = spec(split_by="a"), counts(0, 5)
    (made,) = user_cases(asks, _arrow(table))
    assert made.count.sum() == pytest.approx(3 * sum(table["conversions"]))
    names = ["a", "b", "day"]
    estimate = np.array(table["conversions"], float)
    estimate[::4] = -3.5
    report = _arrow({**{n: table[n] for n in names}, "estimate": estimate, "variance": np.ones(len(estimate))})
    (of_report,) = user_cases(asks, report)
    assert of_report.count.sum() == pytest.approx(3 * np.maximum(estimate, 0).sum())
    (with_prior,) = user_cases(asks, _arrow(table), report)
    assert with_prior.prior.mean.sum() == pytest.approx(3 * estimate.sum())


def _arrow(table: dict[str, Any]) -> Any:
    import pyarrow as pa

    return pa.table(table)


# What is refused


def test_a_tree_of_one_node_is_refused() -> None:
    asks = Spec(epsilon=1, attribute=[{"name": "a"}])
    tree = asks.tree({"a": ["x"]})
    with pytest.raises(InputError, match="a tree of one node has nothing to split"):
        Case.of("d", "t", asks, tree, np.array([3.0]), Prior(np.zeros(1)))


@pytest.mark.parametrize("bad", [-1.0, np.nan, np.inf])
def test_true_counts_are_0_or_more(bad: float) -> None:
    made = case()
    for count in (np.append(made.count[:-1], bad), made.count[:-1]):
        with pytest.raises(ValueError, match="a true count, 0 or more"):
            Case.of("d", "t", made.spec, made.tree, count, made.prior)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"epsilons": [0]}, "epsilon is a positive number, or several; got 0"),
        ({"epsilons": []}, "epsilon is a positive number, or several; got none"),
        ({"taus": [float("nan")]}, "tau is a positive number, or several; got nan"),
        ({"draws": 1}, "draws are 2 or more, or 0"),
        ({"draws": -5}, "draws are 2 or more, or 0"),
        ({"methods": ["best"]}, "a method is one of optimal, .*; got 'best'"),
        ({"methods": []}, "give a method"),
        ({"pool": "levels"}, "errors are pooled by nodes or by roots; got 'levels'"),
        ({"cases": []}, "give a case"),
    ],
)
def test_mistakes(options: dict[str, Any], words: str) -> None:
    given_ = {"cases": [case()], "draws": 2, **options}
    with pytest.raises(InputError, match=words):
        evaluate(given_.pop("cases"), given_.pop("methods", SOME), **given_)


def test_a_spec_of_other_levels_is_refused() -> None:
    made = case()
    with pytest.raises(InputError, match="the tree has 3 levels; the spec has 2"):
        Case.of("d", "t", spec(known="a", unknown=(UNKNOWN,)), made.tree, made.count, made.prior)
    with pytest.raises(InputError, match="the prior's epsilon is a positive number; got nan"):
        user_cases(made.spec, _arrow(counts()), prior_epsilon=float("nan"))


def test_it_shows_itself_in_a_notebook() -> None:
    errors = evaluate([case()], SOME, epsilons=[1, 2], taus=[5], draws=3)
    shown = errors._repr_html_()
    for words in (*SOME, "optimal split, nonnegative", "ε = 1", "ε = 2", "τ = 5", "tree error under"):
        assert words in shown, words
    assert pa.table(errors).equals(errors.table) and len(errors) == errors.table.num_rows
