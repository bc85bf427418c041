"""spread: how far counts are from what was expected of them, learned from many nodes at once."""

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

BINS = 24
EACH = 100  # nodes at least that a bin takes
FEWEST = 20  # nodes from which anything is learned at all
CAUTION = 0.5  # standard errors that are added: too little trust costs less than too much
LEAST = 0.01  # nothing is ever quite certain
JUMP = 5.0  # degrees of freedom: how soon a node that is far off is left to its own figures


def spread(expected: Floats, share: Floats, z: Floats, v: Floats, weight: Floats, at: Floats | None = None) -> Floats:
    """The variance of counts around what was expected, for each node: that of a draw, and what there is beyond it.

    A count is at least as uncertain as if each conversion of the parent fell to the node with its share. What there is
    beyond that is learned as a function of the expectation, by moments: the mean of (z − expected)² − v − the draw's in
    bins, weighted; it never falls with the expectation, and goes from bin to bin by a power law. Below the bins it is
    proportional to the expectation, above to its square. Where no figure can tell (weight 0 everywhere) it is the
    square; where there are too few, nothing is expected: trust must be earned. With `at`,
    it is for when so much will be expected.
    """
    drawn: Floats = expected * (1.0 - share)
    later = expected if at is None else at
    draw = later * (1.0 - share)
    use = (weight > 0) & (expected > 1e-6)
    if use.sum() < FEWEST:
        return np.full(len(expected), np.inf) if (weight > 0).any() else np.maximum(draw + later**2, LEAST)
    m, w, surplus = expected[use], weight[use], (z[use] - expected[use]) ** 2 - v[use] - drawn[use]
    parts = np.array_split(np.argsort(m), min(BINS, max(1, len(m) // EACH)))
    centre = np.array([np.log(m[part]).mean() for part in parts])
    mass = np.array([w[part].sum() for part in parts])
    mean = np.array([np.dot(w[part], surplus[part]) for part in parts]) / mass
    error = np.sqrt([np.dot(w[part] ** 2, surplus[part] ** 2) for part in parts]) / mass
    level = rising(mean + CAUTION * error, 1 / np.maximum(error, 1e-9) ** 2)
    level = np.log(np.maximum(level, 1e-3 * np.exp(centre)))
    place = np.log(np.maximum(later, 1e-6))
    beyond = np.interp(place, centre, level)
    beyond += np.minimum(place - centre[0], 0.0) + 2 * np.maximum(place - centre[-1], 0.0)
    found: Floats = np.maximum(draw + np.exp(beyond), LEAST)
    return found


def forgiving(spread: Floats, expected: Floats, z: Floats, v: Floats) -> Floats:
    """The spread, grown for nodes whose figures are far from what was expected: they jumped, and keep their figures."""
    known = (v < np.inf) & (spread < np.inf)
    far = np.where(known, (z - expected) ** 2 / np.where(known, spread + v, 1.0), 0.0)
    grown: Floats = spread * np.maximum((JUMP + far) / (JUMP + 1), 1.0) ** 2
    return grown


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
