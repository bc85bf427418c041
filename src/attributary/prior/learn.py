"""learn: shares and their spread, from today's figures and an earlier period; `foreseen`: from the latter alone."""

from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from attributary import rmsre
from attributary.denoising.denoise import measurements
from attributary.denoising.family_shares import predict
from attributary.denoising.nonnegative import nonnegative
from attributary.denoising.passes import COMPILED_FROM, engine
from attributary.denoising.prior import Prior
from attributary.denoising.topdown import settled
from attributary.measurements import Measurements
from attributary.prior.earlier import as_period
from attributary.prior.gain import widened
from attributary.prior.kin import PooledLevel, kin, label_codes, pooled, roots
from attributary.prior.spread import forgiving, spread
from attributary.tree import Tree
from attributary.types import Floats

ROUNDS = 2


class PastCounts(NamedTuple):
    """The earlier period's counts in level order."""

    linear: Floats  # as they were estimated, without bias; some may be negative
    settled: Floats  # made non-negative, as estimates are


def learn(
    tree: Tree,
    noisy: ArrayLike | Measurements,
    variance: ArrayLike | None = None,
    earlier: Prior | None = None,
    *,
    tau: float = rmsre.TAU,
) -> Prior:
    """The share of its parent's count that each node is expected to have, and the variance around it (spread).

    Learned from other nodes with the same label and, with an `earlier` period, from the family's own past. The spread
    is measured on today's figures, so that an earlier period without information has no weight. Errors are relative to
    the count, or to `tau` if that is larger. Roots and only children have no expected share.
    """
    if not 0 < tau < np.inf:
        raise ValueError(f"tau is a positive number; got {tau}")
    given = measurements(tree, noisy, variance)
    x, var = tree.to_level_order(given.noisy), tree.to_level_order(given.variance)
    period = as_period(tree, earlier)
    past = None if period is None else past_counts(tree, period)
    share, wide, mean = learned(tree, x, var, labels_of(tree, earlier), past, tau)
    back = tree.from_level_order
    known = period or earlier or Prior(back(mean))
    return replace(
        Prior(back(mean), None, True, known.new, known.gone, known.lost, known.example, not_private=known.not_private),
        share=back(share),
        spread=back(wide),
    )


def learned(
    tree: Tree, x: Floats, var: Floats, label: NDArray[np.int32], past: PastCounts | None, tau: float
) -> tuple[Floats, Floats, Floats]:
    """Share, spread and the resulting counts, all in level order; the spread is as wide as today's figures require."""
    plain: tuple[Floats, Floats] = engine(tree).blue(tree, x, var)
    share, wide, estimate = expected_shares(tree, x, var, plain[0], label, past, tau)
    trusted = widened(tree, x, var, plain, share, wide, tau)
    if (trusted != wide).any():
        estimate = predict(tree, x, var, share, trusted, "top-down")[2]
    return share, trusted, estimate


def expected_shares(
    tree: Tree, x: Floats, var: Floats, linear: Floats, label: NDArray[np.int32], past: PastCounts | None, tau: float
) -> tuple[Floats, Floats, Floats]:
    """The same without a check of what is gained; `linear` are the unbiased counts."""
    z, v = engine(tree).upward(tree, x, var)
    first = nonnegative(tree, x, var, linear, "top-down")
    many = len(tree) >= COMPILED_FROM
    levels, root, estimate = kin(tree, label), roots(tree), first
    share, wide, mean = np.ones(len(tree)), np.full(len(tree), np.inf), z.copy()
    for _ in range(ROUNDS):
        pools = [linear] if past is None else [linear, linear + past.linear]
        counted = _counted(tree, estimate)
        for i, near in enumerate(levels, 1):
            nodes = tree.slice(i)
            parent, siblings = estimate[tree.family[nodes]], near.family.spread(near.family.count.astype(np.float64))
            alone = siblings == 1
            judge = (v[nodes] < np.inf) & ~alone
            size = 1.0 / rmsre.weights(parent / siblings, tau)
            weight = np.where(judge, 1.0 / (size + np.where(judge, v[nodes], 0.0)), 0.0)
            then = None if past is None else past.settled[nodes]
            counts = [pool[nodes] for pool in pools]
            share[nodes] = pooled(PooledLevel(near, z[nodes], parent, counts, counted[root[nodes]], then, weight, many))
            mean[nodes] = share[nodes] * parent
            weight = np.where(judge, rmsre.weights(first[nodes], tau), 0.0)
            learned_spread = spread(mean[nodes], share[nodes], z[nodes], v[nodes], weight, many=many)
            wide[nodes] = np.where(alone, np.inf, learned_spread)
        wide *= doubt(root, mean, wide, z, v, len(tree))[root]
        wide = forgiving(wide, mean, z, v, many)
        linear, _, estimate = predict(tree, x, var, share, wide, "top-down")
    return share, wide, estimate


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


def _counted(tree: Tree, estimate: Floats) -> Floats:
    """The weight of each root in a pool of all roots: none counts more than the median root."""
    heads = tree.slice(int(tree.total))
    most = max(float(np.median(estimate[heads])), 1.0)
    part = np.ones(len(tree))
    part[heads] = most / np.maximum(estimate[heads], most)
    return part


def labels_of(tree: Tree, earlier: Prior | None) -> NDArray[np.int32]:
    """A number for the label of each node, in level order: the tree's, or the prior's if it has some."""
    return label_codes(tree) if earlier is None or earlier.label is None else tree.to_level_order(earlier.label)


def past_counts(tree: Tree, earlier: Prior) -> PastCounts:
    """The counts of an earlier period, as they were estimated and made non-negative."""
    times = np.ones(len(tree)) if earlier.periods is None else tree.to_level_order(earlier.periods)
    mean: Floats = times * tree.to_level_order(earlier.mean)
    if not mean.min(initial=0.0) < 0:
        return PastCounts(mean, mean)
    variance = np.ones(len(tree)) if earlier.variance is None else times**2 * tree.to_level_order(earlier.variance)
    return PastCounts(mean, settled(tree, mean.copy(), variance, mean, None))


EXACT = 1e-9  # the variance of an earlier count that has no noise, next to none


def foreseen(tree: Tree, earlier: Prior, *, tau: float = rmsre.TAU) -> Prior:
    """The shares and spreads that `learn` is expected to find in the next period; for planning.

    Learned from the earlier leaves alone. The spread is that of a count one standard deviation above the earlier
    estimate, since a node that looks empty may not be; it is inf for new nodes and for roots.
    """
    if not 0 < tau < np.inf:
        raise ValueError(f"tau is a positive number; got {tau}")
    if (period := as_period(tree, replace(earlier, share=None))) is None or period.new is None:
        raise ValueError("nothing is foreseen without an earlier period; give one, or plan without it")
    earlier, order, leaf = period, tree.to_level_order, tree.in_level_order.is_leaf
    x = order(earlier.mean)
    var = np.full(len(tree), EXACT) if earlier.variance is None else np.maximum(order(earlier.variance), EXACT)
    var = np.where(leaf, var, np.inf)
    label = labels_of(tree, earlier)
    share, wide, count = learned(tree, x, var, label, None, tau)
    z, v = engine(tree).upward(tree, x, var)
    known = np.minimum(predict(tree, x, var, share, wide)[1], v)
    more = count + np.sqrt(np.where(known < np.inf, known, 0.0))
    later_spread = np.full(len(tree), np.inf)
    for i, near in enumerate(kin(tree, label), 1):
        nodes, family = tree.slice(i), near.family
        parent = tree.family[nodes]
        alone = family.spread(family.count.astype(np.float64)) == 1
        weight = np.where((v[nodes] < np.inf) & ~alone, rmsre.weights(count[nodes], tau), 0.0)
        s = share[nodes]
        later = np.maximum(s * more[parent], more[nodes])
        later_spread[nodes] = np.where(alone, np.inf, spread(s * count[parent], s, z[nodes], v[nodes], weight, later))
    later_spread[order(period.new)] = np.inf
    back = tree.from_level_order
    return replace(earlier, share=back(share), spread=back(later_spread))
