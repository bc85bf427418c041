"""progress: how far a command has come, on a terminal."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING

from attributary.cli.summary_file import current

if TYPE_CHECKING:
    from attributary.logs.engine import Report

BAR = "bar"


def shows(wanted: bool) -> bool:
    """Whether progress is shown: if it is wanted and standard error is a terminal."""
    summary = current()
    return wanted and sys.stderr.isatty() and not (summary is not None and summary.muted)


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
