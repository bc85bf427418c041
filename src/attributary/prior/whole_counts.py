"""whole_counts: the posterior over whole counts, with a prior learned from these figures and an earlier period."""

from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from attributary import rmsre
from attributary.denoising.estimate import Estimate
from attributary.denoising.posterior import (
    FamilyPrior,
    KnownFamilies,
    Posterior,
    family_weights,
    marginals,
    root_sizes,
    whole_figures,
)
from attributary.denoising.prior import Prior
from attributary.denoising.whole import whole as round_off
from attributary.kernel import is_kept
from attributary.prior.earlier import as_period
from attributary.prior.gain import Today, worse
from attributary.prior.learn import expected_shares, labels_of, prior_counts
from attributary.tables.table_columns import together
from attributary.tree import Tree
from attributary.types import Floats, Ints

if TYPE_CHECKING:
    from attributary.denoising.whole_posterior import Weights, WholeFigures, WholeMarginals


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
    from attributary.denoising.whole_posterior import marginals_of_roots

    tree, measured = topdown.tree, topdown.measurements
    order, back = tree.to_level_order, tree.from_level_order
    period = as_period(tree, earlier)
    if earlier is not None:
        measured = replace(measured, not_private=together(measured.not_private, earlier.not_private))
        topdown = replace(topdown, measurements=measured)
    if measured.noisy.ndim > 1 or measured.families:
        raise ValueError("the posterior is of one column of figures with independent noise; give one at a time")
    if not is_kept(marginals_of_roots):
        stage("compiling for this machine, once: some five seconds")
    figures = whole_figures(tree, measured)
    today = Today(tree, figures.x, order(measured.variance), figures.blue, figures.wide)
    if families is None:
        share, _, _ = expected_shares(today, labels_of(tree, earlier), None, tau)
        before = None if period is None else prior_counts(tree, period).settled
        stage("learning how families share")
        weights = learn_weights(tree, figures, bases(tree, share, before))
    else:
        weights = families.weights(tree)
    told = marginals(tree, figures, weights, done=lambda part: stage(f"weighing whole counts, {part:.0%} of the nodes"))
    shown = np.isfinite(told.mean)
    if worse(today, told.mean, told.variance, tau, figures.linear) if families is None else not families.shown:
        shown[:] = False
    count = np.where(shown, told.mean, order(np.asarray(topdown.count, np.float64)))
    variance = np.where(shown, told.variance, figures.wide)
    made = round_off(tree, count, floor=0) if whole else count
    known = Prior(back(count)) if earlier is None else earlier
    return Posterior(
        tree, measured, back(made), back(variance), back(count), True, known, topdown, back(shown), told, figures,
        weights,
    )  # fmt: skip


# How closely families share their parent's count as expected, learned from today's figures. Children given their parent
# are Dirichlet-multinomial with α = Σ θ_j·b_j, one θ of each kind and level:
#
# - shares, as other nodes of the same label have them (`learn`),
# - the same for all children, and as many as each has leaves: what is expected where labels say nothing,
# - counts of an earlier period.
#
# Roots are negative binomial, with the same for all and their past. θ maximises the evidence, the probability of
# today's figures: its gradient comes with the posterior (Fisher's identity: that of the complete data, on average), and
# the steps are Newton's with the curvature of the complete data, corrected by what gradients turn out to be (BFGS;
# Jamshidian and Jennrich's QN2, 1997). A past that says nothing, or labels that say nothing, get a θ next to 0.

ENOUGH = 50_000  # nodes that θ is learned from: the largest root, and others drawn at random
STEPS, FEWEST, WORK = 12, 4, 1_000_000  # at most; at least; nodes in all steps together
LARGEST_STEP = 1.5  # of log θ
CLOSE = 0.3  # of the log-evidence: what is not worth another step
VAGUE, VAGUE_ROOTS = 3.0, 1.0  # standard deviation of log θ around its start, where figures say nothing
CAUTION = 0.5  # standard errors
EACH = 0.3  # of a child, in large families
ROOTS = 0.3  # of a root: some are far smaller than others, and with few roots figures do not tell
CLOSELY = 20.0  # conversions that expectations are taken to be worth at first
RANGE = (1e-6, 1e5)  # of θ, by its start
LEAST = 1e-9  # of α
FLAT = 1e-3  # of the curvature expected: what gradients must change by to be believed


class Bases(NamedTuple):
    """The kinds that α is a sum of: each is an array of all nodes, in level order."""

    tree: Tree
    each: list[Floats]
    start: Floats  # the θ that learning begins with, levels × kinds; 0 where a kind says nothing

    def alpha(self, theta: Floats) -> Floats:
        level = self.tree.in_level_order.level
        found: Floats = np.full(len(self.tree), LEAST)
        for kind, base in enumerate(self.each):
            found += theta[level, kind] * base
        return found

    def weights(self, theta: Floats, conversions: float) -> "Weights":
        """The prior of each family, and of the roots, which have so many conversions together."""
        alpha = self.alpha(theta)
        free = -float(np.log1p(alpha[self.tree.slice(0)].sum() / max(conversions, LEAST)))
        return family_weights(self.tree, alpha, free)


def bases(tree: Tree, share: Floats, before: Floats | None) -> Bases:
    """The kinds of α: shares, equal parts, parts by leaves and, if there is one, the past; all in level order."""
    roots, parent = int(tree.first[0]), tree.family
    expected, even = share.copy(), np.ones(len(tree))
    expected[:roots] = 0.0
    even[roots:] /= np.bincount(parent[roots:], minlength=len(tree))[parent[roots:]]
    leaves = tree.in_level_order.sum_up(tree.in_level_order.is_leaf).astype(np.float64)
    by_leaves = np.append(leaves[:roots] / leaves[:roots].mean(), leaves[roots:] / leaves[parent[roots:]])
    each = [expected, even, by_leaves, *([] if before is None else [before])]
    start = np.tile([CLOSELY, 1.0, 1.0, *([] if before is None else [CLOSELY])], (tree.depth, 1))
    start[0, 1:3] *= ROOTS
    for level in range(tree.depth):
        here = tree.slice(level)
        start[level, 0] = max(CLOSELY, EACH * (here.stop - here.start) / max(len(np.unique(parent[here])), 1))
        start[level] *= [base[here].any() for base in each]
        start[level, 1] *= level == 0 or not np.allclose(expected[here], even[here])
        start[level, 2] *= not np.allclose(even[here], by_leaves[here])
        if before is not None:  # as much in all as shares, whatever the unit of the past; of roots, little is expected
            some = before[here] if level == 0 else before[np.unique(parent[here])]
            start[level, 3] /= max(float(some.mean()), LEAST) * (CLOSELY if level == 0 else 1.0)
    return Bases(tree, each, start)


def learn_weights(tree: Tree, figures: "WholeFigures", kinds: Bases) -> "Weights":
    """The prior of each family that makes today's figures most probable."""
    some, theta = _sample(tree), kinds.start
    conversions = max(float(figures.blue[tree.slice(0)].sum()), 1.0)
    climbs = [_Climb(kinds.start[i], VAGUE if i else VAGUE_ROOTS, []) for i in range(tree.depth)]
    for _ in range(max(FEWEST, min(STEPS, WORK // int(root_sizes(tree)[some].sum())))):
        told = marginals(tree, figures, kinds.weights(theta, conversions), roots=some)
        found = [_climbed(climbs[i], theta[i], *_derivatives(kinds, theta, told, i)) for i in range(tree.depth)]
        theta = np.stack([step.theta for step in found])
        if sum(step.gain for step in found) < CLOSE:
            break
    return kinds.weights(np.stack([step.careful for step in found]), conversions)


def _sample(tree: Tree) -> Ints:
    """The largest root, and others at random until they have enough nodes: the same for the same tree.

    What is learned without the largest root may fit it badly, and many nodes are under it.
    """
    sizes = root_sizes(tree)
    order = np.random.default_rng(0).permutation(len(sizes))
    order = np.concatenate([[np.argmax(sizes)], order[order != np.argmax(sizes)]])
    enough = int(np.searchsorted(np.cumsum(sizes[order]), ENOUGH)) + 1
    return np.sort(order[:enough])


def _derivatives(kinds: Bases, theta: Floats, told: "WholeMarginals", level: int) -> tuple[Floats, Floats]:
    """The gradient of the log-evidence by a level's θ, and the curvature of the complete data's, on average."""
    tree, known = kinds.tree, np.isfinite(told.mean)
    here = np.flatnonzero(known[tree.slice(level)]) + tree.slice(level).start
    base = np.stack([each[here] for each in kinds.each])
    if not here.size:
        return np.zeros(len(base)), np.zeros((len(base), len(base)))
    if level == 0:  # as if roots were the children of one node
        A, C = kinds.alpha(theta)[here].sum(), told.mean[here].sum()
        above, slope, bend = base.sum(axis=1, keepdims=True), np.log1p(C / A), 1 / A - 1 / (C + A)
    else:
        parent, at = np.unique(tree.family[here], return_inverse=True)
        above = np.stack([np.bincount(at, values) for values in base])
        slope, bend = told.slope_below[parent], told.bend_below[parent]
    gradient = base @ told.slope[here] - (above * slope).sum(axis=1)
    return gradient, (base * told.bend[here]) @ base.T - (above * bend) @ above.T


class _Climb(NamedTuple):
    """The start of a level's θ, and its steps so far: log θ, and the gradient there."""

    start: Floats
    vague: float
    seen: list[tuple[Floats, Floats]]


class _ClimbStep(NamedTuple):
    theta: Floats
    careful: Floats  # the same, less CAUTION standard errors of their scale: too little trust costs less than too much
    gain: float  # of the log-evidence, as expected


def _climbed(climb: _Climb, theta: Floats, gradient: Floats, curvature: Floats) -> _ClimbStep:
    """The next θ of a level, by Newton's step of log θ."""
    used = climb.start > 0
    log, scale, vague = np.log(theta[used]), theta[used], np.eye(int(used.sum())) / climb.vague**2
    slope = scale * gradient[used] - vague @ (log - np.log(climb.start[used]))
    climb.seen.append((log, slope))
    values, vectors = np.linalg.eigh(curvature[np.ix_(used, used)] * np.outer(scale, scale))
    metric = (vectors * np.maximum(values, 0.0)) @ vectors.T + vague
    for (was, before), (now, after) in pairwise(climb.seen):
        moved, changed = now - was, before - after
        along = metric @ moved
        if moved @ changed > FLAT * (moved @ along) > 0:
            metric = metric + np.outer(changed, changed) / (moved @ changed) - np.outer(along, along) / (moved @ along)
    step, damping = np.linalg.solve(metric, slope), np.eye(len(log)) * float(np.abs(slope).max(initial=0.0)) / 64
    while np.abs(step).max(initial=0.0) > LARGEST_STEP:  # shorter, least where the evidence is most curved
        step, damping = np.linalg.solve(metric + damping, slope), 2 * damping
    found = np.zeros_like(theta)
    found[used] = climb.start[used] * np.clip(np.exp(log + step) / climb.start[used], *RANGE)
    careful = found * np.exp(-CAUTION / np.sqrt(max(float(metric.sum()), LEAST)))
    return _ClimbStep(found, careful, float(slope @ step))
