"""numbers: a column of a table as floats, by its name."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from attributary.cli.column import column
from attributary.tables.floats import floats


def numbers(table: Any, name: str, path: str) -> NDArray[np.float64]:
    """A column as numbers, nan where a cell is empty; an InputError tells what is wrong with it, or what there is."""
    column(table, name, path)
    return floats(table, name, path)
