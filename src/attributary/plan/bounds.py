"""bounds: the shares of least error that meet the targets and keep to the guard; the least ε that does; why none can.

Bounds are on the errors of levels, nodes of all roots pooled, and of measures, over all levels. Roots with splits of
their own minimise the sum of their errors; those not seen yet keep the default split. What limits cut off is part of an
error, whatever the split. A plan for what is learned keeps to bounds as if it were worth nothing: with it, errors are
smaller.
"""

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from itertools import combinations, islice
from math import exp, inf, log
from typing import Any, NamedTuple, Self

import numpy as np

from attributary.budget.classes import CondensedTree
from attributary.budget.problem import BudgetProblem
from attributary.budget.split import LevelBudgets
from attributary.budget.within_bounds import CLOSE, Bounded, BoundedMeasure, Found, ShareLayout
from attributary.denoising.quantile import quantile
from attributary.errors import InputError
from attributary.noise import model
from attributary.plan.contributions import most_of_unseen
from attributary.plan.limits import ChosenLimits, cut_off
from attributary.plan.problem import Problem, Shares, in_parts, shares, under
from attributary.plan.proposals import Bounds, Excess
from attributary.spec import Spec
from attributary.spec.measure import EQUAL, Target
from attributary.types import Floats

KEPT = 0.5  # of an equal share: what a level gets at least that is to be kept
STARTS = 16  # sets of levels to start from
KEPT_STARTS = 8  # that were good under another ε
CONFIDENCE = 0.95
ENOUGH = 1e-3  # of an error: a target missed by less, as by rounding, is met
EXACT = 1e-4  # of a squared error: when the least ε is found
TRIES = 40  # of an ε
HIGHEST = 1e7  # no ε above it is looked for
HOPELESS = 1e-6  # of a bound that limits alone break: what is left for noise
WAY = np.linspace(0.0, 1.0, 33)[:, None, None, None]


class Bound(NamedTuple):
    """An error of a measure that is to stay below a bound."""

    target: Target | None  # that asks for it; None for the guard
    level: int | None  # None for all levels together
    error: int = 0  # its row in the weights of errors
    bias: float = 0.0  # what limits add to its square
    most: float = np.inf  # of its square
    times: float = np.inf  # of its square under an equal split


@dataclass(frozen=True, eq=False)
class BoundedCase:
    """The measures of a plan with the limits chosen, under bounds; the error of any shares, at any ε."""

    questions: Sequence[Problem]
    limits: ChosenLimits
    layout: ShareLayout
    rows: tuple[LevelBudgets, ...]
    weights: tuple[Floats, ...]  # (errors, classes) of each measure: in the square of each error, the goal's first
    bounds: tuple[tuple[Bound, ...], ...]  # of each measure
    equal: Floats  # (measures, levels, rows)

    @classmethod
    def of(
        cls,
        questions: Sequence[Problem],
        limits: ChosenLimits,
        equal: Sequence[Shares],
        *,
        together: bool = False,
        unseen: bool = False,
        least: Floats | None = None,
        held: Sequence[Shares] | None = None,
    ) -> Self:
        """With `together`, one split for the known roots; `held` has the default split that the others keep.

        Where one split is for the known roots, bounds are on their errors, and with `unseen` on those of all roots.
        """
        q = questions[0]
        by_root = q.spec.split_by is not None and not together
        built = [_rows(each, by_root) for each in questions]
        rows = tuple(replace(one, fixed=np.zeros_like(q.fixed)) for _, one in built)
        judged = [
            _bounds(q, *each, limits, k, unseen) for k, (q, each) in enumerate(zip(questions, built, strict=True))
        ]
        keep = (q.new, packed(held, by_root=False)) if held and by_root and q.new.any() else None
        weights, bounds = zip(*judged, strict=True)
        layout = ShareLayout(
            built[0][1].open,
            np.nan_to_num(q.fixed),
            by_root and q.spec.total,
            q.spec.noise_model.exponent,
            q.spec.first_unknown,
            q.limit,
            np.zeros(len(q.fixed)) if least is None else least,
            keep,
        )
        return cls(questions, limits, layout, rows, weights, bounds, packed(equal, by_root))

    @property
    def spec(self) -> Spec:
        return self.questions[0].spec

    def at(self, epsilon: float) -> Bounded:
        """The bounds under a budget of ε."""
        spec, page = self.spec, type(self.spec.noise_model)
        noise = model(spec.noise, epsilon, spec.l1, spec.delta or 0.0)
        measures = []
        for k, (rows, weights, bounds) in enumerate(zip(self.rows, self.weights, self.bounds, strict=True)):
            rows = replace(rows, objective=replace(rows.objective, model=noise))
            width = rows.open.shape[1]
            most_of = self.limits.most if width > 1 else [most_of_unseen(self.limits.most)]
            times = np.broadcast_to([page.repeats(m) for m in most_of], width)
            scale = epsilon / times / page.repeats(self.limits.clips[k])
            equal = rows.errors_by(rows.pack(self.equal[None, k] * scale), weights)[0]
            whole = np.array([min(b.most, b.times * (equal[b.error] + b.bias)) for b in bounds])
            most = np.maximum(whole - [b.bias for b in bounds], HOPELESS * whole)
            soft = np.array([bound.most < np.inf for bound in bounds], bool)
            error = np.array([bound.error for bound in bounds], np.int64)
            measures.append(BoundedMeasure(rows, scale, weights, error, np.maximum(most, 1e-300), soft))
        return Bounded(self.layout, tuple(measures))

    def within(self, share: Floats, epsilon: float, nearest: bool = True, near: Floats | None = None) -> Found:
        """The shares, if they are within the bounds, or else those of least error that are, or nearly are.

        With `near`, shares that are known to be good, the search starts from them; where they are for all rows alike,
        also from `share`, and not from all sets of levels.
        """
        bounded = self.at(epsilon)
        at = bounded.judge(share[None], gains=False)
        if at.ratio.max(initial=0.0) <= 1 + CLOSE and not self.layout.least.any():
            return Found(share, float(at.error[0]), at.ratio[0])
        known = near is not None and near.shape == share.shape
        others = [] if known else [share] if near is not None else [share, 0.5 * (share + self.equal)]
        starts = np.concatenate([self._starts(near), *(each[None] for each in others)])
        sets = None if known else self._sets
        found = bounded.least(starts, sets=sets)
        if nearest and found.ratio.max(initial=0.0) > 1 + CLOSE:
            found = bounded.least(np.concatenate([found.share[None], starts]), goal=False, sets=sets)
            if found.ratio.max() <= 1 + CLOSE:
                found = bounded.least(found.share[None])
        if known and near is not None and found.ratio.max(initial=0.0) > (1 + ENOUGH) ** 2:
            good = bounded.judge(near[None], gains=False)
            if good.ratio.max() <= 1 + CLOSE:
                found = Found(near, float(good.error[0]), good.ratio[0])
        if self.questions[0].expects is not None:  # towards what would be best without it, as far as necessary
            way = (1 - WAY) * share + WAY * found.share
            at = bounded.judge(way, gains=False)
            first = int(np.argmax((at.ratio <= found.ratio.max(initial=1.0) * (1 + CLOSE)).all(axis=1)))
            return Found(way[first], float(at.error[first]), at.ratio[first])
        return found

    def least_epsilon(self, guess: float = 1.0, near: Floats | None = None) -> tuple[float, Found]:
        """The least ε that meets all bounds, and the shares that do; meaningless above `HIGHEST`."""
        good = [self._starts(near) if near is None else np.concatenate([self._starts(near), self.equal[None]])]
        found: list[Found] = []

        def ratio(epsilon: float) -> float:
            bounded = self.at(epsilon)
            found.append(bounded.least(good[-1], goal=False, sets=None if found else self._sets))
            kept = good[-1] if len(found) > 1 else self.equal[None]
            good.append(np.concatenate([found[-1].share[None], kept[:KEPT_STARTS]]))
            return float(found[-1].ratio[bounded.soft].max())

        return solved(ratio, guess, HIGHEST), found[-1]

    @property
    def _sets(self) -> Floats | None:
        return self.starts if self.equal[:, 0].size > 1 else None  # several measures or rows

    def _starts(self, near: Floats | None) -> Floats:
        return self.starts if near is None else self._like(near[None])

    @cached_property
    def starts(self) -> Floats:
        """Equal shares of sets of levels, the lowest always among them; large sets and small ones first."""
        free = self.layout.open
        lowest = free & (np.cumsum(free[::-1], axis=0)[::-1] == 1)
        upper = np.flatnonzero(free.any(axis=1))[:-1].tolist()
        sizes = sorted(range(len(upper) + 1), key=lambda size: min(size, len(upper) - size))
        sets = islice((some for size in sizes for some in combinations(upper, size)), STARTS)
        chosen = np.array([np.isin(np.arange(len(free)), some)[:, None] & free | lowest for some in sets])
        return self._like(chosen[:, None].astype(np.float64))

    def _like(self, to: Floats) -> Floats:
        every = np.broadcast_to(to, (len(to), *self.equal.shape))
        return self.layout.like(every, np.broadcast_to(self.equal, every.shape))

    def shares(self, share: Floats) -> list[Shares]:
        """The parts of each measure."""
        return [Shares(each[:, 0], each.T if share.shape[2] > 1 or self.by_root else None) for each in share]

    @property
    def by_root(self) -> bool:
        return self.spec.split_by is not None


def packed(share: Sequence[Shares], by_root: bool) -> Floats:
    """(measures, levels, rows), with one row where roots have no splits of their own."""
    return np.array([s.roots.T if by_root and s.roots is not None else s.default[:, None] for s in share])


def solved(ratio: Callable[[float], float], guess: float, highest: float) -> float:
    """Where a falling ratio is 1: by secants in logarithms that stay between what is below and what is above."""
    at, tried = log(guess), list[tuple[float, float]]()
    for _ in range(TRIES):
        tried.append((at, log(max(ratio(exp(at)), 1e-300))))
        if abs(tried[-1][1]) <= EXACT or at >= log(highest):
            break
        if abs(_next_try(tried) - at) < 5 * EXACT:  # what was tried before may be worse than it can be
            tried = tried[-1:]
        at = min(_next_try(tried), log(highest) + 1e-9)
    return exp(tried[-1][0])


def _next_try(tried: list[tuple[float, float]]) -> float:
    over, under = ([each for each in tried if (each[1] > 0) == above] for above in (True, False))
    if over and under:
        low, high = max(over), min(under)
        part = low[1] / (low[1] - high[1]) if len(tried) % 3 else 0.5  # a secant alone may creep
        return low[0] + min(max(part, 0.02), 0.98) * (high[0] - low[0])
    at, ratio = tried[-1]
    slope = (ratio - tried[-2][1]) / (at - tried[-2][0]) if len(tried) > 1 else -2.0
    return at + min(max(-ratio / min(slope, -0.2), -3.0), 3.0)


def _rows(q: Problem, by_root: bool) -> tuple[BudgetProblem, LevelBudgets]:
    spec, total = q.spec, by_root and q.spec.total
    counts = (q.tree, q.prior.mean, spec.epsilon, q.tau, q.weights, q.fixed * spec.epsilon)
    try:
        problem = BudgetProblem.of(
            *counts,
            noise=spec.noise_model,
            l1=spec.l1,
            metric=spec.weigh,
            by_root=by_root,
            pooled=not by_root,
            total=total,
        )
        return problem, LevelBudgets.of(problem)
    except ValueError as error:  # of what the user fixed
        raise InputError(str(error)) from error


def _bounds(
    q: Problem,
    problem: BudgetProblem,
    rows: LevelBudgets,
    limits: ChosenLimits,
    k: int,
    unseen: bool,
) -> tuple[Floats, tuple[Bound, ...]]:
    """The weights of the goal and of each error that has a bound, and the bounds, of a measure."""
    targets = q.spec.targets
    tree, forest, names = problem.tree, rows.objective.forest, [*q.spec.levels[: problem.tree.depth], q.measure.name]
    heads = tree.slice(int(tree.total) if tree.depth > int(tree.total) else 0)
    most = np.broadcast_to(limits.most, heads.stop - heads.start)
    cut = np.zeros(len(tree)) if q.profile is None else tree.to_level_order(cut_off(q, most, limits.clips[k])) ** 2

    def judged(some: Any) -> tuple[Floats, Floats]:
        """The weights of classes in the error of each level, over some of its nodes, and what limits add to it.

        The last row is of all levels; nan of a level without weight.
        """
        weight = np.where(some, np.ones(len(tree)) if problem.weights is None else problem.weights, 0.0)
        score = weight * problem.metric(problem.count, problem.tau)
        mass, bias = (np.add.reduceat(each, tree.offsets[:-1]) for each in (weight, score * cut))
        with np.errstate(invalid="ignore"):
            by_class = forest.add_up(tree, score) / mass[forest.level]
            by_class = np.where(np.arange(tree.depth)[:, None] == forest.level, by_class, 0.0)
            by_class, bias = np.where(mass[:, None] > 0, by_class, np.nan), bias / mass
            there = mass > 0
            whole, bias_of_whole = (each[there].sum(axis=0) / there.sum() for each in (by_class, bias))
        return np.vstack([by_class, whole]), np.append(bias, bias_of_whole)

    known = ~under(tree, q.new) if q.spec.split_by is not None and not q.new.all() else np.array(True)
    counted = known | (problem.by_root or unseen)
    every = judged(counted)
    halves = any(target.half_width is not None for target in targets)
    large = judged(counted & (problem.count >= problem.tau)) if halves else every
    goal = rows.objective.weight if problem.by_root and q.spec.split_by is not None else judged(known)[0][-1]
    errors, bounds = {(-1, False): q.measure.weight * goal}, []

    def add(at: int, bound: Bound, half: bool = False) -> None:
        weights, bias = large if half else every
        errors[(at, half)] = weights[at]
        bounds.append(bound._replace(error=list(errors).index((at, half)), bias=float(bias[at])))

    for level in np.flatnonzero(~np.isnan(every[1][:-1])).tolist() if np.isfinite(q.spec.guard_factor) else []:
        add(level, Bound(None, level, times=q.spec.guard_factor**2))
    for target in targets:
        if target.name not in names:
            continue
        at, half = names.index(target.name), target.half_width is not None
        if np.isnan((large if half else every)[1][at]):
            raise InputError(
                f"half_width is for counts of at least tau = {q.tau:g}; {target.name!r} has none in the prior: "
                "ask for an error instead"
                if half
                else f"{target.name!r} has no weight, and so no error; leave its target out"
            )
        of = None if at == tree.depth else at
        if target.error == EQUAL:
            add(at, Bound(target, of, times=1.0))
        else:
            wanted = float(target.error or 0.0) if not half else (target.half_width or 0.0) / half_width_of(q.spec)
            add(at, Bound(target, of, most=wanted**2), half)
    return np.array(list(errors.values())), tuple(bounds)


def half_width_of(spec: Spec) -> float:
    """Half of the 95 % interval, in standard deviations of one noisy figure."""
    return float(quantile(CONFIDENCE, spec.noise_model.shape.excess(np.ones(1)))[0])


def bounded_shares(
    questions: Sequence[Problem],
    limits: ChosenLimits,
    share: Sequence[Shares],
    equal: Sequence[Shares],
    least: Floats,
    near: Sequence[Floats] = (),
) -> tuple[list[Shares], "Missed | None"]:
    """Shares of least error within the bounds, from those without bounds; what is missed if none are.

    `near` are shares that are known to be good: of one split for all and, where roots have their own, of these.
    """
    spec, default, first = questions[0].spec, list(share), near[0] if near else None
    if spec.split_by is not None:
        case = BoundedCase.of(questions, limits, equal, together=True, least=least)
        start = packed(share, by_root=False)
        if first is None or not questions[0].new.any():  # else the least ε was found with the first as default split
            first = case.within(start, spec.epsilon, nearest=False, near=first).share
        default = default if first is start else case.shares(first)
        near = near or [first]
    case = BoundedCase.of(questions, limits, equal, least=least, held=default)
    start = packed(share, case.by_root)
    within = case.within(start, spec.epsilon, near=near[-1] if near else None)
    bounded = list(share) if within.share is start else case.shares(within.share)
    if spec.split_by is not None and not (within.share is start and default[0] is share[0]):
        bounded = [_beside(each, one.default, spec.total) for each, one in zip(bounded, default, strict=True)]
    missed = within.ratio.max(initial=0.0) > (1 + ENOUGH) ** 2
    return bounded, Missed(case, within, spec.epsilon) if missed else None


def bounds_of(questions: Sequence[Problem], limits: ChosenLimits, equal: Sequence[Shares]) -> Bounds:
    """The bounds of one measure, for shares that an API is yet to round; `equal` keeps them all but for targets."""
    case = BoundedCase.of(questions, limits, equal)

    stated = case.at(case.spec.epsilon).measures[0].most  # of the equal split as it is, not rounded to credits

    @cache
    def at(q: Problem) -> Bounded:
        here = replace(case, questions=[q]).at(q.spec.epsilon)
        return replace(here, measures=(here.measures[0]._replace(most=stated),))

    targets = np.array([bound.target is not None for bound in case.bounds[0]], bool)

    def judged(q: Problem, share: Floats) -> tuple[Floats, Floats, Floats]:
        found = at(q).judge(share[:, None], gains=False)
        worst = np.sqrt([found.ratio[:, some].max(axis=1, initial=0.0) for some in (~targets, targets)])
        guard, target = np.where(worst > 1 + ENOUGH, worst, 0.0)
        return found.error, guard, target

    def excess(q: Problem, share: Shares) -> Excess:
        _, guard, target = judged(q, packed([share], case.by_root))
        return Excess(float(guard[0]), float(target[0]))

    return Bounds(equal[0], judged, excess)


def _beside(share: Shares, default: Floats, total: bool) -> Shares:
    """The same with this default split; below a total, it has the rows' total and their measure's part."""
    if total and share.roots is not None:
        top, part = share.roots[0, 0], share.roots[0].sum()
        default = np.append(top, default[1:] * (part - top) / default[1:].sum())
    return Shares(default, share.roots)


def least_shares(spec: Spec, keep: Collection[str]) -> Floats:
    """What each level gets at least, of a measure's part: half of an equal share for those to keep."""
    return np.array([KEPT / len(spec.levels) * (level in keep) for level in spec.levels])


def at_least(q: Problem, share: Shares, least: Floats) -> Shares:
    """The same with at least so much for each level, taken from the others in proportion."""
    if not least.any():
        return share
    spec, fixed = q.spec, np.nan_to_num(q.fixed)
    layout = ShareLayout(np.isnan(q.fixed)[:, None], fixed, spec.total, 2, spec.first_unknown, q.limit, least)
    default = layout.raised(share.default[None, None, :, None])[0, 0, :, 0]
    roots = None if share.roots is None else layout.raised(share.roots.T[None, None])[0, 0].T
    return Shares(default, roots, share.nodes)


class Missed(NamedTuple):
    """Bounds that cannot be kept, and the shares that come nearest."""

    case: BoundedCase
    found: Found
    epsilon: float

    @property
    def targets(self) -> list[tuple[Target, str, float, float]]:
        """The targets that are missed, each with its measure, the error that is possible, and that of limits alone.

        Errors are in the target's unit: half-widths, or times the error of an equal split.
        """
        measures = [q.measure.name for q in self.case.questions]
        flat = [(name, bound) for name, bounds in zip(measures, self.case.bounds, strict=True) for bound in bounds]
        most = np.concatenate([one.most for one in self.case.at(self.epsilon).measures])
        missed = []
        for (name, bound), ratio, room in zip(flat, self.found.ratio, most, strict=True):
            if bound.target and ratio > (1 + ENOUGH) ** 2:
                unit = room + bound.bias if bound.target.error == EQUAL else 1.0
                unit = half_width_of(self.case.spec) ** -2 if bound.target.half_width is not None else unit
                missed.append((bound.target, name, *(np.array([ratio * room + bound.bias, bound.bias]) / unit) ** 0.5))
        return missed


MARGIN = 2e-4  # of ε, for what rounding to whole contributions may cost
LONGEST = 1000.0  # times as long a period
WORTH = 0.05  # of ε: a level left out for less is not worth a word


def needed_epsilon(
    questions: Sequence[Problem], limits: ChosenLimits, equal: Sequence[Shares], least: Floats
) -> tuple[float, list[Floats]]:
    """The least ε that meets all targets and keeps to the guard; the shares that do, of one split for all first.

    Refused where it is more than an answer takes.
    """
    spec, near = questions[0].spec, list[Floats]()
    epsilon, held = spec.epsilon, None
    for together in (True, False) if spec.split_by is not None else (False,):
        case = BoundedCase.of(questions, limits, equal, together=together, unseen=True, least=least, held=held)
        epsilon, found = case.least_epsilon(epsilon, near[0] if near else None)
        near.append(found.share)
        held = case.shares(found.share)
    epsilon *= 1 + MARGIN
    most = min(_largest(spec), HIGHEST)
    if epsilon > most:
        raise InputError(why_missed(Missed(case, case.at(most).least(case.starts, goal=False), most)))
    return epsilon, near


class MissedTargetsError(InputError):
    """Targets that cannot be met, with what is missed of them."""

    def __init__(self, missed: Missed) -> None:
        super().__init__(why_missed(missed))
        self.missed = missed


def why_missed(missed: Missed, whole: Callable[[float], float] = float) -> str:
    """In words: what is possible under this ε, and what would be under other circumstances.

    Of a part of a budget, `whole` gives the ε of all of it, which is what the words are about.
    """
    (case, _, epsilon), words = missed, []
    cut = ""
    for target, measure, error, of_limits in missed.targets:
        asked = target.error if target.half_width is None else target.half_width
        name = target.name + f" of {measure}" * (len(case.questions) > 1 and measure != target.name)
        words.append(
            f"{name} {_percent(error)} instead of {_percent(asked)}"
            if isinstance(asked, float)
            else f"{name} {error:.3g} times its error under an equal split"
        )
        if isinstance(asked, float) and of_limits >= asked:
            cut = f"what limits cut off is {_percent(of_limits)} of {name}, whatever epsilon is; "
    ways = [] if cut else list(_ways(case, epsilon, whole))
    ways += ["higher limits (clip, conversions_per_impression)"] if cut else []
    rule = f"the targets cannot be met with epsilon = {whole(epsilon):.4g}, the nearest is {', '.join(words)}"
    return f"{rule}; {cut}what would meet them: {', or '.join([*ways, 'larger targets'])}"


def _percent(error: float) -> str:
    return f"{100 * error:.3g} %"


def _largest(spec: Spec) -> float:
    """The largest ε that an answer takes."""
    return spec.terms.largest_epsilon if spec.noise_model.on_sums else inf


def _ways(case: BoundedCase, epsilon: float, whole: Callable[[float], float]) -> Iterator[str]:
    """What would meet the targets: more ε, and what helps more than that, where the prior is one of counts."""
    spec, q = case.spec, case.questions[0]
    needed = case.least_epsilon(epsilon)[0] * (1 + MARGIN)
    of_all = whole(needed)
    beyond = f" (more than the {_largest(spec):g} that {spec.terms.answer} takes)" if of_all > _largest(spec) else ""
    if needed < HIGHEST:
        yield f"epsilon = {of_all:.4g}{beyond}"
    free = [replace(each, spec=spec.with_keys(epsilon=epsilon, guard="none")) for each in case.questions]
    if np.isfinite(spec.guard_factor) and _of(case, free).least_epsilon(epsilon)[0] <= epsilon:
        yield 'guard = "none"'
    if q.profile is not None:
        return
    if q.prior.history:

        def ratio(longer: float) -> float:
            """That of the targets if the period is so many times as long, and all counts grow with it."""
            bounded = _of(case, [replace(q, prior=q.prior.times(longer)) for q in case.questions]).at(epsilon)
            return float(bounded.least(case.starts, goal=False).ratio[bounded.soft].max())

        longer = solved(ratio, 2.0, LONGEST)
        if longer < LONGEST:
            yield f"a period {longer:.3g} times as long"
    last, heads = spec.attributes[-1].name, 1 + int(spec.total) + (spec.split_by is not None)
    condensed = isinstance(q.tree, CondensedTree)
    if last not in {target.name for target in spec.targets} and q.tree.depth > heads and not condensed:
        less = _without_last(case, epsilon).least_epsilon(epsilon)[0] * (1 + MARGIN)
        if less < needed * (1 - WORTH):
            yield f"no level {last} and epsilon = {whole(less):.4g}"


def _without_last(case: BoundedCase, epsilon: float) -> BoundedCase:
    """The same bounds on a tree without the last level."""
    q = case.questions[0]
    above = int(q.tree.offsets[-2])
    tree = q.tree.in_level_order.above(q.tree.depth - 1)
    update = {"attributes": case.spec.attributes[:-1], "epsilon_or_auto": epsilon}
    spec, questions = case.spec.model_copy(update=update), []
    for q in case.questions:
        mean = q.tree.to_level_order(q.prior.mean)[:above]
        prior = replace(q.prior, mean=mean, variance=None, new=None)
        questions.append(replace(q, spec=spec, tree=tree, prior=prior, fixed=q.fixed[: tree.depth], expects=None))
    return _of(case, questions)


def _of(case: BoundedCase, questions: Sequence[Problem]) -> BoundedCase:
    """The same bounds for other questions."""
    equal = in_parts(questions, [shares(q, "equal") for q in questions])
    least = case.layout.least[: len(questions[0].fixed)]
    return BoundedCase.of(questions, case.limits, equal, least=least)
