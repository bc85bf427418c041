"""An evaluation is told once: terminal, page, notebook, picture and --summary show one error for each method."""

import json
import re
from collections.abc import Iterator
from html import unescape
from pathlib import Path
from typing import Any

import pytest

from attributary.cli.printing import plain
from attributary.evaluate.comparison import Evaluation
from attributary.facts.evaluation import read_evaluation, shown
from attributary.report.curves import curves
from attributary.tables import read_table
from support.command import attributary

SPEC = """epsilon = 4

[[attribute]]
name = "campaign"

[[attribute]]
name = "day"
unknown = true
domain = ["mon", "tue", "wed"]
"""


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    rows = [f"{c},{d},{7 * i + j * j}" for i, c in enumerate("abcd") for j, d in enumerate(("mon", "tue", "wed"))]
    Path("counts.csv").write_text("\n".join(["campaign,day,conversions", *rows, ""]))
    Path("spec.toml").write_text(SPEC)
    return tmp_path


def tree_error(rows: list[dict[str, Any]], method: str, epsilon: float) -> float:
    """By the table itself: the exact error where there is one, else the simulated one."""
    found = [r for r in rows if (r["method"], float(r["epsilon"]), r["level"] or "") == (method, epsilon, "")]
    return float(min(found, key=lambda r: r["kind"] != "exact")["rmsre"])


def values_of(spec: Any, key: str) -> Iterator[Any]:
    """All that stands under a key in a Vega-Lite specification."""
    if isinstance(spec, dict):
        yield from ([spec[key]] if key in spec else [])
        for value in spec.values():
            yield from values_of(value, key)
    elif isinstance(spec, list):
        for value in spec:
            yield from values_of(value, key)


def test_all_renderers_show_the_same_errors(shop: Path) -> None:
    methods = [part for name in ("equal", "greedy", "optimal") for part in ("--method", name)]
    kinds = ("--estimator", "unbiased", "--estimator", "nonnegative")
    options = ("--counts", "counts.csv", "--draws", "6", "--epsilon", "1,4", "--summary", "errors.json")
    printed = attributary("evaluate", "spec.toml", *options, *methods, *kinds, "-o", "errors.csv").stderr
    attributary("report", "errors.csv", "-o", "errors.html", "-q")
    page = re.sub(r"<(style|script|svg).*?</\1>", "", Path("errors.html").read_text(encoding="utf-8"), flags=re.S)
    page = " ".join(unescape(re.sub(r"<[^>]*>", " ", page)).split())
    table = read_table("errors.csv")
    evaluation, rows = Evaluation(table), table.to_pylist()
    notebook = " ".join(unescape(re.sub(r"<[^>]*>", " ", evaluation._repr_html_())).split())
    summary = json.loads(Path("errors.json").read_text())["tables"][0]["rows"]
    ((chart,), more) = curves(read_evaluation(table, "errors.csv"))
    drawn = [row for values in values_of(chart.spec(620), "values") for row in values if isinstance(row, dict)]
    assert not more and {row["kind"] for row in rows} == {"exact", "simulated"}
    names = {row["method"]: row["title"] for row in rows}
    assert len(names) == 7  # three splits with two estimators each, and zeros
    for method, title in names.items():
        errors = [tree_error(rows, method, epsilon) for epsilon in (1, 4)]
        cells = f"{title} {shown(errors[0])} {shown(errors[1])} {method}".replace("\u00a0", " ")
        assert cells in page and cells in notebook, cells
        assert plain(cells).replace(" %", "%") in " ".join(printed.split())
        (row,) = [row for row in summary if row[-1] == method]
        assert row[1:3] == pytest.approx(errors)
        assert sorted(point["error"] for point in drawn if point["method"] == title) == pytest.approx(sorted(errors))
        assert f"{title} {shown(errors[1])}" in chart.words
    assert evaluation.chart().words == chart.words
