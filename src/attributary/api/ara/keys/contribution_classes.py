"""contribution_classes: the different contributions that conversions make, each class with its number.

A conversion does not know its impression, so that the source carries the number of its class in its filter data, and
the trigger has the contributions of every class.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np

from attributary.plan import Plan
from attributary.spec import Spec
from attributary.tree import Tree
from attributary.types import Floats, Ints

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
    """The classes of a plan; the first is that of impressions whose first attribute the plan has not seen.

    A ValueError where nodes below one known path have contributions of their own.
    """
    if plan.nodes is not None:
        return _by_node(plan)
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


def _by_node(plan: Plan) -> ContributionClasses:
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
    """The tree of all known paths of a plan by node, and of a new value below each node above the last of them.

    With the labels of the known paths, in level order.
    """
    import pyarrow as pa

    spec = plan.spec
    known = [attribute.name for attribute in spec.known]
    if not known:
        return spec.tree(), [()]
    above = plan.nodes.filter(pa.array(plan.nodes.column("level").to_numpy() < spec.first_unknown))
    columns = {name: above.column(name).cast(pa.string()).fill_null(NEW) for name in known}
    new = {name: pa.chunked_array([[NEW]], pa.string()) for name in known}
    table = pa.concat_tables([pa.table(columns), pa.table(new)])
    tree = spec.tree(table)
    return tree, list(zip(*(_labels(tree, i, spec) for i in range(len(known))), strict=True))


def spec_tree(spec: Spec, paths: list[tuple[str, ...]]) -> Tree:
    """The tree of known paths, with all that is unknown below them."""
    return spec.tree({a.name: column for a, column in zip(spec.known, zip(*paths, strict=True), strict=True)})


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


def _labels(tree: Tree, attribute: int, spec: Spec) -> list[str]:
    """The label of an attribute on each known path, in level order."""
    level, last = attribute + spec.total, spec.first_unknown - 1
    node = np.arange(tree.offsets[last], tree.offsets[last + 1])
    for _ in range(last - level):
        node = tree.family[node]
    labels: list[str] = tree.labels[attribute].take(node - int(tree.offsets[level])).cast("string").to_pylist()
    return labels
