"""counts: how many conversions each leaf has, and what became of those that none has."""

from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from attributary.errors import InputError
from attributary.logs.attribute_labels import LabelCodes, OutsideDomain, domain_places, label_codes, number_rows
from attributary.logs.count_sql import FATES
from attributary.logs.times import Period
from attributary.logs.value_bins import (
    ConversionGroups,
    ValueTotals,
    conversion_groups,
    last_rank,
    limited_sums,
    plan_chooses_limits,
    rows_by_bin,
    value_totals,
)
from attributary.spec import Logs, Spec
from attributary.tables.not_private import TRUE_COUNTS, mark
from attributary.types import Ints

LARGEST = 2**31  # leaves


@dataclass(frozen=True, eq=False)
class Counts:
    """A table with one row per leaf: the attributes, `impressions`, `conversions`. And what it does not show.

    With several conversions per impression, or values, it also has a column for each value, and for all of them what
    limits cut off, as in `conversions_beyond`. Where the plan is to choose a limit, nothing is cut off: a leaf has a
    row for each `rank` and each value bin, `revenue_from` where it begins, and its rows add up.

    An impression has no unknown attributes: the impressions of a known path stand on the first of its leaves, null on
    the others, so that they add up. The table is marked as not private, and so is all that is made of it.
    """

    table: Any
    impressions: int  # in the table
    conversions: int  # in the table
    unattributed: int = 0  # conversions that have no impression before them
    late: int = 0  # conversions whose last impression is not within the window
    exceeded: int = 0  # conversions whose impression has as many as count already
    incomplete: int = 0  # conversions without a user, another key or a time
    undated: int = 0  # impressions without a time; they can get no conversion, and are in no period
    outside: tuple[OutsideDomain, ...] = ()  # by attribute; a conversion may be outside of several domains
    left_out: int = 0  # conversions that are in no leaf since they are outside of a domain
    values: tuple[ValueTotals, ...] = ()  # of each measure that is one
    rows: int | None = None  # of the logs; None where a period passes some of them over

    def refuse_no_match(self) -> "Counts":
        """These counts; an InputError where every conversion is outside of a domain, so that all of them are 0."""
        if self.conversions or not self.left_out:
            return self
        each = (f"{outside.attribute} is {', '.join(outside.values):.200}" for outside in self.outside)
        raise InputError(
            f"none of the {self.left_out:,} conversions is in the domains of the spec: {'; '.join(each)}; "
            "write the values of a domain as the logs do"
        )

    def summary(self) -> dict[str, Any]:
        """What was counted and what was not, as data for JSON."""
        return {
            "impressions": self.impressions,
            "conversions": self.conversions,
            "table_rows": self.table.num_rows,
            "rows_read": self.rows,
            "conversions_not_counted": {
                "no_impression_before": self.unattributed,
                "outside_window": self.late,
                "impression_has_enough": self.exceeded,
                "no_user_key_or_time": self.incomplete,
                "outside_domain": self.left_out,
            },
            "outside_domain": [outside._asdict() for outside in self.outside],
            "impressions_without_time": self.undated,
            "values": [values._asdict() for values in self.values],
        }


def leaves(spec: Spec, logs: Logs, table: Any, period: Period) -> Counts:
    """The counts of all leaves, from a table of groups of rows: their fate, attributes and number."""
    fate, number = table.column("fate").to_numpy(), table.column("number").to_numpy().astype(np.int64)
    total = dict(zip(FATES, np.bincount(fate, number, len(FATES)).astype(np.int64).tolist(), strict=True))
    seen = {"impression", "conversion", "late"} if logs.is_attributed else {"impression"}
    seen |= {"undated"} if period.is_all else set()
    is_seen, is_conversion = (np.isin(fate, [FATES.index(f) for f in names]) for names in (seen, {"conversion"}))
    if not is_seen.any():
        raise InputError(
            "there is no impression to count" + ("" if period.is_all else " in the period; choose another")
        )
    some = is_seen | is_conversion
    table, impressions, conversions = table.filter(some), (number * is_seen)[some], (number * is_conversion)[some]
    all_conversions = conversions
    many = "rank" in table.column_names
    if many:
        conversions = np.where(table.column("rank").fill_null(1).to_numpy() <= last_rank(spec), conversions, 0)

    known = [label_codes(table, f"known_{i}", attribute, logs) for i, attribute in enumerate(spec.known)]
    paths = number_rows([column.code for column in known], table.num_rows)  # in the order of their labels
    sizes = [len(attribute.labels) for attribute in spec.unknown]
    _refuse_too_many(len(paths.first), prod(sizes))
    leaf, lost, outside = paths.of_row, np.zeros(table.num_rows, bool), []
    for i, attribute in enumerate(spec.unknown):
        place, not_in_domain = domain_places(table, f"unknown_{i}", attribute, logs, conversions)
        leaf = leaf * sizes[i] + place
        lost |= place < 0
        outside += [not_in_domain] if not_in_domain else []
    number_of_leaves = len(paths.first) * prod(sizes)
    count = np.bincount(leaf[~lost], conversions[~lost], number_of_leaves).astype(np.int64)
    seen_by_path = np.bincount(paths.of_row, impressions, len(paths.first)).astype(np.int64)
    made = _table(spec, known, paths.first, sizes, seen_by_path, count)
    values: tuple[ValueTotals, ...] = ()
    if many or spec.values or spec.conversions_per_impression != 1:
        inside = ~lost & (all_conversions > 0)
        grouped = conversion_groups(spec, table, leaf, all_conversions).some(inside)
        made, values = _measured(spec, made, grouped), value_totals(spec, grouped)
    return Counts(
        mark(made, TRUE_COUNTS),
        impressions=int(impressions.sum()),
        conversions=int(count.sum()),
        unattributed=total["unattributed"],
        late=total["late"],
        exceeded=int((all_conversions - conversions).sum()) if many else max(0, total["within"] - total["conversion"]),
        incomplete=total["incomplete"],
        undated=total["undated"],
        outside=tuple(outside),
        left_out=int(conversions[lost].sum()),
        values=values,
        rows=_rows_read(total, logs, many) if period.is_all else None,
    )


def _rows_read(total: dict[str, int], logs: Logs, many: bool) -> int:
    """All rows have a fate; of two logs, a conversion that is its impression's first is also within the window."""
    again = 0 if logs.is_attributed or many else total["conversion"]
    return sum(total.values()) - again


def _measured(spec: Spec, table: Any, groups: ConversionGroups) -> Any:
    """The table of leaves with all measures; where the plan chooses a limit, one row per leaf, rank and value bin."""
    import pyarrow as pa

    if not plan_chooses_limits(spec):
        made = limited_sums(spec, groups, table.num_rows)
        for name, column in made.items():
            place = table.column_names.index(name) if name in table.column_names else table.num_columns
            put = table.set_column if name in table.column_names else table.add_column
            table = put(place, name, pa.array(column))
        return table
    leaf, made = rows_by_bin(spec, groups, table.num_rows)
    first = np.ones(len(leaf), bool)
    first[1:] = leaf[1:] != leaf[:-1]
    taken = table.take(pa.array(leaf)).drop_columns(["conversions"])
    seen = taken.column("impressions").to_numpy(zero_copy_only=False)  # on the first row of the first leaf
    mask = ~first | taken.column("impressions").is_null().to_numpy(zero_copy_only=False)
    place = taken.column_names.index("impressions")
    taken = taken.set_column(place, "impressions", pa.array(np.nan_to_num(seen).astype(np.int64), mask=mask))
    for name, column in made.items():
        taken = taken.append_column(name, column)
    return taken


def _table(
    spec: Spec, known: list[LabelCodes], first: Ints, sizes: list[int], impressions: Ints, conversions: Ints
) -> Any:
    """One row per leaf; impressions stand on the first leaf of their path."""
    import pyarrow as pa

    columns, below = {}, prod(sizes)
    for attribute, (labels, code) in zip(spec.known, known, strict=True):
        columns[attribute.name] = _coded(np.repeat(code[first], below), labels)
    times = len(first)
    for attribute, size in zip(spec.unknown, sizes, strict=True):
        below //= size
        columns[attribute.name] = _coded(np.tile(np.repeat(np.arange(size), below), times), attribute.labels)
        times *= size
    per_path = prod(sizes)
    mask = np.ones(len(conversions), bool)
    mask[::per_path] = False
    columns["impressions"] = pa.array(np.repeat(impressions, per_path), mask=mask)
    columns["conversions"] = pa.array(conversions)
    return pa.table(columns)


def _coded(code: Ints, labels: tuple[str, ...]) -> Any:
    import pyarrow as pa

    return pa.DictionaryArray.from_arrays(pa.array(code.astype(np.int32)), pa.array(labels, pa.string()))


def _refuse_too_many(paths: int, domain: int) -> None:
    if paths * domain >= LARGEST:
        raise InputError(
            f"a tree holds fewer than 2**31 leaves; {paths:,} known paths with {domain:,} unknown values each are "
            f"{paths * domain:,}: use fewer buckets"
        )
