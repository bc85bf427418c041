"""Evaluation of measures and limits: the planner's contributions, bias by enumeration, closed forms as simulated."""

import pickle
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attributary.api.event_values import scaled
from attributary.budget import METHODS
from attributary.errors import InputError
from attributary.estimators import ESTIMATORS
from attributary.evaluate import Case, Store, evaluate, user_cases
from attributary.evaluate.case import OneMeasure, all_limits, problems, under_limits
from attributary.evaluate.methods import Method
from attributary.evaluate.user_cases import limited_cases
from attributary.facts.evaluation import read_evaluation
from attributary.plan import make_plan
from attributary.plan.problem import shares
from attributary.prior import from_counts
from attributary.prior.earlier import Profile, profile
from attributary.spec import Measure, Spec
from attributary.spec.measure import MICRO
from attributary.tables import read_table, write_table
from support.effort import examples
from support.plans import DAYS
from support.plans import of_values as spec
from support.plans import value_rows as rows

LINEAR = ["equal-raw", "equal-unbiased", "leaves-unbiased", "greedy-unbiased", "optimal-unbiased"]

WERE = {  # tree errors of counts alone, before there were measures
    ("equal-raw", "exact"): 0.003712670067188009,
    ("equal-raw", "simulated"): 0.00327598385447812,
    ("greedy-unbiased", "exact"): 0.002032154480691206,
    ("greedy-unbiased", "simulated"): 0.0019051001620346872,
    ("optimal-nonnegative", "simulated"): 0.001905090714187843,
}


def cases(asked: Spec, before: pa.Table, after: pa.Table, **options: Any) -> list[Case]:
    tree, known = asked.tree(after), [a.name for a in asked.known]
    two = (profile(tree, asked, after), from_counts(tree, before, known=known), profile(tree, asked, before))
    return limited_cases("made up", asked, tree, *two, **options)


def case(limits: str = "chosen", asked: Spec | None = None, **of_rows: Any) -> Case:
    found = cases(asked or spec(), rows(0, 3, **of_rows), rows(1, 3, **of_rows))
    return next(made for made in found if made.limits and made.limits.name == limits)


def planned(many: Case, method: str = "optimal") -> list[OneMeasure]:
    return under_limits(many, [shares(q, method) for q in problems(many)], Method.of(method, "unbiased"))


def some(table: Any, **wanted: Any) -> list[dict[str, Any]]:
    return [row for row in table.to_pylist() if all(row[name] == value for name, value in wanted.items())]


# What is measured


@settings(max_examples=examples(40), deadline=None)
@given(
    seed=st.integers(0, 9),
    most=st.sampled_from([1, 3, "auto"]),
    clip=st.sampled_from([40, "auto"]),
    measures=st.integers(1, 3),
    total=st.booleans(),
    by_root=st.booleans(),
    neighbours=st.sampled_from(["conversion", "definition-1"]),
    method=st.sampled_from(["optimal", "greedy", "equal", "leaves"]),
    seen=st.integers(2, 4),
)
def test_contributions_and_limits_are_those_of_the_plan(
    seed: int, most: Any, clip: Any, measures: int, total: bool, by_root: bool, neighbours: str, method: str, seen: int
) -> None:
    """Also for roots that the prior does not have."""
    asked = spec(
        most, clip, measures, total=total, split_by="a" if by_root else None, neighbours=neighbours, epsilon=30
    )
    before, after = rows(seed, seen, 0.5, size=30), rows(seed + 1, 4, 0.5, size=30)
    tree = asked.tree(after)
    prior, known, truth = (from_counts(tree, before, known=["a"]), *(profile(tree, asked, t) for t in (before, after)))
    plan = make_plan(asked, tree, prior, method, profile=known)
    many = limited_cases("made up", asked, tree, truth, prior, known)[0]
    for part, one in zip(plan.by_measure, planned(many, method), strict=True):
        contribution = tree.to_level_order(part.contribution(tree))
        assert one.share * asked.l1 * one.clip == pytest.approx(contribution, abs=1e-9)
        assert (one.clip, one.tau, one.measure) == (part.clip, part.tau, part.measure)
        most_of = plan.most_of_heads(tree)
        assert one.most == pytest.approx(most_of.mean())
        limited = truth.limited(part.measure, most_of, part.clip)
        assert one.case.count == pytest.approx(tree.to_level_order(limited))


def test_what_limits_cut_off_is_what_a_loop_over_conversions_cuts_off() -> None:
    asked, before, after = spec(epsilon=30), rows(0, 3, 0.5), rows(1, 3, 0.5)
    tree = asked.tree(after)
    plan = make_plan(asked, tree, from_counts(tree, before), profile=profile(tree, asked, before))
    assert len({plan.most(root) for root in plan.roots}) > 1
    order = [(r,) for r in ("r0", "r1", "r2")] + [(r, day) for r in ("r0", "r1", "r2") for day in DAYS]
    for made in cases(asked, before, after):
        for one in planned(made):
            full, left = dict.fromkeys(order, 0.0), dict.fromkeys(order, 0.0)
            for row in after.to_pylist():
                value = 1.0 if one.measure.is_count else row[one.measure.name]
                most = one.most if made.limits and made.limits.by_hand else plan.most(row["a"])
                for node in ((row["a"],), (row["a"], row["day"])):
                    full[node] += value
                    left[node] += min(value, one.clip) if row["rank"] <= most else 0.0
            assert one.case.truth == pytest.approx(list(full.values()))
            assert one.case.count == pytest.approx(list(left.values()))


def test_by_hand_measures_have_equal_parts_and_values_are_clipped_at_percentiles() -> None:
    before = rows(0, 3)
    values = np.sort(before.column("revenue").to_numpy())
    for percent, wanted in ((95, np.quantile(values, 0.95)), (99, np.quantile(values, 0.99))):
        made = case(f"m = 5, C at {percent} %")
        count, revenue = planned(made)
        assert wanted <= revenue.clip <= wanted * 10 ** (2 / 20)
        paths = [one.share[0] + one.share[3] for one in (count, revenue._replace(share=revenue.share * revenue.clip))]
        assert paths == pytest.approx([1 / 10, 1 / 10], abs=1e-3)
        assert count.most == revenue.most == 5


def test_limits_are_tried_that_leave_a_contribution_for_each_key() -> None:
    names = [limits.name for limits in all_limits(spec(l1=10, clip=40))]
    assert names == ["chosen", "m = 1", "m = 2"]
    assert [limits.name for limits in all_limits(spec(3, "auto"))] == ["chosen", "C at 95 %", "C at 99 %"]
    assert [limits.name for limits in all_limits(spec(3, 40))] == ["given"]


# Closed forms and simulation


@pytest.mark.parametrize("limits", ["chosen", "m = 2, C at 95 %"])
def test_closed_forms_are_within_three_standard_errors_of_simulation(limits: str) -> None:
    table = evaluate([case(limits, repeat=0.5)], LINEAR, epsilons=[2, 30], taus=[10], draws=2_000, seed=2)
    exact, simulated = some(table, kind="exact"), some(table, kind="simulated")
    assert len(exact) == len(simulated) == len(LINEAR) * 2 * 3 * 3
    same = ("method", "measure", "limits", "epsilon", "level", "clip", "bias", "measure_tau")
    for one, other in zip(exact, simulated, strict=True):
        assert [one[name] for name in same] == [other[name] for name in same]
        assert one["rmsre"] > one["bias"] > 0
        assert abs(one["rmsre"] - other["rmsre"]) < 3 * other["standard_error"], one


def test_values_rounded_one_by_one_have_the_variance_that_is_told() -> None:
    """With a budget so small that rounding is most of the noise, each value is rounded as a trigger is."""
    asked = spec(2, "auto", l1=200, epsilon=60, split_by=None)
    before, after = rows(0, 3), rows(1, 3)
    _, one = planned(cases(asked, before, after)[0], "equal")
    contribution = np.rint(one.share * asked.l1 * one.clip).astype(int)
    assert np.all(contribution > 1) and np.mean(np.sqrt(one.case.rounding)) > 1  # type: ignore[arg-type]
    rng, draws = np.random.default_rng(0), 300
    sums = np.zeros((draws, 3))
    for row in after.to_pylist():
        if row["rank"] > 2:
            continue
        micro, clip = round(row["revenue"] * MICRO), round(one.clip * MICRO)
        for i, number in enumerate(rng.integers(0, 2**64, draws, np.uint64).tolist()):
            sums[i, int(row["a"][1])] += scaled(micro, clip, int(contribution[0]), number)
    found = sums * one.clip / contribution[0]
    error = found.std(axis=0, ddof=1)
    assert (np.abs(found.mean(axis=0) - one.case.count[:3]) < 3 * error / np.sqrt(draws)).all()
    assert error == pytest.approx(np.sqrt(one.case.rounding[:3]), rel=0.15)  # type: ignore[index]


def test_rounding_is_in_closed_forms_and_in_draws() -> None:
    asked = spec(2, "auto", l1=200, epsilon=60, split_by=None)
    made = case("chosen", asked)
    table = evaluate([made], ["equal-raw"], epsilons=[60], taus=[10], draws=4_000, seed=1)
    _, one = planned(made.at(10, 60), "equal")
    for exact, drawn in zip(*(some(table, kind=k, measure="revenue") for k in ("exact", "simulated")), strict=True):
        assert abs(exact["rmsre"] - drawn["rmsre"]) < 3 * drawn["standard_error"]
    noise = evaluate([made], ["equal-raw"], epsilons=[60], taus=[10], draws=0)
    of_noise = some(noise, measure="revenue", level="a")[0]["rmsre"] ** 2
    relative = 1 / np.maximum(one.case.truth, one.tau)[:3]
    rounding = np.mean(one.case.rounding[:3] * relative**2)  # type: ignore[index]
    cut = np.mean(((one.case.count - one.case.truth)[:3] * relative) ** 2)
    assert of_noise > rounding + cut
    counts = planned(made, "equal")[0].case.rounding
    assert counts == 0.0


def test_more_conversions_that_do_not_occur_are_so_much_more_noise() -> None:
    """Where every impression has one conversion, a limit of 3 costs three times the noise, and cuts nothing off."""
    before, after = rows(0, 3, 1e-12), rows(1, 3, 1e-12)
    plain = Spec(epsilon=4, split_by="a", attributes=spec().attributes)
    thrice = plain.model_copy(update={"conversions_per_impression": 3})
    alone = user_cases(plain, after, before, name="made up")
    one, other = (
        some(evaluate(made, ["equal-raw", "leaves-unbiased"], epsilons=[4], taus=[10], draws=0))
        for made in (alone, cases(thrice, before, after))
    )
    assert [row["bias"] for row in other] == [0.0] * len(other)
    assert [row["rmsre"] for row in other] == pytest.approx([3 * row["rmsre"] for row in one], rel=1e-3)
    assert {row["measure"] for row in other} == {"count"} and {row["limits"] for row in other} == {"given"}
    more = rows(1, 3, 0.6)
    (bias,) = {row["bias"] for row in some(evaluate(cases(thrice, before, more), ["equal-raw"], draws=0), level="a")}
    assert bias > 0.1


def test_all_measures_together_are_root_mean_squares_by_weight() -> None:
    heavy = Measure(name="count", weight=3.0)
    asked = spec().model_copy(update={"measures": (heavy, *spec().asked[1:])})
    table = evaluate(cases(asked, rows(0), rows(1))[:1], ["optimal-unbiased"], epsilons=[4], taus=[10], draws=300)
    by = {
        key: list(group)
        for key, group in groupby(table.to_pylist(), key=lambda row: (row["measure"], row["level"], row["kind"]))
    }
    for level in ("a", "day", None):
        for kind in ("exact", "simulated"):
            (count,), (revenue,), (both,) = (by[name, level, kind] for name in ("count", "revenue", None))
            for name in ("rmsre", "bias"):
                assert both[name] ** 2 == pytest.approx((3 * count[name] ** 2 + revenue[name] ** 2) / 4)
            assert both["clip"] is None and both["limits"] == "chosen"
        assert abs(by[None, level, "exact"][0]["rmsre"] - both["rmsre"]) < 3 * both["standard_error"]
        assert 0 < both["standard_error"] < count["standard_error"] + revenue["standard_error"]


# The grid


def test_seeds_workers_and_copies_give_the_same_table() -> None:
    made = cases(spec(), rows(0), rows(1))[:3]
    asked: dict[str, Any] = {
        "methods": ["equal-raw", "optimal-nonnegative"],
        "epsilons": [4],
        "taus": [5, 10],
        "draws": 6,
    }
    one = evaluate(made, **asked)
    assert one.equals(evaluate(made, **asked, workers=2))
    assert not one.equals(evaluate(made, **asked, seed=1))
    for case in made:
        again = pickle.loads(pickle.dumps(case))
        assert again.key == case.key and again.limits == case.limits
    assert len({case.key for case in made}) == 3


def test_what_is_finished_is_not_done_again(tmp_path: Path) -> None:
    made, path = cases(spec(), rows(0), rows(1))[:2], tmp_path / "finished.jsonl"
    asked: dict[str, Any] = {"methods": ["equal-raw", "leaves-unbiased"], "epsilons": [4], "taus": [10], "draws": 4}
    whole = evaluate(made, **asked, store=Store(str(path)))
    lines = path.read_text().splitlines()
    assert len(lines) == 4
    path.write_text("\n".join([*lines[:2], lines[2][:50]]))
    told: list[tuple[int, int]] = []
    assert whole.equals(evaluate(made, **asked, store=Store(str(path)), progress=lambda *n: told.append(n)))
    assert told[0] == (2, 4) and told[-1] == (4, 4)


def test_noise_on_whole_counts_is_tried_too() -> None:
    asked = spec(2, 40, 1).model_copy(update={"measures": None})
    found = cases(asked, rows(0), rows(1), noises=("api", "unit"))
    assert [made.noise for made in found] == ["api", "unit"]
    table = evaluate(found, ["equal-unbiased", "optimal-unbiased"], epsilons=[1, 2], taus=[10], draws=2_000, seed=3)
    for one, other in zip(some(table, kind="exact"), some(table, kind="simulated"), strict=True):
        assert abs(one["rmsre"] - other["rmsre"]) < 3 * other["standard_error"], one


def test_one_measure_of_counts_is_what_it_was() -> None:
    """To the last digit, and with no column more; the figures are those of the version without measures."""
    before, after = rows(0, 3), rows(1, 3)
    plain = Spec(epsilon=4, split_by="a", attributes=spec().attributes)
    named = plain.model_copy(update={"measures": (spec().asked[0],)})
    one, other = (
        evaluate(user_cases(asked, after, before, name="made up"), epsilons=[1, 4], taus=[5], draws=5)
        for asked in (plain, named)
    )
    assert one.equals(other)
    assert not {"measure", "limits", "clip", "bias"} & set(one.table.column_names)
    assert len(one.table.column_names) == 16
    trees = {(row["method"], row["kind"]): row["rmsre"] for row in some(one, level=None, epsilon=4)}
    for (method, kind), before_measures in WERE.items():
        assert trees[method, kind] == pytest.approx(before_measures, rel=1e-9)
    both = evaluate([*user_cases(plain, after, before, name="made up"), case()], ["equal-raw"], draws=0).table
    assert set(both.column("measure").to_pylist()) == {"count", "revenue", None}
    assert both.column("limits").to_pylist().count(None) > 0


def test_it_shows_itself_in_notebooks_and_on_the_page(tmp_path: Path) -> None:
    errors = evaluate(cases(spec(), rows(0), rows(1))[:2], ["optimal-unbiased"], epsilons=[1, 2], taus=[5], draws=3)
    shown = errors._repr_html_()
    for words in (
        "a &gt; day: tree error",
        "together",
        "revenue",
        "chosen",
        "m = 1, C at",
    ):
        assert words in shown.replace("a > day", "a &gt; day"), words
    for table in (errors.table, _through_csv(errors.table, tmp_path)):
        points = read_evaluation(table, "errors.csv")
        assert len(points) == len(errors)
        assert {point.question for point in points} == {"a > day, count", "a > day, revenue", "a > day, all measures"}


def _through_csv(table: Any, folder: Path) -> Any:
    write_table(table, str(folder / "errors.csv"))
    return read_table(str(folder / "errors.csv"))


# Mistakes


def test_what_cannot_be_evaluated_is_refused() -> None:
    with pytest.raises(InputError, match="per-node-unbiased is for counts of one conversion per impression"):
        evaluate([case()], ["equal-raw", "per-node-unbiased"])
    with pytest.raises(InputError, match="optimal-learned is for counts"):
        evaluate([case()], ["optimal-learned"])
    with pytest.raises(InputError, match="per-node-raw is for counts"):
        evaluate([case()], [Method(METHODS["per-node"], ESTIMATORS["raw"])])
    names = {row["method"] for row in evaluate([case()], epsilons=[4], draws=2).to_pylist()}
    splits, kinds = ("equal", "leaves", "greedy", "optimal"), ("unbiased", "nonnegative")
    assert names == {"equal-raw", "zeros"} | {f"{split}-{kind}" for split in splits for kind in kinds}
    with pytest.raises(InputError, match="sums of values need noise"):
        cases(spec(), rows(0), rows(1), noises=("unit",))


@pytest.mark.parametrize(
    ("most", "clip", "gone", "rule"),
    [
        ("auto", 40, ["rank"], "'conversions' limits cut off; give counts of an earlier period"),
        (3, 40, ["rank"], "how much of 'conversions' limits cut off"),
        (1, "auto", ["revenue_from"], "how much of 'revenue' limits cut off"),
        (1, 40, ["revenue_from"], "how much of 'revenue' limits cut off"),
    ],
)
def test_counts_that_do_not_tell_what_is_cut_off_are_refused(most: Any, clip: Any, gone: list[str], rule: str) -> None:
    with pytest.raises(InputError, match=rule):
        cases(spec(most, clip), rows(0), rows(1).drop_columns(gone))


@pytest.mark.parametrize(
    ("most", "clip", "rule"), [("auto", 40, "needs a prior with ranks"), (1, "auto", "where to clip is chosen")]
)
def test_a_prior_that_limits_cannot_be_chosen_from_is_refused(most: Any, clip: Any, rule: str) -> None:
    asked, after = spec(most, clip), rows(1)
    tree = asked.tree(after)
    leaf = np.flatnonzero(tree.is_leaf)
    report = Profile(tree, leaf, np.ones(len(leaf)), {"revenue": np.ones(len(leaf))})
    with pytest.raises(InputError, match=rule):
        limited_cases("made up", asked, tree, profile(tree, asked, after), from_counts(tree, after), report)
    fixed = spec(1, 40)
    assert limited_cases("made up", fixed, tree, profile(tree, fixed, after), from_counts(tree, after), report)
