"""begin: what the Plan tab begins with, from whatever there is: estimates, a plan, a prior, or nothing."""

from typing import Any

import numpy as np

from attributary.errors import InputError
from attributary.explore.start import EPSILON, Start, counted, made_up, of_plan, shares_of
from attributary.explore.store import Store
from attributary.plan import Plan
from attributary.prior import Prior
from attributary.report import numerals
from attributary.spec import Spec
from attributary.spec.measure import COUNT
from attributary.tree import Tree


def begin(store: Store | None, plan: Plan | None, tau: float | None = None) -> Start:
    """Estimates say what counts to expect next time; without them the plan's sizes do, and without a plan nothing."""
    if store is not None:
        return _of_store(store, plan, tau)
    return of_plan(plan) if plan is not None else made_up()


def of_prior(spec: Spec, tree: Tree, prior: Prior, source: str) -> Start:
    """The tree that a spec asks for, with the counts of an earlier period."""
    where = f"{numerals.many(len(tree), 'node')}, counts of {source}" if prior.history else "no prior: all counts are 0"
    warning = f"The counts of {source} are NOT protected: what is seen here tells about them."
    return Start(
        counted(spec),
        tree,
        prior.mean,
        where,
        lambda nodes: [(tree.path(v) or ["total"])[-1] for v in nodes],
        warning="" if prior.protected else warning,
    )


def _of_store(store: Store, plan: Plan | None, tau: float | None) -> Start:
    counts = next((each for each in (store, *store.others) if each.now.measure == COUNT), store)
    now, view = counts.now, counts.view("now")
    tree = Tree.from_parents(now.forest.parent)
    count = np.empty(len(now))
    columns = store.connection.cursor().execute(f"SELECT node, estimate FROM {view}").fetchnumpy()
    count[columns["node"]] = columns["estimate"]

    def names(nodes: list[int]) -> list[str]:
        wanted = ", ".join(map(str, nodes))
        found = dict(
            store.connection.cursor().execute(f"SELECT node, label FROM {view} WHERE node IN ({wanted})").fetchall()
        )
        return [found[v] for v in nodes]

    own = plan if plan is not None and plan.levels[: len(now.levels)] == now.levels else None
    spec = _spec(now.levels, now.total, tau) if own is None else counted(own.spec)
    return Start(
        spec,
        tree,
        count,
        f"{numerals.many(len(tree), 'node')} and the estimates of {now.path}",
        names,
        share=None if own is None else shares_of(own),
    )


def _spec(levels: tuple[str, ...], total: bool, tau: float | None) -> Spec:
    """A spec for levels of these names, or, where a spec would refuse a name, of their numbers."""
    options: dict[str, Any] = {"epsilon": EPSILON, "total": total} | ({} if tau is None else {"tau": tau})
    names = levels[int(total) :]
    try:
        return Spec(**options, attribute=[{"name": name} for name in names])
    except InputError:
        return Spec(**options, attribute=[{"name": f"level {i + 1}"} for i in range(len(names))])
