"""value_bins: the values of conversions, as SQL and as sums for each leaf, and what limits and clipping cut off.

Values are whole millionths. A bin of values is there to tell what clipping does: all values in it are clipped, or none
is. If the spec gives the limit, there are two bins; if the plan chooses it, twenty from one power of ten to the next.
"""

from math import ceil
from typing import Any, NamedTuple

import numpy as np

from attributary.logs.attribute_labels import number_rows
from attributary.logs.log_columns import LogTable, comma_list, find_column, number, present
from attributary.spec import Measure, Spec
from attributary.spec.measure import AUTO, BEYOND, FROM, MICRO, REPORTS
from attributary.types import Bools, Ints

ABSENT, NOT_POSITIVE = -2, -1  # the bins of values that are missing, and of those that are 0 or less
PER_TEN = 20


def value_columns(spec: Spec, log: LogTable, condition: str = "TRUE") -> tuple[dict[str, str], dict[str, str]]:
    """The values of all measures, in millionths, and blanks of the SQL files for them.

    Where the condition does not hold, there are none.
    """
    names = {f"value_{k}": measure for k, measure in enumerate(spec.values)}
    micros = {name: _millionths(_number_or_nan(log, m.source)) for name, m in names.items()}
    got = [f"CASE WHEN {condition} THEN {name} END AS {name}" for name in names]
    got += [f"CASE WHEN {condition} THEN {_bin(name, m)} END AS bin_{name}" for name, m in names.items()]
    bins = [f"bin_{name}" for name in names]
    return micros, {
        "got_values": comma_list(got),
        "all_bins": comma_list(bins),
        "sums": comma_list(f"CAST(SUM({name}) AS BIGINT) AS sum_{name}" for name in names),
        "nothing_valued": comma_list(f"NULL AS {bin_}" for bin_ in bins),
        "all_sums": comma_list(f"sum_{name}" for name in names),
        "no_sums": comma_list(f"NULL AS sum_{name}" for name in names),
    }


def last_rank(spec: Spec) -> int:
    """The last rank that counts: ranks above it are one group."""
    limit = spec.conversions_per_impression
    return limit if isinstance(limit, int) else REPORTS


def bin_start(measure: Measure, bin_: int) -> int:
    """The least value of a bin, in millionths."""
    if bin_ <= 0:
        return 0
    return round(measure.limit * MICRO) if measure.limit is not None else ceil(10 ** (bin_ / PER_TEN))


def _number_or_nan(log: LogTable, name: str) -> str:
    """The column as a number; nan is left to what comes after."""
    column, kind = find_column(log, name)
    return f"CAST({present(log, column, kind)} AS DOUBLE)" if kind in ("whole", "number") else number(log, name)


def _millionths(value: str) -> str:
    """A number in whole millionths; nan, ∞ and what 64 bits cannot hold are missing.

    Without TRY_, DuckDB would fail on nan: Parquet's statistics do not tell of it, and a check for it is left out.
    """
    return f"TRY_CAST(ROUND({value} * {MICRO}) AS BIGINT)"


def _bin(value: str, measure: Measure) -> str:
    if measure.limit is not None:
        inside = f"CASE WHEN {value} >= {round(measure.limit * MICRO)} THEN 1 ELSE 0 END"
    else:
        inside = f"CAST(FLOOR({PER_TEN} * LOG10(CAST({value} AS DOUBLE))) AS INT)"
    return f"CASE WHEN {value} IS NULL THEN {ABSENT} WHEN {value} <= 0 THEN {NOT_POSITIVE} ELSE {inside} END"


class ConversionGroups(NamedTuple):
    """Conversions that are in a leaf."""

    leaf: Ints
    rank: Ints  # of its impression's conversions, from 1
    number: Ints
    bins: list[Ints]  # of each measure that is a value
    sums: list[Ints]  # of its values, in millionths

    def some(self, which: Bools) -> "ConversionGroups":
        """Only these."""
        bins, sums = ([column[which] for column in columns] for columns in (self.bins, self.sums))
        return ConversionGroups(self.leaf[which], self.rank[which], self.number[which], bins, sums)


def conversion_groups(spec: Spec, table: Any, leaf: Ints, number: Ints) -> ConversionGroups:
    """The conversions of a table's rows; all are first ones where it does not say."""
    names = [f"value_{k}" for k in range(len(spec.values))]
    ranked = "rank" in table.column_names
    rank = _int_column(table, "rank", 1) if ranked else np.ones(len(leaf), np.int64)
    bins = [_int_column(table, f"bin_{name}", ABSENT) for name in names]
    return ConversionGroups(leaf, rank, number, bins, [_int_column(table, f"sum_{name}", 0) for name in names])


def plan_chooses_limits(spec: Spec) -> bool:
    """Whether the plan is to choose a limit, so that conversions are counted by rank and bin."""
    return spec.conversions_per_impression == AUTO or any(measure.limit is None for measure in spec.values)


def limited_sums(spec: Spec, groups: ConversionGroups, leaves: int) -> dict[str, Any]:
    """For each leaf the sums of all measures under their limits, and what these cut off."""
    counted = groups.rank <= last_rank(spec)
    all_of_them = _sum_at(groups.leaf, groups.number, leaves)
    number = _sum_at(groups.leaf[counted], groups.number[counted], leaves)
    made: dict[str, Any] = {"conversions": number, f"conversions{BEYOND}": all_of_them - number}
    for k, measure in enumerate(spec.values):
        clipped = _clipped(measure, groups, k)
        whole = _sum_at(groups.leaf, np.where(groups.bins[k] >= 0, groups.sums[k], 0), leaves)
        value = _sum_at(groups.leaf[counted], clipped[counted], leaves)
        made[measure.name], made[measure.name + BEYOND] = value / MICRO, (whole - value) / MICRO
    return made


def rows_by_bin(spec: Spec, groups: ConversionGroups, leaves: int) -> tuple[Ints, dict[str, Any]]:
    """A row for each leaf, rank and bin that has conversions, one for a leaf without any: the leaf, and columns."""
    import pyarrow as pa

    bins = [np.maximum(bin_, 0) for bin_ in groups.bins]  # what is not above 0 adds nothing
    cell, first = number_rows([groups.leaf, groups.rank, *bins], len(groups.leaf))
    number = len(first)
    empty = np.flatnonzero(np.bincount(groups.leaf, minlength=leaves) == 0)
    leaf = np.concatenate([groups.leaf[first], empty])
    place, none = np.argsort(leaf, kind="stable"), len(empty)
    absent = np.arange(len(leaf)) >= number

    def column(values: Any, mask: Bools | None = None) -> Any:
        padded = np.concatenate([values, np.zeros(none, np.asarray(values).dtype)])
        return pa.array(padded[place], mask=None if mask is None else mask[place])

    made = {"conversions": column(_sum_at(cell, groups.number, number)), "rank": column(groups.rank[first], absent)}
    for k, measure in enumerate(spec.values):
        value = np.where(groups.bins[k] >= 0, groups.sums[k], 0)
        made[measure.name] = column(_sum_at(cell, value, number) / MICRO)
        starts = [bin_start(measure, bin_) for bin_ in range(int(bins[k].max(initial=0)) + 1)]
        edge = np.array(starts, np.float64) / MICRO
        made[measure.name + FROM] = column(edge[bins[k][first]], absent)
    return leaf[place], made


class ValueTotals(NamedTuple):
    """What became of a value of the conversions that are counted, in its unit."""

    measure: str
    unit: str | None
    total: float  # of those above 0, before clipping
    missing: int  # conversions without a value, which adds 0
    not_positive: int  # conversions whose value is 0 or less, which adds 0
    refunded: float  # and the sum of these, 0 or less
    clip: float | None  # None where the plan chooses
    clipped: int  # conversions whose value is clipped
    cut: float  # what clipping takes off the total


def value_totals(spec: Spec, groups: ConversionGroups) -> tuple[ValueTotals, ...]:
    """What became of the values of the conversions that are counted."""
    counted = groups.some(groups.rank <= last_rank(spec))
    totals = []
    for k, measure in enumerate(spec.values):
        bin_, total, number = counted.bins[k], counted.sums[k], counted.number
        above = (bin_ == 1) & (measure.limit is not None)
        cut = total[above].sum() - number[above].sum() * round((measure.limit or 0) * MICRO)
        totals.append(
            ValueTotals(
                measure.name,
                measure.unit,
                float(total[bin_ >= 0].sum() / MICRO),
                int(number[bin_ == ABSENT].sum()),
                int(number[bin_ == NOT_POSITIVE].sum()),
                float(total[bin_ == NOT_POSITIVE].sum() / MICRO),
                measure.limit,
                int(number[above].sum()),
                float(cut / MICRO),
            )
        )
    return tuple(totals)


def _clipped(measure: Measure, groups: ConversionGroups, k: int) -> Ints:
    """The sum of each group's values, each clipped."""
    limit = round((measure.limit or 0) * MICRO)
    value: Ints = np.select([groups.bins[k] < 0, groups.bins[k] == 1], [0, groups.number * limit], groups.sums[k])
    return value


def _sum_at(place: Ints, values: Ints, size: int) -> Ints:
    """Sums of whole numbers, exact to the last."""
    total = np.zeros(size, np.int64)
    np.add.at(total, place, values)
    return total


def _int_column(table: Any, name: str, nothing: int) -> Ints:
    import pyarrow as pa

    cells: Ints = table.column(name).cast(pa.int64()).fill_null(nothing).to_numpy()
    return cells
