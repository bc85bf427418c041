"""Denoising with a prior: against plain denoising, and what learning the prior costs."""

import numpy as np

from attributary import Prior, Tree, denoise, prior
from bench.timing import best, heading
from bench.trees import figures, four_levels


def main() -> None:
    heading("Denoising with shares against plain denoising (10^6 nodes, 4 levels, warm, best of five)")
    tree = four_levels(10**6)
    noisy, variance = figures(tree)
    known = Prior(noisy, share=even(tree), spread=variance[::-1].copy())
    mean = Prior(noisy, variance[::-1].copy())
    plain = best(lambda: denoise(tree, noisy, variance))
    print(f"{'plain':34} {plain * 1e3:8.1f} ms")
    for name, given, bar in (("a mean and a variance", mean, 4), ("shares and their spread", known, 4)):
        took = best(lambda: denoise(tree, noisy, variance, prior=given))  # noqa: B023
        print(f"{name:34} {took * 1e3:8.1f} ms   {took / plain:5.2f}x   (bar {bar}x)")
    took = best(lambda: prior.learn(tree, noisy, variance), 2)
    print(f"{'learning the shares, today alone':34} {took * 1e3:8.1f} ms   {took / plain:5.1f}x")


def even(tree: Tree) -> np.ndarray:
    """Equal shares in every family."""
    size = np.bincount(tree.parent[tree.parent >= 0], minlength=len(tree))
    return 1 / np.where(tree.parent >= 0, size[tree.parent], 1)
