"""Text tables: their dialect, told by the beginning, and what is wrong with one, and in which line.

Where the separator is open, the table is refused. Arrow is fast but cannot say where a mistake is, so the file is read
once more, slowly, up to the first mistake or the row.
"""

import csv
import json
import os
import re
from collections.abc import Iterator
from contextlib import suppress
from io import TextIOWrapper
from itertools import islice
from typing import Any, NamedTuple

from attributary.errors import InputError
from attributary.tables.table_source import DELIMITER, by_content, by_name, is_text, opened, shown
from attributary.types import Arrow

SEPARATORS = (",", ";", "\t", "|")
BY_NAME = {"comma": ",", "semicolon": ";", "tab": "\t", "\\t": "\t", "pipe": "|"}
NOTED = b"dialect"  # in the metadata of a table that was read from text, where its dialect is not the usual
BEGINNING = 2**16  # bytes
ROWS = 200
TITLE = 0.6  # of the cells of the fullest row: a line with less, above the names of the columns, is a title
BLANK_NAME = re.compile(r'"\s*"')  # in quotes: the name of a column, where a title has empty cells
ALIKE = 0.8  # of the rows below a title have as many cells as there are names
LONGEST_CELL = 2**31 - 1
NOT_TEXT = {
    b"PK": "is a zip archive or a spreadsheet, not text; end the name of a spreadsheet in .xlsx",
    b"PAR1": "is Parquet, whatever its ending says; end its name in .parquet",
    b"ARRO": "is Arrow, whatever its ending says; end its name in .arrow",
    b"\xff\xfe": "is UTF-16; save it as UTF-8",
    b"\xfe\xff": "is UTF-16; save it as UTF-8",
}


class TextForm(NamedTuple):
    """The dialect of a text table, which is written in the dialect of what was read."""

    separator: str
    stated: bool = False  # by a first line sep=;, as spreadsheets write it
    encoding: str = "utf-8"
    newline: str = "\n"
    decimal: str = "."
    above: int = 0  # lines before the names of the columns: a title, or sep=;


def dialect(table: Arrow, usual: str) -> TextForm:
    """The dialect that a table notes; the `usual` separator and UTF-8 where it notes none."""
    noted = json.loads((table.schema.metadata or {}).get(NOTED, b"{}"))
    return TextForm(**{"separator": usual, **noted})


def with_dialect(table: Arrow, form: TextForm, usual: str) -> Arrow:
    """The table with its dialect in its metadata, as far as it is not the usual one."""
    noted = {name: value for name, value in form._asdict().items() if value != getattr(TextForm(usual), name)}
    others = {key: value for key, value in (table.schema.metadata or {}).items() if key != NOTED}
    return table.replace_schema_metadata({**others, **({NOTED: json.dumps(noted)} if noted else {})})


def western(data: bytes) -> bytes | None:
    """Text of Western Windows (cp1252) as UTF-8; None where it is UTF-8 already, or no such text."""
    try:
        data.decode()
    except UnicodeDecodeError:
        with suppress(UnicodeDecodeError):
            return None if data.startswith(tuple(NOT_TEXT)) or b"\0" in data else data.decode("cp1252").encode()
    return None


def text_form(beginning: bytes, usual: str, name: str, separator: str | None = None) -> TextForm:
    """The separator of a file with this beginning: the one given, a first line's, or the one that fits all rows.

    `usual` is what its ending says. Where both that and another give all rows of the beginning the header's cells, the
    file is refused.
    """
    text = beginning.decode("utf-8-sig", errors="replace")
    stated = re.match(r"sep=(.)\r?\n", text)
    newline = "\r\n" if re.match(r"[^\r\n]*\r\n", text) else "\n"
    lines = re.findall(r"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+$", text)[int(stated is not None) :]
    if len(beginning) >= BEGINNING:
        lines = lines[:-1]  # the last one may go on
    given = stated[1] if stated and separator is None else separator and separator_by_name(separator)
    titles = {each: _title(lines, each) for each in SEPARATORS}
    ragged = max(titles, key=lambda each: titles[each])  # a title of one cell, above rows of many
    if given is None and titles[ragged].lines and not any(_fits(lines, each) for each in SEPARATORS):
        given = ragged
    chosen = given or _separator(lines, usual, name)
    return TextForm(chosen, stated is not None, newline=newline, above=_title(lines, chosen).lines + bool(stated))


class _Title(NamedTuple):
    columns: int
    lines: int


def _title(lines: list[str], separator: str) -> _Title:
    """How many lines above the names of the columns are a title: their first cell alone, or nearly, has a text."""
    reader, begins, rows = csv.reader(lines, delimiter=separator), [0], list[list[str]]()
    with suppress(csv.Error):
        for row in islice(reader, ROWS):
            rows.append(row)
            begins.append(reader.line_num)
    filled = [sum(bool(cell.strip()) for cell in row) for row in rows]
    widest = max(filled, default=0)
    head = next((i for i, many in enumerate(filled) if many >= max(min(2, widest), TITLE * widest)), 0)
    blank = [any(map(BLANK_NAME.search, lines[a:b])) or any(map(str.isspace, row))
             for a, b, row in zip(begins, begins[1:], rows, strict=False)]  # fmt: skip
    is_title = all(not many or (rows[i][0].strip() and not blank[i]) for i, many in enumerate(filled[:head]))
    alike = sum(len(row) == len(rows[head]) for row in rows[head:]) if rows else 0
    known = head and widest > 2 and is_title and alike > ALIKE * sum(map(bool, rows[head:]))
    return _Title(widest, begins[head]) if known else _Title(0, 0)


def _separator(lines: list[str], usual: str, name: str) -> str:
    header = next((line for line in lines if line.strip(" \t\r\n")), "")
    if not any(each in header for each in SEPARATORS if each != usual):
        return usual
    fitting = [each for each in SEPARATORS if _fits(lines, each)]
    if len(fitting) > 1:
        words = " or ".join(repr(each) for each in fitting)
        raise InputError(f"{name} may be separated by {words}: both fit all rows; say which, as in `separator=';'`")
    if not fitting and not {usual, '"'} & set(header):  # some row lacks a cell, and will be named
        fitting = [each for each in SEPARATORS if each in header][:1]
    return fitting[0] if fitting else usual


def separator_by_name(text: str) -> str:
    """The separator that a user names, as a character or as a word."""
    separator = BY_NAME.get(text.lower(), text)
    if len(separator) != 1 or separator in "\"'\r\n" or separator.isalnum() or ord(separator) > 127:
        raise InputError(f"a separator is one character, as in ';' or tab; got {text[:40]!r}")
    return separator


def _fits(lines: list[str], separator: str) -> bool:
    try:
        rows = [row for row in islice(csv.reader(lines, delimiter=separator, strict=True), ROWS) if row]
    except csv.Error:
        return False
    return len(rows[0]) > 1 and all(len(row) == len(rows[0]) for row in rows)


class Row(NamedTuple):
    line: int  # where it begins, counted from 1
    cells: list[str]


def fault(file: Any, form: TextForm, name: str) -> str | None:
    """The first mistake in a text table, in words; None if there is none that we know of."""
    beginning = file.read(4)
    file.seek(0)
    for first, words in NOT_TEXT.items():
        if beginning.startswith(first):
            return f"{name} {words}"
    header: Row | None = None
    line = 1
    try:
        for number, row in enumerate(rows(file, form, strict=True)):
            header, line = header or row, row.line
            if len(row.cells) != len(header.cells):
                return (
                    f"{name}: row {number} (line {line}) has {len(row.cells)} cells, but the header has "
                    f"{len(header.cells)}"
                    + (odd_separator(header.cells) or "; quote cells that hold the separator, and leave none out")
                )
    except UnicodeDecodeError:
        file.seek(0)
        return f"{name}: line {_line_not_utf8(file.read())} is not UTF-8; save the file as UTF-8"
    except csv.Error:
        return f"{name}: the quotes do not close in the row after line {line}; write a quote inside quotes twice"
    return None if header else f"{name} is empty; a table begins with the names of its columns"


def rows(file: Any, form: TextForm, strict: bool = False) -> Iterator[Row]:
    """The rows of a text table and the lines they begin in, the header first; blank lines are not rows."""
    csv.field_size_limit(LONGEST_CELL)
    text = TextIOWrapper(file, encoding="utf-8-sig", newline="")
    try:
        line = 1 + form.above
        for _ in range(form.above):
            text.readline()
        reader = csv.reader(text, delimiter=form.separator, strict=strict)
        for cells in reader:
            if cells:
                yield Row(line, cells)
            line = reader.line_num + 1 + form.above
    finally:
        text.detach()  # or it would close the file, which is not ours


def odd_separator(header: list[str]) -> str:
    """What to do about a header that looks separated by something else; nothing if it does not."""
    odd = next((c for c in ";\t|" if len(header) == 1 and c in header[0]), None)
    return f"; it looks separated by {odd!r}: save it with commas, or with tabs as .tsv" if odd else ""


def _line_not_utf8(data: bytes) -> int:
    try:
        data.decode()
    except UnicodeDecodeError as error:
        return data.count(b"\n", 0, error.start) + 1
    return 1


def place(path: str, row: int) -> str:
    """Where to look for a row, as in `sales.csv: row 5 (line 6)`: row 0 is row 1, the first below the header."""
    line = _line(path, row)
    return f"{shown(path)}: row {row + 1}" + (f" (line {line})" if line else "")


def _line(path: str, row: int) -> int | None:
    if path == "-" or not os.path.isfile(path):  # a pipe has been read, and nobody can read it again
        return None
    try:
        with opened(path) as file:
            beginning = file.read(BEGINNING)
            kind = by_name(path).format or by_content(beginning)
            file.seek(0)
            if not is_text(kind):
                return None
            form = text_form(beginning, DELIMITER[kind], path)
            line = next(islice(rows(file, form), row + 1, None), None)
            return line.line if line else None
    except (InputError, UnicodeError, csv.Error):
        return None
