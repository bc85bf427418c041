"""The trees that benchmarks run on, and noisy figures for them."""

import numpy as np
from numpy.typing import NDArray

from attributary import Tree

Floats = NDArray[np.float64]


def four_levels(nodes: int, seed: int = 0) -> Tree:
    """A tree of four levels and just about this many nodes, every fan-out drawn at random."""
    rng = np.random.default_rng(seed)
    fan = (nodes / 1.0) ** (1 / 3)
    sizes, parents, start = [1], [np.array([-1])], 0
    for level in range(3):
        low, high = max(1, round(0.1 * fan)), max(2, round(1.9 * fan))
        counts = rng.integers(low, high, sizes[-1], endpoint=True)
        if level == 2:  # the last level makes up for what chance left open
            counts = np.maximum(1, np.round(counts * (nodes - sum(sizes)) / counts.sum())).astype(np.int64)
        parents.append(np.repeat(np.arange(start, start + sizes[-1]), counts))
        start += sizes[-1]
        sizes.append(int(counts.sum()))
    return Tree.from_parents(np.concatenate(parents))


def binary(levels: int) -> Tree:
    """The complete binary tree with this many levels."""
    return Tree.from_parents((np.arange(2**levels - 1) - 1) // 2)


def figures(tree: Tree, seed: int = 1) -> tuple[Floats, Floats]:
    """Noisy values and uneven variances."""
    rng = np.random.default_rng(seed)
    return rng.normal(100, 10, len(tree)), rng.uniform(1, 10, len(tree))
