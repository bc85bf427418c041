"""spread: how far counts are from what was expected of them, learned from many nodes at once."""

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
    """The variance of counts around what was expected, for each node: that of a draw, and what there is beyond it.

    A count is at least as uncertain as if each conversion of the parent fell to the node with its share. What there is
    beyond that is learned as a function of the expectation, by moments: the mean of (z − expected)² − v − the draw's in
    bins, weighted; it never falls with the expectation, and goes from bin to bin by a power law. Below the bins it is
    proportional to the expectation, above to its square. Where no figure can tell (weight 0 everywhere) it is the
    square; where there are too few, nothing is expected: trust must be earned. With `at`, it is for when so much will
    be expected. `many`: sums are compiled.
    """
    drawn: Floats = expected * (1.0 - share)
    later = expected if at is None else at
    draw = later * (1.0 - share)
    use = (weight > 0) & (expected > 1e-6)
    if use.sum() < FEWEST:
        return np.full(len(expected), np.inf) if (weight > 0).any() else np.maximum(draw + later**2, LEAST)
    edges = _edges(expected[use])
    sums = (_compiled_sums if many else _sums)(edges, expected, weight, z, v, drawn, use)
    number, logs, mass, found, squares = sums[:, sums[0] > 0]
    centre, mean, error = logs / number, found / mass, np.sqrt(squares) / mass
    level = rising(mean + CAUTION * error, 1 / np.maximum(error, 1e-9) ** 2)
    level = np.log(np.maximum(level, 1e-3 * np.exp(centre)))
    place = np.log(np.maximum(later, 1e-6))
    beyond = np.interp(place, centre, level)
    beyond += np.minimum(place - centre[0], 0.0) + 2 * np.maximum(place - centre[-1], 0.0)
    variance: Floats = np.maximum(draw + np.exp(beyond), LEAST)
    return variance


def _edges(expected: Floats) -> Floats:
    """What divides expectations into bins of about as many nodes; equal ones are in one bin, whatever their order."""
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
    """The spread, grown for nodes whose figures are far from what was expected: they jumped, and keep their figures.

    As if counts were off by Student's t: the growth is (JUMP + d² / spread) / (JUMP + 1), with d² what the count is
    off, squared, given the figure and the growth so far (expectation maximisation). Where noise alone may explain how
    far the figure is, little grows. It never shrinks. `many`: compiled.
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
    """The nearest values that never fall (pool adjacent violators)."""
    blocks: list[tuple[float, float, int]] = []
    for value, mass in zip(values.tolist(), weight.tolist(), strict=True):
        block = (value, mass, 1)
        while blocks and blocks[-1][0] > block[0]:
            v, m, n = blocks.pop()
            both = m + block[1]
            block = ((v * m + block[0] * block[1]) / both, both, n + block[2])
        blocks.append(block)
    return np.repeat([value for value, _, _ in blocks], [n for _, _, n in blocks])
