"""column: a table's column by its name."""

from difflib import get_close_matches
from typing import Any

from attributary.errors import InputError
from attributary.tables import odd_separator, shown
from attributary.tables.floats import plain

NAMED = 12  # columns in a message


def column(table: Any, name: str, path: str) -> Any:
    """The column of that name, not dictionary-coded; where there is none, an InputError tells what there is."""
    if name not in table.column_names:
        raise InputError(f"{shown(path)} has no column {name!r}; {_hint(table, name)}{columns_in_words(table)}")
    return plain(table.column(name))


def columns_in_words(table: Any) -> str:
    names = table.column_names
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    return f"its columns are {', '.join(names[:NAMED])}{more}{odd_separator(names)}"


def _hint(table: Any, name: str) -> str:
    close = get_close_matches(name, table.column_names, 1)
    return f"did you mean {close[0]!r}? " if close else ""
