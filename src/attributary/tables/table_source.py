"""Source of a table: a file or standard input, opened and uncompressed, and the format that it is in."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Literal, NamedTuple

from attributary.arrow import pa
from attributary.errors import InputError

Format = Literal["csv", "tsv", "xlsx", "parquet", "arrow", "arrows"]  # Arrow as a file (also Feather) or as a stream

ENDINGS: dict[str, Format] = {
    ".csv": "csv",
    ".tsv": "tsv",
    ".tab": "tsv",
    ".parquet": "parquet",
    ".pq": "parquet",
    ".arrow": "arrow",
    ".feather": "arrow",
    ".ipc": "arrow",
    ".arrows": "arrows",
    ".xlsx": "xlsx",
    ".xlsm": "xlsx",
}
PACKED = {".gz": "gzip", ".zst": "zstd"}
BOM = b"\xef\xbb\xbf"
UTF_16 = (b"\xff\xfe", b"\xfe\xff")  # byte order marks
BINARY = (b"PAR1", b"ARROW1", b"FEA1", b"\xff\xff\xff\xff", b"PK\x03\x04")  # how tables begin that need no ending
DELIMITER: dict[Format, str] = {"csv": ",", "tsv": "\t"}  # the formats that are text


class Named(NamedTuple):
    format: Format | None  # None where the ending says nothing
    packing: str | None  # how the text is compressed, if it is


def by_name(path: str) -> Named:
    """What a file's ending says, as in sales.csv.gz."""
    from pathlib import PurePath  # which takes longer to import than names take to read

    endings = [ending.lower() for ending in PurePath(path).suffixes]
    packing = PACKED.get(endings[-1]) if endings else None
    if packing:
        endings.pop()
    return Named(ENDINGS.get(endings[-1]) if endings else None, packing)


def shards(path: str) -> list[str]:
    """The files of a folder that a cluster wrote as one table of Parquet; none of any other folder."""
    names = sorted(name for name in os.listdir(path) if name[0] not in "._") if os.path.isdir(path) else []
    if not all(name.startswith("part-") and name.endswith(".parquet") for name in names):
        return []
    return [os.path.join(path, name) for name in names]


def packing_of(beginning: bytes) -> str | None:
    """How a file with these first bytes is compressed, if it is."""
    if beginning.startswith(b"\x1f\x8b"):
        return "gzip"
    return "zstd" if beginning.startswith(b"\x28\xb5\x2f\xfd") else None


def by_content(beginning: bytes) -> Format:
    """The format of a file with these first bytes; text is TSV if its first line holds a tab."""
    if beginning.startswith(b"PAR1"):
        return "parquet"
    if beginning.startswith((b"ARROW1", b"FEA1")):
        return "arrow"
    if beginning.startswith(b"\xff\xff\xff\xff"):
        return "arrows"
    if beginning.startswith(b"PK\x03\x04"):
        return "xlsx"
    return "tsv" if b"\t" in beginning.splitlines()[0] else "csv"


def is_text(format: object) -> bool:
    return format in DELIMITER


def is_sheet(format: object) -> bool:
    """Whether people read the format as it is, in which metadata has no place."""
    return is_text(format) or format == "xlsx"


@contextmanager
def readable(path: str, what: str) -> Iterator[None]:
    """A file that is not there, or cannot be read, as an InputError; `what` says what to give instead."""
    try:
        yield
    except FileNotFoundError:
        raise InputError(f"there is no file {path}; {what}") from None
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}") from None


def shown(path: str) -> str:
    """A file's name in a message."""
    return "standard input" if path == "-" else path


@contextmanager
def opened(path: str) -> Iterator[Any]:
    """The bytes of a file as a seekable Arrow file, uncompressed; anything wrong with it as an InputError."""
    with decoded(path) as (source, _):
        yield source


@contextmanager
def decoded(path: str) -> Iterator[tuple[Any, str]]:
    """The same, and the encoding that its first bytes state: UTF-16 is read as UTF-8."""
    encoding = "utf-8"

    try:
        source = _source(path)
        beginning = source.read(4)
        source.seek(0)
        packing = packing_of(beginning)
        if packing:
            source = pa.BufferReader(pa.CompressedInputStream(source, packing).read_buffer())
            beginning = source.read(4)
            source.seek(0)
        if source.size() == 0:
            raise InputError(f"{shown(path)} is empty; a table begins with the names of its columns")
        if beginning.startswith(BOM):
            encoding = "utf-8-sig"
        if beginning.startswith(UTF_16):
            encoding = "utf-16"
            source = pa.BufferReader(source.read().decode("utf-16").encode())
    except FileNotFoundError:
        raise InputError(f"there is no file {path}; give the table's path, or - for standard input") from None
    except UnicodeError:
        raise InputError(f"{shown(path)} begins as UTF-16, but is not; save it as UTF-8") from None
    except OSError as error:
        raise InputError(f"{shown(path)} cannot be read: {_reason(error)}") from error
    with source:
        yield source, encoding


def _source(path: str) -> Any:
    if path == "-":
        return pa.BufferReader(sys.stdin.buffer.read())
    if os.path.isdir(path):
        raise InputError(f"{path} is a folder; give a file in it")
    if os.path.isfile(path):
        return pa.OSFile(path)
    with open(path, "rb") as pipe:
        return pa.BufferReader(pipe.read())


def _reason(error: OSError) -> str:
    if error.strerror:
        return error.strerror.splitlines()[0]
    return "it ends too early or is damaged" if "runcated" in str(error) else str(error).splitlines()[0]
