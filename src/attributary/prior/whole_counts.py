"""whole_counts: the posterior over whole counts, with a prior learned from these figures and an earlier period."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from attributary import rmsre
from attributary.denoising.estimate import Estimate
from attributary.denoising.posterior import FamilyPrior, KnownFamilies, Posterior, marginals, whole_figures
from attributary.denoising.prior import Prior
from attributary.denoising.whole import whole as round_off
from attributary.prior.concentration import bases, learn_weights
from attributary.prior.earlier import as_period
from attributary.prior.gain import worse
from attributary.prior.learn import expected_shares, labels_of, past_counts
from attributary.tables.not_private import together


def posterior_estimate(
    topdown: Estimate,
    earlier: Prior | None = None,
    *,
    tau: float = rmsre.TAU,
    whole: bool = False,
    stage: Callable[[str], None] = lambda _: None,
    families: FamilyPrior | KnownFamilies | None = None,
) -> Posterior:
    """The posterior means of whole counts, or non-negative estimates (`topdown`) where those seem to be closer.

    Families are expected to share as other nodes of the same label do and, with an `earlier` period, as they did; how
    closely is learned from today's figures. Errors count relative to the count, but no less than `tau`. `stage` is told
    what comes next. What was learned from other roots, or is known (`families`), takes the place of what would be
    learned here.
    """
    tree, measured = topdown.tree, topdown.measurements
    order, back = tree.to_level_order, tree.from_level_order
    period = as_period(tree, earlier)
    if earlier is not None:
        measured = replace(measured, not_private=together(measured.not_private, earlier.not_private))
        topdown = replace(topdown, measurements=measured)
    if measured.noisy.ndim > 1 or measured.families:
        raise ValueError("the posterior is of one column of figures with independent noise; give one at a time")
    figures = whole_figures(tree, measured)
    x, var, plain = figures.x, order(measured.variance), (figures.blue, figures.wide)
    if families is None:
        share, _, _ = expected_shares(tree, x, var, figures.blue, labels_of(tree, earlier), None, tau)
        past = None if period is None else past_counts(tree, period).settled
        stage("learning how families share")
        weights = learn_weights(tree, figures, bases(tree, share, past))
    else:
        weights = families.weights(tree)
    told = marginals(tree, figures, weights, done=lambda part: stage(f"weighing whole counts, {part:.0%} of the nodes"))
    shown = np.isfinite(told.mean)
    checked = (tree, x, var, plain, told.mean, told.variance, tau, figures.linear)
    if worse(*checked) if families is None else not families.shown:
        shown[:] = False
    count = np.where(shown, told.mean, order(np.asarray(topdown.count, np.float64)))
    variance = np.where(shown, told.variance, figures.wide)
    made = round_off(tree, count, floor=0) if whole else count
    known = Prior(back(count)) if earlier is None else earlier
    return Posterior(
        tree, measured, back(made), back(variance), back(count), True, known, topdown, back(shown), told, figures,
        weights,
    )  # fmt: skip
