"""attributary explore: what it opens, what it refuses on the terminal, and a server that ends quietly."""

import csv
import os
import re
import signal
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest.mock import patch

import httpx
import pytest
from click.testing import CliRunner, Result

from attributary.cli import main
from attributary.tables import write_table
from support.command import PYTHON
from support.explored import Tab, client, table, written

SPEC = """
epsilon = 2
[[attribute]]
name = "campaign"
[[attribute]]
name = "day"
unknown = true
domain = ["mon", "tue"]
"""
COUNTS = "campaign,day,impressions,conversions\nx,mon,9,5\nx,tue,,3\ny,mon,9,50\ny,tue,,0\n"


@pytest.fixture(autouse=True)
def _empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("spec.toml").write_text(SPEC, encoding="utf-8")
    Path("counts.csv").write_text(COUNTS, encoding="utf-8")
    written(table(["x", "y"]), Path("estimates.parquet"))


@contextmanager
def serving(*arguments: str) -> Iterator[tuple[str, dict[str, str], subprocess.Popen[str]]]:
    """The page's address, the headers that carry its token, and the server, until it is interrupted."""
    server = subprocess.Popen(
        [*PYTHON, "explore", "--no-browser", *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        assert server.stdout
        found = re.fullmatch(r"(http://127\.0\.0\.1:\d+)/#([\w-]{43})\n", server.stdout.readline())
        assert found, server.communicate(timeout=60)
        yield found[1], {"Authorization": f"Bearer {found[2]}"}, server
    finally:
        server.send_signal(signal.SIGINT)
        server.communicate(timeout=60)


@contextmanager
def opened(*arguments: str) -> Iterator[Tab]:
    """A tab on what the command would serve."""
    with patch("attributary.explore.serve") as served:
        result = explore(*arguments)
        assert result.exit_code == 0, result.output
    session = served.call_args[0][0]
    try:
        yield client(session)
    finally:
        session.close()


def test_it_serves_this_machine_until_it_is_interrupted() -> None:
    with serving("estimates.parquet") as (page, token, server):
        assert "Attributary explorer" in httpx.get(page).text
        assert httpx.get(f"{page}/api/about").status_code == 401
        about = httpx.get(f"{page}/api/about", headers=token).json()["table"]
        assert about["file"] == "estimates.parquet" and about["nodes"] == 82
        port = int(page.rpartition(":")[2])
        with socket.socket() as elsewhere:
            elsewhere.settimeout(2)
            assert elsewhere.connect_ex(("127.0.0.2", port)) != 0  # it listens on 127.0.0.1, not on all addresses
        server.send_signal(signal.SIGINT)
        out, err = server.communicate(timeout=60)
        assert server.returncode == 0 and out == ""
        assert err == "open this address; it works on this machine only. Ctrl-C stops it.\n"


def test_two_runs_have_two_tokens() -> None:
    with serving("-q") as (_, one, _), serving("-q") as (_, two, _):
        assert one != two


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "made-up counts, 12 × 20 × 14"),
        (["spec.toml", "--prior", "counts.csv"], "6 rows, counts from counts.csv"),
        (["estimates.parquet"], "82 rows, estimates from estimates.parquet"),
        (["run"], "7 rows, estimates from run/estimates.parquet"),
        (["run/plan.json"], "the plan's levels and their sizes"),
        (["logs.toml"], "6 rows, counts from the logs of logs.toml"),
    ],
)
def test_the_plan_tab_begins_with_what_there_is(arguments: list[str], words: str) -> None:
    Path("impressions.csv").write_text("user,time,campaign\na,2026-01-01,x\nb,2026-01-01,y\n")
    Path("conversions.csv").write_text("user,time,day\na,2026-01-02,mon\n")
    names = 'impressions = "impressions.csv"\nconversions = "conversions.csv"\nuser = "user"\ntime = "time"\n'
    logs = f'[logs]\n{names}window = "30d"\n'
    Path("logs.toml").write_text(SPEC + logs)
    Path("total.toml").write_text(SPEC.replace("epsilon = 2", "epsilon = 3\ntau = 7\ntotal = true") + logs)
    if arguments and arguments[0].startswith("run"):
        ran = CliRunner().invoke(main, ["run", "total.toml", "-o", "run", "-q"])
        assert ran.exit_code == 0, ran.output
    with opened(*arguments) as tab:
        found = tab.get("/api/plan").json()
    assert words in found["start"]["words"]
    if arguments and arguments[0].startswith("run"):
        assert (found["epsilon"], found["tau"]) == (3, 7)
    assert ("NOT protected" in found["start"]["warning"]) == (arguments[:1] in (["spec.toml"], ["logs.toml"]))


def test_a_table_of_denoise_is_explored_with_its_levels() -> None:
    Path("noisy.csv").write_text("a,b,x\nu,,10\nu,p,4\nu,q,5\n")
    asked = "denoise --table noisy.csv --levels a,b --value x --variance 2,1 -o out.csv -q"
    made = CliRunner().invoke(main, asked.split())
    assert made.exit_code == 0, made.output
    with opened("out.csv", "--levels", "a,b", "--tau", "3") as tab:
        rows = tab.get("/api/rows?node=0&sort=label").json()["rows"]
        assert [row["label"] for row in rows] == ["p", "q"]
        assert tab.get("/api/about").json()["table"]["tau"] == 3


RAW = """region;store;visits;revenue
north;;103;1030,5
north;a;58;580
north;b;51;505,5
south;;60;600
south;c;33;330
south;d;22;222
"""


def test_noisy_figures_are_explored_with_the_estimates_of_denoise() -> None:
    Path("noisy.csv").write_text(RAW)
    stated = ["--levels", "region,store", "--value", "visits,revenue", "--variance", "8;80"]
    made = CliRunner().invoke(main, ["denoise", "--table", "noisy.csv", *stated, "-o", "out.csv", "-q"])
    assert made.exit_code == 0, made.output
    wanted = list(csv.DictReader(Path("out.csv").read_text(encoding="utf-8").splitlines(), delimiter=";"))
    with opened("noisy.csv", *stated) as tab:
        about = tab.get("/api/about").json()["table"]
        assert (about["file"], about["measures"]) == ("noisy.csv", ["visits", "revenue"])
        assert [level["name"] for level in about["levels"]] == ["region", "store"]
        for figure in ("visits", "revenue"):
            for top in tab.get(f"/api/rows?measure={figure}&sort=label").json()["rows"]:
                region = top["label"]
                rows = tab.get(f"/api/rows?node={top['node']}&measure={figure}&sort=label").json()["rows"]
                here = [row for row in wanted if row["region"] == region and row["store"]]
                here.sort(key=lambda row: row["store"])
                for row, line in zip(rows, here, strict=True):
                    assert row["label"] == line["store"]
                    for column in ("estimate", "low", "high"):
                        in_file = float(line[f"{figure}_{column}"].replace(",", "."))
                        assert row[column] == pytest.approx(in_file, abs=0.1), (figure, region, column)
        text = tab.get("/api/rows.csv?node=0&measure=visits").text
        assert text.splitlines()[0].split(",")[:3] == ["measure", "region", "store"]
    assert Path("noisy.csv").read_text() == RAW


def test_what_noisy_figures_are_taken_for_is_printed_and_an_option_corrects_it() -> None:
    Path("noisy.csv").write_text("region,store,visits\nnorth,ALL,103\nnorth,a,58\nnorth,b,51\nsouth,c,33\n")
    with patch("attributary.explore.serve") as served:
        found = [
            explore("noisy.csv", "--levels", "region,store", "--std", "3", *more)
            for more in (["--fill"], ["--fill", "-q"], ["--no-totals"])
        ]
    sessions = [call[0][0] for call in served.call_args_list]
    for session in sessions:
        session.close()
    assert [each.exit_code for each in found] == [0, 0, 0], found[0].output + found[2].output
    assert "recognised: " in found[0].stderr and "ALL" in found[0].stderr and found[1].stderr == ""
    assert [len(session.store) for session in sessions] == [5, 5, 6]  # north and south above 3 or 4 stores


def test_noisy_figures_that_were_replaced_are_denoised_again() -> None:
    raw = "store,visits\na,58\nb,51\n"
    Path("noisy.csv").write_text(raw)
    with opened("noisy.csv", "--levels", "store", "--value", "visits", "--std", "3") as tab:
        assert [row["estimate"] for row in tab.get("/api/rows?sort=label").json()["rows"]] == [58, 51]
        Path("noisy.csv").write_text(raw.replace("51", "4200"))
        assert tab.get("/api/rows?sort=label").status_code == 409
        assert tab.request("POST", "/api/reopen").status_code == 200
        assert [row["estimate"] for row in tab.get("/api/rows?sort=label").json()["rows"]] == [58, 4200]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["noisy.csv"], "Say it with --noise, --std or --variance"),
        (["two.csv", "--std", "3"], "For example: attributary explore two.csv --value visits --std 3"),
        (["noisy.csv", "estimates.parquet"], "noisy.csv is not one: denoise it first"),
        (["estimates.parquet", "--noise", "laplace:scale=3"], "estimates.parquet is not one"),
        (["--std", "3"], "no file is not one"),
    ],
)
def test_options_of_noisy_figures_go_with_noisy_figures(arguments: list[str], words: str) -> None:
    Path("noisy.csv").write_text("store,visits\na,58\nb,51\n")
    Path("two.csv").write_text("store,visits,orders\na,58,7\nb,51,9\n")
    refused = explore(*arguments)
    assert refused.exit_code == 2 and words in refused.stderr, refused.output


def test_two_tables_are_compared() -> None:
    written(table(["x", "z"], seed=5), Path("last.parquet"))
    with opened("estimates.parquet", "last.parquet") as tab:
        rows = tab.get("/api/rows?sort=label").json()["rows"]
        assert [row["label"] for row in rows] == ["x", "y", "z"]
        assert [row["verdict"] for row in rows][1:] == ["new", "gone"]


def test_a_folder_of_periods_is_compared() -> None:
    for i in (10, 9):
        os.makedirs(f"weeks/week {i}")
        written(table(["x", "z"], seed=i), Path(f"weeks/week {i}/estimates.parquet"))
    with opened("weeks") as tab:
        assert tab.get("/api/about").json()["table"]["before"] == "week 9"
        assert len(tab.get("/api/rows").json()["rows"]) == 2


def explore(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["explore", "--no-browser", *arguments])


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["nothing.parquet"], "there is no file nothing.parquet"),
        (["counts.csv"], "holds true counts"),
        (["empty.csv"], "empty.csv is empty"),
        (["cut.parquet"], "cut.parquet is not a whole Parquet file"),
        (["text.parquet"], "text.parquet"),
        (["folder"], "neither estimates nor a plan in folder"),
        (["estimates.parquet", "two"], "more than one table of estimates"),
        (["other.json"], "other.json is not a plan"),
        (["out.csv"], "give them with --levels"),
        (["estimates.parquet", "counts.csv"], "counts.csv holds true counts; explore takes estimates"),
        (["estimates.parquet", "spec.toml"], "two tables of estimates are compared; spec.toml is not one"),
        (["spec.toml", "estimates.parquet"], "two tables of estimates are compared; spec.toml is not one"),
        (["spec.toml"], "a plan needs the values of campaign"),
        (["broken.toml"], "is not TOML"),
        (["estimates.parquet", "--tau", "0"], "--tau is a number above 0"),
        (["estimates.parquet", "--tau", "nan"], "--tau is a number above 0"),
        (["estimates.parquet", "--prior", "counts.csv"], "--prior goes with a spec"),
        (["estimates.parquet", "--levels", "a,b"], "has no column 'a'"),
        (["estimates.parquet", "--memory", "much"], "--memory is a size"),
    ],
)
def test_what_cannot_be_explored_is_refused_on_the_terminal(arguments: list[str], words: str) -> None:
    Path("empty.csv").write_text("")
    Path("cut.parquet").write_bytes(Path("estimates.parquet").read_bytes()[:-50])
    Path("text.parquet").write_text("a,b\n1,2\n")
    Path("other.json").write_text("{}")
    Path("out.csv").write_text("a,estimate,variance,low,high,correction\n" + "x,1,1,0,2,0\n" * 2)
    Path("broken.toml").write_text("epsilon =")
    for folder in ("folder", "two"):
        os.makedirs(folder)
    for name in ("one.parquet", "two.csv"):
        write_table(table(["x"]), f"two/{name}")
    with patch("attributary.explore.serve"):  # nothing is served for ever if it is not refused
        result = explore(*arguments)
    assert result.exit_code == 2 and words in result.stderr, result.output
    assert len(result.stderr.splitlines()) == 1 and result.stderr.startswith("error: ")


def test_a_port_that_is_taken_is_refused() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        result = explore("--port", str(taken.getsockname()[1]))
    assert result.exit_code == 2 and "cannot be used" in result.stderr and "--port" in result.stderr
