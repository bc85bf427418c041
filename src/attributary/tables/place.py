"""place: a row of a table in words, with its line where the table is text."""

import csv
import os
from itertools import islice

from attributary.errors import InputError
from attributary.tables.fault import rows
from attributary.tables.format import DELIMITER, by_content, by_name, is_text
from attributary.tables.source import opened, shown


def place(path: str, row: int) -> str:
    """Where to look for a row, as in `sales.csv: row 5 (line 6)`: row 0 is row 1, the first below the header."""
    line = _line(path, row)
    return f"{shown(path)}: row {row + 1}" + (f" (line {line})" if line else "")


def _line(path: str, row: int) -> int | None:
    if path == "-" or not os.path.isfile(path):  # a pipe has been read, and nobody can read it again
        return None
    try:
        with opened(path) as file:
            kind = by_name(path).format or by_content(file.read(65536))
            file.seek(0)
            if not is_text(kind):
                return None
            found = next(islice(rows(file, DELIMITER[kind]), row + 1, None), None)
            return found.line if found else None
    except (InputError, UnicodeError, csv.Error):
        return None
