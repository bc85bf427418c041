"""Ways to split the privacy budget, and the error to expect of a split. One signature for all ways:

    split = optimal(tree, prior_count, epsilon=4, tau=10, noise="api", levels={"location": 0.0})

`problem.Options` lists the other options. Counts, weights and variances are in the tree's order. `METHODS` has them by
the names that users give.
"""

from collections.abc import Callable
from dataclasses import dataclass

from attributary.budget.methods import equal, greedy, leaves, optimal, per_node
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
    "register",
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
    raw: bool = False  # has a split for figures that are not denoised, too
    fixed: bool = False  # the same whatever the prior says
    scales: bool = False  # shares do not depend on ε where the noise's variance is proportional to 1/ε²
    work: int = 150  # about how long it takes, in draws of noise


METHODS: dict[str, BudgetMethod] = {}


def register(*methods: BudgetMethod) -> None:
    """Adds ways to split the budget to the registry; a name that is taken is refused."""
    for method in methods:
        if method.name in METHODS:
            raise ValueError(f"a budget method named {method.name!r} is registered already; choose another name")
        METHODS[method.name] = method


register(
    BudgetMethod("optimal", optimal, "least expected error", bounded=True, learns=True, scales=True),
    BudgetMethod("greedy", greedy, "step by step to the level that gains most", raw=True, scales=True, work=40),
    BudgetMethod("equal", equal, "equal shares for all levels", raw=True, fixed=True, scales=True, work=1),
    BudgetMethod("leaves", leaves, "all on the last level", fixed=True, scales=True, work=1),
    BudgetMethod("per-node", per_node, "least expected error, node by node", by_node=True, scales=True, work=400),
)
