"""posterior: how probable each whole count is given all noisy figures of a forest, and an `Estimate` made of that."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from attributary.denoising.estimate import Estimate, Interval, Prediction, weights_of
from attributary.denoising.nonnegative import nonnegative
from attributary.denoising.passes import engine
from attributary.denoising.total import Total
from attributary.denoising.whole import whole
from attributary.errors import InputError
from attributary.kernel import usable_threads
from attributary.measurements import Measurements
from attributary.tree import Tree
from attributary.types import Floats, Ints

if TYPE_CHECKING:
    from attributary.denoising.whole_posterior import Weights, WholeFigures, WholeMarginals

USUAL = 0.95  # the level of the intervals that are made with the estimates
REACH = 9.0  # standard deviations of the unbiased estimate: the counts considered of each node
ROUNDING = 1e-6  # of a count that is known exactly
TOGETHER = 0.3  # measured on generated data: with it, intervals of inner nodes cover at their rate, as in `Prediction`
SURE = 1.0  # variance of a root up to which its interval is the posterior's: few whole numbers are left
PARTS = 8  # of the roots, for each thread


@dataclass(frozen=True, eq=False, repr=False)
class Posterior(Prediction):
    """Posterior means of whole counts: closer on average than any unbiased estimate, and not unbiased.

    `count` adds up; `variance` is the posterior's, `interval` has its quantiles, which are whole numbers, and `zero` is
    the probability that nothing was counted. Where today's figures say that non-negative estimates are closer
    (`topdown`, as `denoise(…, nonnegative=True)` gives them), and under roots with too much noise, those are shown.
    """

    topdown: Any = None  # Estimate
    shown: Any = None  # of each node: whether its figures are the posterior's
    told: Any = None  # WholeMarginals, in level order, with intervals of level USUAL
    figures: Any = None  # WholeFigures
    weights: Any = None  # Weights

    @property
    def plain(self) -> Estimate:
        topdown: Estimate = self.topdown
        return replace(topdown, count=topdown.blue, nonnegative=False)

    @property
    def zero(self) -> Floats:
        """The probability that a node's count is 0; nan where it is not known."""
        return np.where(self.shown, self.tree.from_level_order(self.told.zero), np.nan)

    def interval(self, level: float = USUAL) -> Interval:
        """Where the true count lies with at least this probability, in whole numbers; it holds the estimate.

        The count is below with half of what is left at most, and above with the rest. What a prior has wrong adds up in
        sums: intervals of inner nodes are a little wider than the posterior's, and those of roots go by the unbiased
        count, as those of totals do, unless only a few whole numbers are left.
        """
        below, above = self.topdown.interval(level)
        marginal = self.told if level == USUAL else marginals(self.tree, self.figures, self.weights, level)
        low, high = (self.tree.from_level_order(values) for values in (marginal.low, marginal.high))
        wider = np.sqrt(1 + np.where(self.tree.is_leaf, 0.0, TOGETHER * self.from_prior))
        low, high = (np.rint(self.blue + wider * (end - self.blue)) for end in (low, high))
        plain = (self.tree.level == 0) & (self.variance > SURE)
        low, high = np.where(plain, np.ceil(below), low), np.where(plain, np.floor(above), high)
        low, high = np.minimum(low, np.floor(self.count + ROUNDING)), np.maximum(high, np.ceil(self.count - ROUNDING))
        low, high = np.where(self.shown, np.maximum(low, 0), below), np.where(self.shown, high, above)
        return Interval(np.minimum(low, self.count), np.maximum(high, self.count))

    def total(self, nodes_or_weights: ArrayLike) -> Total:
        """A sum of counts with its posterior mean and variance: of these nodes, or weighted.

        Its interval goes by the unbiased sum: what a prior has wrong it has wrong for many nodes alike, so that it adds
        up. `std` is that of the posterior.
        """
        weights, tree = weights_of(len(self.tree), nodes_or_weights), self.tree
        rest = self.topdown.total(np.where(self.shown, 0.0, weights))
        mine = tree.to_level_order(np.where(self.shown, weights, 0.0))
        _, each = moments(tree, self.figures, self.weights, mine, np.nan_to_num(self.told.mean))
        variance = float(np.where(tree.to_level_order(self.shown)[: len(each)], each, 0.0).sum())
        return self._shown(replace(self.plain.total(weights), variance=variance + rest.variance), weights)

    @property
    def remark(self) -> str:
        roots = self.tree.roots
        number, of = int(self.shown[roots].sum()), len(roots)
        if number == of:
            return "posterior means of whole counts"
        if number == 0:
            return "non-negative estimates, not posterior means: they seem to be closer, judging by these figures"
        return f"posterior means for {number:,} of {of:,} roots, and non-negative estimates where noise is too large"


class KnownFamilies(NamedTuple):
    """How families share where it is known: α of each node, in the tree's order."""

    alpha: Floats
    free: float  # the logarithm of the roots' tilt
    shown: bool = True

    def weights(self, tree: Tree) -> "Weights":
        return family_weights(tree, tree.to_level_order(self.alpha), self.free)


class FamilyPrior(NamedTuple):
    """How families share by the labels of their members, learned from some roots, for others with the same levels.

    For forests in parts: a node is expected to have the share that nodes with its label had on average, or an equal one
    if its label is new.
    """

    total: Floats  # of each level, Σα of a family; at first, of a root alone
    share: tuple[dict[str, float], ...]  # of each level, by label
    free: float  # the logarithm of the roots' tilt
    shown: bool  # whether posterior means are, or non-negative estimates, which seemed to be closer

    @classmethod
    def of(cls, est: Posterior) -> "FamilyPrior":
        """The shares and weights that the posterior means of some roots go by."""
        tree, weights, count = est.tree, est.weights, est.tree.to_level_order(est.count)
        total, shares = [float(weights.alpha[tree.slice(0)].mean())], [dict[str, float]()]
        for level in range(1, tree.depth):
            parent, (names, code) = tree.family[tree.slice(level)], _labels(tree, level)
            share, weight = weights.alpha[tree.slice(level)] / weights.total[parent], np.maximum(count[parent], 1.0)
            sums, by = (np.bincount(code, values, len(names)) for values in (weight * share, weight))
            shares.append(dict(zip(names, (sums / np.where(by > 0, by, 1.0)).tolist(), strict=True)))
            total.append(float(weights.total[np.unique(parent)].mean()))
        return cls(np.array(total), tuple(shares), weights.free, bool(est.shown.any()))

    def weights(self, tree: Tree) -> "Weights":
        alpha = np.full(len(tree), self.total[0])
        for level in range(1, tree.depth):
            here, parent, known = tree.slice(level), tree.family[tree.slice(level)], min(level, len(self.total) - 1)
            names, code = _labels(tree, level)
            usual = float(np.mean(list(self.share[known].values())))
            share = np.array([self.share[known].get(name, usual) for name in names])[code]
            alpha[here] = self.total[known] * share / np.bincount(parent, share, len(tree))[parent]
        return family_weights(tree, alpha, self.free)


def _labels(tree: Tree, level: int) -> tuple[list[str], Ints]:
    """The labels of a level, and which of them each node has; all the same in trees without labels."""
    if not tree.labels or level < tree.total:
        return [""], np.zeros(tree.slice(level).stop - tree.slice(level).start, np.int64)
    labels = tree.labels[level - tree.total]
    return [str(name) for name in labels.dictionary.to_pylist()], labels.indices.to_numpy()


def whole_figures(tree: Tree, measured: Measurements, reach: float = REACH) -> "WholeFigures":
    """The figures of a forest, and the window of whole counts considered of each node.

    `reach` standard deviations around the best linear unbiased estimate, and around the non-negative one, cut at 0
    and at what the parent may have. Of what is not measured, anything up to that.
    """
    from attributary.denoising.whole_posterior import WholeFigures

    measured = measured.independent
    var = tree.to_level_order(measured.variance)
    x = np.where(var < np.inf, tree.to_level_order(measured.noisy), 0.0)
    bad = (var == 0) & (np.abs(x - np.rint(x)) > ROUNDING)
    if bad.any():
        place = int(np.argmax(bad))
        raise InputError(
            f"the posterior is of whole counts; {tree.name_at(place)} is exactly {x[place]:.17g} (variance 0)"
        )
    linear, square = (tree.to_level_order(values) for values in _log_likelihood(measured))
    z, v = engine(tree).upward(tree, x, var)
    blue, wide = engine(tree).blue(tree, x, var)
    near = nonnegative(tree, x, var, blue, "top-down")
    settled = whole(tree, near, floor=0)
    known = wide < np.inf
    far = reach * np.sqrt(np.where(known, wide, 0.0)) - ROUNDING
    low = np.where(known, np.floor(np.minimum(blue, near) - far), 0.0)
    high = np.where(known, np.ceil(np.maximum(blue, near) + far), 2.0**53)
    low, high = np.clip(low, 0, settled).astype(np.int64), np.maximum(high, settled).astype(np.int64)
    for level in range(1, tree.depth):
        here = tree.slice(level)
        high[here] = np.minimum(high[here], high[tree.family[here]])
    return WholeFigures(
        tree.first.astype(np.int64), x, linear, square, z, v, blue, wide, settled, low, high, float(reach)
    )  # fmt: skip


def _log_likelihood(measured: Measurements) -> tuple[Floats, Floats]:
    """a and b such that a figure's log-likelihood is −a·|x − c| − b·(x − c)², up to a constant; 0 for exact ones."""
    known = (measured.variance > 0) & (measured.variance < np.inf)
    std = np.sqrt(np.where(known, measured.variance, 1.0))

    def log_chance(steps: float) -> Floats:
        """Of noise of so many standard deviations."""
        some = np.where(known, measured.variance, 1.0)
        each = replace(measured, variance=some).each(lambda shape, v: shape.log_likelihood(steps * np.sqrt(v), v))
        return np.where(known, each, 0.0)

    none = log_chance(0.0)
    one, two = none - log_chance(1.0), none - log_chance(2.0)
    b = (two - 2 * one) / 2
    a = one - b
    if not np.allclose(none - log_chance(5.0), 5 * a + 25 * b, 1e-6, 1e-9):
        names = ", ".join(shape.name for shape in measured.shapes)
        raise InputError(
            f"the posterior needs noise whose log-likelihood is a·|noise| + b·noise², as laplace, dlap and normal; got "
            f"{names}: choose another estimator"
        )
    return a / std, b / std**2


def family_weights(tree: Tree, alpha: Floats, free: float) -> "Weights":
    """The prior of each family, from the α of each node in level order."""
    from attributary.denoising.whole_posterior import Weights

    roots = int(tree.first[0])
    return Weights(alpha, np.bincount(tree.family[roots:], alpha[roots:], len(tree)).astype(np.float64), float(free))


def marginals(
    tree: Tree,
    figures: "WholeFigures",
    weights: "Weights",
    level: float = 0.95,
    roots: Ints | None = None,
    done: Callable[[float], None] = lambda _: None,
) -> "WholeMarginals":
    """The posterior of each node under all roots, or under these, with intervals of this level; nan for the others.

    It is nan, too, under roots of which nothing is known, and of those whose figures leave too many counts possible.
    `done` is told the share of the roots that is done.
    """
    from attributary.denoising.whole_posterior import WholeMarginals, known, marginals_of_roots, unknown

    made, given, tail = unknown(len(tree)), known(figures, weights), (1 - level) / 2
    _by_root(tree, roots, lambda some: marginals_of_roots(given, tail, made, some), done)
    return WholeMarginals(*(made[name] for name in WholeMarginals._fields))


def moments(
    tree: Tree, figures: "WholeFigures", weights: "Weights", weight: Floats, centre: Floats
) -> tuple[Floats, Floats]:
    """The posterior mean and variance of Σ weight·(count − centre) under each root; arrays are in level order."""
    from attributary.denoising.whole_posterior import known, moments_of_roots

    mean, variance, given = np.zeros(int(tree.first[0])), np.zeros(int(tree.first[0])), known(figures, weights)
    _by_root(tree, None, lambda some: moments_of_roots(given, weight, centre, mean, variance, some))
    return mean, variance


def root_sizes(tree: Tree) -> Ints:
    """The nodes under each root."""
    return np.bincount(tree.in_level_order.root, minlength=int(tree.first[0]))


def _by_root(
    tree: Tree, roots: Ints | None, run: Callable[[Ints], None], done: Callable[[float], None] = lambda _: None
) -> None:
    """Runs run(some) over all roots, or over these, in parts of about as many nodes, on all threads."""
    every, threads = np.arange(int(tree.first[0])) if roots is None else roots, usable_threads()
    nodes = np.cumsum(root_sizes(tree)[every])
    aims = nodes[-1] * np.arange(1, PARTS * threads) / (PARTS * threads)
    cuts = np.unique(np.concatenate([[0], np.searchsorted(nodes, aims), [len(every)]])).tolist()
    with ThreadPoolExecutor(threads) as pool:
        for end, _ in zip(cuts[1:], pool.map(lambda part: run(every[part[0] : part[1]]), pairwise(cuts)), strict=True):
            done(float(nodes[end - 1] / nodes[-1]))
