"""Store: finished tasks in a file, one a line, so that an interrupted grid goes on where it stopped."""

import json
import os
from typing import Any

from attributary.errors import InputError


class Store:
    """The tasks that are finished, by their keys; with a path, also after an interruption.

    A line is written at once, and synced. The last may be cut off: it is passed over, and its task done again. A method
    of your own is known by the names of its functions: once they have changed, give it another name.
    """

    def __init__(self, path: str | None = None) -> None:
        self._path = path
        self._found = {} if path is None else _read(path)

    def get(self, key: str) -> list[dict[str, Any]] | None:
        return self._found.get(key)

    def put(self, key: str, rows: list[dict[str, Any]]) -> None:
        self._found[key] = rows
        if self._path is None:
            return
        try:
            with open(self._path, "a+b") as file:
                whole = file.tell() == 0 or _ends_a_line(file)
                file.write((b"" if whole else b"\n") + json.dumps([key, rows]).encode() + b"\n")
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            raise InputError(f"{self._path} cannot be written: {error.strerror}") from error


def _ends_a_line(file: Any) -> bool:
    file.seek(-1, os.SEEK_END)
    last: bytes = file.read(1)
    return last == b"\n"


def _read(path: str) -> dict[str, list[dict[str, Any]]]:
    found = {}
    try:
        with open(path, "rb") as file:
            for line in file:
                try:
                    key, rows = json.loads(line)
                except ValueError:  # cut off
                    continue
                found[key] = rows
    except FileNotFoundError:
        pass
    except OSError as error:
        raise InputError(
            f"{path} cannot be read: {error.strerror}; choose another folder for what is cached"
        ) from error
    return found
