"""The report in a real browser: opened, sorted, filtered, by mouse and keys; no label is ever run."""

import itertools
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from attributary import Tree
from attributary.facts import numerals
from attributary.tables import read_table, write_table
from support.browser import Tabs, check_usable, ready, violations
from support.effort import first_of
from support.reports import BITING, biting, estimates, evaluation, shop, write

ROWS = "#grid tbody tr[data-node]"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("pages")


@pytest.fixture(scope="module")
def run(folder: Path) -> Path:
    return shop(folder)


@pytest.fixture(scope="module")
def whole(folder: Path, run: Path) -> Path:
    """A page with every section."""
    return write(folder / "whole.html", run, evaluation(folder))


@pytest.fixture(scope="module")
def odd(folder: Path) -> Path:
    return write(folder / "odd.html", biting(folder))


@pytest.fixture(scope="module")
def large(folder: Path) -> Path:
    """100 roots with 30 children of 33 each: 102,100 nodes."""
    parent = [np.full(100, -1), np.repeat(np.arange(100), 30), 100 + np.repeat(np.arange(3000), 33)]
    table = estimates(Tree.from_parents(np.concatenate(parent)))
    write_table(table, str(folder / "large.parquet"))
    return write(folder / "large.html", folder / "large.parquet")


def cells(tab: Any, column: int) -> list[str]:
    """A column of the rows that are shown."""
    found: list[str] = tab.eval_on_selector_all(ROWS, f"rows => rows.map(r => r.cells[{column}].textContent)")
    return found


def told(tab: Any, words: str) -> None:
    """Waits until the table says so."""
    tab.locator("#status", has_text=words).wait_for()


def number(text: str) -> float:
    plain = text.replace("implausible", "").replace("×", "").replace("%", "").replace(",", "").replace("−", "-")
    return float(plain.strip()) if plain.strip() != "–" else float("nan")


def focused(tab: Any) -> str:
    label: str = tab.evaluate(
        "document.activeElement.querySelector('.name')?.textContent ?? document.activeElement.textContent"
    )
    return label


def test_a_lone_total_is_open(tabs: Tabs, folder: Path) -> None:
    write_table(estimates(Tree.from_parents([-1, 0, 0, 1])), str(folder / "alone.parquet"))
    tab = ready(tabs(), write(folder / "alone.html", folder / "alone.parquet"))
    assert tab.inner_text("#status") == "4 rows; 3 shown"
    tab.click("#close")
    assert tab.inner_text("#status") == "4 rows; 1 shown"


def test_it_opens_with_the_roots_and_their_figures(tabs: Tabs, whole: Path, run: Path) -> None:
    tab = ready(tabs(), whole)
    every = read_table(str(run / "estimates.parquet")).to_pylist()
    rows = [row for row in every if row["level"] == 0]
    assert cells(tab, 0) == [row["campaign"] for row in rows]
    assert cells(tab, 1) == [numerals.count(row["estimate"]) for row in rows]
    assert cells(tab, 2) == [f"{numerals.count(row['low'])} to {numerals.count(row['high'])}" for row in rows]
    assert set(cells(tab, 3)) == {"not measured"}, "the plan sums campaigns from below"
    tab.click("#deeper")
    below = [row for row in every if row["level"] == 1]
    shown = tab.eval_on_selector_all(
        ROWS + '[aria-level="2"]', "rows => rows.map(r => [...r.cells].map(c => c.innerText))"
    )
    assert [cell[3] for cell in shown] == [numerals.count(row["noisy"]) for row in below]
    errors = [np.sqrt(row["variance"]) / max(10, row["estimate"]) for row in below]
    assert [number(cell[5]) for cell in shown] == pytest.approx(np.multiply(errors, 100), rel=0.06)
    tab.click("#close")
    assert tab.inner_text("#status") == "528 rows; 8 shown"
    headings = tab.eval_on_selector_all("h2", "all => all.map(h => h.textContent)")
    assert headings == [
        *("Counts", "Tree", "Error map", "Accuracy", "Budget and expected error", "Query and privacy", "Evaluation"),
    ], "the answer first, then how good it is, then how private"
    first = r"[\d,]+ conversions, give or take [\d.,]+ \(95.% interval\); \S+ (leads|and \S+ lead) with [\d,]+"
    assert re.match(first, tab.inner_text(".lead"))
    assert "not measured: summed from the levels below" in tab.inner_text("#budget tbody")
    assert tab.get_by_role("alert").inner_text().startswith("NOT PRIVATE."), "of a seeded run"


def test_the_error_map_is_drawn_before_anyone_scrolls_to_it(tabs: Tabs, whole: Path) -> None:
    tab = ready(tabs(), whole)
    tab.wait_for_selector("#icicle button", state="attached")
    assert tab.evaluate("scrollY") == 0 and tab.locator("#icicle").bounding_box()["y"] > 900


def test_rows_open_and_add_up(tabs: Tabs, whole: Path) -> None:
    tab = ready(tabs(), whole)
    first = tab.locator(ROWS).first
    first.click()
    assert first.get_attribute("aria-expanded") == "true"
    below = tab.eval_on_selector_all(ROWS + '[aria-level="2"]', "rows => rows.map(r => r.cells[1].textContent)")
    assert len(below) == int(tab.get_attribute(ROWS + '[aria-level="2"]', "aria-setsize")) > 1
    assert sum(map(number, below)) == pytest.approx(number(cells(tab, 1)[0]), abs=0.06 * (1 + len(below)))
    tab.click("#deeper")
    assert tab.locator(ROWS + '[aria-level="3"]').count() > 7
    first.click()
    assert (
        tab.locator(ROWS + '[aria-level="2"]').count() == 0
        or tab.locator(ROWS).nth(1).get_attribute("aria-level") == "1"
    )
    tab.click("#close")
    assert tab.locator(ROWS).count() == 8


def test_all_can_be_opened(tabs: Tabs, whole: Path) -> None:
    tab = ready(tabs(), whole)
    tab.click("#deeper")
    tab.click("#deeper")
    assert tab.inner_text("#status") == "528 rows; 528 shown"
    assert sorted(tab.eval_on_selector_all(ROWS, "rows => rows.map(r => Number(r.dataset.node))")) == list(range(528))


@pytest.mark.parametrize(("head", "column"), first_of([("estimate", 1), ("noisy", 3), ("correction", 4), ("error", 5)]))
def test_figures_sort_both_ways_and_back(head: str, column: int, tabs: Tabs, odd: Path) -> None:
    tab = ready(tabs(), odd)
    given = cells(tab, 0)
    button, th = tab.locator(f"th[data-sort={head}] button"), tab.locator(f"th[data-sort={head}]")
    key = abs if head == "correction" else float
    for direction, sign in (("descending", -1), ("ascending", 1)):
        button.click()
        shown = [sign * key(number(x)) for x in cells(tab, column)]
        assert shown == sorted(shown) and len(set(shown)) > 2
        assert th.get_attribute("aria-sort") == direction
    button.click()
    assert th.get_attribute("aria-sort") is None and cells(tab, 0) == given


def test_labels_sort_as_people_sort_and_what_was_not_measured_comes_last(tabs: Tabs, folder: Path) -> None:
    tree = Tree.from_paths({"a": ["item 10", "item 9", "item 100", "Éva", "eve"]}, ["a"])
    table = estimates(tree).to_pydict()
    table["noisy"][1], table["noise_variance"][1], table["correction"][1] = None, float("inf"), None
    import pyarrow as pa

    write_table(pa.table(table), str(folder / "few.parquet"))
    tab = ready(tabs(), write(folder / "few.html", folder / "few.parquet"))
    tab.click("th[data-sort=label] button")
    assert cells(tab, 0) == ["Éva", "eve", "item 9", "item 10", "item 100"]
    for _ in range(2):
        tab.click("th[data-sort=noisy] button")
        assert cells(tab, 0)[-1] == "item 9" and cells(tab, 3)[-1] == "not measured"


def test_a_filter_shows_what_matches_and_what_stands_above_it(tabs: Tabs, whole: Path, run: Path) -> None:
    tab = ready(tabs(), whole)
    tab.fill("#filter", "PARIS")
    rows = read_table(str(run / "estimates.parquet")).to_pylist()
    paris = [row for row in rows if row["location"] == "Paris" and row["level"] == 1]
    told(tab, f"{len(paris)} of 528")
    assert cells(tab, 0) == list(itertools.chain.from_iterable((row["campaign"], "Paris") for row in paris))
    tab.locator(ROWS, has_text="Paris").first.click()
    assert tab.locator(ROWS + '[aria-level="3"]').count() == 7, "what is below a match can be opened"
    tab.fill("#filter", "no such label")
    told(tab, "0 of 528")
    assert cells(tab, 0) == []
    tab.fill("#filter", "")
    told(tab, "528 rows;")
    assert len(cells(tab, 0)) == 8


def test_implausible_corrections_are_marked_and_can_be_singled_out(tabs: Tabs, odd: Path) -> None:
    tab = ready(tabs(), odd)
    assert "See the marked rows" in tab.inner_text(".total")
    tab.check("#only-flags")
    marked = tab.eval_on_selector_all(ROWS, "rows => rows.filter(r => r.innerText.includes('implausible')).length")
    assert tab.inner_text("#status").startswith(f"{marked} of ") and marked >= 1
    tab.uncheck("#only-flags")
    assert len(cells(tab, 0)) == len(BITING)


def test_keys_do_what_the_mouse_does(tabs: Tabs, whole: Path) -> None:
    tab = ready(tabs(), whole)
    tab.focus("#close")
    for _ in range(7 + 1):  # the heads, then the table
        tab.keyboard.press("Tab")
    roots = cells(tab, 0)
    assert focused(tab) == roots[0]
    outline = tab.evaluate("getComputedStyle(document.activeElement).outline")
    assert "solid" in outline and not outline.startswith("0px")
    tab.keyboard.press("ArrowDown")
    assert focused(tab) == roots[1]
    tab.keyboard.press("ArrowRight")
    assert tab.evaluate("document.activeElement.ariaExpanded") == "true"
    tab.keyboard.press("ArrowRight")
    assert tab.evaluate("document.activeElement.ariaLevel") == "2"
    tab.keyboard.press("Enter")
    assert tab.locator(ROWS + '[aria-level="3"]').count() == 7
    tab.keyboard.press("ArrowLeft")
    tab.keyboard.press("ArrowLeft")
    assert focused(tab) == roots[1]
    tab.keyboard.press("ArrowLeft")
    assert cells(tab, 0) == roots
    tab.keyboard.press("End")
    assert focused(tab) == roots[-1]
    tab.keyboard.press("ArrowDown")
    assert focused(tab) == roots[-1]
    tab.keyboard.press("Home")
    assert focused(tab) == roots[0]


def test_the_icicle_zooms_in_and_out(tabs: Tabs, whole: Path) -> None:
    tab = ready(tabs(), whole)
    tab.locator("#icicle").scroll_into_view_if_needed()
    tab.wait_for_selector("#icicle button")
    outlet = tab.locator("#icicle button", has_text="outlet")
    narrow = outlet.bounding_box()["width"]
    outlet.click()
    all_of_it = tab.locator("#icicle").bounding_box()["width"]
    assert narrow < all_of_it / 2 and outlet.bounding_box()["width"] == pytest.approx(all_of_it, abs=1)
    assert "outlet" in focused(tab) and tab.inner_text("#pointed").startswith("outlet: ")
    tab.keyboard.press("ArrowDown")
    assert tab.inner_text("#pointed").startswith("outlet › ")
    tab.keyboard.press("Escape")
    assert tab.locator("#icicle button", has_text="outlet").bounding_box()["width"] == pytest.approx(narrow, abs=1)
    tab.keyboard.press("ArrowDown")
    tab.keyboard.press("Enter")
    assert tab.locator('#icicle [aria-current="true"]').bounding_box()["width"] == pytest.approx(all_of_it, abs=1)


def test_labels_are_shown_as_they_are_and_never_run(tabs: Tabs, odd: Path) -> None:
    tab = ready(tabs(), odd)
    tab.click("#deeper")
    tab.locator("#icicle").scroll_into_view_if_needed()
    tab.wait_for_selector("#icicle button")
    assert tab.title() == "Conversions by first and second </script>"
    shown = [label for label in cells(tab, 0) if label not in ("<i>p</i>", "q")]
    pictures = {c: 0x2400 + c for c in range(32)} | {0x7F: "␡"}
    assert shown == [label.translate(pictures) or "(empty)" for label in BITING]
    assert tab.locator("script").count() == 3 and tab.locator("img, iframe, object, embed").count() == 0
    assert tab.locator("#accuracy th", has_text="<script>").count() >= 1
    assert "<script>docu" in tab.text_content("#counts .wide svg")
    box = tab.locator(ROWS, has_text="long long").first.bounding_box()
    assert box["height"] < 150, "a long label scrolls in its place"


def test_the_policy_forbids_what_is_not_ours(tabs: Tabs, odd: Path) -> None:
    tab = ready(tabs(forgive="Content Security Policy"), odd)
    tab.evaluate(
        """() => new Promise(done => {
            setTimeout(done, 5000);
            document.addEventListener('securitypolicyviolation',
                e => done(document.body.dataset.blocked = e.effectiveDirective));
            const script = document.createElement('script');
            script.textContent = "document.title = 'run'";
            document.body.append(script);
        })"""
    )
    assert tab.evaluate("document.body.dataset.blocked") == "script-src-elem"
    assert tab.title() != "run"


@pytest.mark.parametrize("which", ["whole", "odd"])
def test_everyone_can_use_it(which: str, tabs: Tabs, request: pytest.FixtureRequest) -> None:
    tab = ready(tabs(), request.getfixturevalue(which))
    tab.wait_for_selector("#icicle button", state="attached")
    tab.click("#deeper")
    for details in tab.locator("details summary").all():
        details.click()
    check_usable(tab)


def test_a_page_of_a_plan_or_an_evaluation_alone(tabs: Tabs, folder: Path, run: Path) -> None:
    tab = tabs()
    for path, words in ((run / "plan.json", "Budget and expected error"), (evaluation(folder), "Evaluation")):
        tab.goto(write(folder / "alone.html", path).as_uri())
        assert words in tab.inner_text("main")
        assert tab.locator("nav a").count() == tab.locator("section").count() == 2
        check_usable(tab, widths=(360, 1600))


def test_the_checks_find_what_is_wrong(tabs: Tabs, tmp_path: Path) -> None:
    page = tmp_path / "wrong.html"
    page.write_text(
        """<!doctype html><meta name=viewport content="width=device-width"><h1>a</h1><h3>b</h3><nav></nav>
        <button></button><input><a href="#none">x</a><p id=p style="color:#999">pale</p><p id=p>twice</p>
        <div aria-hidden=true><button>hidden</button></div><table><tr><th>h</table><div tabindex=3>first</div>
        <div style="height:2em;overflow:auto"><p>a<p>b<p>c</div>"""
    )
    tab = tabs()
    tab.goto(page.as_uri())
    found = "\n".join(violations(tab))
    rules = (
        "no language",
        "no title",
        "main landmark",
        "skips a level",
        "nav without",
        "no name: <button",
        "no name: <input",
    )
    rules += ("points nowhere", "contrast 2.8", "used twice", "but hidden", "without scope", "forced", "takes no focus")
    assert [rule for rule in rules if rule not in found] == []


def test_who_prefers_less_motion_gets_none(tabs: Tabs, whole: Path) -> None:
    tab = ready(tabs(), whole)
    moving = "getComputedStyle(document.documentElement).scrollBehavior"
    assert tab.evaluate(moving) == "smooth"
    tab.emulate_media(reduced_motion="reduce")
    assert tab.evaluate(moving) == "auto"


def test_it_prints_in_light_colours_without_controls(tabs: Tabs, whole: Path) -> None:
    tab = ready(tabs(900, "dark"), whole)
    pdf = tab.pdf(format="A4")
    assert pdf.startswith(b"%PDF")
    tab.wait_for_selector("#icicle button", state="attached")
    tab.emulate_media(media="print", color_scheme="dark")
    assert tab.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert not tab.is_visible(".tools") and not tab.is_visible("nav") and tab.is_visible("#grid")


def test_without_scripts_everything_but_tree_and_map_is_there(tabs: Tabs, whole: Path) -> None:
    tab = tabs(java_script_enabled=False)
    tab.goto(whole.as_uri())
    assert tab.is_visible("noscript p") and tab.is_visible("#budget table") and tab.is_visible("#counts svg >> nth=0")


def test_all_of_a_large_tree_can_be_reached_and_little_of_it_is_drawn(tabs: Tabs, large: Path) -> None:
    tab = ready(tabs(), large)
    assert tab.inner_text("#status") == "102,100 rows; 100 shown"
    for level in ("1", "2"):
        tab.locator(f'{ROWS}[aria-level="{level}"]').last.click()
    assert tab.locator(ROWS).last.inner_text().startswith("node 102099")
    tab.fill("#filter", "node 54321")
    told(tab, "1 of")
    assert cells(tab, 0)[-1] == "node 54321" and len(cells(tab, 0)) == 3
    tab.fill("#filter", "node")
    told(tab, "102,100 of")
    assert len(cells(tab, 0)) <= 2_200


def test_a_large_family_comes_in_parts(tabs: Tabs, folder: Path) -> None:
    write_table(estimates(Tree.from_parents([-1] + [0] * 2500)), str(folder / "star.parquet"))
    tab = ready(tabs(), write(folder / "star.html", folder / "star.parquet"))
    for shown, button in (
        (101, "Show 1,000 more of 2,400"),
        (1101, "Show 1,000 more of 1,400"),
        (2101, "Show the other 400"),
    ):
        assert tab.locator(ROWS).count() == shown
        tab.get_by_role("button", name=button).click()
    assert tab.locator(ROWS).count() == 2501


def test_a_cut_tree_says_what_is_left_out(tabs: Tabs, folder: Path, run: Path) -> None:
    tab = ready(tabs(), write(folder / "cut.html", run / "estimates.parquet", nodes=60))
    assert "This page shows 60 rows" in tab.inner_text("#tree") and "468 smaller ones are left out" in tab.inner_text(
        "#tree"
    )
    tab.click("#deeper")
    tab.click("#deeper")
    assert tab.locator(ROWS).count() == 60
    left = tab.eval_on_selector_all("tr.aside", "rows => rows.map(r => r.innerText)")
    assert sum(int(words.split()[0]) for words in left) <= 468 and all(
        "left out of this page" in words for words in left
    )
    assert violations(tab) == []
