"""What denoise writes has the shape and the dialect of what it read, and is read back as rows of nodes."""

import datetime
import re
from pathlib import Path
from typing import Any

import numpy as np
import openpyxl
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from click.testing import CliRunner

import attributary as library
from attributary.cli import main
from attributary.errors import InputError, QuestionError
from attributary.tables import read_table, write_table
from support.command import attributary

ROWS = ["Nord;Gesamt;1.262,5", "Nord;Köln;719,5", "Nord;Kiel;543,0", "Süd;Gesamt;90,5", "Süd;Ulm;60,0", "Süd;Au;<50"]


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "cp1252", "utf-16"])
@pytest.mark.parametrize("newline", ["\n", "\r\n"])
@pytest.mark.parametrize("first", ["", "sep=;"])
def test_a_text_comes_back_in_its_dialect(encoding: str, newline: str, first: str, tmp_path: Path) -> None:
    lines = [*([first] if first else []), "Region;Filiale;Besuche", *ROWS, ""]
    source, out = tmp_path / "in.csv", tmp_path / "out.csv"
    source.write_bytes(newline.join(lines).encode(encoding))
    write_table(read_table(str(source)), str(out))
    assert out.read_bytes() == source.read_bytes()
    result = attributary("denoise", "--table", str(source), "--noise", "laplace:scale=3", "-q", "-o", str(out))
    assert result.exit_code == 0, result.output
    written = out.read_bytes().decode(encoding).split(newline)
    start = int(bool(first))
    assert written[:start] == lines[:start] and len(written) == len(lines)
    assert all(new.startswith(f"{old};") for new, old in zip(written[start:-1], lines[start:-1], strict=True))
    shown = {line.split(";")[1] + line.split(";")[0]: line.split(";")[3] for line in written[start + 1 : -1]}
    parts = {key: round(100 * float(text.replace(",", "."))) for key, text in shown.items()}
    assert parts["GesamtNord"] == parts["KölnNord"] + parts["KielNord"]
    assert "." not in "".join(shown.values())
    read = read_table(str(out))
    assert read["Filiale"].to_pylist() == [None, "Köln", "Kiel", None, "Ulm", "Au"]
    assert np.asarray(read["estimate"])[0] == pytest.approx(parts["GesamtNord"] / 100)


def test_letters_that_an_encoding_lacks_are_written_in_utf_8(tmp_path: Path) -> None:
    table = read_table(str(write(tmp_path, "a;b\nKöln;1\n".encode("cp1252"))))
    write_table(table.set_column(0, "a", pa.array(["Łódź"])), str(tmp_path / "out.csv"))
    assert (tmp_path / "out.csv").read_bytes() == "a;b\nŁódź;1\n".encode("utf-8-sig")


def write(folder: Path, data: bytes) -> Path:
    (folder / "in.csv").write_bytes(data)
    return folder / "in.csv"


@pytest.fixture
def sheet(tmp_path: Path) -> str:
    book = openpyxl.Workbook()
    page = book.active
    assert page is not None
    page.title = "Visits"
    page.append(["Visits of January"])
    page.append([])
    page.append(["Zip", "Day", "Month", "Visits", datetime.date(2025, 2, 1)])
    page.append([501, datetime.datetime(2025, 1, 6), datetime.datetime(2025, 1, 1), 3, 1.5])
    page.append([None, datetime.datetime(2025, 1, 7), datetime.datetime(2025, 1, 1), "<5", 2])
    page.append(["Source: CRM"])
    page["E3"].number_format = "mmm yyyy"
    for row in (4, 5):
        page[f"A{row}"].number_format, page[f"C{row}"].number_format = "00000", "mmm yy"
    page.merge_cells("A4:A5")
    book.create_sheet("Notes").append(["nothing"])
    book.save(tmp_path / "in.xlsx")
    return str(tmp_path / "in.xlsx")


def test_a_sheet_is_read_as_it_shows(sheet: str, tmp_path: Path) -> None:
    table = read_table(sheet)
    days = [datetime.date(2025, 1, 6), datetime.date(2025, 1, 7)]
    wanted: dict[str, list[Any]] = {
        "Zip": ["00501", "00501"], "Day": days, "Month": ["2025-01"] * 2, "Visits": ["3", "<5"], "2025-02": [1.5, 2.0]
    }  # fmt: skip
    assert table.to_pydict() == wanted
    assert read_table(sheet, sheet="Visits").equals(table)
    write_table(table, str(tmp_path / "out.xlsx"))
    first = (tmp_path / "out.xlsx").read_bytes()
    assert read_table(str(tmp_path / "out.xlsx")).to_pydict() == wanted
    write_table(table, str(tmp_path / "out.xlsx"))
    assert (tmp_path / "out.xlsx").read_bytes() == first  # whatever the time is
    with pytest.raises(InputError, match=r"has no sheet 'March'; its sheets are Visits, Notes"):
        read_table(sheet, sheet="March")
    with pytest.raises(InputError, match="`sheet` names a sheet of a spreadsheet"):
        read_table(str(write(tmp_path, b"a,b\n1,2\n")), sheet="Visits")


def test_two_sheets_are_a_question(tmp_path: Path) -> None:
    book = openpyxl.Workbook()
    for name in ("Q1", "Q2"):
        page = book.create_sheet(name)
        page.append(["store", "visits"])
        page.append(["a", 1])
    book.save(tmp_path / "in.xlsx")
    with pytest.raises(QuestionError, match=r"which sheet has the table, Q1 or Q2\? For example `sheet=Q1`"):
        read_table(str(tmp_path / "in.xlsx"))


def test_text_is_never_a_formula(tmp_path: Path) -> None:
    table = pa.table({"=a": ["=1+1", "+2", "x"], "n": [1.5, float("inf"), None]})
    write_table(table, str(tmp_path / "t.xlsx"))
    page = openpyxl.load_workbook(tmp_path / "t.xlsx").active
    assert page is not None and all(cell.data_type != "f" for row in page.iter_rows() for cell in row)
    assert [cell.value for cell in page["A"]] == ["=a", "=1+1", "+2", "x"]


PIVOT = {
    "region": ["N", "N", "N", "S", "S", "Total"],
    "store": ["A", "B", "Total", "C", "Total", "Total"],
    "W1": [120.0, 60.0, 181.0, 40.0, 41.0, 222.0],
    "W2": [80.0, 30.0, 109.0, 20.0, 19.0, 130.0],
    "Total": [203.0, 92.0, 290.0, 60.0, 63.0, 353.0],
}


@pytest.mark.parametrize("ending", ["csv", "xlsx", "parquet"])
def test_a_pivot_comes_back_as_a_pivot(ending: str, tmp_path: Path) -> None:
    source, out = str(tmp_path / f"in.{ending}"), str(tmp_path / f"out.{ending}")
    write_table(pa.table(PIVOT), source)
    result = attributary("denoise", "--table", source, "--noise", "laplace:scale=2", "-q", "-o", out)
    assert result.exit_code == 0, result.output
    long = library.denoise_table(read_table(source), noise="laplace:scale=2", fill=True).table.to_pylist()
    wanted = {(row["region"], row["store"], row["week"]): row["estimate"] for row in long}
    read = {(row["region"], row["store"], row["week"]): row for row in read_table(out).to_pylist()}
    assert {path: float(row["estimate"]) for path, row in read.items()} == pytest.approx(wanted, abs=0.01)
    frame = library.denoise_table(PIVOT, noise="laplace:scale=2").frame()
    assert list(frame)[:5] == list(PIVOT) and frame["store"] == PIVOT["store"]
    for week in ("W1", "W2", "Total"):
        a, b, north, c, south, whole = frame[week]
        assert north == pytest.approx(a + b) and south == pytest.approx(c) and whole == pytest.approx(a + b + c)
    assert [x + y for x, y in zip(frame["W1"], frame["W2"], strict=True)] == pytest.approx(frame["Total"])
    assert all(low <= x <= high for low, x, high in zip(frame["W1_low"], frame["W1"], frame["W1_high"], strict=True))


COLUMNS = {"store": [None, "a", "b"], "visits": [101.0, 60.0, 43.0]}


@pytest.mark.parametrize("kind", [pd.DataFrame, pl.DataFrame, pl.LazyFrame, pa.table, dict])
@pytest.mark.parametrize("fill", [False, True])
def test_a_frame_comes_back_in_its_kind(kind: Any, fill: bool, tmp_path: Path) -> None:
    frame = kind(COLUMNS)
    made = library.denoise_table(frame, levels=["store"], value="visits", noise="normal:std=2", fill=fill)
    out = made.frame()
    assert type(out) is type(frame)
    est = np.asarray((out.collect() if isinstance(out, pl.LazyFrame) else out)["estimate"], float)
    assert est[0] == pytest.approx(est[1] + est[2]) and made.check().estimate is not None
    assert "<table>" in made._repr_html_() and "levels" not in made.table.column_names
    made.report(str(tmp_path / "page.html"))
    assert "visits" in (tmp_path / "page.html").read_text().lower()


def test_several_figures_state_their_noise_in_any_way() -> None:
    table = {
        "store": [None, "a", "b"],
        "visits": [101.0, 60, 43],
        "sales": [990.0, 610, 400],
        "s": [2.0] * 3,
        "t": [9.0] * 3,
    }
    ways: list[dict[str, Any]] = [
        {"noise": "visits=normal:std=2; sales=normal:std=9"}, {"noise": ["normal:std=2", "normal:std=9"]},
        {"std": "2;9", "noise": "normal"}, {"std": ["s", "t"], "noise": "normal"}, {"std": "s,t", "noise": "normal"},
    ]  # fmt: skip
    frames = [library.denoise_table(table, ["store"], ["visits", "sales"], **way).frame() for way in ways]
    for frame in frames:
        for name in ("visits_estimate", "sales_variance", "sales_high"):
            np.testing.assert_allclose(frame[name], frames[0][name])
    with pytest.raises(InputError, match="may be a number per column or per level"):
        library.denoise_table(table, ["store"], ["visits", "sales"], std="2,9")
    with pytest.raises(InputError, match="noise of visits, sales is needed, each once; got that of visits"):
        library.denoise_table(table, ["store"], ["visits", "sales"], noise="visits=normal:std=2")


def test_a_question_shows_a_command_that_works(tmp_path: Path) -> None:
    write(tmp_path, b"region,store,visits\nN,a,50\nN,b,60\nS,c,70\n")
    given = ["denoise", "--table", str(tmp_path / "in.csv"), "--noise", "laplace:scale=3", "-q"]
    asked = CliRunner().invoke(main, given)
    assert asked.exit_code == 2 and "which columns are the hierarchy, top to bottom?" in asked.stderr
    command = asked.stderr.strip().partition("For example: attributary ")[2].split()
    assert "--levels" in command and attributary(*command).exit_code == 0


def test_bounds_below_a_number_of_people_are_bounds() -> None:
    form = library.recognise({"store": [None, "a", "b"], "users": ["70", "62", "n<10"]})
    assert form.figures.tolist() == [70, 62, 4.5] and form.extra[2] == pytest.approx((10**2 - 1) / 12)


def test_bounds_are_recognised_and_said() -> None:
    rows = {"store": [None, "a", "b"], "users": [100.0, 60, 41], "low": [91.0, 51, 32], "high": [109.0, 69, 50]}
    made = library.denoise_table(rows)
    assert any("low and high are two-sided 95% bounds" in note for note in made.recognised)
    stated = library.denoise_table(rows, noise="laplace:interval=low,high@0.95,two-sided")
    assert made.table.equals(stated.table)


@pytest.mark.parametrize("ending", ["csv", "xlsx", "parquet"])
def test_a_page_calls_the_figures_of_a_pivot_what_the_table_calls_them(ending: str, tmp_path: Path) -> None:
    """A pivot without rows for its regions, which a report sums up."""
    book = openpyxl.Workbook()
    sheet = book.active
    assert sheet is not None
    rows = [("Nord", "Kiel", 60, 70, 131), ("Nord", "Ulm", 50, 40, 88), ("Süd", "Rom", 90, 10, 99)]
    for row in [["Besuche nach Monat"], ["Region", "Store", "Jan 2025", "Feb 2025", "Total"], *rows]:
        sheet.append(row)
    book.save(tmp_path / "pivot.xlsx")
    written, page = tmp_path / f"out.{ending}", tmp_path / "page.html"
    how = ("--levels", "Region,Store", "--noise", "laplace:scale=2", "-q")
    for value, title in (((), "Besuche by Region"), (("--value", "visits"), "Visits by Region")):
        result = attributary("denoise", "--table", str(tmp_path / "pivot.xlsx"), *value, *how, "-o", str(written))
        assert result.exit_code == 0, result.output
        result = attributary("report", str(written), "-o", str(page), "-q")
        assert result.exit_code == 0, result.output
        html = page.read_text()
        assert f"<h1>{title}, Store and month</h1>" in html and "All conversions" not in html
        assert re.search(rf"\d{{3}} {value[-1] if value else 'Besuche'}, give or take", html)
