"""simulate: the errors of any method, by drawing noise again and again."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from attributary.evaluate.case import Case, changed
from attributary.evaluate.copies import Copies, batches
from attributary.evaluate.estimators import ALONE
from attributary.evaluate.measure import Errors, Measure, with_tree
from attributary.evaluate.methods import Estimator
from attributary.evaluate.noisy import Noise, luck
from attributary.prior import Prior

Floats = NDArray[np.float64]


def simulate(
    case: Case, noises: Sequence[Noise], estimators: Sequence[Estimator], measure: Measure, draws: int, seed: int
) -> list[list[Errors]]:
    """The errors of each estimator under each noise, all on the same draws.

    Standard errors are of the mean over draws, carried over to its root.
    """
    pairs = [(i, j) for i in range(len(noises)) for j in range(len(estimators))]
    squared: dict[tuple[int, int], list[Floats]] = {pair: [] for pair in pairs}
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
            noisy = noise.added(rounded, drawn)
            for j, estimator in enumerate(estimators):
                off = _estimated(estimator, copies, noisy, variance, prior) - truth
                off *= relative
                off *= off
                nodes[i, j] += copies.nodes(off)
                off *= weight
                squared[i, j].append(with_tree(copies.levels(off)))
    found = {pair: _errors(np.concatenate(squared[pair]), nodes[pair] / draws, measure) for pair in pairs}
    return [[found[i, j] for j in range(len(estimators))] for i in range(len(noises))]


def _estimated(estimator: Estimator, copies: Copies, noisy: Floats, variance: Floats, prior: Prior) -> Floats:
    if copies.number == 1 or estimator not in ALONE:
        return estimator(copies.forest, noisy, variance, prior)
    one = changed(prior, lambda values: copies.apart(values)[0])
    draws = zip(copies.apart(noisy), copies.apart(variance), strict=True)
    return copies.joined([estimator(copies.one, *figures, one) for figures in draws])


def _errors(squared: Floats, nodes: Floats, measure: Measure) -> Errors:
    mean = squared.mean(axis=0)
    rmsre: Floats = np.sqrt(mean)
    spread = squared.std(axis=0, ddof=1) / np.sqrt(len(squared))
    error = np.divide(spread, 2 * rmsre, out=np.zeros_like(spread), where=rmsre > 0)
    return Errors(rmsre, error, measure.below(nodes))
