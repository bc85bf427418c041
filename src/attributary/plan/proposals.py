"""proposals: what a plan is asked for, and how an API may propose several ways to measure it.

Most APIs have one way. One that has several (schemes of reports, say) brings `Proposals` with its terms: it solves each
way as a spec of its own, and chooses.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping
from typing import NamedTuple

from attributary.errors import InputError
from attributary.estimators import Learn
from attributary.plan.contributions import Rounding
from attributary.plan.plan import Plan
from attributary.plan.problem import Problem, Shares
from attributary.prior import Prior
from attributary.prior.earlier import Profile
from attributary.spec import Spec
from attributary.tree import Tree
from attributary.types import Floats


class Asked(NamedTuple):
    """A spec, the tree it is asked of, and what is known beforehand."""

    spec: Spec
    tree: Tree
    prior: Prior
    profile: Profile | None = None


class Wishes(NamedTuple):
    """How a plan is to be made; the words are those of `make_plan`."""

    method: str
    rounding: Rounding = "largest-remainder"
    learn: Learn = False
    share: Mapping[str, float] = {}
    keep: Collection[str] = ()
    phases: int = 20
    strict: bool = True


Solve = Callable[[Asked, Wishes], Plan]


class Excess(NamedTuple):
    """How many times its bound the worst error has; 0 if none is above. The guard comes first, then the targets."""

    guard: float = 0.0
    target: float = 0.0


class Bounds(NamedTuple):
    """Guard and targets, for shares that an API rounds to few contributions."""

    equal: Shares  # which keep to the guard
    judged: Callable[[Problem, Floats], tuple[Floats, Floats, Floats]]  # of (splits, levels, rows): squares, excesses
    excess: Callable[[Problem, Shares], Excess]


class Proposals(ABC):
    """The ways in which an API can measure what a spec asks for."""

    @abstractmethod
    def decided(self, spec: Spec) -> bool:
        """Whether the spec names one of them."""

    @abstractmethod
    def choose(self, asked: Asked, wishes: Wishes, solve: Solve) -> Plan:
        """The plan of the best way, or of the one that the spec names, and what the others would mean."""

    def fitted(self, problem: Problem, share: Shares, wishes: Wishes, bounds: Bounds | None) -> Spec:
        """The spec with an L1 and an ε that suit the shares, where the API leaves these open."""
        return problem.spec

    def improved(self, problem: Problem, share: Shares, whole: Shares, wishes: Wishes, bounds: Bounds | None) -> Shares:
        """Better contributions than the `whole` ones that shares are rounded to, where a conversion has few to give."""
        return whole


def proposals_of(spec: Spec) -> Proposals | None:
    """The proposals of the spec's API; None where it has one way to measure."""
    made = spec.terms.proposals and spec.terms.proposals()
    if made is not None and not isinstance(made, Proposals):
        raise InputError(f"the terms of the {spec.terms.title} give proposals as plan.Proposals; got {made!r:.60}")
    return made
