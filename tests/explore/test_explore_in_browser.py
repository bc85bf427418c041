"""The explorer in a real browser: drill down, sort, search, compare, move ε, download; no label is ever run."""

import csv
import io
import shutil
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
import uvicorn

from attributary.explore.server import listen, make_app
from support.browser import Tabs, check_usable, violations
from support.explored import AWKWARD, TOKEN, closed, session, table, written  # noqa: F401

ROWS = "#grid tbody tr"


class Served:
    """An explorer on a port of its own."""

    def __init__(self, *paths: str) -> None:
        self.session = session(*paths)
        self.socket = listen(0)
        self.port = self.socket.getsockname()[1]
        config = uvicorn.Config(
            make_app(self.session, TOKEN, self.port, "k" * 43), log_level="critical", lifespan="off", ws="none"
        )
        self.server = uvicorn.Server(config)
        self.thread = threading.Thread(target=self.server.run, kwargs={"sockets": [self.socket]}, daemon=True)
        self.thread.start()

    def url(self, path: str = "", token: str = TOKEN) -> str:
        return f"http://127.0.0.1:{self.port}/{path}#{token}"

    def stop(self) -> None:
        self.server.should_exit = True
        self.thread.join(10)
        self.socket.close()


@pytest.fixture
def serve() -> Iterator[Any]:
    served = []

    def start(*paths: str) -> Served:
        served.append(Served(*paths))
        return served[-1]

    yield start
    for one in served:
        one.stop()


@pytest.fixture
def tabs(serve: Any, tabs: Tabs) -> Tabs:
    """They close before what they ask is stopped."""
    return tabs


@pytest.fixture
def one(tmp_path: Path) -> str:
    return written(table([*AWKWARD, *(f"campaign {i}" for i in range(150))]), tmp_path / "estimates.parquet")


def opened(tab: Any, served: Served, path: str = "", ready: str = "counts") -> Any:
    tab.goto(served.url(path))
    tab.wait_for_selector(f"html[data-ready={ready}]", state="attached")
    return tab


def settled(tab: Any) -> None:
    tab.wait_for_function("() => !document.querySelector('[aria-busy]')")


def labels(tab: Any) -> list[str]:
    found: list[str] = tab.locator(f"{ROWS} th .name > :is(a.last, bdi, i)").all_inner_texts()
    return found


def test_drill_down_and_back(tabs: Tabs, serve: Any, one: str) -> None:
    tab = opened(tabs(), serve(one))
    assert tab.locator(ROWS).count() == 100
    assert "Rows 1 to 100 of 166" in tab.inner_text("#status")
    assert "#" not in tab.url
    tab.click("#pager a:has-text('Next')")
    tab.wait_for_function("() => document.querySelector('#status').textContent.includes('101 to 166')")
    tab.go_back()
    tab.wait_for_function("() => document.querySelector('#status').textContent.includes('Rows 1 to 100')")
    first = labels(tab)[0]
    tab.locator(f"{ROWS} a").first.click()
    tab.wait_for_selector("#here:not([hidden])")
    settled(tab)
    assert first in tab.inner_text("#here") and labels(tab)[0].startswith("City")
    tab.locator(f"{ROWS} a").first.click()
    tab.wait_for_function("() => document.querySelectorAll('#path li').length === 3")
    settled(tab)
    assert labels(tab)[0].startswith("day") and tab.locator(f"{ROWS} a").count() == 0
    deep = tab.url
    tab.reload()
    tab.wait_for_selector("html[data-ready=counts]", state="attached")
    assert tab.url == deep and tab.locator("#path li").count() == 3
    tab.locator("#path a").first.click()
    tab.wait_for_function("() => document.querySelectorAll('#path li').length === 1")
    settled(tab)
    assert labels(tab)[0] == first


def test_sorting_by_heads(tabs: Tabs, serve: Any, one: str) -> None:
    tab = opened(tabs(), serve(one))

    def column() -> list[float]:
        texts = tab.locator(f"{ROWS} td.estimate").all_inner_texts()
        return [float(t.replace(",", "").replace("−", "-")) for t in texts]

    assert column() == sorted(column(), reverse=True)
    tab.click("thead button:has-text('Estimate')")
    tab.wait_for_selector("th[aria-sort=ascending]")
    settled(tab)
    assert column() == sorted(column()) and "down=0" in tab.url
    tab.click("thead button:has-text('Label')")
    tab.wait_for_function("() => document.querySelector('th[aria-sort]').textContent === 'Label'")
    settled(tab)
    assert labels(tab)[1:3] != sorted(labels(tab))[1:0:-1] and labels(tab)[0] == "(empty)"
    tab.click("button:has-text('Order of the tree')")
    tab.wait_for_selector("#order[aria-pressed=true]")
    settled(tab)
    assert labels(tab)[0] == AWKWARD[0]


def test_searching(tabs: Tabs, serve: Any, one: str) -> None:
    tab = opened(tabs(), serve(one))
    tab.fill("#find", "CAMPAIGN 14")
    tab.wait_for_function("() => document.querySelector('#status').textContent.includes('of 11')")
    assert {label.split("\n")[0] for label in labels(tab)} == {"campaign 14", *(f"campaign 14{i}" for i in range(10))}
    tab.fill("#find", "day 3")
    tab.wait_for_function("() => document.querySelector('#status').textContent.includes('of 830')")
    assert "›" in tab.inner_text(f"{ROWS} th")
    tab.select_option("#depth", "1")
    tab.wait_for_selector("#nothing:not([hidden])")
    assert "No label here contains “day 3”" in tab.inner_text("#nothing")
    tab.go_back()
    tab.go_back()
    tab.wait_for_function("() => document.querySelector('#find').value === '' || document.activeElement.id === 'find'")


def test_labels_are_shown_and_never_run(tabs: Tabs, serve: Any, one: str) -> None:
    served = serve(one)
    tab = opened(tabs(), served, "?sort=order")
    shown = labels(tab)[: len(AWKWARD)]
    for label, seen in zip(AWKWARD, shown, strict=True):
        if label.startswith("control"):
            assert "␇" in seen and "␊" in seen
        else:
            assert seen == (label or "(empty)")
    assert tab.locator("script:not([src]), #grid img").count() == 0
    for i in (0, 5, 6):
        opened(tab, served, f"?node={i}")
        assert tab.locator(ROWS).count() == 5
    assert tab.evaluate("document.documentElement.scrollWidth") <= 1200


def test_downloading_what_is_seen(tabs: Tabs, serve: Any, one: str) -> None:
    tab = opened(tabs(), serve(one), "?find=campaign+14&sort=label")
    with tab.expect_download() as waiting:
        tab.click("button:has-text('Download as CSV')")
    text = Path(waiting.value.path()).read_text(encoding="utf-8")
    rows = list(csv.DictReader(io.StringIO(text, newline="")))
    assert waiting.value.suggested_filename == "estimates.csv"
    assert [row["campaign"] for row in rows] == labels(tab)


def test_comparing_with_last_week(tabs: Tabs, serve: Any, tmp_path: Path) -> None:
    now = written(table(["same", "new one"], seed=1), tmp_path / "now.parquet")
    before = written(table(["same", "gone one"], seed=2), tmp_path / "before.parquet")
    tab = opened(tabs(), serve(now, before))
    assert tab.locator(".judge").all_inner_texts()[1:] != []
    assert {"new", "gone"} <= set(tab.locator(".judge").all_inner_texts())
    tab.click("thead button:has-text('Change')")
    tab.wait_for_function("() => document.querySelector('th[aria-sort]').textContent === 'Change'")
    tab.click("#grid a:has-text('gone one')")
    tab.wait_for_selector("#here:not([hidden])")
    settled(tab)
    assert "gone" in tab.inner_text("#here") and tab.locator(ROWS).count() == 5
    assert tab.locator("#course svg").count() == 1 and "2 periods together" in tab.inner_text("#course")
    assert violations(tab) == []


def percent(text: str) -> float:
    return float(text.replace("%", "").replace("\u00a0", "").strip())


def error(tab: Any) -> float:
    return percent(tab.inner_text("#levels tfoot .denoised"))


def test_the_numbers_follow_the_sliders(tabs: Tabs, serve: Any) -> None:
    tab = opened(tabs(), serve(), ready="plan")
    assert "made-up" in tab.inner_text("#origin") and "This is the best split" in tab.inner_text("#sum")
    before = error(tab)
    tab.fill("#epsilon", "8")
    tab.keyboard.press("Enter")
    tab.wait_for_function("() => new URLSearchParams(location.search).get('epsilon') === '8'")
    tab.wait_for_function("() => document.querySelector('#levels tfoot .eps').textContent === '8'")
    assert error(tab) == pytest.approx(before / 2, rel=0.03)
    tab.focus("#epsilon-slider")
    for _ in range(20):
        tab.keyboard.press("ArrowLeft")
    tab.wait_for_function("() => Number(document.querySelector('#levels tfoot .eps').textContent) < 6")
    assert error(tab) > before / 2
    tab.click("button:has-text('Equal shares')")
    tab.wait_for_function("() => document.querySelector('#sum').textContent.includes('The best split within')")
    shares = [percent(tab.input_value(f"#levels tbody tr:nth-child({i}) input[type=number]")) for i in (1, 2, 3)]
    assert shares == [33.3, 33.3, 33.3]
    worse = error(tab)
    tab.fill("#levels tbody tr:nth-child(1) input[type=number]", "0")
    tab.keyboard.press("Tab")
    tab.wait_for_function("() => document.querySelector('#levels tbody .contribution').textContent === 'not measured'")
    assert tab.inner_text("#levels tbody tr:nth-child(2) .contribution") == "32,768"
    assert error(tab) < worse
    tab.click("button:has-text('Use the best split')")
    tab.wait_for_function("() => document.querySelector('#sum').textContent.includes('This is the best split')")
    tab.fill("#levels tbody tr:nth-child(3) input[type=number]", "80")
    tab.keyboard.press("Tab")
    tab.wait_for_function("() => document.querySelector('#privacy').textContent.includes('less protection')")
    tab.select_option("#neighbours", "definition-1")
    tab.wait_for_function("() => document.querySelector('#privacy').textContent.includes('Definition 1')")
    tab.go_back()
    tab.wait_for_function("() => document.querySelector('#privacy').textContent.includes('less protection')")


def test_targets_follow_their_sliders_and_fit_the_page(tabs: Tabs, serve: Any) -> None:
    tab = opened(tabs(width=1300), serve(), ready="plan")
    tab.fill("#levels tbody tr:nth-child(2) .target input[type=number]", "3")
    tab.keyboard.press("Enter")
    tab.wait_for_function("() => document.querySelector('#sum').textContent.includes('Least ε that meets them')")
    tab.wait_for_function("() => document.querySelector('#sum').textContent.includes('misses the target of location')")
    assert tab.locator("#levels tbody tr:nth-child(2) .denoised.over").count() == 1
    tab.click("button:has-text('Use the least')")
    tab.wait_for_function("() => document.querySelector('#sum').textContent.includes('It meets all targets')")
    assert float(tab.input_value("#epsilon")) > 4 and tab.locator("#levels .over").count() == 0
    assert percent(tab.inner_text("#levels tbody tr:nth-child(2) .denoised")) == pytest.approx(3, abs=0.05)
    tab.wait_for_selector("#curve .aim", state="attached")
    for width in (1300, 1000, 390):
        tab.set_viewport_size({"width": width, "height": 900})
        hidden = "() => [...document.querySelectorAll('#plan .scroller')].map((e) => e.scrollWidth - e.clientWidth)[0]"
        assert tab.evaluate(hidden) <= 0, width  # the levels do not scroll sideways


def test_a_made_up_tree_and_its_draws(tabs: Tabs, serve: Any) -> None:
    tab = opened(tabs(), serve(), ready="plan")
    tab.fill("#fans", "3 × 4")
    tab.keyboard.press("Enter")
    tab.wait_for_function("() => document.querySelectorAll('#levels tbody tr').length === 2")
    assert tab.inner_text("#levels tbody tr:nth-child(2) .nodes") == "12"
    tab.wait_for_function("() => document.querySelectorAll('#draws tbody tr').length === 4")
    assert "not for release" in tab.inner_text("#drawn")
    before = tab.inner_text("#draws")
    tab.click("button:has-text('Draw again')")
    tab.wait_for_function("(old) => document.querySelector('#draws').innerText !== old", arg=before)
    tab.reload()
    tab.wait_for_selector("html[data-ready=plan]", state="attached")
    assert tab.locator("#levels tbody tr").count() == 2


def test_what_a_budget_cannot_be_is_said_on_the_page(tabs: Tabs, serve: Any) -> None:
    tab = opened(tabs(forgive="400"), serve(), ready="plan")
    tab.fill("#epsilon", "65")
    tab.keyboard.press("Enter")
    tab.wait_for_selector("#trouble:not([hidden])")
    assert "at most 64" in tab.inner_text("#trouble")
    tab.fill("#epsilon", "3")
    tab.keyboard.press("Enter")
    tab.wait_for_selector("#trouble", state="hidden")


def test_the_plan_begins_with_the_estimates(tabs: Tabs, serve: Any, one: str) -> None:
    tab = opened(tabs(), serve(one))
    tab.click("#tabs a:has-text('Plan')")
    tab.wait_for_selector("html[data-ready=plan]", state="attached")
    assert "estimates from" in tab.inner_text("#origin")
    tab.go_back()
    tab.wait_for_selector("#counts:not([hidden])")


def test_a_replaced_or_broken_file_is_said_on_the_page(tabs: Tabs, serve: Any, one: str, tmp_path: Path) -> None:
    tab = opened(tabs(forgive="4"), serve(one))
    shutil.copy(written(table(["fresh"]), tmp_path / "fresh.parquet"), one)
    tab.locator(f"{ROWS} a").first.click()
    tab.wait_for_selector("#trouble:not([hidden])")
    assert "has changed since it was opened" in tab.inner_text("#trouble")
    tab.goto(tab.url.split("?")[0])
    tab.wait_for_selector("#trouble:not([hidden])")
    tab.click("button:has-text('Open it again')")
    tab.wait_for_selector("#trouble", state="hidden")
    tab.wait_for_function("() => document.querySelectorAll('#grid tbody tr').length === 1")
    assert labels(tab) == ["fresh"]
    Path(one).write_bytes(b"PAR1 broken")
    tab.locator(f"{ROWS} a").first.click()
    tab.wait_for_selector("#trouble:not([hidden])")
    tab.click("button:has-text('Open it again')")
    tab.wait_for_function("() => document.querySelector('#trouble').textContent.includes('not a whole Parquet file')")


def test_without_its_token_the_page_says_where_to_look(tabs: Tabs, serve: Any, one: str) -> None:
    served = serve(one)
    tab = tabs(forgive="401")
    tab.goto(served.url(token=""))
    tab.wait_for_selector("#trouble:not([hidden])")
    assert "the address shown in the terminal" in tab.inner_text("#trouble")
    assert tab.locator(ROWS).count() == 0


def test_a_ticket_opens_the_page_once(tabs: Tabs, serve: Any, one: str) -> None:
    served = serve(one)
    tab = tabs()
    tab.goto(served.url(token="once-" + "k" * 43))
    tab.wait_for_selector("html[data-ready=counts]", state="attached")
    other = tabs(forgive="401")
    other.goto(served.url(token="once-" + "k" * 43))
    other.wait_for_selector("#trouble:not([hidden])")


def test_a_server_that_ended_is_said_on_the_page(tabs: Tabs, serve: Any, one: str) -> None:
    served = serve(one)
    tab = opened(tabs(forgive="ERR_"), served)
    served.stop()
    tab.locator(f"{ROWS} a").first.click()
    tab.wait_for_selector("#trouble:not([hidden])")
    assert "is not responding" in tab.inner_text("#trouble")


@pytest.fixture
def another_site() -> Iterator[str]:
    class Page(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("content-type", "text/html")
            self.end_headers()
            self.wfile.write(b"<!doctype html><title>another</title><link rel=icon href=data:,>")

        def log_message(self, *_: Any) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Page)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/"
    server.shutdown()
    server.server_close()


def test_another_site_cannot_read_the_explorer(tabs: Tabs, serve: Any, one: str, another_site: str) -> None:
    served = serve(one)
    tab = opened(tabs(forgive=""), served)
    evil = tab.context.new_page()
    evil.goto(another_site)
    base = served.url("").split("#")[0]
    read = """async ([url, headers, mode]) => {
        try { const a = await fetch(url, { headers, mode, credentials: "include" }); return await a.text(); }
        catch { return null; }
    }"""
    for path in ("", "api/rows", "api/about"):
        for headers in ({}, {"Authorization": f"Bearer {TOKEN}"}):
            assert evil.evaluate(read, [base + path, headers, "cors"]) is None
        assert evil.evaluate(read, [base + path, {}, "no-cors"]) in (None, "")
    framed = """(url) => new Promise((done) => {
        const frame = document.createElement("iframe");
        frame.onload = () => { try { done(frame.contentDocument?.body?.innerText ?? null); } catch { done(null); } };
        frame.src = url; document.body.append(frame); setTimeout(() => done(null), 3000);
    })"""
    assert not evil.evaluate(framed, base)
    evil.close()


def test_everyone_can_use_it(tabs: Tabs, serve: Any, one: str) -> None:
    served, tab = serve(one), tabs()
    for path in ("?sort=order", "?node=3", "?find=day", "?tab=plan"):
        ready = "plan" if "plan" in path else "counts"
        check_usable(opened(tab, served, path, ready), path, (360, 800, 1600))


def test_the_keyboard_reaches_everything(tabs: Tabs, serve: Any, one: str) -> None:
    tab = opened(tabs(), serve(one), "?sort=estimate")
    seen = set()
    for _ in range(14):
        tab.keyboard.press("Tab")
        seen.add(tab.evaluate("document.activeElement.id || document.activeElement.innerText"))
    assert {"Skip to the content", "Counts", "Plan", "find", "depth", "order", "save", "Estimate"} <= seen
    tab.locator(f"{ROWS} a").first.focus()
    tab.keyboard.press("Enter")
    tab.wait_for_selector("#here:not([hidden])")
