"""--summary: all that a command prints is in a file, too, as data."""

import errno
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow.parquet as pq
import pytest

from attributary.api.ara.wire import avro
from attributary.cli import COMMANDS
from attributary.cli.printing import as_json, plain
from attributary.facts.numerals import Numeral, percent, span
from attributary.tables.table_columns import SEEDED
from support.browser_reports import batch
from support.command import attributary

pytestmark = pytest.mark.usefixtures("undrawn")


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with logs, and what the commands make of them."""
    folder = tmp_path_factory.mktemp("shop")
    attributary("generate", "shop", "--rows", 3000, "-o", f"{folder}/", "-q")
    attributary("count", folder / "spec.toml", "-o", folder / "counts.parquet", "-q")
    attributary("plan", folder / "spec.toml", "--prior", folder / "counts.parquet", "-o", folder / "plan.json", "-q")
    return folder


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_it(command: str) -> None:
    assert "--summary FILE" in attributary(command, "--help").stdout


class Pair(NamedTuple):
    one: float
    two: Any


@dataclass
class Point:
    x: Any


def test_values_of_all_kinds_become_json() -> None:
    nested = {"a": Pair(1.0, float("nan")), "b": [Point(np.float64(2)), (3, None)], "c": np.array([1.5, np.inf])}
    made = as_json({**nested, "d": percent(0.125), "e": Numeral("x", -np.inf), 5: Path("p"), "f": True})
    assert json.loads(json.dumps(made, allow_nan=False)) == {
        "a": {"one": 1.0, "two": None},
        "b": [{"x": 2.0}, [3, None]],
        "c": [1.5, "inf"],
        "d": 0.125,
        "e": "-inf",
        "5": "p",
        "f": True,
    }
    assert as_json(span(np.array([1.0, 3.0, 2.0]), str)) == {"median": 2.0, "least": 1.0, "largest": 3.0}


def test_it_is_written_whole_and_nowhere_else(shop: Path, tmp_path: Path) -> None:
    counts, spec = tmp_path / "counts.csv", shop / "spec.toml"
    for path, words in (
        (spec, "is another file of this command"),
        (counts, "is another file of this command"),
        (shop / "impressions.parquet", "is what this command reads"),
        (tmp_path, "is not a file that can be written"),
        (tmp_path / "there" / "is.json", "is not a file that can be written"),
    ):
        before = path.read_bytes() if path.is_file() else None
        result = attributary("count", spec, "-o", counts, "--summary", path, code=2)
        assert words in result.stderr and "--summary" in result.stderr
        assert before is None or path.read_bytes() == before
    result = attributary("count", spec, "-o", "-", "--summary", "-", code=2)
    assert "give -o or --summary a file" in result.stderr
    assert list(tmp_path.iterdir()) == []


def test_an_error_is_in_the_summary_with_its_stage_and_code(shop: Path, tmp_path: Path) -> None:
    made = tmp_path / "made.json"
    refused = attributary("count", tmp_path / "no.toml", "--summary", made, code=2)
    said = json.loads(made.read_text())
    assert refused.stderr == f"error: {said['error']}\n" and said["exit_code"] == 2
    assert (said["command"], said["stage"]) == ("count", "starting") and "counts" not in said
    (tmp_path / "c.csv").write_text("user,time,day\nu1,2026-02-01T12:00,Monday\nu2,soon,Monday\n" * 2000)
    (tmp_path / "counts.csv").write_text("of yesterday")
    attributary(
        *("count", shop / "spec.toml", "--conversions", tmp_path / "c.csv", "-o", tmp_path / "counts.csv"),
        *("--summary", made),
        code=2,
    )
    said = json.loads(made.read_text())
    assert "all in one form" in said["error"] and said["stage"] == "looking at the first rows"
    assert [stage["stage"] for stage in said["stages"]] == ["starting", said["stage"]]
    assert (tmp_path / "counts.csv").read_text() == "of yesterday"
    attributary("run", shop / "spec.toml", "-o", tmp_path / "run", "-q")
    for _ in range(2):  # in the folder of a run that is refused, too
        inside = tmp_path / "run" / "summary.json"
        attributary("run", shop / "spec.toml", "-o", tmp_path / "run", "--summary", inside, code=77)
        assert json.loads(inside.read_text())["exit_code"] == 77
    attributary("run", shop / "no.toml", "-o", tmp_path / "new", "--summary", tmp_path / "new/s.json", code=2)
    assert json.loads((tmp_path / "new/s.json").read_text())["exit_code"] == 2


def test_an_error_overwrites_nothing_but_a_summary(tmp_path: Path) -> None:
    log = tmp_path / "log.csv"  # of a spec that cannot be read: nobody knows that it is an input
    log.write_text("user,time\n")
    attributary("count", tmp_path / "no.toml", "--summary", log, code=2)
    assert log.read_text() == "user,time\n"


def test_stages_have_their_time_memory_and_rows(shop: Path, tmp_path: Path) -> None:
    made = tmp_path / "made.json"
    attributary("run", shop / "spec.toml", "-o", tmp_path / "run", "--prior-until", "2026-02-02", "--summary", made)
    said = json.loads(made.read_text())
    names = [stage["stage"] for stage in said["stages"]]
    assert said["exit_code"] == 0 and "error" not in said and len(names) > 5
    assert names[0] == "starting" and names.index("planning") < names.index("denoising") < names.index("writing")
    assert all(stage["seconds"] >= 0 and stage["peak_memory_mb"] > 10 for stage in said["stages"])
    rows = {stage["stage"]: stage["rows"] for stage in said["stages"]}
    assert rows["writing"] == pq.read_metadata(tmp_path / "run" / "estimates.parquet").num_rows
    attributary("count", shop / "spec.toml", "-o", tmp_path / "c.csv", "--summary", made)
    said = json.loads(made.read_text())
    assert {s["stage"]: s["rows"] for s in said["stages"]}["attributing and counting"] == said["counts"]["rows_read"]


KILLED = """
import os, signal, sys
from attributary import measurements
from attributary.cli import main
measurements.Measurements.simulate = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
main(sys.argv[1:])
"""


def test_a_killed_command_leaves_the_stage_it_was_at(shop: Path, tmp_path: Path) -> None:
    args = ["run", str(shop / "spec.toml"), "-o", str(tmp_path / "run"), "--summary", str(tmp_path / "made.json")]
    killed = subprocess.run([sys.executable, "-c", KILLED, *args], capture_output=True, check=False)
    assert killed.returncode == -signal.SIGKILL
    said = json.loads((tmp_path / "made.json").read_text())
    assert (said["exit_code"], said["stage"]) == (None, "simulating a summary report")
    assert not list((tmp_path / "run").glob("*"))


@pytest.mark.parametrize("by", ["option", "environment"])
def test_messages_as_json_lines_tell_no_count(
    by: str, shop: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if by == "environment":
        monkeypatch.setenv("ATTRIBUTARY_LOG", "json")
    lines = ["--log", "json"] if by == "option" else []
    result = attributary("run", shop / "spec.toml", "-o", tmp_path / "run", "--seed", 1, *lines)
    events = [json.loads(line) for line in result.stderr.splitlines()]
    assert {event["event"] for event in events} == {"stage", "warning", "end"}
    assert [event["message"] for event in events if event["event"] == "warning"] == [f"{tmp_path / 'run'}: {SEEDED}"]
    assert (events[-1]["exit_code"], events[-1]["command"]) == (0, "run") and "error" not in events[-1]
    known = {"time", "event", "command", "stage", "seconds", "peak_memory_mb", "message", "exit_code"}
    assert not {*chain(*events)} - known
    for args, code, words in (
        (["run", shop / "spec.toml", "-o", tmp_path / "run"], 77, "holds an earlier run"),
        (["run", shop / "no.toml"], 2, "there is no file"),
        (["run", "--nonsense"], 2, "no such option"),
    ):
        end = json.loads(attributary(*args, *lines, code=code).stderr.splitlines()[-1])
        assert end["event"] == "end" and end["exit_code"] == code and words in end["error"].lower()
        assert not end["error"].startswith("error")


def test_lines_are_text_where_the_option_says_so(shop: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ATTRIBUTARY_LOG", "json")
    assert "impressions," in attributary("count", shop / "spec.toml", "--log", "text").stderr
    monkeypatch.setenv("ATTRIBUTARY_LOG", "xml")
    assert "'xml' is not one of 'text', 'json'" in attributary("count", shop / "spec.toml", code=2).stderr


def test_it_may_go_to_standard_output(shop: Path, tmp_path: Path) -> None:
    result = attributary("count", shop / "spec.toml", "-o", tmp_path / "counts.csv", "--summary", "-", "-q")
    assert json.loads(result.stdout)["command"] == "count"


def test_keys_and_report_tell_what_they_print(shop: Path, tmp_path: Path) -> None:
    made = tmp_path / "keys.json"
    loud = attributary(
        *("keys", shop / "plan.json", "--impressions", shop / "counts.parquet", "-o", tmp_path / "keys"),
        *("--summary", made),
    )
    said = json.loads(made.read_text())
    assert said["nodes"] >= said["keys"] > 100 and said["tables"][0]["columns"][0] in loud.stderr
    assert all(line in loud.stderr for line in said["messages"])
    assert said["written"] == [str(shop / "plan.json"), str(tmp_path / "keys")]

    made = tmp_path / "report.json"
    attributary("report", shop / "plan.json", "-o", tmp_path / "page.html", "--summary", made)
    said = json.loads(made.read_text())
    assert said["bytes"] == (tmp_path / "page.html").stat().st_size and said["nodes_left_out"] == 0
    assert said["written"] == [str(tmp_path / "page.html")]


def test_count_and_plan_tell_what_they_print(shop: Path, tmp_path: Path) -> None:
    loud = attributary("count", shop / "spec.toml", "-o", tmp_path / "c.csv", "--summary", tmp_path / "c.json")
    said = json.loads((tmp_path / "c.json").read_text())
    assert f"{said['counts']['conversions']:,} conversions" in loud.stderr
    assert said["counts"]["conversions_not_counted"]["no_impression_before"] > 0
    assert loud.stderr.splitlines() == said["messages"] and said["written"] == [str(tmp_path / "c.csv")]

    made = tmp_path / "plan.json", tmp_path / "p.json"
    prior = ("--prior", shop / "counts.parquet", "--protected")
    attributary("plan", shop / "spec.toml", *prior, "-o", made[0], "--summary", made[1])
    plan, said = (json.loads(path.read_text()) for path in made)
    assert said["plan"]["expected"] == plan["expected"] and said["plan"]["privacy_loss"]["conversion"] <= 1.0001
    table = said["tables"][0]
    errors = [row[table["columns"].index("expected error")] for row in table["rows"]]
    assert errors[:-1] == [level["error"]["plan"] for level in plan["expected"]["levels"]]


def test_quiet_commands_write_the_same_summary(shop: Path, tmp_path: Path) -> None:
    for quiet in ([], ["-q"]):
        path = tmp_path / f"said{len(quiet)}.json"
        result = attributary("keys", shop / "plan.json", "--summary", path, *quiet)
        assert bool(result.stderr) != bool(quiet)
    one, other = (json.loads((tmp_path / f"said{i}.json").read_text()) for i in (0, 1))
    assert one["tables"] == other["tables"] != []


def test_evaluate_tells_what_it_prints(shop: Path, tmp_path: Path) -> None:
    loud = attributary(
        *("evaluate", shop / "spec.toml", "--counts", shop / "counts.parquet", "--method", "optimal-unbiased"),
        *("--draws", 2, "--workers", 1, "-o", tmp_path / "e.csv", "--summary", tmp_path / "e.json"),
    )
    said = json.loads((tmp_path / "e.json").read_text())
    assert said["rows"] == len((tmp_path / "e.csv").read_text().splitlines()) - 1
    assert said["messages"][-1] in loud.stderr and said["written"][-1] == str(tmp_path / "e.csv")


def test_denoise_tells_what_it_prints(shop: Path, tmp_path: Path) -> None:
    table = tmp_path / "noisy.csv"
    table.write_text("campaign,day,noisy\nshoes,,103\nshoes,mon,58\nshoes,tue,51\n")
    loud = attributary(
        *("denoise", "--table", table, "--levels", "campaign,day", "--value", "noisy", "--variance", "8,4"),
        *("-o", tmp_path / "out.csv", "--summary", tmp_path / "d.json"),
    )
    said = json.loads((tmp_path / "d.json").read_text())
    assert said["rows"] == 3 and said["written"] == [str(tmp_path / "out.csv")]
    assert said["estimates"]["fit"]["z"] is not None and said["estimates"]["implausible"]["nodes"] == 0
    assert [row[0] for row in said["tables"][0]["rows"]] == ["campaign", "day"]
    assert all(line in loud.stderr for line in said["messages"])


def test_run_tells_what_it_prints_and_what_is_not_private(shop: Path, tmp_path: Path) -> None:
    quiet = attributary(
        *("run", shop / "spec.toml", "--seed", 1, "-q", "-o", tmp_path / "run", "--summary", tmp_path / "r.json"),
    )
    said = json.loads((tmp_path / "r.json").read_text())
    assert said["counts"]["conversions"] > 0 and said["plan"]["expected"]["tree"]["plan"] > 0
    assert said["estimates"]["nodes"] == said["plan"]["nodes"] and said["written"] == [str(tmp_path / "run")]
    assert quiet.stderr == f"{tmp_path / 'run'}: {SEEDED}\n"
    assert "error of this run" in " ".join(said["messages"]) and said["errors_of_this_draw"]["count"] > 0


def test_generate_tells_what_it_prints(tmp_path: Path) -> None:
    loud = attributary("generate", "shop", "--rows", 500, "-o", f"{tmp_path}/shop", "--summary", tmp_path / "g.json")
    said = json.loads((tmp_path / "g.json").read_text())
    assert loud.stderr.splitlines() == said["messages"]
    logs = [f"{tmp_path}/shop/{name}.parquet" for name in ("impressions", "conversions")]
    assert [one["path"] for one in said["generated"]][:2] == logs
    for one, line in zip(said["generated"], said["messages"], strict=True):
        assert line.startswith(f"{one['path']}: {one['rows']:,} rows")
    assert said["written"] == [f"{tmp_path}/shop"]


def test_init_tells_what_it_prints(shop: Path, tmp_path: Path) -> None:
    logs = [shop / f"{name}.parquet" for name in ("impressions", "conversions")]
    loud = attributary("init", *logs, "-o", tmp_path / "s.toml", "--summary", tmp_path / "i.json")
    said = json.loads((tmp_path / "i.json").read_text())
    assert loud.stderr.splitlines() == said["messages"] and said["written"] == [str(tmp_path / "s.toml")]
    lines = [f"{kind}: {text}" for kind in ("recognised", "guessed") for text in said[kind]]
    assert lines == said["messages"][:-1] and 'window = "30d"' in said["guessed"][0]


def test_report_of_periods_tells_its_answer(shop: Path, tmp_path: Path) -> None:
    attributary("run", shop / "spec.toml", "--seed", 1, "-q", "-o", tmp_path / "run")
    loud = attributary(
        *("report", tmp_path / "run" / "estimates.parquet", "--periods", "day=Saturday,Sunday"),
        *("-o", tmp_path / "page.html", "--summary", tmp_path / "p.json"),
    )
    said = json.loads((tmp_path / "p.json").read_text())
    assert any("conversions from Saturday to Sunday" in line for line in said["answer"]) and said["written"] == [
        str(tmp_path / "page.html")
    ]
    assert {plain(line) for line in said["answer"]} < set(said["messages"]) and all(
        line in loud.stderr for line in said["messages"]
    )


def test_aggregate_tells_what_it_prints(tmp_path: Path) -> None:
    avro.write_domain(str(tmp_path / "domain.avro"), np.array([[0, 1], [0, 2]], np.uint64))
    avro.write_reports(str(tmp_path / "reports.avro"), batch([[(1, 300)], [(1, 300), (9, 1)], [(2, 40, 3)]]))
    (bad,) = batch([[(1, 5)]])
    avro.write_reports(str(tmp_path / "bad.avro"), [replace(bad, payload=b"bad")])
    out, ledger = tmp_path / "out.avro", tmp_path / "ledger.sqlite"
    query = [
        *("aggregate", "--epsilon", "4", "--l1", "65536", tmp_path / "reports.avro", tmp_path / "bad.avro", "-o", out),
        *("--domain", tmp_path / "domain.avro", "--ledger", ledger, "--max-errors", "50%"),
    ]
    loud = attributary(*query, "--summary", tmp_path / "a.json")
    said = json.loads((tmp_path / "a.json").read_text())
    assert loud.stderr.splitlines() == said["messages"] and str(out) in said["written"]
    tally = said["tally"]
    assert f"reports: {tally['used']:,} of {tally['reports']:,} used, {tally['repeated']:,} repeated" in loud.stderr
    assert (tally["used"], tally["faulty"], sum(tally["categories"].values())) == (3, 1, 1)
    assert (tally["summed"], tally["filtered"], tally["outside"]) == (None, None, None)
    assert said["faults"] and all(fault in loud.stderr for fault in said["faults"])
    assert (said["keys"], said["ledger"], said["answered"], said["not_private"]) == (2, str(ledger), "", "")
    assert said["shared_ids_spent"] > 0 and said["noise"] in loud.stderr

    again = attributary(*query, "--summary", tmp_path / "b.json")
    said = json.loads((tmp_path / "b.json").read_text())
    assert again.stderr.splitlines() == said["messages"] and said["answered"] in again.stderr


def test_failures_name_their_stage_and_leave_the_old_files(
    shop: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    avro.write_domain(str(tmp_path / "domain.avro"), np.array([[0, 1], [0, 2]], np.uint64))
    avro.write_reports(str(tmp_path / "reports.avro"), batch([[(1, 300)], [(2, 40)]]))
    out, made, replaced = tmp_path / "out.avro", tmp_path / "a.json", os.replace
    query = [
        *("aggregate", tmp_path / "reports.avro", "--domain", tmp_path / "domain.avro", "--l1", "65536"),
        *("--ledger", tmp_path / "ledger.sqlite", "-o", out, "--summary", made),
    ]

    def failed(code: int, stage: str, words: str, *args: object) -> None:
        out.write_bytes(b"of yesterday")
        assert attributary(*args, code=code).stderr.count("\n") == 1
        said = json.loads(made.read_text())
        assert (said["command"], said["exit_code"], said["stage"]) == (args[0], code, stage), said
        assert words in said["error"] and not said["error"].startswith("error") and "tally" not in said
        assert [each["stage"] for each in said["stages"]][-1] == stage
        assert out.read_bytes() == b"of yesterday" and not list(tmp_path.glob(".attributary-*"))

    def full(source: Any, target: Any) -> None:
        if os.fspath(target) == str(out):
            raise OSError(errno.ENOSPC, "No space left on device")
        replaced(source, target)

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", full)
        failed(75, "writing", "No space left on device", *query, "--epsilon", "4", "-q")
    attributary(*query, "--epsilon", "4", "-q")  # the same again is the answer
    failed(77, "adding up", "(--skip-spent)", *query, "--epsilon", "1", "-q")

    other = tmp_path / "other.json"
    attributary("plan", shop / "spec.toml", "--tree", shop / "counts.parquet", "--method", "equal", "-o", other, "-q")
    for plan in (shop / "plan.json", other):
        attributary("keys", plan, "--impressions", shop / "counts.parquet", "-o", tmp_path / plan.stem, "-q")
    tree = tmp_path / "other" / "tree.parquet"
    wrong = ["denoise", shop / "plan.json", tmp_path / "s.avro", "--tree", tree, "-o", out, "--format", "parquet"]
    avro.write_reports(str(tmp_path / "s.avro"), [])
    failed(2, "building the tree", "is of plan", *wrong, "--summary", made, "-q")


def test_paper_tells_what_it_prints(tmp_path: Path) -> None:
    loud = attributary(
        *("paper", "csscl", "--generated", "--rows", 5000, "--missing", "drop", "--epsilon", 4, "--tau", 10),
        *(
            "--noise",
            "api",
            "--draws",
            0,
            "--method",
            "greedy-unbiased",
            "--method",
            "optimal-unbiased",
            "--workers",
            1,
        ),
        *("-o", tmp_path / "out", "--summary", tmp_path / "p.json"),
    )
    said = json.loads((tmp_path / "p.json").read_text())
    assert said["generated"] is True and str(tmp_path / "out") in said["written"]
    left_out = [f"not counted: {rows:,} {why}" for why, rows, _ in (one.values() for one in said["not_counted"])]
    assert left_out and all(line in loud.stderr for line in left_out)
    assert all(line in loud.stderr for line in said["messages"])
    methods, *_, best, _ = said["tables"]
    assert methods["columns"] == ["method", "ε = 4", "name"]
    assert [row[2] for row in methods["rows"]] == ["greedy-unbiased", "optimal-unbiased", "zeros"]
    assert best["columns"] == ["ε", "paper's best", "method", "our best", "method", "change", "zeros"]
    for epsilon, theirs, _, ours, method, *_ in best["rows"]:
        assert (epsilon, method) == (4, "optimal-unbiased")
        assert f"{theirs:.2%}" in loud.stderr and f"{ours:.2%}" in loud.stderr


def test_explore_tells_its_address_but_not_its_token(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = tmp_path / "e.json"

    def served(session: Any, port: int, ready: Callable[[str, str], None]) -> None:
        ready("http://127.0.0.1:9/#token", "http://127.0.0.1:9/#once-ticket")
        assert made.exists()  # while the page is served, and not only when Ctrl-C has ended it

    monkeypatch.setattr("attributary.explore.serve", served)
    loud = attributary("explore", "--no-browser", "--summary", made)
    said = json.loads(made.read_text())
    assert (loud.stdout, said["address"]) == ("http://127.0.0.1:9/#token\n", "http://127.0.0.1:9/")
    assert loud.stderr.splitlines() == said["messages"] != [] and "token" not in made.read_text()
