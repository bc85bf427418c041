"""Periods are joined by path, tested by their unbiased figures, and add up with exact variances."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from attributary import Tree, compare, denoise, periods
from attributary.changes import Changes
from attributary.changes.period_files import period_files
from attributary.errors import InputError
from attributary.estimates import Estimates
from attributary.prior import learn
from attributary.tables import write_table
from support.weeks import LEVELS, rates, tree_of, week, write_weeks

CAMPAIGNS = [f"c{i}" for i in range(6)]


def by_path(changes: Changes) -> dict[tuple[Any, ...], dict[str, Any]]:
    return {tuple(row[name] for name in LEVELS): row for row in changes.table().to_pylist()}


def of_paths(est: Any) -> dict[tuple[Any, ...], tuple[float, float]]:
    rows = est.tree.table().select(LEVELS).to_pylist()
    return {tuple(row.values()): figures for row, *figures in zip(rows, est.blue, est.variance, strict=True)}


@pytest.mark.parametrize("options", [{}, {"nonnegative": True}, {"prior": True}], ids=str)
def test_nodes_are_joined_by_path_and_compared_by_their_unbiased_figures(options: dict[str, Any]) -> None:
    rng = np.random.default_rng(1)
    now_tree, last_tree = tree_of([*CAMPAIGNS, "new"]), tree_of(["gone", *CAMPAIGNS[::-1]])
    made = []
    for tree in (now_tree, last_tree):
        given = (
            {**options, "prior": learn(tree, week(tree, rates(tree, 3), rng).measurements)}
            if "prior" in options
            else options
        )
        made.append(week(tree, rates(tree, 3), rng, **given))
    now, last = (of_paths(denoise(est.tree, est.measurements)) for est in made)
    rows = by_path(compare(*made))
    assert rows.keys() == now.keys() | last.keys()
    for path, row in rows.items():
        if path in now and path in last:
            (x, of_x), (y, of_y) = now[path], last[path]
            assert (row["now"], row["before"]) == pytest.approx((x, y))
            variance = of_x + of_y + max(x, 0) + max(y, 0)
            wide = row["change_high"] - row["change_low"]
            assert row["change"] == pytest.approx(x - y) and 1.9 < wide / 2 / np.sqrt(variance) < 2.1
        else:
            assert row["verdict"] == ("new" if path in now else "gone") and row["chance"] is None


def test_relative_changes_have_fieller_s_interval_and_hold_at_their_rate() -> None:
    tree, rng = Tree.from_paths({"campaign": [f"c{i}" for i in range(3000)]}, ["campaign"]), np.random.default_rng(2)
    rate = rng.choice([30.0, 100.0, 1000.0], len(tree))
    now, last = (denoise(tree, rng.poisson(r) + rng.laplace(0, 3, len(tree)), 18.0) for r in (1.2 * rate, rate))
    low, high = compare(now, last).relative[1:]
    held = (low <= 0.2) & (0.2 <= high)
    assert np.isfinite(low).mean() > 0.95
    assert 0.935 < held[np.isfinite(low)].mean() < 0.97
    assert (compare(now, last, confidence=0.5).relative.high < high)[np.isfinite(high)].all()
    tiny = compare(denoise(tree, np.full(3000, 9.0), 4.0), denoise(tree, np.full(3000, 1.0), 4.0)).relative
    assert np.isnan(tiny.estimate).all()  # what was about 0 has no percentage


def test_sums_over_periods_and_over_roots_have_exact_variances(tmp_path: Path) -> None:
    rng, trees = np.random.default_rng(3), [tree_of(CAMPAIGNS), tree_of(CAMPAIGNS[1:]), tree_of(CAMPAIGNS)]
    made = [week(tree, rates(tree), rng) for tree in trees]
    series = periods(write_weeks(tmp_path / "weeks", {f"w{i}": est for i, est in enumerate(made)}))
    rows = [tuple(row.values()) for row in series.tree.table().select(LEVELS).to_pylist()]
    count, variance = map(series.tree.from_level_order, (series.sum.count, series.sum.variance))
    each = [of_paths(est) for est in made]
    for row, x, of_x in zip(rows, count, variance, strict=True):
        there = [est[row] for est in each if row in est]
        assert (x, of_x) == pytest.approx(tuple(np.sum(there, axis=0)))
    for period, est in zip(series.total.periods, made, strict=True):
        total = est.total(est.tree.parent < 0)
        got = (period.figures.count[0], period.figures.variance[0], period.figures.excess[0])
        assert got == pytest.approx((total.unbiased, total.noise, total.excess))
        assert series.total.interval(period.figures).high[0] == pytest.approx(total.interval()[1])
    assert np.allclose(series.total.sum.variance, sum(est.total(est.tree.parent < 0).noise for est in made))
    assert series.course.low.shape == (3, len(series.tree))
    assert np.isnan(series.course.estimate[1]).sum() == len(made[0].count) - len(made[1].count)


def test_series_and_changes_are_short_in_print() -> None:
    tree, rng = tree_of(CAMPAIGNS), np.random.default_rng(4)
    series = periods({f"w{i}": week(tree, rates(tree) * (1 + i), rng) for i in range(2)})
    assert repr(series) == f"Series(2 periods of {len(tree)} nodes, w0 to w1)"
    assert repr(series.steps[0]) == f"Changes({series.steps[0].changed.sum()} of {len(tree)} nodes changed, w0 to w1)"


def test_the_noise_is_judged_period_by_period() -> None:
    tree, rng = tree_of(CAMPAIGNS), np.random.default_rng(4)
    good = week(tree, rates(tree), rng)
    wild = denoise(tree, good.blue + rng.laplace(0, 30, len(tree)), good.measurements.variance)
    series = periods({"good": good, "wild": wild})
    assert [period.doubtful for period in series.periods] == [False, True]


def test_52_weeks_without_a_change_have_few_discoveries_and_large_changes_are_found() -> None:
    discoveries, found, planted = weeks_with_discoveries(12, seed=6)
    assert discoveries <= 2
    assert found >= 0.8 * planted


@pytest.mark.sweep
@pytest.mark.parametrize("proven", [False, True])
@pytest.mark.parametrize("mean", [2.0, 60.0])
def test_the_false_discovery_rate_of_many_weeks(mean: float, proven: bool) -> None:
    runs = [weeks_with_discoveries(52, seed, mean, proven) for seed in range(8)]
    discoveries, found, planted = np.sum(runs, axis=0)
    steps = 8 * 51
    assert discoveries <= 0.05 * steps + 3 * np.sqrt(0.05 * steps)
    assert found >= 0.8 * planted


def weeks_with_discoveries(number: int, seed: int, mean: float = 60.0, proven: bool = False) -> tuple[int, int, int]:
    """Weeks without a change in which one is called; changes of 6 standard errors that were found, and all of them."""
    tree, rng = tree_of([f"c{i}" for i in range(12)]), np.random.default_rng(seed)
    rate = rates(tree, mean)
    made = {f"week {i}": week(tree, rate, rng) for i in range(number)}
    series = periods(made, proven=proven)
    discoveries = sum(bool(step.changed.any()) for step in series.steps)
    found = planted = 0
    for step in series.steps[: number // 2]:  # one in ten of the leaves grows, by six standard errors of its change
        leaf = tree.leaves[rng.permutation(len(tree.leaves))[: len(tree.leaves) // 10]]
        noise = tree.from_level_order(step.difference.noise)[leaf]
        grown = rate.copy()
        grown[leaf] += 18 + np.sqrt(18**2 + 36 * (noise + 2 * rate[leaf]))  # g = 6·√(noise + 2·rate + g)
        grown = tree.roll_up(grown[tree.is_leaf])
        changes = compare(week(tree, grown, rng), week(tree, rate, rng), proven=proven)
        called = tree.from_level_order(changes.changed & (changes.difference.change > 0))
        found, planted = found + int(called[leaf].sum()), planted + len(leaf)
    return discoveries, found, planted


def test_a_folder_of_periods_is_told_from_a_run(tmp_path: Path) -> None:
    tree, rng = tree_of(CAMPAIGNS), np.random.default_rng(5)
    est = week(tree, rates(tree), rng)
    folder = write_weeks(tmp_path / "weeks", {"estimates-10": est, "estimates-9": est})
    assert list(period_files(str(folder))) == ["9", "10"]
    for name in ("week 2", "week 10", "empty"):
        (tmp_path / "runs" / name).mkdir(parents=True)
        if name != "empty":
            write_table(week(tree, rates(tree), rng).table(), str(tmp_path / "runs" / name / "estimates.csv"))
    assert list(period_files(str(tmp_path / "runs"))) == ["week 2", "week 10"]
    assert period_files(str(tmp_path / "runs" / "week 2")) == {}
    dotted = write_weeks(tmp_path / "dotted", {"2026.10": est, "2026.9": est})
    assert list(period_files(str(dotted))) == ["2026.9", "2026.10"]
    write_table(est.table(), str(dotted / "2026.9.csv"))
    with pytest.raises(InputError, match="are of one"):
        period_files(str(dotted))
    assert [period.name for period in periods(tmp_path / "runs").periods] == ["week 2", "week 10"]


def test_impressions_are_read_and_handed_down(tmp_path: Path) -> None:
    tree, rng = tree_of(CAMPAIGNS[:2]), np.random.default_rng(5)
    seen = np.where(tree.level < 2, 1000.0 * (1 + np.arange(len(tree))), np.nan)
    weeks = {"1": week(tree, rates(tree), rng), "2": week(tree, 1.5 * rates(tree), rng)}
    series = periods(write_weeks(tmp_path / "weeks", weeks, seen), test="per-impression")
    got = tree.from_level_order(series.periods[0].figures.impressions)
    assert (got == np.where(tree.level < 2, seen, seen[tree.parent])).all()
    step = series.steps[0]
    assert np.allclose(
        step.difference.change * series.periods[0].figures.impressions,
        compare(*reversed(weeks.values())).difference.change,
    )


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"false_discoveries": 0.0}, "between 0 and 1"),
        ({"confidence": float("nan")}, "between 0 and 1"),
        ({"test": "magic"}, "a test is one of rates, counts, per-impression"),
        ({"measure": "revenue", "test": "rates"}, "tested for noise alone"),
        ({"test": "per-impression"}, "needs the column 'impressions'"),
    ],
)
def test_what_cannot_be_tested_is_refused(options: dict[str, Any], words: str) -> None:
    est = week(tree_of(CAMPAIGNS), rates(tree_of(CAMPAIGNS)), np.random.default_rng(0))
    with pytest.raises(InputError, match=words):
        compare(est, est, **options)


def test_periods_of_different_questions_are_refused(tmp_path: Path) -> None:
    est = week(tree_of(CAMPAIGNS), rates(tree_of(CAMPAIGNS)), np.random.default_rng(0))
    other = denoise(Tree.from_paths({"shop": ["a", "b"]}, ["shop"]), [1.0, 2.0], 1.0)
    bare = denoise(Tree.from_parents([-1, 0]), [1.0, 2.0], 1.0)
    for pair, words in (
        ((est, other), "have the same levels"),
        ((bare, bare), "compared by the labels"),
    ):
        with pytest.raises(InputError, match=words):
            compare(*pair)
    folder = write_weeks(tmp_path / "one", {"a": est})
    for given, words in (
        (str(folder), "not a folder of periods"),
        (str(tmp_path / "none"), "not a folder of periods"),
        ({"a": est}, "at least two periods"),
        (7, "a folder, or a mapping by name"),
    ):
        with pytest.raises(InputError, match=words):
            periods(given)
    with pytest.raises(InputError, match="twice"):
        compare(str(folder / "a.parquet"), str(folder / "a.parquet"))
    blind = Estimates.of(est)
    nothing = np.full(len(blind), np.nan)
    hidden = replace(blind, noisy=nothing, extras={"from_prior": nothing * 0}, made=None)
    with pytest.raises(InputError, match="use a prior cannot be compared"):
        compare(hidden, est)


@pytest.mark.parametrize("test", ["rates", "counts"])
def test_the_mean_of_earlier_periods_has_the_variance_of_a_mean(test: str) -> None:
    rng, trees = np.random.default_rng(4), [tree_of([*CAMPAIGNS, *more]) for more in (["old"], [], ["old"], ["new"])]
    made = [week(tree, rates(tree, 40), rng) for tree in trees]
    series = periods({f"W{i}": est for i, est in enumerate(made, 1)}, test=test).against_mean()
    *earlier, now = (of_paths(denoise(est.tree, est.measurements)) for est in made)
    rows = by_path(series.last)
    assert rows.keys() == set().union(now, *earlier) and series.last.before.name == "the mean of the 3 earlier periods"
    for path, row in rows.items():
        there = [of[path] for of in earlier if path in of]
        if path not in now or not there:
            assert row["verdict"] == ("new" if path in now else "gone") and row["chance"] is None
            continue
        x, of_x = now[path]
        mean, of_mean = sum(y for y, _ in there) / len(there), sum(v for _, v in there) / len(there) ** 2
        assert (row["before"], row["variance_before"]) == pytest.approx((mean, of_mean))
        rate = (max(x, 0) + max(sum(y for y, _ in there), 0)) / (1 + len(there)) * (test == "rates")
        node = next(v for v in range(len(series.tree)) if tuple(series.tree.path(v)) == tuple(p for p in path if p))
        place = series.tree.to_level_order(np.arange(len(series.tree)) == node).argmax()
        assert row["change"] == pytest.approx(x - mean)
        assert series.last.standard_error[place] ** 2 == pytest.approx(of_x + of_mean + rate * (1 + 1 / len(there)))
    roots = np.array([sum(v for path, (v, _) in of.items() if sum(map(bool, path)) == 1) for of in (*earlier, now)])
    assert series.total.last.difference.change[0] == pytest.approx(roots[-1] - roots[:-1].mean())


def test_the_mean_of_one_earlier_period_is_that_period() -> None:
    tree, rng = tree_of(CAMPAIGNS), np.random.default_rng(5)
    series = periods({name: week(tree, rates(tree, 40), rng) for name in ("W1", "W2")})
    assert series.against_mean().last.table().equals(series.last.table())


def test_against_a_mean_few_are_called_changed_where_nothing_changed_and_growth_is_found() -> None:
    tree, rng = Tree.from_paths({"campaign": [f"c{i}" for i in range(400)]}, ["campaign"]), np.random.default_rng(6)
    calls = []
    for _ in range(40):
        rate = np.full(len(tree), 50.0)
        each = {f"W{i}": denoise(tree, rng.poisson(rate) + rng.laplace(0, 3, len(tree)), 18.0) for i in range(6)}
        each["W9"] = denoise(
            tree, rng.poisson(rate * np.where(np.arange(400) < 4, 2, 1)) + rng.laplace(0, 3, 400), 18.0
        )
        changed = periods(each).against_mean().last.changed
        calls.append((changed[:4].mean(), changed[4:].any()))
    found, wrong = np.mean(calls, axis=0)
    assert found > 0.85 and wrong < 0.35  # of about 4 changed nodes, 5 % of the calls may be wrong


def test_the_mean_is_of_periods_with_noise_of_their_own() -> None:
    tree = Tree.from_paths(
        {"store": [c for c in "ab" for _ in range(3)], "week": ["W1", "W2", "W3"] * 2}, ["store", "week"]
    )
    series = periods(denoise(tree, np.arange(len(tree)) + 50.0, 4.0), by="week")
    with pytest.raises(InputError, match="those of one table are dependent"):
        series.against_mean()
