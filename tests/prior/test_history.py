"""A history: several earlier reports as one prior, folded with a discount."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attributary import Prior, Tree, denoise, periods, prior
from attributary.errors import InputError
from attributary.estimates import Estimates
from attributary.estimators import Estimator
from attributary.pipeline.denoise_table import denoise_table
from attributary.prior.earlier import DISCOUNTS, USUAL, best_discount
from attributary.tables import write_table
from attributary.types import Floats
from support.effort import examples
from support.weeks import LEVELS, rates, tree_of, week, write_weeks


def weeks(number: int, seed: int = 0, drift: float = 0.1, campaigns: str = "abcd", **options: Any) -> dict[str, Any]:
    """Generated weeks of one tree whose rates drift, each denoised."""
    rng, tree = np.random.default_rng(seed), tree_of(list(campaigns))
    rate, made = rates(tree)[tree.is_leaf], {}
    for i in range(number):
        made[f"week {i + 1}"] = week(tree, tree.roll_up(rate), rng, **options)
        rate = rate * np.exp(rng.normal(0, drift, len(rate)))
    return made


def by_path(tree: Tree, values: Floats) -> dict[tuple[str, ...], float]:
    return {tuple(tree.path(v)): values[v] for v in range(len(tree))}


def folded(each: list[tuple[Floats, Floats]], discount: float) -> tuple[Floats, Floats, float]:
    """M, V and Σℓʲ as they are defined."""
    M, V, weight = np.zeros_like(each[0][0]), np.zeros_like(each[0][0]), 0.0
    for x, var in each:
        M, V, weight = discount * M + x, discount**2 * V + var, discount * weight + 1
    return M, V, weight


@settings(max_examples=examples(20), deadline=None)
@given(st.integers(1, 5), st.sampled_from(DISCOUNTS), st.integers(0, 100))
def test_figures_are_folded_as_defined(number: int, discount: float, seed: int) -> None:
    made = weeks(number, seed)
    tree = next(iter(made.values())).tree
    M, V, weight = folded([(est.count, est.variance) for est in made.values()], discount)
    found = prior.from_periods(tree, made, discount=discount)
    assert found.mean == pytest.approx(M / weight) and found.variance == pytest.approx(V / weight**2)
    assert found.periods == pytest.approx(np.full(len(tree), weight))
    assert found.protected and not found.new.any() and found.gone == 0


@pytest.mark.parametrize("estimator", ["nonnegative", "learned", "posterior"])
def test_estimates_that_are_not_unbiased_never_come_in(estimator: str, tmp_path: Path) -> None:
    plain = weeks(4)
    tree = plain["week 1"].tree
    biased = {name: Estimator(estimator).denoise(tree, est.measurements) for name, est in plain.items()}
    found, expected = (
        prior.from_periods(tree, str(write_weeks(tmp_path / name, made)))
        for name, made in (("biased", biased), ("plain", plain))
    )
    assert found.mean == pytest.approx(expected.mean) and found.variance == pytest.approx(expected.variance)
    assert found.mean.min() < 0 or not (expected.mean.min() < 0)


def test_nodes_that_came_or_went_are_averaged_over_the_periods_that_had_them() -> None:
    both = {"1": weeks(1, 1, campaigns="abc")["week 1"], "2": weeks(1, 2, campaigns="bcd")["week 1"]}
    tree = tree_of(list("abcde"))
    found = prior.from_periods(tree, both, discount=0.5)
    for campaign, weight in zip("abcde", (0.5, 1.5, 1.5, 1.0, 1.0), strict=True):
        node = next(v for v in tree.roots.tolist() if tree.path(v) == [campaign])
        counts = [by_path(est.tree, est.count) for est in both.values()]
        parts = [(w, c[(campaign,)]) for w, c in zip((0.5, 1.0), counts, strict=True) if (campaign,) in c]
        mean = sum(w * c for w, c in parts) / sum(w for w, _ in parts) if parts else 0.0
        assert found.mean[node] == pytest.approx(mean) and found.periods[node] == weight
        assert bool(found.new[node]) == (campaign == "e")
    gone = prior.from_periods(tree_of(list("bcd")), both)
    assert gone.gone == 9 and gone.example.startswith("campaign=a")


def test_the_variance_of_a_node_whose_leaves_came_is_their_sum() -> None:
    small, large = tree_of(["a"], places=2), tree_of(["a"], places=3)
    made = {str(i): week(tree, rates(tree), np.random.default_rng(i)) for i, tree in enumerate((small, large))}
    found = prior.from_periods(large, made, discount=1.0)
    by = by_path(large, found.variance)
    leaves = [by[path] for path in by if path[:1] == ("a",) and len(path) == 2]
    assert by[("a",)] == pytest.approx(sum(leaves))
    stayed, new = (by_path(made[name].tree, made[name].variance) for name in "01")
    assert by[("a", "place 0")] == pytest.approx((stayed[("a", "place 0")] + new[("a", "place 0")]) / 4)
    assert by[("a", "place 2")] == pytest.approx(new[("a", "place 2")])


@pytest.mark.parametrize(("drift", "low", "high"), [(0.0, 0.8, 1.0), (1.0, 0.0, 0.5)])
def test_the_discount_goes_by_how_fast_counts_drift(drift: float, low: float, high: float) -> None:
    made = weeks(8, 3, drift, campaigns="abcdefghij")
    assert low <= best_discount(periods(made)) <= high
    assert best_discount(periods(dict(list(made.items())[:2]))) == USUAL


def test_the_same_report_counts_once_whatever_its_name(tmp_path: Path) -> None:
    made = weeks(3)
    folder = write_weeks(tmp_path / "weeks", made)
    tree = made["week 1"].tree
    again = Estimator("learned").denoise(tree, made["week 2"].measurements).table()
    shuffled = again.take(np.random.default_rng(0).permutation(len(again)))
    write_table(shuffled.drop_columns(["node", "parent", "level"]), str(folder / "another name.csv"))
    with pytest.raises(InputError, match="another name and week 2 hold the same noisy figures; .*remove one of them"):
        prior.from_periods(tree, str(folder))


def test_todays_figures_are_not_their_own_past(tmp_path: Path) -> None:
    made = weeks(3)
    folder = str(write_weeks(tmp_path / "weeks", made))
    table = made["week 3"].tree.table().select(LEVELS).append_column("noisy", [made["week 3"].measurements.noisy])
    how: Any = {"levels": LEVELS, "value": "noisy", "variance": [4, 9, 25], "prior": folder}
    with pytest.raises(InputError, match="already has a report with the noisy figures that are to be denoised"):
        denoise_table(table, **how)
    (tmp_path / "weeks" / "week 3.parquet").unlink()
    done = denoise_table(table, **how)
    assert f"the prior {folder}: 2 periods (week 1 to week 2), discount 0.8" in done.notes
    direct = Estimator("learned").denoise(
        made["week 3"].tree, made["week 3"].measurements, earlier=prior.from_periods(made["week 3"].tree, folder)
    )
    assert done.estimates["count"].count == pytest.approx(direct.count)


def test_tables_without_noisy_figures_are_refused(tmp_path: Path) -> None:
    made = weeks(2)
    folder = write_weeks(tmp_path / "weeks", made)
    for table in (
        made["week 1"].table().drop_columns(["noisy", "noise_variance"]),
        made["week 1"].table().set_column(3 + len(LEVELS), "noisy", pa.array(np.arange(52.0))),
    ):
        write_table(table, str(folder / "week 1.parquet"))
        with pytest.raises(InputError, match="week 1: a history is made of noisy figures"):
            prior.from_periods(made["week 1"].tree, str(folder))


def test_a_folder_without_reports_is_refused(tmp_path: Path) -> None:
    from attributary.pipeline.read_prior import prior_table

    with pytest.raises(InputError, match="is a folder without tables of estimates; `prior` takes a folder of earlier"):
        prior_table(str(tmp_path))


def test_one_report_in_a_folder_is_that_report(tmp_path: Path) -> None:
    from attributary.pipeline.read_prior import notes_of, prior_of_figures

    made = weeks(1)
    tree = made["week 1"].tree
    past = prior_of_figures(tree, str(write_weeks(tmp_path / "one", made)))
    assert past.mean == pytest.approx(made["week 1"].count)
    assert notes_of(past) == [f"the prior {tmp_path / 'one'}: 1 period (week 1.parquet)"]


def test_shares_count_as_much_as_all_periods_together() -> None:
    """The same counts in every period: M, not its average, is what today's figures are pooled with."""
    tree = tree_of(list("abcdef"))
    truth, rng = tree.roll_up(np.arange(54.0) % 4), np.random.default_rng(0)
    today = denoise(tree, truth + rng.normal(0, 2, len(tree)), 4.0).measurements
    mean, new = truth + rng.normal(0, 1, len(tree)), np.zeros(len(tree), bool)
    of_five = Prior(mean, np.ones(len(tree)), new=new, periods=np.full(len(tree), 5.0))
    summed = Prior(5 * mean, np.full(len(tree), 25.0), new=new)
    for estimator in ("learned", "posterior"):
        one, two = (Estimator(estimator).denoise(tree, today, earlier=known) for known in (of_five, summed))
        assert one.count == pytest.approx(two.count, rel=1e-6)


def test_words_of_what_is_not_private_are_carried_on() -> None:
    made = weeks(3)
    read = {name: Estimates.of(est) for name, est in made.items()}
    from dataclasses import replace

    read["week 2"] = replace(read["week 2"], not_private="seeded")
    found = prior.from_periods(made["week 1"].tree, read)
    assert found.not_private == "seeded" and not found.protected


def test_a_history_predicts_better_than_its_last_report() -> None:
    """Generated weeks of sparse counts, ten draws: the error is lower on average."""
    ratios = []
    for seed in range(10):
        rng, tree = np.random.default_rng(seed), tree_of([str(i) for i in range(12)])
        rate, made = rates(tree, 5.0, seed)[tree.is_leaf], {}
        for i in range(7):
            made[str(i)] = week(tree, tree.roll_up(rate), rng)
            rate = rate * np.exp(rng.normal(0, 0.05, len(rate)))
        truth = tree.roll_up(rng.poisson(rate).astype(float))
        variance = tree.by_level((4.0, 9.0, 25.0))
        measured = denoise(tree, truth + rng.laplace(0, np.sqrt(variance / 2)), variance).measurements
        errors = [
            np.square(Estimator("learned").denoise(tree, measured, earlier=known).count - truth).mean()
            for known in (prior.from_periods(tree, made), prior.from_periods(tree, {"6": made["6"]}))
        ]
        ratios.append(errors[0] / errors[1])
    assert np.mean(ratios) < 0.92


def test_trees_without_labels_are_refused() -> None:
    tree = Tree.from_parents([-1, 0])
    est = denoise(tree, [3.0, 2.0], 1.0)
    with pytest.raises(InputError, match="labels"):
        prior.from_periods(tree, {"1": est, "2": denoise(tree, [3.0, 1.0], 1.0)})
