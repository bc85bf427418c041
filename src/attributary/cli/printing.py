"""Printing: tables, numbers and progress for the eye, to standard error."""

import os
import re
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING

import click

from attributary.cli.command_errors import with_options
from attributary.cli.summary_file import current, log_line
from attributary.facts.numerals import PERCENT, Numeral, Table
from attributary.types import Record

if TYPE_CHECKING:
    from attributary.logs.log_files import Report

WIDTH = 160  # of what goes to a file
GAP = 2  # between columns
NUMBER = re.compile(r"[-+]?[0-9]+(\.[0-9]+)?")


def say(line: str, always: bool = False) -> None:
    """Prints a line to standard error; `always` also where -q is given, as for what is not private."""
    summary, line = current(), _as_said(line)
    if summary is not None:
        summary.messages += [part for part in line.split("\n") if part]
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
        line = _as_said(line)
        if self.summary is not None:
            self.summary.messages += [part for part in line.split("\n") if part]
        self.console.print(line, style="yellow" if warning else None)


def _as_said(line: str) -> str:
    """A line as this command says it: with its options, and with figures as terminals show them."""
    ctx = click.get_current_context(silent=True)
    return with_options(plain(line), ctx.command if ctx else None)


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
        yield lambda stage: _note(stage.partition(",")[0])
        return
    from rich.console import Console

    with Console(stderr=True).status("starting …") as spinner:

        def shown(stage: str) -> None:
            _note(stage.partition(",")[0])
            spinner.update(f"{stage} …")

        yield shown


def _note(stage: str) -> None:
    summary = current()
    if summary is not None:
        summary.begin(stage)


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
