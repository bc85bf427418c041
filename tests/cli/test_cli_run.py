"""attributary run: from logs to estimates that add up, in one folder; what it simulates is what a plan promises."""

import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

import attributary
from attributary.explore import open_session
from attributary.logs.count import count
from attributary.measurements import Measurements
from attributary.pipeline.run_by_root import Groups
from attributary.plan import Plan, make_plan
from attributary.prior import from_counts
from attributary.spec import Spec
from attributary.tables import read_table
from attributary.tables.table_columns import SEEDED, TRUE_COUNTS, words_of
from support.command import PYTHON
from support.command import attributary as command_line
from support.effort import first_of

pytestmark = pytest.mark.usefixtures("undrawn")

CONTRACT = ["noisy", "noise_variance", "estimate", "variance", "low", "high", "correction"]
PER_IMPRESSION = ["impressions", "rate", "rate_low", "rate_high"]


@pytest.fixture(scope="module")
def shop(shop_of: Callable[[int], Path]) -> Path:
    return shop_of(20_000)


run = partial(command_line, "run", code=None)


def test_the_whole_way(shop: Path, tmp_path: Path) -> None:
    result = run(shop / "spec.toml", "-o", tmp_path / "out", "--prior-until", "2026-02-02")
    assert result.exit_code == 0 and result.stdout == "", result.output
    assert sorted(os.listdir(tmp_path / "out")) == [
        "counts.parquet",
        "estimates.parquet",
        "plan.json",
        "prior.parquet",
        "report.html",
    ]
    rows = read_table(str(tmp_path / "out" / "estimates.parquet")).to_pylist()
    assert list(rows[0]) == ["node", "parent", "level", "campaign", "location", "day", *CONTRACT, *PER_IMPRESSION]
    seen = pq.read_table(tmp_path / "out" / "counts.parquet").column("impressions").to_pandas().sum()
    assert sum(row["impressions"] for row in rows if row["level"] == 0) == seen
    for row in rows:
        above = rows[row["parent"]]
        assert row["level"] < 2 or row["impressions"] == above["impressions"], "no impression has a day"
        assert row["rate_low"] * row["impressions"] == pytest.approx(row["low"])
        assert row["rate"] * row["impressions"] == pytest.approx(row["estimate"])
    below: dict[int, float] = {}
    for row in rows:
        below[row["parent"]] = below.get(row["parent"], 0) + row["estimate"]
    assert all(abs(below[row["node"]] - row["estimate"]) < 1e-6 for row in rows if row["node"] in below)
    plan = Plan.load(str(tmp_path / "out" / "plan.json"))
    assert plan.prior.history and not plan.prior.protected
    html = (tmp_path / "out" / "report.html").read_text()
    assert "Conversions by campaign, location and day (generated data)</title>" in html
    for words in (
        "the rows of these logs were generated",
        "conversions not counted",
        "impressions before 2026-02-02",
        "NOT protected",
        "error of this",
    ):
        assert words in result.stderr, words


def test_generated_data_is_called_so_wherever_it_is_shown(shop: Path, tmp_path: Path) -> None:
    for week in ("weeks/1", "weeks/2"):
        assert run(shop / "spec.toml", "-o", tmp_path / week).exit_code == 0
    for of in ("weeks/1", "weeks"):
        command_line("report", tmp_path / of, "-o", tmp_path / "page.html")
        html = (tmp_path / "page.html").read_text()
        assert "(generated data)</title>" in html and '<span class="badge">generated data</span>' in html, of
        with closing(open_session(str(tmp_path / of))) as session:
            assert session.about({})["table"]["generated"], of
    bare = read_table(str(tmp_path / "weeks/1/estimates.parquet")).replace_schema_metadata()
    pq.write_table(bare, tmp_path / "bare.parquet")
    command_line("report", tmp_path / "bare.parquet", "-o", tmp_path / "page.html")
    assert "generated data" not in (tmp_path / "page.html").read_text()


@pytest.mark.parametrize("estimator", ["unbiased", "learned"])
def test_the_command_writes_what_the_library_gives(estimator: str, shop: Path, tmp_path: Path) -> None:
    path, when = str(shop / "spec.toml"), "2026-02-02"
    done = attributary.run(path, prior_until=when, estimator=estimator, rng=np.random.default_rng(1))
    run(path, "--prior-until", when, "--seed", 1, "-q", "-o", tmp_path, "--estimator", estimator, code=0)
    assert Plan.load(str(tmp_path / "plan.json")) == done.plan.to_hand_on
    for name, table in done.tables.items():
        written = read_table(str(tmp_path / f"{name}.parquet"))
        assert written.equals(table) and words_of(written) == words_of(table), name
    assert (tmp_path / "report.html").read_text() == done.page(("plan.json", "estimates.parquet"))
    truth, est = done.truth["count"], done.estimates["count"]
    assert truth[done.tree.roots].sum() == done.counts.conversions and est.not_private == SEEDED
    assert 0 < done.errors["count"] < 1 and done.generated


def test_estimates_are_near_the_counts(shop: Path, tmp_path: Path) -> None:
    assert run(shop / "spec.toml", "-o", tmp_path, "--seed", 1, "-q").stderr == f"{tmp_path}: {SEEDED}\n"
    counts = {
        tuple(row.values())[:3]: row["conversions"] for row in read_table(f"{tmp_path}/counts.parquet").to_pylist()
    }
    leaves = [row for row in read_table(f"{tmp_path}/estimates.parquet").to_pylist() if row["level"] == 2]
    assert {(row["campaign"], row["location"], row["day"]) for row in leaves} == counts.keys()
    apart = [row["estimate"] - counts[row["campaign"], row["location"], row["day"]] for row in leaves]
    spread = np.sqrt(np.mean(np.square(apart) / [row["variance"] for row in leaves]))
    assert 0.7 < spread < 1.4 and abs(np.mean(apart)) < 0.3


def test_the_page_tells_the_confidence_that_was_asked_for(shop: Path, tmp_path: Path) -> None:
    run(shop / "spec.toml", "-o", tmp_path, "--confidence", 0.8, "-q")
    assert "80\u00a0% interval" in (tmp_path / "report.html").read_text()


def test_a_seed_gives_the_same_and_says_that_it_is_not_for_release(shop: Path, tmp_path: Path) -> None:
    for name, seed in (("a", ["--seed", 5]), ("b", ["--seed", 5]), ("c", [])):
        result = run(shop / "spec.toml", "-o", tmp_path / name, *seed)
        assert ("not for release" in result.stderr) == bool(seed)
    a, b, c = (pq.read_table(tmp_path / name / "estimates.parquet") for name in "abc")
    assert a.equals(b) and not a.equals(c)
    assert [words_of(table) for table in (a, b, c)] == [SEEDED, SEEDED, ""]
    assert words_of(pq.read_table(tmp_path / "c" / "counts.parquet")) == TRUE_COUNTS


def test_formats_and_estimators(shop: Path, tmp_path: Path) -> None:
    result = run(shop / "spec.toml", "-o", tmp_path, "--format", "csv", "--estimator", "nonnegative", "--whole", "-q")
    assert result.exit_code == 0 and sorted(os.listdir(tmp_path)) == [
        "counts.csv",
        "estimates.csv",
        "plan.json",
        "report.html",
    ]
    estimates = [row["estimate"] for row in read_table(str(tmp_path / "estimates.csv")).to_pylist()]
    assert all(float(x) >= 0 and float(x).is_integer() for x in estimates)


@pytest.mark.parametrize("noise", first_of(["api", "unit"]))
@pytest.mark.parametrize("method", first_of(["equal", "leaves", "per-node"]))
def test_simulated_noise_has_the_variance_that_the_plan_says(noise: str, method: str, shop: Path) -> None:
    text = (shop / "spec.toml").read_text().replace("epsilon = 1", f'epsilon = 1\nnoise = "{noise}"')
    spec = Spec.parse(text)
    table = count(spec, str(shop)).table
    tree = spec.tree(table)
    plan = make_plan(spec, tree, method=method)
    truth, variance = from_counts(tree, table).mean, plan.variance(tree)
    rng = np.random.default_rng(3)
    draws = np.array([Measurements.simulate(plan, tree, truth, rng).noisy for _ in range(40)])
    some = variance < np.inf
    z = (draws[:, some] - truth[some]) / np.sqrt(variance[some])
    assert abs(np.mean(z)) < 5 / np.sqrt(z.size) and abs(np.mean(z**2) - 1) < 5 * np.sqrt(6 / z.size)
    assert (draws[:, ~some] == 0).all()


def test_counts_are_those_of_count_and_periods_do_not_mix(shop: Path, tmp_path: Path) -> None:
    assert run(shop / "spec.toml", "-o", tmp_path, "--prior-until", "2026-02-02", "-q").exit_code == 0
    spec = Spec.load(str(shop / "spec.toml"))
    for name, period in (("prior", {"until": "2026-02-02"}), ("counts", {"since": "2026-02-02"})):
        expected = count(spec, str(shop), **period).table  # type: ignore[arg-type]
        assert pq.read_table(tmp_path / f"{name}.parquet").to_pylist() == expected.to_pylist()


@pytest.mark.parametrize("name", ["--from", "--since"])
def test_a_period_bounds_prior_and_counts(name: str, shop: Path, tmp_path: Path) -> None:
    ends = {"since": "2026-01-30", "until": "2026-02-04"}
    period = (name, ends["since"], "--until", ends["until"])
    assert run(shop / "spec.toml", "-o", tmp_path, *period, "--prior-until", "2026-02-02", "-q").exit_code == 0
    spec = Spec.load(str(shop / "spec.toml"))
    for table, bounds in (("prior", {"until": "2026-02-02"}), ("counts", {"since": "2026-02-02"})):
        expected = count(spec, str(shop), **{**ends, **bounds}).table  # type: ignore[arg-type]
        assert pq.read_table(tmp_path / f"{table}.parquet").to_pylist() == expected.to_pylist()
    assert run(shop / "spec.toml", "-o", tmp_path, *period, "--again", "-q").exit_code == 0
    expected = count(spec, str(shop), **ends).table  # type: ignore[arg-type]
    assert pq.read_table(tmp_path / "counts.parquet").to_pylist() == expected.to_pylist()
    wrong = run(shop / "spec.toml", "-o", tmp_path / "x", *period, "--prior-until", "2026-02-09")
    assert wrong.exit_code == 2 and "a period must begin before it ends" in wrong.stderr


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["none.toml"], "there is no file none.toml"),
        (["spec.toml", "-o", "spec.toml"], "spec.toml is not a writable folder"),
        (["spec.toml", "-o", "spec.toml/x"], "cannot be made: Not a directory"),
        (["spec.toml", "--prior-until", "5"], "since the log's times are times without a time zone; got 5"),
        (["spec.toml", "--prior-until", "1999-01-01"], "no impression to count in the period"),
        (["spec.toml", "--memory", "x"], "DuckDB does not accept 'x' as memory_limit"),
    ],
)
def test_a_mistake_is_one_line_and_writes_nothing(
    args: list[str], message: str, shop: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(shop)
    before = sorted(os.listdir())
    result = run(*args, *([] if "-o" in args else ["-o", "out"]))
    assert result.exit_code == 2 and result.stderr.count("\n") == 1, result.output
    assert message in result.stderr and sorted(os.listdir()) == before


def test_interrupted_while_planning_writes_nothing(shop: Path, tmp_path: Path) -> None:
    code = """
import os, signal, sys
from attributary import plan
from attributary.cli import main
plan.make_plan = lambda *_, **__: os.kill(os.getpid(), signal.SIGINT)
main(sys.argv[1:])
"""
    args = [sys.executable, "-c", code, "run", str(shop / "spec.toml"), "-o", str(tmp_path / "out")]
    done = subprocess.run(args, capture_output=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (130, b"interrupted; nothing was written\n")
    assert os.listdir(tmp_path) == []


def test_a_second_run_is_a_second_release(shop: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    said = run(shop / "spec.toml", "-o", out).stderr
    assert "publishing two runs of these logs has a privacy loss of 2ε = 2" in said
    before = {path.name: path.read_bytes() for path in out.iterdir()}
    refused = run(shop / "spec.toml", "-o", out, code=77).stderr
    assert "holds an earlier run" in refused and "--again" in refused and refused.count("\n") == 1
    assert before == {path.name: path.read_bytes() for path in out.iterdir()}
    run(shop / "spec.toml", "-o", out, "--again", "-q")
    assert (out / "estimates.parquet").read_bytes() != before["estimates.parquet"]
    run(shop / "spec.toml", "-o", out, "--seed", 1, "-q")


def test_of_two_runs_into_one_new_folder_at_once_one_is_refused(
    shop: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While the first counts, another thread, as another process would, runs into the same folder."""
    out, refused, real = tmp_path / "run", [], Groups.of

    def while_another_runs(*args: Any, **options: Any) -> Any:
        monkeypatch.setattr(Groups, "of", real)
        thread = threading.Thread(target=lambda: refused.append(run(shop / "spec.toml", "-o", out)))
        thread.start()
        thread.join()
        return real(*args, **options)

    monkeypatch.setattr(Groups, "of", while_another_runs)
    run(shop / "spec.toml", "-o", out, "-q")
    assert [result.exit_code for result in refused] == [75]
    assert os.listdir(tmp_path) == ["run"] and not [name for name in os.listdir(out) if name.startswith(".")]


def test_files_of_an_earlier_run_go_and_those_of_others_stay(shop: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    run(shop / "spec.toml", "--prior-until", "2026-02-02", "-o", out, "-q")
    (out / "note.txt").write_text("mine")
    run(shop / "spec.toml", "--again", "--format", "csv", "-o", out, "-q")
    assert sorted(path.name for path in out.iterdir()) == [
        *("counts.csv", "estimates.csv", "note.txt", "plan.json", "report.html")
    ]


def test_a_folder_with_such_files_that_is_not_of_a_run_is_refused(shop: Path, tmp_path: Path) -> None:
    (tmp_path / "counts.csv").write_text("mine")
    refused = run(shop / "spec.toml", "--again", "-o", tmp_path, code=2).stderr
    assert "has a counts.csv that is not of a run" in refused and (tmp_path / "counts.csv").read_text() == "mine"


def test_interrupted_at_the_page_leaves_the_earlier_run(
    shop: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "run"
    run(shop / "spec.toml", "-o", out, "-q")
    before = {path.name: path.read_bytes() for path in out.iterdir()}

    def pressed(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("attributary.report.page", pressed)
    said = run(shop / "spec.toml", "-o", out, "--again", code=130).stderr
    assert said == "interrupted; nothing was written\n"
    assert before == {path.name: path.read_bytes() for path in out.iterdir()} and os.listdir(tmp_path) == ["run"]


@pytest.fixture(scope="module")
def earlier_run(shop: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("earlier")
    run(shop / "spec.toml", "--prior-until", "2026-02-02", "-q", "-o", folder, code=0)
    return folder


def test_a_plan_that_is_there_is_simulated_as_it_is(shop: Path, earlier_run: Path, tmp_path: Path) -> None:
    other = tmp_path / "spec.toml"  # its epsilon does not matter: the plan's holds
    text = (shop / "spec.toml").read_text().replace("epsilon = 1\n", "epsilon = 3\n")
    other.write_text(
        text.replace('"impressions.', f'"{shop}/impressions.').replace('"conversions.', f'"{shop}/conversions.')
    )
    said = run(other, "--plan", earlier_run / "plan.json", "-o", tmp_path / "out", code=0).stderr
    assert "epsilon = 1, optimal split" in said and f"prior: as in {earlier_run}" in said and "largest of" not in said
    given, done = (Plan.load(str(folder / "plan.json")) for folder in (earlier_run, tmp_path / "out"))
    assert done.measures == given.measures and done.roots == given.roots and done.expected == given.expected
    rows = read_table(str(tmp_path / "out" / "estimates.parquet")).to_pylist()
    variance = attributary.run(str(other), plan=given, rng=np.random.default_rng(1)).estimates["count"].measurements
    assert np.allclose([row["noise_variance"] or np.inf for row in rows], variance.variance)
    whole, before = (
        pq.read_table(folder).column("conversions").to_pandas().sum()
        for folder in (tmp_path / "out" / "counts.parquet", earlier_run / "prior.parquet")
    )
    assert whole > before, "the whole log is measured"


def test_an_earlier_report_is_the_prior(shop: Path, earlier_run: Path, tmp_path: Path) -> None:
    report, counts = (earlier_run / name for name in ("estimates.parquet", "prior.parquet"))
    said = run(shop / "spec.toml", "--prior", report, "--estimator", "learned", "-o", tmp_path / "a", code=0).stderr
    assert f"prior: {report}" in said and "protected" in said and "weight of the prior" in said
    made = Plan.load(str(tmp_path / "a" / "plan.json"))
    assert made.prior.history and made.prior.protected and made.learn
    assert words_of(read_table(str(tmp_path / "a" / "estimates.parquet"))) == ""
    loud = run(shop / "spec.toml", "--prior", counts, "--estimator", "learned", "-q", "-o", tmp_path / "b", code=0)
    assert "NOT PRIVATE" in loud.stderr and "NOT PRIVATE" in (tmp_path / "b" / "report.html").read_text()
    assert "NOT PRIVATE" in words_of(read_table(str(tmp_path / "b" / "estimates.parquet")))
    run(shop / "spec.toml", "--prior", counts, "-q", "-o", tmp_path / "c", code=0)
    assert not Plan.load(str(tmp_path / "c" / "plan.json")).prior.protected
    assert words_of(read_table(str(tmp_path / "c" / "estimates.parquet"))) == "", "only the plan knows of the counts"


def test_what_does_not_go_with_a_plan_or_a_prior(shop: Path, earlier_run: Path, tmp_path: Path) -> None:
    plan, spec = earlier_run / "plan.json", shop / "spec.toml"
    other = tmp_path / "other.toml"
    other.write_text(spec.read_text().replace(', "Sunday"', ""))
    fewer = tmp_path / "fewer.toml"
    fewer.write_text(spec.read_text().replace('[[attribute]]\nname = "location"\n', ""))
    for args, message in (
        ((spec, "--plan", plan, "--method", "optimal"), "has its split already; got --method optimal"),
        ((other, "--plan", plan), "their domains or measures differ: make a new plan"),
        (
            (fewer, "--plan", plan),
            "the plan has campaign > location > day, the spec has campaign > day: make a new plan",
        ),
        ((spec, "--prior", plan, "--prior-until", "2026-02-02"), "got both: leave one of them out"),
        ((spec, "--prior", tmp_path / "none.csv"), "none.csv"),
    ):
        result = run(*args, "-o", tmp_path / "out", code=2)
        assert message in result.stderr and not (tmp_path / "out").exists(), result.stderr


def test_a_refusal_beside_an_engine_is_one_line(tmp_path: Path) -> None:
    """Connections of DuckDB that outlive the interpreter would add dozens."""
    shop = tmp_path / "shop"
    command_line("generate", "shop", "--rows", "500", "-o", shop, "-q")
    command_line("run", shop / "spec.toml", "-o", tmp_path / "first", "--seed", "1", "-q")
    plan = json.loads((tmp_path / "first" / "plan.json").read_text())
    plan["default"] = [65_536 + n for n in plan["default"]]
    (tmp_path / "over.json").write_text(json.dumps(plan))
    words = map(str, ["run", shop / "spec.toml", "--plan", tmp_path / "over.json", "-o", tmp_path / "second", "-q"])
    done = subprocess.run([*PYTHON, *words], capture_output=True, text=True, check=False)
    assert done.returncode == 2 and len(done.stderr.splitlines()) == 1, done.stderr
    assert "the default split has" in done.stderr
