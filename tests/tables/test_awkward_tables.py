"""Awkward tables: each file is recognised for what it is, and says what was assumed, or is refused with a reason."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from attributary.errors import InputError
from attributary.pipeline.denoise_table import denoise_table
from attributary.pipeline.node_rows import node_rows
from attributary.tables import read_table
from attributary.tables.as_written import rows_of_nodes

FOLDER = Path(__file__).parent / "awkward"
Figures = dict[tuple[str, ...], float]
VISITS: Figures = {
    ("North",): 1320,
    ("North", "A"): 1206,
    ("North", "A", "W1"): 1203,
    ("North", "A", "W2"): 2,
    ("North", "B"): 111,
    ("North", "B", "W1"): 88,
    ("North", "B", "W2"): 25,
    ("South",): 92,
    ("South", "C"): 92,
    ("South", "C", "W1"): 40,
    ("South", "C", "W2"): 51,
}
HALVES = {path: x + 0.5 for path, x in VISITS.items()}
LEAVES = {path: x for path, x in VISITS.items() if len(path) == 3}
UNKNOWN = VISITS | {("North", "A", "W2"): np.nan}
NULLS: Figures = {
    ("North",): 120,
    ("North", "A"): 70,
    ("North", "A", "W1"): 40,
    ("North", "A", "W2"): 30,
    ("North", "NULL"): 50,
    ("North", "NULL", "W1"): 20,
    ("North", "NULL", "W2"): 30,
}
BOUNDS = {"noise": "laplace:interval=low,high@0.95,two-sided"}
LEVELS2 = {"levels": ["region", "store"], "value": "visits"}
LEVELS = {"levels": ["region", "store", "week"], "value": "visits"}


DATES = {("North", "2026-01-05"): 1291.0, ("North", "2026-01-12"): 27, ("South", "2026-01-05"): 40} | {
    ("South", "2026-01-12"): 51,
    ("East", "2026-01-05"): 1234567,
    ("East", "2026-01-12"): 12,
}
COLOURS = {("North", "red"): 1291.0, ("North", "green"): 27, ("South", "red"): 40, ("South", "green"): 51}
QUARTERS = {("2025",): 100.0, ("2025", "1"): 60, ("2025", "2"): 45, ("2026",): 90, ("2026", "1"): 48, ("2026", "2"): 44}
GERMAN = ["Januar", "Februar", "März", "April", "Mai", "Juni"]
GERMAN += ["Juli", "August", "September", "Oktober", "November", "Dezember"]
MONTHS: Figures = {
    (store, name): 30 + (7 * k * i) % 23 for k, store in ((1, "Nord"), (2, "Süd")) for i, name in enumerate(GERMAN, 1)
}
STORES: Figures = {("North", "A"): 40, ("North", "B"): 35, ("North",): 75, ("South", "C"): 50, ("South",): 50}

# A file, what is said of it, its figures by path (None: not compared), and the options it is read with.
RECOGNISED: list[tuple[str, str, Figures | None, dict[str, Any]]] = [
    ("semicolons", "separated by ';'", VISITS, {}),
    ("tabs_called_csv", r"separated by '\t'", VISITS, {}),
    ("pipes", "separated by '|'", VISITS, {}),
    ("byte_order_mark", "levels: region > store > week", VISITS, {}),
    ("utf16", "levels: region > store > week", VISITS, {}),
    ("utf16_big_endian", "separated by ';'", VISITS, {}),
    ("separator_line", "separated by ';'", VISITS, {}),
    ("title_above_the_header", "names of columns: line 3 (what is above is a title)", VISITS, {}),
    (
        "subtotals_named_after_their_group",
        "North Total is the total of the rows that it names",
        STORES,
        {},
    ),
    ("separator_at_the_end_of_lines", "levels: region > store > week", VISITS, {}),
    ("decimal_commas", "1320,5 is read as 1320.5", HALVES, {}),
    ("decimal_commas_quoted", "1320,5 is read as 1320.5", HALVES, {}),
    ("german_thousands", "1.320,5 is read as 1320.5", HALVES, {}),
    ("swiss_apostrophes", "1’320.5 is read as 1320.5", HALVES, {}),
    ("french_spaces", "1\u202f320,5 is read as 1320.5", HALVES, {}),
    ("american_thousands", "1,320.5 is read as 1320.5", HALVES, {}),
    ("thousands_or_decimals", "1,320 is read as 1320", VISITS, {"decimal": "."}),
    ("thousands_or_decimals_in_points", "1.320 is read as 1320", VISITS, {"decimal": ","}),
    ("true_minus_signs", "−3 is read as -3", VISITS | {("North", "A", "W2"): -3}, {}),
    ("rows_called_all", "ALL marks totals", VISITS, {}),
    ("rows_called_gesamt", "Gesamt marks totals", VISITS, {}),
    ("brackets_around_all", "(All) marks totals", VISITS, {}),
    ("stars", "levels: region > store > week", VISITS, {}),
    ("suppressed_below_5", "column visits: <5 is 0 to 4 (1 cell)", VISITS, {}),
    ("suppressed_with_blanks", "≤ 4 is 0 to 4", VISITS, {}),
    ("suppressed_with_stars", "* is 0 to 4", VISITS, LEVELS | {"suppressed": ["*=0..4"]}),
    ("dashes_for_nothing", "- is not measured", UNKNOWN, LEVELS | {"suppressed": ["-"]}),
    ("empty_figures", "column visits: empty is not measured (1 cell)", UNKNOWN, {"empty": "unmeasured"}),
    ("empty_figures", "column visits: empty is 0 (1 cell)", VISITS | {("North", "A", "W2"): 0}, {"empty": "zero"}),
    ("grouping_columns", "levels: region > store > week", VISITS, {}),
    ("grouping_by_null", "3 empty cells of store are a group of their own", NULLS, {}),
    ("grouping_id", "", VISITS, LEVELS),
    ("grouping_id", "levels: region > store > week", VISITS, {}),
    ("latin1", "text is in the encoding of Western Windows (cp1252)", None, {}),
    ("two_columns_of_figures", "levels: region > store > week", VISITS, {"value": "visits"}),
    ("wide_by_week", "W1 to W2 are the 2 values of week; Total is the total of a row", VISITS, {}),
    ("wide_by_date", "1.291 is read as 1291", DATES, {}),
    ("wide_by_colour", "red to green are the 2 values of colour", COLOURS, {"levels": ["region"], "wide": "colour"}),
    ("wide_by_german_month", "columns Januar to Dezember are the 12 values of month", MONTHS, {}),
    ("wide_by_german_month", "the 12 values of Monat", MONTHS, {"levels": ["Filiale"], "wide": "Monat"}),
    ("wide_by_french_month", "columns janvier to décembre are the 12 values of month", None, {}),
    ("wide_by_swedish_month", "the 12 values of month", None, {"levels": ["butik"], "wide": "month"}),
    ("wide_with_both_margins", "rows of totals: sums by week, denoised together with the cells", None, {}),
    ("wide_with_totals_by_week", "rows of totals: sums by week, denoised together with the cells", None, {}),
    ("rows_called_zusammen", "zusammen marks totals", None, {"levels": ["region"]}),
    ("rows_near_their_total", "zusammen marks totals", None, {"levels": ["region"]}),
    ("a_region_near_the_sum", "levels: region > week", None, {"noise": "normal:std=1"}),
    ("noise_of_three_decimals", "column sd: 1.414 is read as 1.414", None, LEVELS2 | {"noise": "normal:std=sd"}),
    ("rows_called_zusammen", "", None, {"totals": ["zusammen"], "levels": ["region"]}),
    ("rows_called_zusammen", "", None, {"no_totals": True, "levels": ["region"]}),
    ("one_point_between_thousands", "10.307 is read as 10307", None, {"decimal": ","}),
    ("leaves_only", "", LEAVES, LEVELS),
    ("a_column_of_remarks", "", VISITS, LEVELS),
    ("columns_in_another_order", "levels: region > store > week", VISITS, {}),
    ("labels_are_numbers", "levels: year > quarter", QUARTERS, {}),
    ("bounds_beside_figures", "levels: region > store > week", VISITS, BOUNDS),
    ("distinct_users", "figures of store add up to 163% of those of region, which noise does not explain", None, {}),
    ("cut_at_zero", "figures look cut at 0", None, {"levels": ["region", "store"]}),
    ("rounded_to_tens", "all figures are multiples of 10", None, {"levels": ["region", "store"]}),
]
# A file, the reason that it is refused for, and the options it is read with.
REFUSED: list[tuple[str, str, dict[str, Any]]] = [
    ("wide_with_owners", "which columns are the hierarchy, top to bottom\\? For example `levels=region,owner`", {}),
    ("bounds_beside_figures", "already has a column 'low'", {}),
    ("american_thousands", "is not a number with a decimal comma", {"decimal": ","}),
    ("thousands_or_decimals", "may be 1320 or 1.320: all signs there have three digits", {}),
    ("thousands_or_decimals_in_points", "may be 1320 or 1.320: all signs there have three digits", {}),
    ("two_decimal_signs", "no column has numbers only", {}),
    ("two_decimal_signs", "'2,5' in column 'visits' is not a number", LEVELS),
    ("percentages", "'100.0%' in column 'visits' is not a number", LEVELS),
    ("figures_with_units", "'1320 visits' in column 'visits' is not a number", LEVELS),
    ("spreadsheet_errors", "'#N/A' in column 'visits' is not a number", LEVELS),
    ("two_separators_fit", "may be separated by ',' or ';'", {}),
    ("all_is_an_ordinary_label", "'ALL' in column 'store' reads as a total", {"levels": ["region", "store"]}),
    ("suppressed_with_stars", "'*' in column 'visits' is not a number; .*`suppressed`", LEVELS),
    ("dashes_for_nothing", "'-' in column 'visits' is not a number", LEVELS),
    ("empty_figures", "has an empty cell where a figure is needed: .*`empty=unmeasured`", {}),
    ("grouping_contradicts", "grouping_store is 1, which says that the row is a total, but store is not empty", {}),
    ("grouping_id_of_null", "'store' is empty but 'week' below it is not", LEVELS),
    ("cube", "has store A, and rows by store has not: add its row", LEVELS),
    ("cube", "has store A, and rows by store has not: add its row", {}),
    ("wide_by_colour", "which column has the figures, red or green, or several of them\\? For example `value=red`", {}),
    ("wide_with_two_totals", "a wide table has one column of totals; got Total and Sum", {}),
    ("wide_by_swedish_month", "beside them maj has numbers, too: .*`wide=month`", {"levels": ["butik"]}),
    (
        "rows_called_beide",
        "'Beide' in column 'region' is near the sum of the rows beside it: it looks",
        {"noise": "normal:std=3"},
    ),
    ("noise_with_one_comma", "'1,414' in column 'sd' may be 1414 or 1.414", LEVELS2 | {"noise": "normal:std=sd"}),
    ("minutes_per_visit", "as averages and rates are, which do not add up", {}),
    ("one_point_between_thousands", "may be 10307 or 10.307: .*`decimal=.` or `decimal=,`", {}),
    ("outside_its_own_bounds", r"row 2 \(line 3\): the figure 10 is outside its own bounds, 12 to 18", BOUNDS),
    ("noise_beyond_numbers", "'1e400' in column 'sd' is too large for a number", LEVELS2 | {"noise": "normal:std=sd"}),
    ("leaves_only", "which columns are the hierarchy, top to bottom\\? For example `levels=region,store,week`", {}),
    ("a_column_of_remarks", "For example `levels=region,store,week`$", {}),
    ("a_column_of_owners", "top to bottom\\? For example `levels=region,store,week`$", {}),
    (
        "two_columns_of_figures",
        "the figures, visits or orders, or several of them\\? For example `value=visits`",
        {},
    ),
    ("path_twice", "a path has one row", LEVELS),
    ("averages", "as averages and rates are, which do not add up", {}),
    (
        "two_separators_fit",
        "has no column 'visits'",
        {"separator": ";", "levels": ["region", "store"], "value": "visits"},
    ),
]


def read(file: str, options: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    given = {"noise": "laplace:scale=10", **options}
    path = str(FOLDER / f"{file}.csv")
    return read_table(path, separator=given.pop("separator", None)), {**given, "path": path}


@pytest.mark.parametrize(("file", "says", "holds", "options"), RECOGNISED, ids=lambda part: str(part)[:40])
def test_a_table_is_recognised_and_says_so(
    file: str, says: str, holds: Figures | None, options: dict[str, Any]
) -> None:
    table, given = read(file, options)
    found = node_rows(table, **given).form
    made = denoise_table(table, **given)
    assert says in " | ".join([*made.recognised, *made.doubts, *([] if says else [""])])
    labels = [found.table.column(name).to_pylist() for name in found.levels]
    paths = [tuple(str(label) for label in row if label not in (None, "", "*")) for row in zip(*labels, strict=True)]
    assert len(paths) == rows_of_nodes(made.table).num_rows
    if holds is not None:
        np.testing.assert_equal(dict(zip(paths, found.figures.tolist(), strict=True)), holds)


@pytest.mark.parametrize(("file", "reason", "options"), REFUSED, ids=lambda part: str(part)[:40])
def test_a_table_is_refused_with_a_reason(file: str, reason: str, options: dict[str, Any]) -> None:
    def attempt() -> None:
        table, given = read(file, options)
        denoise_table(table, **given)

    with pytest.raises(InputError, match=reason) as refusal:
        attempt()
    assert "\n" not in str(refusal.value) and len(str(refusal.value)) < 600


def test_each_file_has_its_case() -> None:
    tried = {case[0] for case in (*RECOGNISED, *REFUSED)}
    assert tried == {file.stem for file in FOLDER.iterdir()} and len(tried) >= 40
