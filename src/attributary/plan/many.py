"""many: plans with values, several measures or several conversions to an impression, whose limits it may choose."""

from collections.abc import Collection, Mapping
from math import sqrt
from typing import Any

import numpy as np

from attributary import budget, rmsre
from attributary.errors import InputError
from attributary.plan.asked import Asked, ask, mean_of, sums_of
from attributary.plan.choice import Chosen, choose
from attributary.plan.divided import default_most, divided
from attributary.plan.errors import Compared, Errors, LevelErrors
from attributary.plan.measured import Measured, PerImpression, Trade
from attributary.plan.plan import Plan, PriorNote
from attributary.plan.shares import shares
from attributary.plan.whole import Rounding
from attributary.prior import Prior
from attributary.profile import Profile
from attributary.spec import Spec
from attributary.spec.measure import AUTO, REPORTS
from attributary.tree import Tree
from attributary.types import Floats, Ints


def make_many(
    spec: Spec,
    tree: Tree,
    prior: Prior,
    profile: Profile | None,
    method: str,
    fixed: Floats,
    keep: Collection[str],
    rounding: Rounding,
    phases: int,
    note: PriorNote,
) -> Plan:
    """The plan of least error, bias² + variance, for the spec's measures and limits."""
    if method == "per-node":
        raise InputError("per-node plans count conversions alone, under a limit that the spec gives; take optimal")
    _refuse_open(spec, profile)
    questions = [ask(spec, measure, tree, prior, profile, fixed, phases) for measure in spec.asked]
    ways = {}
    for name in dict.fromkeys((method, "equal", "leaves")):
        ways[name] = [shares(asked.question, name) for asked in questions]
    sums = [sums_of(asked, share, spec) for asked, share in zip(questions, ways[method], strict=True)]
    most = range(1, min(profile.ranks if profile else 1, REPORTS) + 1) if _auto(spec) else [_limit(spec)]
    found = choose(sums, list(most))
    plans = {name: divided(spec, questions, sums, ways[name], found, keep, rounding, name == method) for name in ways}
    compared = {name: _expected(spec, questions, plans[name], found) for name in plans}
    errors = [_errors(spec, tree, *(compared[n][k] for n in (method, "equal", "leaves"))) for k in range(len(sums))]
    default, roots = plans[method]
    labels = tree.labels[0].cast("string").to_pylist() if tree.labels else []
    own = ~questions[0].question.new if spec.split_by else np.zeros(0, bool)
    part = [
        Measured(
            name=asked.measure.name,
            clip=clip,
            tau=asked.question.spec.tau,
            default=tuple(default[k].tolist()),
            roots={label: tuple(row) for label, row, its in zip(labels, roots[k].tolist(), own, strict=True) if its}
            if spec.split_by
            else {},
            mean=mean_of(asked),
            bias_known=asked.profile is not None and _knows(asked.profile),
            expected=error,
        )
        for k, (asked, clip, error) in enumerate(zip(questions, found.clips, errors, strict=True))
    ]
    alone = spec.measures is None and len(part) == 1
    chosen = None
    if _auto(spec):
        by_root = dict(zip(labels, found.most.tolist(), strict=True)) if questions[0].own else {}
        chosen = PerImpression(default=default_most(found), roots={x: by_root[x] for x in part[0].roots if by_root})
    return Plan(
        method=method,
        rounding=rounding,
        levels=spec.levels,
        default=tuple(default.sum(axis=0).tolist()),
        roots={label: tuple(map(sum, zip(*(p.roots[label] for p in part), strict=True))) for label in part[0].roots},
        measures=None if alone else tuple(part),
        per_impression=chosen,
        tradeoff=_tradeoff(spec, found) or None,
        prior=note,
        expected=_together(spec, errors),
        spec=spec,
    )


def _auto(spec: Spec) -> bool:
    return spec.conversions_per_impression == AUTO


def _limit(spec: Spec) -> int:
    return int(spec.conversions_per_impression)


def _knows(profile: Profile) -> bool:
    return profile.rank is not None or bool(profile.begin) or bool(profile.beyond)


def _refuse_open(spec: Spec, profile: Profile | None) -> None:
    how = "counts of an earlier period, as `attributary count` writes them for this spec"
    if _auto(spec) and (profile is None or profile.rank is None):
        raise InputError(f'conversions_per_impression = "auto" needs a prior that tells ranks: {how}; or give a number')
    for measure in spec.values:
        if measure.limit is None and (profile is None or not profile.clips(measure)):
            raise InputError(
                f"measure {measure.name!r}: where to clip is chosen from the values of a prior: {how}; or give clip = …"
            )


def _expected(spec: Spec, questions: list[Asked], rows: tuple[Ints, Ints], found: Chosen) -> list[budget.Expected]:
    """The errors of each measure under contributions, with what limits cut off."""
    told = []
    for k, asked in enumerate(questions):
        q = asked.question
        given = q.tree.spread(rows[1][k], int(spec.total), rest=True)
        noise = spec.noise_model.variance(given * spec.epsilon / spec.l1)
        noise = noise * found.clips[k] ** 2
        variance = budget.expected(q.tree, q.prior.mean, noise, q.spec.tau, weights=q.weights).variance
        most = found.most if len(found.most) > 1 else int(found.most[0])
        both = variance + asked.bias(most, found.clips[k]) ** 2
        given2 = (q.tree, q.prior.mean, both, q.spec.tau)
        told.append(
            budget.Expected(
                both,
                rmsre.levels(*given2, weights=q.weights),
                rmsre.tree(*given2, weights=q.weights),
                rmsre.roots(*given2, weights=q.weights),
            )
        )
    return told


def _errors(spec: Spec, tree: Tree, *three: budget.Expected) -> Errors:
    return Errors.of(spec.levels, np.diff(tree.offsets).tolist(), *three)


def _together(spec: Spec, errors: list[Errors]) -> Errors:
    """Root mean squares over measures, by their weights."""
    if len(errors) == 1:
        return errors[0]
    weight = [measure.weight for measure in spec.asked]

    def mean(each: list[Compared]) -> Compared:
        def one(name: str) -> float:
            squares = (w * getattr(e, name) ** 2 for w, e in zip(weight, each, strict=True))
            return sqrt(sum(squares) / sum(weight))

        return Compared(plan=one("plan"), equal=one("equal"), leaves=one("leaves"))

    levels = zip(*(e.levels for e in errors), strict=True)
    return Errors(
        levels=tuple(
            LevelErrors(level=each[0].level, nodes=each[0].nodes, error=mean([e.error for e in each]))
            for each in levels
        ),
        tree=mean([e.tree for e in errors]),
        roots=mean([e.roots for e in errors]),
    )


def _tradeoff(spec: Spec, found: Chosen) -> dict[str, tuple[Trade, ...]]:
    names: Mapping[int, str] = {-1: "conversions per impression", **{k: m.name for k, m in enumerate(spec.asked)}}
    told: dict[str, Any] = {}
    for k, trades in found.trades.items():
        chosen = {float(c) for c in ([found.clips[k]] if k >= 0 else [])}
        told[names[k]] = tuple(
            Trade(
                limit=limit,
                error=sqrt(bias + noise),
                bias=sqrt(bias),
                noise=sqrt(noise),
                chosen=float(np.mean(found.most == limit)) if k < 0 else float(limit in chosen),
            )
            for limit, bias, noise in trades
        )
    return told
