"""spread: the variance of counts around their expected values, learned from many nodes at once."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from attributary.types import Floats

BINS = 24
EACH = 100  # nodes at least that a bin takes
FEWEST = 20  # nodes from which anything is learned at all
CAUTION = 0.5  # standard errors that are added: too little trust costs less than too much
LEAST = 0.01  # nothing is ever quite certain
JUMP = 4.0  # degrees of freedom: how soon a node that is far off is left to its own figures
STEPS = 6  # enough for a node that jumped to be let go


def spread(
    expected: Floats, share: Floats, z: Floats, v: Floats, weight: Floats, at: Floats | None = None, many: bool = False
) -> Floats:
    """The variance of each node's count around its expected value: the binomial part, and what exceeds it.

    A count varies at least as if each conversion of the parent went to the node with probability `share`. The excess is
    learned as a function of the expected count, by moments: the weighted mean of (z − expected)² − v − binomial
    variance in bins, made non-decreasing, and interpolated between bins by a power law. Below the bins it is
    proportional to the expected count, above them to its square. Without any figures (weight 0 everywhere) it is the
    square; with too few, the variance is inf, so that nothing is expected. With `at`, the variance is given for these
    expected counts instead. `many`: sums are compiled.
    """
    drawn: Floats = expected * (1.0 - share)
    later = expected if at is None else at
    draw = later * (1.0 - share)
    use = (weight > 0) & (expected > 1e-6)
    if use.sum() < FEWEST:
        return np.full(len(expected), np.inf) if (weight > 0).any() else np.maximum(draw + later**2, LEAST)
    edges = _edges(expected[use])
    sums = (_compiled_sums if many else _sums)(edges, expected, weight, z, v, drawn, use)
    number, logs, mass, surplus, squares = sums[:, sums[0] > 0]
    centre, mean, error = logs / number, surplus / mass, np.sqrt(squares) / mass
    level = rising(mean + CAUTION * error, 1 / np.maximum(error, 1e-9) ** 2)
    level = np.log(np.maximum(level, 1e-3 * np.exp(centre)))
    place = np.log(np.maximum(later, 1e-6))
    beyond = np.interp(place, centre, level)
    beyond += np.minimum(place - centre[0], 0.0) + 2 * np.maximum(place - centre[-1], 0.0)
    variance: Floats = np.maximum(draw + np.exp(beyond), LEAST)
    return variance


def _edges(expected: Floats) -> Floats:
    """The edges of bins with about the same number of nodes; equal values are in one bin."""
    bins = min(BINS, max(1, len(expected) // EACH))
    at = np.cumsum([len(part) for part in np.array_split(np.empty(len(expected)), bins)])[:-1]
    return np.unique(np.partition(expected, at)[at]) if len(at) else np.empty(0)


def _sums(
    edges: Floats, m: Floats, weight: Floats, z: Floats, v: Floats, drawn: Floats, use: NDArray[np.bool_]
) -> Floats:
    """For each bin: how many nodes, Σ log expected, Σ weight, Σ weight·surplus, and Σ of the squares of that."""
    bin_, w = np.searchsorted(edges, m[use], "right"), weight[use]
    surplus = w * ((z[use] - m[use]) ** 2 - v[use] - drawn[use])
    each = (np.ones(len(w)), np.log(m[use]), w, surplus, surplus**2)
    return np.stack([np.bincount(bin_, values, len(edges) + 1) for values in each])


def _compiled_sums(*given: NDArray[Any]) -> Floats:
    from attributary.prior.compiled_sums import binned

    return binned(*given)


def forgiving(spread: Floats, expected: Floats, z: Floats, v: Floats, many: bool = False) -> Floats:
    """The spread, larger for nodes whose figures are far from the expected count, so that they keep their figures.

    As if deviations had Student's t distribution: the factor is (JUMP + d² / spread) / (JUMP + 1), where d² is the
    squared deviation of the count, given the figure and the factor so far (expectation maximisation). Where noise alone
    explains the deviation, the factor is close to 1. It is never below 1. `many`: compiled.
    """
    if many:
        from attributary.prior.compiled_sums import forgiven

        return forgiven(spread, expected, z, v, JUMP, STEPS)
    known = (v < np.inf) & (spread < np.inf) & (spread > 0)
    q, noise = np.where(known, spread, 1.0), np.where(known, v, 1.0)
    off, growth = np.where(known, (z - expected) ** 2, 0.0), np.ones(len(spread))
    for _ in range(STEPS):
        k = growth * q / (growth * q + noise)
        growth = np.maximum((JUMP + (k * k * off + k * noise) / q) / (JUMP + 1), 1.0)
    return np.where(known, spread * growth, spread)


def rising(values: Floats, weight: Floats) -> Floats:
    """The nearest non-decreasing values (pool adjacent violators)."""
    blocks: list[tuple[float, float, int]] = []
    for value, mass in zip(values.tolist(), weight.tolist(), strict=True):
        block = (value, mass, 1)
        while blocks and blocks[-1][0] > block[0]:
            v, m, n = blocks.pop()
            both = m + block[1]
            block = ((v * m + block[0] * block[1]) / both, both, n + block[2])
        blocks.append(block)
    return np.repeat([value for value, _, _ in blocks], [n for _, _, n in blocks])
