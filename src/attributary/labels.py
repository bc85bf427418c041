"""Labels: a column of a table as text, whatever it is made of, so that 7 in one file is 7 in another."""

import re
from difflib import get_close_matches
from typing import Any

import numpy as np
from numpy.typing import NDArray

CONTROL = "\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ufffe\uffff"  # what no page and no chart can show
UNPRINTABLE = re.compile(f"[{CONTROL}\ud800-\udfff]")


def arrow_table(table: Any) -> Any:
    """Arrow, pandas, polars or a dict of columns as an Arrow table."""
    import pyarrow as pa

    return table if isinstance(table, pa.Table) else pa.table(table)


def text_labels(table: Any, name: str) -> Any:
    """A column as text, dictionary-coded: one Arrow array; whole floats look like whole numbers, and nan is null."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if name not in table.column_names:
        close = get_close_matches(name, table.column_names, 1)
        hint = f"did you mean {close[0]!r}? " if close else ""
        raise ValueError(f"there is no column {name!r}; {hint}the columns are {', '.join(table.column_names)}")
    column = table.column(name).combine_chunks()
    if isinstance(column, pa.ChunkedArray):  # no rows at all
        column = pa.concat_arrays(column.chunks) if column.chunks else pa.array([], column.type)
    if pa.types.is_nested(column.type):
        raise ValueError(f"labels are text, numbers or dates; column {name!r} is {column.type}")
    if pa.types.is_floating(column.type):
        column = pc.if_else(pc.is_nan(column), None, column)
    coded = column if pa.types.is_dictionary(column.type) else pc.dictionary_encode(column)
    return pa.DictionaryArray.from_arrays(coded.indices.cast(pa.int32()), coded.dictionary.cast(pa.string()))


def unprintable(text: str) -> str | None:
    """The first character of a text that no page can show, as in U+0001: a control character, or half of one."""
    found = UNPRINTABLE.search(text)
    return f"U+{ord(found[0]):04X}" if found else None


def codes(labels: Any) -> NDArray[np.int64]:
    """The code of each label; -1 for null."""
    import pyarrow.compute as pc

    found: NDArray[np.int64] = pc.fill_null(labels.indices, -1).to_numpy(zero_copy_only=False).astype(np.int64)
    return found
