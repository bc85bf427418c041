"""level_columns: the columns of a user's table that name its nodes, and the labels there that mark totals."""

import re
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from attributary.errors import InputError
from attributary.tables import place, shown
from attributary.tables.table_columns import column, is_text_type
from attributary.tree import Tree
from attributary.tree.labels import codes, refuse_unprintable
from attributary.tree.paths import RowError, reads_as_total
from attributary.types import Bools

LONGEST = 1000  # of a message, whatever names are in it
EXACT = 1e-9  # of a sum of figures, for rounding
BY_CHANCE = 1e-4  # how often an ordinary label of a level may look like a sum
TO_ASK = 0.1  # the same where it can be said that the label is an ordinary one
NEAR = 3.0  # standard deviations of noise between a total and its rows
NUMBER = re.compile(r"|\*|nan|[-+]?\d+(\.\d*)?")


@contextmanager
def refused(path: str) -> Iterator[None]:
    """The core's ValueErrors about a table's data become InputErrors with its file and, where known, row and line."""
    try:
        yield
    except RowError as error:
        raise InputError(f"{place(path, error.row)}: {error.rule[:LONGEST]}") from error
    except ValueError as error:
        if str(error).startswith(shown(path)):  # it says so itself
            raise
        raise InputError(f"{shown(path)}: {str(error)[:LONGEST]}") from error


def level_columns(table: Any, names: Sequence[str], path: str) -> Any:
    """The columns that name the nodes of a table, top to bottom."""
    import pyarrow as pa

    if len(set(names)) < len(names):
        raise InputError(f"each level has its own column; got levels {','.join(names)}, which name one of them twice")
    cells = {name: column(table, name, path) for name in names}
    for name, labels in cells.items():
        if pa.types.is_nested(labels.type):
            raise InputError(
                f"{shown(path)}: column {name!r} is {labels.type}; the labels of a level are text, numbers or dates"
            )
        with refused(path):
            refuse_unprintable(labels, name)
    return pa.table(cells)


def without_totals(table: Any, names: list[str], totals: Collection[str], path: str) -> Any:
    """The table with the cells of these columns empty where they hold a label that marks a total."""
    import pyarrow as pa
    import pyarrow.compute as pc

    wanted = {label.strip() for label in totals}
    lacking = set(wanted)
    for name in names if wanted else ():
        cells = column(table, name, path)
        if is_text_type(cells.type):
            marks = pc.is_in(pc.utf8_trim_whitespace(cells), pa.array(list(wanted), cells.type))
            lacking -= {label.strip() for label in cells.filter(marks).unique().to_pylist()}
            table = table.set_column(table.column_names.index(name), name, pc.if_else(marks, None, cells))
    if lacking:
        raise InputError(f"{shown(path)}: no cell of {', '.join(names)} is {min(lacking)!r}; leave --total out")
    return table


def without_nan(table: Any, names: Sequence[str]) -> Any:
    """The table with these columns empty where they hold nan, or its text among numbers: that is no label."""
    import pyarrow as pa
    import pyarrow.compute as pc

    for name in names:
        cells = column(table, name, "") if name in table.column_names else pa.array([])
        if is_text_type(cells.type):
            labels = [text.strip().lower() for text in cells.unique().drop_null().to_pylist()]
            is_nan = pc.equal(pc.utf8_lower(pc.utf8_trim_whitespace(cells)), "nan")
            if "nan" not in labels or not all(NUMBER.fullmatch(text) for text in labels):
                continue
        elif pa.types.is_floating(cells.type):
            is_nan = pc.is_nan(cells)
        else:
            continue
        table = table.set_column(table.column_names.index(name), name, pc.if_else(is_nan, None, cells))
    return table


def path_ends(table: Any, name: str, totals: Collection[str]) -> Bools:
    """Where a column names nothing: its cell is empty, a *, or a label that marks a total."""
    import pyarrow as pa
    import pyarrow.compute as pc

    cells = column(table, name, "")
    if is_text_type(cells.type):
        texts = pc.utf8_trim_whitespace(pc.fill_null(cells, ""))
        is_end = pc.is_in(texts, pa.array(["", "*", *totals], texts.type))
    else:
        is_end = pc.is_null(cells, nan_is_null=pa.types.is_floating(cells.type))
    ends: Bools = is_end.to_numpy()
    return ends


def total_labels(table: Any, names: Sequence[str]) -> list[str]:
    """Labels of these columns that read as a total."""
    import pyarrow.compute as pc

    marks: dict[str, None] = {}
    for name in names:
        cells = column(table, name, "")
        if is_text_type(cells.type):
            labels = pc.unique(cells).drop_null()
            marks |= dict.fromkeys(text.strip() for text in labels.filter(reads_as_total(labels, name)).to_pylist())
    return list(marks)


def refuse_sums(tree: Tree, figures: ArrayLike, path: str, remedy: str, variance: ArrayLike | None = None) -> None:
    """Raises an InputError where a label is the sum of its siblings in every family that it has two or more in.

    Counts do that by chance about once in as many times as they are large: this is refused only where it would happen
    in less than one of 10,000 tables, or where the label reads as a total. With the `variance` of their noise, a sum but
    for noise is one, too, and one table in ten may be asked about, unless totals that were measured count the label in.
    """
    figure = tree.to_level_order(np.asarray(figures, np.float64))
    spread = np.zeros(len(tree)) if variance is None else tree.to_level_order(np.asarray(variance, np.float64))
    stated = figure
    for level in reversed(range(1, tree.depth)):  # what has no figure is the sum of what is below it
        here = tree.slice(level)
        total, noise = (np.bincount(tree.family[here], each[here], len(tree)) for each in (figure, spread))
        unstated = np.isnan(figure) & (np.bincount(tree.family[here], minlength=len(tree)) > 0)
        figure, spread = np.where(unstated, total, figure), np.where(unstated, noise, spread)
    for level in range(tree.total, tree.depth):
        label = _sum_of_siblings(tree, level, figure)
        if label is None and variance is not None:
            label = _near_sum(tree, level, figure, spread, stated)
        if label is not None:
            name = tree.attributes[level - tree.total]
            raise InputError(
                f"{shown(path)}: {label!r} in column {name!r} is the sum of the rows beside it, in every family: "
                f"it looks like a total; {remedy}"
            )


def _sum_of_siblings(tree: Tree, level: int, figure: Any) -> Any:
    here = tree.slice(level)
    value, parent = figure[here], tree.family[here] + 1
    coded = tree.labels[level - tree.total]
    code, names = codes(coded), len(coded.dictionary)
    present = np.bincount(parent, value != 0)[parent]
    family = np.bincount(parent, value)[parent]
    unit = _unit(value)
    eligible = (present >= 3) & (value > unit)
    is_sum = eligible & (np.abs(2 * value - family) <= EXACT * np.abs(family))
    seen, sums = np.bincount(code[eligible], minlength=names), np.bincount(code[is_sum], minlength=names)
    strength = np.bincount(code[is_sum], np.log(value[is_sum] / unit), names)
    enough = np.full(names, np.log(names / BY_CHANCE))
    if is_text_type(coded.dictionary.type):
        enough[reads_as_total(coded.dictionary, tree.attributes[level - tree.total])] = 0
    suspects = (sums > 0) & (seen == sums) & (strength >= enough)
    return coded.dictionary[int(np.argmax(suspects))].as_py() if suspects.any() else None


def _near_sum(tree: Tree, level: int, figure: Any, spread: Any, stated: Any) -> Any:
    """A label whose figures are, all together and in nine of ten families, near the sums of the rows beside them."""
    here = tree.slice(level)
    value, parent = figure[here], tree.family[here] + 1
    coded = tree.labels[level - tree.total]
    code, names = codes(coded), len(coded.dictionary)
    family, noise, present = (np.bincount(parent, each)[parent] for each in (value, spread[here], value != 0))
    off = 2 * value - family
    exact = np.abs(off) <= EXACT * np.abs(family)
    slack = np.where(exact, _unit(value) / 2, NEAR * np.sqrt(noise))
    use = (present >= 3) & np.isfinite(off + slack)
    above = np.append(np.nan, stated)[parent]  # the measured total of its family
    counted_in = use & (np.abs(above - family) < np.abs(above - family + value))

    def by_label(each: Any) -> Any:
        return np.bincount(code[use], np.broadcast_to(each, value.shape)[use], names)

    seen, total = by_label(1.0), by_label(value)
    width = 2 * np.sqrt(by_label(slack**2))
    near = by_label(exact | (np.abs(off) <= slack)) >= 0.9 * seen
    near &= (2 * np.abs(by_label(off)) <= width) | (by_label(exact) == seen)
    suspects = (seen > 0) & near & (names * width <= TO_ASK * total) & (by_label(counted_in) <= seen / 2)
    return coded.dictionary[int(np.argmax(suspects))].as_py() if suspects.any() else None


def _unit(value: Any) -> float:
    return next((10.0**-k for k in range(4) if _multiples(value, 10.0**-k)), EXACT * np.abs(value).max(initial=1))


def _multiples(value: Any, unit: float) -> bool:
    whole = value / unit
    return bool((np.abs(whole - np.round(whole)) <= 1e-6).all())
