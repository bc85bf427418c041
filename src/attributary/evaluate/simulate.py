"""simulate: the errors of any method, by drawing noise again and again."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from attributary.errors import InputError
from attributary.evaluate import estimators, intervals
from attributary.evaluate.case import Case, changed
from attributary.evaluate.copies import Copies, batches
from attributary.evaluate.intervals import Intervals, inside
from attributary.evaluate.measure import Errors, Measure, with_tree
from attributary.evaluate.methods import Estimator
from attributary.evaluate.noisy import Noise, luck
from attributary.measurements import Measurements
from attributary.prior import Prior
from attributary.tree import Tree
from attributary.types import Floats


class Tried(NamedTuple):
    """What is made of each draw."""

    estimator: Estimator
    intervals: Intervals | None = None  # the same, where it is asked how often intervals hold the true count
    batched: bool = False  # whether several draws may be handed to it as one forest

    @property
    def together(self) -> bool:
        return self.batched or (self.intervals or self.estimator) in BATCHED


# What treats each root on its own; one that learns from the tree would learn from other draws of the same counts.
BATCHED = (estimators.raw, estimators.blue, estimators.top_down, intervals.blue, intervals.top_down)


def simulate(
    case: Case, noises: Sequence[Noise], tried: Sequence[Tried], measure: Measure, draws: int, seed: int
) -> list[list[Errors]]:
    """The errors of each estimator under each noise, all on the same draws.

    Standard errors are of the mean over draws, carried over to its root.
    """
    pairs = [(i, j) for i in range(len(noises)) for j in range(len(tried))]
    squared: dict[tuple[int, int], list[Floats]] = {pair: [] for pair in pairs}
    covered: dict[tuple[int, int], list[Floats]] = {pair: [] for pair in pairs}
    nodes = {pair: np.zeros(case.nodes) for pair in pairs}
    copies: Copies | None = None
    for batch, number in enumerate(batches(case.nodes, draws)):
        if copies is None or copies.number != number:
            copies = Copies.of(case.tree, number)
            count, relative, weight = map(copies.spread, (case.count, measure.relative, measure.weight))
            truth, shaken = copies.spread(case.truth), copies.spread(np.sqrt(case.rounding + np.zeros(case.nodes)))
            prior = changed(case.prior, copies.spread)
            spread = [noise._replace(share=copies.spread(noise.share)) for noise in noises]
            variances = [noise.variance for noise in spread]
        drawn = luck(seed, f"{case.dataset}/{case.name}", batch, len(count))
        rounded = count
        if shaken.any():
            rounded = count + shaken * luck(seed, f"{case.dataset}/{case.name}/rounding", batch, len(count)).even
        for i, (noise, variance) in enumerate(zip(spread, variances, strict=True)):
            measured = Measurements(noise.added(rounded, drawn), variance, noise.shape)
            for j, method in enumerate(tried):
                estimate, held = _estimated(method, copies, measured, prior, case.truth)
                if held is not None:
                    covered[i, j].append(copies.levels(held))
                off = estimate - truth
                off *= relative
                off *= off
                nodes[i, j] += copies.nodes(off)
                off *= weight
                squared[i, j].append(with_tree(copies.levels(off)))
    found = {
        pair: _errors(np.concatenate(squared[pair]), nodes[pair] / draws, measure)._replace(
            **_coverage(covered[pair], np.diff(case.tree.offsets))
        )
        for pair in pairs
    }
    return [[found[i, j] for j in range(len(tried))] for i in range(len(noises))]


def _estimated(
    method: Tried, copies: Copies, measured: Measurements, prior: Prior, count: Floats
) -> tuple[Floats, Floats | None]:
    """The estimates and, where intervals are tried, which of them hold the true count."""
    if method.together:
        return _of_tree(method, copies.forest, measured, prior, copies.spread(count))
    one = changed(prior, lambda values: copies.apart(values)[0])
    draws = zip(copies.apart(measured.noisy), copies.apart(measured.variance), strict=True)
    found = [_of_tree(method, copies.one, Measurements(*each, measured.shape), one, count) for each in draws]
    held = [inside for _, inside in found if inside is not None]
    return copies.joined([estimate for estimate, _ in found]), copies.joined(held) if held else None


def _of_tree(
    method: Tried, tree: Tree, measured: Measurements, prior: Prior, count: Floats
) -> tuple[Floats, Floats | None]:
    if method.intervals is None:
        return _counts(method.estimator(tree, measured.noisy, measured.variance, prior), tree), None
    estimate = method.intervals(tree, measured, prior)
    return _counts(estimate.count, tree), inside(estimate, count)


def _counts(given: ArrayLike, tree: Tree) -> Floats:
    counts = np.asarray(given, np.float64)
    if counts.shape != (len(tree),) or np.isnan(counts).any():
        told = "nan" if counts.shape == (len(tree),) else f"shape {counts.shape}"
        raise InputError(
            f"an estimator gives a count for each of the {len(tree):,} nodes that it is handed; got {told}"
        )
    return counts


def _errors(squared: Floats, nodes: Floats, measure: Measure) -> Errors:
    mean = squared.mean(axis=0)
    rmsre: Floats = np.sqrt(mean)
    spread = squared.std(axis=0, ddof=1) / np.sqrt(len(squared))
    error = np.divide(spread, 2 * rmsre, out=np.zeros_like(spread), where=rmsre > 0)
    return Errors(rmsre, error, measure.below(nodes))


def _coverage(held: list[Floats], sizes: NDArray[np.int64]) -> dict[str, Floats]:
    """The share of intervals that held the true count, of each level and of all, and its standard error over draws."""
    if not held:
        return {}
    levels = np.concatenate(held)
    share = np.concatenate([levels / sizes, levels.sum(axis=1, keepdims=True) / sizes.sum()], axis=1)
    return {
        "coverage": share.mean(axis=0),
        "coverage_error": share.std(axis=0, ddof=1) / np.sqrt(len(share)),
    }
