"""estimators: what is made of measurements. One registry for `run`, `denoise`, `evaluate` and `paper`.

An estimator is a function (tree, measured, known) → Estimate; options (`joint`, `whole`) are keyword arguments that
it takes. Another one is one more function, registered under a name:

    >>> register(EstimatorKind("halves", lambda tree, measured, known: …, "half of everything"))
    >>> Estimator("nonnegative", joint=True).denoise(tree, measured, tau=5)
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, NamedTuple

import numpy as np

from attributary import rmsre
from attributary.denoising import Estimate, denoise
from attributary.denoising.posterior import FamilyPrior, KnownFamilies
from attributary.errors import InputError
from attributary.measurements import Measurements
from attributary.prior import Prior, learn
from attributary.prior.whole_counts import posterior_estimate
from attributary.tree import Tree
from attributary.types import Floats

Learn = bool | Literal["split"]  # whether a plan is for estimates that use what is learned, or its split alone


class Background(NamedTuple):
    """Knowledge besides the measurements; an estimator uses what it can."""

    earlier: Prior | None = None  # of the same tree, in the unit of the measurements
    tau: float = rmsre.TAU
    worth: float = 1.0  # what a conversion brings on average, in that unit; 1 for counts
    stage: Callable[[str], None] = lambda _: None  # is told what comes next
    families: FamilyPrior | None = None  # how families share, where that was learned elsewhere: on a cluster


def unbiased(tree: Tree, measured: Measurements, known: Background, *, whole: bool = False) -> Estimate:
    """The unbiased counts of least variance that add up (Algorithm 2)."""
    return denoise(tree, measured, whole=whole)


def nonnegative(
    tree: Tree, measured: Measurements, known: Background, *, joint: bool = False, whole: bool = False
) -> Estimate:
    """Counts that add up and are never negative: family by family from the roots down, or all at once (`joint`)."""
    return denoise(tree, measured, nonnegative="joint" if joint else "top-down", whole=whole)


def learned(tree: Tree, measured: Measurements, known: Background, *, whole: bool = False) -> Estimate:
    """Counts that add up and are never negative, with shares learned from these figures and an earlier period."""
    return denoise(tree, measured, prior=learned_shares(tree, measured, known), nonnegative="top-down", whole=whole)


def posterior(tree: Tree, measured: Measurements, known: Background, *, whole: bool = False) -> Estimate:
    """Posterior means of whole counts that add up, with a prior learned from these figures and an earlier period."""
    nearest, (earlier, tau, _, stage, families) = denoise(tree, measured, nonnegative=True), known
    return posterior_estimate(nearest, earlier, tau=tau, whole=whole, stage=stage, families=families)


def learned_shares(tree: Tree, measured: Measurements, known: Background) -> Prior:
    """Shares and their spread, learned in units of a conversion: how far a guess is trusted is a number of them."""
    worth = known.worth
    earlier = None if known.earlier is None else known.earlier.times(1 / worth)
    noisy, variance = measured.noisy / worth, measured.variance / worth**2
    return learn(tree, noisy, variance, earlier, tau=known.tau / worth).times(worth)


# Baselines


def raw(tree: Tree, measured: Measurements, known: Background) -> Estimate:
    """The noisy values as they are: they do not add up, and nodes that were not measured are infinite."""
    values = np.where(measured.variance < np.inf, measured.noisy, np.inf)
    return Estimate(tree, measured, values, measured.variance, values)


def zeros(tree: Tree, measured: Measurements, known: Background) -> Estimate:
    """0 for every node: a larger error than this is worse than not measuring."""
    nothing = np.zeros(len(tree))
    return Estimate(tree, measured, nothing, nothing, nothing)


@dataclass(frozen=True, eq=False)
class KnownProcess(Prior):
    """A prior, and beside it α of each node: of the process itself, and given the earlier counts as they were.

    Estimators do not see them; the limit of what any of them can reach is made of them.
    """

    alpha: Floats | None = None
    alpha_with_past: Floats | None = None
    tilt: float = 0.0  # the logarithm of the roots' tilt: they are negative binomial
    tilt_with_past: float = 0.0


def limit(tree: Tree, measured: Measurements, known: Background, *, past: bool = False) -> Estimate:
    """Posterior means under the very process that generated the counts: no estimator has a smaller squared error.

    With `past`, it also knows the counts of the earlier period without noise: the limit for estimators that use one.
    """
    process = known.earlier
    assert isinstance(process, KnownProcess)
    alpha, tilt = (process.alpha_with_past, process.tilt_with_past) if past else (process.alpha, process.tilt)
    assert alpha is not None
    return posterior_estimate(denoise(tree, measured, nonnegative=True), families=KnownFamilies(alpha, tilt))


@dataclass(frozen=True)
class EstimatorKind:
    """An estimator's function, what it can do, and a few words for people."""

    name: str
    make: Callable[..., Estimate]  # (tree, measured, Background), and its options by name
    words: str
    options: tuple[str, ...] = ()
    prior: bool = False  # it uses an earlier period
    plan: Learn = False  # what a plan for it expects to be learned from an earlier period
    values: str = ""  # what is used for sums of values, where it is for counts alone
    linear: bool = False  # its errors have a closed form: its variances, and its counts where there is no noise
    batched: bool = False  # it treats each root on its own, so that several draws can be handed to it as one forest
    slow: bool = False  # it takes long, and is evaluated only when asked for
    baseline: bool = False  # it is there to compare with, and is not offered as an estimator
    needs: str = ""  # what it must know of the process that generated the counts (`KnownProcess`)
    denoises: bool = True  # levels without a figure are summed from those below them


ESTIMATORS: dict[str, EstimatorKind] = {}
WHOLE, JOINT = ("whole",), ("joint", "whole")


def register(*kinds: EstimatorKind) -> None:
    """Adds estimators to the registry; a name that is taken is refused."""
    for kind in kinds:
        if kind.name in ESTIMATORS:
            raise ValueError(f"an estimator named {kind.name!r} is registered already; choose another name")
        ESTIMATORS[kind.name] = kind


LEARNED = "also uses shares learned from similar nodes and the prior"
POSTERIOR = "posterior mean of whole counts, for reading and ranking"
LIMIT0 = "on generated forests: the least error of any estimator"
LIMIT1 = "the same if the earlier period is known without noise"
register(
    EstimatorKind("raw", raw, "the noisy values as they are", linear=True, batched=True, baseline=True, denoises=False),
    EstimatorKind("unbiased", unbiased, "adds up, with the least variance", WHOLE, linear=True, batched=True),
    EstimatorKind("nonnegative", nonnegative, "no count below 0", JOINT, plan="split", batched=True),
    EstimatorKind("learned", learned, LEARNED, WHOLE, prior=True, plan=True, slow=True),
    EstimatorKind("posterior", posterior, POSTERIOR, WHOLE, prior=True, plan=True, slow=True, values="learned"),
    EstimatorKind("zeros", zeros, "0 everywhere", linear=True, batched=True, baseline=True),
    EstimatorKind("limit0", limit, LIMIT0, plan=True, slow=True, baseline=True, needs="alpha"),
    EstimatorKind(
        "limit1", partial(limit, past=True), LIMIT1, plan=True, slow=True, baseline=True, needs="alpha_with_past"
    ),
)


def offered(able: Callable[[EstimatorKind], object] = lambda kind: True) -> list[str]:
    """The names of the estimators that users choose from; of those that are able to do something."""
    return [name for name, kind in ESTIMATORS.items() if not kind.baseline and able(kind)]


@dataclass(frozen=True)
class Estimator:
    """An estimator by its name, with its options; what does not go together is refused."""

    name: str = "unbiased"
    joint: bool = False
    whole: bool = False

    def __post_init__(self) -> None:
        if self.name not in offered():
            raise InputError(f"an estimator is one of {', '.join(offered())}; got {self.name!r}")
        for option in self._options:
            if option not in self.kind.options:
                able: Iterable[str] = offered(lambda kind: option in kind.options)  # noqa: B023
                raise InputError(f"`{option}` goes with `estimator={' or '.join(able)}`; got `estimator={self.name}`")

    @property
    def kind(self) -> EstimatorKind:
        return ESTIMATORS[self.name]

    @property
    def _options(self) -> dict[str, bool]:
        return {name: True for name, given in (("joint", self.joint), ("whole", self.whole)) if given}

    @property
    def for_values(self) -> "Estimator":
        """The estimator of sums of values, which are not made whole."""
        return Estimator(self.kind.values or self.name, self.joint)

    @property
    def uses_prior(self) -> bool:
        """True if the estimates use an earlier period."""
        return self.kind.prior

    def refuse_unused(self, prior: str | None, protected: bool = False) -> None:
        """Raises an InputError where a prior, or what is said of one, would have no part in the estimates."""
        if prior is not None and not self.uses_prior:
            able = " or ".join(offered(lambda kind: kind.prior))
            raise InputError(
                f"`prior` goes with `estimator={able}`; got `estimator={self.name}`: leave one of them out"
            )
        if protected and prior is None:
            raise InputError("`protected` describes the counts in `prior`; give those, or leave it out")

    def denoise(self, tree: Tree, measured: Measurements, **known: Any) -> Estimate:
        """The estimate; `earlier`, `tau`, `worth` and `stage` are what is known besides (Background)."""
        return self.kind.make(tree, measured, Background(**known), **self._options)


FIT = Estimator("nonnegative", joint=True)  # the only one besides unbiased for several breakdowns


def refuse_estimator(estimator: Estimator) -> None:
    """Refuses estimators that denoise one tree alone."""
    if estimator not in (Estimator(), FIT):
        options = f"estimator={estimator.name}" + " and `whole`" * estimator.whole
        raise InputError(
            f"{options} denoises one tree alone; several breakdowns are denoised together: take unbiased, or "
            "nonnegative with `joint`"
        )
