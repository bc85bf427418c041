"""users: which user a row belongs to, so that the number of users is exact.

Of a stratum's rows as many as it has users are a user's own, one for each, evenly spread; the others fall on users
drawn from a pool, small enough that some of them come three times and more.
"""

import numpy as np
from numpy.typing import NDArray

from attributary.types import Floats, Ints

# Users in the pool for each row drawn from it; those who convert again then do so 1.245 times, as published.
POOL = 2.17
MOST = 39  # conversions of the most faithful user


def user_of(row: Ints, rows: Ints, users: Ints, u: Floats, faithful: NDArray[np.bool_] | None = None) -> Ints:
    """The user, counted from 0, of each row of a stratum of so many rows and users; user 0 takes the faithful's."""
    own = row * users // rows
    again = (row + 1) * users // rows == own
    extra = rows - users
    drawn = (1 + (u * extra * POOL).astype(np.int64)) % users
    if faithful is not None:
        before = row - own  # rows of users who come again
        drawn[faithful & (before < np.minimum(MOST - 1, extra // 50))] = 0
    return np.where(again, drawn, own)
