"""No command writes over what it reads, whatever the file is called."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner

from attributary.cli import main
from attributary.cli.reading import refuse_inputs
from attributary.errors import InputError


def linked(path: Path) -> str:
    (path.parent / "link.csv").symlink_to(path.name)
    return str(path.parent / "link.csv")


def hard_linked(path: Path) -> str:
    os.link(path, path.parent / "hard.csv")
    return str(path.parent / "hard.csv")


SPELLINGS: dict[str, Callable[[Path], str]] = {
    "the same": str,
    "relative": os.path.relpath,
    "with dots": lambda path: str(path.parent / ".." / path.parent.name / "." / path.name),
    "link": linked,
    "hard link": hard_linked,
    "through a linked folder": lambda path: (
        (path.parent.parent / "other").symlink_to(path.parent),
        str(path.parent.parent / "other" / path.name),
    )[1],
}


@pytest.mark.parametrize("spelt", SPELLINGS.values(), ids=SPELLINGS.keys())
@pytest.mark.parametrize("swapped", [False, True])
def test_one_file_under_two_names_is_one_file(spelt: Callable[[Path], str], swapped: bool, tmp_path: Path) -> None:
    (tmp_path / "logs").mkdir()
    path = tmp_path / "logs" / "in.csv"
    path.write_text("x")
    one, other = (spelt(path), str(path)) if swapped else (str(path), spelt(path))
    with pytest.raises(InputError, match="and would be overwritten; choose another place with -o"):
        refuse_inputs([one], [None, "-", "s3://bucket/in.csv", other])
    refuse_inputs([str(tmp_path / "out.csv"), None, "-", "/dev/null"], [other, "/dev/null"])


@pytest.mark.parametrize(
    ("read", "output", "refused"),
    [
        ("logs", "logs/out.csv", True),
        ("logs/", "logs/deep/out.csv", True),
        ("logs/..", "out.csv", True),
        ("logs", "logs2/out.csv", False),
        ("logs", "out.csv", False),
        ("logs/*.csv", "logs/out.csv", True),
        ("logs/*.csv", "logs/out.parquet", False),
        ("logs/*.csv", "logs/run/out.csv", False),
        ("*/o?t.csv", "logs/out.csv", True),
        ("logs/../*/out.csv", "logs/out.csv", True),
        ("logs/**/*.csv", "logs/a/b/out.csv", True),
        ("link/*.csv", "logs/out.csv", True),
        ("[l]ogs/*", "logs/out.csv", True),
    ],
)
def test_nothing_is_written_among_the_files_that_are_read(
    read: str, output: str, refused: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "logs").mkdir()
    (tmp_path / "link").symlink_to("logs")
    (tmp_path / "logs" / "in.csv").write_text("x")
    if not refused:
        refuse_inputs([output], [read])
        return
    with pytest.raises(InputError, match="would be among the files that are read"):
        refuse_inputs([output], [read])


def test_the_nodes_beside_a_plan_are_read_with_it(tmp_path: Path) -> None:
    (tmp_path / "plan.nodes.parquet").write_text("precious")
    with pytest.raises(InputError, match=r"plan\.nodes\.parquet is what this command reads"):
        refuse_inputs([str(tmp_path / "plan.nodes.parquet")], [str(tmp_path / "plan.json")])


@pytest.mark.parametrize("command", ["aggregate", "report", "denoise"])
def test_no_command_writes_over_a_ledger_that_it_was_not_told_of(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    ledger = tmp_path / "ledger.sqlite"
    ledger.write_bytes(b"SQLite format 3\0precious")
    (tmp_path / "table.csv").write_text("a,estimate,variance,low,high\nx,1,1,0,2\ny,1,1,0,2\n")
    over = {
        "aggregate": "reports.avro --epsilon 1 --l1 9 --domain d.avro -o out.avro --errors ledger.sqlite",
        "report": "table.csv --levels a -o ledger.sqlite",
        "denoise": "--table table.csv --levels a --value estimate --variance 1 --format csv -o ledger.sqlite",
    }
    result = CliRunner().invoke(main, [command, *over[command].split()])
    assert result.exit_code == 2 and "ledger.sqlite is a database" in result.stderr, result.output
    assert ledger.read_bytes() == b"SQLite format 3\0precious"


SPEC = """epsilon = 4
[[attribute]]
name = "a"
[logs]
impressions = "logs/*.csv"
conversions = "conversions.csv"
user = "user"
time = "time"
window = "30d"
"""
COUNTS = "a,impressions,conversions\nx,3,2\ny,4,1\n"
NOISY = "a,n\nx,3\ny,4\n"
COMMANDS = [
    "count spec.toml -o {}",
    "run spec.toml -o {}",
    "plan spec.toml --prior counts.csv -o {}",
    "plan spec.toml --tree counts.csv -o {}",
    "evaluate spec.toml --counts counts.csv -o {}",
    "evaluate spec.toml -o {}",
    "denoise --table noisy.csv --levels a --value n --variance 1 --prior counts.csv -o {}",
    "keys plan.json --impressions keys/tree.parquet -o {}",
    "report estimates.csv plan.json --levels a -o {}",
    "denoise plan.json summary.avro -o {}",
    "denoise plan.json summary.avro --tree counts.csv -o {}",
    "aggregate plan.json reports --domain domain.avro --ledger ledger.avro --key key.avro --no-noise -o {}",
]
AVRO = ("domain", "summary", "ledger", "key")
OVER = {
    0: ["spec.toml", "logs/1.csv", "logs/new.csv", "conversions.csv", "link.csv"],
    1: ["logrun"],
    2: ["spec.toml", "counts.csv"],
    3: ["counts.csv"],
    4: ["counts.csv", "spec.toml"],
    5: ["conversions.csv"],
    6: ["noisy.csv", "counts.csv"],
    7: ["keys"],
    8: ["estimates.csv", "plan.json"],
    9: ["tree.parquet", "plan.json", "summary.avro"],
    10: ["counts.csv"],
    11: ["domain.avro", "reports/summary.avro", "reports/1.avro", "ledger.avro", "key.avro"],
}


@pytest.mark.parametrize(
    ("number", "output"), [(number, output) for number, outputs in OVER.items() for output in outputs]
)
def test_no_command_writes_over_its_input(
    number: int, output: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for folder in ("logs", "keys", "logrun", "reports"):
        (tmp_path / folder).mkdir()
    log = "user,time,a\n1,1,x\n2,2,y\n"
    estimates = "a,estimate,variance,low,high\nx,1,1,0,2\ny,1,1,0,2\n"
    spec = SPEC.replace("conversions.csv", "logrun/counts.csv") if number == 1 else SPEC
    texts = {"spec.toml": spec, "counts.csv": COUNTS, "noisy.csv": NOISY, "estimates.csv": estimates}
    texts |= {"logs/1.csv": log, "conversions.csv": log, "logrun/counts.csv": log}
    for name, text in texts.items():
        (tmp_path / name).write_text(text)
    made = CliRunner().invoke(main, ["plan", "spec.toml", "--prior", "counts.csv", "-o", "plan.json", "-q"])
    assert made.exit_code == 0, made.output
    for name in (
        "keys/tree.parquet",
        "domain.avro",
        "summary.avro",
        "tree.parquet",
        "ledger.avro",
        "key.avro",
        "reports/1.avro",
    ):
        (tmp_path / name).write_text("precious")
    (tmp_path / "link.csv").symlink_to("conversions.csv")
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    form = ["--format", "csv"] if number in (0, 4, 5, 6, 10) else ["--format", "parquet"] if number == 9 else []
    result = CliRunner().invoke(main, [*COMMANDS[number].format(output).split(), *form])
    assert result.exit_code == 2 and result.stderr.count("\n") == 1, result.output
    assert "choose another place with -o" in result.stderr, result.stderr
    assert before == {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
