"""--estimator learned and --prior: the library's answer, one more column, and errors of one line."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from click.testing import CliRunner

from attributary import denoise, prior
from attributary.cli import main
from attributary.pipeline.read_prior import past_of_table
from attributary.tables import read_table, write_table
from command import ADDED
from test_learned_prior import measured, world

LEVELS = ["partner", "campaign", "day"]


@pytest.fixture
def files(tmp_path: Path) -> Path:
    """Noisy figures of every node, and an earlier period's counts and estimates."""
    of = world(1)
    given, nodes = measured(of, 50.0, 0), of.tree.table().select(LEVELS)
    write_table(nodes.append_column("noisy", [given.noisy]), str(tmp_path / "noisy.parquet"))
    leaf = of.tree.is_leaf
    counts = nodes.append_column("conversions", [of.earlier.mean]).filter(pa.array(leaf))
    write_table(counts, str(tmp_path / "counts.csv"))
    then = denoise(of.tree, of.earlier.mean + 1.0, 9.0)
    table = nodes.append_column("estimate", [then.count]).append_column("variance", [then.variance])
    write_table(table, str(tmp_path / "estimates.csv"))
    return tmp_path


def run(folder: Path, *options: str) -> pa.Table:
    table = ["denoise", "--table", str(folder / "noisy.parquet"), "--levels", ",".join(LEVELS), "--value", "noisy"]
    result = CliRunner().invoke(main, [*table, "--variance", "50", *options, "-o", str(folder / "out.parquet")])
    assert result.exit_code == 0, result.stderr
    assert ("no longer unbiased" in result.stderr) == any("from_prior" in n for n in read(folder).column_names)
    return read(folder)


def read(folder: Path) -> pa.Table:
    return read_table(str(folder / "out.parquet"))


@pytest.mark.parametrize("earlier", [None, "counts.csv", "estimates.csv"])
def test_it_is_the_librarys_answer(files: Path, earlier: str | None) -> None:
    of = world(1)
    given = measured(of, 50.0, 0)
    path = None if earlier is None else str(files / earlier)
    past = None if path is None else past_of_table(of.tree, path).of[0]
    known = prior.learn(of.tree, given.noisy, given.variance, past)
    est = denoise(of.tree, given, prior=known, nonnegative=True)
    table = run(files, *(["--estimator", "learned"] if path is None else ["--prior", path]))
    assert table.column_names == [*LEVELS, "noisy", *ADDED, "from_prior", "noise_variance"]
    assert np.allclose(table.column("estimate").to_numpy(), est.count)
    assert np.allclose(table.column("from_prior").to_numpy(), est.from_prior)
    assert (known.new is None) == (earlier is None)
    assert not np.allclose(est.count, denoise(of.tree, given, nonnegative=True).count)


def test_without_a_prior_there_is_no_such_column(files: Path) -> None:
    assert run(files).column_names == [*LEVELS, "noisy", *ADDED, "noise_variance"]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--prior", "nowhere.csv"], "nowhere.csv"),
        (["--prior", "NOISY"], "neither conversions"),
        (["--estimator", "learned", "--joint"], "--joint goes with --estimator nonnegative"),
    ],
)
def test_errors_are_one_line(files: Path, options: list[str], said: str) -> None:
    options = [str(files / "noisy.parquet") if option == "NOISY" else option for option in options]
    table = ["denoise", "--table", str(files / "noisy.parquet"), "--levels", ",".join(LEVELS), "--value", "noisy"]
    result = CliRunner().invoke(main, [*table, "--variance", "50", "-q", *options])
    assert result.exit_code == 2 and said in result.stderr
    assert result.stderr.count("\n") == 1 and result.stderr.startswith("error: ")


def test_a_column_that_would_be_hidden_is_refused(files: Path) -> None:
    of = world(1)
    table = of.tree.table().select(LEVELS).append_column("from_prior", [of.now])
    write_table(table, str(files / "taken.parquet"))
    args = ["denoise", "--table", str(files / "taken.parquet"), "--levels", ",".join(LEVELS), "--value", "from_prior"]
    result = CliRunner().invoke(main, [*args, "--variance", "50", "-q", "--estimator", "learned"])
    assert result.exit_code == 2 and "--prefix" in result.stderr
    assert CliRunner().invoke(main, [*args, "--variance", "50", "-q"]).exit_code == 0
    assert prior.learn(of.tree, of.now, 50.0).share is not None
