"""user_frames: a user's table of whatever kind as Arrow, and with more columns in the same kind.

Arrow, pandas, polars, a DuckDB relation, a dict of columns, and all else that speaks Arrow's stream (PyCapsule). None
of these libraries but Arrow is needed: a frame brings its own.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from attributary.tables.table_columns import without_views

Columns = dict[str, NDArray[Any]]  # of floats, or of text


def arrow_table(frame: Any) -> Any:
    """The frame as an Arrow table; a named index of pandas is columns, too."""
    import pyarrow as pa

    if isinstance(frame, pa.Table):
        return without_views(frame)
    if hasattr(frame, "collect") and not hasattr(frame, "__arrow_c_stream__"):  # polars, lazily
        frame = frame.collect()
    try:
        table = pa.table(frame)
        unnamed = [name for name in table.column_names if name.startswith("__index_level_")]  # pandas' row numbers
        table = table.drop_columns(unnamed) if unnamed else table
        return without_views(table)
    except (pa.ArrowInvalid, pa.ArrowTypeError) as error:  # a column of pandas with cells of several types
        raise ValueError(f"a column has cells of one type; {'; '.join(map(str, error.args))}: convert it") from error
    except TypeError:
        kinds = "Arrow, pandas, polars, a DuckDB relation or a dict of columns"
        raise ValueError(f"a table is {kinds}; got {type(frame).__name__}") from None


def with_figures(frame: Any, columns: Columns) -> Any:
    """The frame, in its kind, with these columns behind its own; nan is null where the kind has it."""
    kind = KINDS.get(type(frame).__module__.partition(".")[0], ARROW)
    taken = set(columns) & set(kind.names(frame))
    if taken:
        name = min(taken, key=list(columns).index)
        raise ValueError(f"the frame has a column {name!r} already; put something before the new names with prefix=")
    return kind.add(frame, columns)


class FrameKind(NamedTuple):
    names: Callable[[Any], Any]
    add: Callable[[Any, Columns], Any]


def _to_arrow(frame: Any, columns: Columns) -> Any:
    import pyarrow as pa

    table = arrow_table(frame)
    for name, values in columns.items():
        table = table.append_column(name, pa.array(values, from_pandas=True))
    return table


def _to_polars(frame: Any, columns: Columns) -> Any:
    import polars as pl

    return frame.with_columns(*(pl.Series(name, values, nan_to_null=True) for name, values in columns.items()))


def _to_relation(frame: Any, columns: Columns) -> Any:
    made = _to_arrow(frame, columns)  # which the query finds by its name
    assert made is not None
    return frame.query("rows", "FROM made")


ARROW = FrameKind(lambda frame: arrow_table(frame).column_names, _to_arrow)
KINDS = {
    "pandas": FrameKind(lambda frame: frame.columns, lambda frame, columns: frame.assign(**columns)),
    "polars": FrameKind(lambda frame: arrow_table(frame[:0]).column_names, _to_polars),
    "duckdb": FrameKind(lambda frame: frame.columns, _to_relation),
    "builtins": FrameKind(
        lambda frame: frame, lambda frame, columns: frame | {name: np.asarray(v) for name, v in columns.items()}
    ),
}
