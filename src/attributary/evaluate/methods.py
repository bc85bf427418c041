"""Methods: a split of the budget and an estimator, by name: the paper's five, and ours.

Another method is another pair of functions:

    >>> halves = Method("halves-unbiased", splits.equal, estimators.unbiased, estimators.unbiased_variance)

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
    `intervals` gives the same counts with intervals, for their coverage, or alone where counts depend on the noise's
    shape. `by_epsilon`: shares depend on ε even under the API's noise. `batched`: several draws may be handed to the
    estimator as one forest, since it treats each root separately. `paper`: one of the paper's five. `slow`: it takes
    long, and is tried only when asked for. `blind`: it answers 0 whatever was measured, and is always
    tried. `needs`: what it must know of the process that generated the counts (`KnownProcess`).
    """

    name: str
    way: Way
    estimator: Estimator | None
    variance: ClosedForm | None = None
    paper: bool = False
    by_epsilon: bool = False
    slow: bool = False
    intervals: Intervals | None = None
    batched: bool = False
    blind: bool = False
    needs: str = ""

    @property
    def beside(self) -> bool:
        """Whether it is no method to choose, but what methods are compared with."""
        return self.blind or bool(self.needs)


SPLITS: dict[str, tuple[Way, tuple[str, ...]]] = {  # and the estimators that each is tried with
    "equal": (splits.equal, ("raw", "unbiased")),
    "leaves": (splits.leaves, ("unbiased",)),
    "greedy": (splits.greedy, ("raw", "unbiased", "nonnegative")),
    "optimal": (splits.optimal, ("unbiased", "nonnegative", "learned", "posterior", "limit0", "limit1")),
    "planned": (splits.planned, ("nonnegative", "learned", "posterior", "limit0", "limit1")),
    "per-node": (splits.per_node, ("unbiased", "nonnegative", "learned")),
    "zeros": (splits.equal, ("zeros",)),
}
ESTIMATES: dict[str, tuple[Estimator | None, ClosedForm | None, Intervals | None]] = {
    "raw": (estimators.raw, estimators.raw_variance, None),
    "unbiased": (estimators.unbiased, estimators.unbiased_variance, estimators.unbiased_intervals),
    "nonnegative": (estimators.nonnegative, None, estimators.nonnegative_intervals),
    "learned": (estimators.learned, None, estimators.learned_intervals),
    "posterior": (None, None, estimators.posterior_intervals),
    "limit0": (None, None, estimators.limit0_intervals),
    "limit1": (None, None, estimators.limit1_intervals),
    "zeros": (estimators.zeros, estimators.zeros_variance, None),
}
NEEDS = {"limit0": "alpha", "limit1": "alpha_with_past"}
SLOW = ("learned", "posterior", *NEEDS)
PAPER = ("equal-raw", "equal-unbiased", "leaves-unbiased", "greedy-raw", "greedy-unbiased")


def _method(split: str, estimates: str) -> Method:
    name = f"{split}-{estimates}" if split != estimates else split
    way = splits.greedy_raw if name == "greedy-raw" else SPLITS[split][0]
    estimator, variance, intervals = ESTIMATES[estimates]
    return Method(
        name,
        way,
        estimator,
        variance,
        name in PAPER,
        by_epsilon=split == "planned",
        slow=split == "planned" or estimates in SLOW,
        intervals=intervals,
        blind=estimates == "zeros",
        needs=NEEDS.get(estimates, ""),
    )


_PAIRS = {(split, one): _method(split, one) for split, (_, several) in SPLITS.items() for one in several}
METHODS = {method.name: method for method in _PAIRS.values()}
ZEROS = METHODS["zeros"]


def chosen(names: Collection[str] = (), estimates: Collection[str] = ()) -> tuple[Method, ...]:
    """The methods of these names with these estimators, in the order of `METHODS`; all but the slow ones by default.

    A name is that of a method, as in optimal-learned, or of a split, as in optimal.
    """
    for kind, known, given in (("a method", {**SPLITS, **METHODS}, names), ("an estimator", ESTIMATES, estimates)):
        for name in given:
            if name not in known:
                raise InputError(f"{kind} is one of {', '.join(known)}; got {name!r}")
    fits = {
        method: split
        for (split, estimator), method in _PAIRS.items()
        if (not names or split in names or method.name in names)
        and (estimator in estimates if estimates else not method.slow or _names_it(method, split, names))
    }
    for name in names:
        if not any(name in (split, method.name) for method, split in fits.items()):
            able = " or ".join(SPLITS[name][1] if name in SPLITS else [name.rpartition("-")[2]])
            raise InputError(f"{name} is tried with the estimator {able}; got {' and '.join(estimates)}")
    return tuple(fits)


def _names_it(method: Method, split: str, names: Collection[str]) -> bool:
    """Whether names ask for a method, and not only for its split, unless all that it is tried with are slow."""
    every = all(_PAIRS[split, estimator].slow for estimator in SPLITS[split][1])
    return method.name in names or (split in names and every and not method.needs)


def by_way(methods: Collection[Method]) -> dict[Way, list[Method]]:
    """The methods that share a split, together."""
    groups: dict[Way, list[Method]] = {}
    for method in methods:
        groups.setdefault(method.way, []).append(method)
    return groups
