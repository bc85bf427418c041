"""Summary file: with --summary FILE.json a command also writes all that it prints, as data; with --log json, lines.

Every command has the options, and none needs to know: what is printed goes through `printing`, which notes it here, and
stages come through `progress`. A command adds what its lines say as figures with `fact`.

A command that fails writes why, and at which stage. Whoever reads the file of one that was killed finds the stage that
it was at, and no exit code. The lines tell of stages, warnings and the end, and never of a true count.
"""

import json
import os
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass, field, fields, is_dataclass
from datetime import UTC, datetime
from functools import wraps
from itertools import pairwise
from math import isfinite, isnan
from typing import Any

import click

from attributary import __version__
from attributary.cli.command_errors import bare, end_of, with_options
from attributary.errors import InputError
from attributary.types import Record
from attributary.whole_files import save, written

HELP = "Also write all that is printed to this file, as JSON; - is standard output."
LOG_HELP = "Messages as text, or stages, warnings and errors as JSON lines (also by ATTRIBUTARY_LOG=json)."
BEGINS = b'{\n  "command": '  # as every summary does


@dataclass
class Stage:
    """A part of what a command does."""

    stage: str
    seconds: float = 0.0
    peak_memory_mb: float | None = None  # of this process during the stage, where the system tells
    rows: int | None = None  # that it read or wrote


@dataclass
class SummaryFile:
    """What a command prints: lines, tables and, by name, the figures in them."""

    path: str  # empty where only lines are wanted
    command: str
    muted: bool  # nothing is to be printed, but for what is not private
    facts: Record = field(default_factory=dict)
    messages: list[str] = field(default_factory=list)
    tables: list[Record] = field(default_factory=list)
    done: bool = False
    stages: list[Stage] = field(default_factory=list)
    began: float = 0.0  # the stage that runs

    def begin(self, stage: str) -> None:
        """Ends the stage that runs, and begins another one."""
        if self.stages and self.stages[-1].stage == stage:
            return
        self._end_stage()
        self.stages.append(Stage(stage))
        self.began = time.perf_counter()
        _reset_peak()
        if len(self.stages) > 1 and self.path != "-":
            self._replace({"exit_code": None, "stage": stage})

    def write(self) -> None:
        """Writes the file, once; a command that never ends by itself calls this when it has printed all."""
        if self.done:
            return
        self.done = True
        self._end_stage()
        if self.path:
            paths = [path for path in dict.fromkeys(written) if os.path.exists(path)]
            said = {"tables": self.tables, "messages": self.messages, "written": paths, "exit_code": 0}
            self._save({**self.facts, **said})

    def fail(self, error: BaseException) -> None:
        """Writes what ended the command, and at which stage."""
        if self.done:
            return
        self.done = True
        self._end_stage(failed=True)
        code, message = end_of(error)
        context = click.get_current_context(silent=True)
        message = bare(with_options(message, context.command if context else None))
        if code and self.path:
            with suppress(OSError):  # the folder of a run that did not come to make it
                os.makedirs(os.path.dirname(os.path.realpath(self.path)), exist_ok=True)
            self._replace({"exit_code": code, "error": message, "stage": self.stages[-1].stage})

    def _end_stage(self, failed: bool = False) -> None:
        if self.stages:
            stage = self.stages[-1]
            stage.seconds, stage.peak_memory_mb = round(time.perf_counter() - self.began, 3), _peak()
            known = {"seconds": stage.seconds, "peak_memory_mb": stage.peak_memory_mb}
            log_line("stage", command=self.command, stage=stage.stage, **known, **({"failed": True} if failed else {}))

    def _replace(self, content: Record) -> None:
        """Writes a summary before all is done, or where it never will be: in the place of none, or of an earlier one.

        What else the path may name, as an input that was not known when the command failed, is left alone.
        """
        with suppress(OSError, InputError):  # what ended the command matters more than that it cannot be noted
            if self.path and self.path != "-" and os.path.exists(self.path):
                with open(self.path, "rb") as file:
                    if file.read(len(BEGINS)) != BEGINS:
                        return
            before = len(written)
            self._save(content)
            del written[before:]

    def _save(self, content: Record) -> None:
        said = {"command": self.command, "version": __version__, **content, "stages": self.stages}
        save(json.dumps(as_json(said), ensure_ascii=False, indent=2, allow_nan=False) + "\n", self.path)


def _reset_peak() -> None:
    """Has Linux begin anew with the peak of this process's memory."""
    with suppress(OSError), open("/proc/self/clear_refs", "w") as file:
        file.write("5")


def _peak() -> float | None:
    """The peak of this process's memory in MB, since `_reset_peak` where there is one; None where nobody knows."""
    with suppress(OSError), open("/proc/self/status") as status:
        return next(round(int(line.split()[1]) / 1024, 1) for line in status if line.startswith("VmHWM:"))
    try:
        import resource
    except ImportError:
        return None
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return round(most / (2**20 if sys.platform == "darwin" else 1024), 1)


_current: ContextVar[SummaryFile | None] = ContextVar("summary", default=None)


def current() -> SummaryFile | None:
    """The summary of the command that runs, if one is wanted."""
    return _current.get()


def fact(**figures: object) -> None:
    """Notes figures by their names; several values of one name make a list."""
    if (summary := current()) is None:
        return
    for name, value in figures.items():
        before = summary.facts.get(name, [])
        one = name not in summary.facts
        summary.facts[name] = value if one else [*(before if isinstance(before, list) else [before]), value]


def stage_rows(stage: str, rows: int | None) -> None:
    """Notes how many rows a stage read or wrote: the last one of that name."""
    summary = current()
    named = [one for one in summary.stages if one.stage == stage] if summary is not None else []
    if named and rows:
        named[-1].rows = rows


_as_lines: ContextVar[bool] = ContextVar("lines", default=False)


def choose_lines(args: Sequence[str]) -> None:
    """Has messages be JSON lines if --log says so, or else the environment."""
    said = [after for before, after in pairwise(["", *args]) if before == "--log"]
    said += [word.removeprefix("--log=") for word in args if word.startswith("--log=")]
    _as_lines.set((said or [os.environ.get("ATTRIBUTARY_LOG", "")])[-1] == "json")


def log_line(event: str, **values: object) -> bool:
    """Writes an event as a line of JSON to standard error, and gives whether that is wanted."""
    if _as_lines.get():
        line = {"time": f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}", "event": event, **values}
        click.echo(json.dumps(as_json(line), ensure_ascii=False), err=True)
    return _as_lines.get()


def with_summary(command: click.Command) -> click.Command:
    """The command with the options --summary and --log."""
    if any(parameter.name == "summary" for parameter in command.params):
        return command
    last = next((i for i, one in enumerate(command.params) if one.name == "quiet"), len(command.params))
    kinds = click.Choice(["text", "json"])
    command.params[last:last] = [
        click.Option(["--summary"], metavar="FILE", help=HELP),
        click.Option(
            ["--log"], type=kinds, default="text", envvar="ATTRIBUTARY_LOG", help=LOG_HELP, expose_value=False
        ),
    ]
    callback = command.callback
    assert callback is not None

    @wraps(callback)
    def with_file(*, summary: str | None, **params: object) -> object:
        if summary is None and not _as_lines.get():
            return callback(**params)
        with _collected(command.name or "", summary or "", params) as given:
            return callback(**given)

    command.callback = with_file
    return command


@contextmanager
def _collected(command: str, path: str, params: Mapping[str, object]) -> Iterator[Record]:
    """Notes what a command prints, and writes it at the end; gives the command's parameters."""
    if path:
        _check(path, params)
    summary = SummaryFile(path, command, bool(params.get("quiet")) or _as_lines.get())
    token = _current.set(summary)
    summary.begin("starting")
    try:
        yield {**params, **({"quiet": False} if "quiet" in params else {})}  # muted: said, but not shown
        summary.write()
    except BaseException as error:
        summary.fail(error)
        raise
    finally:
        _current.reset(token)


def _check(path: str, params: Mapping[str, Any]) -> None:
    """Refuses early what could not be written, and what the command line names as something else."""
    if path == "-":
        if params.get("output") == "-":
            raise InputError("standard output holds either the result or the summary; give -o or --summary a file")
        return
    folder = os.path.dirname(os.path.realpath(path))
    to_come = isinstance(params.get("output"), str) and os.path.realpath(params["output"]) == folder
    if os.path.isdir(path) or not (to_come or (os.path.isdir(folder) and os.access(folder, os.W_OK))):
        raise InputError(f"{path} is not a file that can be written; choose another with --summary")
    for value in params.values():
        for named in value if isinstance(value, tuple) else (value,):
            if isinstance(named, str) and os.path.realpath(named) == os.path.realpath(path):
                raise InputError(f"{path} is another file of this command; choose another place with --summary")


def as_json(value: object) -> object:
    """A value as JSON can hold it: arrays are lists, nan is null, and infinite numbers are the texts inf and -inf."""
    value = _of_basic_types(value)
    if isinstance(value, Mapping):
        return {str(key): as_json(item) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [as_json(item) for item in value]
    if isinstance(value, float) and not isfinite(value):
        return None if isnan(value) else str(value)
    return value if value is None or isinstance(value, bool | int | float) else str(value)


def _of_basic_types(value: object) -> object:
    """The numbers, texts, lists and mappings that a value is made of; a figure is its number."""
    if hasattr(value, "_asdict"):
        return value._asdict()
    if is_dataclass(value) and not isinstance(value, type):
        return {one.name: getattr(value, one.name) for one in fields(value)}
    if hasattr(value, "model_dump"):
        return value.model_dump(mode="json")
    if hasattr(value, "tolist"):  # of NumPy
        return value.tolist()
    return getattr(value, "value", value) if isinstance(value, str) else value
