"""Wide table: a pivot, one column per day or week, becomes one row per cell, its margins the rows of totals."""

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from attributary.changes.period_order import MONTHS, without_accents
from attributary.errors import InputError
from attributary.pipeline.level_columns import path_ends
from attributary.tables import shown
from attributary.tables.table_columns import column, is_text_type
from attributary.tree.paths import reads_as_total

FIGURE = "noisy"  # the column of figures in the long table
DAYS = "mon(day)? tue(s(day)?)? wed(nesday)? thu(r(s(day)?)?)? fri(day)? sat(urday)? sun(day)? "
DAYS += "mo(ntag)? di(enstag)? mi(ttwoch)? do(nnerstag)? fr(eitag)? sa(mstag)? so(nntag)?"
NUMBER = r"^[-+−<≤]?\s?[0-9]+([.,'’ \x{a0}\x{202f}][0-9]{3})*([.,][0-9]+)?$"
PERIODS = {
    "date": r"\d{4}[-/.]\d{1,2}[-/.]\d{1,2}|\d{1,2}[-/.]\d{1,2}[-/.]\d{2,4}",
    "month": rf"\d{{4}}-\d{{2}}|({'|'.join(MONTHS)})\.?([ -]\d{{2,4}})?",
    "week": r"(\d{4}[- ]?)?(w|kw|cw|week|woche) ?\d{1,2}",
    "quarter": r"(\d{4}[- ]?)?q[1-4]( \d{4})?",
    "year": r"(19|20)\d\d",
    "weekday": DAYS.replace(" ", "|"),
    "day": r"day ?\d{1,3}",
}  # what names of columns may be, by what they are together


@dataclass(frozen=True)
class WideColumns:
    """The columns of a pivot, the level that they are the labels of, and the column of row totals, if there is one."""

    level: str
    columns: tuple[str, ...]
    margin: str | None
    levels: tuple[str, ...]  # of the rows, as given; the others if none are
    dropped: tuple[str, ...] = ()

    def __str__(self) -> str:
        margin = f"; {self.margin} is the total of a row" if self.margin else ""
        margin += f"; left out: {', '.join(self.dropped)}" if self.dropped else ""
        first, last = self.columns[0], self.columns[-1]
        return f"a wide table: columns {first} to {last} are the {len(self.columns)} values of {self.level}{margin}"


def wide_columns(
    table: Any, levels: Sequence[str] | None, value: str | None, named: str | None, others: Collection[str]
) -> WideColumns | None:
    """The columns of a pivot: two or more whose names are dates or the like, or with `named` all numbers.

    Other columns of numbers beside or after such dates may be of the pivot, too (months in another language), and are
    refused unless it is `named`.
    """
    if value is not None and named is None:
        return None
    free = [name for name in table.column_names if name not in {*(levels or ()), *others}]
    period = next((kind for kind, names in PERIODS.items() if sum(map(_is(names), free)) > 1), None)
    if named is None and period is None:
        return None
    level = named or period or ""
    if {level, FIGURE} & set(table.column_names):
        raise InputError(f"a wide table becomes one with columns {level} and {FIGURE}, and has one of them already")
    dated = [name for name in free if period and _is(PERIODS[period])(name)]
    if not dated and levels is None:
        raise InputError(f"the columns of {named} do not look like dates: name the others with --levels")
    margins = [name for name in free if _margin(name)]
    if len(margins) > 1:
        raise InputError(f"a wide table has one column of totals; got {' and '.join(margins[:2])}: leave out one")
    first = free.index(dated[0]) if dated and (named is None or levels is None) else 0
    while levels is not None and first and _has_numbers(table, free[first - 1]):
        first -= 1
    labels = [name for name in free[first:] if name in dated or (name not in margins and _has_numbers(table, name))]
    strays = [name for name in labels if name not in dated]
    if strays and named is None:
        raise InputError(
            f"columns {dated[0]} to {dated[-1]} look like those of a pivot by {level}, and beside them {strays[0]} has "
            f"numbers, too: say that all of them are with --wide {level}, or leave the others out of the table"
        )
    rest = tuple(name for name in free if name not in {*labels, *margins})
    dropped = () if levels is None else rest
    return WideColumns(level, tuple(labels), margins[0] if margins else None, tuple(levels or rest), dropped)


def _has_numbers(table: Any, name: str) -> bool:
    import pyarrow as pa
    import pyarrow.compute as pc

    cells = column(table, name, "")
    if not is_text_type(cells.type):
        return not pa.types.is_temporal(cells.type)
    return bool(pc.any(pc.match_substring_regex(pc.utf8_trim_whitespace(cells), NUMBER)).as_py())


def _is(names: str) -> Any:
    return lambda name: re.fullmatch(names, without_accents(name.strip())) is not None


def _margin(name: str) -> bool:
    import pyarrow as pa

    return bool(reads_as_total(pa.array([name]), "row")[0])


def long_table(table: Any, wide: WideColumns, totals: Collection[str], path: str) -> tuple[Any, list[str], str]:
    """One row per cell, its levels, and what is left out, in words.

    Cells in rows of totals are left out but for the margin: the sum of a day over all stores is no node of a tree with
    days below stores.
    """
    import pyarrow as pa

    ends = [path_ends(table, name, totals) for name in wide.levels]
    if not ends or np.any(ends, 0).all():
        raise InputError(f"{shown(path)}: a wide table needs columns that name its rows, and rows that are not totals")
    whole = pa.array(~np.any(ends, 0))
    inner, parts = table.filter(whole), []
    for name in (*([wide.margin] if wide.margin else []), *wide.columns):
        source = table if name == wide.margin else inner
        label = None if name == wide.margin else name
        made = {each: source.column(each) for each in wide.levels}
        made[wide.level] = pa.array([label] * source.num_rows, pa.string())
        made[FIGURE] = column(source, name, path).cast(pa.string())
        parts.append(pa.table(made))
    rows, left_out = table.num_rows - inner.num_rows, ""
    if rows:
        kept = f"of which {wide.margin} is used" if wide.margin else "none of which is used"
        left_out = (
            f"{rows:,} row{'s' if rows > 1 else ''} of totals, {kept}: totals by {wide.level} are left out, since "
            f"{wide.level} is below {wide.levels[-1]}"
        )
    return pa.concat_tables(parts, promote_options="permissive"), [*wide.levels, wide.level], left_out
