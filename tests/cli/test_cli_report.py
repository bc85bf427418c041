"""attributary report: one page from files and folders, whole or not at all; a mistake is one line."""

import os
import re
from pathlib import Path

import pyarrow as pa
import pytest
from click.testing import CliRunner, Result

from attributary.cli import main
from attributary.tables import read_table, write_table
from attributary.tables.table_columns import SEEDED
from support.effort import first_of
from support.reports import biting, estimates, evaluation, labelled, shop

pytestmark = pytest.mark.usefixtures("undrawn")


def report(*args: object) -> Result:
    return CliRunner().invoke(main, ["report", *map(str, args)])


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return shop(tmp_path_factory.mktemp("shop"))


def test_a_folder_becomes_a_page(run: Path, tmp_path: Path) -> None:
    result = report(run, "-o", tmp_path / "page.html")
    assert result.exit_code == 0 and result.stdout == "", result.output
    assert "counts.parquet holds true counts, NOT protected: left out" in result.stderr
    assert f"report written to {tmp_path}/page.html" in result.stderr
    html = (tmp_path / "page.html").read_text()
    assert html.startswith("<!doctype html>") and "Conversions by campaign, location and day" in html
    assert os.listdir(tmp_path) == ["page.html"]


def test_standard_output_and_a_title_of_its_own(run: Path) -> None:
    result = report(run / "plan.json", "-o", "-", "--title", "Spring & <autumn>", "-q")
    assert result.stderr == "" and "<title>Spring &amp; &lt;autumn&gt;</title>" in result.stdout


def test_tau_is_the_plans_unless_told(run: Path) -> None:
    assert "counts below 10 are judged as if they were 10 (τ)" in report(run, "-o", "-", "-q").stdout
    assert "below 3 are judged as if they were 3 (τ)" in report(run, "-o", "-", "-q", "--tau", "3").stdout


@pytest.mark.parametrize(("ending", "begins"), [("svg", b"<svg"), ("png", b"\x89PNG")])
def test_charts_are_files_too(ending: str, begins: bytes, run: Path, tmp_path: Path) -> None:
    result = report(
        run, evaluation(tmp_path), "-o", tmp_path / "p.html", "--charts", tmp_path / "c", "--format", ending
    )
    assert result.exit_code == 0 and "7 charts written to" in result.stderr
    names = ["budget", "counts", "denoised", "evaluation", "expected-error", "icicle", "trade-off"]
    assert sorted(os.listdir(tmp_path / "c")) == [f"{name}.{ending}" for name in names]
    assert all((tmp_path / "c" / f"{name}.{ending}").read_bytes().startswith(begins) for name in names)


@pytest.mark.usefixtures("undrawn")
@pytest.mark.parametrize("ending", ["csv", "tsv", "parquet", "arrow"])
@pytest.mark.parametrize("value", first_of(["noisy", "Count"]))
@pytest.mark.parametrize("leaves", first_of([False, True]))
def test_a_table_of_denoise_says_its_levels(ending: str, value: str, leaves: bool, tmp_path: Path) -> None:
    rows = f"campaign,owner,day,{value}\n" + "shoes,Ada,,103\n" * (not leaves) + "shoes,Ada,mon,58\nshoes,Ada,tue,51\n"
    (tmp_path / "sales.csv").write_text(rows)
    args = ["denoise", "--table", f"{tmp_path}/sales.csv", "--levels", "campaign,day", "--value", value, "--fill"]
    out = tmp_path / f"out.{ending}"
    assert CliRunner().invoke(main, [*args, "--variance", "8,4", "-o", str(out), "-q"]).exit_code == 0
    result = report(out, "-o", tmp_path / "p.html")
    assert result.exit_code == 0 and "Figures by campaign and day" in (tmp_path / "p.html").read_text()
    table = read_table(str(out))
    bare = table.select([name for name in table.column_names if name != "levels"]).replace_schema_metadata({})
    write_table(bare, str(tmp_path / "bare.csv"))
    assert "give them with --levels" in report(tmp_path / "bare.csv", "-o", tmp_path / "p.html").stderr
    result = report(tmp_path / "bare.csv", "--levels", "campaign, day", "-o", tmp_path / "p.html")
    assert result.exit_code == 0 and "Figures by campaign and day" in (tmp_path / "p.html").read_text()


def test_levels_that_a_table_states_but_lacks_are_asked_for(tmp_path: Path) -> None:
    head = "a,Count,estimate,variance,low,high,levels\n"
    for stated in ("a > b", "", "Count > a", "[]"):
        (tmp_path / "x.csv").write_text(f"{head}x,1,1,1,0,2,{stated}\ny,2,2,1,1,3,{stated}\n")
        assert report(tmp_path / "x.csv", "-o", tmp_path / "p.html").exit_code == 2


def test_what_is_left_out_is_told(run: Path, tmp_path: Path) -> None:
    result = report(run, "-o", tmp_path / "p.html", "--nodes", 100)
    assert "428 nodes are left out; raise --nodes to show more" in result.stderr


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("x.json", b"{", "is not JSON"),
        ("x.json", b"[1, 2]", "is not a plan"),
        ("x.json", b'{"format": 9}', "has format 9"),
        ("x.json", b"\xff\xfe", "x.json is not a plan"),
        ("x.parquet", b"PAR1 and no more", "x.parquet is not a whole Parquet file"),
        ("x.csv", b"", "x.csv is empty"),
        ("x.csv", b"a,b\n1,2\n", "x.csv: which column has the figures, a or b, or several of them? For example"),
        ("x.csv", b"a,conversions\n1,2\n", "x.csv holds true counts; a report is made of a plan"),
        ("x.png", b"\x89PNG\r\n\x1a\n\x00\x00\xff", "x.png is neither a table nor a plan"),
        ("spec.toml", b"epsilon = 4\n", "spec.toml is a spec; a report is made of"),
        ("page.htm", b"<!doctype html>", "tables end in .parquet, .csv, .tsv or .arrow"),
        ("x.csv", b"estimate,variance,low,high\n1,x,1,1\n", "does not say which columns name a node"),
    ],
)
def test_a_broken_or_foreign_file_is_one_line_and_the_old_page_stays(
    name: str, content: bytes, message: str, tmp_path: Path
) -> None:
    (tmp_path / name).write_bytes(content)
    (tmp_path / "page.html").write_text("old")
    result = report(tmp_path / name, "-o", tmp_path / "page.html")
    assert result.exit_code == 2 and result.stderr.count("\n") == 1 and message in result.stderr, result.output
    assert (tmp_path / "page.html").read_text() == "old"
    assert sorted(os.listdir(tmp_path)) == sorted([name, "page.html"])


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["none.parquet"], "there is no file none.parquet"),
        (["empty"], "there is nothing to report in empty"),
        (["a.parquet", "b.parquet", "a.parquet"], "a.parquet and b.parquet are both estimates"),
        (["a.parquet", "-o", "empty"], "empty is a folder; give the name of a file in it"),
        (["a.parquet", "-o", "no/where.html"], "cannot be written: there is no folder"),
        (["a.parquet", "--tau", "0"], "--tau is a number above 0; got 0.0"),
        (["a.parquet", "--proven"], "--test, --proven, --measure, --largest, --against and --changes compare periods"),
        (["a.parquet", "--tau", "nan"], "--tau is a number above 0; got nan"),
        (["a.parquet", "--charts", "a.parquet"], "a.parquet cannot be made: File exists"),
        (["a.parquet", "--levels", "x,y"], "a.parquet has no column 'x'; its columns are node"),
    ],
)
def test_a_mistake_is_one_line_and_writes_nothing(
    args: list[str], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    os.mkdir("empty")
    for name in "ab":
        write_table(estimates(labelled(["x"], ["p", "q"])), f"{name}.parquet")
    result = report(*args)
    assert result.exit_code == 2 and result.stderr.count("\n") == 1 and message in result.stderr, result.output
    assert sorted(os.listdir()) == ["a.parquet", "b.parquet", "empty"]


def test_nothing_to_report_and_no_nodes_are_mistakes(tmp_path: Path) -> None:
    assert "missing argument 'FILE...'" in report().stderr
    assert report(biting(tmp_path), "--nodes", "0").exit_code == 2


def test_a_seed_is_told_where_the_file_tells_it(tmp_path: Path) -> None:
    table = estimates(labelled(["x"], ["p", "q"]))
    for name, note in (("a", {"not_private": SEEDED}), ("b", {})):
        write_table(table.replace_schema_metadata(note), str(tmp_path / f"{name}.parquet"))
        html = report(tmp_path / f"{name}.parquet", "-o", "-", "-q").stdout
        assert ("NOT PRIVATE. Do not publish" in html) == bool(note)
    confident = table.replace_schema_metadata({"confidence": "0.9"})
    write_table(confident, str(tmp_path / "c.parquet"))
    assert "90\u00a0% interval" in report(tmp_path / "c.parquet", "-o", "-", "-q").stdout
    assert isinstance(confident, pa.Table)
    for nonsense in ("sure", "nan", "2", ""):
        write_table(table.replace_schema_metadata({"confidence": nonsense}), str(tmp_path / "d.parquet"))
        html = report(tmp_path / "d.parquet", "-o", "-", "-q").stdout
        assert "95\u00a0% interval" in html, "by the width of the intervals"
    bare = table.drop_columns(["noisy", "noise_variance"]).replace_schema_metadata({})
    write_table(bare, str(tmp_path / "d.parquet"))
    assert "95\u00a0% interval by default" in report(tmp_path / "d.parquet", "-o", "-", "-q").stdout


SALES = "campaign,day,Count\nshoes,,103\nshoes,mon,58\nshoes,tue,51\nhats,,2\nhats,mon,-3\nhats,tue,1\n"


@pytest.mark.parametrize("ending", first_of(["csv", "parquet"]))
@pytest.mark.parametrize("shape", first_of(["laplace", "normal"]))
@pytest.mark.parametrize(
    "how", first_of([[], ["--estimator=nonnegative"], ["--joint", "--whole"], ["--estimator=learned"]])
)
def test_the_page_says_of_the_noise_what_the_terminal_says(
    ending: str, shape: str, how: list[str], tmp_path: Path
) -> None:
    """Whatever the column of figures is called, and however the noise was stated."""
    (tmp_path / "sales.csv").write_text(SALES)
    out, args = f"{tmp_path}/out.{ending}", ["--levels", "campaign,day", "--value", "Count", "--variance", "8,4"]
    said = CliRunner().invoke(
        main, ["denoise", "--table", f"{tmp_path}/sales.csv", *args, "--noise", shape, *how, "-o", out]
    )
    z = re.search(r"z = (−?[\d.]+)", said.stderr)
    assert said.exit_code == 0 and z is not None, said.output
    table = read_table(out)
    assert [*table.column_names, "levels"][8:11] == ["noisy", "noise_variance", "levels"]
    assert [float(x) for x in table.column("noisy").to_pylist()] == [103, 58, 51, 2, -3, 1]
    assert [float(x) for x in table.column("noise_variance").to_pylist()] == [8, 4, 4] * 2
    told = [] if ending == "parquet" else ["--noise", shape]
    html = report(out, *told, "-o", "-", "-q").stdout
    assert f'title="z = {z[1]}"' in html
    assert "Noisy error" in html


def test_a_column_that_is_called_noisy_but_is_not_the_value_is_refused(tmp_path: Path) -> None:
    (tmp_path / "sales.csv").write_text("a,Count,noisy\nx,5,yes\n")
    args = ["denoise", "--table", f"{tmp_path}/sales.csv", "--levels", "a", "--value", "Count", "--variance", "1"]
    result = CliRunner().invoke(main, args)
    assert result.exit_code == 2 and "already has a column 'noisy'" in result.stderr
    assert CliRunner().invoke(main, [*args, "--prefix", "d_"]).exit_code == 0


def test_a_table_without_levels_is_named_once(tmp_path: Path) -> None:
    (tmp_path / "g.csv").write_text("a,b,estimate,variance,low,high\nx,1,1,1,0,2\n")
    result = CliRunner().invoke(main, ["report", str(tmp_path / "g.csv"), "-o", str(tmp_path / "r.html")])
    assert result.exit_code == 2 and result.stderr.count("g.csv") == 1, result.stderr


@pytest.mark.parametrize(("cell", "code"), [(" ", 2), ("1_000", 2), ("x" * 5000, 2)])
def test_an_odd_cell_is_one_line(cell: str, code: int, tmp_path: Path) -> None:
    (tmp_path / "g.csv").write_text(f"a,estimate,variance,low,high\nx,{cell},1,0,2\n")
    result = CliRunner().invoke(
        main, ["report", str(tmp_path / "g.csv"), "--levels", "a", "-o", str(tmp_path / "r.html")]
    )
    assert result.exit_code == code and result.stderr.count("\n") == 1 and len(result.stderr) < 500, result.stderr


def test_changes_are_a_table_too(tmp_path: Path) -> None:
    rows = ["store,week,visits", "a,,130", "a,W1,100", "a,W2,28", "b,,61", "b,W1,30", "b,W2,31"]
    (tmp_path / "raw.csv").write_text("\n".join(rows))
    files = ["--table", str(tmp_path / "raw.csv"), "-o", str(tmp_path / "t.csv")]
    made = CliRunner().invoke(main, ["denoise", *files, "--std", "2", "-q"])
    assert made.exit_code == 0, made.output
    result = report(
        tmp_path / "t.csv", "--periods", "week", "-o", tmp_path / "p.html", "--changes", tmp_path / "changes.csv"
    )
    assert result.exit_code == 0 and "changes written to" in result.stderr, result.output
    table = read_table(str(tmp_path / "changes.csv"))
    assert table["store"].to_pylist() == ["a", "b"] and table["verdict"].to_pylist()[0] == "fell"
    now, before, change = ([float(x) for x in table[name].to_pylist()] for name in ("now", "before", "change"))
    assert change == pytest.approx([x - y for x, y in zip(now, before, strict=True)])
    refused = report(tmp_path / "t.csv", "-o", tmp_path / "p.html", "--changes", tmp_path / "changes.csv")
    assert refused.exit_code == 2 and "--changes compare periods" in refused.stderr


def test_a_week_is_compared_with_the_mean_of_the_earlier_ones(tmp_path: Path) -> None:
    weeks = tmp_path / "weeks"
    weeks.mkdir()
    for i, visits in enumerate(((100, 30), (104, 33), (99, 29), (160, 31)), 1):
        raw, made = tmp_path / "raw.csv", weeks / f"week-{i}.csv"
        raw.write_text("store,visits\n" + "".join(f"{store},{x}\n" for store, x in zip("ab", visits, strict=True)))
        asked = ["--table", str(raw), "--levels", "store", "--value", "visits", "--std", "2", "-o", str(made), "-q"]
        assert CliRunner().invoke(main, ["denoise", *asked]).exit_code == 0
    page, changes = tmp_path / "p.html", tmp_path / "c.csv"
    result = report(weeks, "--against", "mean", "-o", page, "--changes", changes)
    assert result.exit_code == 0, result.output
    assert "from the mean of the 3 earlier periods to week-4: +45.1" in result.stderr
    assert "What changed since the mean of the 3 earlier periods" in page.read_text(encoding="utf-8")
    table = read_table(str(changes))
    assert [float(x) for x in table["before"].to_pylist()] == pytest.approx([101, 92 / 3])
    assert [float(x) for x in table["variance_before"].to_pylist()] == pytest.approx([4 / 3, 4 / 3])
    assert table["verdict"].to_pylist() == ["grew", "could be noise"]
    refused = report(weeks / "week-1.csv", "--against", "mean", "-o", page)
    assert refused.exit_code == 2 and "--against" in refused.stderr
