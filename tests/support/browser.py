"""A real browser for tests: Debian's chromium by Playwright. Nothing may leave the machine, and nothing may go wrong.

A test takes the fixture `tabs`.
"""

import os
import shutil
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

Tabs = Callable[..., Any]
CHECKS = Path(__file__).parent / "accessibility.js"


@pytest.fixture(scope="session")
def chromium() -> Iterator[Any]:
    where = shutil.which("chromium")
    if not where or not find_spec("playwright"):
        if os.environ.get("CI"):
            pytest.fail("the tests need a browser: apt install chromium, pip install playwright")
        pytest.skip("no chromium, or no playwright")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=where, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def first_tab(chromium: Any) -> Iterator[Any]:
    """The tab that tests use one after the other: to make one takes as long as to open a page in it."""
    context = chromium.new_context()
    yield context.new_page()
    context.close()


@pytest.fixture
def tabs(chromium: Any, first_tab: Any, tmp_path: Path) -> Iterator[Tabs]:
    """Opens tabs: `tabs(width=900, scheme="light", **options)`. What goes wrong in any of them fails the test.

    What is in the words of `forgive` is meant to go wrong. The first one without options was used before,
    and is as new; every other shares nothing with it. The test's folder stays until the tabs are closed.
    """
    contexts: list[Any] = []
    wrong: list[str] = []
    watched: list[tuple[Any, dict[str, Any]]] = []

    def tab(width: int = 1200, scheme: str = "light", forgive: str | None = None, **options: Any) -> Any:
        size = {"width": width, "height": 900}
        if options or any(made is first_tab for made, _ in watched):
            contexts.append(chromium.new_context(viewport=size, color_scheme=scheme, **options))
            made = contexts[-1].new_page()
        else:
            made = first_tab
            made.set_viewport_size(size)
            made.emulate_media(media="null", color_scheme=scheme, reduced_motion="null")
            made.mouse.move(0, 0)
        watchers: dict[str, Any] = {
            "console": lambda m: wrong.append(m.text) if _bad(m, forgive) else None,
            "pageerror": lambda error: wrong.append(str(error)),
            "dialog": lambda dialog: (wrong.append(f"dialog: {dialog.message}"), dialog.dismiss()),
            "request": lambda r: None if _stays(r.url) else wrong.append(f"request to {r.url}"),
        }
        for event, watcher in watchers.items():
            made.on(event, watcher)
        watched.append((made, watchers))
        return made

    yield tab
    for context in contexts:
        context.close()
    for made, watchers in watched:
        if made is first_tab:
            made.evaluate("try { localStorage.clear() } catch {}")
            made.goto("about:blank")
            for event, watcher in watchers.items():
                made.remove_listener(event, watcher)
    assert not wrong, wrong


def _bad(message: Any, forgive: str | None) -> bool:
    return message.type in ("error", "warning") and not (forgive and forgive in message.text)


def _stays(url: str) -> bool:
    return url.startswith(("file:", "data:", "blob:", "about:", "http://127.0.0.1:"))


def ready(tab: Any, path: Path) -> Any:
    """The tab with a report in it whose table can be used."""
    tab.goto(path.as_uri())
    tab.wait_for_selector("html[data-ready=table]", state="attached")
    return tab


def violations(tab: Any) -> list[str]:
    """What keeps people from using the page: no name, too little contrast, headings out of order, and the like."""
    found: list[str] = tab.evaluate(CHECKS.read_text(encoding="utf-8"))
    return found


def check_usable(tab: Any, where: str = "", widths: tuple[int, ...] = (360, 900, 1600)) -> None:
    """The page is usable by everyone, in the light and in the dark, on a phone and on a desk; nothing hangs over."""
    for scheme in ("light", "dark"):
        tab.emulate_media(color_scheme=scheme)
        for width in widths:
            tab.set_viewport_size({"width": width, "height": 900})
            assert violations(tab) == [], (where, scheme, width)
            assert tab.evaluate("document.documentElement.scrollWidth") == width, (where, scheme, width)
