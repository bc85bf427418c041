"""Changes are told once: page, terminal, --summary and explorer have one verdict and one figure for each node."""

import json
import re
from html import unescape
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from attributary import periods
from attributary.changes import Series
from attributary.changes.what_changed import WithInterval
from attributary.cli.printing import plain
from attributary.explore import open_session
from attributary.facts import numerals
from attributary.facts.changes import change_facts, estimate_and_interval, node_fact, sum_over_periods
from attributary.report import series_page
from support.command import attributary
from support.explored import client
from support.weeks import rates, tree_of, week, write_weeks

GREW = 1.06


def weeks(campaigns: list[str], seed: int, grown: float = GREW) -> dict[str, Any]:
    """Two weeks, of which the second has so many times the conversions."""
    tree, rng = tree_of(campaigns), np.random.default_rng(seed)
    return {f"W{i + 1}": week(tree, rates(tree) * grown**i, rng) for i in range(2)}


def lines(html: str) -> list[str]:
    """The words of a page, block by block."""
    blocks = re.split(r"</?(?:p|li|tr|h1|h2|summary|div)\b[^>]*>", html)
    shown = (" ".join(unescape(re.sub(r"<[^>]*>", " ", block)).split()) for block in blocks)
    return [line for line in shown if line]


def verdict_of(sentence: str) -> str:
    told = re.search(r" (grew|fell) from ", sentence)
    return told[1] if told else "could be noise"


def root_of(html: str) -> str:
    """The row of the first root on a page, among all nodes."""
    shown = lines(html)
    return next(line for line in shown[shown.index("Every row") :] if line.startswith("a "))


def test_a_headline_never_contradicts_the_row_of_its_node() -> None:
    """Of one root: its change is called among those of all nodes, and the headline has the same call."""
    differ, verdicts = 0, set()
    for seed in range(60):
        series = periods(weeks(["a"], seed))
        page = series_page(series)
        row = root_of(page.html)
        verdict = verdict_of(page.lead[0])
        assert f" {verdict} " in row, (page.lead[0], row)
        facts = change_facts(series)
        assert facts.total.verdict == facts.periods[-1].verdict == verdict == series.steps[-1].verdict[0]
        assert facts.total[1:] == node_fact(series, 0)[1:]
        differ += bool(series.total.steps[-1].changed[0] != series.steps[-1].changed[0])
        verdicts.add(verdict)
    assert differ and {"grew", "could be noise"} <= verdicts  # the cases that used to contradict are among them


@pytest.mark.parametrize("campaigns", [["a"], ["a", "b", "c"]], ids=len)
def test_totals_above_and_below_agree(campaigns: list[str]) -> None:
    """The headline, the total beside the chart and the table of periods show the same sum, interval and change."""
    series = periods(weeks(campaigns, 3, 1.5))
    facts, shown = change_facts(series), " ".join(lines(series_page(series).html))
    roots = series.periods[-1].figures.count[: len(campaigns)]
    assert facts.total.now.value == facts.periods[-1].estimate.value == pytest.approx(roots.sum())
    assert facts.total.interval == facts.periods[-1].interval
    assert facts.total.change == facts.periods[-1].change
    low, high = facts.total.interval.split(" to ")
    assert f"W2 {facts.total.now} between {low} and {high}" in shown
    assert " ".join(f"W2 {facts.total.now} {facts.total.interval} {facts.total.change}".split()) in shown
    assert facts.total.change.replace("(", "(95\u00a0% interval ") in facts.lead[0]


def test_the_four_renderers_show_the_same_changes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    made = weeks(["a", "b", "c"], 5, 1.3)
    write_weeks(Path("weeks"), made)
    printed = attributary("report", "weeks", "-o", "weeks.html", "--summary", "weeks.json").stderr
    series: Series = periods("weeks")
    facts, summary = change_facts(series), json.loads(Path("weeks.json").read_text())
    page = lines(Path("weeks.html").read_text(encoding="utf-8"))
    session = open_session("weeks")
    try:
        tab = client(session)
        course = tab.get("/api/course").json()["words"]
        sums = [tab.get("/api/course", params={"node": str(node)}).json()["words"] for node in range(3)]
        found = [dict(row) for row in tab.get("/api/rows", params={"page": "0"}).json()["rows"]]
    finally:
        session.close()
    assert printed.splitlines()[: len(facts.lead)] == [
        plain(line).replace("`largest`", "--largest") for line in facts.lead
    ]
    assert course == " ".join(facts.lead) and summary["answer"] == facts.lead
    assert " ".join(" ".join(facts.lead).split()) in page
    assert sums == [sum_over_periods(series, node) for node in range(3)]
    assert facts.changed and len(summary["changed"]) == len(facts.changed)
    for fact, row in zip(facts.changed, summary["changed"], strict=True):
        assert row["verdict"] == fact.verdict and row["now"] == pytest.approx(fact.now.value)
        assert row["change"]["low"] == pytest.approx(fact.change.value["low"])
    for node in range(3):
        fact = node_fact(series, node)
        assert any(fact.verdict in line and fact.change.replace("\u00a0", " ") in line for line in page), fact
        row = next(row for row in found if row["label"] == fact.name)
        assert row["verdict"] == fact.verdict and row["estimate"] == pytest.approx(fact.now.value)


@pytest.mark.parametrize(
    ("names", "words"),
    [(["2025-01", "2025-02", "2025-06"], "Jan–Jun 2025"), (["2024-12", "2025-01", "2025-02"], "Dec 2024 – Feb 2025"),
     (["2025-01-06", "2025-01-13", "2025-03-03"], "6 Jan – 3 Mar 2025"), (["W1", "W2", "W3"], "W1 to W3")],
)  # fmt: skip
def test_dates_are_as_people_write_them(names: list[str], words: str) -> None:
    assert numerals.span_words(names) == words
    assert [numerals.date_words(name) for name in ("2025-13", "2025-1", "Q1 2025", "2025")] == [
        "2025-13",
        "2025-1",
        "Q1 2025",
        "2025",
    ]


def test_an_interval_without_an_end_is_not_measured() -> None:
    ends = [(1.0, 2.0), (-np.inf, np.inf), (1.0, np.inf), (-np.inf, 2.0)]
    each = [str(estimate_and_interval(WithInterval(*(np.array([x]) for x in (1.5, *end))), 0)[1]) for end in ends]
    assert each == ["1.0 to 2.0", "not measured", "at least 1.0", "at most 2.0"]
