"""Noise by blocks: whoever draws a part of a forest draws for its roots what one machine draws for all of it."""

import numpy as np
import pytest

from attributary import Tree
from attributary.noise import blocks, model
from attributary.noise.blocks import BlockEntropy, block_number, in_blocks

KNOWN = 2
LEVELS = ["campaign", "place", "day"]


def forest(sizes: dict[str, int]) -> Tree:
    """A root of each name, with so many places of three days each."""
    paths = [(name, f"{name} {p}", d) for name, size in sizes.items() for p in range(size) for d in ("a", "b", "c")]
    return Tree.from_paths(dict(zip(LEVELS, zip(*paths, strict=True), strict=True)), LEVELS, fill=True)


def noise_by_path(tree: Tree, number: int) -> dict[tuple[str, ...], float]:
    count, budget = np.full(len(tree), 100.0), np.full(len(tree), 0.5)
    noisy = BlockEntropy(7, None, number).measure(model("api", 1.0, 65536), tree, KNOWN, count, budget)
    return {tuple(tree.path(node)): value for node, value in enumerate(noisy.tolist())}


def test_a_root_that_is_larger_than_a_block_has_blocks_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocks, "LEAVES", 60)
    sizes = {"small": 5, "tiny": 1, "large": 50, "larger": 100, "other": 4}
    tree = forest(sizes)
    place, _ = in_blocks(tree, KNOWN)
    root, labels = tree.in_level_order.root, tree.labels[0].to_pylist()
    blocks_of = {name: set(place[root == i].tolist()) for i, name in enumerate(labels)}
    assert [len(blocks_of[name]) for name in ("small", "tiny", "other")] == [1, 1, 1]
    assert len(blocks_of["large"]) == 1 + block_number(150) and len(blocks_of["larger"]) == 1 + block_number(300)
    others = set[int]().union(*(blocks_of[name] for name in sizes if name != "large"))
    assert not blocks_of["large"] & others
    assert max(np.unique(place, return_counts=True)[1]) < 2 * blocks.LEAVES


def test_noise_of_a_forest_is_that_of_its_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocks, "LEAVES", 60)
    sizes = {"small": 5, "tiny": 1, "large": 50, "larger": 100, "other": 4}
    number = block_number(3 * sum(sizes.values()))
    whole = noise_by_path(forest(sizes), number)
    rest = {name: size for name, size in sizes.items() if size < 20}
    parts = [forest({"larger": 100}), forest({"large": 50}), forest(rest)]
    apart = [noise_by_path(part, number) for part in parts]
    assert {path: value for part in apart for path, value in part.items()} == whole
    assert len(set(whole.values())) > len(whole) / 2
