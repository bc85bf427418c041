"""Stamp: what tells a file from the one that takes its place."""

import os
from typing import NamedTuple

from attributary.errors import InputError


class ChangedError(InputError):
    """A file is no longer the one that was opened."""


class Stamp(NamedTuple):
    device: int
    inode: int
    size: int
    changed: int  # in ns


def stamp(path: str) -> Stamp:
    """The stamp of the file that is there now."""
    try:
        found = os.stat(path)
    except FileNotFoundError:
        raise InputError(
            f"there is no file {path}; give a table of estimates, as `attributary run` writes it"
        ) from None
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}") from None
    return Stamp(found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns)
