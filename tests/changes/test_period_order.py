"""Periods are in the order of time, whatever form their names have, and the order is said."""

from datetime import date
from itertools import permutations
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from attributary import Tree, compare, denoise, periods
from attributary.changes.period_files import in_order, period_files
from attributary.errors import InputError
from attributary.report import series_page
from attributary.tables import write_table
from support.command import attributary
from support.weeks import rates, tree_of, week, write_weeks

FORMS = [
    ["Q4 2025", "Q1 2026", "Q2 2026"],
    ["2025-Q4", "2026-Q1"],
    ["Q4/25", "Q1/26"],
    ["4Q25", "1Q26"],
    ["29.12.2025", "05.01.2026", "12.01.2026"],
    ["29.12.25", "5.1.26"],
    ["12/29/2025", "1/5/2026", "1/19/2026"],
    ["29/12/2025", "5/1/2026"],
    ["20251229", "20260105"],
    ["29122025", "05012026"],
    ["2025-12-29T00:00", "2026-01-05T00:00"],
    ["29.12.2025 10:00", "05.01.2026 09:00"],
    ["2025-W52", "2026-W05"],
    ["Week 52, 2025", "Week 1, 2026"],
    ["KW 51", "KW 52", "KW 1"],
    ["W9", "W10", "W11"],
    ["9", "10"],
    ["2026.9", "2026.10"],
    ["Nov 2025", "Dec 2025", "Jan 2026"],
    ["Jan", "Feb", "Mar", "Apr"],
    ["November", "December", "January"],
    ["Januar", "Februar", "März", "April", "Mai", "Juni"],
    ["décembre 2025", "janvier 2026", "février 2026"],
    ["30. Dezember 2025", "5. Januar 2026"],
    ["30th Dec 2025", "1st Jan 2026"],
    ["12/2025", "01/2026"],
    ["2024", "2025"],
    ["Phase 2", "Phase 10"],
]


@pytest.mark.parametrize("names", FORMS, ids=" ".join)
def test_periods_are_in_the_order_of_time_however_they_come(names: list[str]) -> None:
    without_year = not any(sign.isdecimal() for sign in names[0]) or names[0] == "KW 51"  # may come in another turn
    for some in [names, sorted(names)] if without_year else permutations(names):
        order = in_order(some, "assumed", arranged=some == names or not without_year)
        assert order.names == names and order.known


WITHOUT_YEAR = [
    ["29.12.", "5.1."],
    ["28.12.", "04.01.", "11.01."],
    ["28/12", "04/01", "11/01"],
    ["31 Dec", "1 Jan", "2 Jan"],
    ["Dec 31", "Jan 1"],
    ["29 Dec", "5 Jan"],
    ["Dec 29 - Jan 4", "Jan 5 - Jan 11"],
    ["29.12.-04.01.", "05.01.-11.01.", "12.01.-18.01."],
    ["29.12.–04.01.2026", "05.01.–11.01.2026"],
    ["12/29-1/4", "1/5-1/11"],
    ["22:00", "23:00", "00:00", "01:00"],
    ["week -2", "week -1", "week 0"],
    ["W51-52", "W1-2", "W3-4"],
    ["H1", "H2"],
    ["H2", "H1"],
    ["Q1", "Q4"],
    ["Q4", "Q1"],
    ["Q4", "Q2", "Q3"],
    ["Jan", "Dec"],
    ["Dec", "Jan"],
    ["KW 1", "KW 51", "KW 52"],
]


@pytest.mark.parametrize("names", WITHOUT_YEAR, ids=" ".join)
def test_what_has_no_year_stays_in_the_order_of_the_file_if_that_is_one_turn_of_the_year(names: list[str]) -> None:
    assert in_order(names, "assumed").names == names


@pytest.mark.parametrize(
    ("come", "names"),
    [
        ("Mar Feb Jan", "Jan Feb Mar"),
        ("W2 W1 W52 W51", "W51 W52 W1 W2"),
        ("11.01. 04.01. 28.12.", "28.12. 04.01. 11.01."),
        ("Q2 Q1", "Q1 Q2"),
        ("December January November", "November December January"),
    ],
)
def test_what_comes_newest_first_or_shuffled_is_sorted_with_the_turn_at_the_largest_gap(come: str, names: str) -> None:
    order = in_order(come.split(), "assumed")
    assert order.names == names.split() and order.by.endswith(", not as they come") and order.dated


def test_dates_that_can_be_read_in_two_ways_are_called_dates() -> None:
    order = in_order(["4/3/2026", "3/4/2026"], "as in the table: the labels tell no dates")
    assert order.by == "as in the table: their dates can be read in two ways"


@given(st.lists(st.dates(date(1950, 1, 1), date(2199, 12, 31)), min_size=2, max_size=12, unique=True))
def test_any_dates_are_in_order_or_as_they_come(days: list[date]) -> None:
    for form in ("%Y-%m-%d", "%d.%m.%Y", "%d %B %Y", "%b %d, %Y", "%Y%m%d", "%d%m%Y"):
        names = [day.strftime(form) for day in days]
        assert in_order(names, "").names == [day.strftime(form) for day in sorted(days)]
    slashes = [day.strftime("%m/%d/%Y") for day in days]
    assert in_order(slashes, "").names in (slashes, [day.strftime("%m/%d/%Y") for day in sorted(days)])


@pytest.mark.parametrize("names", [["1/12/2026", "2/9/2026"], ["last", "this"], ["W1", "second"], ["a+1", "a-1"]])
def test_what_tells_no_order_stays_as_it_comes(names: list[str]) -> None:
    for some in (names, names[::-1]):
        order = in_order(some, "assumed")
        assert order.names == some and not order.known and order.by.startswith("assumed")


@pytest.mark.parametrize(
    "names", [["W1", "W01"], ["Jan 2026", "January 2026"], ["2026.9", "2026-09"], ["2026-01-05", "05.01.2026"]]
)
def test_one_period_under_two_names_is_refused(names: list[str]) -> None:
    with pytest.raises(InputError, match="are the same one: leave out one"):
        in_order(names, "")


def test_labels_of_a_table_are_in_the_order_of_time_and_a_choice_of_them_too() -> None:
    quarters = ["Q1 2026", "Q2 2026", "Q4 2025"]
    rows = [("a", q) for q in quarters] + [("a", None)]
    tree = Tree.from_paths({"store": [r[0] for r in rows], "quarter": [r[1] for r in rows]}, ["store", "quarter"])
    est = denoise(tree, [50.0, 80.0, 30.0, 160.0], 1.0)
    series = periods(est, by="quarter")
    assert [p.name for p in series.periods] == ["Q4 2025", "Q1 2026", "Q2 2026"] and series.order == "by date"
    assert "Conversions grew from Q1 2026 to Q2 2026" in series_page(series).lead[0]
    assert "Periods, oldest first: Q4 2025, Q1 2026 and Q2 2026 (by date)." in series_page(series).lead
    chosen = periods(est, by="quarter=Q2 2026,Q4 2025..Q1 2026")
    assert [p.name for p in chosen.periods] == ["Q4 2025..Q1 2026", "Q2 2026"]


def test_files_are_in_the_order_of_their_names_or_of_a_column_or_it_is_said_first(tmp_path: Path) -> None:
    import pyarrow as pa

    tree, rng = tree_of(["a", "b"]), np.random.default_rng(1)
    first, second = (week(tree, rates(tree) * by, rng) for by in (1, 2))
    named = write_weeks(tmp_path / "named", {"Q1": first, "Q2": second})
    assert "grew from Q1 to Q2" in attributary("report", named / "Q1.parquet", named / "Q2.parquet", "-o", "-").stderr
    assert compare(named / "Q1.parquet", named / "Q2.parquet").now.name == "Q2"
    halves = write_weeks(tmp_path / "halves", {"H1": first, "H2": second})
    for pair in (("H1", "H2"), ("H2", "H1")):
        paths = [halves / f"{name}.parquet" for name in pair]
        assert "grew from H1 to H2" in attributary("report", *paths, "-o", "-").stderr
    bare = write_weeks(tmp_path / "bare", {"x": first, "y": second})
    said = attributary("report", bare / "y.parquet", bare / "x.parquet", "-o", "-").stderr
    assert said.startswith("Periods, oldest first: x and y (assumed: their names tell no dates).")
    for name, month, est in (("y", "Dec 2025", first), ("x", "Jan 2026", second)):
        table = est.table()
        write_table(table.append_column("month", pa.array([month] * len(table))), str(bare / f"{name}.parquet"))
    series = periods(bare)
    assert [p.name for p in series.periods] == ["y", "x"] and series.order == "by month"
    turn = write_weeks(tmp_path / "turn", {"2026-W01": second, "2025-W52": first})
    assert list(period_files(str(turn))) == ["2025-W52", "2026-W01"]


def test_the_same_report_and_the_same_week_are_refused(tmp_path: Path) -> None:
    tree, rng = tree_of(["a", "b"]), np.random.default_rng(1)
    first, second = (week(tree, rates(tree), rng) for _ in range(2))
    write_weeks(tmp_path / "n", {"W1": first, "copy": first})
    write_weeks(tmp_path / "s", {"W1": second})
    bare = first.table().drop_columns(["noisy", "noise_variance"])
    for name in ("W5", "W6"):
        write_table(bare, str(tmp_path / f"{name}.csv"))
    for pair, words in (
        (("n/W1.parquet", "n/copy.parquet"), "hold the same noisy figures"),
        (("W5.csv", "W6.csv"), "hold the same noisy figures"),
        (("n/W1.parquet", "n/../n/W1.parquet"), "twice"),
        (("n/W1.parquet", "s/W1.parquet"), "are the same one"),
    ):
        with pytest.raises(InputError, match=words):
            compare(*(str(tmp_path / name) for name in pair))
        assert words in attributary("report", *(tmp_path / name for name in pair), "-o", "-", code=2).stderr


def test_exact_tables_may_have_the_same_counts() -> None:
    tree = tree_of(["a", "b"])
    one, two = (
        denoise(tree, np.full(len(tree), 3.0) * tree.roll_up(np.ones(int(tree.is_leaf.sum()))), 0.0) for _ in "ab"
    )
    assert not compare(one, two).changed.any()


def test_different_figures_are_refused(tmp_path: Path) -> None:
    for name, figure, times in (("f_rev", "revenue", 40), ("f_vis", "visits", 1), ("f_new", "Visits", 2)):
        table, rows = tmp_path / f"{name}-raw.csv", [f"s{i},{(20 + i) * times + 0.25}" for i in range(9)]
        table.write_text("\n".join([f"store,{figure}", *rows]) + "\n", encoding="utf-8")
        attributary("denoise", "--table", table, "--std", "3", "-o", tmp_path / f"{name}.csv")
    said = attributary("report", tmp_path / "f_vis.csv", tmp_path / "f_rev.csv", "-o", "-", code=2).stderr
    assert "f_rev has revenue, f_vis has visits: give tables of one" in said
    assert "Visits grew" in attributary("report", tmp_path / "f_new.csv", tmp_path / "f_vis.csv", "-o", "-").stderr
