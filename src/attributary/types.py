"""The types of arrays: one entry per node, row or key; and the name of the measure that is always there."""

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]
Keys = NDArray[np.uint64]  # (n, 2): the high and the low half of each 128-bit key

COUNT = "count"  # the measure that counts conversions, and that of tables which name none
