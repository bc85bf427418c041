"""attributary aggregate: from files to files, everything told, nothing private given away by accident."""

import base64
import errno
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from concurrent.futures.process import BrokenProcessPool
from dataclasses import replace
from pathlib import Path
from typing import Any

import fastavro
import numpy as np
import pytest
from click.testing import CliRunner, Result

from attributary import api
from attributary.api import api_of
from attributary.api.ara.service import aggregation
from attributary.api.ara.service.ledger import users_ledger
from attributary.api.ara.service.summary_report import read_summary
from attributary.api.ara.wire import avro, encryption
from attributary.api.ara.wire.aggregatable_report import Report, build, to_json
from attributary.api.ara.wire.payload import Contribution
from attributary.cli import main
from attributary.noise import sample_dlap
from attributary.plan import Plan, make_plan
from attributary.tables.table_columns import NO_NOISE, SEEDED
from support.browser_reports import HOUR, PRIVATE, batch, info, report
from support.plans import asked, spec

KEYS = np.array([[0, 1], [0, 2], [5, 0]], np.uint64)
ROWS = [[(1, 300), (5 << 64, 7)], [(1, 300), (9, 1)], [(2, 65536)], [(2, 40, 3)]]
EXACT = [600, 65536, 7]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    question = spec()
    make_plan(question, asked(question)[0]).save("plan.json")
    make_plan(unit := spec(noise="unit"), asked(unit)[0]).save("unit.json")
    avro.write_domain("domain.avro", KEYS)
    avro.write_reports("clear.avro", batch(ROWS))
    avro.write_reports("sealed.avro", batch(ROWS, sealed=True))
    Path("private.key").write_bytes(base64.b64encode(PRIVATE))
    return tmp_path


def run(*args: str, reports: str = "clear.avro") -> Result:
    output = [] if "-o" in args else ["-o", "out.avro"]
    return CliRunner().invoke(main, ["aggregate", "plan.json", reports, "--domain", "domain.avro", *output, *args])


UNSURE = "the plan has no keys, so nothing shows whether the domain fits these reports: a wrong one spends budget, too"


def one_line(result: Result) -> bool:
    """Whether nothing but an error is said, besides what is said first."""
    return result.stderr.removeprefix(f"{UNSURE}\n").count("\n") == 1


def done(*args: str, reports: str = "clear.avro") -> str:
    result = run(*args, reports=reports)
    assert result.exit_code == 0 and result.stdout == "", result.output
    return result.stderr


@pytest.mark.usefixtures("folder")
def test_sums_are_exact_without_noise_and_say_so() -> None:
    for reports, options in (("clear.avro", []), ("sealed.avro", ["--key", "private.key"])):
        words = done("--no-noise", *options, reports=reports)
        found = avro.read_results("out.avro")
        assert np.array_equal(found.keys, KEYS) and found.metric.tolist() == EXACT
        assert found.stated[0].not_private == "NOT PRIVATE: exact sums without noise; not for release"
        assert "out.avro: 3 keys, NOT PRIVATE: exact sums" in words and "nothing was spent" in words
        assert "reports: 4 of 4 used, 0 repeated, 0 refused" in words
        assert "4 summed, 74 null, 1 with other filtering ids, 1 with keys outside the domain" in words
    assert done("--no-noise", "-q") == "out.avro: NOT PRIVATE: exact sums without noise; not for release\n"
    assert not os.path.exists(users_ledger())


@pytest.mark.usefixtures("folder")
def test_keys_are_chosen_by_the_id_that_a_report_names() -> None:
    other = bytes(range(1, 33))
    sealed_for = [("one", PRIVATE)] * 2 + [("two", other)] * 2
    reports = [
        build([Contribution(*row) for row in rows], info(number), encryption.public_key(key), key_id)
        for number, (rows, (key_id, key)) in enumerate(zip(ROWS, sealed_for, strict=True))
    ]
    avro.write_reports("two.avro", reports)
    Path("keys").mkdir()
    Path("keys/one.key").write_bytes(PRIVATE)
    Path("keys/two.json").write_text(json.dumps({"private_key_base64": base64.b64encode(other).decode()}))
    for options in (["--key", "keys"], ["--key", "keys/one.key", "--key", "keys/two.json"]):
        done("--no-noise", "-q", *options, reports="two.avro")
        assert avro.read_results("out.avro").metric.tolist() == EXACT
    Path("keys/two.json").unlink()
    result = run("--no-noise", "--max-errors", "50%", "--key", "keys", reports="two.avro")
    assert "DECRYPTION_KEY_NOT_FOUND" in result.stderr and "key_id 'two'" in result.stderr


@pytest.mark.usefixtures("folder")
def test_noise_is_the_samplers_and_a_seed_says_that_it_is_not_for_release() -> None:
    words = done("--seed", "7")
    noise = sample_dlap(4 / 65536, 3, np.random.default_rng(7))
    found = avro.read_results("out.avro")
    assert (found.metric - noise).tolist() == EXACT
    assert "not for release" in words and "nothing was spent" in words
    assert "not for release" in found.stated[0].not_private
    done("--seed", "7", "--epsilon", "64", "-q")
    other = avro.read_results("out.avro").metric - EXACT
    assert np.array_equal(other, sample_dlap(64 / 65536, 3, np.random.default_rng(7)))


@pytest.mark.usefixtures("folder")
def test_a_summary_report_states_its_noise() -> None:
    done("--epsilon", "1.1")
    assert avro.read_results("out.avro").stated == (
        avro.StatedNoise(1.1, 65536, "", Plan.load("plan.json").fingerprint),
    )
    done("--seed", "7", "-o", "seeded.avro")
    assert avro.read_results("seeded.avro").stated == (
        avro.StatedNoise(4, 65536, SEEDED, Plan.load("plan.json").fingerprint),
    )
    done("--no-noise", "-o", "exact.avro")
    assert avro.read_results("exact.avro").stated == (
        avro.StatedNoise(None, None, NO_NOISE, Plan.load("plan.json").fingerprint),
    )


@pytest.mark.usefixtures("folder")
def test_a_batch_is_answered_once_whatever_the_output() -> None:
    words = done()
    first = Path("out.avro").read_bytes()
    assert f"{users_ledger()}: 4 shared ids spent" in words and "noise DLap(4/65536)" in words
    assert f"{users_ledger()}: a new ledger, which knows of no earlier query" in words
    assert (avro.read_results("out.avro").metric != EXACT).any()
    os.makedirs("elsewhere")
    for options in (["--epsilon", "1"], ["-o", "elsewhere/b.avro", "--epsilon", "1"], ["--domain", "more.avro"]):
        avro.write_domain("more.avro", np.array([[0, 9]], np.uint64))
        result = run(*options)
        assert result.exit_code == 77 and one_line(result)
        assert "4 of 4 shared ids in this batch were queried before" in result.stderr
    result = run("-o", "out.json")  # the same query
    assert result.exit_code == 77 and f", in {os.path.realpath('out.avro')}, and another answer" in result.stderr
    assert "restored from a copy of that answer" in done("-o", "elsewhere/out.avro")
    assert Path("out.avro").read_bytes() == first == Path("elsewhere/out.avro").read_bytes()
    words = done("--filtering-ids", "3", "-o", "three.avro")  # has shared ids of its own
    assert "a new ledger" not in words and run("--filtering-ids", "3, 4").exit_code == 77
    assert "a new ledger" in done("--ledger", "elsewhere.sqlite", "-q", "-o", "other.avro")
    assert Path("other.avro").read_bytes() != first
    done("--no-noise", "-q")  # for tests, whatever was spent


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("output", ["out.avro", "out.json"])
def test_the_same_command_again_has_been_answered(output: str) -> None:
    done("-o", output)
    first = Path(output).read_bytes()
    assert f"{output}: already answered at 20" in done("-o", output) and done("-o", output, "-q") == ""
    assert Path(output).read_bytes() == first
    shutil.copy("clear.avro", "copy.avro")  # the same reports from another file, and again from two
    assert "already answered" in done("-o", output, reports="copy.avro")
    assert "already answered" in done("clear.avro", "-o", output, reports="copy.avro")
    avro.write_reports("fewer.avro", batch([*ROWS[:3], [(9, 5)]]))  # the same ids, others' sums: trusted by id
    assert run("-o", output, reports="fewer.avro").exit_code == 0 and Path(output).read_bytes() == first
    avro.write_reports("fewer.avro", batch(ROWS[:3]))
    assert run("-o", output, reports="fewer.avro").exit_code == 77
    for lose in (lambda: Path(output).write_bytes(first[:-1]), lambda: os.unlink(output)):
        lose()
        assert "already answered" in done("-o", output) and Path(output).read_bytes() == first
    shutil.copy("copy.avro", "clear.avro")
    (copy,) = Path(f"{users_ledger()}.answers").iterdir()
    assert copy.read_bytes() == first
    copy.write_bytes(first[:-1])
    os.unlink(output)
    refused = run("-o", output)
    assert refused.exit_code == 77 and "holds that answer" in refused.stderr and not os.path.exists(output)


@pytest.mark.usefixtures("folder")
def test_a_repeated_query_decrypts_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    options = ["--key", "private.key", "-o", "out.avro"]
    done(*options, reports="sealed.avro")
    first = Path("out.avro").read_bytes()
    opened: list[object] = []
    monkeypatch.setattr(aggregation.batch, "opened", lambda *given: opened.append(given))
    assert "already answered" in done(*options, reports="sealed.avro") and not opened
    os.rename("sealed.avro", "moved.avro")
    os.unlink("out.avro")
    assert "restored" in done(*options, reports="moved.avro") and not opened
    assert Path("out.avro").read_bytes() == first
    answered = api.aggregate(
        Plan.load("plan.json"), "moved.avro", "domain.avro", output="out.avro", private_keys="private.key"
    )
    assert answered.answered and not answered.restored and not opened


def hours(*numbers: int) -> list[Any]:
    """A report of each hour."""
    return [report(hour, [(1, 1000)]) for hour in numbers]


@pytest.mark.usefixtures("folder")
def test_late_reports_of_spent_hours_are_left_out_and_counted() -> None:
    avro.write_reports("monday.avro", hours(1, 2, 3))
    avro.write_reports("tuesday.avro", [*hours(26, 27), report(99, [(1, 7)], scheduled_report_time=HOUR + 7200)])
    done("-o", "monday.out.avro", reports="monday.avro")
    refused = run("-o", "tuesday.out.avro", reports="tuesday.avro")
    assert refused.exit_code == 77 and "leave out the reports of these hours (--skip-spent)" in refused.stderr
    words = done("--skip-spent", "-o", "tuesday.out.avro", "--summary", "s.json", reports="tuesday.avro")
    assert "reports: 2 of 3 used, 0 repeated, 0 refused\n  1 left out, of hours that were queried before" in words
    assert json.loads(Path("s.json").read_text())["tally"]["skipped"] == 1 and "2 shared ids spent" in words
    first = Path("tuesday.out.avro").read_bytes()
    assert "already answered" in done("--skip-spent", "-o", "tuesday.out.avro", reports="tuesday.avro")
    assert Path("tuesday.out.avro").read_bytes() == first
    nothing = run("--skip-spent", "-o", "x.avro", "--epsilon", "1", reports="tuesday.avro")
    assert nothing.exit_code == 77 and "all 3 reports that can be used are of hours" in nothing.stderr
    refused = run("--skip-spent", "--no-noise", reports="tuesday.avro")
    assert refused.exit_code == 2 and "--skip-spent goes by the ledger" in refused.stderr


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(
    ("module", "function"), [("ledger", "reserve"), ("avro", "write_results"), ("ledger", "finish")]
)
def test_hours_of_a_query_that_was_killed_are_its_own(module: str, function: str) -> None:
    avro.write_reports("monday.avro", hours(1, 2, 3))
    avro.write_reports("tuesday.avro", hours(2, 26, 27))
    done("-o", "monday.out.avro", reports="monday.avro")
    folder = "wire" if module == "avro" else "service"
    code = KILLED.format(folder=folder, module=module, function=function, after=True)
    args = ["plan.json", "tuesday.avro", "--domain", "domain.avro", "--skip-spent", "-o", "t.avro"]
    killed = subprocess.run([sys.executable, "-c", code, "aggregate", *args], capture_output=True, check=False)
    assert killed.returncode == -signal.SIGKILL
    first = Path("t.avro").read_bytes() if os.path.exists("t.avro") else None
    done("--skip-spent", "-o", "t.avro", reports="tuesday.avro")
    assert first in (None, Path("t.avro").read_bytes())


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("whole", [True, False], ids=["beside its witness", "alone"])
def test_a_restored_ledger_refuses_what_it_may_not_know(whole: bool) -> None:
    later = int(time.time()) // 3600 * 3600 + 7200  # an hour to come
    avro.write_reports("monday.avro", hours(1, 2))
    avro.write_reports("tuesday.avro", hours(26, 27))
    avro.write_reports("wednesday.avro", [report(5, [(1, 9)], scheduled_report_time=later), *hours(27)])
    done("-o", "monday.out.avro", reports="monday.avro")
    shutil.copy(users_ledger(), "backup.sqlite")
    done("-o", "tuesday.out.avro", reports="tuesday.avro")
    shutil.copy("backup.sqlite", users_ledger())
    if not whole:
        os.unlink(f"{users_ledger()}.created")
    for _ in range(2):  # for good
        refused = run("-o", "again.avro", reports="tuesday.avro")
        assert refused.exit_code == 77 and "was restored at 20" in refused.stderr
        assert "2 of 2 shared ids in this batch are of hours before that" in refused.stderr
    assert "already answered" in done("-o", "monday.out.avro", reports="monday.avro")  # what it knows
    words = done("--skip-spent", "-o", "wednesday.out.avro", reports="wednesday.avro")
    assert "1 left out, of hours" in words and "1 shared ids spent" in words


@pytest.mark.usefixtures("folder")
def test_a_ledger_that_is_moved_with_its_witness_goes_on() -> None:
    avro.write_reports("monday.avro", hours(1, 2))
    avro.write_reports("tuesday.avro", hours(26, 27))
    done("-o", "monday.out.avro", reports="monday.avro")
    for end in ("", ".created"):
        os.rename(users_ledger() + end, f"moved.sqlite{end}")
    done("-o", "tuesday.out.avro", "--ledger", "moved.sqlite", reports="tuesday.avro")


@pytest.mark.usefixtures("folder")
def test_a_ledger_that_is_gone_is_missed() -> None:
    done()
    os.unlink(users_ledger())
    result = run("-o", "b.avro")
    assert result.exit_code == 77 and "is missing" in result.stderr and "restore it from a backup" in result.stderr
    Path(users_ledger()).write_bytes(b"")
    result = run("-o", "b.avro")
    assert result.exit_code == 77 and "is empty" in result.stderr and not os.path.exists("b.avro")


@pytest.mark.usefixtures("folder")
def test_without_a_home_the_remedy_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", "/dev/null/state")
    result = run()
    assert result.exit_code == 2 and "name a file for it with --ledger" in result.stderr
    done("--ledger", "l.sqlite")
    done("--no-noise")


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("plan", [["plan.json"], ["--epsilon", "4", "--l1", "65536"]])
@pytest.mark.parametrize("keys", [KEYS, KEYS[::-1] + np.uint64(70)], ids=["its keys", "other keys"])
def test_whether_reports_have_the_keys_is_not_told(keys: Any, plan: list[str]) -> None:
    """Every domain is answered alike and spends alike; that it does is said first."""
    avro.write_domain("asked.avro", keys)
    args = ["aggregate", *plan, "clear.avro", "--domain", "asked.avro", "--ledger", "l.sqlite", "-o", "out.avro"]
    result = CliRunner().invoke(main, [*args, "--summary", "said.json"])
    assert result.exit_code == 0, result.output
    first = UNSURE if plan == ["plan.json"] else UNSURE.replace("the plan has no keys", "no plan is given")
    said = [line for line in result.stderr.splitlines() if "the oldest report" not in line]
    assert said == [
        first,
        "l.sqlite: a new ledger, which knows of no earlier query",
        "out.avro: 3 keys, noise DLap(4/65536)",
        "reports: 4 of 4 used, 0 repeated, 0 refused",
        "l.sqlite: 4 shared ids spent",
    ]
    assert (avro.read_results("out.avro").metric != 0).any()
    tally = json.loads(Path("said.json").read_text())["tally"]
    assert [tally[name] for name in ("summed", "nulls", "filtered", "outside")] == [None] * 4
    again = CliRunner().invoke(main, [*args, "-q"])
    assert again.exit_code == 0 and again.stderr == ""
    avro.write_domain("asked.avro", keys[:2])
    assert "reports are aggregated once" in CliRunner().invoke(main, args).stderr
    avro.write_reports("nulls.avro", [report(9, [])])  # browsers send such; they have no keys at all
    done("-o", "nulls-only.avro", reports="nulls.avro")


@pytest.mark.usefixtures("folder")
def test_a_domain_that_the_plan_cannot_give_spends_nothing_whatever_reports_have() -> None:
    question = spec()
    tree = asked(question)[0]
    clients = api_of(question).clients(make_plan(question, tree))
    clients.plan.save("plan.json")
    clients.query(tree).write("domain.avro")
    right = avro.read_domain("domain.avro")
    assert UNSURE not in done("-o", "right.avro")
    for wrong in (KEYS, np.concatenate([right, KEYS[:1]])):  # of which the reports have some
        avro.write_domain("domain.avro", wrong)
        result = run("--ledger", "new.sqlite")
        assert result.exit_code == 2 and one_line(result) and "has keys of another plan (mark " in result.stderr
        assert not os.path.exists("out.avro") and not os.path.exists("new.sqlite")


@pytest.mark.usefixtures("folder")
def test_reports_that_others_planned_need_no_plan() -> None:
    def without(*args: str) -> Result:
        return CliRunner().invoke(main, ["aggregate", *args, "--domain", "domain.avro", "-o", "x.avro"])

    result = without("clear.avro", "--epsilon", "8", "--l1", "1000", "--seed", "3")
    assert result.exit_code == 0, result.output
    found = avro.read_results("x.avro")
    assert (found.metric - sample_dlap(8 / 1000, 3, np.random.default_rng(3))).tolist() == EXACT
    assert found.stated[0][:2] == (8, 1000)
    for args, words in (
        (["clear.avro", "--l1", "1000"], "goes with --epsilon; give both, or a plan"),
        (["plan.json", "clear.avro", "--epsilon", "1", "--l1", "1000"], "leave it out, since plan.json is one"),
        (["clear.avro", "--epsilon", "1"], "got only clear.avro: without a plan, give --epsilon and --l1"),
        (["clear.avro", "--epsilon", "nan", "--l1", "1"], "above 0 and up to 64; got nan"),
    ):
        result = without(*args)
        assert result.exit_code == 2 and words in result.stderr, result.stderr


@pytest.mark.usefixtures("folder")
def test_json_is_the_same_summary_report() -> None:
    done("--seed", "5", "-o", "a.json")
    done("--seed", "5", "-o", "a.avro")
    one, two = read_summary("a.json"), read_summary("a.avro")
    assert np.array_equal(one.keys, two.keys) and np.array_equal(one.metric, two.metric)
    assert one.stated == two.stated == avro.StatedNoise(4, 65536, SEEDED, Plan.load("plan.json").fingerprint)
    rows = json.loads(Path("a.json").read_text())
    assert [row["bucket"] for row in rows] == ["\x01", "\x02", "\x05" + "\0" * 8] and rows[0]["not_private"] == SEEDED
    done("-o", "b.json")
    assert sorted(json.loads(Path("b.json").read_text())[0]) == ["bucket", "epsilon", "l1", "metric", "plan"]


@pytest.mark.usefixtures("folder")
def test_a_query_that_was_interrupted_gives_its_answer_later(monkeypatch: pytest.MonkeyPatch) -> None:
    written = avro.write_results

    def interrupted(*args: Any) -> None:
        written(*args)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(avro, "write_results", interrupted)
        assert run().exit_code == 130
    first = Path("out.avro").read_bytes()
    assert run("--epsilon", "1").exit_code == 77  # another query of these reports
    done("-o", "later.avro")
    assert Path("later.avro").read_bytes() == first and "already answered" in done()


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(("file", "spent"), [("out.avro", True), ("ledger.sqlite.created", False)])
def test_on_a_full_disk_nothing_is_lost(file: str, spent: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    replace = os.replace

    def full(old: str, new: str) -> None:
        if new.endswith(file):
            raise OSError(errno.ENOSPC, "No space left on device")
        replace(old, new)

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", full)
        for _ in range(2):
            result = run()
            assert result.exit_code == 75 and one_line(result), result.output
    assert os.replace is replace and not os.path.exists("out.avro")
    if spent:  # on the first
        assert run("--epsilon", "1").exit_code == 77
    done()
    assert "already answered" in done()


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("function", ["draw", "add_up"])
def test_where_memory_is_short_nothing_is_lost(function: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def short(*_: Any) -> None:
        raise MemoryError

    with monkeypatch.context() as patch:
        patch.setattr(aggregation, function, short)
        assert run().exit_code == 75
    done()


@pytest.mark.usefixtures("folder")
def test_where_a_process_that_decrypts_is_killed_nothing_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    def killed(*_: Any) -> None:
        raise BrokenProcessPool

    with monkeypatch.context() as patch:
        patch.setattr(aggregation.batch, "parts", killed)
        result = run()
        assert result.exit_code == 75 and "nothing was spent" in result.stderr
    done()


KILLED = """
import os, signal, sys
from attributary.api.ara.{folder} import {module}
from attributary import api
from attributary.api import api_of
from attributary.cli import main
done = {module}.{function}
def deadly(*args):
    if {after}:
        done(*args)
    os.kill(os.getpid(), signal.SIGKILL)
{module}.{function} = deadly
main(sys.argv[1:])
"""


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(
    ("module", "function", "after", "spent"),
    [
        ("ledger", "reserve", False, False),
        ("ledger", "reserve", True, True),
        ("aggregation", "draw", True, True),
        ("avro", "write_results", True, True),
        ("ledger", "finish", True, True),
    ],
)
def test_killed_between_steps_one_answer_is_all_there_is(module: str, function: str, after: bool, spent: bool) -> None:
    folder = "wire" if module == "avro" else "service"
    code = KILLED.format(folder=folder, module=module, function=function, after=after)
    args = ["aggregate", "plan.json", "clear.avro", "--domain", "domain.avro", "-o", "out.avro"]
    killed = subprocess.run([sys.executable, "-c", code, *args], capture_output=True, check=False)
    assert killed.returncode == -signal.SIGKILL
    first = Path("out.avro").read_bytes() if os.path.exists("out.avro") else None
    other = run("--epsilon", "1", "-o", "other.avro")
    assert other.exit_code == (77 if spent else 0), other.output
    again = run("-o", "again.avro")
    assert again.exit_code == (77 if not spent else 0), again.output
    assert function != "finish" or run().exit_code == 0
    if first is not None and again.exit_code == 0:
        assert Path("again.avro").read_bytes() == first


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("ending", ["avro", "json"])
def test_a_debug_run_counts_reports_in_debug_mode_and_spends_nothing(ending: str) -> None:
    others = [report(number, [(1, 1000)]) for number in range(90, 130)]  # far more than --max-errors
    avro.write_reports("mixed.avro", [*batch(ROWS, debug_mode=True), *others])
    for _ in range(2):
        words = done("--debug", "-o", f"x.{ending}", reports="mixed.avro")
        with open("x.debug.avro", "rb") as file:
            found = list(fastavro.reader(file))
        buckets, unnoised, noise = ([row[name] for row in found] for name in ("bucket", "unnoised_metric", "noise"))
        keys = [list(divmod(int.from_bytes(bucket, "big"), 2**64)) for bucket in buckets]
        assert keys == [*KEYS.tolist(), [0, 9]] and unnoised == [*EXACT, 1]
        summary = read_summary(f"x.{ending}")
        assert np.array_equal(np.add(unnoised, noise)[:3], summary.metric) and any(noise[:3])
        both = ["in_domain", "in_reports"]
        assert [row["annotations"] for row in found] == [both] * 3 + [["in_reports"]]
        assert summary.stated[:2] == (4, 65536) and "NOT PRIVATE: a debug run" in summary.stated.not_private
        assert "x.debug.avro: NOT PRIVATE" in words and "40 DEBUG_NOT_ENABLED" in words and "nothing was spent" in words
    with open("x.debug.avro", "rb") as file:
        assert b"NOT PRIVATE" in file.read(2000)
    assert not os.path.exists(users_ledger())
    assert f"x.{ending}: NOT PRIVATE: a debug run" in done("--debug", "-q", "-o", f"x.{ending}", reports="mixed.avro")
    refused = run("--debug")
    assert refused.exit_code == 2 and "no report can be used, of 4; 4 DEBUG_NOT_ENABLED" in refused.stderr


@pytest.mark.usefixtures("folder")
def test_beyond_a_share_of_errors_nothing_is_spent() -> None:
    good = [report(number, [(1, 1)]) for number in range(18)]
    bad = [Report("{", b""), Report(good[0].shared_info, b"?")]
    for number, options, code in (
        (18, [], 0),  # 2 of 20 are 10 %
        (17, [], 2),
        (17, ["--max-errors", "0.0%"], 2),
        (17, ["--max-errors", "10.6 %"], 0),
        (1, ["--max-errors", "100%"], 0),
    ):
        avro.write_reports("mixed.avro", good[:number] + bad)
        result = run(*options, "--ledger", f"{number}{len(options)}.sqlite", reports="mixed.avro")
        assert result.exit_code == code, result.output
        if code:
            assert (
                f"2 of {number + 2} reports cannot be used" in result.stderr and "2 DECRYPTION_ERROR" in result.stderr
            )
            assert one_line(result) and not os.path.exists(f"{number}{len(options)}.sqlite")


@pytest.mark.usefixtures("folder")
def test_errors_are_counted_by_category_as_json() -> None:
    other = [report(number, [(1, 1)], sealed=True) for number in range(20, 23)]
    wrong = [replace(other[0], payload=other[1].payload), Report("{", b"")]
    unknown = report(30, [(1, 1)], api="shared-warehouse")
    avro.write_reports("mixed.avro", [*batch(ROWS, sealed=True), *wrong, unknown])
    result = run("--errors", "errors.json", "--key", "private.key", reports="mixed.avro")
    assert result.exit_code == 2 and not os.path.exists(users_ledger())  # they are told then most of all
    found = json.loads(Path("errors.json").read_text())
    counts = {each["category"]: each["count"] for each in found["error_counts"]}
    assert counts == {"DECRYPTION_ERROR": 2, "UNSUPPORTED_REPORT_API_TYPE": 1, "NUM_REPORTS_WITH_ERRORS": 3}
    assert found["reports"] == 7 and len(found["error_messages"]) == 3
    words = done("--errors", "errors.json", "--key", "private.key", "--max-errors", "50%", reports="mixed.avro")
    assert "  2 DECRYPTION_ERROR\n  1 UNSUPPORTED_REPORT_API_TYPE\n" in words
    done("--errors", "errors.json", "--no-noise")
    assert json.loads(Path("errors.json").read_text()) == {"reports": 4, "error_counts": [], "error_messages": []}
    for output in ("x.json", "./x.json"):
        assert "each a file of its own" in run("-o", "x.json", "--errors", output).stderr


@pytest.mark.usefixtures("folder")
def test_reports_of_another_site_count_where_it_is_named() -> None:
    theirs = [report(n, [(2, 50)], reporting_origin=f"https://x{n}.other.test") for n in (8, 9)]
    avro.write_reports("mixed.avro", [*batch(ROWS), *theirs])
    for options, exact in (([], EXACT), (["--reporting-site", "https://other.test"], [0, 100, 0])):
        words = done("--no-noise", "--max-errors", "99%", *options, reports="mixed.avro")
        assert avro.read_results("out.avro").metric.tolist() == exact and "REPORTING_SITE_MISMATCH" in words


@pytest.mark.usefixtures("folder")
def test_old_reports_are_told_and_refused_where_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [HOUR + 100 * 86_400.0]
    monkeypatch.setattr(time, "time", lambda: now[0])
    due = [HOUR + day * 86_400 for day in (0, 9, 10, 11, 100)]
    reports = [report(n, [(1, 10**n)], scheduled_report_time=when) for n, when in enumerate(due)]
    avro.write_reports("aged.avro", reports)
    words = done("--no-noise", reports="aged.avro")
    assert "the oldest report was due 100 days ago; the aggregation service takes 90 (--max-age)" in words
    result = run("--max-age", "90d", "--no-noise", reports="aged.avro")
    assert result.exit_code == 2 and "2 of 5 reports cannot be used" in result.stderr
    assert "2 ORIGINAL_REPORT_TIME_TOO_OLD" in result.stderr
    words = done("--max-age", "90d", "--no-noise", "--max-errors", "40%", reports="aged.avro")
    assert avro.read_results("out.avro").metric.tolist() == [11100, 0, 0] and "oldest" not in words
    args = ("--max-age", "90d", "--max-errors", "50%")
    done(*args, reports="aged.avro")
    now[0] += 86_399 - now[0] % 86_400  # the last second of this day: still the same query
    assert "already answered" in done(*args, reports="aged.avro")


@pytest.mark.usefixtures("folder")
def test_filtering_ids_choose_contributions() -> None:
    done("--no-noise", "--filtering-ids", "3", "-q")
    assert avro.read_results("out.avro").metric.tolist() == [0, 40, 0]
    done("--no-noise", "--filtering-ids", "0,3", "-q")
    assert avro.read_results("out.avro").metric.tolist() == [600, 65576, 7]


@pytest.mark.usefixtures("folder")
def test_bad_reports_are_told_and_the_rest_is_counted() -> None:
    good = batch(ROWS)
    avro.write_reports("mixed.avro", [Report("{\n", b"")] * 7 + good + [good[0]])
    words = done("--no-noise", "--max-errors", "60%", reports="mixed.avro")
    assert avro.read_results("out.avro").metric.tolist() == EXACT
    assert "reports: 4 of 12 used, 1 repeated, 7 refused" in words
    assert words.count("shared_info is not JSON") == 5 and "… and 2 more" in words


@pytest.mark.usefixtures("folder")
def test_many_files_of_many_kinds_are_one_batch() -> None:
    os.makedirs("reports")
    sealed = batch(ROWS, sealed=True, debug_mode=True)
    avro.write_reports("reports/a.avro", sealed[:2])
    Path("reports/b.json").write_text(to_json(sealed[2]))
    Path("reports/c.jsonl").write_text("\n".join(to_json(one) for one in sealed))
    done("--no-noise", "-q", "--key", "private.key", reports="reports")
    assert avro.read_results("out.avro").metric.tolist() == EXACT
    avro.write_domain("more.avro", np.array([[0, 9], [0, 1]], np.uint64))
    done("--no-noise", "-q", "--domain", "more.avro")
    found = read_summary("out.avro")
    assert found.keys.tolist() == [*KEYS.tolist(), [0, 9]] and found.metric.tolist() == [*EXACT, 1]


@pytest.mark.parametrize(
    ("args", "reports", "message"),
    [
        (["--epsilon", "0"], "clear.avro", "above 0 and up to 64; got 0"),
        (["--epsilon", "65"], "clear.avro", "above 0 and up to 64; got 65"),
        (["--epsilon", "nan"], "clear.avro", "above 0 and up to 64; got nan"),
        (["--seed", "1", "--no-noise"], "clear.avro", "give one of them"),
        (["-o", "out.csv"], "clear.avro", "end out.csv in .avro or .json"),
        (["--max-errors", "0.1"], "clear.avro", "a share of the reports from 0% to 100%; got '0.1'"),
        (["--max-errors", "101%"], "clear.avro", "a share of the reports from 0% to 100%; got '101%'"),
        (["--max-errors", "nan%"], "clear.avro", "a share of the reports from 0% to 100%"),
        (["--max-age", "90"], "clear.avro", 'as in "90s", "30m", "6h", "2d" or "1w"; got \'90\''),
        (["--errors", "none/errors.json"], "clear.avro", "none/errors.json cannot be written"),
        (["--ledger", ":memory:"], "clear.avro", "a ledger is a file that lasts; got ':memory:'"),
        (["--ledger", "file:l?mode=memory"], "clear.avro", "a ledger is a file that lasts"),
        (["--ledger", ""], "clear.avro", "a ledger is a file that lasts; got ''"),
        (["-o", "none/out.avro"], "clear.avro", "none/out.avro cannot be written"),
        (["--filtering-ids", "a"], "clear.avro", "whole numbers from 0, as in 0,1; got --filtering-ids a"),
        (["--filtering-ids", ""], "clear.avro", "whole numbers from 0"),
        (["--filtering-ids", "18446744073709551616"], "clear.avro", "whole numbers from 0"),
        (["--key", "none.key"], "clear.avro", "the key none.key cannot be read"),
        (["--key", "plan.json"], "clear.avro", "plan.json is not a private key"),
        ([], "none.avro", "there is no file none.avro; give the files of reports"),
        ([], "domain.avro", "its records have no field 'payload'"),
        ([], "sealed.avro", "if the reports are encrypted, give their key"),
        (
            ["--key", "private.key"],
            "clear.avro",
            "of 4; 4 DECRYPTION_ERROR; the first: clear.avro: report 1: the",
        ),
        (["--domain", "clear.avro"], "clear.avro", "its records have no field 'bucket'"),
        (["--ledger", "unit.json"], "clear.avro", "unit.json is not an Attributary ledger"),
    ],
)
@pytest.mark.usefixtures("folder")
def test_a_mistake_is_one_line_and_writes_nothing(args: list[str], reports: str, message: str) -> None:
    before = sorted(os.listdir())
    result = run(*args, reports=reports)
    assert result.exit_code == 2 and one_line(result), result.output
    assert message in result.stderr and sorted(os.listdir()) == before


@pytest.mark.usefixtures("folder")
def test_other_mistakes() -> None:
    args = ["--domain", "domain.avro", "-o", "out.avro"]
    result = CliRunner().invoke(main, ["aggregate", "unit.json", "clear.avro", *args])
    assert result.exit_code == 2 and 'has noise = "api"; this one has "unit": make a new plan' in result.stderr
    avro.write_reports("none.avro", [])
    assert "no report can be used, of 0; there are none" in run(reports="none.avro").stderr
    avro.write_domain("domain.avro", KEYS[:0])
    assert "domain.avro has no keys" in run().stderr
    avro.write_domain("domain.avro", KEYS)
    avro.write_reports("large.avro", [report(i, [(1, 2**32 - 1)] * 20) for i in range(2)])
    done("--no-noise", "-q", reports="large.avro")
    assert avro.read_results("out.avro").metric[0] == 40 * (2**32 - 1)
