"""robust: larger variances for a prior that today's figures contradict.

- `doubt`: the factor for each root, from the χ² of today's figures against the expected ones.
- `together`: for nodes whose errors are in the same direction. A prior with independent variances implies that errors
  cancel in sums. If a whole root has drifted, they do not, and the sums of expected counts are far from the figures of
  the nodes above.
- `widening`: the factor with which a prior of means gives the least error. Let y be an estimate without the prior and p
  with it, V₀ and V their variances. By Stein's lemma, the squared error of p is V₀ + (p − y)² − 2·(V₀ − V) on average,
  whatever the truth and however wrong the prior. The non-negative max(p, 0) has the error (max(p, 0) − y)² − V₀, plus
  2·V where p > 0. Without a prior, too, the error of an empty node is less than V₀, so the two are compared.
"""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from attributary.denoising.denoise import measurements
from attributary.denoising.nonnegative import nonnegative
from attributary.denoising.passes import COMPILED_FROM, engine
from attributary.denoising.prior import Prior, measured, shares_of
from attributary.measurements import Measurements, combine
from attributary.prior.gain import widened
from attributary.prior.kin import roots
from attributary.tree import Tree
from attributary.types import Floats

TAU = 5.0  # the count below which errors stop being relative
DOUBTED_FROM = 2.0  # standard errors by which figures must be off before a root is doubted


def doubt(group: NDArray[np.integer], expected: Floats, variance: Floats, z: Floats, v: Floats, groups: int) -> Floats:
    """For each group, the factor (1 or more) on the variance of the expected counts that explains the figures.

    Each (z − expected)² should be about variance + v. The excess over v, summed over the group, is compared with the
    stated variance. Only what exceeds the standard error of that sum counts, so that one node that jumped does not
    discredit its whole root. Nodes without an expected count or a figure (variance or v = ∞) are not used.
    """
    surplus, squares, claimed = doubt_sums(group, expected, variance, z, v, groups)
    sure = surplus - DOUBTED_FROM * np.sqrt(squares)
    factor: Floats = np.where(sure > claimed, sure / np.where(claimed > 0, claimed, 1.0), 1.0)
    return factor


def doubt_sums(
    group: NDArray[np.integer], expected: Floats, variance: Floats, z: Floats, v: Floats, groups: int
) -> Floats:
    """For each group: the weighted excess, the sum of its squares, and the weighted stated variance."""
    sums: Floats = np.zeros((3, groups))
    if len(z) >= COMPILED_FROM:
        from attributary.prior.compiled_sums import doubts

        doubts(group, expected, variance, z, v, sums)
        return sums
    judge = (variance < np.inf) & (v < np.inf) & (variance + v > 0)
    m, q, noise, g = expected[judge], variance[judge], v[judge], group[judge]
    weight = 1.0 / (q + noise) ** 2
    surplus = weight * ((z[judge] - m) ** 2 - noise)
    for i, values in enumerate((surplus, surplus**2, weight * q)):
        sums[i] = np.bincount(g, values, groups)
    return sums


def together(tree: Tree, mean: Floats, claimed: Floats, z: Floats, v: Floats) -> Floats:
    """The stated variances, increased until the sums below every node agree with its figure.

    From the bottom to the roots: for each node, (z⇑ − Σ mean)² should be about Σ claimed + var⇑. If it is more, for the
    node or on average for its level, all variances below the node grow by the square of the ratio.
    """
    grown = claimed
    for i in reversed(range(tree.depth - 1)):
        nodes = tree.slice(i)
        expected, variance = _sums_below(tree, mean, claimed, i), _sums_below(tree, None, grown, i)
        judge = (variance > 0) & (variance < np.inf) & (v[nodes] < np.inf)
        if not judge.any():
            continue
        off = np.where(judge, (z[nodes] - expected) ** 2 - v[nodes], 0.0)
        factors = np.where(judge, off / np.where(judge, variance, 1.0), 0.0)
        weight = np.where(judge, 1.0 / np.where(judge, variance + v[nodes], 1.0) ** 2, 0.0)
        mean_factor = float(np.dot(weight, off) / np.dot(weight, np.where(judge, variance, 0.0)))
        factor = np.maximum(factors, max(mean_factor, 1.0)) ** 2  # what was wrong once is doubted more than that
        grown = grown * tree.in_level_order.hand_down(factor, i, above=1.0)
    return grown


def _sums_below(tree: Tree, mean: Floats | None, claimed: Floats, level: int) -> Floats:
    """For each node of a level, the sum of means (or of stated variances) of the nodes below that have a prior."""
    some = claimed < np.inf
    values = np.where(some, claimed if mean is None else mean, 0.0)
    for j in reversed(range(level, tree.depth - 1)):
        above, below = tree.slice(j), tree.slice(j + 1)
        at = tree.family[below] - above.start
        values[above] += np.bincount(at, values[below], above.stop - above.start)
    sums: Floats = values[tree.slice(level)]
    return sums


def with_mean(tree: Tree, x: Floats, var: Floats, mean: Floats, wide: Floats) -> tuple[Floats, Floats]:
    """Estimates and their variances with one more measurement of each node, in level order."""
    both = combine(np.where(var < np.inf, x, 0.0), var, mean, wide)
    estimates: tuple[Floats, Floats] = engine(tree).blue(tree, *both)
    return estimates


Predicted = Callable[[float], tuple[Floats, Floats]]  # how much wider → estimates with the prior, what it claims

DOUBTS = (1.0, 3.0, 10.0, 30.0, 100.0, 1e3, 1e4)  # beyond the last: nothing is expected
SURE = 1.0  # standard errors by which the tree must gain over no prior: trust must be earned
SPARED = 0.5  # standard errors by which a level may seem to lose


def widening(
    tree: Tree,
    blue: Floats,
    variance: Floats,
    first: Floats,
    tau: float,
    predicted: Predicted,
) -> float:
    """The factor by which a prior must be wider; inf if it is of no use. Arrays are in level order.

    The first factor of the list after which the next is no better. Errors are relative to the count (`first` is a guess
    of it), or to `tau` if that is larger, and all levels have the same weight. No level may lose either: leaves whose
    errors have the same direction do most harm to the levels above.
    """
    sizes = np.diff(tree.offsets)
    known = variance < np.inf  # of the others it lowers the error, whatever it says
    weight = np.where(known, 1.0, 0.0) / np.maximum(first, tau) ** 2 / np.repeat(sizes, sizes)
    before = _risk(blue, blue, np.where(known, variance, 0.0))
    best, most = np.inf, np.zeros(len(tree))
    for doubt in DOUBTS:
        estimate, claimed = predicted(doubt)
        gain = weight * (before - _risk(blue, estimate, np.where(known, claimed, 0.0)))
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


def _risk(blue: Floats, estimate: Floats, variance: Floats) -> Floats:
    """The squared error of max(estimate, 0), up to a constant."""
    risk: Floats = (np.maximum(estimate, 0.0) - blue) ** 2 + np.where(estimate > 0, 2 * variance, 0.0)
    return risk


def doubted(tree: Tree, noisy: ArrayLike | Measurements, variance: ArrayLike | None, prior: Prior) -> Prior:
    """The same prior with larger variances and spreads where today's figures contradict it, by their χ².

    First level by level, then root by root: a prior may be wrong about one root and right about the rest.
    """
    given = measurements(tree, noisy, variance)
    order, back = tree.to_level_order, tree.from_level_order
    x, var = order(given.noisy), order(given.variance)
    z, v = engine(tree).upward(tree, x, var)
    plain: tuple[Floats, Floats] = engine(tree).blue(tree, x, var)
    first = nonnegative(tree, x, var, plain[0], "top-down")
    expected, shares = measured(tree, prior), shares_of(tree, prior)
    if expected is not None:
        mean, claimed = (order(values) for values in expected)
        grown = _grown(tree, mean, claimed, z, v)
        for _ in range(2):  # the second time finds what the first has left
            grown = together(tree, mean, grown, z, v)
        grown *= widening(tree, *plain, first, TAU, lambda doubt: with_mean(tree, x, var, mean, grown * doubt))
        prior = replace(prior, variance=back(grown))
    if shares is not None:
        share, spread = shares
        parent = np.where(tree.family >= 0, first[tree.family], np.inf)
        claimed = np.where(tree.family >= 0, spread, np.inf)
        mean = np.where(claimed < np.inf, share * np.where(parent < np.inf, parent, 0.0), 0.0)
        wide = _grown(tree, mean, claimed, z, v)
        wide = widened(tree, x, var, plain, share, wide, TAU)
        prior = replace(prior, spread=back(wide))
    return prior


def _grown(tree: Tree, mean: Floats, claimed: Floats, z: Floats, v: Floats) -> Floats:
    for group in (tree.in_level_order.level, roots(tree)):
        claimed = claimed * doubt(group, mean, claimed, z, v, len(tree))[group]
    return claimed
