"""Spreadsheets: a sheet of an .xlsx file as a table, and a table as a plain sheet."""

import json
import re
import warnings
from collections.abc import Callable
from datetime import date, datetime
from io import BytesIO
from math import inf
from typing import Any, BinaryIO
from zipfile import ZipFile, ZipInfo

from attributary.errors import InputError, QuestionError
from attributary.types import Arrow, Cells

NOTES, SHEET = b"spreadsheet", b"sheet"  # in the metadata: what was read as what, in words; the name of the sheet
TITLE = b"title"  # the text above the heads
MERGED = b"merged"  # the columns with merged cells, those with the longest first
WIDE = 0.6  # of a sheet's columns have a name in the row of heads
FIRST = 100  # rows that tell how wide a sheet is
LARGEST = 2**20  # rows of a sheet
ROWS = 2**14  # made at a time
NUMBER = re.compile(r"-?(0|[1-9]\d{0,14})(\.\d+)?")
MADE = re.compile(rb"(<dcterms:(created|modified)[^>]*>)[^<]*")
NEVER = "2000-01-01T00:00:00Z"  # so that the same table makes the same file


def read_spreadsheet(data: bytes, name: str, sheet: str | None = None) -> Arrow:
    """The table in a sheet: the one of that name, or the only one that has any.

    Its heads are the first row that names most columns; titles above them and a line of remarks at the end are left
    out. Merged cells hold their text in every row. Dates and numbers with leading zeros are read as their format shows.
    """
    import pyarrow as pa

    page = _sheet(data, name, sheet)
    cells = [[_value(cell) for cell in row] for row in page.iter_rows()]
    merges: dict[int, int] = {}
    for merged in page.merged_cells.ranges:
        for row in range(merged.min_row, merged.max_row):
            cells[row][merged.min_col - 1] = cells[merged.min_row - 1][merged.min_col - 1]
            merges[merged.min_col - 1] = max(merges.get(merged.min_col - 1, 0), merged.max_row - row)
    filled = [sum(value is not None for value in row) for row in cells]
    width = max(filled[:FIRST], default=0)
    head = next((i for i, many in enumerate(filled) if many >= max(min(2, width), WIDE * width)), None)
    if not width or head is None:
        raise InputError(f"{name}: the sheet {page.title!r} is empty; a table begins with the names of its columns")
    cells, head = _one_head(cells, head, page)
    rows = [i for i in range(head + 1, len(cells)) if filled[i]]
    remarks = 0
    while rows and width > 2 and filled[rows[-1]] == 1 and cells[rows[-1]][0] is not None:
        rows, remarks = rows[:-1], remarks + 1
    table, names = {}, dict[int, str]()
    for i, title in enumerate(cells[head]):
        column = [cells[row][i] for row in rows]
        if title is None and all(value is None for value in column):
            continue
        text = f"column {page.cell(1, i + 1).column_letter}" if title is None else str(title).strip()
        if text in table:
            raise InputError(f"{name} has two columns called {text!r}; name each column once")
        table[text], names[i] = _column(column), text
    above = sum(map(bool, filled[:head]))
    notes = [f"sheet {page.title}"]
    notes += [f"heads of columns: row {head + 1} (what is above is a title)"] if above else []
    notes += [f"left out: remarks in the last {'row' if remarks == 1 else f'{remarks} rows'}"] if remarks else []
    merged_columns = json.dumps([names[i] for i in sorted(merges, key=lambda i: -merges[i]) if i in names])
    titles = [str(value) for row in cells[:head] for value in row if value is not None]
    metadata = {NOTES: "\n".join(notes), SHEET: page.title, MERGED: merged_columns, TITLE: "".join(titles[:1])}
    return pa.table(table).replace_schema_metadata(metadata)


def _one_head(cells: list[list[Any]], head: int, page: Any) -> tuple[list[list[Any]], int]:
    """The rows with one row of heads, and its number: where names recur, Jan below a year is Jan 2025."""
    names = [str(value) for value in cells[head] if value is not None]
    under = cells[head + 1] if head + 1 < len(cells) else []
    if len(set(names)) == len(names):
        return cells, head
    head += bool(names and under and not any(isinstance(value, int | float) for value in under) and any(under))
    if not head:
        return cells, head
    above = list(cells[head - 1])
    wide = [each for each in page.merged_cells.ranges if each.min_row == head and each.min_col < each.max_col]
    for merged in wide:
        above[merged.min_col : merged.max_col] = [above[merged.min_col - 1]] * (merged.max_col - merged.min_col)
    for i in range(1, 0 if wide else len(above)):
        above[i] = above[i - 1] if above[i] is None else above[i]
    joined = [
        one if other is None or one == other else other if one is None else f"{one} {other}"
        for one, other in zip(cells[head], above, strict=True)
    ]
    return [*cells[:head], joined, *cells[head + 1 :]], head


def _sheet(data: bytes, name: str, sheet: str | None) -> Any:
    """The sheet of that name, or the only visible one that has cells."""
    import openpyxl

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of charts and rules, which are not read
            book = openpyxl.load_workbook(BytesIO(data), data_only=True)
    except Exception as error:  # openpyxl says in many ways that a file is no spreadsheet
        raise InputError(f"{name} is not a whole spreadsheet (.xlsx): {type(error).__name__}") from error
    names = [each.title for each in book.worksheets]
    if sheet is not None:
        if sheet not in names:
            raise InputError(f"{name} has no sheet {sheet!r}; its sheets are {', '.join(names)}")
        return book[sheet]
    shown = [each for each in book.worksheets if each.sheet_state == "visible"]
    tables = [each for each in shown if each.max_row > 1 and each.max_column > 1] or shown
    if len(tables) != 1:
        titles = [each.title for each in tables] or names
        raise QuestionError(f"{name}: which sheet has the table, {' or '.join(titles)}?", sheet=titles[0])
    return tables[0]


def _value(cell: Any) -> Any:
    """A cell as its format shows it: a number, a date or a text; None where it is empty."""
    value, form = cell.value, str(cell.number_format).lower()
    if isinstance(value, str):
        return value if value.strip() else None
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, datetime):
        if "d" not in form and "h" not in form and "y" in form:  # a month, a year
            return f"{value:%Y-%m}" if "m" in form else f"{value:%Y}"
        return value.date() if value.time() == value.min.time() else value.isoformat(" ")
    if isinstance(value, int) and re.fullmatch("0{2,}", form):
        return f"{value:0{len(form)}d}"
    return value if value is None or isinstance(value, int | float) else str(value)


def _column(values: list[Any]) -> Cells:
    """Cells as an Arrow column: of numbers or dates where all are, else of text."""
    import pyarrow as pa

    kinds = {type(value) for value in values if value is not None}
    if kinds and (kinds <= {int, float} or kinds == {date}):
        if float in kinds:
            return pa.array([value if value is None else float(value) for value in values])
        return pa.array(values)
    return pa.array([None if value is None else str(value) for value in values], pa.string())


def write_spreadsheet(table: Arrow, file: BinaryIO, labels: list[str]) -> None:
    """Writes a table as a plain sheet: numbers and dates are such, and so are numbers in texts that are no `labels`."""
    import openpyxl
    from openpyxl.cell import WriteOnlyCell

    if table.num_rows >= LARGEST:
        raise InputError(
            f"a sheet has {LARGEST:,} rows at most, and this table {table.num_rows:,}; write CSV or Parquet"
        )
    book = openpyxl.Workbook(write_only=True)
    sheet = book.create_sheet((table.schema.metadata or {}).get(SHEET, b"estimates").decode())

    def text(value: object) -> Any:
        cell = WriteOnlyCell(sheet, value)
        cell.data_type = "s"  # never a formula
        return cell

    def cells(name: str, values: list[Any]) -> list[Any]:
        numbers = name not in labels
        return [_written(value, numbers, text) for value in values]

    sheet.append([text(name) for name in table.column_names])
    for batch in table.to_batches(max_chunksize=ROWS):
        columns = [
            cells(name, column.to_pylist()) for name, column in zip(table.column_names, batch.columns, strict=True)
        ]
        for row in zip(*columns, strict=True):
            sheet.append(row)
    made = BytesIO()
    book.save(made)
    with ZipFile(made) as parts, ZipFile(file, "w") as out:
        for part in parts.namelist():
            info = ZipInfo(part)
            info.compress_type = 8
            out.writestr(info, MADE.sub(rb"\g<1>" + NEVER.encode(), parts.read(part)))


def _written(value: object, numbers: bool, text: Callable[[str], object]) -> object:
    if isinstance(value, str):
        is_number = numbers and NUMBER.fullmatch(value)
        return (float(value) if "." in value else int(value)) if is_number else text(value)
    return text(str(value)) if isinstance(value, float) and not abs(value) < inf else value
