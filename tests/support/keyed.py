"""Plans whose keys and registrations are put to the test: splits of all kinds, made up rather than optimal."""

from typing import Any

import numpy as np
from hypothesis import strategies as st

from attributary import Tree
from attributary.plan import Plan, make_plan
from attributary.plan.contributions import down, whole_with_limit
from attributary.plan.plan import checksum
from attributary.types import Keys
from support.plans import HOURS, UNKNOWN, counts, spec

DELAY = {"name": "delay", "unknown": True, "bucket": "2d", "buckets": 3}
LOGS = {"impressions": "i.csv", "conversions": "c.csv", "user": "user", "time": "time", "window": "5d"}


def changed(plan: Plan, **fields: Any) -> Plan:
    """The plan with other fields, checked."""
    return Plan(**{name: getattr(plan, name) for name in Plan.model_fields} | fields)


def whole(keys: Keys) -> list[int]:
    """Keys of two halves as whole numbers."""
    return [(high << 64) | low for high, low in keys.tolist()]


def rows(plan: Plan, number: int, seed: int) -> list[tuple[int, ...]]:
    """Contributions by level of all kinds that keep to the budget, some of them 0."""
    rng, spec, top = np.random.default_rng(seed), plan.spec, int(plan.spec.total)
    share = rng.dirichlet(np.full(len(plan.levels) - top, 0.5), number) * (rng.random((number, 1)) < 0.9)
    share[rng.random(share.shape) < 0.1] = 0
    left = spec.budget - sum(plan.default[:top])
    lower = slice(spec.first_unknown - top, None)
    found = whole_with_limit(share, left, lower, spec.unknown_budget, "floor")
    return [(*plan.default[:top], *row) for row in found.tolist()]


def by_root(plan: Plan, tree: Tree, seed: int) -> Plan:
    """With splits of their own for most roots."""
    labels = tree.labels[0].dictionary.to_pylist()[:-1]
    roots = dict(zip(labels, rows(plan, len(labels), seed), strict=True))
    return with_roots(plan, roots)


def with_roots(plan: Plan, roots: dict[str, tuple[int, ...]]) -> Plan:
    return changed(plan, measures=(plan.measures[0].model_copy(update={"roots": roots}),))


def by_node(plan: Plan, tree: Tree, seed: int) -> Plan:
    """With a contribution of its own for each node."""
    rng = np.random.default_rng(seed)
    own = (rng.dirichlet(np.ones(8), len(tree))[:, 0] * plan.spec.budget).astype(np.int64)
    own[rng.random(len(tree)) < 0.05] = 0
    own = down(tree, own, np.array(plan.default), plan.spec)
    nodes = tree.table().append_column("contribution", [tree.from_level_order(own)])
    return changed(plan, nodes=nodes, checksum=checksum(nodes))


@st.composite
def plans(draw: st.DrawFn, kinds: tuple[str, ...] = ("one split", "by root", "by node")) -> tuple[Plan, Tree]:
    """A plan, and a tree that has a root and other values that the plan has not seen."""
    unknown = draw(st.sampled_from([(), (UNKNOWN,), (UNKNOWN, HOURS), (DELAY,), (UNKNOWN, DELAY)]))
    given = spec(
        unknown=unknown,
        known=draw(st.sampled_from(["ab", "a", ""])) if unknown else "ab",
        total=draw(st.booleans()),
        neighbours=draw(st.sampled_from(["conversion", "definition-1"])),
        l1=draw(st.sampled_from([65536, 65536, 1000])),
    )
    campaigns, seed = draw(st.integers(2, 9)), draw(st.integers(0, 99))
    seen = given.tree(counts(seed, campaigns))
    plan = make_plan(given, seen, method="equal", rounding="floor")
    kind = draw(st.sampled_from(kinds)) if given.known else "one split"
    if kind != "one split":
        plan = (by_root if kind == "by root" else by_node)(plan, seen, seed)
    return plan, given.tree(counts(seed + 1, campaigns + 2))
