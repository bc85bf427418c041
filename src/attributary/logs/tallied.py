"""tallied: groups of conversions as sums for each leaf, and what limits and clipping cut off."""

from typing import Any, NamedTuple

import numpy as np

from attributary.logs.counts import Values
from attributary.logs.numbered import numbered
from attributary.logs.valued import ABSENT, NOT_POSITIVE, begins, most
from attributary.spec import Measure, Spec
from attributary.spec.measure import AUTO, BEYOND, FROM, MICRO
from attributary.types import Bools, Ints


class Groups(NamedTuple):
    """Conversions that are in a leaf."""

    leaf: Ints
    rank: Ints  # of its impression's conversions, from 1
    number: Ints
    steps: list[Ints]  # of each measure that is a value
    sums: list[Ints]  # of its values, in millionths

    def some(self, which: Bools) -> "Groups":
        """Only these."""
        steps, sums = ([column[which] for column in columns] for columns in (self.steps, self.sums))
        return Groups(self.leaf[which], self.rank[which], self.number[which], steps, sums)


def groups(spec: Spec, table: Any, leaf: Ints, number: Ints) -> Groups:
    """The conversions of a table's rows; all are first ones where it does not say."""
    names = [f"value_{k}" for k in range(len(spec.values))]
    ranked = "rank" in table.column_names
    rank = _whole(table, "rank", 1) if ranked else np.ones(len(leaf), np.int64)
    steps = [_whole(table, f"step_{name}", ABSENT) for name in names]
    return Groups(leaf, rank, number, steps, [_whole(table, f"sum_{name}", 0) for name in names])


def is_open(spec: Spec) -> bool:
    """Whether the plan is to choose a limit, so that conversions are told apart by rank and step."""
    return spec.conversions_per_impression == AUTO or any(measure.limit is None for measure in spec.values)


def columns(spec: Spec, found: Groups, leaves: int) -> dict[str, Any]:
    """For each leaf the sums of all measures under their limits, and what these cut off."""
    counted = found.rank <= most(spec)
    all_of_them = _add(found.leaf, found.number, leaves)
    number = _add(found.leaf[counted], found.number[counted], leaves)
    made: dict[str, Any] = {"conversions": number, f"conversions{BEYOND}": all_of_them - number}
    for k, measure in enumerate(spec.values):
        clipped = _clipped(measure, found, k)
        whole = _add(found.leaf, np.where(found.steps[k] >= 0, found.sums[k], 0), leaves)
        value = _add(found.leaf[counted], clipped[counted], leaves)
        made[measure.name], made[measure.name + BEYOND] = value / MICRO, (whole - value) / MICRO
    return made


def rows(spec: Spec, found: Groups, leaves: int) -> tuple[Ints, dict[str, Any]]:
    """A row for each leaf, rank and step that has conversions, one for a leaf without any: the leaf, and columns."""
    import pyarrow as pa

    steps = [np.maximum(step, 0) for step in found.steps]  # what is not above 0 adds nothing
    cell, first = numbered([found.leaf, found.rank, *steps], len(found.leaf))
    number = len(first)
    empty = np.flatnonzero(np.bincount(found.leaf, minlength=leaves) == 0)
    leaf = np.concatenate([found.leaf[first], empty])
    place, none = np.argsort(leaf, kind="stable"), len(empty)
    absent = np.arange(len(leaf)) >= number

    def column(values: Any, mask: Bools | None = None) -> Any:
        padded = np.concatenate([values, np.zeros(none, np.asarray(values).dtype)])
        return pa.array(padded[place], mask=None if mask is None else mask[place])

    made = {"conversions": column(_add(cell, found.number, number)), "rank": column(found.rank[first], absent)}
    for k, measure in enumerate(spec.values):
        value = np.where(found.steps[k] >= 0, found.sums[k], 0)
        made[measure.name] = column(_add(cell, value, number) / MICRO)
        edge = np.array([begins(measure, step) for step in range(int(steps[k].max(initial=0)) + 1)], np.float64) / MICRO
        made[measure.name + FROM] = column(edge[steps[k][first]], absent)
    return leaf[place], made


def told(spec: Spec, found: Groups) -> tuple[Values, ...]:
    """What became of the values of the conversions that are counted."""
    counted = found.some(found.rank <= most(spec))
    said = []
    for k, measure in enumerate(spec.values):
        step, total, number = counted.steps[k], counted.sums[k], counted.number
        above = (step == 1) & (measure.limit is not None)
        cut = total[above].sum() - number[above].sum() * round((measure.limit or 0) * MICRO)
        said.append(
            Values(
                measure.name,
                measure.unit,
                float(total[step >= 0].sum() / MICRO),
                int(number[step == ABSENT].sum()),
                int(number[step == NOT_POSITIVE].sum()),
                float(total[step == NOT_POSITIVE].sum() / MICRO),
                measure.limit,
                int(number[above].sum()),
                float(cut / MICRO),
            )
        )
    return tuple(said)


def _clipped(measure: Measure, found: Groups, k: int) -> Ints:
    """The sum of each group's values, each clipped."""
    limit = round((measure.limit or 0) * MICRO)
    value: Ints = np.select([found.steps[k] < 0, found.steps[k] == 1], [0, found.number * limit], found.sums[k])
    return value


def _add(place: Ints, values: Ints, size: int) -> Ints:
    """Sums of whole numbers, exact to the last."""
    total = np.zeros(size, np.int64)
    np.add.at(total, place, values)
    return total


def _whole(table: Any, name: str, nothing: int) -> Ints:
    import pyarrow as pa

    cells: Ints = table.column(name).cast(pa.int64()).fill_null(nothing).to_numpy()
    return cells
