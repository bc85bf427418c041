"""Pictures of the report and the explorer of a generated shop, taken in a real browser: part of `make pictures`."""

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from click.testing import CliRunner

from attributary.cli import main as attributary

FOLDER = Path(__file__).parent.parent / "docs" / "pictures"
OPENED = ("outlet", "Paris")
MEASURES = """
[[measure]]
name = "count"

[[measure]]
name = "revenue"
column = "value"
clip = "auto"
unit = "EUR"
"""


def main() -> None:
    from playwright.sync_api import sync_playwright

    FOLDER.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        page = made(Path(folder))
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        for name, width, scheme, height in (("report", 1200, "light", 800), ("report-phone", 390, "dark", 844)):
            tab = opened(browser, page, width, scheme, height)
            if name == "report":
                save(tab, name)
                save(tab, "report-tree", "#tree")
                save(tab, "report-map", "#where")
                save(tab, "report-budget", "#budget")
            else:
                tab.evaluate("document.getElementById('grid').scrollIntoView({ behavior: 'instant' })")
                save(tab, name)
        measures(browser, Path(folder))
        explored(browser, Path(folder) / "run")
        browser.close()


def measures(browser: Any, folder: Path) -> None:
    """The figures of several measures, and the switch between them."""
    text = (folder / "spec.toml").read_text().replace("epsilon = 1", "epsilon = 8")
    (folder / "values.toml").write_text(f'conversions_per_impression = "auto"\n{text}{MEASURES}')
    run = ["run", f"{folder}/values.toml", "--prior-until", "2026-02-02", "-o", f"{folder}/values"]
    result = CliRunner().invoke(attributary, run)
    if result.exit_code:
        sys.exit(result.output)
    tab = opened(browser, folder / "values" / "report.html", 1200, "light", 860)
    tab.locator("input[name=measure]").nth(1).check(force=True)
    tab.evaluate(
        "document.activeElement.blur(); document.getElementById('counts').scrollIntoView({ behavior: 'instant' })"
    )
    tab.evaluate("scrollBy({ top: 32, behavior: 'instant' })")
    save(tab, "report-measures")


def explored(browser: Any, run: Path) -> None:
    """Both tabs of the explorer."""
    command = [sys.executable, "-m", "attributary.cli", "explore", run.name, "--no-browser"]
    how = {"cwd": run.parent, "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    with subprocess.Popen(command, **how) as server:
        assert server.stdout is not None
        address = next(line.strip() for line in server.stdout if line.startswith("http"))
        tab = browser.new_page(viewport={"width": 1200, "height": 800})
        tab.goto(address)
        tab.get_by_role("link", name="outlet").first.click()
        tab.wait_for_selector("#here:not([hidden])")
        tab.wait_for_selector("#counts:not([aria-busy])")
        save(tab, "explore")
        tab.get_by_role("link", name="Plan").first.click()
        tab.wait_for_selector("html[data-ready=plan]", state="attached")
        tab.wait_for_selector("#draws tbody tr")
        save(tab, "explore-plan")
        server.terminate()


def made(folder: Path) -> Path:
    """The page of a run on a generated shop, with noise as users get it: a seeded page says that it is not private."""
    run = CliRunner().invoke
    commands = (
        ["generate", "shop", "--rows", "200000", "-o", f"{folder}/"],
        ["run", f"{folder}/spec.toml", "--prior-until", "2026-02-02", "-o", f"{folder}/run"],
    )
    for command in commands:
        result = run(attributary, command)
        if result.exit_code:
            sys.exit(result.output)
    return folder / "run" / "report.html"


def opened(browser: Any, page: Path, width: int, scheme: str, height: int) -> Any:
    """A tab with the page, some rows of its tree open, and its map drawn."""
    tab = browser.new_page(viewport={"width": width, "height": height}, color_scheme=scheme)
    tab.goto(page.as_uri())
    tab.wait_for_selector("html[data-ready=table]", state="attached")
    for label in OPENED:
        tab.locator("#grid tbody tr", has_text=label).first.click()
    tab.wait_for_selector("#icicle button", state="attached")
    tab.evaluate("document.activeElement.blur(); scrollTo({ top: 0, behavior: 'instant' })")
    tab.mouse.move(0, 0)
    return tab


def save(tab: Any, name: str, part: str | None = None) -> None:
    path = FOLDER / f"{name}.png"
    if part is None:
        tab.screenshot(path=path)
    else:
        tab.locator(part).screenshot(path=path)
    print(path)


if __name__ == "__main__":
    main()
