"""Raw tables: what they are, whether they add up, how noisy they are, which figures are mangled; nothing is changed."""

import csv
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from attributary.cli import main
from attributary.errors import InputError
from attributary.pipeline.check_table import check_table
from attributary.report import page, read
from support.browser import Tabs, check_usable, ready
from support.effort import first_of


def sales(seed: int = 5, scale: float = 5.0) -> list[list[Any]]:
    """Region, store, week and orders; the stores of a region and their weeks add up to it, but for noise."""
    rng = np.random.default_rng(seed)
    rows: list[list[Any]] = []
    for region in ("North", "South", "East"):
        stores = {f"{region[0]}{i}": rng.poisson(60, 8) for i in range(int(rng.integers(4, 9)))}
        rows.append([region, "", "", sum(weeks.sum() for weeks in stores.values())])
        for store, weeks in stores.items():
            rows.append([region, store, "", weeks.sum()])
            rows += [[region, store, f"w{i}", week] for i, week in enumerate(weeks)]
    return [[*row[:3], round(row[3] + (rng.laplace(0, scale) if scale else 0), 1)] for row in rows]


def write(path: Path, rows: list[list[Any]]) -> str:
    with open(path, "w", newline="") as file:
        csv.writer(file).writerows([["region", "store", "week", "orders"], *rows])
    return str(path)


def frame(rows: list[list[Any]]) -> dict[str, list[Any]]:
    names = ("region", "store", "week", "orders")
    return {name: [row[i] or None for row in rows] for i, name in enumerate(names)}


def test_sums_are_checked_level_by_level() -> None:
    rows = sales()
    check = check_table(frame(rows), noise="laplace:scale=5")
    assert [each.level for each in check.sums] == ["region", "store"] and check.form.value == "orders"
    by_path = {tuple(row[:3]): row[3] for row in rows}
    misses = {}
    for path, figure in by_path.items():
        if path[1] and not path[2]:
            misses[path[:2]] = figure - sum(v for p, v in by_path.items() if p[:2] == path[:2] and p[2])
    stores = check.sums[1]
    assert stores.sums == len(misses) and stores.exact == 0
    assert stores.typical == pytest.approx(np.median(np.abs(list(misses.values()))))
    worst = max(misses, key=lambda key: abs(misses[key]))
    assert stores.largest == pytest.approx(misses[worst]) and stores.where == f"region={worst[0]}, store={worst[1]}"
    assert check.plausibility is not None and check.plausibility.z is not None and abs(check.plausibility.z) < 3
    assert check.mangled == (0, []) and not check.estimated and check.estimate is not None


def test_a_mangled_figure_is_named_whether_noise_is_stated_or_not() -> None:
    rows = sales()
    mangled = next(i for i, row in enumerate(rows) if row[2] == "w3" and row[1] == "S1")
    rows[mangled][3] *= 10
    for noise in (None, "laplace:scale=5"):
        check = check_table(frame(rows), noise=noise)
        assert "region=South, store=S1" in check.mangled[1][0].name


def test_without_noise_in_sight_it_says_why() -> None:
    exact = check_table(frame(sales(scale=0)))
    assert exact.estimate is None and "add up exactly" in exact.noise
    assert all(each.exact == each.sums for each in exact.sums)
    lone = check_table({"region": ["a", "b"], "orders": [4.0, 5.0]}, ["region"], "orders")
    assert lone.sums == () and lone.estimate is None and "no figure is measured twice" in lone.noise
    with pytest.raises(InputError, match="no figure is measured twice"):
        check_table({"region": ["a", "b"], "orders": [4.0, 5.0]}, ["region"], "orders", noise="estimated")
    with pytest.raises(InputError, match="has no column 'nope'"):
        check_table(frame(sales()), ["nope"])


@pytest.mark.parametrize(
    ("scale", "options", "words"),
    first_of(
        [
            (
                5.0,
                [],
                [
                    "does not add up",
                    "as estimated",
                    "No figure is off by more than noise explains",
                    "would change the errors",
                ],
            ),
            (5.0, ["--noise", "laplace:scale=5"], ["Noise: as stated."]),
            (5.0, ["--std", "2", "--noise", "normal"], ["Noise: higher than stated."]),
            (5.0, ["--noise", "normal"], ["as estimated"]),
            (0.0, [], ["It adds up", "not stated, and cannot be estimated"]),
        ]
    ),
)
def test_the_command_writes_the_page_alone(scale: float, options: list[str], words: list[str], tmp_path: Path) -> None:
    path, before = write(tmp_path / "sales.csv", sales(scale=scale)), set(tmp_path.iterdir())
    data = Path(path).read_bytes()
    done = CliRunner().invoke(main, ["report", path, "-o", str(tmp_path / "r.html"), *options])
    assert done.exit_code == 0, done.output
    assert all(word in done.output for word in words), done.output
    assert set(tmp_path.iterdir()) - before == {tmp_path / "r.html"} and Path(path).read_bytes() == data
    html = (tmp_path / "r.html").read_text().partition("<body>")[2].partition("<script")[0]
    assert "Check of sales.csv" in html and "Sums against their rows" in html and "conversions" not in html


def test_noisy_conversions_are_told_from_true_counts_by_their_noise(tmp_path: Path) -> None:
    path = write(tmp_path / "c.csv", sales())
    text = Path(path).read_text().replace("orders", "conversions")
    Path(path).write_text(text)
    refused = CliRunner().invoke(main, ["report", path, "-o", str(tmp_path / "r.html")])
    assert refused.exit_code == 2 and "state their noise with --noise" in refused.output
    assert "Check of c.csv" in page(read([path], noise="estimated")).html


def test_a_check_is_usable_on_a_phone_and_on_a_desk(tmp_path: Path, tabs: Tabs) -> None:
    rows = sales()
    rows[3][3] *= 30
    made = page(read([write(tmp_path / "a very long name of a table of sales.csv", rows)]))
    (tmp_path / "r.html").write_text(made.html)
    tab = ready(tabs(), tmp_path / "r.html")
    assert tab.locator("#table .facts > div").count() >= 5 and tab.locator("#table .warn").count() == 1
    check_usable(tab)
