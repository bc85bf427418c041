"""progress: how far a command has come, on a terminal."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from attributary.cli.summary_file import current

if TYPE_CHECKING:
    from attributary.logs.engine import Report


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
    if not shows(show):
        yield lambda stage, share: _note(stage)
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[rate]}"))
    with Progress(*columns, TimeElapsedColumn(), console=Console(stderr=True), transient=True) as bar:
        number, begun = rows(), dict[str, float]()
        task = bar.add_task("starting", total=None, rate="")

        def report(stage: str, share: float | None) -> None:
            _note(stage)
            took = time.perf_counter() - begun.setdefault(stage, time.perf_counter())
            rate = f"{share * number / took:,.0f} rows per second" if share and number and took > 1 else ""
            bar.update(task, description=stage, total=1 if share else None, completed=share or 0, rate=rate)

        yield report


@contextmanager
def writing_bar(rows: int, show: bool) -> Iterator[Callable[[int], None]]:
    """A function to call with the number of rows that were added; a bar shows them, with rows per second."""
    if not shows(show):
        yield lambda added: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    done = TextColumn("{task.completed:,.0f} of {task.total:,.0f} rows{task.fields[rate]}")
    console = Console(stderr=True)
    with Progress(BarColumn(), done, TimeRemainingColumn(), console=console, transient=True) as bar:
        task = bar.add_task("rows", total=rows, rate="")

        def progress(added: int) -> None:
            bar.advance(task, added)
            speed = bar.tasks[0].speed
            bar.update(task, rate=f", {speed:,.0f} per second" if speed else "")

        yield progress
