"""Missing rows: what a table lacks is not measured where labels or sums tell it; complete tables stay as they are."""

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from attributary import Measurements, denoise, periods
from attributary.errors import InputError
from attributary.estimates import Estimates
from attributary.pipeline.check_table import check_table
from attributary.pipeline.denoise_table import denoise_table
from attributary.read_estimates import read_estimates
from attributary.tree.match import REST
from attributary.types import Floats

LEVELS = ["city", "month"]
DRAWS = 60
Rows = list[tuple[Any, ...]]


def table(rows: Rows, levels: list[str] = LEVELS) -> Any:
    columns = list(zip(*rows, strict=True))
    return pa.table({name: list(columns[i]) for i, name in enumerate([*levels, "visits"])})


def dropped(rng: np.random.Generator, by_noisy: bool, least: float = 20) -> tuple[Any, Floats]:
    """12 cities of 10 months, rows below 20 left out, noise of standard deviation 6; and the true counts."""
    rows, true = Rows(), list[float]()
    for city in range(12):
        count = rng.poisson(rng.gamma(0.8, 60, 10))
        noisy = count + rng.normal(0, 6, 10)
        kept = (noisy if by_noisy else count) >= least
        rows += [(f"city {city}", None, count.sum() + rng.normal(0, 6))]
        rows += [(f"city {city}", f"month {j}", noisy[j]) for j in np.flatnonzero(kept)]
        true += [count.sum(), *count[kept]]
    return table(rows), np.array(true, float)


def without_may(rng: np.random.Generator, cities: int = 12) -> Any:
    rows = Rows()
    for city in range(cities):
        name, count = "Hamburg" if city == 3 else f"city {city}", rng.poisson(300, 12)
        rows += [(name, None, float(count.sum() + rng.normal(0, 6)))]
        rows += [(name, f"M{j:02}", count[j] + rng.normal(0, 6)) for j in range(12) if (city, j) != (3, 4)]
    return table(rows)


@pytest.mark.parametrize("missing", [None, "unmeasured"])
@pytest.mark.parametrize("by_noisy", [True, False])
def test_intervals_hold_where_small_rows_were_dropped(by_noisy: bool, missing: str | None) -> None:
    rng, leaves, parents = np.random.default_rng(1), list[float](), list[float]()
    for _ in range(DRAWS):
        rows, true = dropped(rng, by_noisy)
        made = denoise_table(rows, LEVELS, "visits", noise="normal:std=6", missing=missing).table
        assert made.num_rows == rows.num_rows  # no row is invented
        held = (made["low"].to_numpy() <= true) & (true <= made["high"].to_numpy())
        parent = rows["month"].is_null().to_numpy()
        leaves, parents = [*leaves, held[~parent].mean()], [*parents, held[parent].mean()]
    assert 0.93 < np.mean(leaves) < 0.97
    assert 0.93 < np.mean(parents) < 0.97


def test_missing_rows_are_0_if_said_so() -> None:
    rows, _ = dropped(np.random.default_rng(1), True)
    zero = denoise_table(rows, LEVELS, "visits", noise="normal:std=6", missing="zero")
    sums = zero.table.group_by("city").aggregate([("estimate", "sum"), ("estimate", "max")])
    np.testing.assert_allclose(sums["estimate_sum"], 2 * sums["estimate_max"].to_numpy())  # rows add up to their city
    assert zero.recognised == ()
    with pytest.raises(InputError, match="missing rows are unmeasured or zero; got 'none'"):
        denoise_table(rows, LEVELS, "visits", noise="normal:std=6", missing="none")


def test_complete_tables_stay_as_they_are() -> None:
    """Neither a grid is taken for incomplete, nor are ragged levels (but for one table in 10,000)."""
    rng, alarms = np.random.default_rng(2), 0
    for draw in range(200):
        rows, number = Rows(), 0
        stated = "laplace:scale=4.242640687" if draw % 2 else "normal:std=6"
        noise = (lambda: rng.laplace(0, 6 / 2**0.5)) if draw % 2 else (lambda: rng.normal(0, 6))
        for region in range(int(rng.integers(1, 15))):
            counts = rng.poisson(40, (int(rng.integers(1, 9)), 4))
            rows.append((f"r{region}", None, None, counts.sum() + noise()))
            for weeks in counts:
                rows.append((f"r{region}", f"s{number}", None, weeks.sum() + noise()))
                rows += [(f"r{region}", f"s{number}", f"w{j}", weeks[j] + noise()) for j in range(4)]
                number += 1
        levels = ["region", "store", "week"]
        made = denoise_table(
            table(rows, levels),
            levels,
            "visits",
            noise=stated,
        )
        as_before = denoise_table(
            table(rows, levels),
            levels,
            "visits",
            noise=stated,
            missing="zero",
        )
        alarms += bool(made.recognised)
        assert not any("week" in note for note in made.recognised)
        if not made.recognised:
            assert made.table.equals(as_before.table)
    assert alarms == 0


def test_a_missing_month_is_said_and_written_with_fill() -> None:
    rows = without_may(np.random.default_rng(3))
    made = denoise_table(rows, noise="normal:std=6", fill=True)
    assert (
        "Hamburg has 11 of 12 months: what is missing is not measured (`missing=zero` counts it as 0)"
        in made.recognised
    )
    (last,) = made.table.slice(rows.num_rows).to_pylist()
    assert (last["city"], last["month"], last["visits"], last["noise_variance"]) == ("Hamburg", "M04", None, np.inf)
    assert 0 < last["low"] < 300 < last["high"] < 400
    assert check_table(rows, noise="normal:std=6").notes[-1].startswith("Hamburg has 11 of 12 months")


def test_what_is_missing_is_said_once() -> None:
    rows = {"r": ["N"] * 3, "s": [None, "a", "b"], "v": ["100", "40", ""]}
    made = denoise_table(rows, ["r", "s"], "v", variance=4, empty="zero")
    (words,) = [note for note in made.recognised if "rows seem to be missing" in note]
    assert words.count("what is missing is not measured") == 1


def quarters(rng: np.random.Generator, countries: int, total: bool, without: str = "Feb") -> Rows:
    """Countries of quarters of months, of which the first lacks one."""
    months, rows = ["Jan", "Feb", "Mar", *(f"M{j}" for j in range(4, 13))], Rows()
    for i in range(countries):
        count = rng.poisson(200, 12)
        rows += [(f"C{i:02}", None, None, count.sum() + rng.normal(0, 3))] if total else []
        for q in range(4):
            three = slice(3 * q, 3 * q + 3)
            rows += [(f"C{i:02}", f"Q{q + 1}", None, count[three].sum() + rng.normal(0, 3))] if total else []
            each = zip(months[three], count[three], strict=True)
            rows += [(f"C{i:02}", f"Q{q + 1}", m, x + rng.normal(0, 3)) for m, x in each if (i, m) != (0, without)]
    return rows


@pytest.mark.parametrize("total", [True, False])
def test_a_missing_month_of_a_quarter_is_seen(total: bool) -> None:
    levels, rows = ["country", "quarter", "month"], quarters(np.random.default_rng(4), 20, total)
    made = denoise_table(table(rows, levels), levels, "visits", std=3, noise="normal", fill=True)
    assert any(note.startswith("C00 › Q1 has 2 of 3 months: ") for note in made.recognised)
    added = [row for row in made.table.slice(len(rows)).to_pylist() if row["month"]]
    assert [(row["country"], row["quarter"], row["month"]) for row in added] == [("C00", "Q1", "Feb")]
    assert added[0]["low"] >= 0


@pytest.mark.parametrize("countries", [2, 5])
def test_a_family_far_below_its_total_is_named(countries: int) -> None:
    levels, rows = ["country", "quarter", "month"], quarters(np.random.default_rng(4), countries, True)
    made = denoise_table(table(rows, levels), levels, "visits", std=3, noise="normal")
    (note,) = made.recognised
    assert "of those of quarter in C00 › Q1, where rows seem to be missing, which noise does not explain" in note
    assert np.nanmax(np.abs(made.table["correction"].to_numpy())) < 6


def test_a_month_that_all_cities_lack_is_not_spread_over_the_others() -> None:
    rng, rows = np.random.default_rng(5), Rows()
    for city in range(11):
        count = rng.poisson(200, 12)
        rows += [(f"c{city}", None, count.sum() + rng.normal(0, 3))]
        rows += [(f"c{city}", f"M{j}", count[j] + rng.normal(0, 3)) for j in range(11)]
    made = denoise_table(table(rows), std=3, noise="normal")
    assert any("rows may be missing (11 families)" in note for note in made.recognised)
    np.testing.assert_allclose(made.table["estimate"].to_numpy(), made.table["visits"].to_numpy())


@pytest.mark.parametrize("at", [5, 9])  # a month, and a quarter
def test_a_figure_too_large_or_too_small_for_its_rows_is_no_missing_row(at: int) -> None:
    levels, rows = ["country", "quarter", "month"], quarters(np.random.default_rng(6), 6, True, "none")
    wrong = rows[at][3] * (10 if rows[at][2] else 0.1)
    rows[at] = (*rows[at][:3], wrong)
    made = denoise_table(table(rows, levels), levels, "visits", std=3, noise="normal")
    assert made.recognised == ()
    assert np.abs(made.table["correction"].to_numpy()).max() > 20


def test_what_is_missing_is_bounded_by_0_unless_its_estimate_is_below() -> None:
    """Estimates add up, so that one of what is missing may be below 0, as any; its interval holds it."""
    rows = [(f"c{i}", m, 100.0) for i in range(12) for m in "abc" if (i, m) != (0, "b")]
    rows += [("c0", None, 195.0), *((f"c{i}", None, 300.0) for i in range(1, 12))]
    made = denoise_table(table(rows), LEVELS, "visits", std=6, noise="normal", fill=True).table.to_pylist()
    (last,) = [row for row in made if row["city"] == "c0" and row["month"] == "b"]
    family = [row["estimate"] for row in made if row["city"] == "c0" and row["month"] is not None]
    assert last["low"] == last["estimate"] < 0 < last["high"]
    assert sum(family) == pytest.approx(next(r["estimate"] for r in made if r["city"] == "c0" and r["month"] is None))


@pytest.mark.filterwarnings("error")
def test_the_largest_noise_gives_no_warning() -> None:
    rows = [(c, m, 10.0) for c in "ab" for m in (None, "x", "y")]
    assert np.isfinite(denoise_table(table(rows), std=1e149).table["estimate"].to_numpy()).all()


def test_levels_of_other_languages_get_no_english_plural() -> None:
    rows = without_may(np.random.default_rng(3))
    rows = rows.rename_columns(["Monat" if name == "month" else name for name in rows.column_names])
    said = denoise_table(rows, noise="normal:std=6").recognised
    assert any(note.startswith("Hamburg has 11 of 12 labels of Monat: ") for note in said)


@pytest.mark.parametrize("cities", [4, 12])
def test_a_change_test_does_not_take_a_missing_month_for_a_fall(cities: int) -> None:
    rows = without_may(np.random.default_rng(4), cities)
    est = denoise(Measurements.from_table(rows, noise="normal:std=6"))
    written = denoise_table(rows, noise="normal:std=6").table
    for each in (Estimates.of(est), read_estimates(written, "t")):
        for pair in ("M03,M04", "M04,M05"):
            (step,) = periods(each, by=f"month={pair}").steps
            assert "Hamburg" in step.table()["city"].to_pylist()
            assert not step.changed.any()


def test_estimates_that_lack_rows_are_read_as_they_were_made() -> None:
    rows = without_may(np.random.default_rng(5))
    read = read_estimates(denoise_table(rows, noise="normal:std=6").table, "t")
    filled = read_estimates(denoise_table(rows, noise="normal:std=6", fill=True).table, "t")
    assert read.plain is not None and filled.plain is not None
    np.testing.assert_allclose(np.sort(read.plain.variance), np.sort(filled.plain.variance))
    np.testing.assert_allclose(np.sort(read.estimate), np.sort(filled.estimate))
    np.testing.assert_allclose(np.sort(read.variance), np.sort(filled.variance))


def test_the_rest_of_ragged_families_is_one_row() -> None:
    rng, rows = np.random.default_rng(6), Rows()
    for city in range(8):
        shops = rng.poisson(60, 6)
        rows.append((city, None, float(shops.sum() + rng.normal(0, 4))))
        rows += [(city, 10 * city + j, shops[j] + rng.normal(0, 4)) for j in range(1, 6)]  # the first shop is missing
    levels = ["city", "shop"]
    made = denoise_table(table(rows, levels), levels, "visits", noise="normal:std=4", fill=True)
    assert "figures of shop add up to 82% of those of city" in made.recognised[0]
    added = made.table.slice(len(rows)).to_pylist()
    assert [row["shop"] for row in added] == [REST] * 8
    assert all(30 < row["estimate"] < 95 and 0 <= row["low"] for row in added)


def test_several_columns_lack_rows_together() -> None:
    rng = np.random.default_rng(7)
    rows, _ = dropped(rng, True)
    two = rows.append_column("orders", pa.array(rng.normal(0, 1, rows.num_rows)))
    measured = Measurements.from_table(two, LEVELS, ["visits", "orders"], std=6)
    assert measured.noisy.shape == (len(measured.tree or ()), 2)
    low, high = denoise(measured).interval()
    assert np.isfinite(low).all() and np.isfinite(high).all()


def test_sums_over_two_unmeasured_months_are_bounded() -> None:
    """Each half-year lacks a month; the country bounds them from above, if it was measured."""
    rows = [("DE", None, None, 1200.0)] + [(c, h, m, 100.0) for c in ("DE", "FR") for h in "12" for m in "abcdef"]
    rows = [(*row[:3], None if row[2] == "c" and row[0] == "DE" else row[3]) for row in rows]
    levels = ["country", "half", "month"]
    est = denoise(Measurements.from_table(table(rows, levels), levels, "visits", std=6, fill=True, empty="unmeasured"))
    names = {tuple(est.tree.path(v)): v for v in range(len(est.tree))}
    low, high = est.interval()
    for node in (("DE", "1"), ("DE", "2")):
        assert 450 < low[names[node]] <= 500 and 700 <= high[names[node]] < 760
    assert low[names["DE", "1", "c"]] == 0 and 200 < high[names["DE", "1", "c"]] < 280
    alone = denoise(Measurements.from_table(table(rows[1:], levels), levels, "visits", std=6, empty="unmeasured"))
    at = next(v for v in range(len(alone.tree)) if alone.tree.path(v) == ["DE"])
    assert 940 < alone.interval().low[at] < 1000 and alone.interval().high[at] == np.inf
    assert alone.total([at]).interval()[0] == 0
    profits = table([*rows[1:-1], (*rows[-1][:3], -100.0)], levels)  # which may be negative: no bound at 0
    signed = denoise(Measurements.from_table(profits, levels, "visits", std=6, empty="unmeasured"))
    assert signed.interval().low[at] == -np.inf


@given(st.data())
def test_it_is_dense_least_squares_with_an_unmeasured_leaf(data: st.DataObject) -> None:
    """Of generated families, each with a measured parent, some of them with a leaf that nobody measured."""
    sizes = data.draw(st.lists(st.integers(1, 4), min_size=1, max_size=4))
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    rows: Rows = [(None, None, rng.normal(500, 50))]
    for i, size in enumerate(sizes):
        rows += [(f"c{i}", None, rng.normal(100, 30))] + [(f"c{i}", f"s{i}{j}", rng.normal(30, 9)) for j in range(size)]
    var = rng.uniform(1, 40, len(rows))
    given_rows = table(rows).append_column("var", pa.array(var))
    est = denoise(Measurements.from_table(given_rows, LEVELS, "visits", variance="var", missing="unmeasured"))
    leaves = np.flatnonzero(est.tree.is_leaf)
    design = np.zeros((len(est.tree), len(leaves)))
    for column, leaf in enumerate(leaves):
        node = int(leaf)
        while node >= 0:
            design[node, column], node = 1, int(est.tree.parent[node])
    assert len(leaves) == sum(sizes) + len(sizes) + 1  # the rest of every family, and of the total
    weight = 1 / np.sqrt(var)
    dense, *_ = np.linalg.lstsq(weight[:, None] * design[: len(rows)], weight * [row[2] for row in rows], rcond=None)
    determined = est.variance < np.inf
    np.testing.assert_allclose(est.count[determined], (design @ dense)[determined], atol=1e-6)
