"""write_table: an Arrow table becomes a file, whole or not at all."""

import json
import os
import sys
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import islice
from typing import Any, BinaryIO, get_args

import numpy as np

from attributary.arrow import ipc, pa, parquet, pc
from attributary.errors import InputError
from attributary.kernel import usable_threads
from attributary.tables.as_written import LEVELS
from attributary.tables.spreadsheet import MERGED, NOTES, SHEET, TITLE
from attributary.tables.table_columns import with_column
from attributary.tables.table_source import DELIMITER, ENDINGS, Format, Named, by_name, is_sheet, is_text
from attributary.tables.text_form import NOTED, SEPARATORS, TextForm, dialect
from attributary.types import Arrow, Cells
from attributary.whole_files import output_file

ROWS = 2**15  # of text at a time
OF_SOURCE = (NOTED, NOTES, SHEET, MERGED, TITLE)  # what a table notes of the file that it was read from
AHEAD = 4  # blocks that are made while others are written


def write_table(table: Arrow, path: str, format: Format | None = None) -> None:
    """Writes a table to a file, or to standard output if the path is `-`.

    The format is the one given, or the ending's; standard output is CSV unless told otherwise. Text has the dialect
    that the table notes (`text_form.dialect`). An interrupted write leaves the old file as it was.
    """
    kind, packing = check_output(path, format)
    with output_file(path) as file:
        _write(table, file, kind, packing)


@contextmanager
def table_parts(path: str, schema: Any) -> Iterator[Callable[[Any], None]]:
    """A function that adds tables of this schema to a new file, Parquet or CSV; whole or not at all."""
    with output_file(path) as file:
        if by_name(path).format == "parquet":
            with parquet.ParquetWriter(file, schema) as out:
                yield lambda table: out.write_table(table.cast(schema))
            return
        begun = False

        def add(table: Any) -> None:
            nonlocal begun
            for block in islice(text(with_column(table), ","), int(begun), None):  # the first is the header
                file.write(block)
            begun = True

        yield add


def check_output(path: str, format: Format | None = None) -> Named:
    """The format that a table will be written in; refuses early what could not be written."""
    if format is not None and format not in get_args(Format):
        raise InputError(f"a table's format is one of {', '.join(get_args(Format))}; got {format!r}")
    if path == "-":
        if format and not is_text(format) and sys.stdout.isatty():
            raise InputError(f"{format} is not for the eye; send it to a file with `output`, or write csv")
        return Named(format or "csv", None)
    if os.path.isdir(path):
        raise InputError(f"{path} is a folder; give the name of a file in it")
    folder = os.path.dirname(os.path.realpath(path))
    if not os.path.isdir(folder):
        raise InputError(
            f"{path} cannot be written: there is no folder {os.path.dirname(path)}; make it, or choose another"
        )
    regular = os.path.isfile(path) or not os.path.exists(path)
    if not os.access(folder if regular else path, os.W_OK):
        raise InputError(f"{folder if regular else path} cannot be written to; choose another place with `output`")
    named = by_name(path)
    kind = format or named.format or (None if regular else "csv")
    if kind is None or (named.packing and not is_text(kind)):
        raise InputError(
            f"{path} does not end like a table; end it in {', '.join(ENDINGS)} (text also in .csv.gz or .csv.zst), "
            "or give `format`"
        )
    return Named(kind, named.packing)


def _write(table: Arrow, file: BinaryIO, kind: Format | None, packing: str | None) -> None:
    if not is_sheet(kind):
        others = {key: value for key, value in (table.schema.metadata or {}).items() if key not in OF_SOURCE}
        table = table.replace_schema_metadata(others)
    if kind == "parquet":
        parquet.write_table(table, file)
    elif kind in DELIMITER:
        if packing:
            with pa.CompressedOutputStream(file, packing) as packed:
                _write(table, packed, kind, None)
            return
        _write_text(with_column(table), file, dialect(table, DELIMITER[kind]))
    elif kind == "xlsx":
        from attributary.tables.spreadsheet import write_spreadsheet

        write_spreadsheet(with_column(table), file, _labels(table))
    else:
        one_dictionary = table.unify_dictionaries()  # a file holds one for each column
        begin = ipc.new_stream if kind == "arrows" else ipc.new_file
        with begin(file, table.schema) as out:
            out.write_table(one_dictionary)


def _labels(table: Arrow) -> list[str]:
    """The columns that name nodes, where a table states them."""
    levels: list[str] = json.loads((table.schema.metadata or {}).get(LEVELS.encode(), b"[]"))
    return levels


def _write_text(table: Arrow, file: BinaryIO, form: TextForm) -> None:
    """Writes text in a dialect; as UTF-8 with a byte order mark where its encoding lacks a letter."""
    encoding, start = form.encoding, f"sep={form.separator}{form.newline}" if form.stated else ""
    blocks = text(with_commas(table) if form.decimal == "," else table, form.separator, form.newline)
    if encoding == "cp1252":
        every = [bytes(block).decode() for block in blocks]
        try:
            file.write("".join([start, *every]).encode(encoding))
        except UnicodeEncodeError:
            file.write("".join([start, *every]).encode("utf-8-sig"))
        return
    file.write(start.encode(encoding) or "".encode(encoding))
    for block in blocks:
        file.write(block if encoding.startswith("utf-8") else bytes(block).decode().encode("utf-16")[2:])


def with_commas(table: Arrow) -> Arrow:
    """The table with its numbers as texts with decimal commas; 0,1250 has a fourth digit, as 0,125 may be thousands."""
    for i, field in enumerate(table.schema):
        if pa.types.is_floating(field.type):
            words = pc.replace_substring(pc.cast(table.column(i), pa.string()), ".", ",")
            table = table.set_column(i, field.name, pc.replace_substring_regex(words, r",(\d{3})$", r",\10"))
    return table


def text(table: Arrow, delimiter: str, newline: str = "\n") -> Iterator[Any]:
    """The bytes of a table as CSV or TSV, block by block; null is an empty cell, numbers have all their digits."""
    awkward = "\ufeff" + "".join(SEPARATORS)  # which a reader might take for the separator
    yield _block([_quoted(pa.array([name]), delimiter, awkward) for name in table.column_names], delimiter, newline)
    waiting: deque[Any] = deque()  # blocks are made by several threads, and written in their order
    with ThreadPoolExecutor(min(usable_threads(), AHEAD)) as pool:
        for batch in table.to_batches(max_chunksize=ROWS):
            waiting.append(pool.submit(_rows, batch, delimiter, newline))
            if len(waiting) > AHEAD:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()


def _rows(batch: Any, delimiter: str, newline: str) -> object:
    names = zip(batch.schema.names, batch.columns, strict=True)
    return _block([_cells(column, delimiter, name) for name, column in names], delimiter, newline)


def _block(cells: list[Cells], delimiter: str, newline: str) -> Any:
    if len(cells) == 1:  # an empty line would be no row
        cells = [pc.if_else(pc.equal(cells[0], ""), '""', cells[0])]
    ended = pc.binary_join_element_wise(*cells[:-1], pc.binary_join_element_wise(cells[-1], "", newline), delimiter)
    start, end = (np.frombuffer(ended.buffers()[1], np.int32)[i] for i in (0, len(ended)))
    return ended.buffers()[2].slice(start, end - start)  # the rows stand one behind the other there


def _cells(column: Cells, delimiter: str, name: str) -> Cells:
    try:
        if pa.types.is_floating(column.type):  # which costs most, and many nodes have the same variance
            coded = pc.dictionary_encode(column, null_encoding="encode")
            if len(coded.dictionary) < len(column) / 2:
                return pc.take(pc.fill_null(pc.cast(coded.dictionary, pa.string()), ""), coded.indices)
        words = pc.cast(column, pa.string())
    except (pa.ArrowNotImplementedError, pa.ArrowInvalid):
        raise InputError(
            f"a text file has no room for column {name!r}, which is {column.type}; write Parquet or Arrow instead"
        ) from None
    words = pc.fill_null(words, "")
    return words if pa.types.is_primitive(column.type) else _quoted(words, delimiter)


def _quoted(words: Cells, delimiter: str, awkward: str = "") -> Cells:
    if len(words) and not awkward and not _has_byte(words, f'"\r\n{delimiter}'):  # as in nearly all tables
        return words
    needy = pc.match_substring_regex(words, f'["\r\n{delimiter}{awkward}]')
    if not pc.any(needy).as_py():
        return words
    doubled = pc.replace_substring(words, '"', '""')
    return pc.if_else(needy, pc.binary_join_element_wise('"', doubled, '"', ""), words)


def _has_byte(words: Cells, wanted: str) -> bool:
    """Whether any of these characters may be in the words: it is among their bytes."""
    data = words.buffers()[2]
    return data is not None and bool(
        np.isin(np.arange(256), list(wanted.encode()))[np.frombuffer(data, np.uint8)].any()
    )
