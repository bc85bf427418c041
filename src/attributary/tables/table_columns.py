"""Columns: a column of a table by its name, as it is or as numbers, whatever kind of file it came from."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from attributary.errors import InputError, did_you_mean, first_few
from attributary.tables.table_source import shown
from attributary.tables.text_form import odd_separator, place
from attributary.types import Arrow, Cells, Frame, Values

GROUPED = r"^[-+]?[1-9][0-9]{0,2}(\.[0-9]{3})+$"  # 23.048 and 1.234.567, as Germans write thousands
NOT_GROUPED = r"^[-+]?[0-9]{1,3}$"  # what such a column has besides
HUNDREDS = r"^[-+]?[1-9][0-9]{2}$"  # and one of these makes it suspicious: decimals are seldom beside them
DISTINCT = 3  # grouped figures that make a column suspicious without
FIRST = 1000  # cells that nearly always tell
SHOWN = 40  # characters of a cell


def column(table: Arrow, name: str, path: str) -> Cells:
    """The column of that name, not dictionary-coded; where there is none, an InputError tells what there is."""
    return plain(_cells(table, name, path))


def _cells(table: Arrow, name: str, path: str) -> Cells:
    if name not in table.column_names:
        hint = did_you_mean(name, table.column_names)
        raise InputError(f"{shown(path)} has no column {name!r}; {hint}{columns_in_words(table)}")
    return table.column(name)


def labelled(table: Arrow, name: str, path: str) -> Cells:
    """The same, but dictionary-coded as one array if it is text and coded in the table."""
    cells = _cells(table, name, path)
    if is_text_type(cells.type) or not is_text_type(label_type(cells)):
        return plain(cells)
    return cells.unify_dictionaries().combine_chunks()


def columns_in_words(table: Arrow) -> str:
    """The columns that a table has, for a message."""
    return f"its columns are {first_few(table.column_names)}{odd_separator(table.column_names)}"


def floats(table: Arrow, name: str, path: str, rows: NDArray[np.int64] | None = None) -> NDArray[np.float64]:
    """A column as numbers, nan where a cell is empty; an InputError names the first row that holds something else.

    Where there is no such column, it tells what there is. `path` is what messages call the table. `rows` are the
    numbers of these rows in the file, where the table has some of them only.
    """
    import pyarrow as pa

    def at(row: int) -> str:
        return f"{place(path, row if rows is None else int(rows[row]))}: {cell_in_words(table, name, row)}"

    cells = column(table, name, path)
    if not is_text_type(cells.type) and not any(is_kind(cells.type) for is_kind in _numeric()):
        raise InputError(f"{shown(path)}: column {name!r} is {cells.type}; numbers are needed")
    try:
        values: NDArray[np.float64] = number_cells(cells).to_numpy()
    except pa.ArrowInvalid:
        row = _first_word(cells)
        raise InputError(
            f"{at(row)} in column {name!r} is not a number; numbers look like 12, -0.5, 1e3 or inf"
        ) from None
    if is_text_type(cells.type):
        over = np.isinf(values)
        if over.any():  # inf is said; 1e400 is not a number that there is
            over[over] = ["inf" not in str(text).lower() for text in cells.filter(pa.array(over)).to_pylist()]
        if over.any():
            raise InputError(f"{at(int(np.argmax(over)))} in column {name!r} is too large for a number")
        grouped = first_grouped(cells)
        if grouped is not None:
            raise InputError(f"{at(grouped)} in column {name!r} {thousands_in_words(cells[grouped].as_py())}")
    return values


def stacked(tables: Mapping[str, Any], by: str, labels: Sequence[str]) -> Arrow:
    """Tables one below the other, told apart by a first column; of `labels`, each has its own, the others are empty."""
    import pyarrow as pa

    named = []
    for name, table in tables.items():
        label = pa.DictionaryArray.from_arrays(pa.array(np.zeros(table.num_rows, np.int32)), pa.array([name]))
        named.append(table.add_column(0, by, label))
    made = pa.concat_tables(named, promote_options="permissive").unify_dictionaries()
    names = named[0].column_names
    first = names[: min(names.index(label) for label in labels if label in names)]
    rest = [name for name in made.column_names if name not in (*first, *labels)]
    metadata = next(iter(tables.values())).schema.metadata
    return made.select([*first, *labels, *rest]).replace_schema_metadata(metadata)


def of_label(table: Arrow, by: str, label: str, labels: Sequence[str]) -> Arrow:
    """The rows of one of the tables that were stacked, with its own labels."""
    import pyarrow as pa
    import pyarrow.compute as pc

    rows = table.filter(pc.equal(table.column(by).cast(pa.string()), label)).drop_columns([by])
    return rows.drop_columns([name for name in rows.column_names if name in set(labels)])


def number_cells(cells: Cells) -> Cells:
    """Arrow cells as floats, null where they are blank; an ArrowInvalid where one is not a number."""
    import pyarrow as pa
    import pyarrow.compute as pc

    cells = plain(cells)
    if is_text_type(cells.type):
        try:
            return cells.cast(pa.float64())  # as most columns can be
        except pa.ArrowInvalid:
            trimmed = pc.utf8_trim_whitespace(cells)
            cells = pc.if_else(pc.equal(trimmed, ""), None, trimmed)
    return cells.cast(pa.float64(), safe=False)


def plain(cells: Cells) -> Cells:
    """A column that is not dictionary-coded, nor of views, which Arrow has few functions for."""
    import pyarrow as pa

    cells = cells.cast(cells.type.value_type) if pa.types.is_dictionary(cells.type) else cells
    return cells.cast(pa.large_string()) if pa.types.is_string_view(cells.type) else cells


def coded(cells: Cells) -> Cells:
    """A column as one array of codes and distinct labels, in the order in which they first appear."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if not pa.types.is_dictionary(cells.type):
        made = pc.dictionary_encode(plain(cells))
        made = made.combine_chunks() if isinstance(made, pa.ChunkedArray) else made
        return made.chunk(0) if isinstance(made, pa.ChunkedArray) else made
    cells = cells.unify_dictionaries().combine_chunks() if isinstance(cells, pa.ChunkedArray) else cells
    labels = pc.dictionary_encode(plain(cells.dictionary))  # a frame's dictionary may hold a label twice
    used = pc.dictionary_encode(labels.indices.take(cells.indices))
    if cells.type == labels.type and used.dictionary.equals(labels.indices):  # they are so already
        return cells
    return pa.DictionaryArray.from_arrays(used.indices, labels.dictionary.take(used.dictionary))


def distinct(cells: Cells) -> Cells:
    """The labels of a column, each once, in the order in which they first appear."""
    import pyarrow as pa
    import pyarrow.compute as pc

    is_coded = pa.types.is_dictionary(cells.type)
    if is_coded and isinstance(cells, pa.ChunkedArray):
        cells = cells.unify_dictionaries()
    return plain(pc.unique(cells if is_coded else plain(cells))).drop_null()


def with_coded(table: Arrow, names: Iterable[str]) -> Arrow:
    """The table with these columns coded, where they are text: what is asked of a label is asked once."""
    for name in names:
        if name in table.column_names and is_text_type(label_type(table.column(name))):
            table = with_cells(table, name, coded(table.column(name)))
    return table


def label_type(cells: Cells) -> object:
    """The Arrow type of a column's cells, whether they are dictionary-coded or not."""
    import pyarrow as pa

    return cells.type.value_type if pa.types.is_dictionary(cells.type) else cells.type


def without_views(table: Arrow) -> Arrow:
    """The table with views of text, as polars has them, as text, also where they are the labels of codes."""
    import pyarrow as pa

    for i, field in enumerate(table.schema):
        coded = pa.types.is_dictionary(field.type)
        if not pa.types.is_string_view(field.type.value_type if coded else field.type):
            continue
        parts = [
            pa.DictionaryArray.from_arrays(part.indices, part.dictionary.cast(pa.large_string()))
            if coded
            else part.cast(pa.large_string())
            for part in table.column(i).chunks
        ]
        kind = pa.dictionary(field.type.index_type, pa.large_string()) if coded else pa.large_string()
        table = table.set_column(i, field.with_type(kind), pa.chunked_array(parts, kind))
    return table


def with_cells(table: Arrow, name: str, cells: Cells) -> Arrow:
    """The table with other cells in this column; nan is null."""
    import pyarrow as pa

    cells = pa.array(cells, from_pandas=True) if isinstance(cells, np.ndarray) else cells
    return table.set_column(table.column_names.index(name), name, cells)


def texts_of(given: str | Collection[str]) -> Collection[str]:
    """Texts that a user lists; one alone may stand by itself."""
    return [given] if isinstance(given, str) else given


def is_text_type(kind: object) -> bool:
    """Whether an Arrow type is text."""
    import pyarrow as pa

    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def cell_in_words(table: Arrow, name: str, row: int) -> str:
    """A cell as the user wrote it."""
    value = table.column(name)[row].as_py()
    words = repr(value[: SHOWN + 1]) if isinstance(value, str) else "an empty cell" if value is None else str(value)
    return words if len(words) <= SHOWN else words[:SHOWN] + "…"


def first_grouped(cells: Cells) -> int | None:
    """The first of some texts whose points may stand between thousands; None where another text tells decimals.

    All of them have exactly three digits after each point, or none: 23.048 may then be 23048.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    texts = pa.chunked_array([cells]) if isinstance(cells, pa.Array) else cells
    for part in (texts.slice(0, FIRST), texts):
        trimmed = pc.utf8_trim_whitespace(part.drop_null())
        trimmed = trimmed.filter(pc.not_equal(trimmed, ""))
        grouped = pc.match_substring_regex(trimmed, GROUPED)
        if not pc.all(pc.or_(grouped, pc.match_substring_regex(trimmed, NOT_GROUPED))).as_py():
            return None
    distinct = len(trimmed.filter(grouped).unique())
    if not distinct or (distinct < DISTINCT and not pc.any(pc.match_substring_regex(trimmed, HUNDREDS)).as_py()):
        return None
    is_grouped = pc.match_substring_regex(pc.utf8_trim_whitespace(texts), GROUPED)
    return int(pc.index(is_grouped, True).as_py())


def thousands_in_words(cell: str) -> str:
    """What to do about such a column, by one of its cells."""
    cell = cell.strip()[:SHOWN]
    return (
        f"may be {cell.replace('.', '')} or {cell}: all points there have three digits after them; write thousands "
        f"without points, as in {cell.replace('.', '')}, or decimals with a fourth digit, as in {cell}0"
    )


def refuse_grouped(cells: Iterable[str], where: str) -> None:
    """Raises an InputError where the points in some texts of a column may stand between thousands."""
    import pyarrow as pa

    texts = pa.array(list(cells), pa.string())
    row = first_grouped(texts)
    if row is not None:
        cell = texts[row].as_py()
        raise InputError(f"{where}: {cell[:SHOWN]!r} {thousands_in_words(cell)}")


def _numeric() -> list[Any]:
    from pyarrow import types

    return [types.is_integer, types.is_floating, types.is_decimal, types.is_null]


def _first_word(cells: Cells) -> int:
    """The first row that is not a number, found by halves."""
    import pyarrow as pa

    low, high = 0, len(cells)
    while high - low > 1:
        middle = (low + high) // 2
        try:
            number_cells(cells.slice(low, middle - low))
            low = middle
        except pa.ArrowInvalid:
            high = middle
    return low


# not_private: the words on a table that protects nobody, which everything made from it carries on.
#
# Parquet and Arrow hold them in the metadata of their schema; text has no such place, and gets a last column.

NAME = "not_private"  # the key in the metadata, and the column in text
BEGINS = "NOT PRIVATE"
SEEDED = "NOT PRIVATE: its noise is seeded, and protects nobody; not for release"
NO_NOISE = "NOT PRIVATE: exact sums without noise; not for release"
TRUE_COUNTS = "NOT PRIVATE: true counts without noise; not for release"
EXACT_PRIOR = "NOT PRIVATE: the prior is counts without noise, and the estimates tell a little of them"
LONGEST = 300  # of what a file may say of itself


def mark(table: Arrow, *words: str) -> Arrow:
    """The table with these words, beside those that it has; as it is if there are none."""
    every = together(words_of(table), *words)
    if not every:
        return table
    if NAME in table.column_names:
        table = table.drop_columns([NAME])  # writing it as text puts it there again, in every row
    return table.replace_schema_metadata({**(table.schema.metadata or {}), NAME.encode(): every})


def words_of(table: Arrow) -> str:
    """What an Arrow table says of itself, in its metadata or in a column; nothing if it is private."""
    import pyarrow as pa
    import pyarrow.compute as pc

    cells: list[str] = []
    for i in [i for i, name in enumerate(table.column_names) if name.lower() == NAME]:
        column = pc.unique(table.column(i))
        column = column.dictionary if pa.types.is_dictionary(column.type) else column
        if pa.types.is_string_view(column.type):
            column = column.cast(pa.string())
        if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
            column = column.filter(pc.fill_null(pc.starts_with(column, BEGINS), False))
            cells += column.slice(0, 3).to_pylist()
    return together(words_in(table.schema.metadata), *cells)


def words_in(metadata: Any) -> str:
    """What the metadata of a schema or of a file says."""
    words = (metadata or {}).get(NAME.encode(), b"")
    return together(words.decode(errors="replace"))


def together(*words: str) -> str:
    """Several such words as one text, each once."""
    each = dict.fromkeys(part for text in words for part in text[:LONGEST].split(" | ") if part)
    return " | ".join(each)[:LONGEST]


def with_column(table: Arrow) -> Arrow:
    """The table with its words in a last column, if it has any: for text, which has no metadata."""
    import pyarrow as pa

    marked = mark(table)
    words = words_of(marked)
    if not words:
        return table
    return marked.append_column(NAME, pa.repeat(pa.scalar(words), marked.num_rows))


# user_frames: a user's table of whatever kind as Arrow, and with more columns in the same kind.
#
# Arrow, pandas, polars, a DuckDB relation, a dict of columns, and all else that speaks Arrow's stream (PyCapsule). None
# of these libraries but Arrow is needed: a frame brings its own.

Columns = dict[str, Values]  # of floats, or of text


def arrow_table(frame: Frame) -> Arrow:
    """The frame as an Arrow table; a named index of pandas is columns, too."""
    import pyarrow as pa

    if isinstance(frame, pa.Table):
        return without_views(frame)
    if hasattr(frame, "collect") and not hasattr(frame, "__arrow_c_stream__"):  # polars, lazily
        frame = frame.collect()
    try:
        table = pa.table(_uniform(frame))
        unnamed = [name for name in table.column_names if name.startswith("__index_level_")]  # pandas' row numbers
        table = table.drop_columns(unnamed) if unnamed else table
        return without_views(table)
    except (pa.ArrowInvalid, pa.ArrowTypeError) as error:  # a column of pandas with cells of several types
        raise ValueError(f"a column has cells of one type; {'; '.join(map(str, error.args))}: convert it") from error
    except (TypeError, ValueError):
        kinds = "Arrow, pandas, polars, a DuckDB relation or a dict of columns"
        raise ValueError(f"a table is {kinds}; got {type(frame).__name__}") from None


def _uniform(frame: Any) -> Any:
    """A frame of pandas with texts as names, and columns with cells of one type: <5 among numbers makes all texts."""
    if type(frame).__module__.partition(".")[0] != "pandas" or not hasattr(frame, "columns"):
        return frame
    if frame.columns.nlevels == 1 and not all(isinstance(name, str) for name in frame.columns):
        frame = frame.rename(columns=str)
    mixed = {}
    for name, kind in zip(frame.columns, frame.dtypes, strict=True):
        kinds = {type(cell) for cell in frame[name].dropna()} if str(kind) == "object" else set()
        if str in kinds and len(kinds) > 1:
            mixed[name] = frame[name].map(str, na_action="ignore")
    return frame.assign(**mixed) if mixed else frame


def with_figures(frame: Frame, columns: Columns) -> Frame:
    """The frame, in its kind, with these columns behind its own; nan is null where the kind has it."""
    kind = KINDS.get(type(frame).__module__.partition(".")[0], ARROW)
    taken = set(columns) & set(kind.names(frame))
    if taken:
        name = min(taken, key=list(columns).index)
        raise ValueError(f"the frame has a column {name!r} already; put something before the new names with prefix=")
    return kind.add(frame, columns)


def in_kind(frame: Frame, table: Arrow) -> Frame:
    """A table in the kind of a frame: the frame with the columns behind its own, where its rows and columns are."""
    users = arrow_table(frame)
    names, behind = users.column_names, table.column_names[users.num_columns :]
    kind = KINDS.get(type(frame).__module__.partition(".")[0], ARROW)
    same = table.num_rows == users.num_rows and table.column_names[: len(names)] == names
    if kind is ARROW or not (same and all(table.column(name).equals(users.column(name)) for name in names)):
        return kind.make(frame, table)
    return kind.add(frame, {name: plain(table.column(name)).to_numpy() for name in behind})


class FrameKind(NamedTuple):
    names: Callable[[Any], Any]
    add: Callable[[Any, Columns], Any]
    make: Callable[[Any, Any], Any] = lambda frame, table: table


def _to_arrow(frame: Frame, columns: Columns) -> Frame:
    import pyarrow as pa

    table = arrow_table(frame)
    for name, values in columns.items():
        table = table.append_column(name, pa.array(values, from_pandas=True))
    return table


def _to_polars(frame: Frame, columns: Columns) -> Frame:
    import polars as pl

    return frame.with_columns(*(pl.Series(name, values, nan_to_null=True) for name, values in columns.items()))


def _as_polars(frame: Frame, table: Arrow) -> Frame:
    import polars as pl

    made = pl.from_arrow(table)
    return made.lazy() if isinstance(frame, pl.LazyFrame) else made  # type: ignore[union-attr,unused-ignore]


def _to_relation(frame: Frame, columns: Columns) -> Frame:
    return _as_relation(frame, _to_arrow(frame, columns))


def _as_relation(frame: Frame, made: object) -> Frame:
    assert made is not None  # the query finds it by its name
    return frame.query("rows", "FROM made")


ARROW = FrameKind(lambda frame: arrow_table(frame).column_names, _to_arrow)
KINDS = {
    "pandas": FrameKind(
        lambda frame: frame.columns,
        lambda frame, columns: frame.assign(**columns),
        lambda frame, table: table.to_pandas(),
    ),
    "polars": FrameKind(lambda frame: arrow_table(frame[:0]).column_names, _to_polars, _as_polars),
    "duckdb": FrameKind(lambda frame: frame.columns, _to_relation, _as_relation),
    "builtins": FrameKind(
        lambda frame: frame,
        lambda frame, columns: frame | {name: np.asarray(v) for name, v in columns.items()},
        lambda frame, table: table.to_pydict(),
    ),
}
