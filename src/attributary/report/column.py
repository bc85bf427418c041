"""Column: the numbers in a table's column, whatever kind of file it came from."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from attributary.errors import InputError
from attributary.tables import place, shown


def floats(table: Any, name: str, path: str, rows: NDArray[np.int64] | None = None) -> NDArray[np.float64]:
    """A column as numbers, nan where a cell is empty; an InputError names the first row that holds something else.

    `rows` are the numbers of these rows in the file, where the table has some of them only.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    cells = table.column(name)
    if pa.types.is_dictionary(cells.type):
        cells = cells.cast(cells.type.value_type)
    kind = cells.type
    words = pa.types.is_string(kind) or pa.types.is_large_string(kind)
    if words:
        cells = pc.utf8_trim_whitespace(cells)
    elif not (pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_null(kind)):
        raise InputError(f"{shown(path)}: column {name!r} is {kind}; numbers are needed")
    try:
        numbers: NDArray[np.float64] = cells.cast(pa.float64(), safe=False).to_numpy()
    except pa.ArrowInvalid:
        row = next(i for i, cell in enumerate(cells.to_pylist()) if not _is_number(cell))
        where = place(path, row if rows is None else int(rows[row]))
        raise InputError(f"{where}: {cells[row].as_py()!r} in column {name!r} is not a number") from None
    return numbers


def _is_number(cell: str | None) -> bool:
    try:
        float(cell or "nan")
    except ValueError:
        return False
    return True
