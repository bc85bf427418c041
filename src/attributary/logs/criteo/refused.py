"""refused: what DuckDB has to say about a file, in one line with the file and, where it knows it, the line."""

import re
from collections.abc import Iterator
from contextlib import contextmanager

from attributary.errors import InputError

LINE = re.compile(r"CSV Error on Line: (\d+)")
WORD = re.compile(r'Error when converting column "(.+?)"\. Could not convert string "(.*?)" to', re.DOTALL)
CELLS = re.compile(r"Expected Number of Columns: (\d+) Found: (\d+)")

STREAM = re.compile(r"failed(?:\(\))?: (?:Invalid: )*(.*?)(?:\. Detail: Python exception|$)", re.DOTALL)


@contextmanager
def refused(path: str) -> Iterator[None]:
    """Errors of DuckDB about what is in a file become InputErrors; others are our bugs and pass."""
    import duckdb

    try:
        yield
    except duckdb.InterruptException:
        raise KeyboardInterrupt from None
    except (duckdb.IOException, duckdb.InvalidInputException, duckdb.ConversionException) as error:
        raise InputError(_in_words(str(error), path)) from error


def _in_words(message: str, path: str) -> str:
    line, word, cells = LINE.search(message), WORD.search(message), CELLS.search(message)
    where = f"{path}: line {line[1]}" if line else path
    if word:
        return f"{where}: {word[2][:40]!r} in column {word[1]} is not a number; is the file damaged, or another one?"
    if cells:
        return f"{where} has {cells[2]} cells instead of {cells[1]}; is the file damaged, or cut off?"
    stream = STREAM.search(message)
    if stream:  # Python's own words, by way of Arrow
        return stream[1] if stream[1].startswith(path) else f"{path} cannot be read: {stream[1][:200]!r}"
    if "GZIP" in message:
        return f"{path} is cut off or damaged (its gzip data ends too early); fetch it again"
    return f"{where} cannot be read: {message.splitlines()[0][:200]}"
