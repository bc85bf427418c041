"""Printing: what a command says: lines, tables and progress for the eye, to standard error.

With --summary FILE.json a command also writes all that it prints, as data; with --log json, lines. Every command has
these options, and none needs to know: what is printed is noted here, and so are stages. A command adds what its lines
say as figures with `fact`.

A command that fails writes why, and at which stage. Whoever reads the file of one that was killed finds the stage that
it was at, and no exit code. The lines tell of stages, warnings and the end, and never of a true count.
"""

import json
import os
import re
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass, field, fields, is_dataclass
from datetime import UTC, datetime
from functools import partial, wraps
from itertools import pairwise
from math import isfinite, isnan
from typing import TYPE_CHECKING, Any

import click

from attributary import __version__
from attributary.cli.command_errors import bare, end_of, with_options
from attributary.errors import InputError
from attributary.facts.numerals import PERCENT, Numeral, Table
from attributary.types import Record
from attributary.whole_files import save, written

if TYPE_CHECKING:
    from attributary.logs.log_files import Report

WIDTH = 160  # of what goes to a file
GAP = 2  # between columns
NUMBER = re.compile(r"[-+]?[0-9]+(\.[0-9]+)?")


def say(line: str, always: bool = False) -> None:
    """Prints a line to standard error; `always` also where -q is given, as for what is not private."""
    line = _noted(line)
    if not (always and log_line("warning", message=line)) and (always or not muted()):
        click.echo(line, err=True)


def warn_first(words: str) -> None:
    """Prints a warning that stands before all else, if there is one."""
    if words:
        say(f"warning: {words}")


def muted() -> bool:
    """Whether -q is given beside --summary: then lines are noted, but not shown."""
    summary = current()
    return summary is not None and summary.muted


class Out:
    """Standard error for lines and tables, with colours if that is a terminal; nothing in a label is markup."""

    def __init__(self) -> None:
        from rich.console import Console

        wide = None if sys.stderr.isatty() or "COLUMNS" in os.environ else WIDTH
        options: Record = {"highlight": False, "markup": False, "emoji": False, "soft_wrap": True}
        self.summary = current()
        self.console = Console(stderr=True, quiet=muted(), width=wide, **options)

    def print(self, line: str = "", warning: bool = False) -> None:
        self.console.print(_noted(line), style="yellow" if warning else None)


def _noted(line: str) -> str:
    """A line with this command's options and with figures as terminals show them, noted for its summary."""
    line = _in_options(plain(line))
    if (summary := current()) is not None:
        summary.messages += [part for part in line.split("\n") if part]
    return line


def _in_options(words: str) -> str:
    ctx = click.get_current_context(silent=True)
    return with_options(words, ctx.command if ctx else None)


def plain(text: str) -> str:
    """Words and figures as terminals show them: 5.0%, and no spaces that only a page needs."""
    return text.replace(PERCENT, "%").replace("\u00a0", " ")


def place_of(output: str) -> str:
    return "standard output" if output == "-" else output


def print_table(out: Out, rows: Sequence[Sequence[str]], together: int = 0, *, space: bool = True) -> None:
    """Prints heads and rows, words in the first column and figures in the others.

    Where they do not fit, the columns after the first `together` have a table of their own.
    """
    if out.summary is not None:
        title = out.summary.messages[-1] if out.summary.messages else ""
        out.summary.tables.append({"title": title, "columns": rows[0], "rows": [[*map(_data, r)] for r in rows[1:]]})
    if space:
        out.print()
    if (
        not together
        or sum(max(map(len, column)) + GAP for column in zip(*rows, strict=True)) <= out.console.width + GAP
    ):
        out.console.print(_table(rows))
        return
    out.console.print(_table([row[:together] for row in rows]))
    out.print()
    out.console.print(_table([[row[0], *row[together:]] for row in rows]))


def print_tables(tables: Iterable[Table]) -> None:
    """Prints each table under its caption."""
    out = Out()
    for table in tables:
        out.print(table.caption)
        print_table(out, [table.heads, *table.rows], table.together)
        out.print()


def _data(cell: str) -> object:
    """A cell as data: the number that a figure shows, and of other cells those that read as one."""
    if isinstance(cell, Numeral):
        return cell.value
    bare = cell.replace(",", "")
    return float(bare) if "." in bare and NUMBER.fullmatch(bare) else int(bare) if NUMBER.fullmatch(bare) else cell


def _table(rows: Sequence[Sequence[str]]) -> object:
    from rich.table import Table

    made = Table(box=None, padding=(0, GAP, 0, 0), pad_edge=False)
    made.add_column(rows[0][0], overflow="fold")
    for head in rows[0][1:]:
        made.add_column(plain(head), justify="right")
    for row in rows[1:]:
        made.add_row(*map(plain, row))
    return made


# How far a command has come, on a terminal.

BAR = "bar"


def shows(wanted: bool) -> bool:
    """Whether progress is shown: if it is wanted and standard error is a terminal."""
    return wanted and sys.stderr.isatty() and not muted()


@contextmanager
def stages(show: bool) -> Iterator[Callable[[str], None]]:
    """A function to call with the name of each stage; a spinner shows it if standard error is a terminal.

    What follows a comma in it tells how far the stage has come.
    """
    if not shows(show):
        yield _note
        return
    from rich.console import Console

    with Console(stderr=True).status("starting …") as spinner:

        def shown(stage: str) -> None:
            _note(stage)
            spinner.update(f"{stage} …")

        yield shown


def _note(stage: str) -> None:
    if (summary := current()) is not None:
        summary.begin(stage.partition(",")[0])


@contextmanager
def reading_bar(show: bool, rows: Callable[[], int]) -> Iterator["Report"]:
    """A function to call with a stage and the share of it that is done; a bar shows them, with rows per second."""
    with _bar(show, "{task.description}", BAR, "{task.fields[rate]}") as update:
        number, begun = rows() if shows(show) else 0, dict[str, float]()

        def report(stage: str, share: float | None) -> None:
            _note(stage)
            took = time.perf_counter() - begun.setdefault(stage, time.perf_counter())
            rate = f"{share * number / took:,.0f} rows per second" if share and number and took > 1 else ""
            update(description=stage, total=1 if share else None, completed=share or 0, rate=rate)

        yield report


@contextmanager
def writing_bar(rows: int, show: bool) -> Iterator[Callable[[int], None]]:
    """A function to call with the number of rows that were added; a bar shows them, with rows per second."""
    with _bar(show, BAR, "{task.completed:,.0f} of {task.total:,.0f} rows{task.fields[rate]}", total=rows) as update:
        done, begun = [0], time.perf_counter()

        def progress(added: int) -> None:
            done[0] += added
            took = time.perf_counter() - begun
            update(completed=done[0], rate=f", {done[0] / took:,.0f} per second" if took else "")

        yield progress


@contextmanager
def task_bar(show: bool) -> Iterator[Callable[[int, int], None]]:
    """A function to call with the number of tasks that are done and of all."""
    with _bar(show, "evaluating", BAR, "{task.completed} of {task.total} splits") as update:
        yield lambda done, of: update(completed=done, total=of)


@contextmanager
def _bar(show: bool, *columns: str, total: float | None = None) -> Iterator[Callable[..., None]]:
    """A function to update a bar with, which has these columns and the times; without a terminal it does nothing."""
    if not shows(show):
        yield lambda **_: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

    each = (BarColumn() if column == BAR else TextColumn(column) for column in columns)
    times = (TimeElapsedColumn(), TimeRemainingColumn())
    with Progress(*each, *times, console=Console(stderr=True), transient=True) as bar:
        yield partial(bar.update, bar.add_task("starting", total=total, rate=""))


# What is printed, as data: --summary and --log.

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
        with suppress(OSError), open("/proc/self/clear_refs", "w") as file:
            file.write("5")  # Linux begins anew with the peak of this process's memory
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
        message = bare(_in_options(message))
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


def _peak() -> float | None:
    """The peak of this process's memory in MB, on Linux since the stage began; None where nobody knows."""
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
        before = summary.facts.get(name, value)
        several = [*(before if isinstance(before, list) else [before]), value]
        summary.facts[name] = several if name in summary.facts else value


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
        click.Option(
            ["--summary"],
            metavar="FILE",
            help="Also write all that is printed to this file, as JSON; - is standard output.",
        ),
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
