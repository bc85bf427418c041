"""Methods: a split of the budget and an estimator, by name: the paper's five, and ours.

Another method is another pair of functions:

    >>> halves = Method("halves-blue", splits.equal, estimators.blue, estimators.blue_variance)

Your estimator is given one draw at a time. If it treats each root separately, and learns nothing from the rest of the
tree, it may take many draws at once, which is faster: batched=True.
"""

from collections.abc import Callable, Collection
from typing import NamedTuple

from attributary.errors import InputError
from attributary.evaluate import estimators, splits
from attributary.evaluate.estimators import Intervals
from attributary.evaluate.splits import Way
from attributary.prior import Prior
from attributary.tree import Tree
from attributary.types import Floats

Estimator = Callable[[Tree, Floats, Floats, Prior], Floats]  # tree, noisy figures, their variances, prior → counts
ClosedForm = Callable[[Tree, Floats], Floats]  # tree, variances of the noise → variances of the counts


class Method(NamedTuple):
    """A split of the budget (`way`) and an estimator, under a name.

    `variance` gives the variances of an unbiased estimator, for exact errors; without it, errors are simulated.
    `intervals` gives the same counts with intervals, for their coverage. `by_epsilon`: shares depend on ε even under
    the API's noise. `batched`: several draws may be handed to the estimator as one forest, since it treats each root
    separately. `paper`: one of the paper's five. `slow`: it learns from every draw, and is tried only if it is named.
    """

    name: str
    way: Way
    estimator: Estimator
    variance: ClosedForm | None = None
    paper: bool = False
    by_epsilon: bool = False
    slow: bool = False
    intervals: Intervals | None = None
    batched: bool = False


_LISTED = (
    Method("equal-raw", splits.equal, estimators.raw, estimators.raw_variance, True),
    Method("equal-blue", splits.equal, estimators.blue, estimators.blue_variance, True),
    Method("leaves-blue", splits.leaves, estimators.blue, estimators.blue_variance, True),
    Method("greedy-raw", splits.greedy_raw, estimators.raw, estimators.raw_variance, True),
    Method("greedy-blue", splits.greedy, estimators.blue, estimators.blue_variance, True),
    Method("greedy-top-down", splits.greedy, estimators.top_down),
    Method("optimal-blue", splits.optimal, estimators.blue, estimators.blue_variance),
    Method("optimal-top-down", splits.optimal, estimators.top_down),
    Method("optimal-prior", splits.optimal, estimators.learned, slow=True),
    Method("planned-prior", splits.planned, estimators.learned, by_epsilon=True, slow=True),
    Method("per-node-blue", splits.per_node, estimators.blue, estimators.blue_variance),
    Method("per-node-top-down", splits.per_node, estimators.top_down),
    Method("per-node-prior", splits.per_node, estimators.learned, slow=True),
)
_SURE: dict[Estimator, Intervals] = {
    estimators.blue: estimators.blue_intervals,
    estimators.top_down: estimators.top_down_intervals,
    estimators.learned: estimators.learned_intervals,
}
_ALL = tuple(method._replace(intervals=_SURE.get(method.estimator)) for method in _LISTED)
METHODS = {method.name: method for method in _ALL}


def chosen(names: Collection[str] | None = None) -> tuple[Method, ...]:
    """The methods of these names, in the order of the list; all but the slow ones without names."""
    unknown = [name for name in names or () if name not in METHODS]
    if unknown:
        raise InputError(f"a method is one of {', '.join(METHODS)}; got {unknown[0]!r}")
    return tuple(method for method in _ALL if (not method.slow if names is None else method.name in names))


def by_way(methods: Collection[Method]) -> dict[Way, list[Method]]:
    """The methods that share a split, together."""
    groups: dict[Way, list[Method]] = {}
    for method in methods:
        groups.setdefault(method.way, []).append(method)
    return groups
