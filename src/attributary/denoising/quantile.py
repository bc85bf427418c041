"""quantile: the half-width of an interval in standard deviations, for noise between normal and Laplace, or heavier.

An estimate is a weighted sum of independent Laplace figures. Its distribution is approximated by the symmetric
variance-gamma distribution of the same variance and kurtosis, which is exact for one Laplace figure (excess kurtosis
3), for equally weighted sums of n of them (3/n), and in the normal limit (0).
"""

from functools import lru_cache
from math import erfc, exp, lgamma, log, sqrt
from typing import NamedTuple

import numpy as np

from attributary.denoising.passes import engine
from attributary.measurements import Measurements, combine
from attributary.tree import Family, Tree
from attributary.types import Floats

KNOTS = tuple(3 * (i / 48) ** 1.5 for i in range(49)) + tuple(3 * 10 ** (i / 32) for i in range(1, 129))


def quantile(level: float, excess: Floats, freedom: Floats | float = np.inf) -> Floats:
    """For each excess kurtosis, the q with P(|X| ≤ q standard deviations) = level.

    Where the variance is itself an estimate with so many degrees of freedom, as many standard deviations as estimated:
    X / √(χ²/freedom), of which the variance and the kurtosis are known, is taken to be of the same laws.
    """
    share = 1 / np.asarray(freedom)
    excess = (3 + excess) * (1 - 2 * share) / (1 - 4 * share) - 3
    if not 0 < level < 1:
        raise ValueError(f"the level of an interval is between 0 and 1; got {level}")
    ends = np.searchsorted(KNOTS, [np.min(excess, initial=np.inf), np.max(excess, initial=0.0)])
    first, last = max(int(ends.min()) - 1, 0), min(int(ends[1]) + 1, len(KNOTS))
    return np.interp(excess, KNOTS[first:last], [_knot(level, i) for i in range(first, last)]) / np.sqrt(1 - 2 * share)


def level_of(reach: float, excess: float) -> float:
    """The probability within so many standard deviations; the inverse of `quantile`."""
    if not excess > 0:
        return 1 - erfc(reach / sqrt(2))
    return 1 - _tail(reach, 3 / excess)


@lru_cache(maxsize=4096)
def _knot(level: float, i: int) -> float:
    """The x with P(|X| ≤ x) = level at a knot, by bisection in log x; 0 where next to nothing lies outside any x."""
    from statistics import NormalDist

    if i == 0:
        return NormalDist().inv_cdf(0.5 + level / 2)
    low, high, outside, n = -20.0, 4.0, 1 - level, 3 / KNOTS[i]
    if _tail(exp(low), n) < outside:
        return 0.0
    for _ in range(36):
        middle = (low + high) / 2
        low, high = (middle, high) if _tail(exp(middle), n) > outside else (low, middle)
    return exp((low + high) / 2)


def _tail(x: float, n: float) -> float:
    """P(|X| > x) for X = √G·Z with Z standard normal and G ~ Gamma(n) of mean 1, by the trapezoid rule in log G."""
    left = max(log(x * x / 90), -12 / sqrt(n) - 40 / n)
    right = min(log(1 + 40 / n + 12 / sqrt(n)), 12 / sqrt(n) + 6)
    steps = 64
    h = (right - left) / steps
    norm = n * log(n) - lgamma(n)
    total = 0.0
    for i in range(steps + 1):
        s = left + i * h
        total += exp(n * s - n * exp(s) + norm) * erfc(x * exp(-s / 2) / sqrt(2))
    return total * h if h > 0 else 0.0


# excess_kurtosis: the shape of every estimate's noise, from the fourth cumulants of what went into it.
#
# Each of the paper's z is a weighted sum of *independent* figures, so that cumulants add with the weights' fourth
# power, in the same two passes: up for K⇑, down for K↓ and K⇓. Here all of them are relative to the square of the
# variance.


class Outside(NamedTuple):
    """What all but a node and those below it say of the node: var↓, and the excess of z↓."""

    variance: Floats
    excess: Floats


def excess_kurtosis(tree: Tree, measured: Measurements, variance: Floats) -> Floats:
    """The excess kurtosis of each estimate, in the tree's order; `variance` is that of the estimates."""
    noise = measured.excess()
    if not noise.any():
        return noise
    measured = measured.independent
    var, of_noise, blue = (tree.to_level_order(a) for a in (measured.variance, noise, variance))
    _, up = engine(tree).upward(tree, tree.to_level_order(measured.noisy), var)
    excess, _ = downward(tree, var, of_noise, up, upward(tree, var, of_noise, up))
    excess[~(blue < np.inf)] = 0.0
    return np.maximum(tree.from_level_order(excess), 0.0)


def upward(tree: Tree, var: Floats, of_noise: Floats, up: Floats) -> Floats:
    """The excess of z⇑, in level order; `of_noise` is that of the figures, `var` their variance and `up` is var⇑."""
    e_up = of_noise.copy()
    for family in tree.families(upwards=True):
        c, p = family.children, family.parent
        below = family.sum(up[c])
        finite = np.where((below > 0) & (below < np.inf), below, np.inf)
        share = np.where(up[c] < np.inf, up[c], 0.0) / family.spread(
            finite
        )  # of the sum's variance: squared, its weight
        e_up[p] = _mix(var[p], of_noise[p], below, family.sum(e_up[c] * share**2))
    return e_up


def downward(
    tree: Tree, var: Floats, of_noise: Floats, up: Floats, e_up: Floats, roots: Outside | None = None
) -> tuple[Floats, Outside]:
    """The excess of x̂, and what there is outside of each node, in level order; nothing is outside of the roots."""
    around, e_around = np.full(len(tree), np.inf), np.zeros(len(tree))
    if roots is not None:
        around[tree.slice(0)], e_around[tree.slice(0)] = roots
    most = max(of_noise.max(), e_around.max())
    excess, down, e_down = e_up.copy(), var.copy(), of_noise.copy()  # of x̂; var⇓ and excess of z⇓
    for level in range(tree.depth):
        nodes = tree.slice(level)
        if level:
            around[nodes], e_around[nodes] = _around(Family(tree, level - 1), up, e_up, down, e_down, most)
        outside = around[nodes], e_around[nodes]
        excess[nodes] = _mix(up[nodes], e_up[nodes], *outside)
        if level == tree.depth - 1:
            break
        e_down[nodes] = _mix(var[nodes], of_noise[nodes], *outside)
        _, down[nodes] = combine(np.zeros(1), var[nodes], np.zeros(1), around[nodes])
    return excess, Outside(around, e_around)


def _around(
    family: Family, up: Floats, e_up: Floats, down: Floats, e_down: Floats, most: float
) -> tuple[Floats, Floats]:
    """var↓ and the excess of z↓ of the children: their parent's z⇓ without their siblings' z⇑."""
    c, p = family.children, family.parent
    missing = up[c] == np.inf
    known, holes = up[c], np.zeros(1)
    if missing.any():
        known, holes = np.where(missing, 0.0, known), family.spread(family.sum(missing.astype(np.float64))) - missing
    all_known = family.spread(family.sum(known))
    others = np.maximum(all_known - known, 0.0)
    around = np.where(holes > 0, np.inf, family.spread(down[p]) + others)
    finite = np.where((around > 0) & (around < np.inf), around, 1.0)
    fourth = e_up[c] * (known / np.where(all_known > 0, all_known, 1.0)) ** 2  # of shares: variances' squares overflow
    others_fourth = np.maximum(family.spread(family.sum(fourth)) - fourth, 0.0)
    with np.errstate(over="ignore", invalid="ignore"):
        given = family.spread(e_down[p]) * (family.spread(np.where(down[p] < np.inf, down[p], 0.0)) / finite) ** 2
        excess = np.fmin(given + others_fourth * (all_known / finite) ** 2, most)
    return around, np.where(around < np.inf, excess, 0.0)


def _mix(var_x: Floats, x: Floats, var_y: Floats, y: Floats) -> Floats:
    """The excess after CombineEstimates: the share of the variance that each contributes is the other's share of it."""
    with np.errstate(invalid="ignore"):
        both = var_x + var_y
        share = var_y / both  # of x in the combined variance
    share = np.where(var_x == np.inf, 0.0, np.where(var_y == np.inf, 1.0, np.where(both > 0, share, 0.0)))
    return x * share**2 + y * (1 - share) ** 2
