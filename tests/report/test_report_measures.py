"""A page of several measures: on one tree, each in its unit; ratios beside them; what does not go together is told."""

import json
import os
import re
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from click.testing import CliRunner, Result
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.report.test_report import unpacked

from attributary import Tree, denoise
from attributary.cli import main
from attributary.estimates import Estimates, by_measure
from attributary.facts import numerals
from attributary.facts.estimates import after_refunds
from attributary.facts.privacy import chosen, measure_facts
from attributary.facts.quantity import Quantity, difference, digits, quantities, total_of, total_ratio
from attributary.plan import Plan
from attributary.ratio import ratios_table
from attributary.read_estimates import read_measures
from attributary.report import ReportInputs, page, read
from attributary.report.page_data import cut, pack
from attributary.spec import Spec
from attributary.tables import read_table, write_table
from support.effort import examples
from support.reports import estimates, labelled, values


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return values(tmp_path_factory.mktemp("values"))


def report(*args: object) -> Result:
    return CliRunner().invoke(main, ["report", *map(str, args)])


def measured(tree: Tree, *names: str) -> pa.Table:
    """A table of these measures, each with figures of its own."""
    each = [
        estimates(tree, seed=i).add_column(0, "measure", pa.array([name] * len(tree))) for i, name in enumerate(names)
    ]
    return pa.concat_tables(each)


TREE = labelled(["x", "y", "z"], ["p", "q"])


@given(st.permutations(range(2 * len(TREE))))
@settings(max_examples=examples(50), deadline=None)
def test_measures_stand_on_one_tree_in_whatever_order_their_rows_come(order: list[int]) -> None:
    table = measured(TREE, "count", "revenue")
    found = read_measures(table.take(order), "t")
    for name, est in found.items():
        assert est.tree is next(iter(found.values())).tree
        rows = {(r["first"], r["second </script>"]): r for r in table.to_pylist() if r["measure"] == name}
        told = est.tree.table().append_column("estimate", pa.array(est.tree.from_level_order(est.estimate)))
        for row in told.to_pylist():
            assert row["estimate"] == rows[row["first"], row["second </script>"]]["estimate"]


def test_every_measure_is_packed_as_it_is_shown() -> None:
    found = read_measures(measured(TREE, "count", "revenue"), "t")
    count, value = found.values()
    none = np.zeros(len(count), bool)
    second = Quantity("revenue", "value", "", value, 10.0, None, 3, (value, count))
    packed = pack([Quantity("count", "count", "", count, 10.0), second], cut(count.tree, count.estimate, none, 99))
    parts_of = {"": 10, ".1": 1000}
    back = unpacked(packed._replace(about={**packed.about, "part": 1}))
    for suffix, est, shown in (("", count, 1), (".1", value, 3)):
        told = back[f"estimate{suffix}"] / parts_of[suffix]
        assert [numerals.count(x, shown) for x in told] == [numerals.count(x, shown) for x in est.estimate]
    np.testing.assert_allclose(back["size.1"], count.estimate, rtol=1e-6)


@pytest.mark.parametrize(
    ("variance", "expected"), [(None, 1), (40_000.0, 1), (1.0, 1), (0.25, 1), (0.0025, 2), (1e-6, 3), (1e-30, 6)]
)
def test_the_last_digit_is_no_finer_than_the_noise(variance: float | None, expected: int) -> None:
    assert digits(variance) == expected


@pytest.mark.parametrize(
    ("shown", "expected"),
    [
        (numerals.count(1234.567, 2), "1,234.57"),
        (numerals.count(-0.001, 2), "0.00"),
        (numerals.count(-1.5, 3), "−1.500"),
        (numerals.count(float("nan"), 2), "–"),
    ],
)
def test_figures_of_small_units(shown: str, expected: str) -> None:
    assert shown == expected


def test_the_total_of_a_ratio_is_that_of_the_sums(run: Path) -> None:
    found = read([str(run)])
    (ratio,) = found.ratios.values()
    value, count = found.measures["revenue"], found.measures["count"]
    total, of_value, of_count = total_ratio(ratio, value, count), total_of(value), total_of(count)
    assert total.estimate == pytest.approx(of_value.estimate / of_count.estimate)
    assert total.variance == pytest.approx(
        (of_value.variance + total.estimate**2 * of_count.variance) / of_count.estimate**2
    )
    assert total.high - total.estimate == pytest.approx(1.959964 * total.variance**0.5, rel=1e-5)
    roots = slice(0, int(count.tree.first[0]))
    assert of_value.estimate == pytest.approx(value.estimate[roots].sum())


def test_a_page_tells_all_measures_in_their_units(run: Path) -> None:
    given_ = read([str(run)])
    made = page(given_)
    html = made.html
    count, value, ratio = given_.quantities(None)
    assert [q.kind for q in (count, value, ratio)] == ["count", "value", "ratio"]
    assert "<h1>Conversions and revenue by campaign, location and day</h1>" in html
    for quantity in (count, value):
        assert f">{quantity.shown(total_of(quantity.estimates).estimate)}<" in html
    assert html.count('class="panel" data-measure="1" hidden') == 5 and 'name="measure" value="2"' in html
    assert [q.unit for q in (count, value, ratio)] == ["", "EUR", "EUR"]
    assert f"are judged as if they were {numerals.number(value.tau)}\u00a0EUR" in html
    plan = Plan.load(str(run / "plan.json"))
    assert [q.tau for q in (count, value)] == [part.tau for part in plan.by_measure]
    names = [chart.name for chart in made.charts]
    assert len(set(names)) == len(names) == 14 and "revenue-per-conversion-largest" in names
    assert "limit-revenue" in names and "conversions-denoised" in names


def test_a_page_of_values_in_memory_is_that_of_their_files(
    tmp_path: Path, run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(import_module("attributary.report.page"), "inline", lambda chart, width: chart.words)
    plan = Plan.load(str(run / "plan.json"))
    given_ = read([str(run)])
    in_memory = {
        name: denoise(est.tree, est.tree.from_level_order(est.noisy), est.tree.from_level_order(est.noise_variance))
        for name, est in given_.measures.items()
    }
    files = [str(run / "plan.json"), str(tmp_path / "e.parquet"), str(tmp_path / "r.parquet")]
    write_table(by_measure({name: est.table() for name, est in in_memory.items()}), files[1])
    write_table(ratios_table(in_memory), files[2])
    of_files = page(replace(read(files), files=())).html
    assert page(ReportInputs.of(plan, in_memory)).html == of_files
    one = page(ReportInputs.of(estimates=in_memory["count"])).html
    assert one == page(replace(read([files[1]]), files=(), measures={"count": read([files[1]]).measures["count"]})).html


def test_run_ends_with_the_page(run: Path) -> None:
    html = (run / "report.html").read_text()
    assert "<h1>Conversions and revenue by campaign, location and day</h1>" in html and "generated data" in html
    assert "NOT PRIVATE" in html and "Revenue per conversion (EUR)" in html


def test_limits_are_told_with_what_they_cut_off(run: Path) -> None:
    plan = Plan.load(str(run / "plan.json"))
    facts = {fact.name: fact for fact in measure_facts(plan)}
    taken = chosen(plan)
    assert taken and taken.error == pytest.approx((taken.bias**2 + taken.noise**2) ** 0.5)
    told = " ".join(facts["Limits"].more)
    assert all(numerals.percent(x) in told for x in (taken.error, taken.bias, taken.noise))
    assert f"revenue up to {numerals.number(plan.by_measure[1].clip)}\u00a0EUR" in facts["Limits"].answer
    assert "of the budget" in facts["Measures"].more[1] and "in EUR, clipped at" in facts["Measures"].more[1]
    unknown = plan.model_copy(
        update={"measures": tuple(m.model_copy(update={"bias_known": False}) for m in plan.measures)}
    )
    assert "does not show how much of count and revenue they cut off" in measure_facts(unknown)[1].warning


def test_a_plan_alone_has_the_budget_of_each_measure(run: Path) -> None:
    html = page(read([str(run / "plan.json")])).html
    assert html.count('class="panel"') == 2 and 'id="limits"' in html and 'id="grid"' not in html.split("<script")[0]


def test_one_value_alone_is_a_page_of_sums(tmp_path: Path, run: Path) -> None:
    table = read_table(str(run / "estimates.parquet"))
    only = table.filter(pc.equal(table.column("measure").cast(pa.string()), "revenue"))
    write_table(only, str(tmp_path / "e.csv"))
    html = page(read([str(tmp_path / "e.csv"), str(run / "plan.json")])).html
    assert "<h1>Revenue by campaign, location and day</h1>" in html and 'name="measure"' not in html.split("<script")[0]
    assert "All revenue" in html and "Estimate, EUR" in html and ">Sums</h2>" in html


def test_tau_moves_with_that_of_counts_and_is_a_mean_without_a_plan(run: Path, tmp_path: Path) -> None:
    both, alone = read([str(run)]), read([str(run / "estimates.parquet")])
    mean = total_of(both.measures["revenue"]).estimate / total_of(both.measures["count"]).estimate
    plan_tau = both.plan.by_measure[1].tau if both.plan else 0
    assert both.quantities(5)[1].tau == pytest.approx(plan_tau / 2)
    assert alone.quantities(None)[1].tau == pytest.approx(10 * mean)
    for inputs, words in ((both, True), (alone, False)):
        seen = re.sub(r"<(style|script)\b.*?</\1>", "", page(inputs).html, flags=re.S)
        assert bool(re.search(r"\b(plan|budget)\b", seen, re.I)) == words


def test_a_measure_of_nothing_but_zeros_is_a_page(tmp_path: Path) -> None:
    table = measured(TREE, "count", "refunds").to_pydict()
    for i in range(len(TREE), 2 * len(TREE)):
        for name in ("noisy", "estimate", "variance", "low", "high", "correction"):
            table[name][i] = 0.0
    write_table(pa.table(table), str(tmp_path / "e.parquet"))
    assert "All refunds" in page(read([str(tmp_path / "e.parquet")])).html


@given(st.integers(0, 10**6))
@settings(max_examples=examples(20), deadline=None)
def test_a_sum_less_another_is_that_of_one_forest_of_both(seed: int) -> None:
    rng, n = np.random.default_rng(seed), 7
    parent = np.array([-1, -1, 0, 0, 0, 1, 1])
    tree, both = Tree.from_parents(parent), Tree.from_parents(np.r_[parent, np.where(parent < 0, -1, parent + n)])
    noisy, variance = rng.normal(50, 9, 2 * n), rng.uniform(0.5, 9, 2 * n)
    one, other = (
        total_of(Estimates.of(denoise(tree, noisy[i : i + n], variance[i : i + n], shape="normal"))) for i in (0, n)
    )
    weights = np.where(np.r_[parent, parent] < 0, np.repeat([1.0, -1.0], n), 0.0)
    expected = denoise(both, noisy, variance, shape="normal").total(weights)
    found = difference(one, other)
    assert found.estimate == pytest.approx(expected.count) and found.variance == pytest.approx(expected.variance)
    assert (found.low, found.high) == pytest.approx(expected.interval())


def test_the_page_tells_revenue_after_refunds(run: Path) -> None:
    inputs = read([str(run / "plan.json"), str(run / "estimates.parquet")])
    assert inputs.plan is not None and "after" not in page(inputs).lead[0]
    asked = inputs.plan.spec.model_dump(by_alias=True, exclude_none=True)
    back = {**asked["measure"][1], "name": "refunds", "refunds": True}
    plan = inputs.plan.model_copy(update={"spec": Spec(**{**asked, "measure": [*asked["measure"], back]})})
    shown = quantities(None, read_measures(measured(TREE, "count", "revenue", "refunds"), "t"))
    value, less = (total_of(quantity.estimates) for quantity in shown[1:])
    (words,) = after_refunds(shown, plan)
    left = difference(value, less)
    assert left.estimate == value.estimate - less.estimate and left.variance == value.variance + less.variance
    assert words.startswith(f"{shown[1].shown(left.estimate)} of revenue after refunds, give or take ")
    assert after_refunds(shown[:2], plan) == []


def test_names_that_bite_are_only_ever_text(tmp_path: Path) -> None:
    names = ("count", "</script><img src=x onerror=alert(1)>", "a/../b")
    write_table(measured(TREE, *names), str(tmp_path / "e.parquet"))
    made = page(read([str(tmp_path / "e.parquet")]))
    assert "<img" not in made.html and made.html.count("</script>") == 3
    assert all(re.fullmatch(r"[\w-]+", chart.name) for chart in made.charts)
    assert report(tmp_path / "e.parquet", "-q", "-o", tmp_path / "p.html", "--charts", tmp_path / "c").exit_code == 0
    assert len(os.listdir(tmp_path / "c")) == len(made.charts) == 9


def test_a_level_may_be_called_measure() -> None:
    rows = {"measure": ["a", "a", "b", "b"], "day": ["x", "y", "x", "y"]}
    tree = Tree.from_paths(rows, list(rows), fill=True)
    table = estimates(Tree.from_paths(tree.table().select(list(rows)), list(rows)))
    assert "measure › day" in page(ReportInputs(measures={"count": read_one(table)})).html


def read_one(table: pa.Table) -> Any:
    from attributary.read_estimates import read_estimates

    return read_estimates(table, "t")


class TestRefusing:
    """Whatever does not go together is one line, and nothing is written."""

    def refused(self, folder: Path, *files: object) -> str:
        result = report(*files, "-o", folder / "page.html")
        assert result.exit_code == 2 and result.stderr.count("\n") == 1, result.output
        assert not (folder / "page.html").exists()
        return str(result.stderr)

    def test_ratios_alone_or_of_other_estimates(self, run: Path, tmp_path: Path) -> None:
        assert "holds ratios; give it with the estimates" in self.refused(tmp_path, run / "ratios.parquet")
        assert "holds ratios" in self.refused(tmp_path, run / "ratios.parquet", run / "plan.json")
        table = read_table(str(run / "estimates.parquet"))
        counts = table.filter(pc.equal(table.column("measure").cast(pa.string()), "count"))
        write_table(counts, str(tmp_path / "counts-only.parquet"))
        told = self.refused(tmp_path, tmp_path / "counts-only.parquet", run / "ratios.parquet")
        assert "holds 'revenue per conversion', but the estimates are of count" in told
        moved = table.set_column(
            table.column_names.index("estimate"), "estimate", pc.add(table.column("estimate"), 1.0)
        )
        moved = moved.set_column(moved.column_names.index("high"), "high", pc.add(table.column("high"), 2.0))
        write_table(moved, str(tmp_path / "moved.parquet"))
        told = self.refused(tmp_path, tmp_path / "moved.parquet", run / "ratios.parquet")
        assert "is not that of these estimates" in told
        one = estimates(TREE)
        write_table(one, str(tmp_path / "one.parquet"))
        told = self.refused(tmp_path, tmp_path / "one.parquet", run / "ratios.parquet")
        assert "the estimates are of count" in told
        assert "are both ratios" in self.refused(tmp_path, run, run / "ratios.parquet")

    def test_ratios_that_make_no_sense(self, run: Path, tmp_path: Path) -> None:
        table = read_table(str(run / "ratios.parquet"))
        low = table.set_column(table.column_names.index("low"), "low", pc.add(table.column("high"), 1.0))
        write_table(low, str(tmp_path / "low.parquet"))
        told = self.refused(tmp_path, run / "estimates.parquet", tmp_path / "low.parquet")
        assert "does not hold its estimate" in told
        write_table(table.slice(1), str(tmp_path / "cut.parquet"))
        told = self.refused(tmp_path, run / "estimates.parquet", tmp_path / "cut.parquet")
        assert "nodes" in told

    def test_a_table_that_lost_its_measures(self, run: Path, tmp_path: Path) -> None:
        table = read_table(str(run / "estimates.parquet")).drop_columns(["measure"])
        write_table(table, str(tmp_path / "lost.parquet"))
        told = self.refused(tmp_path, tmp_path / "lost.parquet", run / "plan.json")
        assert "no column 'measure', which would tell count and revenue" in told

    def test_a_measure_without_a_name_or_of_another_plan(self, run: Path, tmp_path: Path) -> None:
        table = read_table(str(run / "estimates.parquet"))
        names = table.column("measure").cast(pa.string()).to_pylist()
        for name, message in ((None, "row 3: the measure is empty"), ("", "row 3: the measure is empty")):
            told = table.set_column(0, "measure", pa.array([*names[:2], name, *names[3:]]))
            write_table(told, str(tmp_path / "e.parquet"))
            assert message in self.refused(tmp_path, tmp_path / "e.parquet")
        other = table.set_column(0, "measure", pa.array([n.replace("revenue", "minutes") for n in names]))
        write_table(other, str(tmp_path / "e.parquet"))
        told = self.refused(tmp_path, tmp_path / "e.parquet", run / "plan.json")
        assert "have the measure 'minutes'; those of the plan are count, revenue" in told
        nested = table.set_column(0, "measure", pa.array([[n] for n in names]))
        write_table(nested, str(tmp_path / "e.parquet"))
        assert "measures have names" in self.refused(tmp_path, tmp_path / "e.parquet")
        many = table.set_column(0, "measure", pa.array([f"m{i}" for i in range(len(names))]))
        write_table(many, str(tmp_path / "e.parquet"))
        assert "too many for measures" in self.refused(tmp_path, tmp_path / "e.parquet")

    def test_measures_of_other_nodes_and_figures_that_are_none(self, tmp_path: Path) -> None:
        two = measured(TREE, "count", "revenue")
        other = estimates(labelled(["x", "y", "w"], ["p", "q"])).add_column(0, "measure", pa.array(["revenue"] * 9))
        write_table(pa.concat_tables([two.slice(0, 9), other]), str(tmp_path / "e.parquet"))
        assert "'revenue' has other nodes than 'count'" in self.refused(tmp_path, tmp_path / "e.parquet")
        flat = measured(Tree.from_parents([-1, 0, 0]), "count")
        chain = estimates(Tree.from_parents([-1, 0, 1])).add_column(0, "measure", pa.array(["revenue"] * 3))
        write_table(pa.concat_tables([flat, chain]), str(tmp_path / "e.parquet"))
        assert "'revenue' has other nodes than 'count'" in self.refused(tmp_path, tmp_path / "e.parquet")
        wrong = two.to_pydict()
        wrong["variance"][11] = -1.0
        write_table(pa.table(wrong), str(tmp_path / "e.csv"))
        assert "row 12 (line 13): variance is a number, 0 or more; got -1" in self.refused(tmp_path, tmp_path / "e.csv")
        wrong["variance"][11], wrong["low"] = 1.0, [str(x) for x in wrong["low"]]
        wrong["low"][13] = "few"
        write_table(pa.table(wrong), str(tmp_path / "e.csv"))
        assert "row 14 (line 15): 'few' in column 'low' is not a number" in self.refused(tmp_path, tmp_path / "e.csv")
        again = pa.concat_tables([two.slice(0, 9), two.slice(9, 1), two.slice(9)])
        write_table(again, str(tmp_path / "e.csv"))
        assert "row 11 (line 12): of the rows of its measure, row 1 is" in self.refused(tmp_path, tmp_path / "e.csv")


def test_the_script_knows_each_measure(run: Path) -> None:
    html = page(read([str(run)])).html
    about = json.loads(re.findall(r'id="about">(.*?)</script>', html)[0])
    assert [m["name"] for m in about["measures"]] == ["conversions", "revenue", "revenue per conversion"]
    assert [m["ratio"] for m in about["measures"]] == [False, False, True]
    assert [m["unit"] for m in about["measures"]] == ["", "EUR", "EUR"]
