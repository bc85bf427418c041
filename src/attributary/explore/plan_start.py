"""Plan start: what the Plan tab starts with: a question, a tree and the counts to expect on it."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from attributary.errors import InputError
from attributary.explore.estimate_store import EstimateStore
from attributary.facts import numerals
from attributary.plan import Plan
from attributary.prior import Prior
from attributary.spec import Spec
from attributary.spec.measure import COUNT
from attributary.tree import Tree
from attributary.types import Floats

Names = Callable[[list[int]], list[str]]
FANS = (12, 20, 14)
LEVELS = ("campaign", "location", "day", "hour", "device", "placement")
MOST_NODES = 1_000_000
CONVERSIONS = 5_000
MOST_CONVERSIONS = 10**12
EPSILON = 4.0


@dataclass(frozen=True, eq=False)
class PlanStart:
    """A spec without splits by root: the tab moves one split for all."""

    spec: Spec
    tree: Tree
    count: Floats  # of each node, in the tree's order
    words: str  # where tree and counts come from
    names: Names  # of nodes by their number
    warning: str = ""
    share: tuple[float, ...] | None = None  # of each level, to begin with; None: the best
    fans: tuple[int, ...] = ()  # of a made-up tree
    conversions: int = 0  # and what they sum to

    @property
    def prior(self) -> Prior:
        return Prior(self.count, protected=True, new=np.zeros(len(self.tree), bool))


def plan_start(store: EstimateStore | None, plan: Plan | None, tau: float | None = None) -> PlanStart:
    """Estimates say what counts to expect next time; without them the plan's sizes do, and without a plan nothing."""
    if store is not None:
        return _of_store(store, plan, tau)
    return start_of_plan(plan) if plan is not None else made_up_start()


def made_up_start(fans: tuple[int, ...] = FANS, conversions: int = CONVERSIONS) -> PlanStart:
    """A tree by its fan-outs, top to bottom, with counts that fall with rank on every level, as Zipf's law has it."""
    sizes = np.cumprod(fans).tolist()
    if not 1 <= len(fans) <= len(LEVELS) or min(fans) < 1:
        raise InputError(
            f"a made-up tree has 1 to {len(LEVELS)} levels of 1 or more each; got {fans}: as in 12 × 20 × 14"
        )
    if sum(sizes) > MOST_NODES:
        raise InputError(f"a made-up tree has at most {MOST_NODES:,} nodes; got {sum(sizes):,}: lower a fan-out")
    if not 1 <= conversions <= MOST_CONVERSIONS:
        raise InputError(f"a made-up tree has 1 conversion or more; got {conversions:,}")
    names = LEVELS[: len(fans)]
    last = {"unknown": True, "domain": [str(i + 1) for i in range(fans[-1])]} if len(fans) > 1 else {}
    attributes = [*({"name": name} for name in names[:-1]), {"name": names[-1], **last}]
    begin = np.concatenate([[0], np.cumsum(sizes)])
    above = [begin[i] + np.repeat(np.arange(sizes[i]), fan) for i, fan in enumerate(fans[1:])]
    tree = Tree.from_parents(np.concatenate([np.full(fans[0], -1), *above]))
    return PlanStart(
        Spec(epsilon=EPSILON, attribute=attributes),
        tree,
        _zipf(tree, fans, conversions),
        f"a made-up tree with made-up counts, {' × '.join(map(str, fans))}, {conversions:,} conversions",
        lambda nodes: [_ordinal(v, begin.tolist(), fans, names) for v in nodes],
        fans=tuple(fans),
        conversions=conversions,
    )


def _zipf(tree: Tree, fans: tuple[int, ...], conversions: int) -> Floats:
    weight = np.ones(1)
    for fan in fans:
        weight = np.outer(weight, 1 / np.arange(1, fan + 1)).ravel()
    return tree.roll_up(np.round(conversions * weight / weight.sum()))


def _ordinal(node: int, begin: list[int], fans: tuple[int, ...], names: tuple[str, ...]) -> str:
    level = int(np.searchsorted(begin, node, side="right")) - 1
    return f"{names[level]} {(node - begin[level]) % fans[level] + 1}"


def start_of_plan(plan: Plan) -> PlanStart:
    """A tree with the plan's number of nodes on each level, families alike; counts are made up, to the plan's sum."""
    sizes = [max(level.nodes, 1) for level in plan.expected.levels]
    told = plan.prior.conversions or 0.0  # of a protected prior alone
    conversions = told if told > 0 else CONVERSIONS
    parents = [np.full(sizes[0], -1)]
    begin = np.concatenate([[0], np.cumsum(sizes)]).tolist()
    for i in range(1, len(sizes)):
        if sizes[i] < sizes[i - 1]:
            raise InputError(
                "a level of the plan has fewer nodes than the one above; give the estimates or the spec, too"
            )
        parents.append(begin[i - 1] + np.arange(sizes[i]) * sizes[i - 1] // sizes[i])
    tree = replace(Tree.from_parents(np.concatenate(parents)), total=plan.spec.total)
    weight = 1 / np.arange(1, sizes[-1] + 1)
    levels = plan.levels
    return PlanStart(
        count_spec(plan.spec),
        tree,
        tree.roll_up(np.round(conversions * weight / weight.sum())),
        f"the plan's levels and their sizes, with {conversions:,.0f} conversions spread over made-up nodes",
        lambda nodes: [f"{levels[int(np.searchsorted(begin, v, side='right')) - 1]} {v + 1}" for v in nodes],
        share=shares_of(plan),
    )


def shares_of(plan: Plan) -> tuple[float, ...]:
    """What part of the budget each level gets from roots that have no split of their own; of measures, of the first."""
    first = plan.measures[0].default
    whole = sum(first) if len(plan.measures) > 1 else plan.spec.contributions_of(plan.most())
    return tuple(contribution / whole for contribution in first)


def count_spec(spec: Spec) -> Spec:
    """The same question with one split for all roots, of counts of one conversion per impression."""
    limited = {"measures": None, "conversions_per_impression": 1} if spec.values or spec.given_limit is None else {}
    return spec.model_copy(update={"split_by": None, **limited})


def start_of_prior(spec: Spec, tree: Tree, prior: Prior, source: str) -> PlanStart:
    """The tree that a spec asks for, with the counts of an earlier period."""
    where = (
        f"{numerals.many(len(tree), 'node')}, counts from {source}" if prior.history else "no prior: all counts are 0"
    )
    warning = f"NOT PRIVATE: the counts from {source} are NOT protected, and this page shows some of them as they are."
    return PlanStart(
        count_spec(spec),
        tree,
        prior.mean,
        where,
        lambda nodes: [(tree.path(v) or ["total"])[-1] for v in nodes],
        warning="" if prior.protected else warning,
    )


def _of_store(store: EstimateStore, plan: Plan | None, tau: float | None) -> PlanStart:
    counts = next((each for each in (store, *store.others) if each.now.measure == COUNT), store)
    now, view = counts.now, counts.view
    tree = replace(Tree.from_parents(now.forest.parent), total=now.total)
    count = np.empty(len(now))
    columns = (
        store.connection.cursor().execute(f"SELECT node, coalesce(estimate, 0) AS estimate FROM {view}").fetchnumpy()
    )
    count[columns["node"]] = columns["estimate"]

    def names(nodes: list[int]) -> list[str]:
        wanted = ", ".join(map(str, nodes))
        cursor = store.connection.cursor()
        label = dict(cursor.execute(f"SELECT node, label FROM {view} WHERE node IN ({wanted})").fetchall())
        return [label[v] for v in nodes]

    same = plan if plan is not None and plan.levels[: len(now.levels)] == now.levels else None
    spec = _spec(now.levels, now.total, tau) if same is None else count_spec(same.spec)
    return PlanStart(
        spec,
        tree,
        count,
        f"{numerals.many(len(tree), 'node')}, estimates from {now.path}",
        names,
        share=None if same is None else shares_of(same),
    )


def _spec(levels: tuple[str, ...], total: bool, tau: float | None) -> Spec:
    """A spec for levels of these names, or, where a spec would refuse a name, of their numbers."""
    options: dict[str, Any] = {"epsilon": EPSILON, "total": total} | ({} if tau is None else {"tau": tau})
    names = levels[int(total) :]
    try:
        return Spec(**options, attribute=[{"name": name} for name in names])
    except InputError:
        return Spec(**options, attribute=[{"name": f"level {i + 1}"} for i in range(len(names))])
