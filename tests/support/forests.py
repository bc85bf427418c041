"""Awkward forests, and figures for them, that every estimator must pass."""

from typing import NamedTuple

import numpy as np
from hypothesis import strategies as st

from attributary import Tree

CHAIN = [-1, 0, 1, 2, 3]
STAR = [-1, 0, 0, 0, 0, 0, 0]
SINGLE = [-1]
SINGLES = [-1, -1, -1]
SHUFFLED = [3, 3, 0, -1, 0, 2, -1]  # children before parents, two roots
UNEVEN = [-1, 0, 0, 1, 1, 1, 2, 6, 7, -1]  # leaves at every depth, chains below, a lone root
TWINS = [-1, 0, 0, 1, 1, 2, 2]  # binary
NAMED = {
    "chain": CHAIN,
    "star": STAR,
    "single": SINGLE,
    "singles": SINGLES,
    "shuffled": SHUFFLED,
    "uneven": UNEVEN,
    "twins": TWINS,
}


class Case(NamedTuple):
    parent: list[int]
    noisy: list[float]
    variance: list[float]

    @property
    def tree(self) -> Tree:
        return Tree.from_parents(self.parent)


@st.composite
def parents(draw: st.DrawFn, most: int = 12) -> list[int]:
    """The parents of a forest, in any order."""
    if draw(st.booleans()):
        return draw(st.sampled_from(list(NAMED.values())))
    n = draw(st.integers(1, most))
    grown = [-1] + [draw(st.integers(-1, i - 1)) for i in range(1, n)]
    place = draw(st.permutations(range(n)))
    shuffled = [0] * n
    for i, p in enumerate(grown):
        shuffled[place[i]] = -1 if p < 0 else place[p]
    return shuffled


@st.composite
def cases(draw: st.DrawFn, most: int = 12, spread: float = 12.0, special: tuple[float, ...] = ()) -> Case:
    """A forest with noisy figures whose variances span 2·spread orders of magnitude, some of them special (0, ∞)."""
    parent = draw(parents(most))
    n = len(parent)
    leaf = np.ones(n, bool)
    leaf[[p for p in parent if p >= 0]] = False
    truth = np.zeros(n)
    for v in np.flatnonzero(leaf):
        count = draw(st.sampled_from([0, 0, 1, 3, 40, 12345, 999983]))
        u = int(v)
        while u >= 0:
            truth[u] += count
            u = parent[u]
    variance = [10 ** draw(st.floats(-spread, spread)) for _ in range(n)]
    variance = [draw(st.sampled_from([v, v, v, *special])) for v in variance]
    noise = [draw(st.floats(-4, 4)) for _ in range(n)]
    noisy = [
        float(t + z * v**0.5) if v < np.inf else float("nan") for t, z, v in zip(truth, noise, variance, strict=True)
    ]
    return Case(parent, noisy, variance)


def grown(n: int, seed: int, depth: int = 4) -> Tree:
    """A tree of about n nodes with random fan-outs, all leaves on the last level."""
    rng = np.random.default_rng(seed)
    fan = max(1, round(n ** (1 / (depth - 1))))
    levels, size, start = [np.array([-1])], 1, 0
    for _ in range(depth - 1):
        counts = rng.integers(1, 2 * fan, size, endpoint=True)
        levels.append(np.repeat(np.arange(start, start + size), counts))
        start, size = start + size, len(levels[-1])
    return Tree.from_parents(np.concatenate(levels))
