"""The page of periods answers in its first sentence, names what changed, and works everywhere."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result

from attributary import denoise, periods
from attributary.cli import main
from attributary.report import series_page
from support.browser import Tabs, check_usable
from support.reports import BITING
from support.weeks import rates, tree_of, week, write_weeks

CAMPAIGNS = ["outlet", "shoes", "hats"]


def made(grown: float = 1.0, weeks: int = 3, names: list[str] = CAMPAIGNS, outlet: float = 1.0) -> dict[str, Any]:
    """Weeks of which the last has so many times the conversions; of the outlet, so many more."""
    tree, rng = tree_of(names), np.random.default_rng(8)
    rate = rates(tree)
    last = rate * grown * np.where([tree.path(v)[0] == "outlet" for v in range(len(tree))], outlet, 1.0)
    last = tree.roll_up(last[tree.is_leaf])
    return {f"W{i}": week(tree, rate if i < weeks else last, rng) for i in range(1, weeks + 1)}


def report(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["report", *arguments])


@pytest.mark.parametrize(
    ("grown", "outlet", "words"),
    [
        (1.0, 1.0, ["No clear change in conversions from W2 to W3", "Of 3 rows of campaign, none changed."]),
        (1.3, 1.0, ["Conversions grew from W2 to W3: +", "more than noise and chance explain"]),
        (0.5, 1.0, ["Conversions fell from W2 to W3: −", "Of 3 rows of campaign, all changed"]),
        (1.0, 1.5, ["1 changed: outlet grew, +"]),
    ],
)
def test_the_first_sentence_answers(grown: float, outlet: float, words: list[str]) -> None:
    said = " ".join(series_page(periods(made(grown, outlet=outlet))).lead)
    assert all(word in said for word in words), said


def test_rates_per_impression_are_called_so(tmp_path: Path) -> None:
    weeks = made(1.5, weeks=2)
    seen = np.full(len(weeks["W1"].tree), 1000.0)
    folder = write_weeks(tmp_path / "weeks", weeks, seen)
    assert series_page(periods(folder, test="per-impression")).lead[0].startswith("Conversions per impression grew")
    small = {name: denoise(est.tree, est.blue * 0.01, 4.0) for name, est in weeks.items()}
    page = series_page(periods(write_weeks(tmp_path / "small", small, seen), test="per-impression"))
    assert "points" in page.html and "No clear change" in page.lead[0]


def test_new_gone_and_doubtful_are_said() -> None:
    first = week(tree_of(["old", *CAMPAIGNS]), rates(tree_of(["old", *CAMPAIGNS])), np.random.default_rng(1))
    tree = tree_of([*CAMPAIGNS, "young"])
    last = week(tree, rates(tree), np.random.default_rng(2))
    wild = denoise(tree, last.blue + np.random.default_rng(3).laplace(0, 40, len(tree)), last.measurements.variance)
    page = series_page(periods({"one": first, "two": wild}))
    assert {"New: young.", "Gone: old.", "The noise of two is not as stated: doubt these figures."} <= set(page.lead)


def test_what_has_no_room_is_left_out_and_said() -> None:
    page = series_page(periods(made()), nodes=5)
    assert page.left_out == 39 - 5
    assert "34 smaller rows are left out" in page.html


def test_the_command_takes_a_folder_of_periods_or_two(tmp_path: Path) -> None:
    folder = write_weeks(tmp_path / "weeks", made(1.3, weeks=2))
    for arguments in ([str(folder)], [str(folder / "W2.parquet"), str(folder / "W1.parquet")]):
        ran = report(*arguments, "-o", str(tmp_path / "page.html"))
        assert ran.exit_code == 0, ran.output
        assert ran.stderr.startswith("Conversions grew from W1 to W2")
        assert "grew from W1 to W2" in (tmp_path / "page.html").read_text(encoding="utf-8")
    plain = report(str(folder), "-o", str(tmp_path / "page.html"), "--test", "counts", "--proven", "-q")
    assert plain.exit_code == 0 and not plain.output
    words = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "counts equal, given the privacy noise" in words and "Benjamini and Yekutieli" in words


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--charts", "charts"], "--charts draws one period"),
        (["--false-discoveries", "2"], "between 0 and 1"),
        (["--test", "per-impression"], "needs the column 'impressions'"),
        (["-o", "weeks/W1.parquet"], "weeks/W1.parquet"),
    ],
)
def test_what_a_page_of_periods_cannot_be_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], words: str
) -> None:
    monkeypatch.chdir(tmp_path)
    write_weeks(tmp_path / "weeks", made(weeks=2))
    ran = report("weeks", *arguments)
    assert ran.exit_code == 2 and words in ran.stderr


def test_a_page_of_periods_can_be_used_by_everyone(tabs: Tabs, tmp_path: Path) -> None:
    weeks = made(1.4, weeks=2, names=[*BITING, "outlet"])
    tree = next(iter(weeks.values())).tree
    seen = np.where(tree.level < 2, 1e5, np.nan)
    folder = write_weeks(tmp_path / "weeks", {"<b>W1": weeks["W1"], "W2": weeks["W2"]}, seen)
    page = tmp_path / "page.html"
    page.write_text(series_page(periods(folder)).html, encoding="utf-8")
    tab = tabs()
    tab.goto(page.as_uri())
    assert tab.title().endswith("W2 against <b>W1")
    tab.click("#nodes summary >> nth=0")
    assert tab.locator("#nodes details[open] > ul > li").count() == 3
    assert "impressions" in tab.inner_text("#nodes summary >> nth=0")
    check_usable(tab, widths=(360, 1200))
