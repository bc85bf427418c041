"""column: a table's column by its name."""

from difflib import get_close_matches
from typing import Any

from attributary.errors import InputError
from attributary.tables import odd_separator, shown

NAMED = 12  # columns in a message


def column(table: Any, name: str, path: str) -> Any:
    """The column of that name, not dictionary-coded; where there is none, an InputError tells what there is."""
    import pyarrow as pa

    if name not in table.column_names:
        raise InputError(f"{shown(path)} has no column {name!r}; {_hint(table, name)}{columns_in_words(table)}")
    cells = table.column(name)
    return cells.cast(cells.type.value_type) if pa.types.is_dictionary(cells.type) else cells


def columns_in_words(table: Any) -> str:
    names = table.column_names
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    return f"its columns are {', '.join(names[:NAMED])}{more}{odd_separator(names)}"


def cell_in_words(table: Any, name: str, row: int) -> str:
    """A cell as the user wrote it."""
    value = table.column(name)[row].as_py()
    words = repr(value) if isinstance(value, str) else "an empty cell" if value is None else str(value)
    return words if len(words) <= 40 else words[:40] + "…"


def is_words(kind: Any) -> bool:
    """Whether an Arrow type is text."""
    import pyarrow as pa

    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def _hint(table: Any, name: str) -> str:
    close = get_close_matches(name, table.column_names, 1)
    return f"did you mean {close[0]!r}? " if close else ""
