"""names: labels for codes, plainly generated ones."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

MISSING = "missing"


def names(what: str, count: int, code: NDArray[np.integer], missing: bool = True) -> Any:
    """An Arrow column of labels such as `country 07`; the code after the last stands for missing."""
    import pyarrow as pa

    width = len(str(count))
    labels = [f"{what} {number:0{width}}" for number in range(1, count + 1)] + [MISSING] * missing
    return pa.DictionaryArray.from_arrays(pa.array(code.astype(np.int16)), pa.array(labels))


def numbers(count: int, code: NDArray[np.integer]) -> Any:
    """An Arrow column of labels that are numbers from 1, as text."""
    import pyarrow as pa

    labels = [str(number) for number in range(1, count + 1)]
    return pa.DictionaryArray.from_arrays(pa.array(code.astype(np.int16)), pa.array(labels))
