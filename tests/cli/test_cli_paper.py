"""attributary paper: one folder with the table, the figures and a page; an interrupt is told of; errors of one line."""

import multiprocessing
import os
import pty
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from attributary.budget import METHODS as SPLITS
from attributary.cli import main
from attributary.cli.evaluate import POOLS, methods_help
from attributary.cli.paper import DATASETS
from attributary.estimators import ESTIMATORS
from attributary.evaluate import Store
from attributary.evaluate.simulation import Pool
from attributary.paper import experiment as paper_module
from attributary.paper import generate
from attributary.paper.experiment import PAPER
from attributary.tables import read_table
from support.command import PYTHON

SMALL = ["--generated", "--rows", "3000", "--epsilon", "1,4", "--draws", "4"]


def run(*args: object) -> Result:
    return CliRunner().invoke(main, ["paper", *map(str, args)])


def test_the_command_knows_what_the_library_does() -> None:
    named = [line.split()[0] for line in methods_help().splitlines() if line.startswith("    ")]
    assert named == [name for name in (*SPLITS, "planned", *ESTIMATORS) if name != "zeros"]
    shown = run("--help").output
    assert all(f"  {name} " in shown for name in named) and "zeros, which answers 0 everywhere" in " ".join(
        shown.split()
    )
    assert list(PAPER) == DATASETS
    assert list(Pool.__args__) == POOLS  # type: ignore[attr-defined]


def test_the_folder(tmp_path: Path) -> None:
    methods = ["greedy-unbiased", "equal-raw", "optimal-nonnegative"]
    options = [*SMALL, *(f"--method={name}" for name in methods), "--workers", 1, "-o", tmp_path / "out"]
    done = run("camb", *options)
    assert done.exit_code == 0 and done.stdout == "", done.output
    assert sorted(os.listdir(tmp_path / "out")) == [
        "cache",
        *(f"camb-{noise}.{kind}" for noise in ("api", "unit") for kind in ("pdf", "png", "svg")),
        *("evaluation.parquet", "evaluation.tex", "index.html"),
    ]
    table = read_table(str(tmp_path / "out" / "evaluation.parquet"))
    found = table.to_pylist()
    assert {(row["tree"], row["noise"], row["tau"], row["epsilon"]) for row in found} == {
        (tree, noise, tau, epsilon)
        for tree in ("depth 4", "depth 3")
        for noise in ("api", "unit")
        for tau in (5, 10)
        for epsilon in (1, 4)
    }
    assert {row["method"] for row in found} == {*methods, "zeros"}
    assert all(row["generated"] for row in found)
    assert "The rows were generated" in (tmp_path / "out" / "index.html").read_text(encoding="utf-8")
    for words in (
        "camb, depth 3: tree error under unit noise, τ = 5",
        "on generated rows",
        "its rows were generated",
    ):
        assert words in done.stderr, words
    assert run("camb", *options, "-q").output == ""
    assert read_table(str(tmp_path / "out" / "evaluation.parquet")).equals(table)


def test_a_file_and_csv(tmp_path: Path) -> None:
    generate("csscl", str(tmp_path / "rows.tsv.gz"), 4_000, 0)
    options = ["--epsilon", "4", "--tau", "10", "--noise", "api", "--draws", "0", "--method", "greedy-unbiased", "-q"]
    done = run(
        "csscl", tmp_path / "rows.tsv.gz", *options, "-o", tmp_path / "out", "--format", "csv", "--cache", tmp_path
    )
    assert (done.exit_code, done.output) == (0, "")
    assert (tmp_path / "finished.jsonl").exists() and not (tmp_path / "out" / "cache").exists()
    found = read_table(str(tmp_path / "out" / "evaluation.csv")).to_pylist()
    assert [row["level"] for row in found[-5:]] == ["partner", "country", "device", "delay", None]
    assert {row["kind"] for row in found} == {"exact"} and {row["generated"] for row in found} == {"true"}


def test_what_is_not_counted_is_told(tmp_path: Path) -> None:
    options = [
        "--generated",
        "--rows",
        "20000",
        "--epsilon",
        "4",
        "--draws",
        "0",
        "--noise",
        "api",
        "--method",
        "equal-raw",
    ]
    done = run("csscl", *options, "--missing", "drop", "-o", tmp_path)
    assert done.exit_code == 0, done.output
    assert re.search(r"^not counted: [\d,]+ rows with a missing attribute, with [\d,]+ conversions$", done.stderr, re.M)
    assert re.search(r"^not counted: \d+ conversions without a delay$", done.stderr, re.M)


FEW = ["--method", "equal-unbiased", "--method", "leaves-unbiased", "--noise", "api"]


@pytest.mark.parametrize("place", [(paper_module, "generate"), (Store, "put")], ids=["counting", "workers"])
def test_ctrl_c_says_how_to_go_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: tuple[Any, str]) -> None:
    """Pressed while rows are generated, or while two workers are under way, which are not waited for."""

    def press(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(*place, press)
    done = run("camb", *SMALL, *FEW, "--workers", 2, "-o", tmp_path / "out")
    assert done.exit_code == 130
    assert done.stderr == "interrupted; run the same command again to continue from here\n"
    assert multiprocessing.active_children() == []


@pytest.mark.sweep
def test_a_terminal_sees_a_bar(tmp_path: Path) -> None:
    ours, theirs = pty.openpty()
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "120"}
    command = [*PYTHON, "paper", "camb", *SMALL, *FEW, "--workers", "1", "-o", str(tmp_path)]
    with subprocess.Popen(command, stderr=theirs, env=environment):
        os.close(theirs)
        shown = b""
        try:
            while piece := os.read(ours, 65_536):
                shown += piece
        except OSError:  # the other end is closed
            pass
    os.close(ours)
    words = shown.decode()
    assert "counting" in words and "of 8 splits" in words and "index.html to see the results" in words


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["shop", "--generated", "-o", "x"], "'shop' is not one of 'csscl', 'camb'"),
        (["camb", "-o", "x"], "error: give either the published file or --generated"),
        (["camb", "file", "--generated", "-o", "x"], "error: give either the published file or --generated"),
        (["camb", "file", "--rows", "5", "-o", "x"], "error: --rows says how many to generate"),
        (["camb", "none.tsv", "-o", "x"], "error: there is no file none.tsv"),
        (["camb", "--generated"], "missing option '-o'"),
        (["camb", "--generated", "-o", "x", "--epsilon", "1,0"], "'1,0' is not a list of positive numbers"),
        (["camb", "--generated", "-o", "x", "--epsilon", "nan"], "'nan' is not a list of positive numbers"),
        (["camb", "--generated", "-o", "x", "--tau", "a"], "'a' is not a list of positive numbers"),
        (["camb", "--generated", "-o", "x", "--method", "best"], "'best' is not one of"),
        (["camb", "--generated", "-o", "x", "--estimator", "best"], "'best' is not one of"),
        (["camb", "--generated", "-o", "x", "--noise", "api,both"], "got 'both'"),
        (["camb", "--generated", "--rows", "50", "-o", "x", "--draws", "1"], "1 draw has no standard error"),
        (["camb", "--generated", "--rows", "1", "-o", "x"], "error: "),
        (
            ["camb", "--generated", "--rows", "50", "-o", "x"],
            "error: camb: the first days cannot be a prior",
        ),
        (["camb", "--generated", "-o", "taken"], "error: taken is not a writable folder"),
    ],
    ids=lambda x: " ".join(x) if isinstance(x, list) else "",
)
def test_mistakes_are_told_in_a_line(
    arguments: list[str], words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "taken").write_text("")
    done = run(*arguments)
    assert done.exit_code == 2, done.output
    assert words in done.stderr
    assert "\n" not in done.stderr.split("error: ")[-1].strip() or "Usage" in done.stderr
    assert not (tmp_path / "x" / "index.html").exists()
