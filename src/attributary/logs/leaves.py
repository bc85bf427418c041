"""leaves: counted groups of rows become one row per leaf, with the full domain of every unknown attribute."""

from math import prod
from typing import Any

import numpy as np

from attributary.errors import InputError
from attributary.logs.counts import Counts, Values
from attributary.logs.domain import placed
from attributary.logs.fate import FATES
from attributary.logs.labelled import Labelled, labelled
from attributary.logs.numbered import numbered
from attributary.logs.period import Period
from attributary.logs.tallied import Groups, columns, groups, is_open, rows, told
from attributary.logs.valued import most
from attributary.spec import Logs, Spec
from attributary.types import Ints

LARGEST = 2**31  # leaves


def leaves(spec: Spec, logs: Logs, table: Any, period: Period) -> Counts:
    """The counts of all leaves, from a table of groups of rows: their fate, their attributes and their number."""
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
        conversions = np.where(table.column("rank").fill_null(1).to_numpy() <= most(spec), conversions, 0)

    known = [labelled(table, f"known_{i}", attribute, logs) for i, attribute in enumerate(spec.known)]
    paths = numbered([column.code for column in known], table.num_rows)  # in the order of their labels
    sizes = [len(attribute.labels) for attribute in spec.unknown]
    _refuse_too_many(len(paths.first), prod(sizes))
    leaf, lost, outside = paths.of_row, np.zeros(table.num_rows, bool), []
    for i, attribute in enumerate(spec.unknown):
        place, found = placed(table, f"unknown_{i}", attribute, logs, conversions)
        leaf = leaf * sizes[i] + place
        lost |= place < 0
        outside += [found] if found else []
    number_of_leaves = len(paths.first) * prod(sizes)
    count = np.bincount(leaf[~lost], conversions[~lost], number_of_leaves).astype(np.int64)
    seen_by_path = np.bincount(paths.of_row, impressions, len(paths.first)).astype(np.int64)
    made = _table(spec, known, paths.first, sizes, seen_by_path, count)
    values: tuple[Values, ...] = ()
    if many or spec.values or spec.conversions_per_impression != 1:
        inside = ~lost & (all_conversions > 0)
        grouped = groups(spec, table, leaf, all_conversions).some(inside)
        made, values = _measured(spec, made, grouped), told(spec, grouped)
    return Counts(
        made,
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


def _measured(spec: Spec, table: Any, found: Groups) -> Any:
    """The table of leaves with all measures; where the plan chooses a limit, with rows by rank and step."""
    import pyarrow as pa

    if not is_open(spec):
        made = columns(spec, found, table.num_rows)
        for name, column in made.items():
            place = table.column_names.index(name) if name in table.column_names else table.num_columns
            put = table.set_column if name in table.column_names else table.add_column
            table = put(place, name, pa.array(column))
        return table
    leaf, made = rows(spec, found, table.num_rows)
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
    spec: Spec, known: list[Labelled], first: Ints, sizes: list[int], impressions: Ints, conversions: Ints
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
