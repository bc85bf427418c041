"""attributary evaluate: on logs, on counts, on a report; what it says of each, and errors of one line."""

import csv
import io
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result

from attributary.cli import main
from attributary.evaluate import evaluate, log_periods, methods, user_cases
from attributary.logs.count import count
from attributary.spec import Spec
from attributary.tables import read_table, write_table

FEW = ["--draws", "5", "--workers", "1"]


@pytest.fixture(scope="module")
def shop(shop_of: Callable[[int], Path]) -> Path:
    folder = shop_of(20_000)
    assert CliRunner().invoke(main, ["count", f"{folder}/spec.toml", "-o", f"{folder}/counts.csv", "-q"]).exit_code == 0
    return folder


def run(*args: object) -> Result:
    return CliRunner().invoke(main, ["evaluate", *map(str, args)])


def test_logs_are_counted_in_a_period(shop: Path) -> None:
    spec, since, until = Spec.load(str(shop / "spec.toml")), "2026-01-30", "2026-02-04"
    periods = log_periods(spec, str(shop), "2026-02-02", since=since, until=until)
    assert periods.earlier.equals(count(spec, str(shop), since=since, until="2026-02-02").table)
    assert periods.measured.equals(count(spec, str(shop), since="2026-02-02", until=until).table)
    assert log_periods(spec, str(shop), since=since).measured.equals(count(spec, str(shop), since=since).table)


def table(text: str) -> list[dict[str, Any]]:
    return list(csv.DictReader(io.StringIO(text)))


def test_on_logs_with_an_earlier_period(shop: Path, tmp_path: Path) -> None:
    out = tmp_path / "errors.parquet"
    done = run(
        shop / "spec.toml", "--prior-until", "2026-02-02", "-o", out, *FEW, "--epsilon", "1,4", "--noise", "api,unit"
    )
    assert done.exit_code == 0 and done.stdout == "", done.output
    found = read_table(str(out))
    spec = Spec.load(f"{shop}/spec.toml")
    after, before = (count(spec, str(shop), **p).table for p in ({"since": "2026-02-02"}, {"until": "2026-02-02"}))
    cases = user_cases(spec, after, before, ("api", "unit"), name="spec", generated=True)
    assert found.equals(evaluate(cases, epsilons=[1, 4], taus=[spec.tau], draws=5).table)
    said = ("measured:", "prior:", "not counted", "under api noise", "under unit noise", "logs were generated")
    for words in (*said, "impressions before 2026-02-02"):
        assert words in done.stderr, words
    assert (tmp_path / "errors.parquet.cache" / "finished.jsonl").exists()


def test_on_counts(shop: Path, tmp_path: Path) -> None:
    done = run(shop / "spec.toml", "--counts", shop / "counts.csv", *FEW)
    assert done.exit_code == 0, done.output
    rows = table(done.stdout)
    assert {row["method"] for row in rows} == {name for name, method in methods().items() if not method.slow}
    assert {row["dataset"] for row in rows} == {"counts"}
    assert "made from the same counts" in done.stderr
    again = run(shop / "spec.toml", "--counts", shop / "counts.csv", *FEW, "-q", "--seed", "0")
    assert again.stdout == done.stdout and again.stderr == ""
    assert run(shop / "spec.toml", "--counts", shop / "counts.csv", *FEW, "-q", "--seed", "1").stdout != done.stdout


def test_methods_by_split_and_estimator_are_printed_with_their_errors(shop: Path) -> None:
    chosen = ["--method", "optimal", "--method", "per-node", "--estimator", "nonnegative"]
    done = run(shop / "spec.toml", "--counts", shop / "counts.csv", *FEW, *chosen)
    rows = {row["method"]: row for row in table(done.stdout) if row["level"] == ""}
    assert list(rows) == ["optimal-nonnegative", "per-node-nonnegative", "zeros"], done.output
    for name, row in rows.items():
        shown = rf"^{methods()[name].title} +{100 * float(row['rmsre']):.2f}% +{name}$"
        assert re.search(shown, done.stderr, re.MULTILINE), done.stderr


def test_the_errors_are_drawn_and_written_as_latex(shop: Path, tmp_path: Path) -> None:
    few = (shop / "spec.toml", "--counts", shop / "counts.csv", *FEW, "--method", "equal", "-q")
    done = run(*few, "--figure", tmp_path / "errors.pdf", "--latex", tmp_path / "errors.tex")
    assert done.exit_code == 0, done.output
    assert (tmp_path / "errors.pdf").read_bytes().startswith(b"%PDF")
    assert r"equal split, unbiased & 0." in (tmp_path / "errors.tex").read_text()
    wrong = run(*few, "--figure", tmp_path / "errors.gif")
    assert wrong.exit_code == 2 and "--figure is a file that ends in .pdf or .svg or .png" in wrong.output
    assert run(*few, "--latex", shop / "spec.toml").exit_code == 2


def test_on_an_earlier_report(shop: Path, tmp_path: Path) -> None:
    done = CliRunner().invoke(main, ["run", f"{shop}/spec.toml", "-o", str(tmp_path / "run"), "--seed", "1", "-q"])
    assert done.exit_code == 0, done.output
    report = tmp_path / "run" / "estimates.parquet"
    found = run(shop / "spec.toml", "--counts", report, "--prior", report, *FEW, "--method", "optimal-nonnegative")
    assert found.exit_code == 0, found.output
    tree, zeros = (row for row in table(found.stdout) if row["level"] == "")
    assert 0 < float(tree["rmsre"]) < float(zeros["rmsre"]) < 1
    assert f"the prior is {report}" in found.stderr
    other = run(shop / "spec.toml", "--counts", shop / "counts.csv", "--prior", report, *FEW, "-q")
    assert other.exit_code == 0, other.output


def test_the_apis_noise_is_the_default_and_roots_can_be_pooled(shop: Path) -> None:
    nodes, roots = (
        table(run(shop / "spec.toml", "--counts", shop / "counts.csv", *FEW, "-q", "--pool", pool).stdout)
        for pool in ("nodes", "roots")
    )
    assert {row["noise"] for row in nodes} == {"api"}
    assert {row["pool"] for row in roots} == {"roots"}
    assert [row["rmsre"] for row in nodes] != [row["rmsre"] for row in roots]


def test_coverage_is_told_where_it_is_asked_for(shop: Path) -> None:
    asked = (shop / "spec.toml", "--counts", shop / "counts.csv", *FEW, "--method", "optimal-nonnegative", "-q")
    with_, without = table(run(*asked, "--coverage").stdout), table(run(*asked).stdout)
    told = [(row["method"] == "zeros", row.pop("coverage"), row.pop("coverage_error")) for row in with_]
    assert all(share == "" if zeros else 0.8 < float(share) <= 1 and float(error) < 0.2 for zeros, share, error in told)
    assert [list(row) for row in with_] == [list(row) for row in without]


KILLED = """
import os, sys
from attributary.cli import main
from attributary.evaluate import Store

def put(store, key, rows, put=Store.put):
    put(store, key, rows)
    if len(open(store._path).readlines()) == 3:
        os._exit(9)  # as a kill ends it: nothing is tidied up

Store.put = put
main(sys.argv[1:])
"""


def test_it_goes_on_after_a_kill(shop: Path, tmp_path: Path) -> None:
    """The killed run has two workers; its pipe closes only once they have ended, too."""
    few = [
        "--draws",
        "5",
        "--tau",
        "5,10",
        "--method",
        "equal-unbiased",
        "--method",
        "leaves-unbiased",
        "--method",
        "equal-raw",
    ]
    options = ["evaluate", f"{shop}/spec.toml", "--counts", f"{shop}/counts.csv", *few, "-q", "-o"]
    whole, part = tmp_path / "whole.csv", tmp_path / "part.csv"
    assert CliRunner().invoke(main, [*options, str(whole), "--workers", "1"]).exit_code == 0
    command = [sys.executable, "-c", KILLED, *options, str(part), "--workers", "2"]
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    killed = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert killed.returncode == 9, killed.stderr
    finished = tmp_path / "part.csv.cache" / "finished.jsonl"
    assert len(finished.read_text().splitlines()) == 3 and not part.exists()
    again = CliRunner().invoke(main, [*options, str(part), "--workers", "1"])
    assert again.exit_code == 0, again.output
    assert len(finished.read_text().splitlines()) == 4
    assert part.read_text() == whole.read_text()


def test_mistakes_are_told_in_a_line(shop: Path, tmp_path: Path) -> None:
    spec, counts = shop / "spec.toml", shop / "counts.csv"
    no_logs, one = tmp_path / "no_logs.toml", tmp_path / "one.toml"
    no_logs.write_text('epsilon = 1\n[[attribute]]\nname = "campaign"\n')
    one.write_text('epsilon = 1\n[[attribute]]\nname = "campaign"\n')
    single, empty, bad = tmp_path / "single.csv", tmp_path / "empty.csv", tmp_path / "bad.csv"
    single.write_text("campaign,conversions\nx,5\n")
    empty.write_text("campaign,conversions\n")
    bad.write_text("campaign,conversions\nx,5\ny,-2\n")
    for arguments, words in (
        ([tmp_path / "none.toml"], "there is no file"),
        ([no_logs], "the spec has no section [logs]; add it, or give --counts"),
        ([spec, "--counts", counts, "--prior-until", "2026-02-02"], "--prior-until divides the spec's logs"),
        ([spec, "--counts", counts, "--from", "2026-02-02"], "--from and --until select impressions in logs"),
        ([spec, "--prior-until", "1999-01-01"], "there is no impression to count in the period"),
        ([spec, "--prior-until", "2999-01-01"], "there is no impression to count in the period"),
        ([one, "--counts", single], "a tree of one node has nothing to split"),
        ([one, "--counts", empty], "empty.csv is an empty table"),
        ([one, "--counts", bad], "bad.csv: row 2 (line 3): a count is a number, 0 or more"),
        ([one, "--counts", tmp_path / "none.csv"], "none.csv"),
        ([spec, "--counts", single], "single.csv"),
        ([spec, "--counts", spec], "spec.toml"),
        ([spec, "--counts", counts, "--prior-epsilon", "0"], "the prior's epsilon is a positive number; got 0"),
        ([spec, "-o", tmp_path / "x.doc"], "x.doc does not end like a table"),
        ([spec, "-o", tmp_path / "none" / "x.csv"], "there is no folder"),
    ):
        done = run(*arguments, *FEW)
        assert done.exit_code == 2, (arguments, done.output)
        assert words in done.stderr and done.stderr.startswith("error: "), (arguments, done.stderr)
        assert done.stderr.count("\n") == 1


def test_a_prior_of_other_columns_is_refused(shop: Path, tmp_path: Path) -> None:
    import pyarrow as pa

    rows = read_table(f"{shop}/counts.csv")
    sold = ["sold" if name == "conversions" else name for name in rows.column_names]
    write_table(rows.rename_columns(sold), str(tmp_path / "sold.csv"))
    done = run(shop / "spec.toml", "--counts", tmp_path / "sold.csv")
    assert done.exit_code == 2 and "has neither conversions (counts) nor estimate and variance" in done.stderr
    other = rows.set_column(0, "campaign", pa.array([f"new {i}" for i in np.arange(len(rows)) // 500]))
    write_table(other, str(tmp_path / "other.csv"))
    done = run(shop / "spec.toml", "--counts", shop / "counts.csv", "--prior", tmp_path / "other.csv", *FEW)
    assert done.exit_code == 2 and "none of its" in done.stderr, done.output
