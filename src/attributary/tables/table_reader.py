"""read_table: a file becomes an Arrow table, text as it stands."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NoReturn

from attributary.errors import InputError
from attributary.tables.table_columns import without_views
from attributary.tables.table_source import DELIMITER, Format, by_content, by_name, is_text, opened, shown
from attributary.tables.text_form import BEGINNING, NOTED, TextForm, fault, text_form


def read_table(path: str, format: Format | None = None, separator: str | None = None) -> Any:
    """The table in a file, `-` for standard input: CSV, TSV (also as .gz and .zst), Parquet, Arrow.

    The cells of text files stay text, so that a label such as 007 keeps its zeros; an empty cell is null. The format
    is the one given, or the ending's, or what the first bytes look like. Cells are separated as the ending says, or
    as all rows of the beginning agree: the metadata then says so. UTF-16 with a byte order mark is read as well.
    """
    import pyarrow as pa

    with opened(path) as file:
        kind, form = _form(file, path, format, separator)
        try:
            table = _read_text(file, form) if is_text(kind) else _read_binary(file, kind)
            names = table.column_names
        except (pa.ArrowException, OSError, UnicodeError) as error:
            _refuse(error, kind, form, path, file)
    if is_text(kind) and form.separator != DELIMITER[kind]:
        table = table.replace_schema_metadata({NOTED: form.separator})
    return _checked(table, names, shown(path))


def column_names(path: str, separator: str | None = None) -> list[str]:
    """The names of a table's columns, without its rows; anything wrong with them as `read_table` says it."""
    import pyarrow as pa
    from pyarrow import feather, ipc, parquet

    with opened(path) as file:
        kind, form = _form(file, path, None, separator)
        try:
            if is_text(kind):
                names = _text_names(file, form)
            elif kind == "parquet":
                names = parquet.ParquetFile(file).schema_arrow.names
            else:
                beginning = file.read(6)
                file.seek(0)
                if beginning.startswith(b"FEA1"):
                    names = feather.read_table(file).column_names
                else:
                    stream = beginning.startswith(b"\xff\xff\xff\xff")
                    names = (ipc.open_stream(file) if stream else ipc.open_file(file)).schema.names
        except (pa.ArrowException, OSError, UnicodeError) as error:
            _refuse(error, kind, form, path, file)
    return list(names)


def _form(file: Any, path: str, format: Format | None, separator: str | None) -> tuple[Format, TextForm]:
    """The format of an open file, and what separates its cells if it is text."""
    beginning = file.read(BEGINNING)
    file.seek(0)
    kind = format or by_name(path).format or by_content(beginning)
    return kind, text_form(beginning, DELIMITER[kind], shown(path), separator) if is_text(kind) else TextForm("")


def _refuse(error: Exception, kind: Format, form: TextForm, path: str, file: Any) -> NoReturn:
    if is_text(kind):
        with _again(path, file) as fresh:
            words = fault(fresh, form, shown(path)) or f"{shown(path)} cannot be read: {_reason(error)}"
        raise InputError(words) from error
    raise InputError(f"{shown(path)} is not a whole {_full_name(kind)} file: {_reason(error)}") from error


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
    from pyarrow import csv

    parse = csv.ParseOptions(delimiter=form.separator, newlines_in_values=True)
    skip = csv.ReadOptions(skip_rows=int(form.stated))
    with csv.open_csv(file.get_stream(0, file.size()), skip, parse_options=parse) as header:
        names: list[str] = header.schema.names
    return names


def _read_text(file: Any, form: TextForm) -> Any:
    import pyarrow as pa
    from pyarrow import csv

    parse = csv.ParseOptions(delimiter=form.separator, newlines_in_values=True)
    skip = csv.ReadOptions(skip_rows=int(form.stated))
    # The names come first, since Arrow guesses the type of every column it is not told of.
    names = _text_names(file, form)
    text = csv.ConvertOptions(
        column_types=dict.fromkeys(names, pa.string()),
        null_values=[""],
        strings_can_be_null=True,
    )
    return csv.read_csv(file.get_stream(0, file.size()), skip, parse_options=parse, convert_options=text)


def _read_binary(file: Any, kind: Format) -> Any:
    from pyarrow import feather, ipc, parquet

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


def _checked(table: Any, names: list[str], name: str) -> Any:
    seen: set[str] = set()
    for column in names:
        if column in seen:
            raise InputError(f"{name} has two columns called {column!r}; name each column once")
        seen.add(column)
    if table.num_rows == 0:
        raise InputError(f"{name} is an empty table: it has {len(names)} columns and no rows")
    return table


def _full_name(kind: Format) -> str:
    return "Parquet" if kind == "parquet" else "Arrow"


def _reason(error: Exception) -> str:
    lines = str(error).splitlines()
    return lines[0][:200] if lines else type(error).__name__
