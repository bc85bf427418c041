"""estimator: what is made of measurements, by name; each is one function of one signature.

    >>> Estimator("nonnegative", joint=True).denoise(tree, measured)
    >>> Estimator("learned").denoise(tree, measured, earlier=last_month, tau=5)

Another estimator is one more function and one more line in ESTIMATORS: commands and pipelines know it by its name.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

from attributary.denoising import Estimate, denoise
from attributary.errors import InputError
from attributary.measurements import Measurements
from attributary.prior import Prior, learn
from attributary.tree import Tree

TAU = 5.0  # errors are relative to the count, or to this if it is larger


class Background(NamedTuple):
    """What is known besides the measurements; an estimator uses what it can."""

    earlier: Prior | None = None  # of the same tree, in the unit of the measurements
    tau: float = TAU
    worth: float = 1.0  # what a conversion brings on average, in that unit; 1 for counts


def unbiased(tree: Tree, measured: Measurements, known: Background, joint: bool, whole: bool) -> Estimate:
    """The unbiased counts of least variance that add up (Algorithm 2)."""
    return denoise(tree, measured, whole=whole)


def nonnegative(tree: Tree, measured: Measurements, known: Background, joint: bool, whole: bool) -> Estimate:
    """Counts that add up and are never negative: family by family from the roots down, or all at once (`joint`)."""
    return denoise(tree, measured, nonnegative="joint" if joint else "top-down", whole=whole)


def learned(tree: Tree, measured: Measurements, known: Background, joint: bool, whole: bool) -> Estimate:
    """Counts that add up and are never negative, with shares learned from these figures and an earlier period."""
    return denoise(tree, measured, prior=learned_shares(tree, measured, known), nonnegative="top-down", whole=whole)


def learned_shares(tree: Tree, measured: Measurements, known: Background) -> Prior:
    """Shares and their spread, learned in units of a conversion: how far a guess is trusted is a number of them."""
    worth = known.worth
    earlier = None if known.earlier is None else known.earlier.times(1 / worth)
    noisy, variance = measured.noisy / worth, measured.variance / worth**2
    return learn(tree, noisy, variance, earlier, tau=known.tau / worth).times(worth)


ESTIMATORS: dict[str, Callable[[Tree, Measurements, Background, bool, bool], Estimate]] = {
    "unbiased": unbiased,
    "nonnegative": nonnegative,
    "learned": learned,
}
JOINT = ("nonnegative",)  # those that can fit all counts at once
WITH_PRIOR = ("learned",)  # those that use an earlier period


@dataclass(frozen=True)
class Estimator:
    """An estimator by its name, with its options; what does not go together is refused."""

    name: str = "unbiased"
    joint: bool = False
    whole: bool = False

    def __post_init__(self) -> None:
        if self.name not in ESTIMATORS:
            raise InputError(f"an estimator is one of {', '.join(ESTIMATORS)}; got {self.name!r}")
        if self.joint and self.name not in JOINT:
            raise InputError(f"joint fitting needs the estimator {' or '.join(JOINT)}; got {self.name}")

    @property
    def uses_prior(self) -> bool:
        """Whether an earlier period has a part in the estimates."""
        return self.name in WITH_PRIOR

    def denoise(self, tree: Tree, measured: Measurements, **known: Any) -> Estimate:
        """The estimate; `earlier`, `tau` and `worth` are what is known besides (Background)."""
        return ESTIMATORS[self.name](tree, measured, Background(**known), self.joint, self.whole)
