"""Example draws: what a report might say under a split. The noise is drawn from a seed: not for release."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from attributary.denoising import denoise
from attributary.spec import Spec
from attributary.tree import Tree
from attributary.types import Floats, Ints

DRAWS = 3
SIBLINGS = 3  # children that are shown of each node on the way down
MOST = 50_000  # nodes that are drawn for


@dataclass(frozen=True, eq=False)
class Sample:
    """The largest root of a tree with all below it; of a very large one, the largest nodes of each level."""

    tree: Tree
    count: Floats
    whole: bool  # nothing below the root is left out
    shown: Ints  # the root, its largest children, the largest children of the first of these, and so on
    number: Ints  # of the shown nodes, in the tree that the sample is of

    @classmethod
    def of(cls, tree: Tree, counts: Floats) -> "Sample":
        count = np.asarray(tree.to_level_order(counts), np.float64)
        nodes = _largest(tree, count, MOST)
        place = np.full(len(tree), -1)
        place[nodes] = np.arange(len(nodes))
        part = Tree.from_parents(np.where(tree.family[nodes] < 0, -1, place[tree.family[nodes]]))
        count = part.roll_up(count[nodes][part.leaves])
        whole = bool((np.diff(part.first) == np.diff(tree.first.astype(np.int64))[nodes]).all())
        shown = _shown(part, count)
        return cls(part, count, whole, shown, nodes[shown] if tree.order is None else tree.order[nodes[shown]])


class Draw(NamedTuple):
    """Of each node that is shown."""

    noisy: Floats  # nan where nothing is measured
    estimate: Floats


def example_draws(sample: Sample, spec: Spec, contribution: Ints, seed: int) -> list[Draw]:
    """Some draws of the noisy figures and of the estimates.

    The noise of a seed is made of the same random numbers whatever the budget: figures move with the budget only.
    """
    tree, model = sample.tree, spec.noise_model
    by_level = contribution[: tree.depth].astype(np.float64)
    by_level[-1] += contribution[tree.depth :].sum()  # a tree that ends early takes the rest, as its leaves do
    budget: Floats = spec.epsilon * tree.spread(by_level[None], rest=True) / spec.l1
    variance, steps = model.variance(budget), model.steps(budget)
    draws = []
    for i in range(DRAWS):
        rng = np.random.default_rng([seed, i])
        drawn = model.replay(budget, rng.standard_exponential(len(tree)), rng.standard_exponential(len(tree)))
        noisy = np.where(budget > 0, sample.count + drawn / steps, 0.0)
        estimate = np.asarray(denoise(tree, noisy, variance).count, np.float64)
        draws.append(Draw(np.where(budget > 0, noisy, np.nan)[sample.shown], estimate[sample.shown]))
    return draws


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
    shown, v = [0], 0
    while tree.first[v + 1] > tree.first[v]:
        children = np.arange(tree.first[v], tree.first[v + 1]).astype(np.int64)
        order = children[np.argsort(-count[children], kind="stable")[:SIBLINGS]]
        shown += order.tolist()
        v = int(order[0])
    return np.array(shown)
