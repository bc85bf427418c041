"""duckdb_errors: errors of DuckDB in one line, as mistakes of the user with file and line wherever they are that."""

import re
from collections.abc import Iterator
from contextlib import contextmanager

from attributary.errors import InputError, TryAgain
from attributary.logs.engine import CastError

NO_ROOM = "No space left|max_temp_directory_size|failed to offload"
LINE = r"CSV Error on Line: (\d+)"
CELLS = r"Expected Number of Columns: (\d+) Found: (\d+)"


@contextmanager
def duckdb_errors() -> Iterator[None]:
    """Errors about files become InputErrors, about cells CastErrors, about memory and disk TryAgain; others pass."""
    import duckdb

    try:
        yield
    except duckdb.OutOfMemoryException as error:
        raise TryAgain(_room(str(error))) from error
    except duckdb.InterruptException:
        raise KeyboardInterrupt from None
    except (duckdb.ConversionException, duckdb.OutOfRangeException) as error:
        raise CastError(_first(str(error))) from error
    except duckdb.IOException as error:
        words = str(error)
        if re.search(NO_ROOM, words):
            raise TryAgain(_room(words)) from error
        raise InputError(_no_engine(words) or _first(words)) from error
    except duckdb.InvalidInputException as error:
        raise InputError(_csv(str(error)) or _first(str(error))) from error
    except UnicodeDecodeError as error:
        raise InputError("a log is damaged: a column's name is not UTF-8; write the file again") from error
    except (duckdb.Error, RuntimeError) as error:
        extension = re.search(r"extension [\"'](\w+)", str(error))
        if extension:
            raise InputError(
                f"DuckDB reads such addresses with its extension {extension[1]}, which is not installed and cannot be "
                f"fetched from here; run `INSTALL {extension[1]}` in DuckDB once, copy the files, or use --engine spark"
            ) from error
        if type(error) not in (duckdb.Error, RuntimeError):
            raise
        # An error without a kind of its own is what the reader of Parquet says of bytes that are not.
        raise InputError(f"a log is damaged: {_first(str(error))[:200]}; write the file again") from error


@contextmanager
def text_file_errors(path: str) -> Iterator[None]:
    """As `duckdb_errors`, for one text file of numbers in fixed columns: always InputErrors, with the file's name."""
    import duckdb

    try:
        yield
    except duckdb.OutOfMemoryException as error:
        raise TryAgain(_room(str(error))) from error
    except duckdb.InterruptException:
        raise KeyboardInterrupt from None
    except (duckdb.IOException, duckdb.InvalidInputException, duckdb.ConversionException) as error:
        raise InputError(_text_file(str(error), path)) from error


def _text_file(words: str, path: str) -> str:
    line, cells = re.search(LINE, words), re.search(CELLS, words)
    where = f"{path}: line {line[1]}" if line else path
    number = re.search(r'Error when converting column "(.+?)"\. Could not convert string "(.*?)" to', words, re.DOTALL)
    if number:
        return f"{where}: {number[2][:40]!r} in column {number[1]} is not a number; is this the right file?"
    if cells:
        return f"{where} has {cells[2]} cells instead of {cells[1]}; is the file damaged, or cut off?"
    stream = re.search(r"failed(?:\(\))?: (?:Invalid: )*(.*?)(?:\. Detail: Python exception|$)", words, re.DOTALL)
    if stream:  # Python's own words, by way of Arrow
        return stream[1] if stream[1].startswith(path) else f"{path} cannot be read: {stream[1][:200]!r}"
    if "GZIP" in words:
        return f"{path} is cut off or damaged (its gzip data ends too early); fetch it again"
    return f"{where} cannot be read: {words.splitlines()[0][:200]}"


def _first(words: str) -> str:
    """The first line, without the kind of error before it."""
    return re.sub(r"^[\w ]*Error: ", "", words.splitlines()[0])


def _no_engine(words: str) -> str | None:
    """What to do about an address that DuckDB takes for a file of this machine."""
    address = re.search(r'No files found that match the pattern "((\w+)://[^"]*)"', words)
    if not address:
        return None
    return (
        f"no file matches {address[1]}, or DuckDB cannot read {address[2]}://; check the address, or use --engine spark"
    )


def _csv(words: str) -> str | None:
    line, file = re.search(LINE, words), re.search(r"^ *file ?= ?(.*)$", words, re.MULTILINE)
    if not line or not file:
        return None
    cells = re.search(CELLS, words)
    if cells:
        reason = f"has {cells[2]} cells, but the header has {cells[1]}; quote cells that contain the separator"
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
            "no disk space left for what does not fit into memory; "
            f"choose a folder with more space (--temp), or allow more memory (--memory): {_first(words)}"
        )
    return f"not enough memory for this log; allow more (--memory), or use fewer threads (--threads): {_first(words)}"
