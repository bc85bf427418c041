"""joint: plans of several breakdowns that share one budget.

Each breakdown has a plan of its own, whose contributions have a part of L1. By itself, it has an error that goes with
1 / its part, so that parts in proportion to (weight · error²)^⅓ are best, as those of measures are; under Gaussian
noise, to the square root. But breakdowns help each other: sums that two of them reach are one number, and need one key.
So the contributions of all levels are then moved among levels as long as the error of the joint estimate falls; a level
that another breakdown tells well enough loses its key.
"""

import json
from collections.abc import Callable, Sequence
from itertools import pairwise
from math import sqrt
from typing import Any, Literal, NamedTuple, Self

import numpy as np
from pydantic import BaseModel, Field, ValidationError, model_validator

from attributary import budget, whole_files
from attributary.denoising.crossed import LARGEST, Breakdown, Meeting, crossed
from attributary.denoising.joint import meetings_of
from attributary.errors import InputError
from attributary.plan.contributions import whole
from attributary.plan.errors import PlanErrors
from attributary.plan.file import BREAKDOWNS, from_json, lines, read_text, to_json
from attributary.plan.make import solve
from attributary.plan.plan import OtherParts, Plan
from attributary.plan.privacy import PrivacyWords, privacy_words
from attributary.plan.problem import Problem
from attributary.plan.proposals import Asked, Wishes
from attributary.prior import Prior, none
from attributary.prior.earlier import Profile
from attributary.spec import Spec
from attributary.spec.mistakes import Mistakes, in_words
from attributary.spec.privacy_unit import PrivacyLoss
from attributary.tree import Tree
from attributary.types import Floats

NODES, SUMS = 20_000, 300  # of all trees, and where they meet: up to there the joint error is worked out at every step
STEPS = (4.0, 2.0, 1.4, 1.15, 1.05)  # factors by which a level's contribution is tried
BETTER = 1e-4  # of the error: a smaller gain ends the search


def load_plan(path: str) -> "Plan | JointPlan":
    """The plan in a file, of one breakdown or of several."""
    return JointPlan.load(path) if BREAKDOWNS in read_text(path) else Plan.load(path)


class JointPlan(BaseModel, frozen=True, extra="forbid"):
    """A plan for each breakdown of a spec; all of them together keep to one budget."""

    format: Literal[1] = Field(default=1, description="1 is the only format that this version reads")
    breakdowns: tuple[Plan, ...] = Field(min_length=2, description="a plan for each breakdown of the spec")
    alone: tuple[float, ...] = Field(description="the error of each breakdown if it had all of the budget")
    apart: float = Field(description="the error to expect if breakdowns were planned and denoised by themselves")
    equal: float = Field(description="the same with equal parts of the budget")
    joined: bool = Field(description="whether the joint estimate was part of planning, and of the errors to expect")
    spec: Spec = Field(description="what was asked")

    @model_validator(mode="after")
    def _within_budget(self) -> Self:
        parts = self.spec.parts
        if len(self.breakdowns) != len(parts) or len(self.alone) != len(parts):
            raise InputError(f"a plan has one part for each breakdown of its spec, {len(parts)}; make a new plan")
        for part, plan, name in zip(parts, self.breakdowns, self.spec.called, strict=True):
            if plan.spec.without_targets() != part.without_targets():
                raise InputError(f"the plan of breakdown {name!r} is not of the spec's; make a new plan")
        most, limit = sum(map(largest_row, self.breakdowns)), self.spec.budget
        if most > limit:
            raise InputError(f"contributions of all breakdowns sum to {limit} at most; got {most}: make a new plan")
        if _with_others(self.breakdowns, self.names) != self.breakdowns:
            raise InputError("a plan says what the other breakdowns take of the budget; make a new plan")
        return self

    @property
    def names(self) -> tuple[str, ...]:
        """What the breakdowns are called."""
        return self.spec.called

    @property
    def parts(self) -> tuple[float, ...]:
        """The part of the budget that each breakdown has."""
        return tuple(largest_row(plan) / self.spec.budget for plan in self.breakdowns)

    @property
    def error(self) -> float:
        """The error to expect: the root mean square of all breakdowns, by their weights."""
        return _mean([plan.expected.tree.plan for plan in self.breakdowns], _weights(self.spec))

    @property
    def privacy_loss(self) -> PrivacyLoss:
        """The privacy loss of all breakdowns together, under each neighbour relation."""
        return self.breakdowns[0].privacy_loss

    @property
    def privacy_words(self) -> PrivacyWords:
        """What ε is of, and the privacy losses with what they are of, in sentences."""
        return privacy_words(self.spec, self.privacy_loss, self.breakdowns[0].most_of_all > 1)

    @property
    def fingerprint(self) -> str:
        """Those of all breakdowns, with commas between them."""
        return ",".join(plan.fingerprint for plan in self.breakdowns)

    @property
    def number_of_keys(self) -> int:
        """How many keys a conversion has."""
        return sum(plan.default_keys for plan in self.breakdowns)

    def to_json(self) -> str:
        """The plan as JSON: what is of all breakdowns, and the plan of each under its name."""
        data = json.loads(self.model_dump_json(by_alias=True, exclude_none=True, exclude={"breakdowns"}))
        spec, loss = data.pop("spec"), self.privacy_loss
        data["parts"], data["error"] = self.parts, self.error
        data["privacy"] = {"epsilon": self.spec.epsilon, "unit": self.privacy_words.unit, "loss": loss._asdict()}
        plans = {name: json.loads(to_json(plan)) for name, plan in zip(self.names, self.breakdowns, strict=True)}
        return lines({**data, "breakdowns": plans, "spec": spec}) + "\n"

    @classmethod
    def from_json(cls, text: str, name: str = "the plan") -> Self:
        """The plan in a JSON text; anything wrong with it as an InputError that calls it by its name."""
        try:
            data = json.loads(text)
            plans = data["breakdowns"]
            each = tuple(from_json(json.dumps(plan), None, f"{name}: {called}") for called, plan in plans.items())
        except (ValueError, RecursionError, LookupError, TypeError, AttributeError) as error:
            if isinstance(error, InputError):
                raise
            raise InputError(
                f"{name} is not a plan of several breakdowns; give one that `attributary plan` wrote"
            ) from None
        for derived in ("parts", "error", "privacy"):
            data.pop(derived, None)
        try:
            return cls.model_validate({**data, "breakdowns": each})
        except ValidationError as error:
            raise Mistakes(in_words(error, cls), name) from None

    def save(self, path: str) -> None:
        """Writes the plan to a JSON file, whole or not at all."""
        whole_files.save(self.to_json(), path)

    @classmethod
    def load(cls, path: str) -> Self:
        """The plan in a file."""
        return cls.from_json(read_text(path), path)

    def cost(self, number: int) -> float:
        """By how much the errors of the others would fall without a breakdown, if its part were theirs."""
        return 1.0 - float((1 - self.parts[number]) ** (self.spec.noise_model.exponent / 2))


def largest_row(plan: Plan) -> int:
    """What the contributions of one conversion sum to at most."""
    return max(sum(row) for row in (plan.default, *plan.roots.values()))


def make_joint_plan(
    spec: Spec,
    trees: Sequence[Tree],
    priors: Sequence[Prior | None] | None = None,
    method: str = "optimal",
    *,
    profiles: Sequence[Profile | None] | None = None,
    join: bool = True,
    **wishes: Any,
) -> JointPlan:
    """The plan of a spec with several breakdowns, from their trees, and from what is known of each beforehand.

    Without `join`, each breakdown is planned as if it were denoised by itself.
    """
    parts, several = spec.parts, len(spec.parts)
    if method in budget.METHODS and budget.METHODS[method].by_node:
        raise InputError(f"a {method} plan is of one breakdown; take optimal")
    if several < 2 or len(trees) != several:
        raise InputError(f"a plan of several breakdowns needs a tree for each; got {several} and {len(trees)} trees")
    each = zip(parts, trees, priors or [None] * several, profiles or [None] * several, strict=True)
    asked = [Asked(part, tree, prior or none(tree), profile) for part, tree, prior, profile in each]
    wanted, meetings = Wishes(method, **wishes), meetings_of(trees, spec.called)
    alone = [solve(one, wanted) for one in asked]
    weights, errors = _weights(spec), [plan.expected.tree.plan for plan in alone]
    need = np.array([w * error**2 for w, error in zip(weights, errors, strict=True)])
    share = np.nan_to_num(need) ** (1 / (spec.noise_model.exponent + 1))
    plans = _divided(spec, asked, wanted, share / share.sum() if share.sum() else np.full(several, 1 / several))
    equal = _divided(spec, asked, wanted._replace(strict=False), np.full(several, 1 / several))
    apart, of_equal = (_mean([plan.expected.tree.plan for plan in some], weights) for some in (plans, equal))
    joined = _Joined.of(asked, plans, meetings, weights) if join else None
    if joined is not None:
        plans = joined.improved(plans, movable=spec.budget)
    return JointPlan(
        breakdowns=_with_others(plans, spec.called),
        alone=tuple(errors),
        apart=apart,
        equal=of_equal,
        joined=joined is not None,
        spec=spec,
    )


def _weights(spec: Spec) -> list[float]:
    return [each.weight for each in spec.breakdowns or ()]


def _mean(errors: Sequence[float], weights: Sequence[float]) -> float:
    return sqrt(sum(w * error**2 for w, error in zip(weights, errors, strict=True)) / sum(weights))


def _divided(spec: Spec, asked: Sequence[Asked], wishes: Wishes, share: Floats) -> list[Plan]:
    """The plan of each breakdown with its part of L1, and the ε that belongs to that: so noise is what it will be."""
    least = np.array([len(part.levels) * len(part.asked) * (spec.given_limit or 1) for part in spec.parts])
    l1 = np.maximum(np.floor(share * spec.l1 + 1e-6).astype(np.int64), 2 * least)
    while l1.sum() > spec.l1:
        l1[np.argmax(l1)] -= l1.sum() - spec.l1
    plans = []
    for one, part in zip(asked, l1.tolist(), strict=True):
        epsilon = spec.noise_model.loss(part / spec.l1)
        small = one.spec.model_copy(update={"epsilon_or_auto": epsilon, "l1": part})
        plans.append(solve(one._replace(spec=small), wishes).model_copy(update={"spec": one.spec}))
    return plans


def _with_others(plans: Sequence[Plan], names: Sequence[str]) -> tuple[Plan, ...]:
    """Each plan with what the other breakdowns take of the budget."""
    spent = [plan.model_copy(update={"others": None}).spent for plan in plans]
    made = []
    for i, plan in enumerate(plans):
        rest = [one for k, one in enumerate(spent) if k != i]
        purchase = [one.purchase for one in rest if one.purchase is not None]
        others = OtherParts(
            names=tuple(name for k, name in enumerate(names) if k != i),
            path=sum(one.path for one in rest),
            unknown=sum(one.unknown for one in rest),
            purchase=sum(purchase) if len(purchase) == len(rest) else None,
        )
        made.append(plan.model_copy(update={"others": others}))
    return tuple(made)


class _Joined(NamedTuple):
    """Several breakdowns of one measure, and the error of their joint estimate."""

    asked: Sequence[Asked]
    problems: list[Problem]
    meetings: list[Meeting]
    weights: Sequence[float]
    guards: list[Floats]  # of each breakdown the largest squared error of each level

    @classmethod
    def of(
        cls, asked: Sequence[Asked], plans: Sequence[Plan], meetings: list[Meeting], weights: Sequence[float]
    ) -> "_Joined | None":
        """None where the joint error takes too long to work out, or rows of contributions differ among roots."""
        sums = sum(meeting.size for meeting in meetings)
        if sums > LARGEST:
            raise InputError(
                f"breakdowns meet in {sums:,} sums; to solve for all of them takes {32e-9 * sums**2:,.1f} GB; up to "
                f"{LARGEST:,} are solved: leave out an attribute that several breakdowns have"
            )
        simple = all(not plan.roots and len(plan.measures) == 1 for plan in plans)
        wanted = any(one.spec.targets for one in asked)
        if not simple or wanted or sums > SUMS or sum(len(one.tree) for one in asked) > NODES:
            return None
        problems = [Problem.of(spec, tree, prior, None, profile) for spec, tree, prior, profile in asked]
        guards = [
            np.array([one.spec.guard_factor * level.error.equal for level in plan.expected.levels]) ** 2
            for one, plan in zip(asked, plans, strict=True)
        ]
        return cls(asked, problems, meetings, weights, guards)

    def expected(self, rows: Sequence[Floats]) -> list[budget.Expected]:
        """What to expect of each breakdown if all are denoised together."""
        made = []
        for q, row in zip(self.problems, rows, strict=True):
            each = q.tree.spread(np.asarray(row, np.float64)[None], rest=True)
            noise = q.spec.noise_model.variance(each * (q.spec.epsilon / q.spec.l1)) * (q.measure.limit or 1.0) ** 2
            made.append(Breakdown(q.tree, np.zeros(len(q.tree)), noise))
        counts = crossed(made, self.meetings)
        return [
            budget.Expected.of(q.tree, q.prior.mean, c.variance, q.tau, q.weights, q.spec.weigh)
            for q, c in zip(self.problems, counts, strict=True)
        ]

    def error(self, rows: Sequence[Floats]) -> float:
        """The squared error, by the weights of breakdowns; inf where a level breaks its guard."""
        total = 0.0
        for weight, guard, each in zip(self.weights, self.guards, self.expected(rows), strict=True):
            if not np.isfinite(each.tree) or (each.levels**2 > guard * (1 + 1e-6)).any():
                return float("inf")
            total += weight * each.tree**2
        return total

    def improved(self, plans: Sequence[Plan], movable: int) -> list[Plan]:
        """Plans whose contributions are moved between levels as long as the error falls."""
        widths = np.cumsum([0, *(len(plan.levels) for plan in plans)])

        def rows(flat: Any) -> list[Any]:
            return [flat[a:b] for a, b in pairwise(widths.tolist())]

        unknown = np.concatenate([np.arange(len(q.spec.levels)) >= q.spec.first_unknown for q in self.problems])
        most = self.problems[0].spec.privacy_unit.unknown_part * movable

        def error(flat: Floats) -> float:
            return self.error(rows(flat)) if flat[unknown].sum() <= most * (1 + 1e-9) else float("inf")

        start = np.concatenate([np.array(plan.default, np.float64) for plan in plans])
        flat = _descended(start * (movable / start.sum()), error)
        numbers = whole(flat[None] / movable, movable)[0] if error(flat) < error(start) else start.astype(np.int64)
        if numbers[unknown].sum() > most:
            numbers = np.floor(flat).astype(np.int64)
        made = []
        for plan, q, row, each in zip(plans, self.problems, rows(numbers), self.expected(rows(numbers)), strict=True):
            share = plan.measures[0].model_copy(update={"default": tuple(row.tolist())})
            errors = _beside(PlanErrors.of(q.tree, q.prior.mean, each, each, each), plan.expected)
            made.append(plan.model_copy(update={"measures": (share,), "expected": errors}).to_hand_on)
        return made


def _beside(ours: PlanErrors, before: PlanErrors) -> PlanErrors:
    """These errors of a plan, with those of the other splits as they were."""
    levels = tuple(
        one.model_copy(update={"error": other.error.model_copy(update={"plan": one.error.plan})})
        for one, other in zip(ours.levels, before.levels, strict=True)
    )
    tree, roots = (
        getattr(before, name).model_copy(update={"plan": getattr(ours, name).plan}) for name in ("tree", "roots")
    )
    return PlanErrors(levels=levels, tree=tree, roots=roots)


def _descended(flat: Floats, error: Callable[[Floats], float]) -> Floats:
    """Parts of one sum of least error: one part at a time is left out, or made larger or smaller, the others giving."""
    total, least = flat.sum(), error(flat)

    def scaled(j: int, factor: float) -> Floats:
        tried = flat.copy()
        tried[j] *= factor
        tried *= total / tried.sum()
        return tried

    for step in STEPS:
        while True:
            before = least
            for j in range(len(flat)):
                for factor in (0.0, 1 / step, step) if flat[j] else ():
                    if flat[j] == flat.sum():
                        continue
                    tried = scaled(j, factor)
                    now = error(tried)
                    if now < least:
                        flat, least = tried, now
            if not least < before * (1 - BETTER):
                break
    return flat
