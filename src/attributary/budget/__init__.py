"""Ways to split the privacy budget, and the error to expect of a split. One signature for all ways:

    split = optimal(tree, prior_count, epsilon=4, tau=10, noise="api", levels={"location": 0.0})

`problem.Options` lists the other options. Counts, weights and variances are in the tree's order. `METHODS` has them by
the names that users give.
"""

from collections.abc import Callable
from dataclasses import dataclass

from attributary.budget.equal import equal
from attributary.budget.greedy import greedy
from attributary.budget.leaves import leaves
from attributary.budget.optimal import optimal
from attributary.budget.per_node import per_node
from attributary.budget.split import Expected, Split, expected

__all__ = [
    "METHODS",
    "BudgetMethod",
    "Expected",
    "Split",
    "equal",
    "expected",
    "greedy",
    "leaves",
    "optimal",
    "per_node",
]


@dataclass(frozen=True)
class BudgetMethod:
    """A way to split the budget, as users know it."""

    name: str
    split: Callable[..., Split]
    words: str  # its rule, for people
    by_node: bool = False  # each node has a budget of its own
    bounded: bool = False  # plans with it meet targets and keep to the guard
    learns: bool = False  # takes share and spread: what estimates will use besides the figures


METHODS = {
    method.name: method
    for method in (
        BudgetMethod("optimal", optimal, "least expected error", bounded=True, learns=True),
        BudgetMethod("greedy", greedy, "step by step to the level that gains most"),
        BudgetMethod("equal", equal, "equal shares for all levels"),
        BudgetMethod("leaves", leaves, "all on the last level"),
        BudgetMethod("per-node", per_node, "least expected error, node by node", by_node=True),
    )
}
