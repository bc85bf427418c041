"""posterior: the whole counts that are possible, and how probable each is given all noisy figures of a forest."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from attributary.denoising.nonnegative import nonnegative
from attributary.denoising.passes import engine
from attributary.denoising.whole import whole
from attributary.errors import InputError
from attributary.kernel import usable_threads
from attributary.measurements import Measurements
from attributary.noise import NoiseShape
from attributary.tree import Tree
from attributary.types import Floats

if TYPE_CHECKING:
    from attributary.denoising.whole_posterior import Weights, WholeFigures, WholeMarginals

REACH = 9.0  # standard deviations of the unbiased estimate: the counts considered of each node
ROUNDING = 1e-6  # of a count that is known exactly
PARTS = 8  # of the roots, for each thread


def whole_figures(tree: Tree, measured: Measurements, reach: float = REACH) -> "WholeFigures":
    """The figures of a forest, and the window of whole counts considered of each node.

    `reach` standard deviations around the best linear unbiased estimate, and around the non-negative one, cut at 0
    and at what the parent may have. Of what is not measured, anything up to that.
    """
    from attributary.denoising.whole_posterior import WholeFigures

    measured = measured.independent
    var = tree.to_level_order(measured.variance)
    x = np.where(var < np.inf, tree.to_level_order(measured.noisy), 0.0)
    _refuse_fractions(tree, x, var)
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

    def fall(steps: float) -> Floats:
        """How much less likely noise of so many standard deviations is than none."""

        def of_shape(shape: NoiseShape, variance: Floats) -> Floats:
            some = np.where((variance > 0) & (variance < np.inf), variance, 1.0)
            return shape.log_likelihood(np.zeros_like(some), some) - shape.log_likelihood(steps * np.sqrt(some), some)

        return np.where(known, measured.each(of_shape), 0.0)

    one, two = fall(1.0), fall(2.0)
    b = (two - 2 * one) / 2
    a = one - b
    if not np.allclose(fall(5.0), 5 * a + 25 * b, 1e-6, 1e-9):
        names = ", ".join(shape.name for shape in measured.shapes)
        raise InputError(
            f"the posterior needs noise whose log-likelihood is a·|noise| + b·noise², as laplace, dlap and normal; got "
            f"{names}: choose another estimator"
        )
    return a / std, b / std**2


def _refuse_fractions(tree: Tree, x: Floats, var: Floats) -> None:
    bad = (var == 0) & (np.abs(x - np.rint(x)) > ROUNDING)
    if bad.any():
        place = int(np.argmax(bad))
        name = tree.name(place if tree.order is None else int(tree.order[place]))
        raise InputError(f"the posterior is of whole counts; {name} is exactly {x[place]:.17g} (variance 0)")


def family_weights(tree: Tree, alpha: Floats, free: float) -> "Weights":
    """The prior of each family, from the α of each node in level order."""
    from attributary.denoising.whole_posterior import Weights

    roots = int(tree.first[0])
    return Weights(alpha, np.bincount(tree.family[roots:], alpha[roots:], len(tree)).astype(np.float64), float(free))


def marginals(tree: Tree, figures: "WholeFigures", weights: "Weights", level: float = 0.95) -> "WholeMarginals":
    """The posterior of each node, with intervals of this level; nan under roots of which nothing is known."""
    from attributary.denoising.whole_posterior import WholeMarginals, marginals_of_roots

    told = WholeMarginals(*(np.full(len(tree), np.nan) for _ in WholeMarginals._fields))
    tail = (1 - level) / 2
    _by_root(tree, lambda begin, end: marginals_of_roots(figures, weights, tail, told, begin, end))
    return told


def moments(
    tree: Tree, figures: "WholeFigures", weights: "Weights", weight: Floats, centre: Floats
) -> tuple[Floats, Floats]:
    """The posterior mean and variance of Σ weight·(count − centre) under each root; arrays are in level order."""
    from attributary.denoising.whole_posterior import moments_of_roots

    mean, variance = np.zeros(int(tree.first[0])), np.zeros(int(tree.first[0]))
    _by_root(tree, lambda begin, end: moments_of_roots(figures, weights, weight, centre, mean, variance, begin, end))
    return mean, variance


def _by_root(tree: Tree, run: Callable[[int, int], None]) -> None:
    """Runs run(begin, end) over all roots, in parts of about as many nodes, on all threads."""
    roots, threads = int(tree.first[0]), usable_threads()
    nodes = np.cumsum(np.bincount(tree.in_level_order.root, minlength=roots))
    aims = len(tree) * np.arange(1, PARTS * threads) / (PARTS * threads)
    cuts = np.unique(np.concatenate([[0], np.searchsorted(nodes, aims), [roots]])).tolist()
    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(lambda part: run(*part), pairwise(cuts)))
