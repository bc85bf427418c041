"""cut: Algorithm 2 on a forest in pieces: the parts below a cut, and the tree above it.

Each part hands up z⇑ and var⇑ of its nodes at the cut. To the tree above, they are measurements of its leaves. Once
that is solved, the parts finish downwards from x̂ and v̂ar at the cut. Nothing else has to pass the cut, since a subtree
depends on the rest of the tree only through the count of its root; non-negative counts, whole numbers and the shape of
the noise are passed on in the same way.
"""

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from attributary.denoising import quantile
from attributary.denoising.estimate import Estimate
from attributary.denoising.nonnegative import least, topdown
from attributary.denoising.passes import engine
from attributary.denoising.quantile import Outside
from attributary.denoising.whole import whole as round_off
from attributary.measurements import Measurements
from attributary.tree import Family, Tree
from attributary.types import Floats


class Handed(NamedTuple):
    """What a part knows of each of its roots, in level order."""

    z: Floats  # z⇑
    variance: Floats  # var⇑
    excess: Floats  # kurtosis of z⇑
    least: Floats  # count that the exact figures leave possible


class Settled(NamedTuple):
    """What the tree above a cut knows of the nodes there."""

    blue: Floats
    variance: Floats
    real: Floats  # blue, or non-negative
    whole: Floats  # real, or whole
    around: Floats  # var↓
    excess: Floats  # kurtosis of z↓


@dataclass(frozen=True, eq=False, repr=False)
class Piece(Estimate):
    """An estimate of a tree that was cut, where the shape of the noise depends on what is beyond the cut."""

    excess: Floats = field(default_factory=lambda: np.empty(0))

    @property
    def _excess(self) -> Floats:
        return np.maximum(self.excess, 0.0)


def hand_up(tree: Tree, measured: Measurements, nonnegative: bool) -> Handed:
    """What the tree above a cut needs to know about the roots below it; invalid figures are refused."""
    x, var, of_noise = (tree.to_level_order(a) for a in (measured.noisy, measured.variance, measured.excess()))
    z, v = engine(tree).upward(tree, x, var)
    e_up = quantile.upward(tree, var, of_noise, v)
    bound = least(tree, x, var) if nonnegative else None
    roots = tree.slice(0)
    return Handed(z[roots], v[roots], e_up[roots], np.zeros(roots.stop) if bound is None else bound[roots])


def solve(
    tree: Tree,
    measured: Measurements,
    nonnegative: bool,
    whole: bool,
    *,
    above: Settled | None = None,
    of_noise: Floats | None = None,
    leaves: Floats | None = None,
) -> tuple[Estimate, Settled]:
    """The estimate of a piece ("top-down", if it is to be non-negative), and what is settled, in the tree's order.

    `above` is what is settled of the roots, in level order. Where leaves stand for the parts below them, `of_noise` is
    the excess kurtosis of each figure and `leaves` the least count of each leaf, in the tree's order.
    """
    passes, roots, back = engine(tree), tree.slice(0), tree.from_level_order
    of_noise = measured.excess() if of_noise is None else of_noise
    x, var, of_noise = (tree.to_level_order(a) for a in (measured.noisy, measured.variance, of_noise))
    blue, variance = passes.upward(tree, x, var)
    if leaves is not None:
        _add_unmeasured(tree, x, blue, variance)
    beyond = None if above is None else Outside(above.around, above.excess)
    e_up = quantile.upward(tree, var, of_noise, variance)
    excess, outside = quantile.downward(tree, var, of_noise, variance, e_up, beyond)
    if above is not None:
        blue[roots], variance[roots] = above.blue, above.variance
    passes.downward(tree, blue, variance)

    real: Floats = blue
    if nonnegative:
        bound = least(tree, x, var, 0.0 if leaves is None else tree.to_level_order(leaves))
        real = topdown(tree, x, var, blue if above is None else _with(above.real, blue), bound)
    rounded: Any = real
    if whole:
        start = real if above is None else _with(above.whole, real)
        rounded = round_off(tree, start, floor=0 if nonnegative else None)
    plain = back(blue)
    count = plain if rounded is blue else back(rounded)
    settled = Settled(*(back(a) for a in (blue, variance, real, rounded, *outside)))
    return Piece(tree, measured, count, settled.variance, plain, nonnegative, back(excess)), settled


def _add_unmeasured(tree: Tree, x: Floats, z: Floats, v: Floats) -> None:
    """Adds to z⇑ what leaves with var⇑ = ∞ know all the same: the sum of the figures measured below them."""
    more = np.where((v == np.inf) & tree.in_level_order.is_leaf, np.nan_to_num(x), 0.0)
    for level in reversed(range(tree.depth - 1)):
        family = Family(tree, level)
        if family.size:
            more[family.parent] = np.where(v[family.parent] == np.inf, family.sum(more[family.children]), 0.0)
    z += more


def _with(roots: Floats, values: Floats) -> Floats:
    return np.concatenate([roots, values[len(roots) :]])
