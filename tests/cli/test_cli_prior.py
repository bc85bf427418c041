"""--estimator learned and --prior: the library's answer, one more column, and errors of one line."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from click.testing import CliRunner
from tests.prior.test_learned_prior import measured, world

from attributary import Tree, denoise, prior
from attributary.cli import main
from attributary.errors import InputError
from attributary.estimators import Estimator
from attributary.pipeline.denoise_table import denoise_table
from attributary.pipeline.read_prior import prior_of_figures
from attributary.tables import read_table, write_table
from support.command import ADDED

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
    past = None if path is None else prior_of_figures(of.tree, path)
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


def test_a_folder_of_earlier_reports(files: Path) -> None:
    of, folder = world(1), files / "weeks"
    folder.mkdir()
    for week in range(3):
        then = denoise(of.tree, of.earlier.mean + np.random.default_rng(week).laplace(0, 2, len(of.tree)), 8.0)
        write_table(then.table(), str(folder / f"{week}.parquet"))
    table = ["denoise", "--table", str(files / "noisy.parquet"), "--levels", ",".join(LEVELS), "--value", "noisy"]
    options = ["--variance", "50", "--prior", str(folder), "-o", str(files / "now.parquet")]
    result = CliRunner().invoke(main, [*table, *options])
    assert result.exit_code == 0, result.stderr
    assert f"the prior {folder}: 3 periods (0 to 2), discount " in result.stderr
    (files / "now.parquet").rename(folder / "3.parquet")
    again = CliRunner().invoke(main, [*table, *options])
    assert again.exit_code == 2 and "already has a report with the noisy figures" in again.stderr


SPEC = """
epsilon = 4
[[attribute]]
name = "campaign"
[[attribute]]
name = "day"
unknown = true
domain = ["mon", "tue"]
"""


def test_a_plan_for_an_average_period_of_the_last_tree(tmp_path: Path) -> None:
    (tmp_path / "spec.toml").write_text(SPEC)
    (tmp_path / "weeks").mkdir()
    for week, campaigns in (("1", "ab"), ("2", "bc")):
        paths = [(c, d) for c in campaigns for d in (None, "mon", "tue")]
        tree = Tree.from_paths({"campaign": [c for c, _ in paths], "day": [d for _, d in paths]}, ["campaign", "day"])
        est = denoise(tree, np.tile([100.0, 60.0, 40.0], 2) * int(week) + ord(campaigns[0]) % 2, 2.0)
        write_table(est.table(), str(tmp_path / "weeks" / f"{week}.csv"))
    command = ["plan", str(tmp_path / "spec.toml"), "--prior", str(tmp_path / "weeks"), "-o", str(tmp_path / "p.json")]
    result = CliRunner().invoke(main, command)
    assert result.exit_code == 0, result.stderr
    assert result.stderr.startswith("6 rows in 2 levels")  # a is gone
    assert "2 periods (1 to 2), discount 0.8, 356 conversions in an average period" in result.stderr


def refused(folder: Path, *options: str) -> str:
    table = ["denoise", "--table", str(folder / "noisy.parquet"), "--levels", ",".join(LEVELS), "--value", "noisy"]
    result = CliRunner().invoke(main, [*table, "--variance", "50", *options, "-o", str(folder / "never.parquet")])
    assert result.exit_code == 2 and result.stderr.count("\n") == 1 and not (folder / "never.parquet").exists()
    return result.stderr


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_todays_own_report_is_no_prior_even_without_some_rows(files: Path, ending: str) -> None:
    own = str(files / f"own.{ending}")
    report = run(files)
    some = np.arange(report.num_rows) % 5 > 0
    for rows in (report, report.filter(pa.array(some))):
        write_table(rows, own)
        assert "would count twice; give a report of an earlier period" in refused(files, "--prior", own)
    counts = report.filter(pa.array(world(1).tree.is_leaf)).select([*LEVELS, "noisy"])
    counts = counts.set_column(3, "conversions", [np.maximum(counts.column("noisy").to_numpy(), 0)])
    write_table(counts, own)  # figures of today, taken for exact counts
    assert "would count twice" in refused(files, "--prior", own)


def test_a_report_of_other_noise_on_the_same_counts_is_a_prior(files: Path) -> None:
    of, nodes = world(1), world(1).tree.table().select(LEVELS)
    then = measured(of, 50.0, 7)
    est = denoise(of.tree, then)
    table = nodes.append_column("noisy", [then.noisy]).append_column("estimate", [est.count])
    write_table(table.append_column("variance", [est.variance]), str(files / "then.parquet"))
    run(files, "--prior", str(files / "then.parquet"))


def test_a_prior_of_which_less_than_half_is_here_is_told_first(files: Path) -> None:
    counts = read_table(str(files / "counts.csv"))
    names = pa.array([f"{name}-old" for name in counts.column("partner").to_pylist()])
    kept = np.arange(counts.num_rows) % 4 == 0
    mixed = pa.array(np.where(kept, counts.column("partner").to_pylist(), names.to_pylist()))
    write_table(counts.set_column(0, "partner", mixed), str(files / "other.csv"))
    table = ["denoise", "--table", str(files / "noisy.parquet"), "--levels", ",".join(LEVELS), "--value", "noisy"]
    given = [*table, "--variance", "50", "-o", str(files / "out.parquet"), "--prior"]
    said = CliRunner().invoke(main, [*given, str(files / "other.csv")]).stderr.splitlines()
    assert said[0].startswith("warning: the prior hardly fits: ") and "partner=" in said[0]
    assert "hardly fits" not in CliRunner().invoke(main, [*given, str(files / "counts.csv")]).stderr


def test_what_would_have_no_part_is_refused(files: Path) -> None:
    table = read_table(str(files / "noisy.parquet"))
    with pytest.raises(
        InputError, match="`prior` goes with `estimator=learned or posterior`; got `estimator=unbiased`"
    ):
        denoise_table(table, LEVELS, "noisy", variance=50.0, estimator=Estimator(), prior=str(files / "counts.csv"))
    assert "--protected describes the counts in --prior" in refused(files, "--protected")
