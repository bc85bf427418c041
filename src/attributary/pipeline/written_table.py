"""Written table: the estimates in the shape of the user's table: its rows, its columns, its labels, or its pivot.

Where people read the format, figures have as many digits as mean something, and still add up: two more than the
smallest standard deviation needs. Parquet, Arrow and frames have all digits.
"""

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from math import sqrt
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from attributary.denoising import Estimate
from attributary.denoising.joint import Joint
from attributary.denoising.whole import LIMIT, whole
from attributary.errors import InputError
from attributary.estimates import figures_of, noted, with_columns, with_metadata, with_roles
from attributary.pipeline.grouping_sets import margin_sums, summed, sums_of_leaves
from attributary.pipeline.table_form import Pivot, TableForm
from attributary.tables import Format, shown
from attributary.tables.as_written import BELOW, CALLED, LEVELS, MEASURED, NEEDED, TOTAL, UNNAMED
from attributary.tables.table_columns import column, is_text_type, number_cells, plain, with_cells
from attributary.tables.table_source import is_sheet, is_text
from attributary.tables.text_form import dialect, with_dialect
from attributary.tree import Tree
from attributary.tree.paths import codes
from attributary.types import Arrow, Floats, Ints, Record

NOISY, NOISE_VARIANCE = MEASURED
FINE = 0.02  # of the smallest standard deviation: the unit that figures are written in
MOST_DIGITS = 9
SIGNIFICANT = 5  # digits of a variance
OF_CORRECTION = 2  # decimals
THREE = 3  # decimals are not written, since 14.286 may be thousands
EXACT = 1e-9  # of a figure
SUMS = 5_000  # totals of a pivot that have an interval
EMPTY: Mapping[str, Estimate] = {}


@dataclass(frozen=True, eq=False)
class Layout:
    """How estimates stand in a user's table."""

    forms: tuple[TableForm, ...]  # one for each figure
    spent: tuple[object, ...]  # the columns that state the noise, among others
    variance: str | None = None  # the column that states the variance of a single figure
    prefix: str = ""
    confidence: float = 0.95
    fill: bool = False

    @property
    def is_pivot(self) -> bool:
        return self.forms[0].pivot is not None and not self.fill

    @property
    def base(self) -> Arrow:
        """The user's table, whose columns stay."""
        form = self.forms[0]
        return form.table if form.pivot is not None and self.fill else form.user

    def before(self, form: TableForm) -> str:
        """What stands before the names of a figure's columns."""
        return self.prefix + (f"{form.value}_" if len(self.forms) > 1 else "")

    def names(self, added: Collection[str]) -> list[str]:
        """The names of the user's columns in the output; refuses those that an added column would hide.

        Those that state the noise are called noise_variance, noise_low and the like instead.
        """
        if self.is_pivot:
            return list(self.base.column_names)
        taken = {self.before(form) + name for form in self.forms for name in added if name not in MEASURED}
        users = self.base.column_names
        names = [f"noise_{name}" if name in self.spent and name in taken else name for name in users]
        taken |= {self.before(form) + name for form in self.forms for name in self.copied(names)}
        clash = next((name for name in names if name in taken or names.count(name) > 1), None)
        if clash is not None:
            raise InputError(
                f"{shown(self.forms[0].path)} already has a column {clash!r}, which the output would hold twice; "
                "rename it, or put something before the added names with `prefix`, as in `prefix=denoised_`"
            )
        return names

    def copied(self, names: Collection[str]) -> list[str]:
        """Columns to add where the user's has another name: a report would not find the figures and their noise."""
        if len(self.forms) > 1:
            return list(MEASURED)
        kept = (name for name, old in zip(names, self.base.column_names, strict=True) if old == self.variance)
        noisy = [] if self.forms[0].value == NOISY else [NOISY]
        return [*noisy, *([] if NOISE_VARIANCE in kept else [NOISE_VARIANCE])]


def written_table(
    layout: Layout, estimates: Mapping[str, Estimate], format: Format | None, margins: Mapping[str, Estimate] = EMPTY
) -> Arrow:
    """The user's table with the estimates, as an Arrow table for this format; None is a frame in memory.

    `margins` are the estimates of rows of totals that are no nodes of the hierarchy.
    """
    forms, first = layout.forms, layout.forms[0]
    each = [figures_of(est, layout.confidence) for est in estimates.values()]
    sums = [figures_of(est, layout.confidence) for est in margins.values()]
    if is_sheet(format):
        each = [rounded(est, figures) for est, figures in zip(estimates.values(), each, strict=True)]
        cells = zip(forms, margins.values(), estimates.values(), each, strict=False)  # all of them, or none
        below = [
            margin_sums(
                est.tree, sum_.tree, sums_of_leaves(est.tree, form.table, sum_.tree, form.path), made["estimate"]
            )
            for form, sum_, est, made in cells
        ]
        sums = [_rounded_sums(*part) for part in zip(sums, below, map(digits_of, estimates.values()), strict=False)]
    est = next(iter(estimates.values()))
    if layout.is_pivot:
        layout.names(list(each[0]))
        made = _pivot(first, est, each[0], layout, format, sums[0] if sums else None)
        made = with_metadata(made, est, layout.confidence)
    else:
        made = _rows(layout, est, each, format)
        if sums and first.pivot is None:
            others = replace(layout, forms=tuple(form.margin for form in forms if form.margin is not None))
            assert first.rows is not None and others.forms[0].rows is not None
            made = _in_order([(made, first.rows), (_rows(others, est, sums, format), others.forms[0].rows)])
    return _in_dialect(made, first, format)


def written_parts(parts: Sequence[tuple[Layout, Mapping[str, Joint], Ints]], format: Format | None) -> Arrow:
    """The same of a table with rows of several breakdowns; of each its layout, its estimates, and which rows it has.

    In text, sums of the first are sums of its figures as they are written; where it has not all attributes, figures
    keep all digits.
    """
    (layout, first, _), each = parts[0], list[tuple[Arrow, Ints]]()
    cells = [rounded(est, figures_of(est, layout.confidence)) for est in first.values()]
    attributes = {name for one, _, _ in parts for name in one.forms[0].levels}
    adds_up = is_sheet(format) and attributes == set(layout.forms[0].levels)
    for own, estimates, rows in parts:
        figures = cells if adds_up else [figures_of(est, own.confidence) for est in estimates.values()]
        if adds_up and own is not layout:
            both = zip(first.values(), estimates.values(), cells, strict=True)
            figures = [
                _rounded_sums(figures_of(est, own.confidence), summed(top, est, made["estimate"]), digits_of(top))
                for top, est, made in both
            ]
        each.append((_rows(own, next(iter(estimates.values())), figures, format), rows))
    return _in_dialect(_in_order(each), layout.forms[0], format)


def _in_dialect(made: Arrow, form: TableForm, format: Format | None) -> Arrow:
    text = dialect(made, ",")._replace(decimal=form.decimal)
    return with_dialect(made, text, ",") if is_text(format) else made


def _rows(layout: Layout, est: Estimate, each: list[Record], format: Format | None) -> Arrow:
    """The rows of a hierarchy with their figures."""
    forms, first = layout.forms, layout.forms[0]
    names = layout.names(list(each[0]))
    table = layout.base if format is None else _with_numbers(layout, format)
    table = _as_text(table, first) if format is None or is_sheet(format) else table
    table = _filled(table, first.tree) if layout.fill else table
    made = table.rename_columns(names).replace_schema_metadata(table.schema.metadata)
    for form, figures in zip(forms, each, strict=True):
        order = [name for name in figures if name not in MEASURED] + layout.copied(names)
        made = with_columns(made, {layout.before(form) + name: figures[name][: made.num_rows] for name in order})
    made = with_metadata(made, est, layout.confidence)
    if not layout.prefix and not layout.is_pivot:  # or no report would find the figures, either
        stated = bool(first.totals) or len(forms) > 1 or bool(est.beside)
        text = is_sheet(format) or (first.second and first.rows is None)  # or rows of several breakdowns look alike
        made = with_roles(made, first.tree, first.levels, "" if len(forms) > 1 else first.value, text, stated)
        made = noted(made, totals=json.dumps(first.totals)) if first.totals else made
    return made


def _in_order(each: Sequence[tuple[Arrow, Ints]]) -> Arrow:
    """The rows of all breakdowns as they are in the user's table; those that were added come last."""
    last, first = sum(len(rows) for _, rows in each), each[0][0]
    place = [np.pad(rows, (0, part.num_rows - len(rows)), constant_values=last) for part, rows in each]
    parts = [part.replace_schema_metadata(first.schema.metadata) for part, _ in each]
    if LEVELS in first.column_names:
        parts = [with_cells(part, LEVELS, plain(part.column(LEVELS))) for part in parts]
    order = np.argsort(np.concatenate(place), kind="stable")
    both = pa.concat_tables(parts, promote_options="permissive").unify_dictionaries()
    return both.take(order).replace_schema_metadata(first.schema.metadata)


# Digits.


def rounded(est: Estimate, figures: Mapping[str, Any]) -> Record:
    """The figures of an estimate with as many digits as mean something; whole counts have whole intervals."""
    made = dict(figures)
    unit = digits_of(est)
    if unit is not None:
        scale, tree = 10.0**unit, est.tree
        units = whole(tree, tree.to_level_order(np.asarray(est.count, float) * scale), 0 if est.nonnegative else None)
        made["estimate"] = count = tree.from_level_order(units) / scale
        down, up = (np.floor, np.ceil) if np.issubdtype(est.count.dtype, np.integer) else (np.round, np.round)
        low, high = figures["low"] * scale, figures["high"] * scale
        with np.errstate(invalid="ignore"):
            made["low"] = np.fmin(down(low + EXACT * np.nan_to_num(np.abs(low), posinf=0)) / scale, count) + 0.0
            made["high"] = np.fmax(up(high - EXACT * np.nan_to_num(np.abs(high), posinf=0)) / scale, count) + 0.0
    made["correction"] = np.round(figures["correction"], OF_CORRECTION) + 0.0
    for name in ("from_prior", "zero_probability"):
        if name in made:
            made[name] = np.round(made[name], 4)
    for name in ("variance", "noise_variance"):
        made[name] = significant(np.asarray(made[name]))
    return made


def _rounded_sums(figures: Record, sums: Floats, digits: int | None) -> Record:
    """The figures of totals, which are the sums of the cells as they are written, with so many decimals."""
    made = {**figures, "correction": np.round(figures["correction"], OF_CORRECTION) + 0.0}
    made["estimate"] = sums = sums if digits is None else np.round(sums, digits)
    low, high = (figures[name] if digits is None else np.round(figures[name], digits) for name in ("low", "high"))
    made |= {name: significant(np.asarray(figures[name])) for name in ("variance", "noise_variance")}
    return made | {"low": np.fmin(low, sums), "high": np.fmax(high, sums)}


def digits_of(est: Estimate) -> int | None:
    """The decimals of counts and intervals; None where they stay as they are."""
    if np.issubdtype(est.count.dtype, np.integer):
        return 0
    known = (est.variance > 0) & (est.variance < np.inf)
    exact = est.count[est.variance == 0]
    smallest = float(np.sqrt(est.variance[known].min())) if known.any() else 1.0
    if est.beside:  # totals by the other breakdown are sums of rounded figures
        smallest /= max(1.0, sqrt(est.tree.is_leaf.sum() / 12))
    least = max(0, int(np.ceil(-np.log10(max(smallest * FINE, 1e-300)))))
    for digits in range(least + (least == THREE), MOST_DIGITS + 1):
        if not np.abs(est.count).max() * 10.0**digits < LIMIT:
            return None
        if np.allclose(exact * 10.0**digits, np.round(exact * 10.0**digits), EXACT, EXACT):
            return digits
    return None


def significant(values: Floats, digits: int = SIGNIFICANT) -> Floats:
    """Numbers of so many digits; larger whole numbers stay."""
    with np.errstate(divide="ignore", invalid="ignore"):
        places = np.clip(digits - 1 - np.floor(np.log10(np.abs(values))), 0, 300)
        places += places == THREE
        made: Floats = np.round(values * 10.0**places) / 10.0**places
    return np.where(np.isfinite(values) & (values != 0) & np.isfinite(made), made, values)


# Pivots.


def _pivot(
    form: TableForm,
    est: Estimate,
    figures: Mapping[str, Any],
    layout: Layout,
    format: Format | None,
    sums: Mapping[str, Any] | None,
) -> Arrow:
    """The user's pivot with estimates in its cells, and behind it the other figures of each column.

    Rows of totals hold the estimates of these `sums`; else the sums of the estimates in the rows that they are the
    totals of.
    """
    assert form.pivot is not None
    table, wide = form.pivot.user, form.pivot.wide
    order = [*("low", "high", "variance", *MEASURED), *(name for name in figures if name not in (*NEEDED, *MEASURED))]
    totals = _rows_of_totals(form.pivot)
    made = table.replace_schema_metadata({**(table.schema.metadata or {}), **(form.user.schema.metadata or {})})
    behind: dict[str, Floats] = {}
    for name, rows, first in sorted(form.pivot.cells(), key=lambda part: table.column_names.index(part[0])):
        cells = {key: np.full(table.num_rows, np.nan) for key in ("estimate", *order)}
        for key, values in cells.items():
            values[rows] = figures[key][first : first + len(rows)]
        if sums is not None and name != wide.margin:
            nodes = wide.columns.index(name) * len(totals) + np.arange(len(totals))
            for key, values in cells.items():
                values[list(totals)] = sums[key][nodes]
        for row, below in totals.items() if sums is None and name != wide.margin else ():
            nodes = first + np.searchsorted(rows, below)
            cells["estimate"][row] = figures["estimate"][nodes].sum()
            if len(totals) * len(wide.columns) <= SUMS:
                total = est.total(nodes)
                low, high = total.interval(layout.confidence)
                cells["low"][row], cells["high"][row], cells["variance"][row] = low, high, total.variance
        if is_sheet(format):
            digits = digits_of(est)
            if digits is not None:
                cells |= {key: np.round(cells[key], digits) for key in ("estimate", "low", "high")}
            cells["variance"] = significant(cells["variance"])
        made = with_cells(made, name, pa.array(cells["estimate"], from_pandas=True))
        behind |= {f"{layout.prefix}{name}_{key}": cells[key] for key in order}
    clash = next((name for name in behind if name in made.column_names), None)
    if clash is not None:
        raise InputError(f"{shown(form.path)} already has a column {clash!r}; rename it, or give `prefix`")
    made = with_columns(made, behind)
    path = BELOW.join((*wide.levels, wide.level))
    path += f"{CALLED}{form.called}" if form.called != UNNAMED else ""
    path += f"{TOTAL}{wide.margin}" if wide.margin else ""
    stated = [path if d == len(wide.levels) else BELOW.join(wide.levels[:d]) or None for d in form.pivot.depth.tolist()]
    return made if layout.prefix else made.append_column(LEVELS, pa.array(stated, pa.string()))


def _rows_of_totals(pivot: Pivot) -> dict[int, Ints]:
    """Each row of totals, and the rows that it is the total of."""
    coded = [codes(column(pivot.table, name, "").combine_chunks().dictionary_encode()) for name in pivot.wide.levels]
    inner, rows = np.flatnonzero(pivot.inner), dict[int, Ints]()
    for row in np.flatnonzero(~pivot.inner).tolist():
        alike = [code[inner] == code[row] for code in coded[: pivot.depth[row]]]
        rows[row] = inner[np.all(alike, 0)] if alike else inner
    return rows


# The user's columns.


def _with_numbers(layout: Layout, format: Format) -> Arrow:
    """The table with figures and their noise as numbers: Parquet has no place for texts among them, nor for bounds.

    Text keeps them as they are; a sheet has numbers, and texts for bounds.
    """
    table = layout.base
    for form in () if is_text(format) else layout.forms:
        for name in {form.value, *(one for one in layout.spent if isinstance(one, str))} & set(table.column_names):
            cells, bound = plain(table.column(name)), form.extra > 0
            if not is_text_type(cells.type):
                continue
            numbers = (
                np.where(bound, np.nan, form.figures) if name == form.value else number_cells(form.table.column(name))
            )
            if format == "xlsx" and name == form.value and bound.any():
                texts = pa.array(numbers, from_pandas=True).cast(pa.string())
                numbers = pc.if_else(pa.array(bound), cells.combine_chunks(), texts)
            table = with_cells(table, name, numbers)
    return table


def _as_text(table: Arrow, form: TableForm) -> Arrow:
    """The table with empty labels instead of nan, which would be a label in text."""
    for name in form.levels:
        if pa.types.is_floating(plain(table.column(name)).type):
            table = with_cells(table, name, plain(table.column(name)).to_numpy())
    return table


def _filled(table: Arrow, tree: Tree) -> Arrow:
    """The table with a row for every node of its tree; those it lacked come last, empty but for their path."""
    nodes = tree.table().slice(table.num_rows)
    if len(nodes) == 0:
        return table
    for name in tree.attributes:  # numbers and dates become text beside a label for the rest
        cells = table.column(name)
        if is_text_type(nodes.column(name).type.value_type) and not is_text_type(plain(cells).type):
            table = with_cells(table, name, plain(cells).cast(pa.string()))
    columns = []
    for field in table.schema:
        if field.name not in tree.attributes:
            columns.append(pa.nulls(len(nodes), field.type))
            continue
        labels = nodes.column(field.name)
        labels = labels.cast(labels.type.value_type)
        if pa.types.is_dictionary(field.type):
            labels = pc.dictionary_encode(labels.cast(field.type.value_type))
        columns.append(labels.cast(field.type))
    schema = pa.schema([field.with_nullable(True) for field in table.schema], table.schema.metadata)
    return pa.concat_tables([table.cast(schema), pa.table(columns, schema=schema)])
