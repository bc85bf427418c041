"""read_table: a file becomes an Arrow table, text as it stands."""

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from attributary.arrow import csv, feather, ipc, pa, parquet
from attributary.errors import InputError
from attributary.tables.as_written import names_of_nodes, rows_of_nodes
from attributary.tables.table_columns import mark, plain, with_cells, without_views, words_of
from attributary.tables.table_source import (
    DELIMITER,
    Format,
    by_content,
    by_name,
    decoded,
    is_text,
    opened,
    shards,
    shown,
)
from attributary.tables.text_form import BEGINNING, TextForm, fault, text_form, western, with_dialect
from attributary.types import Arrow


def read_table(
    path: str, format: Format | None = None, separator: str | None = None, sheet: str | None = None
) -> Arrow:
    """The table in a file, `-` for standard input: CSV, TSV (also as .gz and .zst), Parquet, Arrow, a sheet of .xlsx.

    The cells of text files stay text, so that a label such as 007 keeps its zeros; an empty cell is null. The format
    is the one given, or the ending's, or what the first bytes look like. Cells are separated as the ending says, or
    as all rows of the beginning agree, and text that is not UTF-8 is cp1252, or UTF-16 with a byte order mark: the
    metadata then says so. What `denoise --table` wrote in the shape of the user's table has a row for each node here.
    A folder of Parquet files that a cluster wrote is one table.
    """
    if parts := shards(path):
        return rows_of_nodes(_checked(_of_shards(parts), shown(path)))
    with decoded(path) as (file, encoding):
        kind, form = _form(file, path, format, separator, encoding)
        _refuse_sheet(kind, sheet, path)
        if is_text(kind):
            table, form = _of_text(_read_text, file, form, path)
            table = with_dialect(table, form, DELIMITER[kind])
        elif kind == "xlsx":
            from attributary.tables.spreadsheet import read_spreadsheet

            table = read_spreadsheet(file.read(), shown(path), sheet)
        else:
            table = _whole(_read_binary, file, kind, path)
    return rows_of_nodes(_checked(table, shown(path)))


def _of_shards(parts: Sequence[str]) -> Arrow:
    """One table of shards: columns by their names, of types that hold those of all, and what any says of itself."""
    tables = []
    for part in parts:
        with decoded(part) as (file, _):
            tables.append(_whole(_read_binary, file, "parquet", part))
        _refuse_repeated(tables[-1].column_names, shown(part))
    names = tables[0].column_names
    for part, table in zip(parts, tables, strict=True):
        if odd := set(names) ^ set(table.column_names):
            lacking = next(name for name in [*names, *table.column_names] if name in odd)
            has, lacks = (parts[0], part) if lacking in names else (part, parts[0])
            raise InputError(
                f"the shards of a table have the same columns; {shown(lacks)} has no column {lacking!r}, which "
                f"{shown(has)} has: write the folder anew"
            )
    for name in names:  # dictionary-coded here and as text there
        if len({table.schema.field(name).type for table in tables}) > 1:
            tables = [with_cells(table, name, plain(table.column(name))) for table in tables]
    said = {key: words for table in reversed(tables) for key, words in (table.schema.metadata or {}).items()}
    not_private = [words_of(table) for table in tables]
    tables, schema = [table.select(names) for table in tables], tables[0].schema
    for step in ("types", "cells"):
        for i, part in enumerate(parts):
            try:
                if step == "types":
                    schema = pa.unify_schemas([schema, tables[i].schema], promote_options="permissive")
                else:
                    tables[i] = tables[i].cast(schema)
            except pa.ArrowException as error:
                raise InputError(f"{shown(part)} does not go with the other shards: {_reason(error)}") from error
    return mark(pa.concat_tables(tables).replace_schema_metadata(said or None), *not_private)


def _refuse_sheet(kind: Format, sheet: str | None, path: str) -> None:
    if sheet is not None and kind != "xlsx":
        raise InputError(f"`sheet` names a sheet of a spreadsheet; {shown(path)} is {kind}: leave it out")


def _whole(read: Callable[[Any, Format], object], file: object, kind: Format, path: str) -> Any:
    """What `read` gives of a Parquet or Arrow file; one that is damaged is refused."""
    try:
        return read(file, kind)
    except (pa.ArrowException, OSError, UnicodeError) as error:
        raise InputError(f"{shown(path)} is not a whole {_full_name(kind)} file: {_reason(error)}") from error


def _of_text(read: Callable[[Any, TextForm], object], file: object, form: TextForm, path: str) -> tuple[Any, TextForm]:
    """What `read` gives of a text file, and its dialect; the first mistake in it is refused."""
    try:
        return read(file, form), form
    except (pa.ArrowException, OSError, UnicodeError) as error:
        with _again("-" if form.encoding == "cp1252" else path, file) as fresh:
            text = western(fresh.read())
            if text is not None:
                return _of_text(read, pa.BufferReader(text), form._replace(encoding="cp1252"), path)
            fresh.seek(0)
            words = fault(fresh, form, shown(path)) or f"{shown(path)} cannot be read: {_reason(error)}"
        raise InputError(words) from error


def column_names(path: str, separator: str | None = None, sheet: str | None = None) -> list[str]:
    """The names of a table's columns, without its rows; anything wrong with them as `read_table` says it."""
    with decoded(path) as (file, encoding):
        kind, form = _form(file, path, None, separator, encoding)
        if is_text(kind):
            names, _ = _of_text(_text_names, file, form, path)
        elif kind == "xlsx":
            return list(read_table(path, sheet=sheet).column_names)
        else:
            names = _whole(_binary_names, file, kind, path)
    return names_of_nodes(names)


def _binary_names(file: Any, kind: Format) -> list[str]:
    if kind == "parquet":
        return list(parquet.ParquetFile(file).schema_arrow.names)
    beginning = file.read(6)
    file.seek(0)
    if beginning.startswith(b"FEA1"):
        return list(feather.read_table(file).column_names)
    stream = beginning.startswith(b"\xff\xff\xff\xff")
    return list((ipc.open_stream(file) if stream else ipc.open_file(file)).schema.names)


def _form(
    file: Any, path: str, format: Format | None, separator: str | None, encoding: str = "utf-8"
) -> tuple[Format, TextForm]:
    """The format of an open file, and its dialect if it is text."""
    beginning = file.read(BEGINNING)
    file.seek(0)
    kind = format or by_name(path).format or by_content(beginning)
    if not is_text(kind):
        return kind, TextForm("")
    return kind, text_form(beginning, DELIMITER[kind], shown(path), separator)._replace(encoding=encoding)


@contextmanager
def _again(path: str, file: Any) -> Iterator[Any]:
    """The file from its beginning; opened anew if it can be, since Arrow's threads may still read the old one."""
    if os.path.isfile(path):
        with opened(path) as fresh:
            yield fresh
    else:  # in memory, where reading has no place that threads could move
        file.seek(0)
        yield file


def _text_names(file: Any, form: TextForm) -> list[str]:
    """The names in a header; Arrow reads ahead in a thread, so that each reader has a stream of its own."""
    parse = csv.ParseOptions(delimiter=form.separator, newlines_in_values=True)
    skip = csv.ReadOptions(skip_rows=form.above)
    with csv.open_csv(file.get_stream(0, file.size()), skip, parse_options=parse) as header:
        names: list[str] = header.schema.names
    return names


def _read_text(file: Any, form: TextForm) -> Arrow:
    parse = csv.ParseOptions(delimiter=form.separator, newlines_in_values=True)
    skip = csv.ReadOptions(skip_rows=form.above)
    # The names come first, since Arrow guesses the type of every column it is not told of.
    names = _text_names(file, form)
    text = csv.ConvertOptions(
        column_types=dict.fromkeys(names, pa.string()),
        null_values=[""],
        strings_can_be_null=True,
    )
    return csv.read_csv(file.get_stream(0, file.size()), skip, parse_options=parse, convert_options=text)


def _read_binary(file: Any, kind: Format) -> Arrow:
    if kind == "parquet":
        table = parquet.ParquetFile(file).read()  # read_table looks columns up by name, and names may repeat
    else:
        beginning = file.read(6)
        file.seek(0)
        if beginning.startswith(b"\xff\xff\xff\xff"):
            table = ipc.open_stream(file).read_all()
        elif beginning.startswith(b"FEA1"):
            table = feather.read_table(file)
        else:
            table = ipc.open_file(file).read_all()
    table.validate(full=True)
    return without_views(table)


def _checked(table: Arrow, name: str) -> Arrow:
    _refuse_repeated(table.column_names, name)
    if table.num_rows == 0:
        raise InputError(f"{name} is an empty table: it has {table.num_columns} columns and no rows")
    return table


def _refuse_repeated(names: Sequence[str], name: str) -> None:
    seen: set[str] = set()
    for column in names:
        if column in seen:
            raise InputError(f"{name} has two columns called {column!r}; name each column once")
        seen.add(column)


def _full_name(kind: Format) -> str:
    return "Parquet" if kind == "parquet" else "Arrow"


def _reason(error: Exception) -> str:
    lines = str(error).splitlines()
    return lines[0][:200] if lines else type(error).__name__
