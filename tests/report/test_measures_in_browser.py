"""Several measures in a real browser: on the page by a switch, in the explorer by a select."""

import csv
import io
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from tests.explore.test_explore_in_browser import opened, serve, settled  # noqa: F401
from tests.report.test_page_in_browser import cells, told

from attributary.facts import numerals
from attributary.tables import read_table
from support.browser import Tabs, check_usable, ready, violations
from support.explored import client, closed, every_page, session, table, written  # noqa: F401
from support.reports import values, write

ROWS = "#grid tbody tr[data-node]"
SWITCH = "input[name=measure]"


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return values(tmp_path_factory.mktemp("values"))


@pytest.fixture(scope="module")
def whole(run: Path) -> Path:
    return write(run / "whole.html", run / "estimates.parquet", run / "plan.json", run / "ratios.parquet")


def roots(path: Path, measure: str) -> list[dict[str, Any]]:
    return [r for r in read_table(str(path)).to_pylist() if r["measure"] == measure and r["level"] == 0]


def test_the_switch_changes_table_map_and_panels(tabs: Tabs, whole: Path, run: Path) -> None:
    tab = ready(tabs(), whole)
    count, revenue = (roots(run / "estimates.parquet", name) for name in ("count", "revenue"))
    assert cells(tab, 1) == [numerals.count(r["estimate"]) for r in count]
    tab.locator(ROWS).first.click()
    tab.get_by_label("Revenue (EUR)", exact=True).check(force=True)
    shown = tab.eval_on_selector_all(ROWS + '[aria-level="1"]', "rows => rows.map(r => r.cells[1].textContent)")
    assert shown == [numerals.count(r["estimate"]) for r in revenue]
    assert tab.locator(ROWS).first.get_attribute("aria-expanded") == "true", "what is open stays open"
    assert tab.locator(ROWS + '[aria-level="2"]').count() > 1
    assert "Estimate, EUR" in tab.inner_text("#grid thead") and "revenue: " in tab.inner_text("#status")
    assert tab.inner_text("#tree-h") == "Tree: Revenue (EUR)"
    for section in ("largest", "tree", "where", "accuracy", "budget"):
        seen = tab.eval_on_selector_all(
            f"#{section} .panel", "all => all.filter(p => p.checkVisibility()).map(p => p.dataset.measure)"
        )
        assert seen == ["1"], section
    tab.locator("#icicle").scroll_into_view_if_needed()
    tab.locator("#icicle button").nth(2).hover()
    assert "EUR" in tab.inner_text("#pointed")
    assert violations(tab) == []


def test_ratios_have_neither_noise_nor_sums(tabs: Tabs, whole: Path, run: Path) -> None:
    tab = ready(tabs(), whole)
    tab.click("th[data-sort=correction] button")
    tab.get_by_label("Revenue per conversion (EUR)").check(force=True)
    heads = tab.eval_on_selector_all("#grid th[data-sort]", "all => all.filter(h => h.checkVisibility()).length")
    assert heads == 4 and tab.locator("th[aria-sort]").count() == 0
    ratio = roots(run / "ratios.parquet", "revenue per conversion")
    assert cells(tab, 1) == [numerals.count(r["estimate"]) for r in ratio]
    assert cells(tab, 2) == [f"{numerals.count(r['low'])} to {numerals.count(r['high'])}" for r in ratio]
    tab.click("#deeper")
    tab.click("#deeper")
    assert "too few conversions" in tab.inner_text("#grid")
    tab.click("th[data-sort=error] button")
    assert cells(tab, 1)[-1] == "–", "what is not known comes last"
    tab.locator("#icicle").scroll_into_view_if_needed()
    wide = tab.eval_on_selector_all("#icicle button[data-node]", "all => all.map(b => b.offsetWidth)")
    assert max(wide[1:]) > 50, "a ratio's nodes are as wide as their counts"
    tab.get_by_label("Conversions", exact=True).check(force=True)
    assert tab.locator("#grid th[data-sort]:not([hidden])").count() == 7
    assert tab.locator("#grid td[data-head='per impression']").count() > 0


def test_keys_switch_and_filters_stay(tabs: Tabs, whole: Path) -> None:
    tab = ready(tabs(), whole)
    tab.fill("#filter", "paris")
    told(tab, "rows match")
    before = cells(tab, 0)
    tab.focus(f"{SWITCH}:checked")
    tab.keyboard.press("ArrowRight")
    assert tab.evaluate(f"document.querySelector('{SWITCH}:checked').value") == "1"
    assert cells(tab, 0) == before and tab.inner_text("#tree-h").endswith("Revenue (EUR)")
    outline = tab.evaluate(f"getComputedStyle(document.querySelector('{SWITCH}:checked + span')).outlineStyle")
    assert outline == "solid"
    tab.locator("#budget").scroll_into_view_if_needed()
    tab.evaluate("document.querySelector('#budget').scrollIntoView({behavior: 'instant'})")
    top = tab.evaluate("document.querySelector('#budget').getBoundingClientRect().top")
    tab.keyboard.press("ArrowRight")
    assert abs(tab.evaluate("document.querySelector('#budget').getBoundingClientRect().top") - top) < 200
    banner, switch = (tab.locator(name).bounding_box() for name in (".not-private", ".switch"))
    assert switch["y"] == pytest.approx(banner["height"], abs=1), "it stays in sight, below the warning"


def test_everyone_can_use_the_page(tabs: Tabs, whole: Path) -> None:
    tab = ready(tabs(), whole)
    tab.wait_for_selector("#icicle button", state="attached")
    for k in ("0", "1", "2"):
        tab.evaluate(f"document.querySelector('{SWITCH}[value=\"{k}\"]').click()")
        tab.click("#deeper")
        check_usable(tab, k, (360, 900, 1600) if k == "0" else (360,))


def test_without_scripts_and_on_paper_all_measures_are_there(tabs: Tabs, whole: Path) -> None:
    tab = tabs(java_script_enabled=False)
    tab.goto(whole.as_uri())
    assert tab.is_visible('#budget [data-measure="1"] table') and not tab.is_visible(".switch")
    assert tab.is_visible('#largest [data-measure="2"] h3')
    tab = ready(tabs(900, "dark"), whole)
    tab.get_by_label("Revenue (EUR)", exact=True).check(force=True)
    assert tab.pdf(format="A4").startswith(b"%PDF")
    tab.emulate_media(media="print", color_scheme="dark")
    assert tab.is_visible('#budget [data-measure="0"] table') and not tab.is_visible(".switch")
    assert not tab.is_visible('#tree [data-measure="0"]') and "Revenue" in tab.inner_text("#tree-h")


def test_a_plan_alone_can_be_switched_too(tabs: Tabs, run: Path) -> None:
    tab = tabs()
    tab.goto(write(run / "plan.html", run / "plan.json").as_uri())
    assert tab.is_visible('#budget [data-measure="0"]') and violations(tab) == []
    tab.get_by_label("Revenue (EUR)", exact=True).check(force=True)
    assert tab.is_visible('#budget [data-measure="1"]') and not tab.is_visible('#budget [data-measure="0"]')


def test_a_cut_page_of_measures_says_what_is_left_out(tabs: Tabs, run: Path) -> None:
    files = [run / name for name in ("estimates.parquet", "plan.json", "ratios.parquet")]
    tab = ready(tabs(), write(run / "cut.html", *files, nodes=60))
    for k in range(3):
        tab.evaluate(f"document.querySelector('{SWITCH}[value=\"{k}\"]').click()")
        tab.click("#deeper")
        tab.click("#deeper")
        assert tab.locator(ROWS).count() == 60
        left = tab.eval_on_selector_all("tr.aside", "rows => rows.map(r => r.innerText)")
        assert left and any("together" in words for words in left) == (k < 2), "ratios have no sum"
    assert "figures of any measure" in tab.inner_text("#tree")


def two(tmp_path: Path, name: str, seed: int) -> str:
    """A table of two measures with the same nodes."""
    each = [
        table(["x", "y"], seed=seed + i).add_column(0, "measure", pa.array([measure] * 82).dictionary_encode())
        for i, measure in enumerate(("count", "it's <b>revenue</b>"))
    ]
    return written(pa.concat_tables(each).unify_dictionaries(), tmp_path / name)


@pytest.mark.parametrize("ending", ["parquet", "csv"])
def test_the_explorer_answers_for_each_measure(tmp_path: Path, ending: str) -> None:
    from attributary.tables import write_table

    path = two(tmp_path, "e.parquet", 1)
    given = read_table(path)
    if ending == "csv":
        path = str(tmp_path / "e.csv")
        write_table(given, path)
    tab = client(session(path))
    about = tab.get("/api/about").json()["table"]
    assert about["measures"] == ["count", "it's <b>revenue</b>"] and about["nodes"] == 82
    for name in about["measures"]:
        own = given.filter(pc.equal(given.column("measure").cast(pa.string()), name)).to_pylist()
        rows = every_page(tab, level="all", sort="order", measure=name)
        assert [r["estimate"] for r in rows] == [r["estimate"] for r in own]
        assert tab.get("/api/node", params={"node": "3", "measure": name}).json()["estimate"] == own[3]["estimate"]
        found = every_page(tab, find="city 1", measure=name)
        assert {r["label"] for r in found} == {"City 1"} and len(found) == 2
        text = tab.get("/api/rows.csv", params={"level": "all", "sort": "order", "measure": name}).text
        lines = list(csv.DictReader(io.StringIO(text, newline="")))
        assert [(r["measure"], float(r["estimate"])) for r in lines] == [(name, r["estimate"]) for r in own]
    sums = [sum(r["estimate"] for r in every_page(tab, measure=name)) for name in about["measures"]]
    taus = [tab.get("/api/about", params={"measure": n}).json()["table"]["tau"] for n in about["measures"]]
    assert taus == [10, pytest.approx(10 * sums[1] / sums[0])]
    assert every_page(tab) == every_page(tab, measure="count")
    answer = tab.get("/api/rows", params={"measure": "'; DROP TABLE now"})
    assert answer.status_code == 400 and "there is no measure" in answer.json()["error"]


def test_two_tables_of_measures_are_compared_measure_by_measure(tmp_path: Path) -> None:
    from attributary.errors import InputError
    from attributary.explore.estimate_store import open_store

    now, before = two(tmp_path, "now.parquet", 1), two(tmp_path, "before.parquet", 9)
    tab = client(session(now, before))
    old = read_table(before).to_pylist()
    for i, name in enumerate(("count", "it's <b>revenue</b>")):
        rows = every_page(tab, level="all", sort="order", measure=name)
        assert [r["old"] for r in rows] == [r["estimate"] for r in old[82 * i : 82 * (i + 1)]]
    short = written(read_table(now).slice(0, 90), tmp_path / "short.parquet")
    with pytest.raises(InputError, match="revenue</b>\" has other nodes than 'count', 8 and 82"):
        open_store([short])
    other = written(table(["x", "y"]), tmp_path / "one.parquet")
    for pair in ([now, other], [other, now]):
        with pytest.raises(InputError, match="tables of the same measures are compared"):
            open_store(pair)


def test_the_explorer_chooses_a_measure(tabs: Tabs, serve: Any, run: Path) -> None:  # noqa: F811
    tab = opened(tabs(), serve(str(run / "estimates.parquet")))
    assert tab.inner_text("#title").startswith("Conversions by")
    tab.locator("#grid tbody a").first.click()
    tab.wait_for_selector("#here:not([hidden])")
    settled(tab)
    here = tab.inner_text("#here .eyebrow")
    tab.select_option("#measure", "revenue")
    tab.wait_for_function("() => document.querySelector('#title').textContent.startsWith('Revenue')")
    settled(tab)
    assert tab.inner_text("#here .eyebrow") == here and "measure=revenue" in tab.url
    label = here.split(" ", 1)[1]
    (own,) = [r for r in roots(run / "estimates.parquet", "revenue") if r["campaign"] == label]
    assert tab.inner_text("#here .big") == numerals.count(own["estimate"])
    tab.reload()
    tab.wait_for_selector("html[data-ready=counts]", state="attached")
    assert tab.input_value("#measure") == "revenue" and violations(tab) == []
    tab.go_back()
    tab.wait_for_function("() => document.querySelector('#title').textContent.startsWith('Conversions')")
    settled(tab)
    assert tab.input_value("#measure") == ""
    for width in (360, 1600):
        tab.set_viewport_size({"width": width, "height": 900})
        assert violations(tab) == [] and tab.evaluate("document.documentElement.scrollWidth") <= width
