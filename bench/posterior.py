"""Posterior means of whole counts: seconds by size, learning included, and for a star of 100,000 leaves."""

import time

import numpy as np

from attributary import Tree, denoise
from bench.timing import heading

SCALE = 5.0  # of Laplace noise: ε = 1 in five levels
FANS = (3, 6, 12, 40)


def main() -> None:
    heading("Posterior means of whole counts (generated, 5 levels, 96 % of the leaves empty, ε = 1, warm)")
    small, _ = sparse_forest(4_000, 312, 0)
    denoise(small, np.zeros(len(small)), 2 * SCALE**2, posterior=True)  # compiled
    for leaves, roots, bar in ((250_000, 390, 5), (1_000_000, 1560, 20)):
        tree, noisy = sparse_forest(leaves, roots, 1)
        _show(f"{len(tree):,} nodes", tree, noisy, 2 * SCALE**2, bar)
    _show("star of 100,000 leaves", *sparse_star(100_000), 8.0, 10)


def _show(name: str, tree: Tree, noisy: np.ndarray, variance: float, bar: int) -> None:
    wall, processors = time.perf_counter(), time.process_time()
    denoise(tree, noisy, variance, posterior=True)
    wall, processors = time.perf_counter() - wall, time.process_time() - processors
    each = processors / len(tree) * 1e6
    print(f"{name:>23} {wall:6.1f} s (bar {bar} s); of processors {processors:5.1f} s, {each:4.1f} µs a node")


def sparse_forest(leaves: int, roots: int, seed: int) -> tuple[Tree, np.ndarray]:
    """About so many leaves under roots of uneven sizes, and noisy figures of all nodes."""
    rng = np.random.default_rng(seed)
    size = rng.pareto(1.5, roots) + 0.05
    size = np.minimum(np.maximum(size / size.sum() * leaves * 1.2, 1), 0.8 * np.prod(FANS)).astype(int)
    codes = [rng.choice(int(np.prod(FANS)), n, replace=False) for n in size]
    paths = [np.repeat(np.arange(roots), size), *np.unravel_index(np.concatenate(codes), FANS)]
    names = list("abcde")
    labels = {name: path.astype(str) for name, path in zip(names, paths, strict=True)}
    tree = Tree.from_paths(labels, names, fill=True)
    rate = rng.pareto(0.8, len(tree.leaves))
    truth = tree.roll_up(rng.poisson(rate / rate.sum() * len(rate) * 0.35).astype(float))
    return tree, truth + rng.laplace(0, SCALE, len(tree))


def sparse_star(leaves: int) -> tuple[Tree, np.ndarray]:
    """One family of leaves with 0.3 conversions each on average, and noisy figures of variance 8."""
    rng = np.random.default_rng(2)
    count = rng.poisson(rng.gamma(0.3, 1.0, leaves)).astype(float)
    return Tree.from_parents([-1] + [0] * leaves), np.append(count.sum(), count) + rng.laplace(0, 2, leaves + 1)
