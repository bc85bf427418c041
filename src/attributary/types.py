"""The types of arrays: one entry per node, row or key."""

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]
Keys = NDArray[np.uint64]  # (n, 2): the high and the low half of each 128-bit key
