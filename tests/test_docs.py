"""Every example in README and docs runs, and prints what the page says it prints.

In each page, in order: ```csv title="x.csv" (or toml, json) is written to that file; ```python is run, as a doctest
where it has prompts; ```console runs each line that starts with `$`, and where lines follow it, they must be its output
(… stands for anything). Each page has an empty folder of its own. A line that is our command, whether or not it may
fail, runs in this process, and what needs a shell in one.
"""

import doctest
import os
import re
import shlex
import subprocess
import sys
from contextlib import ExitStack
from difflib import SequenceMatcher
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from click.testing import CliRunner

import attributary
from attributary import api, budget, estimators, evaluate, logs, noise, plan, prior, report, rmsre
from attributary.api import w3c
from attributary.cli import main
from attributary.spec.privacy_unit import UNITS
from attributary.spec.terms import TERMS

TOP = Path(__file__).parent.parent
PAGES = [TOP / "README.md", *sorted((TOP / "docs").glob("*.md"))]
FENCE = re.compile(r"^```(\w+)([^\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
DRAWN = ("README.md", "report.md")  # pages whose charts are drawn; others tell of figures
TITLE = re.compile(r'title="([^"]+)"')


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_the_examples_run(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    monkeypatch.chdir(tmp_path)
    if page.name not in DRAWN:
        request.getfixturevalue("undrawn")
    names: dict[str, Any] = {}
    for kind in api.BUILT_IN:
        api.api_of_kind(kind)  # registers itself when it is first imported, which is not the page's doing
    registries: tuple[dict[str, Any], ...] = (noise.MODELS, noise.SHAPES, api.APIS, TERMS)
    registries += (budget.METHODS, estimators.ESTIMATORS, rmsre.METRICS, UNITS)
    with ExitStack() as page_ends:
        for registry in registries:  # what a page registers ends with it
            page_ends.enter_context(patch.dict(registry))
        for kind, options, body in FENCE.findall(page.read_text(encoding="utf-8")):
            title = TITLE.search(options)
            if title:
                Path(title[1]).write_text(body, encoding="utf-8")
            elif kind == "python":
                run_python(body, names, page)
            elif kind == "console":
                run_console(body, page)


def run_python(body: str, names: dict[str, Any], page: Path) -> None:
    if ">>>" not in body:
        exec(compile(body, str(page), "exec"), names)
        return
    flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    test = doctest.DocTestParser().get_doctest(body, names, page.name, str(page), 0)
    report: list[str] = []
    doctest.DocTestRunner(optionflags=flags).run(test, out=report.append, clear_globs=False)
    assert not report, "".join(report)
    names.update(test.globs)


def run_console(body: str, page: Path) -> None:
    for block in re.split(r"^\$ ", body, flags=re.MULTILINE)[1:]:
        command, _, expected = block.partition("\n")
        while command.endswith("\\"):
            more, _, expected = expected.partition("\n")
            command = command[:-1] + more
        if command.startswith(("make ", "pip ", "git ", "python3 -m venv")):
            continue  # set-up, which CI does for itself
        code, out, err = run_line(command)
        assert code == 0, f"{command}\n{err}"
        if expected.strip():
            shown = _squeeze(out + err)
            pattern = ".*?".join(re.escape(part) for part in _squeeze(expected).split("…"))
            found = re.search(pattern, shown, re.DOTALL)
            if not found and "UPDATE_GOLDEN" in os.environ:
                text = page.read_text(encoding="utf-8")
                page.write_text(text.replace(expected, accepted(expected, out + err)), encoding="utf-8")
                continue
            assert found, f"{command} printed\n{shown}\nbut the page says\n{expected}"


def accepted(expected: str, shown: str) -> str:
    """What was expected with each line as it is printed now: … stays, and a line that nothing resembles goes."""
    lines = [line.rstrip() for line in shown.strip("\n").splitlines()]
    if "…" not in expected:
        return "\n".join([*lines, ""]) + "\n" * (len(expected) - len(expected.rstrip("\n")) - 1)
    new, place = [], 0
    for old in expected.splitlines():
        if not old.strip() or old.strip() == "…":
            new.append(old)
            continue
        as_before = re.compile(".*?".join(re.escape(part) for part in " ".join(old.split()).split("…")))
        still = [i for i, line in enumerate(lines[place:]) if as_before.fullmatch(" ".join(line.split()))]
        if still:
            place += still[0] + 1
            new.append(old)
            continue
        alike = [SequenceMatcher(None, " ".join(old.split()), " ".join(line.split())).ratio() for line in lines[place:]]
        if alike and max(alike) > 0.5:
            place += alike.index(max(alike)) + 1
            new.append(lines[place - 1] + "…" * old.endswith("…"))
    return "\n".join([*new, ""])


SHELL = re.compile(r"[|&<>;$`*?~]")
TAIL = re.compile(r'(?: 2>&1)? \|\| (?:true|(echo "exit \$\?"))$')  # the line goes on where the command fails
SHOWN = {"COLUMNS": "100", "NO_COLOR": "1"}


def run_line(command: str) -> tuple[int, str, str]:
    """How a line of a console ends, and what it prints to standard output and to standard error."""
    command = re.sub(r" +# .*", "", command)
    tail = TAIL.search(command)
    alone = command[: tail.start()] if tail else command
    if alone.startswith("attributary ") and not SHELL.search(alone):
        ran = CliRunner(env=SHOWN).invoke(main, shlex.split(alone)[1:], prog_name="attributary")
        told = f"exit {ran.exit_code}\n" if tail and tail[1] and ran.exit_code else ""
        return 0 if tail else ran.exit_code, ran.stdout + told, ran.stderr
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, **SHOWN}
    done = subprocess.run(command, shell=True, capture_output=True, text=True, env=environment, check=False)
    return done.returncode, done.stdout, done.stderr


def _squeeze(text: str) -> str:
    return "\n".join(re.sub(r"[ \t]+", " ", line).strip() for line in text.strip().splitlines())


def test_pages_are_listed() -> None:
    listed = (TOP / "mkdocs.yml").read_text(encoding="utf-8")
    assert all(page.name in listed for page in (TOP / "docs").glob("*.md"))


def test_the_reference_has_every_public_name() -> None:
    page = (TOP / "docs" / "reference.md").read_text(encoding="utf-8")
    listed = {path.rpartition(".")[2] for path in re.findall(r"^::: (\S+)", page, re.MULTILINE)}
    listed |= set(re.findall(r"`(?:\w+\.)?(\w+)", page))
    for module in (attributary, w3c, budget, evaluate, logs, noise, plan, prior, report):
        missing = set(module.__all__) - listed - {"MODELS", "SHAPES", "budget", "noise", "prior"}
        assert not missing, f"{module.__name__}: {sorted(missing)}"
