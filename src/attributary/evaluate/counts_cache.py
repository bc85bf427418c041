"""Counts cache: tables of counts kept in a folder, so that log files that have not changed are counted once."""

import hashlib
import os
from collections.abc import Callable, Sequence
from typing import Any

from attributary import __version__
from attributary.errors import InputError
from attributary.tables import read_table, write_table

PIECE = 2**16
PIECES = 64


def identity(paths: Sequence[str], *options: object) -> str:
    """A name that changes whenever one of the files does, one of the options, or the version of Attributary.

    Of each file it takes the size, the time of its last change, and 64 pieces of 64 kB spread evenly over it, so that a
    file of 6 GB is known at once; where it lies and what it is called do not matter. A change that keeps size and time
    and misses every piece would go unseen.
    """
    digest = hashlib.blake2b(repr((__version__, *options)).encode(), digest_size=16)
    for path in paths:
        try:
            with open(path, "rb") as file:
                about = os.fstat(file.fileno())
                digest.update(f"{about.st_size} {about.st_mtime_ns} ".encode())
                for place in _places(about.st_size):
                    file.seek(place)
                    digest.update(file.read(PIECE))
        except FileNotFoundError:
            raise InputError(f"there is no file {path}") from None
        except OSError as error:
            raise InputError(f"{path} cannot be read: {error.strerror}") from error
    return digest.hexdigest()


def _places(size: int) -> list[int]:
    """Where the pieces begin; the last ends with the file."""
    if size <= PIECES * PIECE:
        return list(range(0, size, PIECE))
    return [(size - PIECE) * i // (PIECES - 1) for i in range(PIECES)]


Tables = dict[str, Any]


def cached(where: str | None, key: str, names: tuple[str, ...], make: Callable[[], Tables]) -> Tables:
    """The tables of these names from the folder, or else as they are made, which are then put there."""
    if where is None:
        return make()
    try:
        os.makedirs(where, exist_ok=True)
    except OSError as error:
        raise InputError(f"{where} cannot be made: {error.strerror}; choose another folder") from None
    paths = {name: os.path.join(where, f"counts-{key}-{name}.parquet") for name in names}
    if all(map(os.path.exists, paths.values())):
        try:
            return {name: read_table(path) for name, path in paths.items()}
        except InputError:  # damaged: made anew
            pass
    tables = make()
    for name, path in paths.items():
        write_table(tables[name], path)
    return tables
