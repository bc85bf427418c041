"""Ways to split the privacy budget, and the error to expect of a split. One signature for all ways:

    split = optimal(tree, prior_count, epsilon=4, tau=10, noise="api", levels={"location": 0.0})

`task.Options` lists what else may be asked. Counts, weights and variances follow the tree's order.
"""

from attributary.budget.equal import equal
from attributary.budget.expected import Expected, expected
from attributary.budget.greedy import greedy
from attributary.budget.leaves import leaves
from attributary.budget.optimal import optimal
from attributary.budget.per_node import per_node
from attributary.budget.split import Split

__all__ = ["Expected", "Split", "equal", "expected", "greedy", "leaves", "optimal", "per_node"]
