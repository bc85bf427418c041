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
from attributary.plan.make import Learn
from attributary.prior import Prior, learn
from attributary.prior.whole_counts import posterior_estimate
from attributary.tree import Tree

TAU = 5.0  # errors are relative to the count, or to this if it is larger


class Background(NamedTuple):
    """What is known besides the measurements; an estimator uses what it can."""

    earlier: Prior | None = None  # of the same tree, in the unit of the measurements
    tau: float = TAU
    worth: float = 1.0  # what a conversion brings on average, in that unit; 1 for counts
    stage: Callable[[str], None] = lambda _: None  # is told what comes next


def unbiased(tree: Tree, measured: Measurements, known: Background, joint: bool, whole: bool) -> Estimate:
    """The unbiased counts of least variance that add up (Algorithm 2)."""
    return denoise(tree, measured, whole=whole)


def nonnegative(tree: Tree, measured: Measurements, known: Background, joint: bool, whole: bool) -> Estimate:
    """Counts that add up and are never negative: family by family from the roots down, or all at once (`joint`)."""
    return denoise(tree, measured, nonnegative="joint" if joint else "top-down", whole=whole)


def learned(tree: Tree, measured: Measurements, known: Background, joint: bool, whole: bool) -> Estimate:
    """Counts that add up and are never negative, with shares learned from these figures and an earlier period."""
    return denoise(tree, measured, prior=learned_shares(tree, measured, known), nonnegative="top-down", whole=whole)


def posterior(tree: Tree, measured: Measurements, known: Background, joint: bool, whole: bool) -> Estimate:
    """Posterior means of whole counts that add up, with a prior learned from these figures and an earlier period."""
    nearest = denoise(tree, measured, nonnegative=True)
    return posterior_estimate(nearest, known.earlier, tau=known.tau, whole=whole, stage=known.stage)


def learned_shares(tree: Tree, measured: Measurements, known: Background) -> Prior:
    """Shares and their spread, learned in units of a conversion: how far a guess is trusted is a number of them."""
    worth = known.worth
    earlier = None if known.earlier is None else known.earlier.times(1 / worth)
    noisy, variance = measured.noisy / worth, measured.variance / worth**2
    return learn(tree, noisy, variance, earlier, tau=known.tau / worth).times(worth)


class EstimatorKind(NamedTuple):
    """An estimator's function, what it can do, and a few words for people."""

    make: Callable[[Tree, Measurements, Background, bool, bool], Estimate]
    words: str
    joint: bool = False  # it can fit all counts at once
    prior: bool = False  # it uses an earlier period
    plan: Learn = False  # what a plan for it expects to be learned from an earlier period
    values: str = ""  # what is used for sums of values, where it is for counts alone


ESTIMATORS = {
    "unbiased": EstimatorKind(unbiased, "adds up, with the least variance"),
    "nonnegative": EstimatorKind(nonnegative, "no count below 0", joint=True, plan="split"),
    "learned": EstimatorKind(
        learned, "also uses shares learned from similar nodes and the prior", prior=True, plan=True
    ),
    "posterior": EstimatorKind(
        posterior,
        "the most probable whole counts on average, for reading and ranking",
        prior=True,
        plan=True,
        values="learned",
    ),
}


@dataclass(frozen=True)
class Estimator:
    """An estimator by its name, with its options; what does not go together is refused."""

    name: str = "unbiased"
    joint: bool = False
    whole: bool = False

    def __post_init__(self) -> None:
        if self.name not in ESTIMATORS:
            raise InputError(f"an estimator is one of {', '.join(ESTIMATORS)}; got {self.name!r}")
        if self.joint and not self.kind.joint:
            able = [name for name, kind in ESTIMATORS.items() if kind.joint]
            raise InputError(f"--joint goes with --estimator {' or '.join(able)}; got --estimator {self.name}")

    @property
    def kind(self) -> EstimatorKind:
        return ESTIMATORS[self.name]

    @property
    def for_values(self) -> "Estimator":
        """The estimator of sums of values, which are not made whole."""
        return Estimator(self.kind.values or self.name, self.joint)

    @property
    def uses_prior(self) -> bool:
        """Whether an earlier period has a part in the estimates."""
        return self.kind.prior

    def refuse_unused(self, prior: str | None, protected: bool = False) -> None:
        """Raises an InputError where a prior, or what is said of one, would have no part in the estimates."""
        if prior is not None and not self.uses_prior:
            able = " or ".join(name for name, kind in ESTIMATORS.items() if kind.prior)
            raise InputError(
                f"--prior goes with --estimator {able}; got --estimator {self.name}: leave one of them out"
            )
        if protected and prior is None:
            raise InputError("--protected is said of the counts in --prior; give that, or leave it out")

    def denoise(self, tree: Tree, measured: Measurements, **known: Any) -> Estimate:
        """The estimate; `earlier`, `tau`, `worth` and `stage` are what is known besides (Background)."""
        return self.kind.make(tree, measured, Background(**known), self.joint, self.whole)
