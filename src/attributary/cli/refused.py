"""refused: what the core refuses, in the words of the command."""

from collections.abc import Iterator
from contextlib import contextmanager

from attributary.errors import InputError
from attributary.tables import place, shown
from attributary.tree.paths import RowError


@contextmanager
def refused(path: str) -> Iterator[None]:
    """The core's ValueErrors about a table's data become InputErrors with its file and, where known, row and line."""
    try:
        yield
    except RowError as error:
        raise InputError(f"{place(path, error.row)}: {error.rule}") from error
    except ValueError as error:
        raise InputError(f"{shown(path)}: {error}") from error
