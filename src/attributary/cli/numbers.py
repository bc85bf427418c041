"""numbers: a column of a table as floats."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from attributary.cli.column import cell_in_words, column, is_words
from attributary.errors import InputError
from attributary.tables import place, shown


def numbers(table: Any, name: str, path: str) -> NDArray[np.float64]:
    """A column as numbers, nan where a cell is null; an InputError names the first row that holds something else."""
    import pyarrow as pa
    import pyarrow.compute as pc

    cells = column(table, name, path)
    if is_words(cells.type):
        cells = pc.utf8_trim_whitespace(cells)
    elif not any(is_kind(cells.type) for is_kind in _numeric()):
        raise InputError(f"{shown(path)}: column {name!r} is {cells.type}; numbers are needed")
    try:
        values: NDArray[np.float64] = cells.cast(pa.float64(), safe=False).to_numpy()
    except pa.ArrowInvalid:
        row = _first_word(cells)
        raise InputError(
            f"{place(path, row)}: {cell_in_words(table, name, row)} in column {name!r} is not a number; "
            "numbers look like 12, -0.5, 1e3 or inf"
        ) from None
    return values


def _numeric() -> list[Any]:
    from pyarrow import types

    return [types.is_integer, types.is_floating, types.is_decimal, types.is_null]


def _first_word(cells: Any) -> int:
    """The first row that is not a number, found by halves."""
    import pyarrow as pa

    low, high = 0, len(cells)
    while high - low > 1:
        middle = (low + high) // 2
        try:
            cells.slice(low, middle - low).cast(pa.float64())
            low = middle
        except pa.ArrowInvalid:
            high = middle
    return low
