"""The types of arrays, one entry per node, row or key, and of tables; the name of the measure that is always there."""

from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]
Values: TypeAlias = NDArray[Any]  # of any type
Keys = NDArray[np.uint64]  # (n, 2): the high and the low half of each 128-bit key

if TYPE_CHECKING:
    import pyarrow as pa

    Arrow: TypeAlias = pa.Table
    Cells: TypeAlias = pa.ChunkedArray  # or pa.Array
else:  # Arrow is imported where it is used
    Arrow = Cells = object

Frame: TypeAlias = Any  # of Arrow, pandas, polars or DuckDB, or a dictionary of columns

COUNT = "count"  # the measure that counts conversions, and that of tables which name none
