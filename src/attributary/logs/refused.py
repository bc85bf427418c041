"""refused: what DuckDB refuses, as the user's mistake with its file and line, where it is one."""

import re
from collections.abc import Iterator
from contextlib import contextmanager

from attributary.errors import InputError
from attributary.logs.engine import CastError

NO_ROOM = "No space left|max_temp_directory_size|failed to offload"


@contextmanager
def refused() -> Iterator[None]:
    """DuckDB's errors about files, cells and room become InputErrors and CastErrors; others are our bugs and pass."""
    import duckdb

    try:
        yield
    except duckdb.OutOfMemoryException as error:
        raise InputError(_room(str(error))) from error
    except duckdb.InterruptException:
        raise KeyboardInterrupt from None
    except (duckdb.ConversionException, duckdb.OutOfRangeException) as error:
        raise CastError(_first(str(error))) from error
    except duckdb.IOException as error:
        words = str(error)
        raise InputError(_room(words) if re.search(NO_ROOM, words) else _first(words)) from error
    except duckdb.InvalidInputException as error:
        raise InputError(_csv(str(error)) or _first(str(error))) from error


def _first(words: str) -> str:
    """The first line, without the kind of error before it."""
    return re.sub(r"^[\w ]*Error: ", "", words.splitlines()[0])


def _csv(words: str) -> str | None:
    line, file = re.search(r"CSV Error on Line: (\d+)", words), re.search(r"^ *file ?= ?(.*)$", words, re.MULTILINE)
    if not line or not file:
        return None
    cells = re.search(r"Expected Number of Columns: (\d+) Found: (\d+)", words)
    if cells:
        reason = (
            f"has {cells[2]} cells, and the header {cells[1]}; quote cells that hold the separator, and leave none out"
        )
    elif "unicode" in words.lower() or "utf-8" in words.lower():
        reason = "is not UTF-8; save the file as UTF-8"
    elif "quote" in words:
        reason = "has quotes that do not close; write a quote inside quotes twice"
    else:
        reason = next((text for text in words.splitlines()[2:] if text.strip()), "cannot be read")
    return f"{file[1]}: line {int(line[1]):,} {reason}"


def _room(words: str) -> str:
    if re.search(NO_ROOM, words):
        return (
            "there is no room left for what does not fit into memory; "
            f"choose a folder with more room as temp (--temp), or allow more memory (--memory): {_first(words)}"
        )
    return f"memory is too small for this log; allow more (--memory), or fewer threads (--threads): {_first(words)}"
