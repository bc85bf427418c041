"""progress: the stage that a command is in, on a terminal."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from attributary.cli.summary_file import current


def shows(wanted: bool) -> bool:
    """Whether progress is shown: if it is wanted and standard error is a terminal."""
    summary = current()
    return wanted and sys.stderr.isatty() and not (summary is not None and summary.muted)


@contextmanager
def stages(show: bool) -> Iterator[Callable[[str], None]]:
    """A function to call with the name of each stage; a spinner shows it if standard error is a terminal."""
    if not shows(show):
        yield lambda stage: None
        return
    from rich.console import Console

    with Console(stderr=True).status("starting …") as spinner:
        yield lambda stage: spinner.update(f"{stage} …")
