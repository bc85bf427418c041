"""make: from a spec, a tree and a prior to a plan of least error, bias² + variance, for all measures.

    problems → method → bounds → whole contributions → errors to expect → plan

A problem is one measure on the tree. What has several ways to be measured (another kind of noise, the schemes of an
API) is solved once for each.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from math import sqrt
from typing import NamedTuple, Self

import numpy as np

from attributary import budget
from attributary.budget import METHODS, BudgetMethod
from attributary.budget.classes import CondensedTree
from attributary.errors import InputError
from attributary.estimators import Learn
from attributary.plan.bounds import (
    ENOUGH,
    Missed,
    MissedTargetsError,
    at_least,
    bounded_shares,
    bounds_of,
    half_width_of,
    least_shares,
    needed_epsilon,
)
from attributary.plan.condense import condense
from attributary.plan.contributions import Rounding, contributions, most_of_unseen
from attributary.plan.errors import PlanErrors, TargetError
from attributary.plan.limits import ChosenLimits, best_parts, choose, cut_off, measure_errors
from attributary.plan.plan import Plan, checksum
from attributary.plan.problem import Problem, Shares, in_parts, shares
from attributary.plan.proposals import Asked, Bounds, Wishes, proposals_of
from attributary.plan.sections import MeasureShare, OtherNoise, PerImpression, PriorNote, Trade
from attributary.plan.together import plan_together
from attributary.prior import Prior, none
from attributary.prior.earlier import Profile
from attributary.spec import Spec
from attributary.spec.measure import EQUAL, REPORTS
from attributary.tree import Tree
from attributary.types import Floats, Ints

DELTA = 1e-6  # of Gaussian noise that Laplace noise is compared with
MANY = 1_000_000  # nodes: a plan for more is made of their classes
GUESS = 4.0  # an ε to begin with, where the least is to be found
ROUNDS = 3  # of limits for an ε, and an ε for these limits
BESIDE = ("equal", "leaves")  # the splits that a plan is compared with
WITH_LIMITS = "counts of an earlier period, as `attributary count` writes them for this spec"


def make_plan(
    spec: Spec,
    tree: Tree | Sequence[Tree],
    prior: Prior | Sequence[Prior | None] | None = None,
    method: str = "optimal",
    *,
    share: Mapping[str, float] | None = None,
    keep: Collection[str] = (),
    rounding: Rounding = "largest-remainder",
    phases: int = 20,
    profile: Profile | Sequence[Profile | None] | None = None,
    learn: Learn = False,
    compare: bool = True,
    strict: bool = True,
) -> Plan:
    """The plan that a method makes for a tree, with the errors to expect if the counts will be as in the prior.

    The optimal plan meets the spec's targets and keeps to its guard. Where it cannot, that is an error, which says what
    would help; unless `strict` is false: then it comes as near as possible. `share` fixes the part of ε that a level
    gets (0: no key); the levels in `keep` get at least half of an equal share, whatever the method says.
    Values, and limits that the plan is to choose, need a `profile` beside the prior. With several measures, shares are
    parts of each measure's part. With `learn`, plan and errors are for estimates that use what is known, the prior
    included, as `prior.learn` finds it; should that be worth nothing, the split is still good for unbiased ones. With
    "split" only the split is, and errors are of unbiased estimates: it suits non-negative ones, too. Without `compare`,
    the plan does not say what the other kind of noise, or other schemes of the API, would mean.

    Of a spec with several breakdowns, trees, priors and profiles are lists with one for each.
    """
    wishes = Wishes(method, rounding, learn, share or {}, keep, phases, strict)
    each = each_asked(spec, tree, prior, profile)
    if len(each) > 1:
        return plan_together(spec, each, wishes, solve)
    labels = dict(zip(each[0].tree.attributes, each[0].tree.labels, strict=True))
    spec = spec.with_values(lambda name: labels[name].dictionary.cast("string").to_pylist())
    asked = each[0]._replace(spec=spec)
    proposals = proposals_of(spec)
    if proposals is not None and (compare or not proposals.decided(spec)):
        return proposals.choose(asked, wishes, solve)
    plan = solve(asked, wishes)
    other = _other_noise(plan) if compare else None
    if other is None:
        return plan
    there = solve(asked._replace(spec=other), wishes._replace(strict=False))
    keys = plan.default_keys
    error = there.expected.tree.plan
    return plan.model_copy(
        update={"other_noise": OtherNoise(noise=other.noise, delta=other.delta, error=error, keys=keys)}
    )


def each_asked(
    spec: Spec,
    tree: Tree | Sequence[Tree],
    prior: Prior | Sequence[Prior | None] | None = None,
    profile: Profile | Sequence[Profile | None] | None = None,
) -> list[Asked]:
    """What is asked of each breakdown; of a spec with one, trees, priors and profiles need no list."""
    trees = [tree] if isinstance(tree, Tree) else list(tree)
    priors = [prior] * len(trees) if prior is None or isinstance(prior, Prior) else prior
    profiles = [profile] * len(trees) if profile is None or isinstance(profile, Profile) else profile
    if not len(spec.parts) == len(trees) == len(priors) == len(profiles):
        raise InputError(f"a plan needs a tree for each breakdown, {len(spec.parts)}; got {len(trees)} trees")
    each = zip(spec.parts, trees, priors, profiles, strict=True)
    return [Asked(part, tree, prior or none(tree), profile) for part, tree, prior, profile in each]


def solve(asked: Asked, wishes: Wishes) -> Plan:
    """The plan for a spec as it stands, beside no other noise and no other scheme."""
    asked = asked if asked.spec.has_limits else asked._replace(profile=None)  # nothing is cut off
    _check(asked, wishes)
    if len(asked.tree) > MANY and not (wishes.learn or METHODS[wishes.method].by_node or asked.spec.terms.proposals):
        asked = _of_classes(asked)
    method, near = METHODS[wishes.method], list[Floats]()
    if asked.spec.finds_epsilon:
        fine, near = _least_epsilon(asked, wishes)
    else:
        fine = Division.of(_problems(asked, wishes), method, wishes.keep)
    free = fine.fitted(wishes)
    within, made, missed = fine.settled(free, wishes, method.bounded, near)
    if wishes.strict and missed and missed.targets:
        raise MissedTargetsError(missed)
    whole = within.expecting(wishes, made)
    beside = [
        whole if name == wishes.method else other.expecting(wishes, other.rounded(wishes, improve=False))
        for name, other in ((name, fine._replace(split=split)) for name, split in fine.beside.items())
    ]
    unchanged = within.split[0] is free.split[0]
    unbounded = whole if unchanged else free.expecting(wishes, free.rounded(wishes))
    return _plan(asked, wishes, within, whole, beside, unbounded)


def _of_classes(asked: Asked) -> Asked:
    """The same on a condensed tree."""
    spec, tree, prior, profile = asked
    if isinstance(tree, CondensedTree):
        return asked
    little, known = condense(tree, replace(prior, profile=profile), spec.split_by is not None).forest
    return Asked(spec, little, known, known.profile)


class _Whole(NamedTuple):
    """Whole contributions, and what to expect of them for each problem."""

    contributions: list[Shares]
    expected: list[budget.Expected]


class Division(NamedTuple):
    """What a method makes of problems that share a budget: limits, the parts of ε, and those of other splits."""

    problems: list[Problem]
    limits: ChosenLimits
    split: list[Shares]
    beside: Mapping[str, list[Shares]] = {}  # with equal parts for all measures
    bounds: Bounds | None = None  # of shares that an API rounds to few contributions

    @classmethod
    def of(
        cls,
        problems: list[Problem],
        method: BudgetMethod,
        keep: Collection[str] = (),
        beside: Collection[str] = BESIDE,
        split: list[Shares] | None = None,
    ) -> Self:
        """Limits and parts of least error, without bounds; a `split` that is known already is not made again."""
        least = least_shares(problems[0].spec, keep)
        split = split or [shares(q, method) for q in problems]
        split = [at_least(*both, least) for both in zip(problems, split, strict=True)]
        others = {n: split if METHODS[n] is method else [shares(q, n) for q in problems] for n in beside}
        errors = [measure_errors(*both) for both in zip(problems, split, strict=True)]
        limits = choose(errors, conversions_to_try(problems[0].spec, problems[0].profile))
        return cls(
            problems,
            limits,
            in_parts(problems, split, best_parts(errors, limits)),
            {name: in_parts(problems, other) for name, other in others.items()},
        )

    def bounded(self, keep: Collection[str] = (), near: Sequence[Floats] = ()) -> tuple[Self, Missed | None]:
        """The same within the spec's guard and targets, and what is missed of them; it takes an equal split beside."""
        least, equal = least_shares(self.problems[0].spec, keep), self.beside["equal"]
        split, missed = bounded_shares(self.problems, self.limits, self.split, equal, least, near)
        return self._replace(split=split), missed

    def settled(
        self, free: Self, wishes: Wishes, bounded: bool, near: Sequence[Floats] = ()
    ) -> tuple[Self, list[Shares], Missed | None]:
        """The same within bounds, its whole contributions, and what is missed; `free` is the same `fitted`."""
        within, missed = free.bounded(wishes.keep, near) if bounded else (free, None)
        made = within.rounded(wishes, improve=within.split[0] is free.split[0])
        q = within.problems[0]
        if bounded and proposals_of(q.spec) is not None:
            bounds = bounds_of(self.problems, self.limits, self.beside["equal"])
            if any(bounds.excess(q, made[0].parts(q.spec.l1))):  # credits suit the shares without bounds
                split = self.bounded(wishes.keep, near)[0].split
                within = self._replace(split=split, bounds=bounds).fitted(wishes)
                made = within.rounded(wishes)
        return within, made, missed

    @property
    def most_of_heads(self) -> Ints:
        """How many conversions of an impression count, by head."""
        most, new = self.limits.most, self.problems[0].new
        unseen = most_of_unseen(most)
        return np.where(new, unseen, most) if self.problems[0].by_root else np.full(len(new), unseen)

    def fitted(self, wishes: Wishes) -> Self:
        """The same with the L1 and the ε that the API proposes for these shares, within the bounds."""
        q, proposals = self.problems[0], proposals_of(self.problems[0].spec)
        if proposals is None:
            return self
        spec = proposals.fitted(q, self.split[0], wishes, self.bounds)
        return self if spec is q.spec else self._replace(problems=[replace(q, spec=spec)])

    def rounded(self, wishes: Wishes, improve: bool = True) -> list[Shares]:
        """Whole contributions; the API may `improve` them within the bounds."""
        made = contributions(self.problems, self.split, self.limits.most, wishes.rounding, wishes.keep)
        proposals = proposals_of(self.problems[0].spec)
        if proposals is not None and improve:
            made = [proposals.improved(self.problems[0], self.split[0], made[0], wishes, self.bounds)]
        return made

    def expecting(self, wishes: Wishes, made: list[Shares]) -> _Whole:
        """Whole contributions, and the errors to expect."""
        unbiased, errors = wishes.learn == "split", list[budget.Expected]()
        for q, each, clip in zip(self.problems, made, self.limits.clips, strict=True):
            q = replace(q, expects=None) if unbiased else q
            errors.append(_errors(q, each.of_nodes(q.tree), clip, self.most_of_heads))
        return _Whole(made, errors)


def _problems(asked: Asked, wishes: Wishes) -> list[Problem]:
    """A problem for each measure."""
    spec, tree, prior, profile = asked
    fixed, learn = _fixed(spec, wishes.share, wishes.keep), bool(wishes.learn)
    each = [Problem.of(spec, tree, prior, measure, profile, fixed=fixed, learn=learn) for measure in spec.asked]
    return [replace(q, phases=wishes.phases) for q in each]


def _least_epsilon(asked: Asked, wishes: Wishes) -> tuple[Division, list[Floats]]:
    """The same under the least ε that meets all bounds, and shares that do."""
    least, near = least_shares(asked.spec, wishes.keep), list[Floats]()

    def at(spec: Spec) -> Division:
        return Division.of(_problems(asked._replace(spec=spec), wishes), METHODS[wishes.method], wishes.keep)

    free = at(asked.spec.at(GUESS))
    for _ in range(ROUNDS):
        epsilon, near = needed_epsilon(free.problems, free.limits, free.beside["equal"], least)
        spec, before = asked.spec.at(epsilon), free
        if _limits_given(spec) and spec.noise_model.proportional and free.problems[0].expects is None:
            free = free._replace(problems=[replace(q, spec=spec) for q in free.problems])  # the same, whatever ε is
        else:
            free = at(spec)
        if free.limits.same(before.limits):
            break
    return free, near


def _other_noise(plan: Plan) -> Spec | None:
    """The spec with Laplace noise in place of Gaussian, or with Gaussian noise where it may be better than Laplace.

    That is from ε²/(2μ²) keys per conversion on: with k levels alike, variances are 2k²/ε² and k/μ².
    """
    spec = plan.spec
    if spec.noise_model.beside is None:
        return None
    other = spec.with_noise(spec.noise_model.beside, DELTA)
    worth = spec.noise_model.approximate or plan.default_keys >= spec.epsilon**2 / 2 * other.noise_model.factor
    return other if worth else None


def expected(
    plan: Plan,
    tree: Tree,
    prior: Prior,
    expects: Prior | None = None,
    *,
    profile: Profile | None = None,
    measure: str | None = None,
    tau: float | None = None,
) -> budget.Expected:
    """What to expect of a plan on a tree, if the counts will be as in the prior; of several measures, name one.

    Of unbiased estimates, or of those that use `expects`, as `prior.foreseen` gives it. A `profile` tells what limits
    cut off, which is part of the error. `tau` is the plan's unless given.
    """
    part = plan.of_measure(measure)
    q = Problem.of(plan.spec, tree, prior, part.measure, profile if plan.spec.has_limits else None)
    q = replace(q, tau=part.tau if tau is None else tau, expects=expects)
    return _errors(q, part.contribution(tree), part.clip, plan.most_of_heads(tree))


def _errors(q: Problem, contribution: Ints, clip: float, most: Ints) -> budget.Expected:
    """What to expect of contributions to each node, and of what limits cut off."""
    noise = q.spec.noise_model.variance(contribution.astype(np.float64) * (q.spec.epsilon / q.spec.l1)) * clip**2
    errors = q.expected(noise, q.weights)
    if q.profile is None:
        return errors
    bias = cut_off(q, most, clip)
    return budget.Expected.of(q.tree, q.prior.mean, errors.variance + bias**2, q.tau, q.weights, q.spec.weigh)


def _plan(asked: Asked, wishes: Wishes, free: Division, whole: _Whole, beside: list[_Whole], unbounded: _Whole) -> Plan:
    """The plan that says all this."""
    problems, limits, made = free.problems, free.limits, whole.contributions
    spec, tree = problems[0].spec, asked.tree
    others = [[*(each.expected[k] for each in beside), *_of_zeros(q)] for k, q in enumerate(problems)]
    each = list(zip(problems, whole.expected, others, strict=True))
    errors = [PlanErrors.of(tree, q.prior.mean, ours, *theirs) for q, ours, theirs in each]
    labels = tree.labels[0].cast("string").to_pylist() if made[0].roots is not None else []
    known = np.flatnonzero(~problems[0].new).tolist() if labels else []
    chosen = None
    if spec.given_limit is None:
        most = free.most_of_heads.tolist() if problems[0].by_root else []
        chosen = PerImpression(default=most_of_unseen(limits.most), roots={labels[i]: most[i] for i in known if most})
    weight, nodes = np.array([q.measure.weight for q in problems]), None
    if made[0].nodes is not None:
        nodes = tree.table().append_column("contribution", [made[0].of_nodes(tree)])
    return Plan(
        method=wishes.method,
        rounding=wishes.rounding,
        levels=spec.levels,
        measures=tuple(
            MeasureShare(
                name=q.measure.name,
                clip=limits.clips[k],
                tau=q.tau,
                default=tuple(row.default.tolist()),
                roots={labels[i]: tuple(row.roots[i].tolist()) for i in known} if row.roots is not None else {},
                mean=_mean(q),
                bias_known=not spec.has_limits or (q.profile is not None and q.profile.knows_limits),
                cut_off=_part_cut_off(q, free.most_of_heads, limits.clips[k]),
                expected=errors[k] if len(errors) > 1 else None,
            )
            for k, (q, row) in enumerate(zip(problems, made, strict=True))
        ),
        per_impression=chosen,
        tradeoff=_tradeoff(spec, limits) or None,
        unbounded=None
        if all(map(Shares.same, made, unbounded.contributions))
        else sqrt(sum(w * each.tree**2 for w, each in zip(weight, unbounded.expected, strict=True)) / weight.sum()),
        targets=tuple(t for q, ours, theirs in each for t in _of_targets(q, ours, theirs[0])) or None,
        checksum=None if nodes is None else checksum(nodes),
        nodes=nodes,
        prior=_note(tree, asked.prior),
        expected=PlanErrors.together(errors, weight.tolist()),
        learn=wishes.learn or None,
        spec=spec,
    ).to_hand_on


def _of_zeros(q: Problem) -> list[budget.Expected]:
    """The errors of answering 0 everywhere, if the prior knows counts."""
    count = q.prior.mean
    return [budget.Expected.of(q.tree, count, count**2, q.tau, q.weights, q.spec.weigh)] if q.prior.history else []


def _part_cut_off(q: Problem, most: Ints, clip: float) -> float | None:
    """The part of a measure's sum that limits leave out; None where the prior does not tell."""
    top = (q.tree.parent < 0) * q.tree.number
    whole = float((q.prior.mean * top).sum())
    if q.profile is None or not q.profile.knows_limits or not whole > 0:
        return None
    return max(0.0, float(-(cut_off(q, most, clip) * top).sum()) / whole)


def _of_targets(q: Problem, ours: budget.Expected, equal: budget.Expected) -> Iterator[TargetError]:
    """What to expect of the targets for a measure or its levels, and how many nodes are within them."""
    number = q.tree.number
    for target in q.spec.targets:
        if target.name not in (*q.spec.levels, q.measure.name):
            continue
        levels = [q.spec.levels.index(target.name)] if target.name in q.spec.levels else list(range(q.tree.depth))
        here, scale = np.isin(q.tree.level, levels), 1.0
        error, of_equal = ((e.levels[levels[0]] if len(levels) == 1 else e.tree) for e in (ours, equal))
        most = float(target.half_width or (of_equal if target.error == EQUAL else target.error or 0.0))
        bound = equal.nodes if target.error == EQUAL else np.full(len(q.tree), most)
        if target.half_width is not None:
            here, scale = here & (q.prior.mean >= q.tau), half_width_of(q.spec)
            each = [some for i in levels if (some := here & (q.tree.level == i)).any()]
            squares = [np.average(ours.nodes[some] ** 2, weights=number[some]) for some in each]
            error = scale * sqrt(np.mean(squares)) if squares else np.nan
        within = here & (scale * ours.nodes <= bound * (1 + ENOUGH))
        yield TargetError(
            name=target.name,
            measure=q.measure.name,
            most=most,
            error=float(error),
            nodes=int(number[here].sum()),
            within=int(number[within].sum()),
        )


def _mean(q: Problem) -> float | None:
    """What a conversion is worth on average; None where that is not known."""
    if q.profile is None or q.measure.is_count:
        return None
    mean = q.profile.mean(q.measure)
    return None if np.isnan(mean) else mean


def _note(tree: Tree, prior: Prior) -> PriorNote:
    return PriorNote(
        history=prior.history,
        protected=prior.protected,
        conversions=float((prior.mean * tree.number)[tree.parent < 0].sum()),
        new=0 if prior.new is None else int(tree.number[prior.new].sum()),
        gone=prior.gone,
        lost=prior.lost,
    )


def _tradeoff(spec: Spec, limits: ChosenLimits) -> dict[str, tuple[Trade, ...]]:
    names: Mapping[int, str] = {-1: "conversions per impression", **{k: m.name for k, m in enumerate(spec.asked)}}
    return {
        names[k]: tuple(
            Trade(
                limit=limit,
                error=sqrt(bias + noise),
                bias=sqrt(bias),
                noise=sqrt(noise),
                chosen=float(np.mean(limits.most == limit)) if k < 0 else float(limit == limits.clips[k]),
            )
            for limit, bias, noise in trades
        )
        for k, trades in limits.trades.items()
    }


def conversions_to_try(spec: Spec, profile: Profile | None) -> list[int]:
    """How many conversions of an impression may count."""
    if spec.given_limit is not None:
        return [spec.given_limit]
    return list(range(1, min(profile.ranks if profile else 1, REPORTS) + 1))


def _check(asked: Asked, wishes: Wishes) -> None:
    """Refuses what no plan can be made for, or not by this method."""
    (spec, tree, prior, profile), method = asked, wishes.method
    if method not in METHODS:
        raise InputError(f"a method is one of {', '.join(METHODS)}; got {method!r}")
    if tree.level_names != spec.levels:
        raise InputError(
            f"the spec's levels are {', '.join(spec.levels)}; the tree's are {', '.join(tree.level_names)}"
        )
    if len(prior.mean) != len(tree):
        raise InputError(f"a prior is made for one tree; it has {len(prior.mean):,} counts for {len(tree):,} nodes")
    if METHODS[method].by_node and spec.terms.proposals:
        raise InputError(f"a {method} plan is not for the {spec.terms.title}; take optimal, with split_by")
    if method not in methods_for(spec):
        raise InputError(
            f"a {method} plan is for one measure, with limits that the spec gives: nodes have one contribution each; "
            "take optimal"
        )
    reason = why_not_learned(spec, prior, method, profile) if wishes.learn else ""
    if reason:
        raise InputError(reason)
    refuse_unknown_limits(spec, profile)


def refuse_unknown_limits(spec: Spec, profile: Profile | None) -> None:
    """Refuses limits that are to be chosen from a prior that does not show what they would cut off."""
    if spec.given_limit is None and (profile is None or profile.rank is None):
        raise InputError(
            f'conversions_per_impression = "auto" needs a prior with ranks: {WITH_LIMITS}; or give a number'
        )
    for measure in spec.values:
        if measure.limit is None and (profile is None or not profile.clips(measure)):
            raise InputError(
                f"measure {measure.name!r}: where to clip is chosen from the values of a prior: {WITH_LIMITS}; "
                "or give clip = …"
            )


def why_not_learned(spec: Spec, prior: Prior, method: str, profile: Profile | None) -> str:
    """Why no plan can be made for estimates that use what is learned; empty if one can."""
    if not METHODS[method].learns:
        wanted = " or ".join(name for name, each in METHODS.items() if each.learns)
        return f"a plan for what is learned is made by the method {wanted}; got {method}: leave one out"
    if not _limits_given(spec):
        return (
            "a plan for what is learned is for one measure, with limits that the spec gives: what a prior is worth "
            "depends on the noise, and that on limits and parts; leave learn out"
        )
    if not prior.history or (spec.values and profile is None):
        names = " and ".join(measure.name for measure in spec.asked)
        return f"a plan for what is learned needs a prior: an earlier period's shares of {names}; give one"
    return ""


def methods_for(spec: Spec) -> list[str]:
    """The names of the methods that can make a plan for a spec."""
    by_node = _limits_given(spec) and not spec.terms.proposals
    return [name for name, method in METHODS.items() if not method.by_node or by_node]


def _limits_given(spec: Spec) -> bool:
    """Whether a plan has nothing to choose but the split by level."""
    return len(spec.asked) == 1 and spec.given_limit is not None and spec.asked[0].limit is not None


def _fixed(spec: Spec, share: Mapping[str, float], keep: Collection[str]) -> Floats:
    """The share of each level that is fixed, nan for the others."""
    for level in (*share, *keep):
        if level not in spec.levels:
            raise InputError(f"there is no level {level!r}; the levels are {', '.join(spec.levels)}")
    fixed = np.array([share.get(level, np.nan) for level in spec.levels], np.float64)
    if not ((fixed >= 0) | np.isnan(fixed)).all() or not np.nansum(fixed) <= 1 + 1e-12:
        raise InputError(f"shares are parts of ε, 0 or more, that sum to 1 at most; got {dict(share)}")
    if not (fixed[-1] > 0 or np.nansum(fixed[:-1]) < 1) or fixed[-1] == 0:
        raise InputError(
            f"{spec.levels[-1]!r} cannot be estimated without a key; give it a share, or leave it out of the spec"
        )
    unknown = sum(share.get(attribute.name, 0.0) for attribute in spec.unknown)
    most = spec.privacy_unit.unknown_part
    if unknown > most:
        raise InputError(
            f"under {spec.neighbours} the unknown levels have {most:g} of ε at most; got {unknown:g} for them: lower it"
        )
    return fixed
