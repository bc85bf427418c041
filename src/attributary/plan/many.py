"""many: plans with values, several measures or several conversions to an impression, whose limits it may choose."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from functools import cache
from math import sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attributary import budget, rmsre
from attributary.budget import Split
from attributary.budget.model import Model
from attributary.errors import InputError
from attributary.plan.choice import Chosen, Sums, choose, split
from attributary.plan.errors import Compared, Errors, LevelErrors
from attributary.plan.measured import Measured, PerImpression, Trade
from attributary.plan.plan import Plan, PriorNote
from attributary.plan.question import Question
from attributary.plan.shares import Shares, shares
from attributary.plan.whole import Rounding, at_least_one, whole_with_limit
from attributary.prior import Prior
from attributary.profile import Profile
from attributary.spec import Measure, Spec
from attributary.spec.measure import AUTO, REPORTS
from attributary.tree import Tree

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Asked:
    """One measure's question, with the tau of its unit."""

    measure: Measure
    question: Question
    profile: Profile | None

    @property
    def own(self) -> bool:
        """Whether roots have limits and parts of their own; a total above them is one key, fed by all alike."""
        spec = self.question.spec
        return spec.split_by is not None and not spec.total

    def squared(self, variance: Floats) -> Floats:
        """Squared errors by root, or of the whole tree, from variances or squared biases of nodes."""
        q = self.question
        given = (q.tree, q.prior.mean, variance, q.spec.tau)
        if not self.own:
            return np.array([rmsre.tree(*given, weights=q.weights) ** 2])
        return np.nan_to_num(rmsre.roots(*given, weights=q.weights) ** 2)

    def noise(self, share: Shares, m: int) -> Floats:
        """The noise variance of estimates, with all of the budget and a clip of 1."""
        q = self.question
        top, heads = int(q.spec.total), q.tree.slice(int(q.spec.total))
        rows = share.roots if share.roots is not None else np.repeat(share.default[None], heads.stop - heads.start, 0)
        rows = rows * q.spec.epsilon / m
        given = Split(
            q.tree, rows[:, top:], q.spec.epsilon, q.spec.noise, q.spec.l1, float(rows[0, 0]) if top else None
        )
        return budget.expected(q.tree, q.prior.mean, given, q.spec.tau, weights=q.weights).variance

    def bias(self, most: int | Ints, clip: float) -> Floats:
        """What limits cut off each node's sum."""
        if self.profile is None:
            return np.zeros(len(self.question.tree))
        return self.profile.limited(self.measure, most, clip) - self.question.prior.mean


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
    questions = [_asked(spec, measure, tree, prior, profile, fixed, phases) for measure in spec.asked]
    ways = {}
    for name in dict.fromkeys((method, "equal", "leaves")):
        ways[name] = [shares(asked.question, name) for asked in questions]
    sums = [_sums(asked, share, spec) for asked, share in zip(questions, ways[method], strict=True)]
    most = range(1, min(profile.ranks if profile else 1, REPORTS) + 1) if _auto(spec) else [_limit(spec)]
    found = choose(sums, list(most))
    plans = {name: _rows(spec, questions, sums, ways[name], found, keep, rounding, name == method) for name in ways}
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
            mean=_mean(asked),
            bias_known=asked.profile is not None and _knows(asked.profile),
            expected=error,
        )
        for k, (asked, clip, error) in enumerate(zip(questions, found.clips, errors, strict=True))
    ]
    alone = spec.measures is None and len(part) == 1
    chosen = None
    if _auto(spec):
        by_root = dict(zip(labels, found.most.tolist(), strict=True)) if questions[0].own else {}
        chosen = PerImpression(default=_default_most(found), roots={x: by_root[x] for x in part[0].roots if by_root})
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


def _mean(asked: Asked) -> float | None:
    if asked.profile is None or asked.measure.is_count:
        return None
    mean = asked.profile.mean(asked.measure)
    return None if np.isnan(mean) else mean


def _asked(
    spec: Spec, measure: Measure, tree: Tree, prior: Prior, profile: Profile | None, fixed: Floats, phases: int
) -> Asked:
    """A measure's question: sums without limits as the prior, and a tau of tau conversions' worth."""
    mean = prior.mean if profile is None else profile.full(measure)
    if profile is None and not measure.is_count:
        mean = np.zeros(len(tree))
    worth = 1.0 if measure.is_count else (profile.mean(measure) if profile is not None else float("nan"))
    worth = worth if worth > 0 else (measure.limit or 1.0)
    tau = measure.tau if measure.tau is not None else spec.tau * worth
    return Asked(
        measure,
        Question(spec.model_copy(update={"tau": tau}), tree, replace(prior, mean=mean), fixed, phases),
        profile,
    )


def _sums(asked: Asked, share: Shares, spec: Spec) -> Sums:
    base = asked.squared(asked.noise(share, 1))

    @cache
    def noise(m: int) -> Floats:
        return base * m**2 if spec.noise == "api" else asked.squared(asked.noise(share, m))

    @cache
    def bias(m: int, clip: float) -> Floats:
        return asked.squared(asked.bias(m, clip) ** 2)

    limit = asked.measure.limit
    clips = [limit] if limit is not None else asked.profile.clips(asked.measure) if asked.profile else []
    return Sums(asked.measure.weight, clips, noise, bias)


def _default_most(found: Chosen) -> int:
    """For roots not seen yet: what most roots have, of several the least."""
    numbers, times = np.unique(found.most, return_counts=True)
    return int(numbers[np.argmax(times)])


def _rows(
    spec: Spec,
    questions: list[Asked],
    sums: list[Sums],
    share: list[Shares],
    found: Chosen,
    keep: Collection[str],
    rounding: Rounding,
    best: bool,
) -> tuple[Ints, Ints]:
    """Contributions (measures, levels) of roots not seen yet, and (measures, heads, levels) of the others."""
    number, levels = len(sums), len(spec.levels)
    heads = questions[0].question.tree.slice(int(spec.total))
    most = np.full(heads.stop - heads.start, found.most[0]) if len(found.most) == 1 else found.most
    parts = np.full((number, len(most)), 1 / number)
    if best:
        each = {m: split(sums, found.clips, m) for m in np.unique(most).tolist()}
        parts = np.column_stack([each[m][:, r if each[m].shape[1] > 1 else 0] for r, m in enumerate(most.tolist())])
    new = questions[0].question.new
    mean = parts[:, ~new].mean(axis=1) if (~new).any() else parts.mean(axis=1)
    first = np.stack([p * s.default for p, s in zip(mean, share, strict=True)], axis=1).reshape(1, -1)
    rows = [
        part[:, None] * (s.roots if s.roots is not None else np.repeat(s.default[None], len(most), 0))
        for part, s in zip(parts, share, strict=True)
    ]
    table = np.concatenate([first, np.stack(rows, axis=2).reshape(len(most), -1)])  # by level, then by measure
    times = np.concatenate([[_default_most(found)], most])
    whole = np.empty(table.shape, np.int64)
    for m in np.unique(times).tolist():
        whole[times == m] = _whole(spec, table[times == m], table[:1], spec.l1 // m, number, keep, rounding)
    by_measure = whole.reshape(len(whole), levels, number).transpose(2, 0, 1)
    return by_measure[:, 0], by_measure[:, 1:]


def _whole(
    spec: Spec, share: Floats, default: Floats, budget: int, number: int, keep: Collection[str], rounding: Rounding
) -> Ints:
    """Whole numbers within the budget, and at unknown levels within theirs; a total's are the same for all rows."""
    top = number if spec.total else 0
    common = np.floor(default[:, :top] * budget + 1e-9 * budget).astype(np.int64)
    left = 1.0 - default[0, :top].sum()
    rest = share[:, top:] / left if left > 0 else np.zeros_like(share[:, top:])
    lower = slice(spec.first_unknown * number - top, None)
    limit = budget // 2 if spec.neighbours == "definition-1" else budget
    rest = rest / np.maximum(1.0, rest.sum(axis=1, keepdims=True))
    found = whole_with_limit(rest, budget - int(common.sum()), lower, limit, rounding)
    found = np.hstack([np.repeat(common, len(found), axis=0), found])
    last = range((len(spec.levels) - 1) * number, len(spec.levels) * number)
    wanted = [spec.levels.index(level) * number + k for level in keep for k in range(number)]
    for column in (*wanted, *last):
        others = [j for j in range(top, found.shape[1]) if j != column]
        same = [j for j in others if (j < spec.first_unknown * number) == (column < spec.first_unknown * number)]
        found = at_least_one(found, column, same, others)
    return found


def _expected(spec: Spec, questions: list[Asked], rows: tuple[Ints, Ints], found: Chosen) -> list[budget.Expected]:
    """The errors of each measure under contributions, with what limits cut off."""
    told = []
    for k, asked in enumerate(questions):
        q, top, own = asked.question, int(spec.total), rows[1][k].astype(np.float64)
        given = Split(q.tree, own[:, top:], spec.l1, total=float(own[0, 0]) if top else None).nodes()
        noise = Model.of(spec.noise, spec.epsilon, spec.l1).variance(given * spec.epsilon / spec.l1)
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
