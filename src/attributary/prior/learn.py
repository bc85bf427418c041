"""learn: shares and their spread, from today's figures and an earlier period; `foreseen`: from the latter alone."""

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from attributary import rmsre
from attributary.denoising.denoise import measurements
from attributary.denoising.nonnegative import nonnegative, settled
from attributary.denoising.passes import COMPILED_FROM, engine
from attributary.denoising.prior import Prior, predict
from attributary.kernel import kernel
from attributary.measurements import Measurements
from attributary.prior.earlier import as_period
from attributary.prior.gain import Today, widened
from attributary.tree import Family, Tree
from attributary.types import Floats

ROUNDS = 2


class PriorCounts(NamedTuple):
    """A prior's counts in level order."""

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
    before = None if period is None else prior_counts(tree, period)
    share, wide, mean = learned(Today.of(tree, x, var), labels_of(tree, earlier), before, tau)
    back = tree.from_level_order
    known = period or earlier or Prior(back(mean))
    of = {name: getattr(known, name) for name in ("new", "gone", "lost", "example", "not_private")}
    return Prior(back(mean), protected=True, share=back(share), spread=back(wide), **of)


def learned(
    today: Today, label: NDArray[np.int32], before: PriorCounts | None, tau: float
) -> tuple[Floats, Floats, Floats]:
    """Share, spread and the resulting counts, all in level order; the spread is as wide as today's figures require."""
    share, wide, estimate = expected_shares(today, label, before, tau)
    trusted = widened(today, share, wide, tau)
    if (trusted != wide).any():
        estimate = predict(today.tree, today.x, today.var, share, trusted, "top-down")[2]
    return share, trusted, estimate


def expected_shares(
    today: Today, label: NDArray[np.int32], before: PriorCounts | None, tau: float
) -> tuple[Floats, Floats, Floats]:
    """Shares, spread and counts as in `learned`, without a check that the prior helps."""
    tree, x, var, linear, _ = today
    z, v = engine(tree).upward(tree, x, var)
    first = nonnegative(tree, x, var, linear, "top-down")
    levels, root, estimate = kin(tree, label), roots(tree), first
    share, wide, mean = np.ones(len(tree)), np.full(len(tree), np.inf), z.copy()
    for _ in range(ROUNDS):
        pools = [linear] if before is None else [linear, linear + before.linear]
        counted = _counted(tree, estimate)
        for i, near in enumerate(levels, 1):
            nodes = tree.slice(i)
            parent, siblings = estimate[tree.family[nodes]], near.family.spread(near.family.count.astype(np.float64))
            alone = siblings == 1
            judge = (v[nodes] < np.inf) & ~alone
            size = 1.0 / rmsre.weights(parent / siblings, tau)
            weight = np.where(judge, 1.0 / (size + np.where(judge, v[nodes], 0.0)), 0.0)
            own = None if before is None else before.settled[nodes]
            counts = [pool[nodes] for pool in pools]
            many = len(tree) >= COMPILED_FROM
            level = PooledLevel(near, z[nodes], parent, counts, counted[root[nodes]], own, weight, many)
            share[nodes] = pooled(level)
            mean[nodes] = share[nodes] * parent
            weight = np.where(judge, rmsre.weights(first[nodes], tau), 0.0)
            wide[nodes] = np.where(alone, np.inf, spread(mean[nodes], share[nodes], z[nodes], v[nodes], weight))
        wide *= doubt(root, mean, wide, z, v, len(tree))[root]
        wide = forgiving(wide, mean, z, v)
        linear, _, estimate = predict(tree, x, var, share, wide, "top-down")
    return share, wide, estimate


DOUBTED_FROM = 2.0  # standard errors by which figures must be off before a root is doubted


def doubt(group: NDArray[np.integer], expected: Floats, variance: Floats, z: Floats, v: Floats, groups: int) -> Floats:
    """For each group, the factor (1 or more) on the variance of the expected counts that explains the figures.

    Each (z − expected)² should be about variance + v. The excess over v, summed over the group, is compared with the
    stated variance. Only what exceeds the standard error of that sum counts, so that one node that jumped does not
    discredit its whole root. Nodes without an expected count or a figure (variance or v = ∞) are not used.
    """
    judge = (variance < np.inf) & (v < np.inf) & (variance + v > 0)
    m, q, noise, g = expected[judge], variance[judge], v[judge], group[judge]
    weight = 1.0 / (q + noise) ** 2
    surplus = weight * ((z[judge] - m) ** 2 - noise)
    excess, squares, claimed = (np.bincount(g, values, groups) for values in (surplus, surplus**2, weight * q))
    sure = excess - DOUBTED_FROM * np.sqrt(squares)
    return np.where(sure > claimed, sure / np.where(claimed > 0, claimed, 1.0), 1.0)


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


def prior_counts(tree: Tree, earlier: Prior) -> PriorCounts:
    """The counts of an earlier period, as they were estimated and made non-negative."""
    times = np.ones(len(tree)) if earlier.periods is None else tree.to_level_order(earlier.periods)
    mean: Floats = times * tree.to_level_order(earlier.mean)
    if not mean.min(initial=0.0) < 0:
        return PriorCounts(mean, mean)
    variance = np.ones(len(tree)) if earlier.variance is None else times**2 * tree.to_level_order(earlier.variance)
    return PriorCounts(mean, settled(tree, mean.copy(), variance, mean, None))


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
    share, wide, count = learned(Today.of(tree, x, var), label, None, tau)
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


# The variance of counts around their expected values, learned from many nodes at once.

BINS = 24
EACH = 100  # nodes at least that a bin takes
FEWEST = 20  # nodes from which anything is learned at all
CAUTION = 0.5  # standard errors that are added: too little trust costs less than too much
LEAST = 0.01  # nothing is ever quite certain
JUMP = 4.0  # degrees of freedom: how soon a node that is far off is left to its own figures
STEPS = 6  # enough for a node that jumped to be let go


def spread(expected: Floats, share: Floats, z: Floats, v: Floats, weight: Floats, at: Floats | None = None) -> Floats:
    """The variance of each node's count around its expected value: the binomial part, and what exceeds it.

    A count varies at least as if each conversion of the parent went to the node with probability `share`. The excess is
    learned as a function of the expected count, by moments: the weighted mean of (z − expected)² − v − binomial
    variance in bins, made non-decreasing, and interpolated between bins by a power law. Below the bins it is
    proportional to the expected count, above them to its square. Without any figures (weight 0 everywhere) it is the
    square; with too few, the variance is inf, so that nothing is expected. With `at`, the variance is given for these
    expected counts instead.
    """
    drawn: Floats = expected * (1.0 - share)
    later = expected if at is None else at
    draw = later * (1.0 - share)
    use = (weight > 0) & (expected > 1e-6)
    if use.sum() < FEWEST:
        return np.full(len(expected), np.inf) if (weight > 0).any() else np.maximum(draw + later**2, LEAST)
    m, w = expected[use], weight[use]
    bins = min(BINS, max(1, len(m) // EACH))  # with about the same number of nodes; equal values are in one bin
    ends = np.cumsum([len(part) for part in np.array_split(np.empty(len(m)), bins)])[:-1]
    edges = np.unique(np.partition(m, ends)[ends]) if len(ends) else np.empty(0)
    surplus, place = w * ((z[use] - m) ** 2 - v[use] - drawn[use]), np.searchsorted(edges, m, "right")
    each = (np.ones(len(w)), np.log(m), w, surplus, surplus**2)
    sums = np.stack([np.bincount(place, values, len(edges) + 1) for values in each])
    number, logs, mass, surplus, squares = sums[:, sums[0] > 0]
    centre, mean, error = logs / number, surplus / mass, np.sqrt(squares) / mass
    level = rising(mean + CAUTION * error, 1 / np.maximum(error, 1e-9) ** 2)
    level = np.log(np.maximum(level, 1e-3 * np.exp(centre)))
    logs = np.log(np.maximum(later, 1e-6))
    beyond = np.interp(logs, centre, level)
    beyond += np.minimum(logs - centre[0], 0.0) + 2 * np.maximum(logs - centre[-1], 0.0)
    variance: Floats = np.maximum(draw + np.exp(beyond), LEAST)
    return variance


def forgiving(spread: Floats, expected: Floats, z: Floats, v: Floats) -> Floats:
    """The spread, larger for nodes whose figures are far from the expected count, so that they keep their figures.

    As if deviations had Student's t distribution: the factor is (JUMP + d² / spread) / (JUMP + 1), where d² is the
    squared deviation of the count, given the figure and the factor so far (expectation maximisation). Where noise alone
    explains the deviation, the factor is close to 1. It is never below 1.
    """
    known = (v < np.inf) & (spread < np.inf) & (spread > 0)
    q, noise = np.where(known, spread, 1.0), np.where(known, v, 1.0)
    off, growth = np.where(known, (z - expected) ** 2, 0.0), np.ones(len(spread))
    for _ in range(STEPS):
        k = growth * q / (growth * q + noise)
        growth = np.maximum((JUMP + (k * k * off + k * noise) / q) / (JUMP + 1), 1.0)
    return np.where(known, spread * growth, spread)


def rising(values: Floats, weight: Floats) -> Floats:
    """The nearest non-decreasing values (pool adjacent violators)."""
    blocks: list[tuple[float, float, int]] = []
    for value, mass in zip(values.tolist(), weight.tolist(), strict=True):
        block = (value, mass, 1)
        while blocks and blocks[-1][0] > block[0]:
            v, m, n = blocks.pop()
            both = m + block[1]
            block = ((v * m + block[0] * block[1]) / both, both, n + block[2])
        blocks.append(block)
    return np.repeat([value for value, _, _ in blocks], [n for _, _, n in blocks])


Codes = NDArray[np.int64]


# Which nodes of a level are alike, and the shares that they predict. Nodes of one level are alike if they have the same
# label; those of them under one root are called cousins.
#
# The shares of a family (`pooled`) are a chain of four guesses, each a correction of the one before: equal shares;
# times the ratio of actual to expected counts of nodes with this label; times the same ratio among cousins; mixed with
# the family's own shares in the earlier period. A node's own figures are never part of the pool that predicts it, since
# they would count twice. Pools are sums of unbiased estimates, which may be negative: non-negative ones would give
# empty nodes too large shares, and make all shares too equal. The weight of each correction, a number of conversions,
# is the one that predicts today's figures best. It may be none at all (∞), so an earlier period without information is
# not used.

DENSE = 4  # numbers for each node, up to which groups without members cost less than sorting them out


class Kin(NamedTuple):
    """The families under the parents of a level, and the groups that their members belong to."""

    family: Family
    label: Codes  # of each child: nodes with the same label
    cousins: Codes  # and under the same root


def label_codes(tree: Tree) -> NDArray[np.int32]:
    """A number for the label of each node, in level order, equal for equal labels of a level; 0 without labels."""
    codes = np.zeros(len(tree), np.int32)
    for j, labels in enumerate(tree.labels):
        if j + tree.total < tree.depth:
            codes[tree.slice(j + tree.total)] = labels.indices.to_numpy()
    return codes


def roots(tree: Tree) -> Codes:
    """The root that each node stands under, in level order; under a total, a node below it."""
    level = int(tree.total)
    return tree.in_level_order.ancestor(level).astype(np.int64) + int(tree.offsets[level])


def kin(tree: Tree, label: NDArray[np.int32]) -> list[Kin]:
    """The kin of each level below the roots; `label` in level order."""
    root, levels = roots(tree), []
    for i in range(1, tree.depth):
        nodes = tree.slice(i)
        codes = label[nodes].astype(np.int64)
        pairs = root[nodes] * (int(codes.max()) + 1) + codes
        few = int(pairs.max()) < DENSE * len(pairs)
        levels.append(Kin(Family(tree, i - 1), codes, pairs if few else np.unique(pairs, return_inverse=True)[1]))
    return levels


TRUST = (1.0, 3.0, 10.0, 30.0, 100.0, 300.0, 1e3, 1e4)  # conversions' worth of the guess before; beyond the last: ∞
UNTESTED = 100.0  # where no figure of today can tell


class PooledLevel(NamedTuple):
    """The children of a level with all that their shares are predicted from, in level order."""

    kin: Kin
    z: Floats  # z⇑: from the node and all below it
    parent: Floats  # the parent's estimate, handed to each child
    pools: list[Floats]  # linear estimates: of today, and of both periods
    counted: Floats  # how much of each counts where no root may outweigh the others
    earlier: Floats | None  # the prior's counts, ≥ 0
    weight: Floats  # of each node in the judgement; 0 where it cannot judge
    many: bool = False  # nodes in the tree, so that sums are compiled


def pooled(level: PooledLevel) -> Floats:
    """The shares that predict the level's figures best."""
    family = level.kin.family
    even: Floats = 1.0 / family.spread(family.count.astype(np.float64))
    guesses = [_chain(level, even, pool, None) for pool in level.pools]
    best = min(range(len(guesses)), key=lambda i: guesses[i].loss)
    alike = _chain(level, even, level.pools[best], level.counted)
    return min(guesses[best], alike, key=lambda guess: guess.loss).share


class _Guess(NamedTuple):
    share: Floats
    loss: float


class _Step(NamedTuple):
    """A correction of the guess before: (have + trust · before) / (of + trust), made to sum to 1 in each family."""

    have: Floats
    before: Floats
    of: Floats

    def shares(self, family: Family, trust: float) -> Floats:
        return _summing_to_1(family, (self.have + trust * self.before) / (self.of + trust))


def _chain(level: PooledLevel, even: Floats, pool: Floats, counted: Floats | None) -> _Guess:
    """The guesses from equal shares to those of the past; `counted` limits the weight of large roots in a pool."""
    family = level.kin.family
    total = family.spread(np.maximum(family.sum(pool), 0.0))
    guess = _Guess(even, _loss(level, even))
    for group in (level.kin.label, level.kin.cousins):
        part = 1.0 if counted is None or group is level.kin.cousins else counted
        sums = (part * pool, part * guess.share * total)  # those of the other members of a group: actual and expected
        have, of = (np.maximum(np.bincount(group, values)[group] - values, 0.0) for values in sums)
        guess = _best(level, guess, _Step(guess.share * have, guess.share, of))
    if level.earlier is None:
        return guess
    return _best(level, guess, _Step(level.earlier, guess.share, family.spread(family.sum(level.earlier))))


def _best(level: PooledLevel, before: _Guess, step: _Step) -> _Guess:
    """The correction with the weight that predicts best, or the guess before it."""
    family = level.kin.family
    if not level.weight.any():
        return _Guess(step.shares(family, UNTESTED), before.loss)
    losses = _losses(level, step)
    best = int(np.argmin(losses))
    return _Guess(step.shares(family, TRUST[best]), float(losses[best])) if losses[best] < before.loss else before


def _losses(level: PooledLevel, step: _Step) -> Floats:
    """The loss of a correction for each weight; of many nodes in one sweep, without NumPy's temporary arrays."""
    if not level.many:
        return np.array([_loss(level, step.shares(level.kin.family, trust)) for trust in TRUST])
    first = np.append(level.kin.family.start, len(level.z))
    return _compiled_losses()(first, level.z, level.parent, level.weight, *step, np.array(TRUST))


def _loss(level: PooledLevel, share: Floats) -> float:
    return float(np.dot(level.weight, (level.z - share * level.parent) ** 2))


def _summing_to_1(family: Family, share: Floats) -> Floats:
    sums = family.sum(share)
    out: Floats = share / family.spread(np.where(sums > 0, sums, 1.0))
    return np.where(family.spread(sums) > 0, out, 1.0 / family.spread(family.count.astype(np.float64)))


@cache
def _compiled_losses() -> Callable[..., Floats]:
    return kernel(nogil=True, fastmath={"reassoc"})(losses)


def losses(first, z, parent, weight, have, before, of, trust):  # type: ignore[no-untyped-def]
    """For each trust t, Σ weight·(z − share·parent)² with shares (have + t·before) / (of + t), made to sum to 1."""
    share, out = np.empty(len(z)), np.zeros(len(trust))
    for f in range(len(first) - 1):
        a, b = np.uint64(first[f]), np.uint64(first[f + 1])
        for k in range(len(trust)):
            t, total, loss = trust[k], 0.0, 0.0
            for i in range(a, b):
                share[i] = (have[i] + t * before[i]) / (of[i] + t)
                total += share[i]
            if total > 0.0:
                scale = parent[a] / total
                for i in range(a, b):
                    off = z[i] - share[i] * scale
                    loss += weight[i] * off * off
            else:
                even = parent[a] / (b - a)
                for i in range(a, b):
                    off = z[i] - even
                    loss += weight[i] * off * off
            out[k] += loss
    return out
