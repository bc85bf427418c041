"""whole_file: a file that is there in full or not at all."""

import os
import secrets
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import BinaryIO

written: list[str] = []  # the files that this process has put in their place, for whoever is to say so


def standard_output() -> BinaryIO:
    """Standard output for bytes; what goes there counts as written."""
    written.append("a part to standard output")
    return sys.stdout.buffer


@contextmanager
def whole_file(path: str) -> Iterator[BinaryIO]:
    """A file to write, which takes the place of `path` once all is written; until then, and if not, the old one stays.

    It is written beside the old one, synced and renamed. Where `path` is a link, what it points to is replaced; where
    it is no ordinary file, such as /dev/null, it is written to as it is.
    """
    target = os.path.realpath(path)
    if os.path.exists(target) and not os.path.isfile(target):
        written.append(path)
        with open(target, "wb") as device:
            yield device
        return
    folder = os.path.dirname(target)
    beside = os.path.join(folder, f".attributary-{secrets.token_hex(8)}.tmp")
    try:
        with open(beside, "xb") as file:
            if os.path.exists(target):
                os.chmod(beside, os.stat(target).st_mode & 0o7777)
            yield file
        with open(beside, "rb+") as again:  # compressors close the file they write to
            os.fsync(again.fileno())
        os.replace(beside, target)
        written.append(path)
    except BaseException:  # Ctrl-C too
        with suppress(OSError):
            os.unlink(beside)
        raise
    sync(folder)


def sync(folder: str) -> None:
    """Makes the new name last; where folders cannot be synced, the file itself was."""
    with suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
