"""Non-negative and whole counts: against plain denoising, and as trees grow."""

from functools import partial
from typing import Any

import numpy as np

from attributary import Tree, denoise
from bench.timing import best, heading
from bench.trees import Floats, four_levels

KINDS: dict[str, tuple[dict[str, Any], int | None]] = {
    "top-down": ({"nonnegative": "top-down"}, 15),
    "joint": ({"nonnegative": "joint"}, 120),
    "top-down, whole": ({"nonnegative": "top-down", "whole": True}, None),
}
FORESTS = {"all leaves busy": 0.0, "most leaves empty": 0.84}


def main() -> None:
    against_plain()
    for name in FORESTS:
        growth(name)


def figures(tree: Tree, empty: float) -> tuple[Floats, Floats]:
    """Noisy values of counts that add up, this share of the leaves empty, and uneven variances."""
    rng = np.random.default_rng(1)
    busy = tree.is_leaf & (rng.random(len(tree)) >= empty)
    truth = np.where(busy, rng.geometric(0.2, len(tree)), 0).astype(np.float64)
    for level in range(tree.depth - 1, 0, -1):
        nodes = tree.slice(level)  # these trees are in level order
        truth += np.bincount(tree.parent[nodes], weights=truth[nodes], minlength=len(tree))
    variance = rng.uniform(1, 10, len(tree))
    return truth + rng.laplace(size=len(tree)) * np.sqrt(variance / 2), variance


def against_plain() -> None:
    heading("Non-negative counts against plain denoising (4 levels, 10^6 nodes, warm, best of five)")
    tree = four_levels(10**6)
    for name, empty in FORESTS.items():
        plain, *others = side_by_side(tree, empty)
        for (kind, (_, bar)), took in zip(KINDS.items(), others, strict=True):
            limit = f"   (bar {bar}x)" if bar else ""
            print(
                f"{name:18} {kind:16} plain {plain * 1e3:6.1f} ms   {took * 1e3:7.1f} ms   {took / plain:6.1f}x{limit}",
                flush=True,
            )


def growth(name: str) -> None:
    heading(f"Nanoseconds a node as trees grow (4 levels, {name})")
    print(f"{'nodes':>12} {'plain':>10}" + "".join(f" {kind:>16}" for kind in KINDS))
    for n in (10**3, 10**4, 10**5, 10**6, 10**7):
        tree = four_levels(n)
        plain, *others = (t / len(tree) * 1e9 for t in side_by_side(tree, FORESTS[name]))
        print(f"{len(tree):>12,} {plain:10.1f}" + "".join(f" {t:16.1f}" for t in others), flush=True)


def side_by_side(tree: Tree, empty: float) -> list[float]:
    """Seconds of plain denoising and of each kind, taken in turns, so that a busy machine slows all alike."""
    noisy, variance = figures(tree, empty)
    calls = [partial(denoise, tree, noisy, variance, **o) for o in ({}, *(options for options, _ in KINDS.values()))]
    turns = [[best(call, 1) for call in calls] for _ in range(5)]
    return [min(times) for times in zip(*turns, strict=True)]


if __name__ == "__main__":
    main()
