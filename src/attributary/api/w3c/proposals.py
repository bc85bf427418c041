"""proposals: a plan for each scheme of W3C Attribution, what each costs, and why one is taken.

Schemes that keep to the guard come before others, and then those that meet the targets. Of those within 5 % of the
least error, the one with the fewest reports per conversion comes first (with one report, a conversion is measured at
all levels or at none), then the one that stores the fewest impressions, then the one with the shortest reports.

Under a scheme with credits, a conversion has ten or so to give. A split rounded to 65,536 parts is as good as before;
one rounded to ten may not be. So from the rounded split on, single credits move from one level to another as long as
the error to expect falls, for each root by itself. Where that breaks the guard or a target, the split is rounded on its
way to an equal one, which keeps the guard; of one split for all roots, all ways to give so few credits are tried.
"""

import math
from collections.abc import Callable, Collection
from dataclasses import replace
from itertools import combinations

import numpy as np

from attributary.api.w3c.index_layout import used_levels
from attributary.api.w3c.schemes import (
    SCHEMES,
    STEPS,
    ReportKind,
    Scheme,
    index_level,
    micro_of,
    named_scheme,
    report_bytes,
    report_kinds,
    scheme_of,
    section_of,
)
from attributary.budget import METHODS
from attributary.budget.problem import BudgetProblem, PlainOptions
from attributary.budget.split import LevelBudgets
from attributary.errors import InputError
from attributary.plan import Plan
from attributary.plan.bounds import ENOUGH
from attributary.plan.contributions import contributions
from attributary.plan.problem import Problem, Shares
from attributary.plan.proposals import Asked, Bounds, Excess, Proposals, Solve, Wishes
from attributary.plan.sections import SchemeCost
from attributary.spec import Spec
from attributary.spec.measure import MICRO
from attributary.tree import Tree
from attributary.types import Floats, Ints

TIE = 0.05
MOST_LEVELS = 10  # that share a credit: browsers take at least so many
REMEDY = "raise histogram under [api] if browsers take more, leave a level out, or measure fewer values"
FEW = 64  # credits
MOST_ROWS = 20_000  # ways to give them
NEXT = 1.005  # times the least error
WAY = np.linspace(0.0, 1.0, 9)  # from a split to an equal one
LESS = 1 - 1e-9  # an error that is smaller, and not by rounding alone


class SchemeProposals(Proposals):
    def decided(self, spec: Spec) -> bool:
        return named_scheme(spec) is not None

    def choose(self, asked: Asked, wishes: Wishes, solve: Solve) -> Plan:
        spec, wanted = asked.spec, named_scheme(asked.spec)
        if spec.finds_epsilon:
            raise InputError(f'epsilon = "auto" is not for the {spec.terms.title}, whose schemes differ; give a number')
        lenient = wishes._replace(strict=wishes.strict and wanted is not None)
        plans = {scheme.name: _carried(scheme, asked, lenient, solve) for scheme in SCHEMES if wanted in (None, scheme)}
        median = spec.split_by is not None and not spec.total  # of the errors of roots that were to have own splits
        errors = {n: each.expected.roots.plan if median else each.expected.tree.plan for n, each in plans.items()}
        costs = {name: scheme_cost(plan, asked.tree, errors[name]) for name, plan in plans.items()}
        possible = [cost for cost in costs.values() if not cost.refused]
        if not possible:
            reasons = "; ".join(f"scheme {cost.scheme} {cost.refused}" for cost in costs.values())
            raise InputError(f"{reasons}: {REMEDY}")
        above = {cost.scheme: _above(plans[cost.scheme]) for cost in possible} if METHODS[wishes.method].bounded else {}
        if above and all(each.target for each in above.values()) and wishes.strict and wanted is None:
            nearest = min(above, key=above.__getitem__)  # whose refusal says what would meet the targets
            _carried(next(scheme for scheme in SCHEMES if scheme.name == nearest), asked, wishes, solve)
        kept = {name: (each.guard > 0, each.target > 0) for name, each in above.items()}
        broken = [name for name in kept if kept[name] > min(kept.values())]
        possible = [cost for cost in possible if cost.scheme not in broken]
        least = min(cost.error for cost in possible)
        near = [cost for cost in possible if cost.error <= least * (1 + TIE)]
        best = min(near, key=lambda cost: (cost.reports, cost.impressions, cost.bytes))
        costs[best.scheme] = best.model_copy(update={"chosen": True, "why": _why(best, possible, broken, spec)})
        return plans[best.scheme].model_copy(update={"schemes": tuple(costs.values())})

    def fitted(self, problem: Problem, share: Shares, wishes: Wishes, bounds: Bounds | None) -> Spec:
        most = scheme_of(problem.spec).credits
        if problem.spec.values:
            return with_credits(problem.spec, STEPS)
        return with_best_credits(problem, share, most, wishes, bounds) if problem.spec.l1 > most > 0 else problem.spec

    def improved(self, problem: Problem, share: Shares, whole: Shares, wishes: Wishes, bounds: Bounds | None) -> Shares:
        return whole if METHODS[wishes.method].fixed else within_bounds(problem, share, whole, wishes, bounds)


def _carried(scheme: Scheme, asked: Asked, wishes: Wishes, solve: Solve) -> Plan:
    """The plan for one scheme; splits by root where it can have them."""
    spec, section = asked.spec, section_of(asked.spec).model_copy(update={"scheme": scheme.name})
    at_site = section.site is not None  # then a conversion knows its root
    by_root = spec.split_by if scheme.splits_by_root or at_site else None
    carried = spec.model_copy(update={"api": section, "noise": scheme.noise[section.aggregators != 1]})
    if by_root and scheme.atomic and spec.unknown and not at_site:  # a conversion does not know its root:
        common = solve(asked._replace(spec=carried.model_copy(update={"split_by": None})), wishes)
        batches = zip(common.levels, common.default, strict=True)  # what it gives to batches is the same for all
        fixed = {level: part / common.spec.l1 for level, part in list(batches)[spec.first_unknown :]}
        carried, wishes = common.spec, wishes._replace(share={**wishes.share, **fixed})
    return solve(asked._replace(spec=carried.model_copy(update={"split_by": by_root})), wishes)


def scheme_cost(plan: Plan, tree: Tree, error: float) -> SchemeCost:
    """What a plan costs by its scheme: a view's impressions, and a conversion's reports with their bytes."""
    spec, rows = plan.spec, [plan.default, *plan.roots.values()]
    scheme, most = scheme_of(spec), section_of(spec).histogram
    used = used_levels(plan)
    sizes = dict(zip(used, _sizes(spec, tree, used), strict=True))
    each = [report_kinds(spec, row) for row in rows]

    def size(kind: ReportKind) -> int:
        return sum(sizes.values()) if scheme.atomic else sizes[index_level(spec, kind.levels[0])]

    largest = max(size(kind) for kinds in each for kind in kinds)
    refused = ""
    if largest > most:
        refused = f"needs {largest:,} indexes of a histogram, and browsers take {most:,}"
    if scheme.atomic and len(used) > MOST_LEVELS:
        refused = f"shares credit among {MOST_LEVELS} levels at most, and there are {len(used)}"
    if scheme.splits_by_root and not spec.known_first:
        refused = "saves no impressions for batches above indexes"
    return SchemeCost(
        scheme=scheme.name,
        words=scheme.words,
        error=error,
        credits=spec.l1 if scheme.atomic else None,
        reports=max(map(len, each)),
        bytes=max(sum(report_bytes(size(kind), kind.value) for kind in kinds) for kinds in each),
        histogram=largest,
        impressions=max(_impressions(spec, row) for row in rows),
        atomic=max(map(len, each)) == 1,
        by_root=bool(plan.roots),
        refused=refused,
    )


def _sizes(spec: Spec, tree: Tree, levels: list[int]) -> list[int]:
    """How many indexes levels need, on the site that needs most if each has its own."""
    top, known = int(tree.total), [attribute.name for attribute in spec.known]
    own_sites, numbers, by_site = section_of(spec).site is not None, tree.numbered(known), list[Ints]()
    heads = tree.to_level_order(tree.ancestor(top)) if own_sites else np.zeros(len(tree), np.int64)
    for i in (tree.level_names.index(known[level - top]) for level in levels if level >= top):
        first = np.unique(numbers[i], return_index=True)[1]  # below a batch, indexes are those of all batches
        by_site.append(np.bincount(heads[tree.slice(i)][first], minlength=int(heads.max()) + 1))
    worst = int(np.argmax(np.sum(by_site, axis=0)))
    return [1] * (len(levels) - len(by_site)) + [int(each[worst]) for each in by_site]


def _impressions(spec: Spec, row: tuple[int, ...]) -> int:
    """Impressions that one view of an ad saves."""
    if scheme_of(spec).splits_by_root:
        return sum(row[: spec.first_unknown]) + any(row[spec.first_unknown :])
    return len({index_level(spec, level) for level, part in enumerate(row) if part > 0})


def _above(plan: Plan) -> Excess:
    """How far the errors to expect of a plan are above its guard and its targets."""
    errors = [level.error for part in plan.by_measure for level in part.plan.expected.levels]
    most, known = plan.spec.guard_factor, [error for error in errors if 0 < error.equal < math.inf]
    guard = max((error.plan / (most * error.equal) for error in known), default=0.0)
    target = max((each.error / each.most for each in plan.targets or () if each.nodes), default=0.0)
    return Excess(*(worst if worst > 1 + ENOUGH else 0.0 for worst in (guard, target)))


def _why(best: SchemeCost, possible: list[SchemeCost], broken: list[str], spec: Spec) -> str:
    least = min(possible, key=lambda cost: cost.error)
    near = [cost for cost in possible if cost.error <= least.error * (1 + TIE)]
    reasons = ["least error"] if best is least else [f"error within {TIE:.0%} of that of {least.scheme}"]
    if len(possible) == 1:
        reasons = ["the only scheme that fits" if named_scheme(spec) is None else "as the spec says"]
    if broken:
        less = f"{' and '.join(broken)} {'keeps' if len(broken) == 1 else 'keep'} less well to guard and targets"
        reasons = [less, *(f"{reason} among the others" for reason in reasons if len(possible) > 1)]
    if any(cost.reports > best.reports for cost in near):
        reasons += ["a conversion is measured at all levels or at none" if best.atomic else "fewest reports"]
    if any(cost.reports == best.reports and cost.impressions > best.impressions for cost in near):
        reasons += ["fewest stored impressions"]
    far = [cost.scheme for cost in possible if cost not in near]
    if far:
        reasons += [f"{' and '.join(far)} {'has' if len(far) == 1 else 'have'} a larger error"]
    if not best.atomic and section_of(spec).others:
        reasons += ["but others draw on the budget, so that levels may lose different conversions when it runs out"]
    return "; ".join(reasons)


# Few credits


Judge = Callable[[Problem, Ints], Floats]  # of a spec's credits, by row: the tree's error, or those of the roots


def improved(q: Problem, whole: Shares, keep: Collection[str] = (), tree: Judge | None = None) -> Shares:
    """The same contributions, or better ones where they are few; levels with fixed shares stay as they are.

    `tree` judges rows of all heads, by roots where these have their own; it is made anew where it is not given.
    """
    if q.spec.budget > FEW or whole.nodes is not None:
        return whole
    free = np.isnan(q.fixed)
    free[0] &= not (q.spec.total and q.spec.split_by is not None)  # one key that all roots feed
    least = np.array([level in (*keep, q.spec.levels[-1]) for level in q.spec.levels], np.int64)
    most, own = (q.limit, q.spec.first_unknown), whole.roots is not None
    known = judge(q, q.of_known_heads(q.weights)) if own or tree is None else tree
    default = _descend(whole.default[None], lambda rows: known(q, rows), free, least, most)[0]
    if whole.roots is None:
        return Shares(default)
    roots = whole.roots
    if q.by_root:
        of_roots = tree or judge(q, q.weights, own=True)
        roots = _descend(roots, lambda rows: of_roots(q, rows), free, least, most)
    return Shares(default, np.where(q.new[:, None], default, roots))


def within_bounds(
    q: Problem, share: Shares, whole: Shares, wishes: Wishes, bounds: Bounds | None, tree: Judge | None = None
) -> Shares:
    """Improved contributions if these keep to the bounds, or else the best that do, or come nearest: guard first."""
    made = improved(q, whole, wishes.keep, tree)
    if bounds is None or q.spec.budget > FEW or not any(bounds.excess(q, made.parts(q.spec.l1))):
        return made
    rows = _all_rows(q, whole.default, wishes.keep) if share.roots is None else None
    if rows is not None and len(rows):
        error, guard, target = bounds.judged(q, (rows / q.spec.l1)[:, :, None])
        return Shares(rows[np.lexsort([error, target, guard])[0]])
    tree = tree or judge(q, q.weights, own=share.roots is not None)
    tried = []
    for part in WAY:  # to an equal split
        equal = bounds.equal
        roots = None if share.roots is None else share.roots + part * (equal.rows(q.tree) - share.roots)
        mixed = Shares(share.default + part * (equal.default - share.default), roots)
        (one,) = contributions([q], [mixed], rounding=wishes.rounding, keep=wishes.keep)
        error = tree(q, one.default[None] if one.roots is None else one.roots)
        tried.append((bounds.excess(q, one.parts(q.spec.l1)), float(np.nanmedian(error)), one))
    return min(tried, key=lambda one: one[:2])[2]


def _all_rows(q: Problem, like: Ints, keep: Collection[str]) -> Ints | None:
    """All ways to give the credits to levels, those of levels with fixed shares being as they are; None if too many."""
    levels, number, free = q.spec.levels, q.spec.budget, np.flatnonzero(np.isnan(q.fixed))
    places, bars = int(like[free].sum()) + len(free) - 1, len(free) - 1
    if math.comb(places, bars) > MOST_ROWS:
        return None
    ends = np.array([[-1, *some, places] for some in combinations(range(places), bars)])
    rows = np.repeat(like[None], len(ends), axis=0)
    rows[:, free] = np.diff(ends, axis=1) - 1
    least = np.array([level in (*keep, levels[-1]) for level in levels])
    unknown = rows[:, q.spec.first_unknown :].sum(axis=1) <= q.limit * number
    made: Ints = rows[(rows >= least).all(axis=1) & unknown]
    return made


def with_best_credits(q: Problem, share: Shares, most: int, wishes: Wishes, bounds: Bounds | None = None) -> Spec:
    """The spec with the fewest credits, up to `most`, whose error is next to the least that keeps to the bounds.

    Fewer make shorter reports, or fewer impressions. Where shares are fixed, or are not to be improved, only numbers
    count that tell them best.
    """
    improve, keep = not METHODS[wishes.method].fixed, wishes.keep
    tried = dict[int, tuple[float, float, float, float]]()
    stated = q.fixed if improve else share.rows(q.tree)
    tree = judge(q, q.weights, own=share.roots is not None)
    for number in range(min(len({*keep, q.spec.levels[-1]}), most), most + 1):
        spec = with_credits(q.spec, number)
        asked = replace(q, spec=spec)
        (whole,) = contributions([asked], [share], rounding=wishes.rounding, keep=keep)
        whole = within_bounds(asked, share, whole, wishes, bounds, tree) if improve else whole
        rows = whole.default[None] if whole.roots is None else whole.roots
        error = float(np.nanmedian(tree(asked, rows)))
        missed = np.nansum(np.abs(rows / number - stated), axis=1).max()
        excess = Excess() if bounds is None else bounds.excess(asked, whole.parts(number))
        tried[number] = *excess, round(float(missed), 9), error
    *least, lowest = min(tried.values())
    fewest = min(n for n, (*missed, error) in tried.items() if missed == least and error <= NEXT * lowest)
    return with_credits(q.spec, fewest)


def with_credits(spec: Spec, number: int) -> Spec:
    """The spec with so many credits; where they are shared among reports, each is a whole number of µε."""
    micro = micro_of(spec) // number * number if spec.unknown else micro_of(spec)
    return spec.model_copy(update={"l1": number, "epsilon_or_auto": micro / MICRO})


def judge(q: Problem, weights: Floats | None, own: bool = False) -> Judge:
    """What rows of contributions mean, one for all heads or, if heads have their `own`, one for each.

    Errors of unbiased estimates are worked out on classes of nodes that are alike.
    """
    spec, top, by_root = q.spec, int(q.spec.total), own and q.by_root
    if q.expects is not None:
        heads = q.tree.slice(top)

        def with_prior(asked: Problem, rows: Ints) -> Floats:
            every = np.broadcast_to(rows, (heads.stop - heads.start, rows.shape[1]))
            budget = asked.tree.spread(every, top, rest=True) * (asked.spec.epsilon / asked.spec.l1)
            errors = asked.expected(asked.spec.noise_model.variance(budget), weights)
            return errors.roots if by_root else np.array([errors.tree])

        return with_prior
    options = PlainOptions(l1=spec.l1, by_root=own, pooled=not by_root, total=spec.total, metric=spec.weigh)
    options["noise"] = spec.noise_model
    budgets = LevelBudgets.of(BudgetProblem.of(q.tree, q.prior.mean, spec.epsilon, q.tau, weights, **options))

    def on_classes(asked: Problem, rows: Ints) -> Floats:
        objective = replace(budgets.objective, model=asked.spec.noise_model)
        at = replace(budgets, objective=objective)
        errors: Floats = np.sqrt(at.errors(at.pack(rows.T[None] * (asked.spec.epsilon / asked.spec.l1)))[0])
        return np.where(errors > 0, errors, np.nan) if by_root else errors

    return on_classes


def _descend(rows: Ints, errors: Callable[[Ints], Floats], free: Floats, least: Ints, most: tuple[float, int]) -> Ints:
    """Rows of which no single move between levels makes the error of one smaller.

    `most` is what part the levels from the first unknown one on may have, as Definition 1 has it, and that level.
    """
    levels, error, (part, unknown) = np.flatnonzero(free).tolist(), errors(rows), most
    while True:
        better, best = rows.copy(), error.copy()
        for giver in levels:
            has = rows[:, giver] > least[giver]
            for taker in levels if has.any() else ():
                more = rows[:, unknown:].sum(axis=1) + (taker >= unknown) - (giver >= unknown)
                can = has & ((taker < unknown) | (giver >= unknown) | (more <= part * rows.sum(axis=1)))
                moved = rows.copy()
                moved[can, giver] -= 1
                moved[can, taker] += 1
                then = errors(moved)
                gains = can & (then < best * LESS)
                better[gains], best[gains] = moved[gains], then[gains]
        if not (best < error).any():
            return rows
        rows, error = better, best
