"""choose_scheme: a plan for each scheme of the API, what each costs, and why one is taken.

Of the schemes within 5 % of the least error, the one with the fewest reports per conversion comes first (with one
report, a conversion is measured at all levels or at none), then the one that stores the fewest impressions, then the
one with the shortest reports.
"""

from collections.abc import Callable

import numpy as np

from attributary.errors import InputError
from attributary.plan.plan import Plan, SchemeCost
from attributary.spec import Spec
from attributary.spec.w3c_schemes import ReportKind, Scheme, report_bytes, report_kinds, scheme_of
from attributary.tree import Tree

TIE = 0.05
MOST_LEVELS = 10  # that share a credit: browsers take at least so many
REMEDY = "raise histogram under [api] if browsers take more, leave a level out, or measure fewer values"
Make = Callable[..., Plan]


def choose_scheme(spec: Spec, tree: Tree, make: Make) -> Plan:
    """The plan of the best scheme, or of the one that the spec names, with the costs of all that were tried.

    `make` makes a plan for a spec that names its scheme; it takes shares of levels that are fixed.
    """
    wanted = None if spec.api is None else spec.api.scheme
    plans = {
        scheme.name: _carried(spec, scheme, make) for scheme in spec.terms.schemes if wanted in (None, scheme.name)
    }
    costs = {name: scheme_cost(plan, tree, _error(spec, plan)) for name, plan in plans.items()}
    possible = [cost for cost in costs.values() if not cost.refused]
    if not possible:
        reasons = "; ".join(f"scheme {cost.scheme} {cost.refused}" for cost in costs.values())
        raise InputError(f"{reasons}: {REMEDY}")
    least = min(cost.error for cost in possible)
    near = [cost for cost in possible if cost.error <= least * (1 + TIE)]
    best = min(near, key=lambda cost: (cost.reports, cost.impressions, cost.bytes))
    costs[best.scheme] = best.model_copy(update={"chosen": True, "why": _why(best, possible, spec)})
    return plans[best.scheme].model_copy(update={"schemes": tuple(costs.values())})


def _error(spec: Spec, plan: Plan) -> float:
    """What is compared: the error of the tree or, if roots were to have splits of their own, the median of theirs."""
    by_root = spec.split_by is not None and not spec.total
    return plan.expected.roots.plan if by_root else plan.expected.tree.plan


def _carried(spec: Spec, scheme: Scheme, make: Make) -> Plan:
    """The plan for one scheme; splits by root where it can have them."""
    section = spec.api.model_copy(update={"scheme": scheme.name}) if spec.api is not None else None
    two = section is not None and section.aggregators != 1
    at_site = section is not None and section.site is not None  # then a conversion knows its root
    update = {"api": section, "noise": scheme.noise[two]}
    by_root = spec.split_by if scheme.splits_by_root or at_site else None
    if by_root and scheme.atomic and spec.unknown and not at_site:
        common = make(spec.model_copy(update={**update, "split_by": None}))  # a conversion does not know its root:
        batches = zip(common.levels, common.default, strict=True)  # what it gives to batches is the same for all
        fixed = {level: part / common.spec.l1 for level, part in list(batches)[spec.first_unknown :]}
        return make(common.spec.model_copy(update={"split_by": by_root}), fixed)
    return make(spec.model_copy(update={**update, "split_by": by_root}))


def scheme_cost(plan: Plan, tree: Tree, error: float) -> SchemeCost:
    """What a plan costs by its scheme: a view's impressions, and a conversion's reports with their bytes."""
    spec, rows = plan.spec, [plan.default, *plan.roots.values()]
    scheme, most = scheme_of(spec), 1000 if spec.api is None else spec.api.histogram or 1000
    used = sorted({index_level(spec, level) for row in rows for level, part in enumerate(row) if part > 0})
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


def index_level(spec: Spec, level: int) -> int:
    """The level whose nodes are a level's indexes: its own, or for batches the last known one; -1 for no attribute."""
    return min(level, spec.first_unknown - 1)


def _sizes(spec: Spec, tree: Tree, levels: list[int]) -> list[int]:
    """How many indexes levels need, on the site that needs most if each has its own."""
    nodes = np.diff(tree.offsets)
    if spec.api is None or spec.api.site is None:
        return [int(nodes[level]) if level >= 0 else 1 for level in levels]
    heads, top = tree.to_level_order(tree.ancestor(int(tree.total))), int(tree.total)
    by_site = [np.bincount(heads[tree.slice(level)], minlength=nodes[top]) for level in levels if level >= top]
    worst = int(np.argmax(np.sum(by_site, axis=0)))
    return [1] * (len(levels) - len(by_site)) + [int(each[worst]) for each in by_site]


def _impressions(spec: Spec, row: tuple[int, ...]) -> int:
    """Impressions that one view of an ad saves."""
    if scheme_of(spec).splits_by_root:
        return sum(row[: spec.first_unknown]) + any(row[spec.first_unknown :])
    return len({index_level(spec, level) for level, part in enumerate(row) if part > 0})


def _why(best: SchemeCost, possible: list[SchemeCost], spec: Spec) -> str:
    """Why a scheme is taken, beside the others, and what to look after."""
    least = min(possible, key=lambda cost: cost.error)
    near = [cost for cost in possible if cost.error <= least.error * (1 + TIE)]
    reasons = ["least error"] if best is least else [f"error within {TIE:.0%} of that of {least.scheme}"]
    if len(possible) == 1:
        reasons = ["the only scheme that fits" if spec.api is None or spec.api.scheme is None else "as the spec says"]
    if any(cost.reports > best.reports for cost in near):
        reasons += ["a conversion is measured at all levels or at none" if best.atomic else "fewest reports"]
    if any(cost.reports == best.reports and cost.impressions > best.impressions for cost in near):
        reasons += ["fewest stored impressions"]
    far = [cost.scheme for cost in possible if cost not in near]
    if far:
        reasons += [f"{' and '.join(far)} {'has' if len(far) == 1 else 'have'} a larger error"]
    if not best.atomic and spec.api is not None and spec.api.others:
        reasons += ["but others draw on the budget, so that levels may lose different conversions when it runs out"]
    return "; ".join(reasons)
