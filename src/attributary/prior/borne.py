"""borne: how much wider a prior of means must be to serve today's figures best.

Let y be an estimate without the prior and p with it, of variances V₀ and V, as claimed. By Stein's lemma, the squared
error of p is V₀ + (p − y)² − 2·(V₀ − V) on average, whatever the truth and however wrong the prior. What is never
negative, max(p, 0), has the error (max(p, 0) − y)² − V₀, and 2·V more where p > 0: without a prior, too, an empty node
is better off than V₀ tells, and the prior is judged by what it adds to that.
"""

from collections.abc import Callable

import numpy as np

from attributary.tree import Tree
from attributary.types import Floats

Predicted = Callable[[float], tuple[Floats, Floats]]  # how much wider → estimates with the prior, what it claims

DOUBTS = (1.0, 3.0, 10.0, 30.0, 100.0, 1e3, 1e4)  # beyond the last: nothing is expected
SURE = 1.0  # standard errors by which the tree must gain over no prior: trust must be earned
SPARED = 0.5  # standard errors by which a level may seem to lose


def borne(
    tree: Tree,
    blue: Floats,
    variance: Floats,
    first: Floats,
    tau: float,
    predicted: Predicted,
) -> float:
    """The factor by which a prior must be wider; inf where the figures bear none. Arrays are in level order.

    The first of all factors whose next does no better. Errors count relative to the count, of which `first` is a guess,
    but no less than `tau`, and levels alike. No level may be worse off, either: means of leaves that err together do
    most harm above them.
    """
    sizes = np.diff(tree.offsets)
    known = variance < np.inf  # of the others it lowers the error, whatever it says
    weight = np.where(known, 1.0, 0.0) / np.maximum(first, tau) ** 2 / np.repeat(sizes, sizes)
    before = _risk(blue, blue, np.where(known, variance, 0.0))
    best, most = np.inf, np.zeros(len(tree))
    for doubt in DOUBTS:
        found, claimed = predicted(doubt)
        gain = weight * (before - _risk(blue, found, np.where(known, claimed, 0.0)))
        if not gain.any():
            return doubt
        levels, squares = (np.add.reduceat(values, tree.offsets[:-1]) for values in (gain, gain**2))
        fine = (levels >= -SPARED * np.sqrt(squares)).all()
        more = gain - most
        if fine and more.sum() > SURE * np.sqrt(np.dot(more, more)):
            best, most = doubt, gain
        elif best < np.inf:
            break
    return best


def _risk(blue: Floats, found: Floats, variance: Floats) -> Floats:
    """The squared error of max(found, 0), up to what does not depend on it."""
    risk: Floats = (np.maximum(found, 0.0) - blue) ** 2 + np.where(found > 0, 2 * variance, 0.0)
    return risk
