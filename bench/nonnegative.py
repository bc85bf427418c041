"""Non-negative and whole counts: against plain denoising, and as trees grow."""

from collections.abc import Callable
from typing import Any

import numpy as np

from attributary import Tree, denoise
from bench.timing import best, heading
from bench.trees import Floats, figures, four_levels

KINDS: dict[str, tuple[dict[str, Any], int | None]] = {
    "top-down": ({"nonnegative": "top-down"}, 15),
    "joint": ({"nonnegative": "joint"}, 120),
    "top-down, whole": ({"nonnegative": "top-down", "whole": True}, None),
}


def main() -> None:
    against_plain()
    for name, draw in (("all leaves busy", figures), ("most leaves empty", sparse)):
        growth(name, draw)


def sparse(tree: Tree, seed: int = 1) -> tuple[Floats, Floats]:
    """Noisy values where 84 % of the leaves are empty, and uneven variances."""
    rng = np.random.default_rng(seed)
    busy = tree.is_leaf & (rng.random(len(tree)) > 0.84)
    truth = np.where(busy, rng.geometric(0.2, len(tree)), 0).astype(np.float64)
    for level in range(tree.depth - 1, 0, -1):
        nodes = tree.slice(level)  # these trees are in level order
        truth += np.bincount(tree.parent[nodes], weights=truth[nodes], minlength=len(tree))
    variance = rng.uniform(1, 10, len(tree))
    return truth + rng.laplace(size=len(tree)) * np.sqrt(variance / 2), variance


def against_plain() -> None:
    heading("Non-negative counts against plain denoising (4 levels, 10^6 nodes, warm, best of five)")
    tree = four_levels(10**6)
    for name, draw in (("all leaves busy", figures), ("most leaves empty", sparse)):
        noisy, variance = draw(tree)
        plain = best(lambda: denoise(tree, noisy, variance))  # noqa: B023
        for kind, (options, bar) in KINDS.items():
            took = best(lambda: denoise(tree, noisy, variance, **options))  # noqa: B023
            limit = f"   (bar {bar}x)" if bar else ""
            print(
                f"{name:18} {kind:16} plain {plain * 1e3:6.1f} ms   {took * 1e3:7.1f} ms   {took / plain:6.1f}x{limit}",
                flush=True,
            )


def growth(name: str, draw: Callable[[Tree], tuple[Floats, Floats]]) -> None:
    heading(f"Nanoseconds a node as trees grow (4 levels, {name})")
    print(f"{'nodes':>12} {'plain':>10}" + "".join(f" {kind:>16}" for kind in KINDS))
    for n in (10**3, 10**4, 10**5, 10**6, 10**7):
        tree = four_levels(n)
        noisy, variance = draw(tree)
        calls = ({}, *(options for options, _ in KINDS.values()))
        took = [best(lambda o=options: denoise(tree, noisy, variance, **o)) for options in calls]  # type: ignore[misc]  # noqa: B023
        plain, *others = (t / len(tree) * 1e9 for t in took)
        print(f"{len(tree):>12,} {plain:10.1f}" + "".join(f" {t:16.1f}" for t in others), flush=True)


if __name__ == "__main__":
    main()
