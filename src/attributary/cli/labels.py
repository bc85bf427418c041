"""labels: the columns of a table that name its nodes."""

from typing import Any

from attributary.cli.column import column, is_words
from attributary.errors import InputError
from attributary.tables import shown


def labels(table: Any, levels: str, path: str) -> Any:
    """The columns named in `a,b,c`, null where a row's path has ended: its cell is null (empty, in text) or a star."""
    import pyarrow as pa

    names = [name if name in table.column_names else name.strip() for name in levels.split(",")]
    if len(set(names)) < len(names):
        raise InputError(f"a level has a column of its own; got --levels {levels}, which names one of them twice")
    return pa.table({name: _ended(column(table, name, path), name, path) for name in names})


def _ended(cells: Any, name: str, path: str) -> Any:
    import pyarrow as pa
    import pyarrow.compute as pc

    kind = cells.type
    if pa.types.is_nested(kind):
        raise InputError(f"{shown(path)}: column {name!r} is {kind}; the labels of a level are text, numbers or dates")
    if is_words(kind):
        words = cells.cast(pa.string())
        return pc.if_else(pc.equal(words, "*"), None, words)
    if pa.types.is_floating(kind):
        return pc.if_else(pc.is_nan(cells), None, cells)
    return cells
