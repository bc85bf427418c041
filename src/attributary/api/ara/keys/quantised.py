"""quantised: a plan with so few different contributions that the source can tell a trigger which are its own."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from attributary.api.ara.keys.alike import alike, distinct_paths, under_new, variance_ratio
from attributary.api.ara.keys.classes import NEW, by_known_path, classes, seen_and_new, spec_tree
from attributary.api.ara.keys.cluster import cluster
from attributary.api.ara.keys.quantised_many import fewer
from attributary.errors import InputError
from attributary.plan import Plan
from attributary.plan.plan import checksum
from attributary.plan.whole import whole_with_limit
from attributary.spec import Spec
from attributary.types import Ints

MOST = 50  # classes, unless told otherwise


class Quantised(NamedTuple):
    """A plan, and what it has lost: by level, the noise variance in terms of what it was."""

    plan: Plan
    before: int  # how many different contributions there were
    after: int
    mean: tuple[float, ...]  # over roots, or over nodes
    worst: tuple[float, ...]

    @property
    def changed(self) -> bool:
        return max(self.worst) > 1 or self.before > self.after


def quantised(plan: Plan, most: int = MOST) -> Quantised:
    """The plan with at most so many classes; as it is, if it has no more."""
    if not most >= 2:
        raise InputError(f"there are at least 2 classes, one of them for what the plan has not seen; got {most}")
    return _by_root(plan, most) if plan.nodes is None else _by_node(plan, most)


def _by_root(plan: Plan, most: int) -> Quantised:
    before = len(classes(plan))
    if before <= most:
        return _unchanged(plan, before)
    if plan.measures is not None or plan.per_impression is not None:
        made, was, now = fewer(plan, most)
        each = (
            np.split(was, len(was[0]) // len(plan.levels), axis=1),
            np.split(now, len(now[0]) // len(plan.levels), axis=1),
        )
        levels = range(len(plan.levels))
        by_level = ([np.concatenate([part[:, i] for part in parts]) for i in levels] for parts in each)
        return Quantised(made, before, len(classes(made)), *_loss(*by_level))
    own = np.array(list(plan.roots.values()))
    distinct, number, size = np.unique(own, axis=0, return_inverse=True, return_counts=True)
    group = cluster(distinct.astype(np.float64), size.astype(np.float64), most - 1)[number.reshape(-1)]
    rows = _means(plan.spec, own, group)
    taken = rows[group]
    roots = {label: tuple(row) for label, row in zip(plan.roots, taken.tolist(), strict=True)}
    made = _again(plan, roots=roots)
    return Quantised(made, before, len(classes(made)), *_loss(list(own.T), list(taken.T)))


def _means(spec: Spec, own: Ints, group: Ints) -> Ints:
    """The mean of each group in whole numbers that keep within the budget, as all its members do."""
    size = np.bincount(group)
    mean = np.stack([np.bincount(group, own[:, i]) / np.maximum(size, 1) for i in range(own.shape[1])], axis=1)
    top = int(spec.total)  # one key that all roots feed, from all with the same contribution
    common = mean[:, :top].round().astype(np.int64)
    left = spec.budget - int(common.max(initial=0))
    lower = slice(spec.first_unknown - top, None)
    rest = whole_with_limit(mean[:, top:] / max(left, 1), left, lower, spec.unknown_budget, "largest-remainder")
    rows = np.hstack([common, rest])
    for row, level in np.argwhere((rows == 0) & (mean > 0)):  # a key that some member has is not lost to rounding
        full = level >= spec.first_unknown and rows[row, spec.first_unknown :].sum() >= spec.unknown_budget
        first = spec.first_unknown if full else top
        largest = first + int(rows[row, first:].argmax())
        if rows[row, largest] > 1:
            rows[row, [largest, level]] += [-1, 1]
    return rows


def _by_node(plan: Plan, most: int) -> Quantised:
    tree, paths = seen_and_new(plan)
    was = tree.to_level_order(plan.contribution(tree))
    before, (_, same) = distinct_paths(tree, was), by_known_path(plan.spec, tree, was)
    if same and before <= most:
        return _unchanged(plan, before)
    new = under_new(tree)
    now = alike(plan, tree, was, new, most)
    nodes = spec_tree(plan.spec, [path for path in paths if NEW not in path])
    made = nodes.table().append_column("contribution", [now[~new]])
    levels = [tree.slice(i) for i in range(tree.depth)]
    loss = _loss(*([value[level][~new[level]] for level in levels] for value in (was, now)))
    again = _again(plan, nodes=made, checksum=checksum(made))
    return Quantised(again, before, distinct_paths(tree, now), *loss)


def _loss(was: Sequence[Ints], now: Sequence[Ints]) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """By level, the mean and the worst of the variances now, each in terms of what it was."""
    ratios = [variance_ratio(ours, theirs) for ours, theirs in zip(was, now, strict=True)]
    return tuple(float(r.mean()) for r in ratios), tuple(float(r.max()) for r in ratios)


def _unchanged(plan: Plan, number: int) -> Quantised:
    ones = (1.0,) * len(plan.levels)
    return Quantised(plan, number, number, ones, ones)


def _again(plan: Plan, **changed: Any) -> Plan:
    """The plan with some of it changed, and checked again."""
    return Plan(**{name: getattr(plan, name) for name in Plan.model_fields} | changed)
