"""progress: the stage that a command is in, on a terminal."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def stages(show: bool) -> Iterator[Callable[[str], None]]:
    """A function to call with the name of each stage; a spinner shows it if standard error is a terminal."""
    if not show or not sys.stderr.isatty():
        yield lambda stage: None
        return
    from rich.console import Console

    with Console(stderr=True).status("starting …") as spinner:
        yield lambda stage: spinner.update(f"{stage} …")
