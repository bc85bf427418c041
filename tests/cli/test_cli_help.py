"""Help: its first screen, its examples, which run, and what a shell completes."""

import re
import shlex
import shutil
from pathlib import Path
from typing import Any

import pytest
from click.shell_completion import BashComplete

from attributary import explore
from attributary.api.ara.wire import avro
from attributary.cli import COMMANDS, main
from attributary.explore import Session
from support.browser_reports import batch
from support.command import attributary

FIGURES = "region,store,visits\nnorth,,103\nnorth,a,58\nnorth,b,51\nsouth,,60\nsouth,c,33\nsouth,d,22\n"


def completions(*words: str) -> set[tuple[str, str]]:
    """The type and the value of what completes the last word."""
    shell = BashComplete(main, {}, "attributary", "_ATTRIBUTARY_COMPLETE")
    return {(item.type, item.value) for item in shell.get_completions(list(words[:-1]), words[-1])}


@pytest.mark.parametrize(
    ("words", "wanted"),
    [
        (("rep",), {("plain", "report")}),
        (("run", "--pl"), {("plain", "--plan")}),
        (("run", "--method", "opt"), {("plain", "optimal")}),
        (("plan", "--method", "al"), {("plain", "all")}),
        (("denoise", "--estimator", "lea"), {("plain", "learned")}),
        (("generate", "sh"), {("plain", "shop")}),
        (("run", "sp"), {("file", "sp")}),
        (("init", "impressions.csv", ""), {("file", "")}),
        (("denoise", "--table", "no"), {("file", "no")}),
    ],
)
def test_a_shell_completes_commands_options_values_and_files(
    words: tuple[str, ...], wanted: set[tuple[str, str]]
) -> None:
    assert completions(*words) == wanted


def examples(*command: str) -> list[list[str]]:
    """The arguments of each `$ attributary …` in a help text."""
    text = re.sub(r"\\\n +", "", attributary(*command, "--help").stdout)
    return [shlex.split(line)[1:] for line in re.findall(r"^ +\$ (attributary.*)$", text, re.M)]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the files that examples name."""
    folder = tmp_path_factory.mktemp("help")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setenv("XDG_STATE_HOME", str(folder / "state"))
        attributary("generate", "shop", "--rows", 20_000, "-o", ".")
        Path("figures.csv").write_text(FIGURES)
        attributary("count", "spec.toml", "-o", "counts.parquet")
        attributary("plan", "spec.toml", "--prior", "counts.parquet", "-o", "plan.json")
        attributary("keys", "plan.json", "--impressions", "impressions.parquet", "-o", "keys")
        Path("reports").mkdir()
        avro.write_reports("reports/monday.avro", batch([[(1, 300)], [(2, 40)]]))
        attributary(
            "aggregate", "plan.json", "reports", "--domain", "keys/domain.avro", "-o", "summary.avro", "--seed", 1
        )
        for seed, place in enumerate(("run", "this/run", "last/run", "weeks/2026-01-05", "weeks/2026-01-12")):
            Path(place).parent.mkdir(exist_ok=True)
            attributary("run", "spec.toml", "--seed", seed, "-o", place)
    return folder


@pytest.mark.parametrize("command", [(), *((name,) for name in COMMANDS)], ids=lambda words: " ".join(words) or "main")
def test_examples_in_help_run(
    command: tuple[str, ...], made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(made, tmp_path / "here")
    monkeypatch.chdir(tmp_path / "here")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    served = 0

    def serve(session: Session, *_: Any) -> None:
        nonlocal served
        served += 1
        session.close()

    monkeypatch.setattr(explore, "serve", serve)
    if command in [(), ("init",)]:  # these write the first spec, and the first run
        Path("spec.toml").unlink()
        shutil.rmtree("run")
    found = examples(*command)
    assert found
    for words in found:
        attributary(*words)
    assert served == sum(words[0] == "explore" for words in found)


def test_the_help_begins_with_what_people_do() -> None:
    assert [words[0] for words in examples()] == ["denoise", "init", "run", "plan"]


def test_every_page_that_help_names_is_there() -> None:
    docs = Path(__file__).parents[2] / "docs"
    for command in [(), *((name,) for name in COMMANDS)]:
        pages = re.findall(r"docs/(\w+\.md)", attributary(*command, "--help").stdout)
        assert pages and all((docs / page).exists() for page in pages), (command, pages)


@pytest.mark.parametrize(
    ("command", "default"), [("denoise", "unbiased, or learned with a prior"), ("run", "unbiased")]
)
def test_the_default_estimator_is_that_of_the_command(command: str, default: str) -> None:
    text = " ".join(attributary(command, "--help").stdout.split())
    assert f"posterior mean of whole counts, for reading and ranking. [default: {default}]" in text
