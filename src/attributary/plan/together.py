"""together: plans of several breakdowns that share one budget.

Sums by the same attributes are one number, whichever breakdown has them. The budget can be split among them directly:
each sum is asked by itself, in parts in proportion to (weight · error²)^⅓, as those of measures are (under Gaussian
noise, to the square root). Or by hierarchy: each breakdown has a part, in the same proportion, and a tree's split of
it. From both beginnings the contributions of all levels are moved as long as the error of the joint estimate falls, and
the better is taken; a level that others tell well enough loses its key. Other methods than the optimal one give each
breakdown the split that they name, which nothing moves.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property, partial
from math import sqrt
from typing import NamedTuple, Self

import numpy as np

from attributary import budget
from attributary.denoising.crossed import LARGEST, crossed
from attributary.denoising.joint import meetings_of
from attributary.denoising.meeting import Breakdown, Meeting, common_top
from attributary.errors import InputError
from attributary.estimators import Estimator, refuse_estimator
from attributary.noise import model
from attributary.plan.bounds import MissedTargetsError, why_missed
from attributary.plan.contributions import whole
from attributary.plan.errors import PlanErrors
from attributary.plan.limits import cut_off
from attributary.plan.plan import Plan, with_others
from attributary.plan.problem import Problem
from attributary.plan.proposals import Asked, Solve, Wishes
from attributary.plan.sections import Sharing
from attributary.spec import Spec
from attributary.types import Floats, Ints

NODES, SUMS = 100_000, 300  # of all trees, and where they meet: up to there the joint error is worked out at every step
STEPS = (4.0, 2.0, 1.4, 1.15, 1.05)  # factors by which a level's contribution is tried
BETTER = 1e-4  # of the error: a smaller gain ends the search
ROUNDED = 1e-12  # a smaller cost is none
AGAIN = (0.03, 0.2)  # of the budget: what a level without a key is tried with


def plan_together(
    spec: Spec,
    asked: Sequence[Asked],
    wishes: Wishes,
    solve: Solve,
    join: bool = True,
    parts: Sequence[float] | None = None,
) -> Plan:
    """The plan of a spec with several breakdowns, from what is asked of each; `solve` plans one by itself.

    Without `join`, each breakdown is planned as if it were denoised by itself, with its part of the budget.
    """
    if wishes.method in budget.METHODS and budget.METHODS[wishes.method].by_node:
        raise InputError(f"a {wishes.method} plan is of one breakdown; take optimal")
    if wishes.learn is True:
        refuse_estimator(Estimator("learned"))
    several, meetings = len(asked), meetings_of([one.tree for one in asked], spec.called)
    whole_budget = [solve(one, wishes._replace(strict=False)) for one in asked]
    alone, weights = [plan.error for plan in whole_budget], _weights(spec)
    # targets change splits with ε: errors without them keep the parts, so that the ε that a refusal names is enough
    errors = [(plan.unbounded if plan.targets else None) or plan.error for plan in whole_budget]
    need = np.array([w * error**2 if w else 0.0 for w, error in zip(weights, errors, strict=True)])
    share = np.nan_to_num(need) ** (1 / (spec.noise_model.exponent + 1))
    needed = share / share.sum() if share.sum() else np.full(several, 1 / several)
    plans = _divided(spec, asked, wishes, solve, needed if parts is None else np.array(parts))
    equal = _divided(spec, asked, wishes._replace(strict=False), solve, np.full(several, 1 / several))
    each = zip(plans, equal, weights, strict=True)
    plans = [plan if weight else _compared(plan, other) for plan, other, weight in each]
    apart, of_equal = (_mean([plan.error for plan in some], weights) for some in (plans, equal))
    joined = _Joined.of(spec, asked, plans, meetings)
    rows, direct = joined.direct()
    costs = tuple(1 - sqrt((1 - plan.largest_row / spec.budget) ** spec.noise_model.exponent) for plan in plans)
    move = join and joined.simple and budget.METHODS[wishes.method].bounded and not (wishes.share or wishes.keep)
    if move:
        plans, costs = joined.improved(plans, rows)
    return Plan.of_breakdowns(
        spec,
        with_others(plans, spec.called),
        Sharing(
            alone=tuple(alone),
            costs=costs,
            apart=apart,
            equal=of_equal,
            direct=direct,
            cells=joined.through_cells(),
            joined=move,
        ),
    )


def _weights(spec: Spec) -> list[float]:
    return [each.weight for each in spec.breakdowns or ()]


def _mean(errors: Sequence[float], weights: Sequence[float]) -> float:
    return sqrt(sum(w * error**2 for w, error in zip(weights, errors, strict=True) if w) / sum(weights))


def _divided(spec: Spec, asked: Sequence[Asked], wishes: Wishes, solve: Solve, share: Floats) -> list[Plan]:
    """The plan of each breakdown with its part of L1, and the ε that belongs to that: so noise is what it will be."""
    least = np.array([len(part.levels) * len(part.asked) * (spec.given_limit or 1) for part in spec.parts])
    l1 = np.maximum(np.floor(share * spec.l1 + 1e-6).astype(np.int64), 2 * least)
    while l1.sum() > spec.l1:
        l1[np.argmax(l1)] -= l1.sum() - spec.l1
    plans, missed = list[Plan](), list[str]()
    for one, name, part in zip(asked, spec.called, l1.tolist(), strict=True):
        epsilon = spec.noise_model.loss(part / spec.l1)
        small = one.spec.model_copy(update={"epsilon_or_auto": epsilon, "l1": part})
        try:
            plans.append(solve(one._replace(spec=small), wishes).model_copy(update={"spec": one.spec}))
        except MissedTargetsError as error:
            why = why_missed(error.missed, partial(_whole, spec, part / spec.l1))
            missed.append(f"breakdown {name!r} has {part / spec.l1:.1%} of the budget: {why}")
    if missed:
        raise InputError("; ".join(missed))
    return plans


def _whole(spec: Spec, part: float, epsilon: float) -> float:
    """The ε of which a part of the budget has this ε."""
    low, high = epsilon, 4 * epsilon / part
    for _ in range(60):
        middle = (low + high) / 2
        less = model(spec.noise, middle, spec.l1, spec.delta or 0.0).loss(part) < epsilon
        low, high = (middle, high) if less else (low, middle)
    return high


def _compared(plan: Plan, other: Plan) -> Plan:
    """The plan, with the other's errors of equal splits and leaves alone beside its own."""
    shares = tuple(
        share.model_copy(update={"expected": _beside(share.expected, there.expected)})
        if share.expected and there.expected
        else share
        for share, there in zip(plan.measures, other.measures, strict=True)
    )
    return plan.model_copy(update={"measures": shares, "expected": _beside(plan.expected, other.expected)})


class _Slice(NamedTuple):
    """Sums by some attributes of a measure, which is one level of a breakdown or of several."""

    place: int  # of the first of them, among all contributions
    measure: int
    need: float  # weight · error², with all the budget
    cells: float  # of all attributes, at most, that one of the sums has


@dataclass(frozen=True, eq=False)
class _Joined:
    """Several breakdowns, and the error of their joint estimate."""

    spec: Spec
    problems: list[list[Problem]]  # by breakdown and measure
    clips: list[list[float]]
    meetings: list[Meeting]
    guards: list[Floats]  # of each breakdown the largest squared error of each level
    above: bool  # whether they meet in nodes of all, so that nothing has to be solved
    simple: bool  # whether the joint error is worked out: with one row of contributions for all roots, and quickly

    @classmethod
    def of(cls, spec: Spec, asked: Sequence[Asked], plans: Sequence[Plan], meetings: list[Meeting]) -> Self:
        sums = sum(meeting.size for meeting in meetings)
        if sums > LARGEST:
            raise InputError(
                f"breakdowns meet in {sums:,} sums; to solve for all of them takes {32e-9 * sums**2:,.1f} GB; up to "
                f"{LARGEST:,} are solved: leave out an attribute that several breakdowns have"
            )
        problems = [[Problem.of(*one[:3], measure, one.profile) for measure in one.spec.asked] for one in asked]
        above = common_top([one.tree for one in asked], meetings) is not None
        return cls(
            spec,
            problems,
            [[part.clip for part in plan.measures] for plan in plans],
            meetings,
            [
                np.array([one.spec.guard_factor * level.error.equal for level in plan.expected.levels]) ** 2
                for one, plan in zip(asked, plans, strict=True)
            ],
            above,
            not any(plan.roots or one.spec.targets for one, plan in zip(asked, plans, strict=True))
            and (above or sums <= SUMS)
            and sum(len(one.tree) for one in asked) <= NODES,
        )

    def _noise(self, i: int, k: int, contribution: Floats | float) -> Floats:
        q = self.problems[i][k]
        noise = q.spec.noise_model.variance(np.asarray(contribution, np.float64) * (q.spec.epsilon / q.spec.l1))
        made: Floats = noise * self.clips[i][k] ** 2
        return made

    def _errors(self, i: int, k: int, variance: Floats) -> budget.Expected:
        """The errors of estimates with this noise, of which limits have cut off a part."""
        q = self.problems[i][k]
        variance = variance + cut_off(q, q.spec.given_limit or 1, self.clips[i][k]) ** 2
        return budget.Expected.of(q.tree, q.prior.mean, variance, q.tau, q.weights, q.spec.weigh)

    def expected(self, rows: Sequence[Floats]) -> list[list[budget.Expected]]:
        """What to expect of each breakdown and measure if all are denoised together."""
        measures = []
        for k in range(len(self.problems[0])):
            made = []
            for i, each in enumerate(self.problems):
                tree = each[k].tree
                noise = self._noise(i, k, tree.spread(np.asarray(rows[i][k], np.float64)[None], rest=True))
                made.append(Breakdown(tree, np.zeros(len(tree)), noise))
            measures.append([self._errors(i, k, c.variance) for i, c in enumerate(crossed(made, self.meetings))])
        return [list(each) for each in zip(*measures, strict=True)]

    def error(self, rows: Sequence[Floats], weights: Sequence[float]) -> float:
        """The squared error, by the weights of breakdowns; inf where a level breaks its guard."""
        total, trees = 0.0, [each[0].tree for each in self.problems]
        unknown = sum(len(tree.leaves) for tree, row in zip(trees, rows, strict=True) if (row[:, -1] == 0).any())
        if unknown > SUMS and not self.above:
            return float("inf")
        for i, each in enumerate(self.expected(rows)):
            part = np.array([q.measure.weight for q in self.problems[i]])
            levels = part @ np.array([one.levels**2 for one in each]) / part.sum()
            tree = part @ np.array([one.tree**2 for one in each]) / part.sum()
            if weights[i] and (not np.isfinite(tree) or (levels > self.guards[i] * (1 + 1e-6)).any()):
                return float("inf")
            total += weights[i] * float(tree) if weights[i] else 0.0
        return total

    @cached_property
    def places(self) -> Ints:
        """Breakdown, measure and level of all contributions, in the order that they stand in one row of all."""
        each = enumerate(self.problems)
        return np.array([(i, k, j) for i, of in each for k, q in enumerate(of) for j in range(len(q.spec.levels))])

    def _rows(self, flat: Floats) -> list[Floats]:
        """Of each breakdown its contributions by measure and level."""
        parts = np.split(flat, np.flatnonzero(np.diff(self.places[:, 0])) + 1)
        return [part.reshape(len(each), -1) for part, each in zip(parts, self.problems, strict=True)]

    def _within(self, flat: Floats) -> Floats:
        """Scaled to the budget, of which unknown levels have at most their part."""
        first = np.array([each[0].spec.first_unknown for each in self.problems])
        unknown = self.places[:, 2] >= first[self.places[:, 0]]
        budget, part = self.spec.budget, self.spec.privacy_unit.unknown_part
        flat = flat * (budget / flat.sum())
        told, rest = flat[unknown].sum(), flat[~unknown].sum()
        if told <= part * budget:
            return flat
        return np.where(unknown, flat * (part * budget / told), flat * ((1 - part) * budget / rest if rest else 0))

    @cached_property
    def slices(self) -> list[_Slice]:
        """What is asked: sums by the same attributes once, with the weights of all levels that are these sums."""
        labels: dict[str, int] = {}
        for each in self.problems:
            tree = each[0].tree
            labels |= {name: len(tree.labels[k].dictionary) for k, name in enumerate(tree.attributes)}

        @cache
        def errors(i: int, k: int) -> Floats:
            noise = np.full(len(self.problems[i][k].tree), float(self._noise(i, k, self.spec.budget)))
            return np.nan_to_num(self._errors(i, k, noise).levels)

        made: dict[tuple[int, frozenset[str]], _Slice] = {}
        for n, (i, k, level) in enumerate(self.places.tolist()):
            q, tree = self.problems[i][k], self.problems[i][k].tree
            weight = _weights(self.spec)[i] / tree.depth
            sums = k, frozenset(tree.attributes[: level + 1 - tree.total])
            cells = float(np.prod([n for name, n in labels.items() if name not in sums[1]]))
            need = (
                weight
                * float(errors(i, k)[level]) ** 2
                * q.measure.weight
                / sum(q.measure.weight for q in self.problems[i])
            )
            one = made.setdefault(sums, _Slice(n, k, 0.0, cells))
            made[sums] = one._replace(need=one.need + need)
        return list(made.values())

    def direct(self) -> tuple[Floats, float]:
        """Contributions if each sum is asked directly, once, and the error to expect of figures as they are."""
        exponent, flat = self.spec.noise_model.exponent, np.zeros(len(self.places))
        for one in self.slices:
            flat[one.place] = one.need ** (1 / (exponent + 1))
        flat = self._within(flat)
        squares = (one.need / (flat[one.place] / self.spec.budget) ** exponent for one in self.slices if one.need)
        return flat, sqrt(sum(squares) / sum(_weights(self.spec)))

    def through_cells(self) -> float:
        """The error to expect if all sums were added up from cells by all attributes, at most."""
        exponent = self.spec.noise_model.exponent
        unknown = any(q.spec.unknown for each in self.problems for q in each)
        part = self.spec.privacy_unit.unknown_part if unknown else 1.0
        need = np.zeros(len(self.problems[0]))
        for one in self.slices:
            need[one.measure] += one.need * one.cells
        whole_need = (need ** (1 / (exponent + 1))).sum() ** (exponent + 1) / part**exponent
        return sqrt(whole_need / sum(_weights(self.spec)))

    def improved(self, plans: Sequence[Plan], direct: Floats) -> tuple[list[Plan], tuple[float, ...]]:
        """Plans whose contributions are moved between levels as long as the error falls; and what each costs others."""
        weights, several = _weights(self.spec), range(len(plans))
        begin = np.concatenate(
            [np.array([part.default for part in plan.measures], np.float64).ravel() for plan in plans]
        )
        flat, _ = self._best([begin, direct], weights)
        numbers = whole(flat[None] / self.spec.budget, self.spec.budget, "floor")[0]
        spare = self.spec.budget - int(numbers.sum())  # to the largest, unless it is of an unknown level
        if flat.sum() > self.spec.budget * (1 - 1e-9) and self.spec.privacy_unit.unknown_part == 1:
            numbers[np.argmax(numbers)] += spare
        costs = []
        for i in several:
            others, rest = [w for k, w in enumerate(weights) if k != i], self.places[:, 0] != i
            now = self.error(self._rows(flat), [w * (k != i) for k, w in enumerate(weights)])
            left = [one for one in (flat[rest], begin[rest]) if one.any()]
            without = self._without(i)._best(left, others)[1] if left and any(others) else now
            cost = 1 - sqrt(without / now) if now > 0 else 0.0
            costs.append(cost if cost > ROUNDED else 0.0)
        rows = self._rows(numbers)
        made = []
        for plan, each, row, errors in zip(plans, self.problems, rows, self.expected(rows), strict=True):
            of_measures = [
                _beside(PlanErrors.of(q.tree, q.prior.mean, *[e] * 3), part.expected or plan.expected)
                for q, e, part in zip(each, errors, plan.measures, strict=True)
            ]
            shares = tuple(
                part.model_copy(update={"default": tuple(n.tolist()), "expected": part.expected and error})
                for part, n, error in zip(plan.measures, row, of_measures, strict=True)
            )
            together = PlanErrors.together(of_measures, [q.measure.weight for q in each])
            made.append(plan.model_copy(update={"measures": shares, "expected": together}).to_hand_on)
        return made, tuple(costs)

    def _without(self, number: int) -> Self:
        """All breakdowns but one."""
        rest = [i for i in range(len(self.problems)) if i != number]
        problems = [self.problems[i] for i in rest]
        trees = [each[0].tree for each in problems]
        meetings = meetings_of(trees, [self.spec.called[i] for i in rest])
        return replace(
            self,
            problems=problems,
            clips=[self.clips[i] for i in rest],
            guards=[self.guards[i] for i in rest],
            meetings=meetings,
            above=common_top(trees, meetings) is not None,
        )

    def _best(self, begins: Sequence[Floats], weights: Sequence[float]) -> tuple[Floats, float]:
        """The contributions of least error that any beginning leads to."""
        found = [
            _descended(self._within(begin), lambda flat: self.error(self._rows(flat), weights), self._within)
            for begin in begins
        ]
        return min(found, key=lambda one: one[1])


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


def _descended(
    flat: Floats, error: Callable[[Floats], float], within: Callable[[Floats], Floats]
) -> tuple[Floats, float]:
    """Parts of one sum of least error: one part at a time is left out, or made larger or smaller, the others giving."""
    least = error(flat)

    def changed(j: int, value: float) -> Floats:
        tried = flat.copy()
        tried[j] = value
        return within(tried)

    for step in STEPS:
        while True:
            before = least
            for j in range(len(flat)):
                tries = (0.0, flat[j] / step, flat[j] * step) if flat[j] else [part * flat.sum() for part in AGAIN]
                for value in tries:
                    if not value and flat[j] == flat.sum():
                        continue
                    tried = changed(j, value)
                    now = error(tried)
                    if now < least:
                        flat, least = tried, now
            if not least < before * (1 - BETTER):
                break
    return flat, least
