"""fewer_classes: the different contributions of conversions, and a plan with so few that a trigger can list them all.

A conversion does not know its impression, so that the source carries the number of its class in its filter data, and
the trigger has the contributions of every class.

Roots with similar contributions get their mean, in whole numbers that keep within the budget. In a plan by node, a
known node has one contribution, common to all paths through it: what reaches its key is its count times that. So it is
the nodes of a level that are made alike, not the paths; and since an impression does not know what is unknown, a
level's nodes below a known path get their mean.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from attributary.errors import InputError
from attributary.plan import Plan
from attributary.plan.contributions import down, whole_with_limit
from attributary.plan.plan import checksum
from attributary.spec import Spec
from attributary.tree import Tree
from attributary.types import Bools, Floats, Ints

MOST = 50  # classes, unless told otherwise
NEW = "\0new"  # the label of a value that the plan has not seen


@dataclass(frozen=True, eq=False)
class ContributionClasses:
    """Rows of contributions by level, all different, and the row of each known path or of its beginning."""

    rows: Ints  # (classes, levels), or with several measures (classes, measures × levels)
    of_path: dict[tuple[str, ...], int]
    length: int  # of the paths
    most: Ints  # how many conversions of an impression count, in each class

    def __len__(self) -> int:
        return len(self.rows)

    def of(self, labels: Sequence[str]) -> int:
        """The class of an impression, from the labels of its known attributes."""
        path = tuple(labels[: self.length])
        for seen in range(self.length, 0, -1):
            number = self.of_path.get(path[:seen] + (NEW,) * (self.length - seen))
            if number is not None:
                return number
        return self.of_path[(NEW,) * self.length]


def classes(plan: Plan) -> ContributionClasses:
    """The classes of a plan; the first is that of impressions whose first attribute the plan has not seen."""
    if plan.nodes is not None:
        return _node_classes(plan)
    length = int(bool(plan.roots))
    default, roots = wide(plan)
    rows = [default, *sorted({*roots.values()} - {default})]
    number = {row: i for i, row in enumerate(rows)}
    of_path = {(label,): number[row] for label, row in roots.items()}
    table = np.array(rows)
    return ContributionClasses(table[:, :-1], of_path | {(NEW,) * length: 0}, length, table[:, -1])


def wide(plan: Plan) -> tuple[tuple[int, ...], dict[str, tuple[int, ...]]]:
    """The contributions of all measures in a row, then how many conversions count: of new roots, and of others."""
    measures = plan.by_measure

    def row(label: str | None) -> tuple[int, ...]:
        each = (part.plan.default if label is None else part.plan.roots[label] for part in measures)
        return (*chain.from_iterable(each), plan.most(label))

    return row(None), {label: row(label) for label in plan.roots}


def _node_classes(plan: Plan) -> ContributionClasses:
    tree, paths = seen_and_new(plan)
    rows, same = by_known_path(plan.spec, tree, tree.to_level_order(plan.contribution(tree)))
    if not same:
        raise ValueError(
            "nodes below one known path have contributions of their own; make classes with `fewer_classes`"
        )
    first = rows[[paths.index((NEW,) * len(plan.spec.known))]]
    unique = np.unique(rows, axis=0)
    distinct = np.concatenate([first, unique[(unique != first).any(axis=1)]])
    number = {tuple(row): i for i, row in enumerate(distinct.tolist())}
    of_path = {path: number[tuple(row)] for path, row in zip(paths, rows.tolist(), strict=True)}
    most = np.full(len(distinct), plan.most())
    return ContributionClasses(distinct.astype(np.int64), of_path, len(plan.spec.known), most)


def seen_and_new(plan: Plan) -> tuple[Tree, list[tuple[str, ...]]]:
    """The tree of a plan by node, with a new value below each known node above the last, and its known paths."""
    spec = plan.spec
    known = [attribute.name for attribute in spec.known]
    if not known:
        return spec.tree(), [()]
    above = plan.nodes.filter(pa.array(plan.nodes.column("level").to_numpy() < spec.first_unknown))
    columns = {name: above.column(name).cast(pa.string()).fill_null(NEW) for name in known}
    new = {name: pa.chunked_array([[NEW]], pa.string()) for name in known}
    table = pa.concat_tables([pa.table(columns), pa.table(new)])
    tree, last = spec.tree(table), spec.first_unknown - 1
    node, labels = np.arange(tree.offsets[last], tree.offsets[last + 1]), list[list[str]]()
    for level in range(last, int(spec.total) - 1, -1):
        column = tree.labels[level - spec.total].take(node - int(tree.offsets[level]))
        labels.insert(0, column.cast("string").to_pylist())
        node = tree.family[node]
    return tree, list(zip(*labels, strict=True))


def by_known_path(spec: Spec, tree: Tree, value: Any) -> tuple[Floats, bool]:
    """A value of nodes in level order as rows by level, one for each known path, and whether nodes below are alike.

    Where they are not, the mean of a level's nodes below the path stands for them.
    """
    last = spec.first_unknown - 1
    paths = 1 if last < int(spec.total) else tree.slice(last).stop - tree.slice(last).start
    rows, same = np.empty((paths, tree.depth)), True
    node = np.arange(tree.offsets[last], tree.offsets[last] + paths) if last >= 0 else np.zeros(1, np.int64)
    for i in range(last, -1, -1):
        rows[:, i] = value[node]
        node = tree.family[node]
    for i in range(last + 1, tree.depth):
        below = value[tree.slice(i)].reshape(paths, -1)
        rows[:, i] = below.mean(axis=1)
        same = same and bool((below == below[:, :1]).all())
    return rows, same


class FewerClasses(NamedTuple):
    """A plan, and what it has lost: by level, the noise variance in terms of what it was."""

    plan: Plan
    before: int  # how many different contributions there were
    after: int
    mean: tuple[float, ...]  # over roots, or over nodes
    worst: tuple[float, ...]

    @property
    def changed(self) -> bool:
        return max(self.worst) > 1 or self.before > self.after


def fewer_classes(plan: Plan, most: int = MOST) -> FewerClasses:
    """The plan with at most so many classes; as it is, if it has no more."""
    if not most >= 2:
        raise InputError(f"there are at least 2 classes, one of them for what the plan has not seen; got {most}")
    return _by_root(plan, most) if plan.nodes is None else _by_node(plan, most)


def _by_root(plan: Plan, most: int) -> FewerClasses:
    """Roots that count as many conversions of an impression are drawn together, and each group has their mean."""
    before, depth = len(classes(plan)), len(plan.levels)
    if before <= most:
        return _unchanged(plan, before)
    rows = np.array(list(wide(plan)[1].values()))
    was, limit = rows[:, :-1], rows[:, -1]
    now = was.copy()
    limits, size = np.unique(limit, return_counts=True)
    for number, groups in zip(limits.tolist(), _shared(size, most - 1).tolist(), strict=True):
        here = np.flatnonzero(limit == number)
        distinct, place, times = np.unique(was[here], axis=0, return_inverse=True, return_counts=True)
        if len(distinct) > groups:
            group = cluster(distinct.astype(np.float64), times.astype(np.float64), groups)[place.reshape(-1)]
            now[here] = _means(plan, was[here], group)[group]
    measures = []
    for part, table in zip(plan.measures, np.swapaxes(now.reshape(len(now), -1, depth), 0, 1).tolist(), strict=True):
        measures.append(part.model_copy(update={"roots": dict(zip(plan.roots, map(tuple, table), strict=True))}))
    made = _again(plan, measures=tuple(measures))
    by_level = ([row[:, i::depth].T.ravel() for i in range(depth)] for row in (was, now))
    return FewerClasses(made, before, len(classes(made)), *_loss(*by_level))


def _means(plan: Plan, of_roots: Ints, group: Ints) -> Ints:
    """The mean of each group in whole numbers that keep within the budget, as all its members do."""
    spec, size = plan.spec, np.maximum(np.bincount(group), 1)
    mean = np.stack([np.bincount(group, column) / size for column in of_roots.T], axis=1)
    if spec.values or plan.per_impression is not None:
        return np.floor(mean + 1e-9).astype(np.int64)
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


def _by_node(plan: Plan, most: int) -> FewerClasses:
    tree, paths = seen_and_new(plan)
    was = tree.to_level_order(plan.contribution(tree))
    before, (rows, same) = _distinct_paths(tree, was), by_known_path(plan.spec, tree, was)
    if same and before <= most:
        return _unchanged(plan, before)
    known = len(plan.spec.known)
    if most <= known:
        raise InputError(f"a plan by node needs at least {known + 1} classes with {known} known attributes; got {most}")
    new, levels = _under_new(tree), [tree.slice(i) for i in range(tree.depth)]

    def loss(now: Ints) -> tuple[tuple[float, ...], tuple[float, ...]]:
        return _loss(*([value[level][~new[level]] for level in levels] for value in (was, now)))

    bins = [most]  # different contributions of a level to try: each time a fifth less, down to none of its own
    while bins[-1] > 0:
        bins.append(bins[-1] * 4 // 5)
    tries = (_drawn(plan, tree, was, rows, new, number, up) for number in bins for up in (True, False))
    now = min((one for one in tries if _distinct_paths(tree, one) <= most), key=lambda one: sum(loss(one)[0]))
    columns = zip(*(path for path in paths if NEW not in path), strict=True)
    nodes = plan.spec.tree({a.name: column for a, column in zip(plan.spec.known, columns, strict=True)})
    made = nodes.table().append_column("contribution", [now[~new]])
    again = _again(plan, nodes=made, checksum=checksum(made))
    return FewerClasses(again, before, _distinct_paths(tree, now), *loss(now))


def _loss(was: Sequence[Ints], now: Sequence[Ints]) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """By level, the mean and the worst of the noise variances now, relative to those before; of what had a key."""
    with np.errstate(divide="ignore"):
        each = [(ours[ours > 0] / theirs[ours > 0]) ** 2 for ours, theirs in zip(was, now, strict=True)]
    ratios = [ratio if len(ratio) else np.ones(1) for ratio in each]
    return tuple(float(ratio.mean()) for ratio in ratios), tuple(float(ratio.max()) for ratio in ratios)


def _unchanged(plan: Plan, number: int) -> FewerClasses:
    ones = (1.0,) * len(plan.levels)
    return FewerClasses(plan, number, number, ones, ones)


def _again(plan: Plan, **changed: object) -> Plan:
    return Plan(**{name: getattr(plan, name) for name in Plan.model_fields} | changed)


def _shared(size: Ints, groups: int) -> Ints:
    """How many groups each limit's roots get: one at least, the others by their number."""
    room: Ints = np.minimum(size, np.maximum(1, size * (groups - len(size)) // size.sum() + 1))
    while room.sum() > max(groups, len(size)):
        room[np.argmax(room)] -= 1
    return room


def _distinct_paths(tree: Tree, value: Ints) -> int:
    """How many different rows of values there are on the ways down to the last level."""
    number = np.zeros(tree.offsets[1], np.int64)
    for i in range(tree.depth):
        level = tree.slice(i)
        above = number[tree.family[level] - tree.offsets[i - 1]] if i else number
        _, number = np.unique(above * (int(value.max()) + 1) + value[level], return_inverse=True)
    return int(number.max()) + 1


def _under_new(tree: Tree) -> Bools:
    """The nodes of values that the plan has not seen, and all below them, in level order."""
    under = np.zeros(len(tree), bool)
    for i, labels in enumerate(tree.labels[: tree.depth - tree.total], int(tree.total)):
        is_new = np.array([label == NEW for label in labels.dictionary.to_pylist()])
        under[tree.slice(i)] = is_new[labels.indices.to_numpy()]
    return tree.in_level_order.sum_down(under, np.logical_or)


def _drawn(plan: Plan, tree: Tree, was: Ints, rows: Floats, new: Bools, bins: int, up: bool) -> Ints:
    """So many different contributions at each level above the last, which takes what is left.

    `new` are nodes that the plan has not seen: they take of what is left on their path what the default split would.
    """
    drawn = np.empty(len(tree), np.int64)
    for i in range(tree.depth):
        level = tree.slice(i)
        if i < plan.spec.first_unknown:
            value, seen = was[level].astype(np.float64), ~new[level]
        else:
            value = rows[:, i]
            seen = ~new[level][:: (level.stop - level.start) // len(value)]
        if i < tree.depth - 1:
            value = value.copy()
            value[seen] = _binned(value[seen], bins, up)
        elif bins == 0:
            value = np.full_like(value, value[seen].max())
        drawn[level] = np.repeat(np.floor(value), (level.stop - level.start) // len(value)).astype(np.int64)
    drawn[new] = -1
    return down(tree, drawn, np.array(plan.default), plan.spec)


def _binned(value: Floats, bins: int, up: bool) -> Floats:
    """Values in so many groups: of each the mean, or the least; 0 stays 0, unless there are no groups."""
    if bins == 0:
        return np.full_like(value, value.mean() if up else value.min())
    bin_of, some = value.copy(), value > 0
    distinct, number, size = np.unique(value[some], return_inverse=True, return_counts=True)
    if len(distinct) <= bins:
        return bin_of
    group = cluster(distinct[:, None], size.astype(np.float64), bins)
    low = np.full(bins, np.inf)
    np.minimum.at(low, group, distinct)
    mean = np.bincount(group, distinct * size, bins) / np.maximum(np.bincount(group, size, bins), 1)
    bin_of[some] = (mean if up else low)[group][number]
    return bin_of


ROUNDS = 50
HALF = 0.5  # in place of 0, which has no ratio to anything


def cluster(rows: Floats, weight: Floats, groups: int) -> Ints:
    """The group of each row, such that Σ w·(x/m − ln(x/m) − 1) is small: x of a row, m of the mean of its group.

    This is Lloyd's algorithm under the Itakura–Saito divergence. It looks at ratios, as errors do: a level that gets
    half of what it asked for has twice the error, however little it was. The mean of a group minimises its sum, and
    means of rows that are within the budget are, too.
    """
    x = np.maximum(rows, HALF)
    centre = x[_far_apart(x, groups)]
    group = np.full(len(x), -1, np.int64)
    for _ in range(ROUNDS):
        nearest = _divergence(x, centre).argmin(axis=1)
        if (nearest == group).all():
            break
        group = nearest
        size = np.bincount(group, weight, len(centre))
        some = size > 0
        for level in range(x.shape[1]):
            centre[some, level] = np.bincount(group, x[:, level] * weight, len(centre))[some] / size[some]
    return group


def _far_apart(x: Floats, groups: int) -> list[int]:
    """Rows to begin with: the one nearest to the mean, then each time the one that is worst off."""
    chosen = [int(_divergence(x, x.mean(axis=0, keepdims=True)).argmin())]
    away = _divergence(x, x[chosen])[:, 0]
    while len(chosen) < groups and away.max() > 0:
        chosen.append(int(away.argmax()))
        away = np.minimum(away, _divergence(x, x[chosen[-1:]])[:, 0])
    return chosen


def _divergence(x: Floats, m: Floats) -> Floats:
    """Between all rows and all centres, from above 0 where they differ."""
    logs = np.log(x).sum(axis=1)[:, None] - np.log(m).sum(axis=1)
    divergence: Floats = np.maximum(x @ (1 / m).T - logs - x.shape[1], 0.0)
    return divergence
