"""make: from a spec, a tree and a prior to a plan of least error, bias² + variance, for all measures."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from math import sqrt
from typing import Any, NamedTuple, Self

import numpy as np

from attributary import budget
from attributary.budget import METHODS
from attributary.errors import InputError
from attributary.estimators import Learn
from attributary.plan.bounded_shares import ENOUGH, at_least, bounded_shares, half_width_of, least_shares
from attributary.plan.choose_limits import ChosenLimits, best_parts, choose, cut_off, measure_errors
from attributary.plan.choose_scheme import choose_scheme
from attributary.plan.contributions import Contributions, Rounding, contributions, most_of_unseen
from attributary.plan.expected_errors import Compared, PlanErrors, TargetError
from attributary.plan.few_contributions import improved, with_best_credits
from attributary.plan.level_shares import Question, Shares, shares
from attributary.plan.plan import MeasureShare, OtherNoise, PerImpression, Plan, PriorNote, Trade, checksum
from attributary.plan.why_missed import needed_epsilon, why_missed
from attributary.prior import Prior, none
from attributary.prior.earlier import Profile
from attributary.spec import Spec
from attributary.spec.measure import EQUAL, REPORTS
from attributary.spec.terms import NEIGHBOURS
from attributary.tree import Tree
from attributary.types import Floats

DELTA = 1e-6  # of Gaussian noise that Laplace noise is compared with
GUESS = 4.0  # an ε to begin with, where the least is to be found
ROUNDS = 3  # of limits for an ε, and an ε for these limits
FREE = "without bounds"
BESIDE = ("equal", "leaves")  # the splits that a plan is compared with
WITH_LIMITS = "counts of an earlier period, as `attributary count` writes them for this spec"


def make_plan(
    spec: Spec,
    tree: Tree,
    prior: Prior | None = None,
    method: str = "optimal",
    *,
    share: Mapping[str, float] | None = None,
    keep: Collection[str] = (),
    rounding: Rounding = "largest-remainder",
    phases: int = 20,
    profile: Profile | None = None,
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
    """
    prior = prior or none(tree)
    schemes = {each.name: each for each in spec.terms.schemes}
    scheme = schemes.get((spec.api and spec.api.scheme) or "")
    if schemes and (compare or scheme is None):
        if spec.finds_epsilon:
            raise InputError(f'epsilon = "auto" is not for the {spec.terms.title}, whose schemes differ; give a number')
        given: Any = {"keep": keep, "rounding": rounding, "phases": phases, "profile": profile, "learn": learn}
        given["strict"] = strict and scheme is not None

        def make(carried: Spec, fixed: Mapping[str, float] | None = None) -> Plan:
            both = {**(share or {}), **(fixed or {})}
            return make_plan(carried, tree, prior, method, share=both, compare=False, **given)

        return choose_scheme(spec, tree, make)
    profile = profile if spec.has_limits else None  # else nothing is cut off
    options: Any = {"share": share, "keep": keep, "rounding": rounding, "phases": phases, "learn": learn}
    _check(spec, tree, prior, method, profile, bool(learn))
    wishes = _Wishes(method, rounding, learn, _note(tree, prior))
    fixed, least = _fixed(spec, share or {}, keep), least_shares(spec, keep)

    def asked(spec: Spec) -> list[Question]:
        given: Any = {"fixed": fixed, "phases": phases, "learn": bool(learn)}
        return [Question.of(spec, tree, prior, measure, profile, **given) for measure in spec.asked]

    free = _Unbounded.of(asked(spec.at(GUESS) if spec.finds_epsilon else spec), method, least)
    near: list[Floats] = []
    for _ in range(ROUNDS if spec.finds_epsilon else 0):
        epsilon, near = needed_epsilon(free.questions, free.limits, free.split["equal"], least)
        spec = spec.at(epsilon)
        before, free = free, free.at(spec) if _limits_given(spec) else _Unbounded.of(asked(spec), method, least)
        if free.limits.same(before.limits):
            break
    fine = free.questions
    if scheme is not None and spec.l1 > (scheme.credits or spec.l1):
        improve = method not in BESIDE
        spec = with_best_credits(free.questions[0], free.split[method][0], scheme.credits, rounding, keep, improve)
        free = free._replace(questions=[replace(free.questions[0], spec=spec)])
    questions, limits, split = free.questions, free.limits, dict(free.split)
    parts: dict[str, Floats | None] = {**dict.fromkeys(split), method: free.parts}
    if METHODS[method].bounded:
        split[method], parts[method], missed = bounded_shares(
            questions, limits, (split[method], free.parts), split["equal"], least, near
        )
        if strict and missed and missed.targets:
            raise InputError(why_missed(missed))

    def planned(by_level: Sequence[Shares], parts: Floats | None) -> Plan:
        questions = free.questions if parts is not None else fine  # few credits have no equal parts
        whole = contributions(questions, by_level, parts, limits.most, rounding, keep)
        few = scheme is not None and method not in BESIDE and by_level[0] is free.split[method][0]
        return _plan(questions, limits, improved(questions[0], whole, keep) if few else whole, wishes)

    plans = {name: planned(by_level, parts[name]) for name, by_level in split.items()}
    if learn == "split":
        questions = [replace(q, expects=None) for q in questions]

    beside = [[*(_expected(plans[name], q) for name in BESIDE), *_of_zeros(q)] for q in questions]
    plan = _with_errors(plans[method], questions, beside)
    if split[method][0] is not free.split[method][0]:
        plans[FREE] = planned(free.split[method], free.parts)
        if plans[FREE].measures != plans[method].measures:
            squares = [q.measure.weight * _expected(plans[FREE], q).tree ** 2 for q in questions]
            unbounded = sqrt(sum(squares) / sum(q.measure.weight for q in questions))
            plan = plan.model_copy(update={"unbounded": unbounded})
    keys = sum(contribution > 0 for one in plan.measures for contribution in one.default)
    other = _other_noise(spec, keys) if compare else None
    if other is None:
        return plan
    there = make_plan(other, tree, prior, method, profile=profile, compare=False, strict=False, **options)
    with_other = OtherNoise(noise=other.noise, delta=other.delta, error=there.expected.tree.plan, keys=keys)
    return plan.model_copy(update={"other_noise": with_other})


class _Unbounded(NamedTuple):
    """What methods make of the questions without bounds: limits, shares by method, and the parts of measures."""

    questions: list[Question]
    limits: ChosenLimits
    split: dict[str, list[Shares]]
    parts: Floats

    @classmethod
    def of(cls, questions: list[Question], method: str, least: Floats) -> Self:
        split = {name: [shares(q, name) for q in questions] for name in dict.fromkeys((method, *BESIDE))}
        split[method] = [at_least(q, by_level, least) for q, by_level in zip(questions, split[method], strict=True)]
        errors = [measure_errors(q, by_level) for q, by_level in zip(questions, split[method], strict=True)]
        limits = choose(errors, conversions_to_try(questions[0].spec, questions[0].profile))
        return cls(questions, limits, split, best_parts(errors, limits))

    def at(self, spec: Spec) -> Self:
        """The same under another ε, where limits are given; where shares depend on ε, made anew."""
        questions = [replace(q, spec=spec) for q in self.questions]
        if spec.noise_model.proportional and questions[0].expects is None:
            return self._replace(questions=questions)
        return self.of(questions, next(iter(self.split)), np.zeros(len(spec.levels)))


def _other_noise(spec: Spec, keys: int) -> Spec | None:
    """The spec with Laplace noise in place of Gaussian, or with Gaussian noise where it may be better than Laplace.

    That is from ε²/(2μ²) keys per conversion on: with k levels alike, variances are 2k²/ε² and k/μ².
    """
    if spec.noise_model.beside is None:
        return None
    other = spec.with_noise(spec.noise_model.beside, DELTA)
    worth = spec.noise_model.approximate or keys >= spec.epsilon**2 / 2 * other.noise_model.factor
    return other if worth else None


class _Wishes(NamedTuple):
    """What was asked for, and stands in the plan."""

    method: str
    rounding: Rounding
    learn: Learn
    note: PriorNote


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
    profile = profile if plan.spec.has_limits else None
    part = plan.of_measure(measure)
    asked = Question.of(plan.spec, tree, prior, part.measure, profile)
    return _expected(plan, replace(asked, tau=part.tau if tau is None else tau, expects=expects))


def _expected(plan: Plan, q: Question) -> budget.Expected:
    part = plan.of_measure(q.measure.name)
    errors = q.expected(part.variance(q.tree), q.weights)
    if q.profile is None:
        return errors
    bias = cut_off(q, plan.most_of_heads(q.tree), part.clip)
    return budget.Expected.of(q.tree, q.prior.mean, errors.variance + bias**2, q.tau, q.weights, q.spec.weigh)


def _plan(questions: list[Question], limits: ChosenLimits, whole: Contributions, wishes: _Wishes) -> Plan:
    """A plan without its errors."""
    q = questions[0]
    spec, tree = q.spec, q.tree
    labels = tree.labels[0].cast("string").to_pylist() if whole.roots is not None else []
    known = np.flatnonzero(~q.new).tolist() if labels else []
    rows = whole.default[:, None] if whole.roots is None else np.concatenate([whole.default[:, None], whole.roots], 1)

    def by_root(of_heads: Any) -> dict[str, tuple[int, ...]]:
        return {labels[i]: tuple(of_heads[1 + i]) for i in known}

    def share_of(k: int) -> MeasureShare:
        contributions, asked = rows[k].tolist(), questions[k]
        return MeasureShare(
            name=asked.measure.name,
            clip=limits.clips[k],
            tau=asked.tau,
            default=tuple(contributions[0]),
            roots=by_root(contributions),
            mean=_mean(asked),
            bias_known=not spec.has_limits or (asked.profile is not None and asked.profile.knows_limits),
        )

    chosen = None
    if spec.given_limit is None:
        most = np.broadcast_to(limits.most, len(q.new)).tolist()
        chosen = PerImpression(
            default=most_of_unseen(limits.most),
            roots={labels[i]: most[i] for i in known} if q.by_root else {},
        )
    nodes: Any = None
    if whole.nodes is not None:
        nodes = tree.table().append_column("contribution", [tree.from_level_order(whole.nodes)])
    sums = rows.sum(axis=0).tolist()
    return Plan(
        method=wishes.method,
        rounding=wishes.rounding,
        levels=spec.levels,
        default=tuple(sums[0]),
        roots=by_root(sums),
        measures=tuple(map(share_of, range(len(questions)))),
        per_impression=chosen,
        tradeoff=_tradeoff(spec, limits) or None,
        checksum=None if nodes is None else checksum(nodes),
        nodes=nodes,
        prior=wishes.note,
        expected=_NO_ERRORS,
        learn=wishes.learn or None,
        spec=spec,
    )


_NO_ERRORS = PlanErrors(levels=(), tree=Compared.of(0, 0, 0), roots=Compared.of(0, 0, 0))


def _with_errors(plan: Plan, questions: Sequence[Question], beside: Sequence[Sequence[budget.Expected]]) -> Plan:
    """The plan with the errors of each measure, beside others, and of all together, as far as they may be told."""
    ours = [_expected(plan, q) for q in questions]
    each = list(zip(plan.measures, questions, ours, beside, strict=True))
    errors = [PlanErrors.of(q.tree, q.prior.mean, mine, *others) for _, q, mine, others in each]
    targets = [t for _, q, mine, others in each for t in _of_targets(q, mine, others[0])]
    measures = [
        share.model_copy(update={"cut_off": _part_cut_off(plan, q), "expected": error if len(errors) > 1 else None})
        for (share, q, _, _), error in zip(each, errors, strict=True)
    ]
    together = PlanErrors.together(errors, [measure.weight for measure in plan.spec.asked])
    update = {"expected": together, "measures": tuple(measures), "targets": tuple(targets) or None}
    return plan.model_copy(update=update).to_hand_on


def _of_zeros(q: Question) -> list[budget.Expected]:
    """The errors of answering 0 everywhere, if the prior knows counts."""
    count = q.prior.mean
    return [budget.Expected.of(q.tree, count, count**2, q.tau, q.weights, q.spec.weigh)] if q.prior.history else []


def _part_cut_off(plan: Plan, q: Question) -> float | None:
    """The part of a measure's sum that limits leave out; None where the prior does not tell."""
    top = q.tree.parent < 0
    whole = float(q.prior.mean[top].sum())
    if q.profile is None or not q.profile.knows_limits or not whole > 0:
        return None
    left_out = cut_off(q, plan.most_of_heads(q.tree), plan.of_measure(q.measure.name).clip)
    return max(0.0, float(-left_out[top].sum()) / whole)


def _of_targets(q: Question, ours: budget.Expected, equal: budget.Expected) -> Iterator[TargetError]:
    """What to expect of the targets for a measure or its levels, and how many nodes are within them."""
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
            squares = [(ours.nodes[some] ** 2).mean() for i in levels if (some := here & (q.tree.level == i)).any()]
            error = scale * sqrt(np.mean(squares)) if squares else np.nan
        within = here & (scale * ours.nodes <= bound * (1 + ENOUGH))
        yield TargetError(
            name=target.name,
            measure=q.measure.name,
            most=most,
            error=float(error),
            nodes=int(here.sum()),
            within=int(within.sum()),
        )


def _mean(q: Question) -> float | None:
    """What a conversion is worth on average; None where that is not known."""
    if q.profile is None or q.measure.is_count:
        return None
    mean = q.profile.mean(q.measure)
    return None if np.isnan(mean) else mean


def _note(tree: Tree, prior: Prior) -> PriorNote:
    return PriorNote(
        history=prior.history,
        protected=prior.protected,
        conversions=float(prior.mean[tree.parent < 0].sum()),
        new=0 if prior.new is None else int(prior.new.sum()),
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


def _check(spec: Spec, tree: Tree, prior: Prior, method: str, profile: Profile | None, learn: bool) -> None:
    """Refuses what no plan can be made for, or not by this method."""
    if method not in METHODS:
        raise InputError(f"a method is one of {', '.join(METHODS)}; got {method!r}")
    if tree.level_names != spec.levels:
        raise InputError(
            f"the spec's levels are {', '.join(spec.levels)}; the tree's are {', '.join(tree.level_names)}"
        )
    if len(prior.mean) != len(tree):
        raise InputError(f"a prior is made for one tree; it has {len(prior.mean):,} counts for {len(tree):,} nodes")
    if METHODS[method].by_node and spec.terms.schemes:
        raise InputError(f"a {method} plan is not for the {spec.terms.title}; take optimal, with split_by")
    if method not in methods_for(spec):
        raise InputError(
            f"a {method} plan is for one measure, with limits that the spec gives: nodes have one contribution each; "
            "take optimal"
        )
    reason = why_not_learned(spec, prior, method, profile) if learn else ""
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
    by_node = _limits_given(spec) and not spec.terms.schemes
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
    most = 1 / NEIGHBOURS[spec.neighbours].unknown_levels
    if unknown > most:
        raise InputError(
            f"under {spec.neighbours} the unknown levels have {most:g} of ε at most; got {unknown:g} for them: lower it"
        )
    return fixed
