"""exact: the errors of a linear method in closed form, from variances alone."""

import numpy as np

from attributary.evaluate.measure import Errors, Measure, with_tree
from attributary.types import Floats


def exact(measure: Measure, variance: Floats, bias: Floats | float = 0.0) -> Errors:
    """The errors of estimates with these variances, in level order; unbiased but for what limits cut off."""
    squared = (variance + np.square(bias)) * measure.relative**2
    rmsre: Floats = np.sqrt(with_tree(measure.levels(squared)))
    return Errors(rmsre, np.full(len(rmsre), np.nan), measure.below(squared))
