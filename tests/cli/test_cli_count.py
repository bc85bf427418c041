"""attributary count: the table to a file or standard output, words to standard error; a mistake leaves the old file."""

import csv
import io
import json
import os
import subprocess
import sys
from functools import partial
from pathlib import Path

import pyarrow as pa
import pytest

from attributary.cli import printing
from attributary.cli.print_results import print_counts
from attributary.logs import count
from attributary.logs.counts import Counts
from attributary.logs.labels import OutsideDomain
from attributary.spec import Spec
from attributary.tables import read_table
from attributary.tables.table_columns import TRUE_COUNTS
from support.command import PYTHON, attributary

SPEC = """
epsilon = 1
[[attribute]]
name = "campaign"
[[attribute]]
name = "day"
unknown = true
domain = ["mon", "tue"]
[logs]
impressions = "i.csv"
conversions = "c.csv"
user = "user"
time = "time"
window = "1h"
"""
IMPRESSIONS = "user,time,campaign\na,0,x\nb,100,y\n"
CONVERSIONS = "user,time,day\na,1,mon\na,2,mon\nb,101,sun\nb,9999,mon\nz,1,mon\n,1,mon\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "logs").mkdir()
    for name, text in {"spec.toml": SPEC, "i.csv": IMPRESSIONS, "c.csv": CONVERSIONS}.items():
        (tmp_path / "logs" / name).write_text(text)
    return tmp_path / "logs"


run = partial(attributary, "count", code=None)


def test_counts_go_to_standard_output_and_words_to_standard_error(folder: Path) -> None:
    result = run(folder / "spec.toml")
    assert result.exit_code == 0, result.output
    rows = list(csv.DictReader(io.StringIO(result.stdout)))
    assert [tuple(row.values()) for row in rows] == [
        ("x", "mon", "1", "1", TRUE_COUNTS),
        ("x", "tue", "", "0", TRUE_COUNTS),
        ("y", "mon", "1", "0", TRUE_COUNTS),
        ("y", "tue", "", "0", TRUE_COUNTS),
    ]
    assert [" ".join(line.split()) for line in result.stderr.splitlines()] == [
        "2 impressions, 1 conversions, 4 leaves",
        "conversions not counted:",
        "1 no impression before it",
        "1 not within the window of 1h",
        "1 its impression has a conversion already",
        "1 no user, key or time",
        "1 day not in its domain: sun (1)",
        f"4 rows written to standard output; {TRUE_COUNTS}",
    ]


def test_what_was_counted_and_what_was_not_is_data(folder: Path) -> None:
    counts = count(Spec.load(str(folder / "spec.toml")), str(folder))
    summary = json.loads(json.dumps(counts.summary()))
    assert (summary["impressions"], summary["conversions"], summary["table_rows"], summary["rows_read"]) == (2, 1, 4, 8)
    assert list(summary["conversions_not_counted"].values()) == [1, 1, 1, 1, 1]
    assert summary["outside_domain"] == [{"attribute": "day", "conversions": 1, "values": {"sun": 1}, "kept": False}]


def test_files_are_relative_to_the_spec_and_those_of_the_command_to_where_it_runs(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder.parent)
    Path("more.csv").write_text(IMPRESSIONS + "c,5,w\n")
    Path("sales.csv").write_text("user,time,day\nc,6,tue\n")
    assert run("logs/spec.toml", "-q", "-o", "a.parquet").stderr == ""
    assert run("logs/spec.toml", "more.csv", "--conversions", "sales.csv", "-o", "b.parquet", "-q").exit_code == 0
    assert read_table("a.parquet").num_rows == 4
    found = [row for row in read_table("b.parquet").to_pylist() if row["conversions"]]
    assert found == [{"campaign": "w", "day": "tue", "impressions": None, "conversions": 1}]


def test_a_period(folder: Path) -> None:
    refused = run(folder / "spec.toml", "--from", "50")  # its only conversion is on a Sunday
    words = "error: no conversion is in the domains of the spec: day is sun; write the values of a domain as"
    assert refused.exit_code == 2 and refused.stdout == "" and refused.stderr.startswith(words), refused.stderr
    assert run(folder / "spec.toml", "--until", "1m", "--threads", "1", "--memory", "1GB").stdout.count("\n") == 3


@pytest.mark.parametrize("command", ["count", "run", "evaluate"])
def test_a_domain_that_matches_no_conversion_is_refused(command: str, folder: Path, tmp_path: Path) -> None:
    (folder / "spec.toml").write_text(SPEC.replace('"mon", "tue"', '"Monday", "Tuesday"'))
    out = tmp_path / "out.csv"
    refused = attributary(command, folder / "spec.toml", "-o", out, code=2)
    assert "day is mon, sun; write the values of a domain as the logs do" in refused.stderr and not out.exists()


def test_rows_with_their_conversions(folder: Path) -> None:
    (folder / "rows.tsv").write_text("campaign\tday\tsale\nx\tmon\t1\nx\ttue\t0\n")
    text = SPEC[: SPEC.index("[logs]")] + '[logs]\nattributed = "none.tsv"\nconverted = "sale"\n'
    (folder / "spec.toml").write_text(text)
    assert "x,mon,2,1" in run(folder / "spec.toml", folder / "rows.tsv").stdout
    refused = run(folder / "spec.toml", folder / "rows.tsv", "--conversions", "x")
    assert refused.exit_code == 2 and "leave conversions out" in refused.stderr


MISTAKES = {
    "no spec": (["none.toml"], "there is no file none.toml"),
    "no file": (["spec.toml", "none.csv"], "there is no file"),
    "memory": (["spec.toml", "--memory", "lots"], "DuckDB does not accept 'lots' as memory_limit"),
    "temp": (["spec.toml", "--temp", "none"], "none cannot hold temporary files"),
    "clock": (
        ["spec.toml", "--from", "2026-01-01"],
        "dates are for times that count from 1970; those of i.csv are numbers near 100",
    ),
    "master": (["spec.toml", "--master", "local"], "master is an option of Spark"),
    "memory for Spark": (["spec.toml", "--engine", "spark", "--memory", "1GB"], "memory is an option of DuckDB"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_one_line_and_leaves_the_old_file(
    name: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    Path("out.csv").write_text("old")
    before = sorted(os.listdir())
    args, message = MISTAKES[name]
    result = run(*([] if "-o" in args else ["-o", "out.csv"]), *args)
    assert result.exit_code == 2 and result.stdout == "", result.output
    assert result.stderr.startswith("error: ") and result.stderr.count("\n") == 1 and message in result.stderr
    assert Path("out.csv").read_text() == "old" and sorted(os.listdir()) == before


def test_an_output_that_cannot_be_is_refused_before_reading(folder: Path) -> None:
    result = run(folder / "none.toml", "-o", folder / "no" / "out.csv")
    assert result.exit_code == 2 and "there is no folder" in result.stderr


def test_interrupted_while_counting_leaves_the_old_file(folder: Path) -> None:
    (folder / "out.csv").write_text("old")
    (folder / "temp").mkdir()
    code = """
import signal, sys
from attributary.cli import main, printing
from attributary.logs import duckdb
duckdb._rows = lambda files: '(SELECT i AS "user", i AS time, i AS campaign, i AS day FROM range(1000000000000) t(i))'
class Bar:
    reports = 0
    def __enter__(self):
        return self
    def __exit__(self, *_):
        pass
    def __call__(self, stage, share):  # told every tenth of a second how far the query has come
        self.reports += 1
        if self.reports == 5:
            signal.raise_signal(signal.SIGINT)
printing.reading_bar = lambda show, rows: Bar()
main(sys.argv[1:])
"""
    args = [sys.executable, "-c", code, "count", "spec.toml", "-o", "out.csv", "--temp", "temp"]
    done = subprocess.run(args, cwd=folder, capture_output=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (130, b"interrupted; nothing was written\n")
    assert (folder / "out.csv").read_text() == "old" and os.listdir(folder / "temp") == []
    assert sorted(os.listdir(folder)) == ["c.csv", "i.csv", "out.csv", "spec.toml", "temp"]


def test_the_bar_shows_rows_a_second(monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    clock = iter(range(10**9))
    monkeypatch.setattr(printing.time, "perf_counter", lambda: float(next(clock)))
    monkeypatch.setattr(sys, "stderr", Terminal())
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "120")
    with printing.reading_bar(True, lambda: 1_000_000) as report:
        for share in (None, 0.1, 0.2, 0.9):
            report("counting impressions", share)
    assert "counting impressions" in sys.stderr.getvalue() and "rows per second" in sys.stderr.getvalue()  # type: ignore[attr-defined]


def test_what_is_outside_is_listed_with_its_most_frequent_values(capsys: pytest.CaptureFixture[str]) -> None:
    outside = (OutsideDomain("day", 12, {"sun": 7, "a\nb": 2}, False), OutsideDomain("day", 3, {"x": 3}, True))
    print_counts(Counts(pa.table({"row": ["x"]}), 5, 9, outside=outside, undated=2), Spec.parse(SPEC))
    words = capsys.readouterr().err
    assert "12  day not in its domain: sun (7), a\\nb (2), …" in words
    assert "3 conversions count as other: day not in its domain: x (3)\n" in words
    assert "2 impressions have no time" in words


def test_help_names_every_option() -> None:
    words = subprocess.run([*PYTHON, "count", "--help"], capture_output=True, text=True, check=True).stdout
    assert all(option in words for option in ("--engine", "--memory", "--temp", "--from", "--until", "--threads", "-o"))
