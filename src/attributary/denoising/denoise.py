"""denoise: noisy figures of any tree in, the best consistent figures out."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from attributary.denoising.estimate import Estimate, ManyColumns, Prediction
from attributary.denoising.nonnegative import nonnegative as make_nonnegative
from attributary.denoising.passes import blue as best_linear
from attributary.denoising.prior import Prior, predict, shares_of, with_means
from attributary.denoising.whole import whole as round_off
from attributary.kernel import usable_threads
from attributary.measurements import Measurements
from attributary.tables.table_columns import together
from attributary.tree import Tree

if TYPE_CHECKING:
    from attributary.denoising.posterior import FamilyPrior


def denoise(
    tree: Tree | Measurements,
    noisy: ArrayLike | Measurements | None = None,
    variance: ArrayLike | None = None,
    *,
    prior: Prior | None = None,
    nonnegative: Literal["top-down", "joint"] | bool | None = None,
    posterior: "bool | FamilyPrior" = False,
    whole: bool = False,
    shape: str | None = None,
) -> Estimate:
    """The counts that add up and have the least variance of all linear unbiased estimates (Algorithm 2).

    Measurements that know their tree are enough: `denoise(Measurements.from_table(…))`.

    argmin over consistent s of Σ (noisy_v − s_v)² / variance_v, in time linear in the nodes. A variance of inf means
    not measured, 0 known exactly. `nonnegative` gives up unbiasedness for counts that are never negative: "top-down"
    (or True) keeps the roots and settles family after family, "joint" minimises the same sum over s ≥ 0. `whole`
    rounds so that sums still hold. `shape` is the noise's: "laplace" by default, "dlap" (on whole counts) or "normal";
    measurements have their own.

    Many columns of figures, `noisy` of shape (nodes, columns), are denoised at once, each by itself; their variances
    have that shape, too, or are one number per node for all columns.

    A `prior` joins as one more measurement, or as shares of the parent's count, and gives up unbiasedness for a smaller
    error: the best linear prediction. One of which nothing is known (variance and spread inf) changes nothing.

    `posterior` gives posterior means of whole counts (`Posterior`): families are expected to share as other nodes with
    the same label do and, with a `prior` of an earlier period, as they did; how closely is learned from these figures.
    The error is smallest, and the counts are not unbiased. For counts alone, not for sums of values. A `FamilyPrior`
    takes the place of what would be learned.
    """
    if isinstance(tree, Measurements):
        if tree.tree is None or noisy is not None:
            raise ValueError(
                "measurements alone are denoised if they know their tree; give denoise(tree, measurements)"
            )
        noisy, tree = tree, tree.tree
    measured = measurements(tree, noisy, variance, shape)
    method = method_of(nonnegative)
    if posterior:
        from attributary.prior.whole_counts import posterior_estimate

        if method == "joint":
            raise ValueError('posterior means are never negative; leave out nonnegative="joint"')
        families = None if posterior is True else posterior or None
        return posterior_estimate(denoise(tree, measured, nonnegative=True), prior, whole=whole, families=families)
    if prior is not None:
        _refuse_vague(prior, measured)
    if measured.noisy.ndim > 1:
        return _columns(tree, measured, method, whole)
    return _one_column(tree, measured, prior, method, whole)


def _one_column(
    tree: Tree, measured: Measurements, prior: Prior | None, method: str | None, whole: bool, figures: int = 0
) -> Estimate:
    """The estimate of one column of figures; `figures` is how many there are in all columns."""
    used = measured.independent
    shares = None if prior is None else shares_of(tree, prior)
    if prior is not None:
        measured = replace(measured, not_private=together(measured.not_private, prior.not_private))
        used = with_means(tree, measured, prior)
    x, var = tree.to_level_order(used.noisy), tree.to_level_order(used.variance)
    if shares is None:
        blue, blue_variance = best_linear(tree, x, var, figures)
        count: Any = blue if method is None else make_nonnegative(tree, x, var, blue, method)
    else:
        blue, blue_variance, count = predict(tree, x, var, *shares, method)
    if whole:
        count = round_off(tree, count, floor=0 if method else None)
    back = tree.from_level_order
    plain = back(blue)
    variance = back(blue_variance)
    for family in measured.families:
        variance[family.nodes] = family.estimated(variance[family.parent])
    made = (tree, measured, plain if count is blue else back(count), variance, plain, method is not None)
    if prior is None or (shares is None and used is measured):
        return Estimate(*made)
    return Prediction(*made, prior)


def _columns(tree: Tree, measured: Measurements, method: str | None, whole: bool) -> ManyColumns:
    """The estimates of many columns, on all cores; the figures of a column are brought side by side first."""
    by_column = replace(
        measured, noisy=np.asfortranarray(measured.noisy), variance=np.asfortranarray(measured.variance)
    )

    def column(j: int) -> Estimate:
        try:
            return _one_column(tree, by_column.column(j), None, method, whole, measured.noisy.size)
        except ValueError as error:
            raise ValueError(f"column {j}: {error}") from error

    with ThreadPoolExecutor(usable_threads()) as pool:
        return ManyColumns.of(measured, list(pool.map(column, range(measured.noisy.shape[1]))))


def measurements(
    tree: Tree, noisy: ArrayLike | Measurements | None, variance: ArrayLike | None, shape: str | None = None
) -> Measurements:
    """The measurements, from arrays or as they are."""
    if isinstance(noisy, Measurements):
        if variance is not None or shape is not None:
            raise ValueError(
                "measurements hold variance and shape; give either measurements, or noisy, variance and shape"
            )
        checked = Measurements.of(tree, noisy.noisy, noisy.variance, noisy.shape, noisy.not_private, noisy.code)
        return replace(noisy, noisy=checked.noisy, variance=checked.variance, tree=tree)
    if variance is None or noisy is None:
        raise ValueError("denoising needs the noise's variance; give one number, or one for each node")
    return Measurements.of(tree, noisy, variance, shape or "laplace")


def _refuse_vague(prior: Prior, measured: Measurements) -> None:
    if measured.noisy.ndim > 1:
        raise ValueError(
            "a prior is that of one column of figures; denoise each column with its own: "
            "denoise(tree, measurements.column(0), prior=…)"
        )
    if measured.families:
        raise ValueError("a prior goes with figures whose noise is independent; these have families: leave it out")
    if prior.variance is None and prior.share is None:
        raise ValueError(
            "a prior of counts alone does not say how far to trust it; prior.learn(tree, noisy, variance, prior) does"
        )


def method_of(nonnegative: str | bool | None) -> str | None:
    """The name of a way to make counts non-negative; None for none."""
    if nonnegative is None or nonnegative is False:
        return None
    if nonnegative is True:
        return "top-down"
    if nonnegative not in ("top-down", "joint"):
        raise ValueError(f'nonnegative is "top-down" or "joint"; got {nonnegative!r}')
    return nonnegative
