"""Tables with totals in both directions: cells, row totals and column totals are one least-squares answer."""

from decimal import Decimal
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import attributary as library
from attributary.denoising.joint import Joint
from attributary.errors import InputError
from attributary.read_estimates import read_estimates
from attributary.tables import read_table, write_table
from attributary.types import Floats
from support.command import attributary

STORES, MONTHS = ["A", "B", "C", "D"], ["2025-01", "2025-02", "2025-03"]
REGION = {"A": "N", "B": "N", "C": "S", "D": "S"}


def noisy_cube(rng: np.random.Generator, scale: float, stores: list[str] = STORES) -> tuple[dict[str, Any], Floats]:
    """The rows of a query with CUBE(store, month), and the true counts behind them."""
    truth = {cell: int(rng.poisson(rng.choice([20, 80, 400]))) for cell in product(stores, MONTHS)}
    paths = [*truth, *((s, None) for s in stores), *((None, m) for m in MONTHS), (None, None)]
    counts = [sum(n for (s, m), n in truth.items() if p[0] in (s, None) and p[1] in (m, None)) for p in paths]
    order = rng.permutation(len(paths))
    paths, exact = [paths[i] for i in order], np.array(counts, float)[order]
    return {"store": [p[0] for p in paths], "month": [p[1] for p in paths],
            "visits": np.round(exact + rng.laplace(0, scale, len(exact)), 2)}, exact  # fmt: skip


def dense(cube: dict[str, Any], variance: Floats) -> tuple[Floats, Floats]:
    """Least squares over all cells."""
    cells = [(s, m) for s, m in zip(cube["store"], cube["month"], strict=True) if s and m]
    rows = [[p in (s, None) and q in (m, None) for s, m in cells]
            for p, q in zip(cube["store"], cube["month"], strict=True)]  # fmt: skip
    x = np.array(rows, float)
    known = variance < np.inf
    inverse = np.linalg.inv(x[known].T @ (x[known] / variance[known, None]))
    at = inverse @ x[known].T @ (np.asarray(cube["visits"])[known] / variance[known])
    return x @ at, np.einsum("ij,jk,ik->i", x, inverse, x)


def pivot(cube: dict[str, Any]) -> dict[str, Any]:
    """The same as a pivot."""
    cell = dict(zip(zip(cube["store"], cube["month"], strict=True), cube["visits"].tolist(), strict=True))
    stores = [*dict.fromkeys(s for s in cube["store"] if s), None]
    columns = {m or "Total": [cell[s, m] for s in stores] for m in (*MONTHS, None)}
    return {"store": [s or "Total" for s in stores], **columns}


@pytest.mark.parametrize("ending", ["csv", "parquet", "xlsx"])
def test_a_cube_is_dense_least_squares(ending: str, tmp_path: Path) -> None:
    cube, _ = noisy_cube(np.random.default_rng(1), 3)
    variance = np.round(np.random.default_rng(2).uniform(4, 40, len(cube["month"])), 1)
    variance[cube["store"].index(None)] = np.inf
    source, out = str(tmp_path / f"in.{ending}"), str(tmp_path / f"out.{ending}")
    write_table(pa.table({**cube, "var": variance}), source)
    result = attributary("denoise", "--table", source, "--variance", "var", "-o", out)
    assert result.exit_code == 0, result.output
    assert "rows of totals: sums by month, denoised together with the cells" in result.stderr
    made = library.denoise_table({**cube, "var": variance}, variance="var").table.to_pydict()
    assert made["store"] == cube["store"] and made["month"] == cube["month"]
    for ours, slow in zip((made["estimate"], made["variance"]), dense(cube, variance), strict=True):
        np.testing.assert_allclose(ours, slow, rtol=1e-8, atol=1e-8)
    read = read_estimates(read_table(out), out)
    cells = [i for i, (s, m) in enumerate(zip(cube["store"], cube["month"], strict=True)) if s or not m]
    assert len(read) == len(cells) and read.beside == "month"
    assert sorted(read.estimate) == pytest.approx(sorted(np.array(made["estimate"])[cells]), abs=0.02)


@pytest.mark.parametrize("fill", [[], ["--fill"]])
def test_written_margins_are_the_sums_of_the_written_cells(fill: list[str], tmp_path: Path) -> None:
    cube, _ = noisy_cube(np.random.default_rng(3), 5, [f"s{i}" for i in range(40)])
    write_table(pa.table(cube), str(tmp_path / "cube.csv"))
    out = str(tmp_path / "out.csv")
    result = attributary("denoise", "--table", str(tmp_path / "cube.csv"), "--std", "7.07", "-q", *fill, "-o", out)
    assert result.exit_code == 0, result.output
    lines = [line.split(",") for line in Path(out).read_text().splitlines()]
    at = {name: lines[0].index(name) for name in ("store", "month", "estimate", "low", "high", "levels")}
    found = {(line[at["store"]], line[at["month"]]): Decimal(line[at["estimate"]]) for line in lines[1:]}
    for (store, month), value in found.items():
        parts = [v for (s, m), v in found.items() if s and m and store in (s, "") and month in (m, "")]
        assert sum(parts) == value, (store, month)
    assert all(float(x[at["low"]]) <= float(x[at["estimate"]]) <= float(x[at["high"]]) for x in lines[1:])
    assert {line[at["levels"]] for line in lines[1:]} == {"", "store", "store > month", "month"}
    exact = library.denoise_table(cube, std=7.07).table.to_pydict()
    near = dict(zip(zip(exact["store"], exact["month"], strict=True), exact["estimate"], strict=True))
    smallest = float(np.sqrt(min(exact["variance"])))
    assert max(abs(float(v) - near[s or None, m or None]) for (s, m), v in found.items()) < 0.1 * smallest


@pytest.mark.parametrize("ending", ["csv", "parquet", "xlsx"])
def test_a_pivot_with_both_margins_agrees_everywhere(ending: str, tmp_path: Path) -> None:
    cube, _ = noisy_cube(np.random.default_rng(4), 3)
    source, out = str(tmp_path / f"in.{ending}"), str(tmp_path / f"out.{ending}")
    wide = pivot(cube)
    write_table(pa.table(wide), source)
    result = attributary("denoise", "--table", source, "--noise", "laplace:scale=3", "-o", out)
    assert result.exit_code == 0, result.output
    frame = library.denoise_table(wide, noise="laplace:scale=3").frame()
    count, variance = dense(cube, np.full(len(cube["month"]), 18.0))
    slow = dict(zip(zip(cube["store"], cube["month"], strict=True), zip(count, variance, strict=True), strict=True))
    for m in (*MONTHS, None):
        for i, s in enumerate(wide["store"]):
            got = frame[m or "Total"][i], frame[f"{m or 'Total'}_variance"][i]
            assert got == pytest.approx(slow[s if s != "Total" else None, m], rel=1e-8)
    read = read_estimates(read_table(out), out)
    assert read.beside == "month" and read.fit is not None and abs(read.fit.z) < 4
    assert read.estimate[0] == pytest.approx(slow[None, None][0], abs=0.02) and read.level == 0.95
    page = str(tmp_path / "page.html")
    assert attributary("report", out, "-o", page).exit_code == 0
    assert "denoised together with totals by month" in Path(page).read_text()


def test_regions_have_totals_by_month_too() -> None:
    cube, _ = noisy_cube(np.random.default_rng(5), 3)
    regions = [REGION.get(s or "") for s in cube["store"]]
    table = {"region": regions, **cube}
    visits = dict(zip(zip(cube["store"], cube["month"], strict=True), cube["visits"], strict=True))
    for region, month in product("NS", (*MONTHS, None)):
        figure = sum(visits[s, month] for s in STORES if REGION[s] == region) + 2.0
        for name, value in (("region", region), ("store", None), ("month", month)):
            table[name] = [*table[name], value]
        table["visits"] = np.append(table["visits"], figure)
    made = library.denoise_table(table, noise="laplace:scale=3")
    assert "rows of totals: sums by month > region, denoised together with the cells" in made.recognised
    rows = made.table.to_pydict()
    paths = list(zip(rows["region"], rows["store"], rows["month"], strict=True))
    x = np.array([[all(a in (b, None) for a, b in zip(p, cell, strict=True)) for cell in paths if all(cell)]
                  for p in paths], float)  # fmt: skip
    inverse = np.linalg.inv(x.T @ x)
    np.testing.assert_allclose(rows["estimate"], x @ inverse @ x.T @ np.asarray(rows["visits"]), rtol=1e-8)
    np.testing.assert_allclose(rows["variance"], 18 * np.einsum("ij,jk,ik->i", x, inverse, x), rtol=1e-8)


def test_a_sum_has_its_exact_variance() -> None:
    cube, _ = noisy_cube(np.random.default_rng(6), 3)
    variance = np.random.default_rng(7).uniform(4, 40, len(cube["month"]))
    made = library.denoise_table({**cube, "var": variance}, variance="var").estimates["count"]
    assert isinstance(made, Joint)
    rows = [i for i, (s, m) in enumerate(zip(cube["store"], cube["month"], strict=True)) if s or not m]
    weights = np.random.default_rng(8).normal(size=len(made.tree))
    whole = np.zeros(len(cube["month"]))
    whole[rows] = weights[: len(rows)]
    cells = [(s, m) for s, m in zip(cube["store"], cube["month"], strict=True) if s and m]
    x = np.array([[p in (s, None) and q in (m, None) for s, m in cells]
                  for p, q in zip(cube["store"], cube["month"], strict=True)], float)  # fmt: skip
    covariance = x @ np.linalg.inv(x.T @ (x / variance[:, None])) @ x.T
    total = made.total(weights)
    assert total.variance == pytest.approx(whole @ covariance @ whole, rel=1e-8)
    assert total.variance < made.plain.total(weights).variance


def test_intervals_hold_the_true_counts() -> None:
    rng, held = np.random.default_rng(9), []
    for _ in range(40):
        cube, truth = noisy_cube(rng, 4, [f"s{i}" for i in range(10)])
        made = library.denoise_table(cube, noise="laplace:scale=4").table.to_pydict()
        held.append((np.array(made["low"]) <= truth) & (truth <= np.array(made["high"])))
    assert 0.93 <= np.mean(held) <= 0.97


@pytest.mark.parametrize("options", [["--estimator", "nonnegative"], ["--estimator", "posterior"], ["--whole"]])
def test_other_estimators_leave_the_second_margin_out(options: list[str], tmp_path: Path) -> None:
    cube, _ = noisy_cube(np.random.default_rng(10), 3)
    write_table(pa.table(pivot(cube)), str(tmp_path / "pivot.csv"))
    write_table(pa.table(cube), str(tmp_path / "cube.csv"))
    how = ["--noise", "laplace:scale=3", *options, "-o", str(tmp_path / "out.csv")]
    result = attributary("denoise", "--table", str(tmp_path / "pivot.csv"), *how)
    assert result.exit_code == 0 and "sums by month are left out, since estimator=" in result.stderr
    assert read_estimates(read_table(str(tmp_path / "out.csv")), "out.csv").beside == ""
    result = attributary("denoise", "--table", str(tmp_path / "cube.csv"), *how, code=2)
    assert result.exit_code == 2 and "denoises one hierarchy alone; or leave out these rows" in result.stderr


def test_noise_by_level_says_nothing_of_the_second_margin() -> None:
    cube, _ = noisy_cube(np.random.default_rng(11), 3)
    made = library.denoise_table(pivot(cube), variance=[18, 18, 18])
    assert any("sums by month are left out" in note and "stated by level" in note for note in made.recognised)
    with pytest.raises(InputError, match="the noise is stated by level; state one for all"):
        library.denoise_table(cube, variance=[18, 18, 18])


def test_what_cannot_be_is_refused() -> None:
    cube, truth = noisy_cube(np.random.default_rng(12), 3)
    wrong = truth + 7 * np.array([m == MONTHS[0] and not s for s, m in zip(cube["store"], cube["month"], strict=True)])
    with pytest.raises(InputError, match=r"must agree; .*2025-01.* add up to .*correct one of them"):
        library.denoise_table({**cube, "visits": wrong}, ["store", "month"], "visits", variance=0)
    strange = {name: [*values, new] for (name, values), new in zip(cube.items(), (None, "2025-09", 1.0), strict=True)}
    with pytest.raises(InputError, match="2025-09 is a total of no rows"):
        library.denoise_table(strange, ["store", "month"], "visits", noise="laplace:scale=3")
    days = [f"d{i}" for i in range(5001)]
    large = {"store": ["a"] * 5001 + [None] * 5001, "day": days * 2, "n": np.ones(10002)}
    with pytest.raises(
        InputError, match="5,001 sums .* up to 5,000 are solved; or leave out the rows of totals by day"
    ):
        library.denoise_table(large, ["store", "day"], "n", std=1)
