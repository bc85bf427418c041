"""Estimates and plans in a notebook: the figures are theirs, and a label is only ever text."""

import re

import numpy as np
import pytest

from attributary import Tree, denoise
from attributary.html import html_table
from attributary.plan import make_plan
from attributary.prior import none
from attributary.report.notebook import estimate_html, plan_html
from support.forests import NAMED
from support.plans import asked, spec
from support.reports import BITING, labelled


def cells(html: str) -> list[list[str]]:
    rows = re.findall(r"<tr>(.*?)</tr>", html, re.DOTALL)
    return [[re.sub(r"<[^>]*>", "", cell) for cell in re.findall(r"<t[hd].*?</t[hd]>", row, re.DOTALL)] for row in rows]


@pytest.mark.parametrize("parent", NAMED.values(), ids=NAMED)
def test_an_estimate_shows_its_nodes_level_by_level(parent: list[int]) -> None:
    tree = Tree.from_parents(parent)
    est = denoise(tree, np.arange(len(tree)) * 10.0, np.ones(len(tree)))
    _, *rows = cells(estimate_html(est).partition("What denoising gained")[0])
    order = tree.to_level_order(np.arange(len(tree))).tolist()[:10]
    assert [row[0] for row in rows] == [f"node {v}" for v in order]
    assert [float(row[2].replace("−", "-")) for row in rows] == pytest.approx([est.count[v] for v in order], abs=0.051)


def test_labels_are_escaped_and_cut_and_the_rest_is_counted() -> None:
    tree = labelled(BITING, ["p"])
    variance = np.ones(len(tree))
    variance[0] = np.inf
    html = estimate_html(denoise(tree, np.full(len(tree), 5.0), variance))
    assert "<script" not in html and "<img" not in html and "&lt;script&gt;" in html
    assert "and 14 more" in html and len(html) < 9000
    assert "not measured" in estimate_html(denoise(Tree.from_parents([-1, 0]), [np.nan, 3.0], [np.inf, 1.0]))


def test_a_plan_shows_its_levels_and_what_they_cost() -> None:
    tree, prior = asked(spec())
    plan = make_plan(spec(), tree, prior, "equal")
    heads, *rows = cells(plan_html(plan))
    assert [row[0] for row in rows] == ["a", "b", "day", "all"] and rows[-1][2] == "100.0\u00a0%"
    assert sum(int(row[3].replace(",", "")) for row in rows[:-1]) == 65536 == int(rows[-1][3].replace(",", ""))
    assert len(heads) == len(rows[0]) and "NOT protected" in plan_html(plan)
    assert ": changing that conversion&#x27;s day (Definition 1 of the paper)" in plan_html(plan)
    assert "not measured: summed from the levels below" in plan_html(make_plan(spec(), tree, none(tree), "leaves"))
    assert "the split differs by a" in plan_html(make_plan(spec(split_by="a"), tree, prior, "equal"))
    assert "the split differs by row" in plan_html(make_plan(spec(), tree, prior, "per-node"))


def test_a_table_escapes_everything_that_it_is_given() -> None:
    html = html_table("<a>", ["<b>"], [["<c>"], ["&" * 100]], ["<d>"])
    assert not re.search(r"<[abcd]>", html) and html.count("&amp;") == 80


def test_a_plan_of_several_measures_shows_each() -> None:
    given = spec(measures=[{"name": "count"}, {"name": "revenue", "clip": 50, "tau": 100}])
    tree, _ = asked(given)
    plan = make_plan(given, tree, none(tree), "equal")
    assert len(plan.measures) == 2
    shown = plan_html(plan)
    for part in plan.measures:
        assert f"split: {part.name}" in shown
        assert all(f"{contribution:,}" in shown for contribution in part.default)
