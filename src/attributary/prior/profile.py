"""Profile: what is known beforehand of all measures: their sums, and how much limits would cut off.

A table of counts by rank and value bin, as `attributary count` writes it if the plan chooses limits, shows what any
limit cuts off; a table counted under limits shows it for those.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from attributary.spec import Measure, Spec
from attributary.spec.measure import BEYOND, FROM
from attributary.tables.table_columns import arrow_table, floats
from attributary.tree import Tree
from attributary.tree.paths import match, refuse_other_tree
from attributary.types import Floats, Ints

CLOSE = 1e-9  # of a clip: where the step that begins there is clipped


@dataclass(frozen=True, eq=False)
class Profile:
    """Rows of conversions, one per leaf, rank and value bin. Inside, level order; results are in the tree's order."""

    tree: Tree
    leaf: Ints  # of each row, in level order
    number: Floats  # of conversions
    value: Mapping[str, Floats]  # sums of values, by measure
    rank: Ints | None = None  # None: not told
    begin: Mapping[str, Floats] = field(default_factory=dict)  # where each row's values begin, by measure
    beyond: Mapping[str, Floats] = field(default_factory=dict)  # what the spec's limits cut off already, by measure

    def full(self, measure: Measure) -> Floats:
        """The sum of each node, as if there were no limits."""
        return self._up(self._values(measure) + self.beyond.get(measure.name, 0.0))

    def limited(self, measure: Measure, most: int | Ints, clip: float) -> Floats:
        """The sum of each node under limits: conversions per impression (of each head), and a clip for values."""
        if self.rank is None and not self.begin:
            return self._up(self._values(measure))
        value = self._values(measure)
        if measure.name in self.begin:
            value = np.where(self.begin[measure.name] >= clip * (1 - CLOSE), clip * self.number, value)
        if self.rank is not None:
            value = np.where(self.rank <= (most if np.ndim(most) == 0 else np.asarray(most)[self.head]), value, 0.0)
        return self._up(value)

    def times(self, factor: float) -> "Profile":
        """As of a period that is so many times as long: more conversions alike."""
        value, beyond = ({name: each * factor for name, each in sums.items()} for sums in (self.value, self.beyond))
        return replace(self, number=self.number * factor, value=value, beyond=beyond)

    @property
    def knows_limits(self) -> bool:
        """Whether it tells what limits cut off."""
        return self.rank is not None or bool(self.begin) or bool(self.beyond)

    @property
    def ranks(self) -> int:
        """The last rank that occurs."""
        return 1 if self.rank is None or not len(self.rank) else int(self.rank.max())

    def clips(self, measure: Measure) -> list[float]:
        """Where values can be clipped such that the loss is known: where bins begin, and above all values."""
        begins = self.begin.get(measure.name)
        if begins is None or not (begins > 0).any():
            return []
        edges: list[float] = np.unique(begins[begins > 0]).tolist()
        return [*edges, edges[-1] * 10 ** (1 / 20)]

    def mean(self, measure: Measure) -> float:
        """What a conversion brings on average; nan without any."""
        counted = float(self.number.sum()) + float(np.sum(self.beyond.get("count", 0.0)))
        total = float((self._values(measure) + self.beyond.get(measure.name, 0.0)).sum())
        return total / counted if counted > 0 else float("nan")

    @property
    def head(self) -> Ints:
        """Which value of the first attribute each row stands under, counted in level order."""
        head: Ints = self.tree.in_level_order.ancestor(int(self.tree.total))[self.leaf].astype(np.int64)
        return head

    def _values(self, measure: Measure) -> Floats:
        return self.number if measure.is_count else self.value[measure.name]

    def _up(self, value: Floats) -> Floats:
        tree = self.tree
        leaves = np.bincount(self.leaf, value, len(tree)).astype(np.float64)
        return tree.sum_up(tree.from_level_order(leaves))


def profile(tree: Tree, spec: Spec, counts: Any) -> Profile:
    """The profile in a table of counts; rows of paths that the tree does not have are passed over, as in a prior."""
    table = arrow_table(counts)
    rows = match(tree, table)
    refuse_other_tree(tree, table, rows)
    here = rows.leaf
    names = {measure.name for measure in spec.values}
    columns = set(table.column_names)
    ranked = "rank" in columns
    beyond = {} if ranked else {"count": "conversions", **{name: name for name in names}}
    return Profile(
        tree,
        rows.node[here],
        _numbers(table, "conversions")[here],
        {name: _numbers(table, name)[here] for name in names},
        np.nan_to_num(_numbers(table, "rank", True)[here], nan=1).astype(np.int64) if ranked else None,
        {name: np.nan_to_num(_numbers(table, name + FROM, True)[here]) for name in names if name + FROM in columns},
        {name: _numbers(table, of + BEYOND)[here] for name, of in beyond.items() if of + BEYOND in columns},
    )


def _numbers(table: Any, name: str, some_empty: bool = False) -> Floats:
    cells = floats(table, name, "the prior")
    if not some_empty and not (np.isfinite(cells) & (cells >= 0)).all():
        raise ValueError(f"a count or a sum is a number, 0 or more; {name!r} has others, or empty cells")
    return cells
