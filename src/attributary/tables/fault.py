"""fault: what is wrong with a text table that Arrow refused, and in which line.

Arrow is fast but cannot say where, so the file is read once more, slowly, up to the first mistake.
"""

import csv
from collections.abc import Iterator
from io import TextIOWrapper
from typing import Any, NamedTuple

from attributary.tables.format import packing_of

LONGEST_CELL = 2**31 - 1


class Row(NamedTuple):
    line: int  # where it begins, counted from 1
    cells: list[str]


def fault(file: Any, delimiter: str, name: str) -> str | None:
    """The first mistake in a text table, in words; None if there is none that we know of."""
    beginning = file.read(4)
    file.seek(0)
    if beginning.startswith(b"PK"):
        return f"{name} is a zip archive or a spreadsheet, not text; save it as CSV"
    if beginning.startswith((b"\xff\xfe", b"\xfe\xff")):
        return f"{name} is UTF-16; save it as UTF-8"
    if beginning.startswith((b"PAR1", b"ARRO")) or packing_of(beginning):
        return f"{name} is not text, whatever its ending says; rename it to what it is"
    line = 1
    try:
        header: Row | None = None
        for number, row in enumerate(rows(file, delimiter, strict=True)):
            header = header or row
            line = row.line
            if len(row.cells) != len(header.cells):
                return (
                    f"{name}: row {number} (line {row.line}) has {len(row.cells)} cells, but the header has "
                    f"{len(header.cells)}; give every row as many, and put quotes around a cell that holds the separator"
                )
    except UnicodeDecodeError as error:
        file.seek(0)
        return f"{name}: line {_line_of(file)} is not UTF-8 ({error.reason}); save the file as UTF-8"
    except csv.Error:
        return f"{name}: the quotes do not close in the row after line {line}; write a quote inside quotes twice"
    return None if header else f"{name} is empty; a table begins with the names of its columns"


def rows(file: Any, delimiter: str, strict: bool = False) -> Iterator[Row]:
    """The rows of a text table and the lines they begin in, the header first; blank lines are no rows."""
    csv.field_size_limit(LONGEST_CELL)
    text = TextIOWrapper(file, encoding="utf-8-sig", newline="")
    try:
        reader = csv.reader(text, delimiter=delimiter, strict=strict)
        line = 1
        for cells in reader:
            if cells:
                yield Row(line, cells)
            line = reader.line_num + 1
    finally:
        text.detach()  # or it would close the file, which is not ours


def _line_of(file: Any) -> int:
    """The first line that is not UTF-8."""
    number = 0
    for number, line in enumerate(iter(file.readline, b""), 1):
        try:
            line.decode()
        except UnicodeDecodeError:
            break
    return number
