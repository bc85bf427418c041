"""gain: how much a prior lowers the error of each level, estimated from today's figures; widened where it does not.

For any estimates f beside the unbiased y of variance V₀, E(f − count)² = E(f − y)² − V₀ + 2·cov(f, y), whatever the
truth and however wrong the prior (Stein). Here f are non-negative counts (top-down), with the prior and without it:
being non-negative already helps empty nodes as much as a prior would. Their covariance with y has no formula: it is
estimated by moving the figures at random (a probe) and observing how far f moves with y. Where an estimate is above 0,
only the difference from the linear estimate is estimated so, as the covariance of the linear one is known.
"""

from typing import NamedTuple

import numpy as np

from attributary import rmsre
from attributary.denoising.nonnegative import nonnegative
from attributary.denoising.passes import engine
from attributary.denoising.prior import predict
from attributary.tree import Tree
from attributary.types import Floats

DOUBTS = np.array([1.0, 3.0, 10.0, 100.0, np.inf])  # how much wider; at last, nothing is expected
SURE = 0.5  # standard errors by which the tree must gain over no prior: trust must be earned
FEW = 15.0  # nodes: where so few decide, twice as many standard errors
SPARED = 0.08  # of a level's squared error: what it may lose
SPARED_LEVEL = 0.2  # the same for a posterior: 10 % of the error itself
SPARED_TREE = 0.2  # and of all levels together: the estimate is for normal noise, and off by that much for other
SMALL = 6.0  # nodes of a level: with more, it must be seen to lose more than that; with fewer, not to lose it
LEAST = 0.1  # of its variance: a level's squared error is no less
PROBES, ENOUGH = 4, 10_000  # probes; one is enough for so many nodes
STEP = 0.7  # standard deviations by which a probe moves figures
SHORT = 0.05  # the same for a posterior: long ones, of all figures at once, make top-down estimates look too good


class _Probe(NamedTuple):
    x: Floats  # figures, moved
    y: Floats  # how far that moves the unbiased estimates, for a whole standard deviation
    plain: Floats  # and the non-negative ones


class Today(NamedTuple):
    """Today's figures, and the unbiased counts that they give, in level order."""

    tree: Tree
    x: Floats
    var: Floats
    blue: Floats
    wide: Floats  # its variance

    @classmethod
    def of(cls, tree: Tree, x: Floats, var: Floats) -> "Today":
        """Figures with the counts that they give."""
        return cls(tree, x, var, *engine(tree).blue(tree, x, var))


class _Judge(NamedTuple):
    """The estimates without a prior, which others are compared with."""

    today: Today
    first: Floats  # made non-negative
    variance: Floats  # of the unbiased counts; 0 where it is not known, which no prior makes worse
    weight: Floats  # of each node's squared error; levels count alike
    covariance: Floats  # of `first` and the unbiased counts
    probes: list[_Probe]


def widened(today: Today, share: Floats, wide: Floats, tau: float) -> Floats:
    """The spread, widened until the tree's error is lower and no level's much higher; inf: the prior is not used.

    A level that seems to lose gets a wider spread, and so do its children, which influence it; if the gain of the tree
    is not significant, all levels do. Errors are relative to the count, or to `tau` if that is larger. Arrays are in
    level order.
    """
    tree = today.tree
    judge = _judge(today, tau, PROBES if len(tree) < ENOUGH else 1)
    starts, level = tree.offsets[:-1], tree.in_level_order.level
    squared = judge.weight * ((judge.first - today.blue) ** 2 - judge.variance + 2 * judge.covariance)
    least = LEAST * np.add.reduceat(judge.weight * judge.variance, starts)
    error, step, last = np.maximum(np.add.reduceat(squared, starts), least), np.zeros(tree.depth, int), len(DOUBTS) - 1
    losing = 1 - SMALL / np.diff(tree.offsets)  # standard errors
    while (step[1:] < last).any():
        factor = DOUBTS[step][level]
        spread: Floats = np.where(factor < np.inf, wide, np.inf) * factor
        gain = _gain(judge, share, spread)
        sums, squares = (np.add.reduceat(values, starts) for values in (gain, gain**2))
        lost = sums + losing * np.sqrt(squares) < -SPARED * error
        if not _sure(gain):
            lost[:] = True
        if not lost.any():
            return spread
        wider = lost | np.append(False, lost[:-1])
        wider[0] = False
        step += wider & (step < last) if (step[wider] < last).any() else step < last
    return np.full(len(tree), np.inf)


def worse(today: Today, count: Floats, variance: Floats, tau: float, linear: Floats) -> bool:
    """True if posterior means with these variances seem worse than non-negative estimates; nan does not count.

    Given the figures, a posterior mean moves along with y as its variance says: cov(f, y) is the variance of the count
    itself, if the prior is right. Worse means that the tree is seen to lose more than SPARED_TREE (by a standard
    error), or a level more than SPARED_LEVEL (by two); where few nodes decide, that the tree is not seen to gain.
    Weights go by the posterior means, which follow noise less.
    Where the log-likelihood of noise n falls by `linear`·|n| = |n| / b, E[n·g(n)] = E[(b·|n| + b²)·g′(n)], and probes
    move such figures accordingly: with E[n²] for b·|n| + b², large noise would seem to count less than it does.
    """
    tree, x, var, y, _ = today
    first = np.where(np.isfinite(count), 0.5 * (count + nonnegative(tree, x, var, y, "top-down")), x)
    some, level = (linear > 0) & (var < np.inf), tree.in_level_order.level
    scale = 1 / np.where(some, linear, 1.0)
    times = np.where(some, scale * np.abs(x - first) + scale**2, 0.0) / np.where(some, var, 1.0)
    mean = np.bincount(level, times) / np.maximum(np.bincount(level, some), 1)  # residuals are smaller than noise
    moves = np.where(some, np.where(some, var, 0.0) * times / np.where(mean > 0, mean, 1.0)[level], var)
    judge, sizes = _judge(today, tau, PROBES, SHORT, moves), np.diff(tree.offsets)
    known = np.isfinite(count) & (judge.weight > 0)
    count, variance = np.where(known, count, 0.0), np.where(known, variance, 0.0)
    weight = np.where(known, rmsre.weights(count, tau), 0.0) / np.repeat(sizes, sizes)
    before = (judge.first - y) ** 2 + 2 * judge.covariance
    gain = weight * (before - (count - y) ** 2 - 2 * variance)
    error, least = weight * (before - judge.variance), LEAST * weight * judge.variance
    starts = tree.offsets[:-1]
    sums, squares, errors, floor = (np.add.reduceat(each, starts) for each in (gain, gain**2, error, least))
    lost = sums + 2 * np.sqrt(squares) < -SPARED_LEVEL * np.maximum(errors, floor)
    if _number(gain) < FEW and not _sure(gain):
        return True
    return bool(gain.sum() + np.sqrt(squares.sum()) < -SPARED_TREE * max(errors.sum(), floor.sum()) or lost.any())


def _sure(gain: Floats) -> bool:
    """True if the summed gain is significantly above 0; the test is stricter if few nodes contribute."""
    squares = float(np.dot(gain, gain))
    if squares == 0:
        return True  # nothing is expected, or it changes nothing
    return bool(gain.sum() > SURE * (1 + FEW / _number(gain)) * np.sqrt(squares))


def _number(gain: Floats) -> float:
    """How many nodes decide, as if they contributed alike; endless where none contributes."""
    squares = float(np.dot(gain, gain))
    return float(np.abs(gain).sum()) ** 2 / squares if squares > 0 else np.inf


def _judge(today: Today, tau: float, number: int, step: float = STEP, moves: Floats | None = None) -> _Judge:
    tree, x, var, y, claimed = today
    first, sizes, known = nonnegative(tree, x, var, y, "top-down"), np.diff(tree.offsets), claimed < np.inf
    weight = np.where(known, rmsre.weights(first, tau), 0.0) / np.repeat(sizes, sizes)
    variance = np.where(known, claimed, 0.0)
    deviation = np.sqrt(np.where(var < np.inf, var if moves is None else moves, 0.0))
    signs, probes = np.random.default_rng(0), []  # always the same: what is learned depends on the figures alone
    for _ in range(number):
        moved = deviation * signs.choice([-1.0, 1.0], len(tree))
        there = x + step * moved
        along = engine(tree).blue(tree, moved, var)[0]
        again = nonnegative(tree, there, var, y + step * along, "top-down")
        probes.append(_Probe(there, along, (again - first) / step))
    straight = variance
    if moves is not None:  # of a figure's own noise, whose weight in y is claimed / var
        some = known & (var > 0) & (var < np.inf)
        noise = np.where(some, var, 1.0)
        straight = variance + np.where(some, (variance / noise) ** 2 * (np.where(some, moves, 1.0) - noise), 0.0)
    covariance = _covariance(first, straight, [p.plain for p in probes], [p.y for p in probes], probes)
    return _Judge(today, first, variance, weight, covariance, probes)


def _gain(judge: _Judge, share: Floats, wide: Floats) -> Floats:
    """The weighted reduction of each node's squared error by the prior."""
    tree, x, var, y, _ = judge.today
    linear, claimed, count = predict(tree, x, var, share, wide, "top-down")
    moved, straight = [], []
    for probe in judge.probes:
        there, _, again = predict(tree, probe.x, var, share, wide, "top-down")
        moved.append((again - count) / STEP)
        straight.append((there - linear) / STEP)
    known = np.where(judge.weight > 0, claimed, 0.0)
    covariance = _covariance(count, known, moved, straight, judge.probes)
    before, after = (judge.first - y) ** 2, (count - y) ** 2
    return judge.weight * (before - after + 2 * (judge.covariance - covariance))


def _covariance(
    count: Floats, linear: Floats, moved: list[Floats], straight: list[Floats], probes: list[_Probe]
) -> Floats:
    """The covariance of counts and y: known for the linear part, by probes for the rest and for counts that are 0."""
    covariance = np.zeros(len(count))
    for by, by_linear, probe in zip(moved, straight, probes, strict=True):
        covariance += np.where(count > 0, by - by_linear, by) * probe.y
    return np.where(count > 0, linear, 0.0) + covariance / len(probes)
