"""Methods: the ways to split a budget, by the name that a user gives."""

from collections.abc import Callable

from attributary import budget
from attributary.budget import Split

METHODS: dict[str, Callable[..., Split]] = {
    "optimal": budget.optimal,
    "greedy": budget.greedy,
    "equal": budget.equal,
    "leaves": budget.leaves,
    "per-node": budget.per_node,
}
