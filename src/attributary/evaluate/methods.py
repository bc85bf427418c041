"""methods: what is evaluated: a budget method of the one registry × an estimator of the other.

    >>> Method.of("optimal", "nonnegative")
    >>> Method(BudgetMethod("halves", halves, "half for the roots"), ESTIMATORS["unbiased"])

Methods that were registered (`budget.register`, `estimators.register`) are known by name: "halves-unbiased". With
`planned`, the split is made for the estimator, as `plan --estimator` and `run` make it: "planned-learned".
"""

from collections.abc import Collection
from dataclasses import dataclass, replace

from attributary.budget import METHODS as SPLITS
from attributary.budget import BudgetMethod
from attributary.errors import InputError
from attributary.estimators import ESTIMATORS, EstimatorKind
from attributary.facts.evaluation import ZEROS

PLANNED = "planned"  # the split that learns, made for the estimator


@dataclass(frozen=True)
class Method:
    """A budget method and an estimator; two methods of one name cannot be evaluated together."""

    split: BudgetMethod
    estimator: EstimatorKind
    planned: bool = False  # the split is made for estimates that use the prior, as this estimator does

    @classmethod
    def of(cls, split: str, estimator: str) -> "Method":
        """The method of these names; the split may be "planned"."""
        by = next(method for method in SPLITS.values() if method.learns) if split == PLANNED else SPLITS[split]
        return cls(by, ESTIMATORS[estimator], split == PLANNED)

    @property
    def name(self) -> str:
        """Its key, as in optimal-nonnegative."""
        if self.estimator.name == ZEROS:
            return ZEROS
        return f"{PLANNED if self.planned else self.split.name}-{self.estimator.name}"

    @property
    def title(self) -> str:
        """What a reader calls it, as in "optimal split, nonnegative"."""
        if self.estimator.name == ZEROS:
            return "0 everywhere"
        made = f"{self.split.name} split for this estimator" if self.planned else f"{self.split.name} split"
        return f"{made}, {self.estimator.name}"

    @property
    def slow(self) -> bool:
        """Whether it is tried only when asked for."""
        return self.planned or self.estimator.slow

    @property
    def raw(self) -> bool:
        """Whether the split is made for figures that are not denoised."""
        return not self.estimator.denoises and not self.split.fixed

    @property
    def scales(self) -> bool:
        """Whether one split serves every ε under noise that is proportional to 1/ε²; a user's is asked at each."""
        return self.split.scales and not self.planned


# Of several breakdowns: each planned and denoised by itself, with the part of the budget that it needs, or equal parts.
APART = tuple(
    Method(replace(SPLITS["optimal"], name=name), ESTIMATORS["unbiased"]) for name in ("apart", "equal-parts")
)
JOINT = ("optimal-unbiased", ZEROS)  # are tried beside these


def methods() -> dict[str, Method]:
    """All methods that can be evaluated by name, from the simplest split on, with every estimator that it goes with."""
    found = {}
    for split in (*sorted(SPLITS, key=lambda name: SPLITS[name].work), PLANNED):
        for estimator, kind in ESTIMATORS.items():
            fits = bool(kind.plan) if split == PLANNED else kind.denoises or SPLITS[split].raw
            if fits and kind.name != ZEROS:
                method = Method.of(split, estimator)
                found[method.name] = method
    return found | {ZEROS: Method.of("equal", ZEROS)}


def chosen(names: Collection[str] = (), estimates: Collection[str] = ()) -> tuple[Method, ...]:
    """The methods of these names with these estimators; all but the slow ones by default.

    A name is that of a method, as in optimal-learned, or of a split, as in optimal.
    """
    every, splits = methods(), (*SPLITS, PLANNED)
    for kind, registered, wanted in (("a method", (*splits, *every), names), ("an estimator", ESTIMATORS, estimates)):
        for name in wanted:
            if name not in registered:
                raise InputError(f"{kind} is one of {', '.join(registered)}; got {name!r}")
    tried: dict[str, Method] = {}
    for name in names or (*splits, ZEROS):
        alone = name in every
        of_split = [m for m in every.values() if m.name == name or (not alone and m.name.startswith(f"{name}-"))]
        fits = [m for m in of_split if not estimates or m.estimator.name in estimates]
        if names and not fits:
            able = " or ".join(m.estimator.name for m in of_split)
            raise InputError(f"{name} is tried with the estimator {able}; got {' and '.join(estimates)}")
        quick = [m for m in fits if alone or estimates or not m.slow]
        picked = quick or [m for m in fits if names and not m.estimator.baseline]
        tried |= {m.name: m for m in picked}
    return tuple(m for m in every.values() if m.name in tried)
