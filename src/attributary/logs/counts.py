"""counts: how many conversions each leaf has, and what became of those that none has."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import ceil, prod
from typing import NamedTuple

import numpy as np

from attributary.errors import InputError
from attributary.logs.devices import Devices, Reported
from attributary.logs.labels import (
    SHOWN,
    LabelCodes,
    OutsideDomain,
    bucket_codes,
    domain_places,
    label_codes,
    number_rows,
)
from attributary.logs.log_columns import LogTable, Period, comma_list, find_column, number, present
from attributary.spec import Logs, Measure, Spec
from attributary.spec.breakdown import BREAKDOWN
from attributary.spec.measure import AT, AUTO, BEYOND, FROM, MICRO, REPORTS
from attributary.tables.table_columns import TRUE_COUNTS, mark, stacked, with_cells
from attributary.types import Arrow, Bools, Cells, Ints, Record

LARGEST = 2**31  # leaves
# What becomes of a row: a small number in SQL and a word everywhere else.
FATES = (
    "impression",  # without a conversion, or not yet joined to one
    "conversion",  # counted; where rows have their conversions, an impression too
    "late",  # a conversion that is not within the window; likewise
    "undated",  # an impression without a time
    "unattributed",  # a conversion without an impression before it
    "within",  # a conversion that is within the window, whether or not it is its impression's first
    "incomplete",  # a conversion without a user, another key or a time
)


@dataclass(frozen=True, eq=False)
class Counts:
    """A table with one row per leaf: the attributes, `impressions`, `conversions`. And what it does not show.

    With several conversions per impression, or values, it also has a column for each value, and for all of them what
    limits cut off, as in `conversions_beyond`. Where the plan is to choose a limit, nothing is cut off: a leaf has a
    row for each `rank` and each value bin, `revenue_from` where it begins, and its rows add up.

    An impression has no unknown attributes: the impressions of a known path stand on the first of its leaves, null on
    the others, so that they add up. The table is marked as not private, and so is all that is made of it.
    """

    table: Arrow
    impressions: int  # in the table
    conversions: int  # in the table
    unattributed: int = 0  # conversions that have no impression before them
    late: int = 0  # conversions whose last impression is not within the window
    exceeded: int = 0  # conversions whose impression has as many as count already
    incomplete: int = 0  # conversions without a user, another key or a time
    undated: int = 0  # impressions without a time; they can get no conversion, and are in no period
    outside: tuple[OutsideDomain, ...] = ()  # by attribute; a conversion may be outside of several domains
    left_out: int = 0  # conversions that are in no leaf since they are outside of a domain
    values: "tuple[ValueTotals, ...]" = ()  # of each measure that is one
    rows: int | None = None  # of the logs; None where a period passes some of them over
    parts: "tuple[Counts, ...]" = ()  # of each of several breakdowns
    filtered: Mapping[str, int] = field(default_factory=dict)  # rows that do not meet the spec's conditions, by log
    reported: Reported | None = None  # what budgets leave of the conversions, where an API has such
    devices: Devices | None = field(default=None, repr=False)  # that it was counted from
    clock: str = ""  # which time zone the period's dates are read in, where they name none

    @property
    def breakdowns(self) -> "tuple[Counts, ...]":
        """The counts of each breakdown; these, where there is one alone."""
        return self.parts or (self,)

    def refuse_no_match(self) -> "Counts":
        """These counts; an InputError where every conversion is outside of a domain, so that all of them are 0."""
        if self.conversions or not self.left_out:
            return self
        each = (f"{outside.attribute} is {', '.join(outside.values):.200}" for outside in self.outside)
        raise InputError(
            f"no conversion is in the domains of the spec: {'; '.join(each)}; "
            "write the values of a domain as the logs do"
        )

    def summary(self) -> Record:
        """What was counted and what was not, as data for JSON."""
        return {
            "impressions": self.impressions,
            "conversions": self.conversions,
            **({} if self.table is None else {"table_rows": self.table.num_rows}),
            "rows_read": self.rows,
            "conversions_not_counted": {
                "no_impression_before": self.unattributed,
                "outside_window": self.late,
                "impression_has_enough": self.exceeded,
                "no_user_key_or_time": self.incomplete,
                "outside_domain": self.left_out,
                **({"budget_used_up": dict(self.reported.lost)} if self.reported else {}),
            },
            **({"reported_by_conversions_paid_for": dict(self.reported.by_limit)} if self.reported else {}),
            **(
                {"value_reported_by_clip": dict(self.reported.by_clip)}
                if self.reported and self.reported.by_clip
                else {}
            ),
            "outside_domain": [outside._asdict() for outside in self.outside],
            "impressions_without_time": self.undated,
            "rows_left_out_by_conditions": dict(self.filtered),
            "values": [values._asdict() for values in self.values],
        }


def leaves(spec: Spec, logs: Logs, table: Arrow, period: Period, told: int = SHOWN) -> Counts:
    """The counts of all leaves, from a table of groups of rows: their fate, attributes and number.

    Those of several breakdowns stand one below the other, told apart by a column. `told` is how many of the values
    outside of each domain are told.
    """
    conversions = table.filter(np.equal(table.column("fate").to_numpy(), FATES.index("conversion")))
    names = {attribute.name: f"unknown_{i}" for i, attribute in enumerate(spec.unknown)}
    spec = spec.with_values(
        lambda name: label_codes(conversions, names[name], spec.unknown[list(names).index(name)], logs)[0].to_pylist()
    )
    each = tuple(_of_part(spec, part, logs, table, period, told) for part in spec.parts)
    if len(each) == 1:
        return each[0]
    tables = {name: counts.table for name, counts in zip(spec.called, each, strict=True)}
    return replace(each[0], table=stacked(tables, BREAKDOWN, [a.name for a in spec.attributes]), parts=each)


def _of_part(spec: Spec, part: Spec, logs: Logs, table: Arrow, period: Period, told: int) -> Counts:
    """The counts of one breakdown: a conversion that is outside of any domain of the spec is in no leaf of any."""
    fate, number = table.column("fate").to_numpy(), table.column("number").to_numpy().astype(np.int64)
    is_seen = np.isin(np.arange(len(FATES)), seen_fates(logs, period))[fate]
    is_conversion = fate == FATES.index("conversion")
    if not is_seen.any():
        raise InputError(
            "there is no impression to count" + ("" if period.is_all else " in the period; choose another")
        )
    impressions, conversions, some = number * is_seen, number * is_conversion, is_seen | is_conversion
    if not some.all():
        table, impressions, conversions = table.filter(some), impressions[some], conversions[some]
    all_conversions = conversions
    many = "rank" in table.column_names
    if many:
        conversions = np.where(table.column("rank").fill_null(1).to_numpy() <= last_rank(spec), conversions, 0)

    names = {a.name: f"known_{i}" for i, a in enumerate(spec.known)}
    known = [
        label_codes(table, names[a.name], a, logs) if a.calendar is None else bucket_codes(table, names[a.name], a)
        for a in part.known
    ]
    paths = number_rows([column.code for column in known], table.num_rows)  # in the order of their labels
    sizes = [len(attribute.labels) for attribute in part.unknown]
    number_of_leaves = len(paths.first) * prod(sizes)
    if number_of_leaves >= LARGEST:
        raise InputError(
            f"a tree holds fewer than 2**31 leaves; {len(paths.first):,} known paths with {prod(sizes):,} unknown "
            f"values each are {number_of_leaves:,}: use fewer buckets"
        )
    lost, outside, places = np.zeros(table.num_rows, bool), [], {}
    for i, attribute in enumerate(spec.unknown):
        place, not_in_domain = domain_places(table, f"unknown_{i}", attribute, logs, conversions, told)
        places[attribute.name] = place
        lost |= place < 0
        outside += [not_in_domain] if not_in_domain else []
    leaf = paths.of_row
    for attribute, size in zip(part.unknown, sizes, strict=True):
        leaf = leaf * size + places[attribute.name]
    kept = ~lost if lost.any() else slice(None)
    count = np.bincount(leaf[kept], conversions[kept], number_of_leaves).astype(np.int64)
    seen_by_path = np.bincount(paths.of_row, impressions, len(paths.first)).astype(np.int64)
    made = _table(part, known, paths.first, sizes, seen_by_path, count)
    of_devices = any(name.startswith(AT) for name in table.column_names)
    for name in table.column_names if of_devices else ():
        if name not in ("fate", "number") and not name.startswith(("known_", "unknown_")):
            here = table.column(name).to_numpy()
            made = made.append_column(name, [_sum_at(leaf[kept], here[kept], number_of_leaves)])
    values: tuple[ValueTotals, ...] = ()
    if not of_devices and (many or spec.values or spec.conversions_per_impression != 1):
        inside = ~lost & (all_conversions > 0)
        grouped = conversion_groups(spec, table, leaf, all_conversions).some(inside)
        made, values = _measured(spec, made, grouped), value_totals(spec, grouped)
    counts = Counts(
        mark(made, TRUE_COUNTS),
        impressions=int(impressions.sum()),
        conversions=int(count.sum()),
        exceeded=int((all_conversions - conversions).sum()),
        outside=tuple(outside),
        left_out=int(conversions[lost].sum()),
        values=values,
    )
    return with_fates(counts, logs, period, fate, number, many)


def seen_fates(logs: Logs, period: Period) -> list[int]:
    """The fates of rows that are impressions."""
    seen = ["impression", *["conversion", "late"] * logs.is_attributed, *["undated"] * period.is_all]
    return [FATES.index(name) for name in seen]


def with_fates(counts: Counts, logs: Logs, period: Period, fate: Ints, number: Ints, many: bool) -> Counts:
    """The counts of all leaves with what became of other rows, from rows by fate."""
    total = dict(zip(FATES, np.bincount(fate, number, len(FATES)).astype(np.int64).tolist(), strict=True))
    # All rows have a fate; of two logs, a conversion that is its impression's first is also within the window.
    counted_twice = 0 if logs.is_attributed or many else total["conversion"]
    return replace(
        counts,
        unattributed=total["unattributed"],
        late=total["late"],
        exceeded=counts.exceeded if many else max(0, total["within"] - total["conversion"]),
        incomplete=total["incomplete"],
        undated=total["undated"],
        rows=sum(total.values()) - counted_twice if period.is_all else None,
    )


def reported_leaves(spec: Spec, logs: Logs, devices: Devices, reported: Reported, period: Period) -> Counts:
    """The counts of all leaves where budgets run out: what is reported under the spec's limit, and the rest."""
    import pyarrow.compute as pc

    counts = leaves(spec, logs, reported.groups, period)
    table, here = counts.table, counts.table.column(f"{AT}{spec.paid}")
    table = table.append_column(f"conversions{BEYOND}", pc.subtract(table.column("conversions"), here))
    return replace(
        counts,
        table=with_cells(table, "conversions", here),
        conversions=int(pc.sum(here).as_py() or 0),
        devices=devices,
        reported=reported,
    )


def counts_together(parts: Sequence[Counts]) -> Counts:
    """The counts of several parts of a forest, without their tables."""
    first, *others = parts
    values = first.values
    for part in others:
        values = tuple(one.plus(other) for one, other in zip(values, part.values, strict=True))
    sums = {
        name: sum(getattr(part, name) for part in parts)
        for name in ("impressions", "conversions", "exceeded", "left_out")
    }
    return replace(first, table=None, outside=_outside_together(parts), values=values, **sums)


def _outside_together(parts: Sequence[Counts]) -> tuple[OutsideDomain, ...]:
    """What is outside of domains, by attribute, with the values that most have, of those whose number is known."""
    by_attribute: dict[str, list[OutsideDomain]] = {}
    for one in (one for part in parts for one in part.outside):
        by_attribute.setdefault(one.attribute, []).append(one)
    made = []
    for each in by_attribute.values():
        values = Counter[str]()
        for one in each:
            values.update(one.values)
        for one in each:
            if sum(one.values.values()) < one.conversions:  # this part may have more of any value that it does not tell
                values = Counter({value: values[value] for value in values if value in one.values})
        most = dict(sorted(values.items(), key=lambda item: (-item[1], item[0]))[:SHOWN])
        made.append(each[0]._replace(conversions=sum(one.conversions for one in each), values=most))
    return tuple(made)


def _measured(spec: Spec, table: Arrow, groups: "ConversionGroups") -> Arrow:
    """The table of leaves with all measures; where the plan chooses a limit, one row per leaf, rank and value bin."""
    import pyarrow as pa

    if spec.conversions_per_impression != AUTO and all(measure.limit is not None for measure in spec.values):
        sums = limited_sums(spec, groups, table.num_rows)
        return pa.table(dict(zip(table.column_names, table.columns, strict=True)) | sums)
    leaf, made = rows_by_bin(spec, groups, table.num_rows)
    first = np.ones(len(leaf), bool)
    first[1:] = leaf[1:] != leaf[:-1]
    taken = table.take(pa.array(leaf)).drop_columns(["conversions"])
    seen = taken.column("impressions").to_numpy(zero_copy_only=False)  # on the first row of the first leaf
    mask = ~first | taken.column("impressions").is_null().to_numpy(zero_copy_only=False)
    seen = pa.array(np.nan_to_num(seen).astype(np.int64), mask=mask)
    return pa.table(dict(zip(taken.column_names, taken.columns, strict=True)) | {"impressions": seen} | made)


def _table(
    spec: Spec, known: list[LabelCodes], first: Ints, sizes: list[int], impressions: Ints, conversions: Ints
) -> Arrow:
    """One row per leaf; impressions stand on the first leaf of their path."""
    import pyarrow as pa

    columns, below = {}, prod(sizes)
    for attribute, (labels, code) in zip(spec.known, known, strict=True):
        columns[attribute.name] = LabelCodes(labels, np.repeat(code[first], below)).coded
    times = len(first)
    for attribute, size in zip(spec.unknown, sizes, strict=True):
        below //= size
        places = np.tile(np.repeat(np.arange(size), below), times)
        columns[attribute.name] = LabelCodes(pa.array(attribute.labels, pa.string()), places).coded
        times *= size
    per_path = prod(sizes)
    mask = np.ones(len(conversions), bool)
    mask[::per_path] = False
    columns = {attribute.name: columns[attribute.name] for attribute in spec.attributes}
    columns["impressions"] = pa.array(np.repeat(impressions, per_path), mask=mask)
    columns["conversions"] = pa.array(conversions)
    return pa.table(columns)


# Values are whole millionths. A bin of values is there to tell what clipping does: all values in it are clipped, or
# none is. If the spec gives the limit, there are two bins; if the plan chooses it, twenty for each power of ten.

ABSENT, NOT_POSITIVE = -2, -1  # the bins of values that are missing, and of those that are 0 or less
PER_TEN = 20


def value_columns(spec: Spec, log: LogTable, condition: str = "TRUE") -> tuple[dict[str, str], dict[str, str]]:
    """The values of all measures, in millionths, and blanks of the SQL files for them.

    Where the condition does not hold, there are none.
    """
    names = {f"value_{k}": measure for k, measure in enumerate(spec.values)}
    micros = {name: _millionths(log, m.source, m.sign) for name, m in names.items()}
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


def _millionths(log: LogTable, name: str, sign: int) -> str:
    """A column of numbers times the sign in whole millionths; nan, ∞ and what 64 bits cannot hold are missing.

    Without TRY_, DuckDB would fail on nan: Parquet's statistics do not tell of it, and a check for it is left out.
    """
    column, kind = find_column(log, name)
    is_number = kind in ("whole", "number")
    value = f"CAST({present(log, column, kind)} AS DOUBLE)" if is_number else number(log, name)
    return f"TRY_CAST(ROUND({value} * {sign * MICRO}) AS BIGINT)"


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
    bins: Ints  # measures that are values by groups
    sums: Ints  # of these values, in millionths

    def some(self, which: Bools) -> "ConversionGroups":
        """Only these."""
        return ConversionGroups(*(column[..., which] for column in self))


def conversion_groups(spec: Spec, table: Arrow, leaf: Ints, number: Ints) -> ConversionGroups:
    """The conversions of a table's rows; all are first ones where it does not say."""
    import pyarrow as pa

    def column(name: str, nothing: int) -> Ints:
        cells: Ints = table.column(name).cast(pa.int64()).fill_null(nothing).to_numpy()
        return cells

    def of_values(kind: str, nothing: int) -> Ints:
        each = [column(f"{kind}_value_{k}", nothing) for k in range(len(spec.values))]
        return np.array(each, np.int64).reshape(len(each), len(leaf))

    rank = column("rank", 1) if "rank" in table.column_names else np.ones(len(leaf), np.int64)
    return ConversionGroups(leaf, rank, number, of_values("bin", ABSENT), of_values("sum", 0))


def limited_sums(spec: Spec, groups: ConversionGroups, leaves: int) -> Record:
    """For each leaf the sums of all measures under their limits, and what these cut off."""
    counted = groups.rank <= last_rank(spec)
    all_of_them = _sum_at(groups.leaf, groups.number, leaves)
    number = _sum_at(groups.leaf[counted], groups.number[counted], leaves)
    made: Record = {"conversions": number, f"conversions{BEYOND}": all_of_them - number}
    for k, measure in enumerate(spec.values):
        bin_, limit = groups.bins[k], round((measure.limit or 0) * MICRO)
        clipped = np.select([bin_ < 0, bin_ == 1], [0, groups.number * limit], groups.sums[k])
        whole = _sum_at(groups.leaf, np.where(bin_ >= 0, groups.sums[k], 0), leaves)
        value = _sum_at(groups.leaf[counted], clipped[counted], leaves)
        made[measure.name], made[measure.name + BEYOND] = value / MICRO, (whole - value) / MICRO
    return made


def rows_by_bin(spec: Spec, groups: ConversionGroups, leaves: int) -> tuple[Ints, Record]:
    """A row for each leaf, rank and bin that has conversions, one for a leaf without any: the leaf, and columns."""
    import pyarrow as pa

    bins = [np.maximum(bin_, 0) for bin_ in groups.bins]  # what is not above 0 adds nothing
    cell, first = number_rows([groups.leaf, groups.rank, *bins], len(groups.leaf))
    number = len(first)
    empty = np.flatnonzero(np.bincount(groups.leaf, minlength=leaves) == 0)
    leaf = np.concatenate([groups.leaf[first], empty])
    place, none = np.argsort(leaf, kind="stable"), len(empty)
    absent = np.arange(len(leaf)) >= number

    def column(values: object, mask: Bools | None = None) -> Cells:
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

    def plus(self, other: "ValueTotals") -> "ValueTotals":
        """The same of this part of a forest and another one."""
        sums: Record = {n: getattr(self, n) + getattr(other, n) for n in ("missing", "not_positive", "clipped")}
        for name in ("total", "refunded", "cut"):  # whole millionths, which floats do not add exactly
            sums[name] = sum(round(getattr(part, name) * MICRO) for part in (self, other)) / MICRO
        return self._replace(**sums)


def value_totals(spec: Spec, groups: ConversionGroups) -> tuple[ValueTotals, ...]:
    """What became of the values of the conversions that are counted."""
    counted = groups.some(groups.rank <= last_rank(spec))
    totals = []
    for k, measure in enumerate(spec.values):
        bin_, total, number = counted.bins[k], counted.sums[k], counted.number
        below = (bin_ == NOT_POSITIVE) & (measure.sign > 0)  # what is no refund is no news
        above = (bin_ == 1) & (measure.limit is not None)
        cut = total[above].sum() - number[above].sum() * round((measure.limit or 0) * MICRO)
        totals.append(
            ValueTotals(
                measure.name,
                measure.unit,
                float(total[bin_ >= 0].sum() / MICRO),
                int(number[bin_ == ABSENT].sum()),
                int(number[below].sum()),
                float(total[below].sum() / MICRO),
                measure.limit,
                int(number[above].sum()),
                float(cut / MICRO),
            )
        )
    return tuple(totals)


def _sum_at(place: Ints, values: Ints, size: int) -> Ints:
    """Sums of whole numbers, exact to the last."""
    total = np.zeros(size, values.dtype)
    np.add.at(total, place, values)
    return total
