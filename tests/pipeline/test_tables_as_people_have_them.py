"""Tables as people have them: titles above the names, North Total, two rows of heads; and questions that have answers.

Every question shows a call; that call works, which is what these tests run.
"""

import re
import shlex
from itertools import pairwise
from pathlib import Path

import numpy as np
import openpyxl
import pandas as pd
import pytest

from attributary import denoise_table
from attributary.errors import InputError, QuestionError
from attributary.tables import read_table
from support.command import attributary

COUNTS = {"North": {"a": (30, 51), "b": (17, 24)}, "South": {"c": (64, 40), "d": (12, 29)}}
MONTHS = ("January", "February")
NOISE = ("--noise", "laplace:scale=2")


def rows(total_of_region: str, total_of_store: str = "") -> list[list[str]]:
    """Region, store, month and visits, with the labels that regions and stores have as totals."""
    made = []
    for region, stores in COUNTS.items():
        named = total_of_region.format(region)
        first = [named, "", ""] if "in region" in total_of_region else [region, named, ""]
        first = [cell.replace(" in region", "") for cell in first]
        made.append([*first, str(sum(map(sum, stores.values())) + 1)])
        for store, counts in stores.items():
            made.append([region, store, total_of_store.format(store), str(sum(counts) - 1)])
            made += [[region, store, month, str(count)] for month, count in zip(MONTHS, counts, strict=True)]
    return made


def written(path: Path, table: list[list[str]], above: str = "", separator: str = ",") -> Path:
    lines = [separator.join(row) for row in [["region", "store", "month", "visits"], *table]]
    path.write_text(above + "\n".join(lines) + "\n")
    return path


def estimates(path: Path, out: Path) -> dict[tuple[str, ...], float]:
    """The estimate of each node that a command gives, as it is read again."""
    attributary("denoise", "--table", path, *NOISE, "-o", out)
    read = read_table(str(out)).to_pylist()
    names = ["region", "store", "month"]
    return {tuple(row[name] for name in names if row[name]): float(row["estimate"]) for row in read}


@pytest.mark.parametrize("label", ["{} Total", "Total {}", "Total: {}", "Total for {}", "{} Ergebnis", "Gesamt {}"])
@pytest.mark.parametrize("where", ["", " in region"])
def test_a_total_may_say_what_it_is_of(label: str, where: str, tmp_path: Path) -> None:
    plain = estimates(written(tmp_path / "plain.csv", rows("", "")), tmp_path / "plain-out.csv")
    table = rows(label + where, label)
    named = estimates(written(tmp_path / "named.csv", table), tmp_path / "named-out.csv")
    assert named == plain
    assert (tmp_path / "named-out.csv").read_text().splitlines()[1].startswith(",".join(table[0]))


def test_a_label_that_begins_like_a_total_stays_one_where_nothing_has_that_name(tmp_path: Path) -> None:
    table = [[region.replace("South", "All Saints"), *rest] for region, *rest in rows("", "")]
    made = estimates(written(tmp_path / "in.csv", table), tmp_path / "out.csv")
    assert ("All Saints",) in made and ("All Saints", "c") in made


@pytest.mark.parametrize("above", ["Visits by store\n\n", "Visits by store,,,\n,,,\n", "Report\nMarch 2025\n\n"])
@pytest.mark.parametrize("separator", [",", ";"])
def test_a_title_above_the_names_is_left_out(above: str, separator: str, tmp_path: Path) -> None:
    plain = estimates(written(tmp_path / "plain.csv", rows("", "")), tmp_path / "plain-out.csv")
    path = written(tmp_path / "in.csv", rows("", ""), above.replace(",", separator), separator)
    assert estimates(path, tmp_path / "out.csv") == plain
    path.write_text(path.read_text().replace("North,a" if separator == "," else "North;a", "North", 1))
    result = attributary("denoise", "--table", path, *NOISE, "-o", tmp_path / "o.csv", code=2)
    assert f"(line {above.count(chr(10)) + 3})" in result.stderr


def test_years_above_months_are_heads_of_one_row(tmp_path: Path) -> None:
    book = openpyxl.Workbook()
    sheet = book.active
    assert sheet is not None
    sheet.append(["Visits"])
    sheet.append([None, "2024", None, "2025", None])
    sheet.append(["Store", "Jan", "Feb", "Jan", "Feb"])
    sheet.append(["a", 10, 20, 30, 40])
    sheet.append(["b", 11, 21, 31, 41])
    book.save(tmp_path / "in.xlsx")
    assert read_table(str(tmp_path / "in.xlsx")).column_names == [
        "Store",
        "Jan 2024",
        "Feb 2024",
        "Jan 2025",
        "Feb 2025",
    ]
    made = denoise_table(str(tmp_path / "in.xlsx"), noise="laplace:scale=2")
    assert made.layout.forms[0].levels == ("Store", "month")


@pytest.mark.parametrize(
    "names",
    [("low", "high"), ("Lower bound", "Upper bound"), ("visits_lo", "visits_hi"), ("CI 2.5%", "CI 97.5%"),
     ("untere Grenze", "obere Grenze"), ("min", "max")],
)  # fmt: skip
def test_bounds_are_known_by_their_names(names: tuple[str, str], tmp_path: Path) -> None:
    table = [[*row, str(float(row[3]) - 6), str(float(row[3]) + 6)] for row in rows("", "")]
    frame = pd.DataFrame(table, columns=["region", "store", "month", "visits", *names])
    made = denoise_table(frame)
    scale = -6 / np.log(0.05)
    assert made.estimates["count"].measurements.variance == pytest.approx(np.full(len(frame), 2 * scale**2))
    assert made.layout.forms[0].levels == ("region", "store", "month")


def frame() -> pd.DataFrame:
    made = pd.DataFrame(rows("", ""), columns=["region", "store", "month", "visits"]).replace("", None)
    return made.astype({"visits": float})


def test_frames_of_every_sort_give_the_same_estimates(tmp_path: Path) -> None:
    plain = frame()
    expected = denoise_table(plain, noise="laplace:scale=2").frame()["estimate"].tolist()
    mixed = plain.astype({"visits": object})
    mixed.loc[3, "visits"] = str(mixed.loc[3, "visits"])
    numbered = plain.rename(columns={"visits": 5})
    kinds = {
        "categorical": plain.astype(dict.fromkeys(["region", "store", "month"], "category")),
        "Int64": plain.astype({"visits": "Int64"}),
        "mixed": mixed,
        "duplicated index": plain.set_axis([0] * len(plain)),
        "labels in the index": plain.set_index(["region", "store", "month"]),
        "a number for a name": numbered,
    }
    for name, one in kinds.items():
        given = {"levels": ["region", "store", "month"], "value": 5 if name == "a number for a name" else "visits"}
        made = denoise_table(one, noise="laplace:scale=2", **given).frame()
        assert made["estimate"].tolist() == expected, name
        assert type(made) is pd.DataFrame and (made.index == one.index).all(), name


def test_midnights_are_dates() -> None:
    weeks = {"January": "2025-01-06", "February": "2025-01-13"}
    dated = frame().assign(month=lambda table: pd.to_datetime(table["month"].map(weeks)))
    series = denoise_table(dated, noise="laplace:scale=2").changes(by="month")
    assert [period.name for period in series.periods] == ["2025-01-06", "2025-01-13"]


QUESTIONS = {
    "no noise is said": (rows("", ""), ["region", "store", "month", "visits"], ()),
    "two columns of numbers": ([[*row, "7.5"] for row in rows("", "")], [*"abcd", "cost"], NOISE),
    "a text for what was suppressed": (
        [[*row[:3], "k.A." if row[3] == "12" else row[3]] for row in rows("", "")], [*"abc", "visits"], NOISE,
    ),
    "an empty figure": (
        [[*row[:3], "" if row[3] == "12" else row[3]] for row in rows("", "")], [*"abc", "visits"], NOISE,
    ),
    "leaves alone": ([row for row in rows("", "") if row[2]], [*"abc", "visits"], NOISE),
}  # fmt: skip


@pytest.mark.parametrize("name", QUESTIONS)
def test_the_answer_that_a_question_shows_works(name: str, tmp_path: Path) -> None:
    table, heads, noise = QUESTIONS[name]
    path = tmp_path / "in.csv"
    path.write_text("\n".join(map(",".join, [heads, *table])) + "\n")
    words = ["denoise", "--table", str(path), *noise, "-o", str(tmp_path / "out.csv")]
    result = attributary(*words, code=2)
    assert "?" in result.stderr
    for _ in range(2):  # one answer may bring up another question
        shown = re.search(r"For example: attributary (.+)", result.stderr)
        assert shown, result.stderr
        result = attributary(*shlex.split(shown[1]), code=None)
        if result.exit_code == 0:
            break
    assert result.exit_code == 0, result.stderr


def test_what_was_denoised_is_not_denoised_by_mistake(tmp_path: Path) -> None:
    path, out = written(tmp_path / "in.csv", rows("", "")), tmp_path / "out.csv"
    estimates(path, out)
    result = attributary("denoise", "--table", out, *NOISE, "-o", tmp_path / "twice.csv", code=2)
    assert "has estimates already" in result.stderr
    shown = re.search(r"For example: attributary (.+)", result.stderr)
    assert shown and attributary(*shlex.split(shown[1]))
    again = read_table(str(tmp_path / "twice.csv"))
    assert again["again_estimate"].to_pylist() == again["estimate"].to_pylist()
    with pytest.raises(QuestionError, match="has estimates already"):
        denoise_table(denoise_table(frame(), noise="laplace:scale=2").frame(), noise="laplace:scale=2")


def test_a_number_alone_is_no_noise(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="laplace:scale=4 or normal:std=4"):
        denoise_table(frame(), noise="4")


def test_rows_of_the_output_add_up_where_totals_have_names(tmp_path: Path) -> None:
    made = estimates(written(tmp_path / "in.csv", rows("{} Total in region", "{} Total")), tmp_path / "out.csv")
    for shorter, longer in pairwise(range(1, 4)):
        for path, total in made.items():
            if len(path) == shorter:
                below = [count for other, count in made.items() if len(other) == longer and other[:shorter] == path]
                assert sum(below) == pytest.approx(total, abs=1e-9)
