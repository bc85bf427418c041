"""closed_streams: standard input, output and error where the caller has closed them (`<&-`, `>&-`)."""

import io
import os
import sys
from typing import Any

from attributary.errors import InputError


class Closed(io.RawIOBase):
    """In the place of a stream that is not there: the first use of it is refused in words."""

    def __init__(self, name: str) -> None:
        self.called = name

    def readable(self) -> bool:
        return True

    def writable(self) -> bool:
        return True

    def readinto(self, buffer: Any, /) -> int:
        raise InputError(f"standard {self.called} is closed; open it, or give a file")

    def write(self, data: Any, /) -> int:
        raise InputError(f"standard {self.called} is closed; open it, or give a file")


def stand_in() -> None:
    """Puts something in the place of closed streams; else the next file that is opened would become one of them."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the least number that is free: this one
    if sys.stdin is None:
        sys.stdin = _text(Closed("input"))
    if sys.stdout is None:
        sys.stdout = _text(Closed("output"))
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115, it stays open to the end


def _text(raw: Any) -> io.TextIOWrapper:
    return io.TextIOWrapper(raw, encoding="utf-8", write_through=True)
