"""Changes: the estimates of several periods side by side, and what changed by more than noise and chance.

>>> attributary.compare("this/estimates.parquet", "last/estimates.parquet").table()
>>> attributary.periods("weeks").steps[-1].changed
"""

from attributary.changes.series import Series, compare, periods
from attributary.changes.what_changed import TESTS, Changes

__all__ = ["TESTS", "Changes", "Series", "compare", "periods"]
