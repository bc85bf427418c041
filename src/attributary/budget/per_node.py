"""A budget of its own for each node, such that no path from a root to a leaf spends more than ε."""

from typing import Unpack

import numpy as np
from numpy.typing import ArrayLike

from attributary.budget.equal import equally
from attributary.budget.improve import best, improve, prune
from attributary.budget.nodes import Nodes
from attributary.budget.optimal import optimally
from attributary.budget.rows import Rows
from attributary.budget.split import Split
from attributary.budget.task import Options, Task
from attributary.tree import Tree

ROUNDS = 20
TOWARDS_EQUAL = (0.0, 0.5)  # starts: the best split by level, and, as a 0 stays 0, half way to the equal one


def per_node(tree: Tree, prior_count: ArrayLike, epsilon: float, tau: float, **options: Unpack[Options]) -> Split:
    """A small E over all ε_v ≥ 0 whose every root-to-leaf path sums to ε; never worse than `optimal`, for any root.

    ε_v = f_v · (what is left on its path), and leaves take all that is left.
    """
    task = Task.of(tree, prior_count, epsilon, tau, **options)
    if not task.by_root:
        raise ValueError("per_node gives each node a budget of its own; got by_root=False: take optimal for that")
    rows = Rows.of(task)
    nodes = Nodes.of(task)
    by_level, even = optimally(rows, task.phases), equally(rows, rows.open)
    starts = nodes.of_rows(rows, np.array([(1 - t) * by_level + t * even for t in TOWARDS_EQUAL]))
    budget, error = improve(nodes.paths, nodes.gains, starts, ROUNDS)
    found = np.concatenate([prune(nodes.paths, nodes.errors, budget, error), starts[:1]])
    return nodes.split(best(nodes.paths, found, nodes.errors(found)))
