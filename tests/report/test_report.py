"""What a report is made of: files told apart, figures packed and unpacked, trees cut, corrections doubted."""

import base64
import hashlib
import json
import re
import subprocess
import sys
import zlib
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attributary import Tree, denoise, rmsre
from attributary.errors import InputError
from attributary.estimates import Estimates, estimates_table, plausibility
from attributary.facts import numerals
from attributary.facts.estimates import level_gains
from attributary.facts.evaluation import Point, read_evaluation
from attributary.facts.plan import level_facts
from attributary.facts.privacy import facts, title
from attributary.facts.quantity import Quantity, label, path, total_of
from attributary.plan import Plan, make_plan
from attributary.prior import learn, none
from attributary.read_estimates import read_estimates
from attributary.report import ReportInputs, page, read, to_file
from attributary.report.charts import NARROW, WIDE, counts_chart, spans
from attributary.report.curves import curves
from attributary.report.page_data import cut, pack
from attributary.tables import write_table
from attributary.tables.table_columns import SEEDED
from support.effort import examples
from support.forests import NAMED, Case, cases, parents
from support.plans import asked, spec
from support.reports import BITING, biting, estimates, evaluation, labelled, shop

TYPES = {"i1": "<i1", "i2": "<i2", "i4": "<i4", "u1": "<u1", "u2": "<u2", "u4": "<u4", "f4": "<f4", "f8": "<f8"}


def counted(est: Estimates) -> Quantity:
    return Quantity("count", "count", "", est, 10.0)


def unpacked(packed: Any) -> dict[str, Any]:
    """The columns of a page, as its script reads them."""
    block = zlib.decompress(base64.b64decode(packed.data))
    found: dict[str, Any] = {}
    for name, kind, at, length in packed.about["columns"]:
        content = block[at : at + length]
        assert at % 8 == 0
        if kind == "json":
            found[name] = json.loads(content)
            continue
        values = np.frombuffer(content, TYPES[kind])
        if kind[0] == "i":
            values = np.where(values == np.iinfo(values.dtype).min, np.nan, values / packed.about["part"])
        found[name] = values
    return found


def from_case(case: Case, **options: Any) -> tuple[Any, Estimates]:
    """An estimate, and the same by way of a table."""
    est = denoise(case.tree, case.noisy, case.variance, **options)
    low, high = est.interval()
    columns = {
        "noisy": est.measurements.noisy,
        "noise_variance": est.measurements.variance,
        "estimate": est.count,
        "variance": est.variance,
        "low": low,
        "high": high,
        "correction": est.correction,
    }
    table = est.tree.table()
    for name, values in columns.items():
        table = table.append_column(name, pa.array(np.asarray(values, np.float64), from_pandas=True))
    return est, read_estimates(table, "table")


@given(cases(spread=3))
@settings(deadline=None)
def test_a_page_holds_the_figures_as_they_are_shown(case: Case) -> None:
    _, est = from_case(case)
    kept = cut(est.tree, est.estimate, np.zeros(len(est), bool), len(est))
    back = unpacked(pack([counted(est)], kept))
    told = {"estimate": back["estimate"], "low": back["estimate"] - back["below"]}
    told |= {"high": back["estimate"] + back["above"], "noisy": back["estimate"] + back["moved"]}
    for name, values in told.items():
        assert [numerals.count(x) for x in values] == [numerals.count(x) for x in getattr(est, name)]
    np.testing.assert_allclose(back["correction"], est.correction, atol=0.05 + 1e-9)
    np.testing.assert_allclose(back["variance"], est.variance, rtol=1e-6)
    np.testing.assert_array_equal(back["children"], np.diff(est.tree.first))


def test_a_page_holds_the_labels_and_figures_too_large_for_parts() -> None:
    tree = labelled(BITING, ["p", "q"])
    est = read_estimates(estimates(tree), "table")
    back = unpacked(pack([counted(est)], cut(est.tree, est.estimate, np.zeros(len(est), bool), 999)))
    assert [back["words0"][i] for i in back["code0"]] == BITING
    assert [back["words1"][i] for i in back["code1"]] == ["p", "q"] * len(BITING)
    big = read_estimates(estimates(Tree.from_parents([-1]), wrong={0: 1e12}), "table")
    back = unpacked(pack([counted(big)], cut(big.tree, big.estimate, np.zeros(1, bool), 1)))
    assert back["estimate"][0] == round(big.estimate[0]) > 1e11


@given(parents(), st.integers(1, 14), st.randoms(use_true_random=False))
def test_a_cut_tree_is_a_tree_and_counts_what_it_leaves_out(parent: list[int], most: int, random: Any) -> None:
    tree = Tree.from_parents(parent)
    count = np.array([random.uniform(-5, 50) for _ in parent])
    marked = np.array([random.random() < 0.2 for _ in parent])
    found = cut(tree, count, marked, most)
    family = tree.family
    assert found.nodes <= max(most, 0) and (found.nodes == len(tree)) == (len(tree) <= most)
    assert all(family[v] < 0 or found.keep[family[v]] for v in np.flatnonzero(found.keep))
    kept = np.flatnonzero(found.keep)
    children = [int((family == v).sum()) - int((found.keep & (family == v)).sum()) for v in kept]
    np.testing.assert_array_equal(found.left, children)


def test_a_cut_keeps_marked_nodes_then_the_largest_with_what_stands_above_them() -> None:
    tree = Tree.from_parents([-1, -1, 0, 0, 1, 1])
    count, marked = np.array([10.0, 30, 4, 6, 10, 20]), np.zeros(6, bool)
    assert cut(tree, count, marked, 3).keep.tolist() == [True, True, False, False, False, True]
    marked[2] = True
    assert cut(tree, count, marked, 2).keep.tolist() == [True, False, True, False, False, False]
    assert cut(tree, count, marked, 1).keep.sum() == 0, "a marked node alone has no place"
    with pytest.raises(ValueError, match="at least one node; got 0"):
        cut(tree, count, marked, 0)


@given(cases(spread=2))
@settings(deadline=None)
def test_spans_of_children_fill_their_parent_and_roots_fill_the_chart(case: Case) -> None:
    _, est = from_case(case, nonnegative="top-down")
    start, width = spans(est)
    family = est.tree.family
    assert (width >= 0).all()
    for v in range(-1, len(est)):
        below = np.flatnonzero(family == v)
        if len(below) and est.estimate[below].sum() > 0:
            left, room = (0.0, 1.0) if v < 0 else (start[v], width[v])
            assert width[below].sum() == pytest.approx(room, abs=1e-9)
            np.testing.assert_allclose(start[below], left + np.cumsum(width[below]) - width[below], atol=1e-9)


@pytest.mark.parametrize("shape", ["laplace", "dlap", "normal"])
@given(case=cases(spread=1, special=(float("inf"),)), wrong=st.floats(0, 300))
@settings(deadline=None, max_examples=examples(60))
def test_a_table_is_doubted_as_the_estimate_itself_is(shape: Any, case: Case, wrong: float) -> None:
    noisy = [x + wrong * (i == 0) for i, x in enumerate(case.noisy)]
    with np.errstate(divide="ignore"):
        est, told = from_case(case._replace(noisy=noisy), shape=shape)
        doubt = plausibility(replace(told, shape=shape))
        theirs = plausibility(est)
    assert doubt.nodes == theirs.nodes and doubt.threshold == pytest.approx(theirs.threshold)
    if est.fit.df == 0:
        assert doubt.z is None
    else:
        assert doubt.z == pytest.approx(est.fit.z, rel=1e-6, abs=1e-6)


@given(
    cases(spread=1, special=(float("inf"),)),
    st.sampled_from([{"nonnegative": True}, {"nonnegative": "joint"}, {"nonnegative": True, "whole": True}]),
)
@settings(deadline=None, max_examples=examples(80))
def test_the_noise_fits_a_table_as_it_fits_the_estimate_however_counts_were_made(case: Case, how: Any) -> None:
    est, told = from_case(case, **how)
    doubt = plausibility(told)
    assert doubt.z is None if est.fit.df == 0 else doubt.z == pytest.approx(est.fit.z, rel=1e-6, abs=1e-6)


@given(cases(spread=1), st.sampled_from([{}, {"nonnegative": "joint"}, {"nonnegative": True, "whole": True}]))
@settings(deadline=None, max_examples=examples(80))
def test_the_total_of_a_table_is_that_of_the_estimate(case: Case, how: Any) -> None:
    est, told = from_case(case, **how)
    wanted = est.total(est.tree.parent < 0)
    found = total_of(replace(told, confidence=0.95))
    assert (found.estimate, found.unbiased) == pytest.approx((wanted.count, wanted.unbiased))
    low, high = wanted.interval()
    assert found.low == pytest.approx(low, abs=1e-6) or low < 0 <= found.low  # where no interval is below 0
    assert found.high == pytest.approx(high, abs=1e-6)


@pytest.mark.parametrize("kind", ["unbiased", "nonnegative", "prior"])
@pytest.mark.parametrize("confidence", [0.8, 0.99])
def test_a_table_that_does_not_say_its_confidence_tells_it_by_its_intervals(kind: str, confidence: float) -> None:
    tree = Tree.from_parents([-1] * 6 + list(range(6)) * 5)
    rng = np.random.default_rng(3)
    variance = rng.uniform(2, 9, len(tree))
    noisy = np.where(tree.is_leaf, 40.0, 200.0) + rng.laplace(0, np.sqrt(variance / 2))
    known = learn(tree, noisy, variance) if kind == "prior" else None
    est = denoise(tree, noisy, variance, prior=known, nonnegative=kind == "nonnegative")
    told = read_estimates(estimates_table(est, confidence), "table")
    assert told.confidence == confidence
    assert replace(told, confidence=None).level == pytest.approx(confidence, abs=1e-4)


def test_totals_of_tables_cover_what_many_empty_roots_sum_to() -> None:
    """Two hundred roots of nothing: their non-negative estimates are all too high."""
    tree, rng = Tree.from_parents([-1] * 200), np.random.default_rng(8)
    held = np.zeros(3)
    for _ in range(60):
        est = denoise(tree, rng.laplace(0, 3, 200), 18.0, nonnegative=True)
        told = read_estimates(estimates_table(est, 0.95), "table")
        bare = replace(told, noisy=np.full(200, np.nan), noise_variance=np.full(200, np.nan), confidence=None)
        for i, table in enumerate((told, replace(told, confidence=None), bare)):
            found = total_of(table)
            held[i] += found.low <= 1e-9 and found.low <= found.estimate <= found.high
    assert (held / 60 > 0.9).all()


def test_figures_that_the_estimates_were_not_made_of_are_not_judged_by() -> None:
    est, told = from_case(Case([-1, 0, 0], [10.0, 4, 5], [1.0, 2, 3]))
    assert told.plain is not None and told.plain.blue == pytest.approx(est.blue)
    for wrong in ({"noisy": told.noisy * 1000}, {"noise_variance": told.noise_variance * 4}):
        other = replace(told, **wrong)
        assert other.plain is None and plausibility(other).z is None


def test_nodes_that_cannot_be_estimated_do_not_make_a_level_infinite() -> None:
    inf = float("inf")
    est, told = from_case(Case([-1, 0, 0, 0], [1000.0, 500, 0, 0], [4.0, 4, inf, inf]))
    leaves = level_gains(Quantity("count", "count", "", told, 10.0))[1]
    assert (leaves.nodes.value, leaves.measured, leaves.open) == (4 - 1, 1, 2)
    raw = 2 / 500
    assert leaves.error.value == pytest.approx(est.std[1] / 500) == (1 + leaves.error_change.value) * raw
    html = page(ReportInputs(measures={"count": told})).html
    assert "(2 cannot be estimated)" in html and "<td>∞" not in html


@given(cases(spread=2))
@settings(deadline=None)
def test_errors_before_and_after_are_rmsre(case: Case) -> None:
    est, told = from_case(case)
    found = level_gains(Quantity("count", "count", "", told, 7.0))
    after = rmsre.levels(est.tree, est.count, est.variance, 7.0)
    before = rmsre.levels(est.tree, est.count, case.variance, 7.0)
    np.testing.assert_allclose([gain.error.value for gain in found], after, rtol=1e-9)
    np.testing.assert_allclose([gain.noisy_error.value for gain in found], before, rtol=1e-9)
    assert all(gain.measured == gain.nodes.value for gain in found)


def test_shares_are_those_of_the_plan() -> None:
    for options in ({}, {"split_by": "a"}, {"total": True}):
        asks = spec(**options)
        tree, prior = asked(asks)
        plan = make_plan(asks, tree, prior, "equal")
        *found, whole = level_facts(plan)
        assert [fact.contribution.value for fact in found] == list(plan.default)
        assert sum(fact.epsilon.value for fact in found) == pytest.approx(4) and "100.0" in whole.share
        assert [fact.expected.value for fact in found] == [e.error.plan for e in plan.expected.levels]
    plan = make_plan(asks, tree, prior, "per-node")
    assert [fact.level for fact in level_facts(plan)] == [*plan.levels, "all"]


@pytest.mark.parametrize("parent", NAMED.values(), ids=NAMED)
def test_any_tree_makes_a_page_with_and_without_labels(parent: list[int]) -> None:
    est = read_estimates(estimates(Tree.from_parents(parent)), "table")
    assert label(est, 0) == path(est, 0)[0] == f"node {parent.index(-1)}"
    made = page(ReportInputs(measures={"count": est}, files=("table",)))
    assert [chart.name for chart in made.charts] == ["counts", "icicle", "denoised"] and made.left_out == 0
    assert "Conversions by level 0" in made.html


def test_what_cannot_be_estimated_is_said_to_be_so() -> None:
    tree = Tree.from_parents([-1, 0, 0])
    table = estimates(tree).to_pydict()
    table |= {"noisy": [5.0, None, None], "noise_variance": [1.0, np.inf, np.inf], "correction": [0.0, None, None]}
    table |= {"estimate": [5.0, 2.5, 2.5], "variance": [1.0, np.inf, np.inf]}
    table |= {"low": [3.0, -np.inf, 0.0], "high": [7.0, np.inf, np.inf]}
    html = page(ReportInputs(measures={"count": read_estimates(pa.table(table), "table")}, files=("t",))).html
    assert "not measured" in html and "∞" in html and "nan" not in html.split("<script")[0].lower().replace("nano", "")


def test_the_page_is_the_same_each_time_and_its_policy_names_its_own_script_and_style(tmp_path: Path) -> None:
    given = read([str(biting(tmp_path)), str(evaluation(tmp_path))])
    html = page(given).html
    assert html == page(given).html
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', html)
    assert policy and "default-src &#39;none&#39;" in policy[1] and "unsafe" not in policy[1]
    for tag in ("style", 'script type="module"'):
        content = re.search(f"<{tag}>(.*?)</{tag.split()[0]}>", html, re.DOTALL)
        assert content
        assert base64.b64encode(hashlib.sha256(content[1].encode()).digest()).decode() in policy[1]
    assert html.count("<script") == html.count("</script>") == 3
    tags = Tags()
    tags.feed(html)
    assert not {"img", "iframe", "object", "embed", "b", "base"} & {tag for tag, _ in tags.found}
    for tag, attributes in tags.found:
        for name, value in attributes:
            assert not name.startswith("on") and name != "style", (tag, name)
            assert name not in ("src", "srcset", "action") and not (name == "href" and value and value[0] not in "#d")


class Tags(HTMLParser):
    """Every tag of a page with its attributes."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[tuple[str, list[tuple[str, str | None]]]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, attrs))


def test_every_chart_is_a_picture_and_names_every_node_it_shows(tmp_path: Path) -> None:
    folder = shop(tmp_path)
    made = page(read([str(folder), str(evaluation(tmp_path))]))
    names = ["counts", "icicle", "budget", "expected-error", "trade-off", "denoised", "evaluation"]
    assert [chart.name for chart in made.charts] == names
    for chart in made.charts:
        svg = to_file(chart, "svg").decode()
        assert svg.startswith("<svg") and chart.title.split()[0] in svg
        assert to_file(chart, "png").startswith(b"\x89PNG")
    alike = labelled(["x" * 100 + end for end in "abc"], ["p"])
    (counts,) = [
        c
        for c in page(ReportInputs(measures={"count": read_estimates(estimates(alike), "t")})).charts
        if c.name == "counts"
    ]
    assert len({row["node"] for row in counts.spec(600)["data"]["values"]}) == 3, "labels may look alike"


def test_what_is_private_is_told_in_words() -> None:
    tree, prior = asked(spec())
    told = {fact.name: fact for fact in facts(make_plan(spec(), tree, prior, "equal"), None)}
    assert told["Privacy budget"].answer == "ε\u00a0=\u00a04" and "at most 55 times" in told["Privacy budget"].more[0]
    assert told["Privacy budget"].warning == ""  # a third of the budget, twice, is less than all of it
    assert "NOT protected" in told["Planned from"].warning
    told = {fact.name: fact for fact in facts(make_plan(spec(), tree, prior, "leaves"), None)}
    assert "ε\u00a0=\u00a08: changing that conversion's day, which is less" in told["Privacy budget"].warning
    asks = spec(neighbours="definition-1", noise="unit", epsilon=20)
    told = {fact.name: fact for fact in facts(make_plan(asks, tree, none(tree), "leaves"), None)}
    assert "(Definition 1" in told["Privacy budget"].more[2] and "e^ε times" in told["Privacy budget"].more[0]
    assert told["Noise"].answer.endswith("whole counts") and told["Planned from"].answer == "no earlier counts"
    for times in (1.0, 1 / 16):
        plan = make_plan(spec(), tree, prior, "equal")
        figures = denoise(tree, np.ones(len(tree)), plan.variance(tree) * times)
        told = {fact.name: fact for fact in facts(plan, counted(Estimates.of(figures)))}
        assert ("0.0625 times the planned variance" in told["Noise"].warning) == (times < 1)
        assert told["Noise"].warning == "" or times < 1
    est = read_estimates(estimates(labelled(["x"], ["p"])), "t")
    assert facts(None, counted(est)) == []  # a table without a plan has no question but its title
    assert "computed from true counts" in facts(None, None)[0].warning
    assert title(()) == "Methods compared" and title(("total",)) == "Conversions"
    assert title(tuple("abcdefghij")) == "Conversions by a, b, … and j"
    assert title(("total", "a", "b")) == "Conversions by a and b"


def test_methods_are_told_apart_by_colour_and_shape_and_one_budget_makes_a_list() -> None:
    def points(epsilons: tuple[float, ...], taus: tuple[float, ...]) -> tuple[Point, ...]:
        many = [(f"method {i}", e, t) for i in range(30) for e in epsilons for t in taus]
        return tuple(Point("d", "t", m, "api", None, e, t, 0.5 / e, float("nan")) for m, e, t in many)

    ((chart,), more) = curves(points((1.0, 4.0), (5.0, 10.0)))
    inner = chart.spec(600)["spec"]
    look = zip(
        inner["encoding"]["color"]["scale"]["range"],
        inner["layer"][1]["encoding"]["shape"]["scale"]["range"],
        strict=True,
    )
    assert len(set(look)) == 30 and more == 0 and chart.spec(600)["columns"] == 2
    ((chart,), _) = curves(points((4.0,), (10.0,)))
    assert chart.title.endswith("ε = 4, τ = 10") and chart.spec(600)["encoding"]["y"]["field"] == "method"
    ((chart,), _) = curves(points((4.0,), (5.0, 10.0)))
    assert "τ" in chart.spec(600)["encoding"]["x"]["axis"]["title"]
    eight = tuple(replace(p, dataset=f"d{i}") for i in range(8) for p in points((4.0,), (10.0,)))
    assert len(curves(eight)[0]) == 6 and curves(eight)[1] == 2


@pytest.mark.parametrize(
    ("shown", "expected"),
    [
        (numerals.count(1234567.4), "1,234,567"),
        (numerals.count(99.94), "99.9"),
        (numerals.count(-0.04), "0.0"),
        (numerals.count(-12.34), "−12.3"),
        (numerals.count(float("nan")), "–"),
        (numerals.count(float("-inf")), "−∞"),
        (numerals.percent(0.0523), "5.2\u00a0%"),
        (numerals.percent(0.523), "52.3\u00a0%"),
        (numerals.percent(0.000123), "0.012\u00a0%"),
        (numerals.percent(12.3), "1,230\u00a0%"),
        (numerals.percent(0), "0\u00a0%"),
        (numerals.percent(1e-9), "< 0.001\u00a0%"),
        (numerals.percent(float("inf")), "∞"),
        (numerals.number(65536), "65,536"),
        (numerals.number(4.62597), "4.626"),
        (numerals.many(1, "leaf", "leaves"), "1 leaf"),
        (numerals.many(2000, "node"), "2,000 nodes"),
        (numerals.listed(["a", "b", "c"], "or"), "a, b or c"),
        (numerals.short("a\x00b\x7f" + "c" * 40, 6), "a␀b␡cc…"),
        (numerals.short(""), "(empty)"),
    ],
)
def test_figures_for_the_eye(shown: str, expected: str) -> None:
    assert shown == expected


class TestReading:
    def test_files_are_told_apart_by_content(self, tmp_path: Path) -> None:
        folder = shop(tmp_path)
        (folder / "notes.json").write_text("{}")
        evaluation(folder)
        given = read([str(folder)])
        assert given.plan and given.first and len(given.evaluation) == 54
        assert [Path(p).name for p in given.left_out] == ["counts.parquet", "prior.parquet"]
        assert [Path(p).name for p in given.files] == ["estimates.parquet", "evaluation.csv", "plan.json"]
        assert given.not_private == given.first.not_private == SEEDED
        one = read([str(folder / "plan.json")])
        assert one.plan == given.plan and one.first is None

    def test_csv_and_parquet_say_the_same(self, tmp_path: Path) -> None:
        table = estimates(labelled(["x", "007", "* not an end"], ["p", "q"]))
        for ending in ("csv", "parquet"):
            write_table(table, str(tmp_path / f"e.{ending}"))
        a, b = (read([str(tmp_path / f"e.{ending}")]).first for ending in ("csv", "parquet"))
        assert a and b and [label(a, v) for v in range(9)] == [label(b, v) for v in range(9)]
        np.testing.assert_array_equal(a.estimate, b.estimate)

    def test_rows_may_come_in_any_order(self) -> None:
        table = estimates(labelled(["x", "y"], ["p", "q"]))
        turned = table.take(list(range(len(table)))[::-1]).drop_columns(["node", "parent", "level"])
        a, b = read_estimates(table, "a"), read_estimates(turned, "b", ["first", "second </script>"])
        by_path = {tuple(path(a, v)): a.estimate[v] for v in range(len(a))}
        assert by_path == {tuple(path(b, v)): b.estimate[v] for v in range(len(b))}

    def test_levels_are_before_the_figures_and_the_noise_may_be_unknown(self) -> None:
        columns = {"campaign": ["x", "x", "x"], "day": ["*", "mon", "tue"], "estimate": ["10", "4", "6"]}
        columns |= {"variance": ["1", "2", "2"], "low": ["8", "1", "3"], "high": ["12", "7", "9"]}
        with pytest.raises(InputError, match="give them with `levels`"):
            read_estimates(pa.table({"owner": ["a", "b", "a"], **columns}), "t.csv")
        assert read_estimates(pa.table(columns), "t.csv").tree.attributes == ("campaign", "day")
        est = read_estimates(pa.table(columns), "t.csv", ["campaign", "day"])
        assert (
            est.tree.depth == 2
            and np.isnan(est.noisy).all()
            and level_gains(Quantity("count", "count", "", est, 10.0)) == []
        )

    @pytest.mark.parametrize(
        ("column", "value", "message"),
        [
            ("estimate", None, "estimate is a number; got nan"),
            ("variance", -1.0, "variance is a number, 0 or more; got -1"),
            ("variance", None, "variance is a number, 0 or more; got nan"),
            ("low", 1e9, "low is a number, the estimate at most; got 1e"),
            ("high", None, "high is a number, the estimate at least; got nan"),
        ],
    )
    def test_figures_that_make_no_sense_are_refused_with_their_row(self, column: str, value: Any, message: str) -> None:
        table = estimates(labelled(["x", "y"], ["p", "q"])).to_pydict()
        table[column][2] = value
        with pytest.raises(InputError, match=f"row 3: {message}"):
            read_estimates(pa.table(table), "t.parquet")

    def test_rows_that_are_missing_twice_or_at_odds_are_refused(self) -> None:
        table = estimates(labelled(["x", "y"], ["p", "q"]))
        leaves = table.filter(pa.array([row["level"] == 1 for row in table.to_pylist()]))
        read = read_estimates(leaves, "t.parquet")  # sums of what is there
        assert np.allclose(
            read.tree.in_level_order.roll_up(read.estimate[read.tree.in_level_order.is_leaf]), read.estimate
        )
        with pytest.raises(InputError, match="has rows for 4 of 6 nodes"):
            read_estimates(leaves.append_column("from_prior", pa.array(np.zeros(4))), "t.parquet")
        with pytest.raises(InputError, match="row 2: row 1 is 'x', 'p' too"):
            read_estimates(pa.concat_tables([table.slice(0, 1), table]), "t.parquet")
        with pytest.raises(InputError, match="has no column 'nope'"):
            read_estimates(table, "t.parquet", ["nope"])
        words_in = pa.table({**estimates(Tree.from_parents([-1])).to_pydict(), "estimate": ["many"]})
        with pytest.raises(InputError, match="row 1: 'many' in column 'estimate' is not a number"):
            read_estimates(words_in, "t.parquet")
        nested = pa.table({**estimates(Tree.from_parents([-1])).to_pydict(), "estimate": [[1]]})
        with pytest.raises(InputError, match="column 'estimate' is list"):
            read_estimates(nested, "t.parquet")
        with pytest.raises(InputError, match="numbered 0, 1, 2"):
            read_estimates(pa.table({**estimates(Tree.from_parents([-1])).to_pydict(), "node": [7]}), "t.parquet")

    def test_an_evaluation_is_read_as_it_stands(self, tmp_path: Path) -> None:
        table = pa.table({"method": ["a"], "epsilon": ["1"], "tau": ["5"], "rmsre": ["0.5"]})
        (point,) = read_evaluation(table, "e.csv")
        assert (point.method, point.epsilon, point.level, point.dataset) == ("a", 1.0, None, "")
        assert not point.generated
        (point,) = read_evaluation(table.append_column("generated", pa.array([True])), "e.csv")
        assert point.generated and "The rows were generated" in page(ReportInputs(evaluation=(point,))).html
        with pytest.raises(InputError, match="row 1: epsilon is a number above 0; got 0"):
            read_evaluation(table.set_column(1, "epsilon", pa.array(["0"])), "e.csv")

    def test_a_plan_and_estimates_of_another_question_are_refused(self, tmp_path: Path) -> None:
        tree, prior = asked(spec())
        make_plan(spec(), tree, prior, "equal").save(str(tmp_path / "plan.json"))
        write_table(estimates(labelled(["x"], ["p"])), str(tmp_path / "e.parquet"))
        with pytest.raises(InputError, match="plan's levels are a, b, day, those of the estimates first, second"):
            read([str(tmp_path)])

    def test_a_plan_by_node_is_read_with_its_nodes(self, tmp_path: Path) -> None:
        tree, prior = asked(spec())
        make_plan(spec(), tree, prior, "per-node").save(str(tmp_path / "plan.json"))
        given = read([str(tmp_path)])
        assert given.plan == Plan.load(str(tmp_path / "plan.json")) and "node by node" in page(given).html


AWKWARD = [
    *("\x01", "\x00", "\x1b[31m", "\x85", "\u2028", "\u2029", "\ufffe", "\uffff", "\ufdd0", "\U0010ffff", "\r\n")
]


def test_labels_and_titles_that_no_drawing_can_hold(tmp_path: Path) -> None:
    code = """
import sys
from attributary.report import page, read, to_file
made = page(read([sys.argv[1]]), title=open(sys.argv[2]).read())
for chart in made.charts:
    to_file(chart, "svg"), to_file(chart, "png"), to_file(chart, "pdf")
print(len(made.charts))
"""
    odd = "".join(AWKWARD)
    table = estimates(labelled([*(f"a{each}b" for each in AWKWARD), odd], [f"p{odd}", "q"]))
    named = [f"{name}{odd}" if name in ("first", "second </script>") else name for name in table.column_names]
    write_table(table.rename_columns(named), str(tmp_path / "e.parquet"))
    (tmp_path / "title").write_text(odd)
    args = [sys.executable, "-c", code, str(tmp_path / "e.parquet"), str(tmp_path / "title")]
    done = subprocess.run(args, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0 and int(done.stdout) > 1, done.stderr  # in a process of its own: it would abort


@pytest.mark.parametrize("largest", [2109.0, 2000.0, 999.0, 1001.0, 12_345.0, 7.0, 0.3])
@pytest.mark.parametrize("smallest", [0.2, -0.4])
def test_the_axis_of_counts_reaches_beyond_the_largest_bar(largest: float, smallest: float) -> None:
    tree = Tree.from_paths({"a": ["x", "y", "z"]}, ["a"])
    figures = denoise(tree, largest * np.array([1, 0.5, smallest]), (largest / 100) ** 2)
    quantity = counted(Estimates.of(figures))
    for width in (WIDE, NARROW):
        x = counts_chart(quantity).spec(width)["layer"][0]["encoding"]["x"]
        (least, end), marks = x["scale"]["domain"], x["axis"]["values"]
        assert float(quantity.estimates.high.max()) <= marks[-1] <= end
        assert least <= marks[0] <= 0 < marks[-2] < largest * 1.03, marks
