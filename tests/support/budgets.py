"""Forests to split a budget over, ways to split it, and the error that a split is judged by, node by node."""

from typing import Any, NamedTuple

import numpy as np
from hypothesis import strategies as st

from attributary import Tree, budget
from support.forests import parents

METHODS = {
    "equal": budget.equal,
    "leaves": budget.leaves,
    "greedy": budget.greedy,
    "optimal": budget.optimal,
    "per_node": budget.per_node,
}


class Case(NamedTuple):
    parent: list[int]
    count: list[float]
    epsilon: float
    tau: float
    noise: str

    @property
    def tree(self) -> Tree:
        return Tree.from_parents(self.parent)

    def split(self, method: str, **options: Any) -> budget.Split:
        call = METHODS[method]
        return call(self.tree, self.count, epsilon=self.epsilon, tau=self.tau, **{"noise": self.noise, **options})

    def errors(self, split: budget.Split | np.ndarray, **options: Any) -> np.ndarray:
        """Each root's E, by denoising node by node."""
        return budget.expected(self.tree, self.count, split, self.tau, **options).roots ** 2


@st.composite
def cases(draw: st.DrawFn, most: int = 12) -> Case:
    parent = draw(parents(most))
    count = [draw(st.sampled_from([0.0, 0.0, 1.0, 7.0, 40.0, 999.0, -3.5])) for _ in parent]
    epsilon, tau = draw(st.sampled_from([0.3, 1.0, 4.0, 12.0])), draw(st.sampled_from([1.0, 5.0, 30.0]))
    return Case(parent, count, epsilon, tau, draw(st.sampled_from(["api", "unit"])))


def levelled(seed: int, levels: int, most: int = 150) -> Case:
    """A tree with exactly this many levels, leaves on all of them, chains and fan-outs up to 8."""
    rng = np.random.default_rng(seed)
    parent, above = [-1], [0]
    for _ in range(levels - 1):
        level: list[int] = []
        for v in above:
            fan = rng.choice([0, 1, 2, 3, 5, 8], p=[0.1, 0.25, 0.25, 0.2, 0.1, 0.1])
            fan = min(max(fan, v == above[0]), max(1, most - len(parent)))
            level += range(len(parent), len(parent) + fan)
            parent += [v] * fan
        above = level
    count = np.exp(rng.normal(2, 1.5, len(parent)))
    return Case(
        parent,
        count.tolist(),
        float(rng.choice([0.5, 4, 12])),
        float(rng.choice([1, 5, 20])),
        ["api", "unit"][seed % 2],
    )


def path_sums(tree: Tree, values: np.ndarray) -> np.ndarray:
    """What a root-to-leaf path adds up to, for each leaf."""
    sums = values.astype(float).copy()
    for v in np.argsort(tree.level, kind="stable"):
        if tree.parent[v] >= 0:
            sums[v] += sums[tree.parent[v]]
    return sums[tree.is_leaf]
