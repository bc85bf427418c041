"""denoise: noisy figures of any tree in, the best consistent figures out."""

from types import ModuleType
from typing import Literal

from numpy.typing import ArrayLike

from attributary.denoising import linear
from attributary.denoising.estimate import Estimate
from attributary.measurements import Measurements, Shape
from attributary.tree import Tree

COMPILED_FROM = 100_000  # nodes; below, NumPy is done before numba is imported
DEEP = 1_000  # levels; a long chain costs NumPy a call per level


def denoise(
    tree: Tree,
    noisy: ArrayLike | Measurements,
    variance: ArrayLike | None = None,
    *,
    nonnegative: Literal["top-down", "joint"] | bool | None = None,
    whole: bool = False,
    shape: Shape = "laplace",
) -> Estimate:
    """The counts that add up and have the least variance of all linear unbiased estimates (Algorithm 2).

    argmin over consistent s of Σ (noisy_v − s_v)² / variance_v, in time linear in the nodes. A variance of inf means
    not measured, 0 known exactly. `nonnegative` gives up unbiasedness for counts that are never negative: "top-down"
    (or True) keeps the roots and settles family after family, "joint" minimises the same sum over s ≥ 0. `whole`
    rounds so that sums still hold. `shape` is the noise's: "laplace", "dlap" (on whole counts) or "normal".
    """
    given = _measurements(tree, noisy, variance, shape)
    method = _method(nonnegative)
    x, var = tree.to_level_order(given.noisy), tree.to_level_order(given.variance)
    count, blue_variance = engine(tree).blue(tree, x, var)
    blue = count
    if method:
        from attributary.denoising.nonnegative import nonnegative as settle

        count = settle(tree, x, var, blue, method)
    if whole:
        from attributary.denoising.whole import whole as round_off

        count = round_off(tree, count, floor=0 if method else None)
    back = tree.from_level_order
    plain = back(blue)
    return Estimate(
        tree, given, plain if count is blue else back(count), back(blue_variance), plain, method is not None
    )


def engine(tree: Tree) -> ModuleType:
    """The passes that suit the tree: NumPy for small ones, compiled for millions of nodes."""
    if len(tree) < COMPILED_FROM and tree.depth < DEEP:
        return linear
    from attributary.denoising import compiled

    return compiled


def _measurements(
    tree: Tree, noisy: ArrayLike | Measurements, variance: ArrayLike | None, shape: Shape
) -> Measurements:
    if isinstance(noisy, Measurements):
        if variance is not None:
            raise ValueError("measurements hold their variances; give either measurements or noisy and variance")
        return Measurements.of(tree, noisy.noisy, noisy.variance, noisy.shape)
    if variance is None:
        raise ValueError("denoising needs the noise's variance; give one number, or one for each node")
    return Measurements.of(tree, noisy, variance, shape)


def _method(nonnegative: str | bool | None) -> str | None:
    if nonnegative is None or nonnegative is False:
        return None
    if nonnegative is True:
        return "top-down"
    if nonnegative not in ("top-down", "joint"):
        raise ValueError(f'nonnegative is "top-down" or "joint"; got {nonnegative!r}')
    return nonnegative
