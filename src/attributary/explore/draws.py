"""Draws: three examples of what a report would look like, as measured and denoised. Made-up noise, not for release."""

from typing import Any

import numpy as np

from attributary.denoising import denoise
from attributary.evaluate.noisy import Noise, luck
from attributary.explore.start import Start
from attributary.spec import Spec
from attributary.tree import Tree
from attributary.types import Floats, Ints

DRAWS = 3
SIBLINGS = 3  # children that are shown of each node on the way down
MOST = 50_000  # nodes that are drawn for


class Part:
    """The largest root of a start with all below it; of a very large one, the largest nodes of each level."""

    def __init__(self, start: Start) -> None:
        tree, count = start.tree, np.asarray(start.tree.to_level_order(start.count), np.float64)
        self.nodes = _largest(tree, count, MOST)
        place = np.full(len(tree), -1)
        place[self.nodes] = np.arange(len(self.nodes))
        parent = np.where(tree.family[self.nodes] < 0, -1, place[tree.family[self.nodes]])
        self.tree = Tree.from_parents(parent)
        self.count = self.tree.roll_up(count[self.nodes][self.tree.leaves])
        self.whole = bool((np.diff(self.tree.first) == np.diff(tree.first.astype(np.int64))[self.nodes]).all())
        self.shown = _shown(self.tree, self.count)
        number = self.nodes if tree.order is None else tree.order[self.nodes]
        self.names = start.names([int(v) for v in number[self.shown]])


def draws(part: Part, spec: Spec, contribution: Ints, seed: int) -> dict[str, Any]:
    """For each node that is shown: its count, and three draws of the noisy figure and of the estimate."""
    tree = part.tree
    deep = contribution[: tree.depth].astype(np.float64)
    deep[-1] += contribution[tree.depth :].sum()  # a tree that ends early takes the rest, as its leaves do
    share = tree.spread(deep[None], rest=True) / spec.l1
    noise = Noise(spec.noise, spec.epsilon, spec.l1, share)
    variance, some = noise.variance, share > 0
    found = []
    for i in range(DRAWS):
        noisy = noise.added(part.count, luck(seed, "example", i, len(tree)))
        found.append((np.where(some, noisy, np.nan), denoise(tree, noisy, variance).count))
    rows = []
    for v, name in zip(part.shown.tolist(), part.names, strict=True):
        pairs = [[_known(raw[v]), _known(estimate[v])] for raw, estimate in found]
        rows.append({"name": name, "level": int(tree.level[v]), "count": float(part.count[v]), "draws": pairs})
    return {"rows": rows, "nodes": len(tree), "whole": part.whole, "seed": seed}


def _known(x: float) -> float | None:
    return float(x) if np.isfinite(x) else None


def _largest(tree: Tree, count: Floats, most: int) -> Ints:
    """In level order: the largest root and all below it, or the largest of each level that stand below kept ones."""
    kept = [np.array([int(np.argmax(count[: int(tree.first[0])]))])]
    room = most // tree.depth
    for _ in range(1, tree.depth):
        above = kept[-1]
        begin, end = tree.first[above].astype(np.int64), tree.first[above + 1].astype(np.int64)
        size = end - begin
        below = np.repeat(begin - np.concatenate([[0], np.cumsum(size)[:-1]]), size) + np.arange(int(size.sum()))
        if not len(below):
            break
        if len(below) > room:
            below = np.sort(below[np.argsort(-count[below], kind="stable")[:room]])
        kept.append(below)
    return np.concatenate(kept)


def _shown(tree: Tree, count: Floats) -> Ints:
    """The root, its largest children, the largest children of the first of these, and so on."""
    shown, v = [0], 0
    while tree.first[v + 1] > tree.first[v]:
        children = np.arange(tree.first[v], tree.first[v + 1]).astype(np.int64)
        order = children[np.argsort(-count[children], kind="stable")[:SIBLINGS]]
        shown += order.tolist()
        v = int(order[0])
    return np.array(shown)
