"""The types of arrays, one entry per node, row or key, and of tables; the name of the measure that is always there."""

from typing import TYPE_CHECKING, Any, TypeAlias

Record: TypeAlias = dict[str, Any]  # an object of TOML or JSON, or a row, by the names of its values
Frame: TypeAlias = Any  # of Arrow, pandas, polars or DuckDB, or a dictionary of columns

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray

    Floats: TypeAlias = NDArray[np.float64]
    Ints: TypeAlias = NDArray[np.int64]
    Bools: TypeAlias = NDArray[np.bool_]
    Values: TypeAlias = NDArray[Any]  # of any type
    Keys: TypeAlias = NDArray[np.uint64]  # (n, 2): the high and the low half of each 128-bit key
    Arrow: TypeAlias = pa.Table
    Cells: TypeAlias = pa.ChunkedArray  # or pa.Array
else:  # NumPy and Arrow are imported where they are used: --help needs neither
    Floats = Ints = Bools = Values = Keys = Arrow = Cells = object

COUNT = "count"  # the measure that counts conversions, and that of tables which name none
