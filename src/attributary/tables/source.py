"""Source: a file or standard input, opened for reading, uncompressed."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from attributary.errors import InputError
from attributary.tables.format import packing_of


def shown(path: str) -> str:
    """A file's name in a message."""
    return "standard input" if path == "-" else path


@contextmanager
def opened(path: str) -> Iterator[Any]:
    """The bytes of a file as a seekable Arrow file, uncompressed; anything wrong with it as an InputError."""
    import pyarrow as pa

    try:
        source = _source(path)
        beginning = source.read(4)
        source.seek(0)
        packing = packing_of(beginning)
        if packing:
            source = pa.BufferReader(pa.CompressedInputStream(source, packing).read_buffer())
        if source.size() == 0:
            raise InputError(f"{shown(path)} is empty; a table begins with the names of its columns")
    except FileNotFoundError:
        raise InputError(f"there is no file {path}; give the table's path, or - for standard input") from None
    except OSError as error:
        raise InputError(f"{shown(path)} cannot be read: {_reason(error)}") from error
    with source:
        yield source


def _source(path: str) -> Any:
    import pyarrow as pa

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
