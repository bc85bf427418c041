"""level_columns: the columns of a user's table that name its nodes, and the labels there that mark totals."""

from collections.abc import Collection, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import ArrayLike

from attributary.errors import InputError
from attributary.tables import shown
from attributary.tables.table_columns import (
    coded,
    distinct,
    is_text_type,
    label_type,
    labelled,
    with_cells,
)
from attributary.tables.total_words import reads_as_total
from attributary.tree import Family, Tree
from attributary.tree.paths import codes, labels_only, refuse_unprintable, refused
from attributary.types import Arrow, Bools, Floats

EXACT = 1e-9  # of a sum of figures, for rounding
BY_CHANCE = 1e-4  # how often an ordinary label of a level may look like a sum
TO_ASK = 0.1  # the same where it can be said that the label is an ordinary one
TO_ASK_BELOW = 0.25  # and where the rows below it are sums, too
MOST = 0.9  # families
NEAR = 3.0  # standard deviations of noise between a total and its rows


def level_columns(table: Arrow, names: Sequence[str], path: str) -> Arrow:
    """The columns that name the nodes of a table, top to bottom."""
    if len(set(names)) < len(names):
        raise InputError(f"each level has its own column; got levels {','.join(names)}, which name one of them twice")
    cells = {name: _dates(labelled(table, name, path)) for name in names}
    for name, labels in cells.items():
        if pa.types.is_nested(labels.type):
            raise InputError(
                f"{shown(path)}: column {name!r} is {labels.type}; the labels of a level are text, numbers or dates"
            )
        with refused(path):
            refuse_unprintable(labels, name)
    return pa.table(cells)


def _dates(cells: Any) -> Any:
    """Times that are all midnight as dates."""
    if not pa.types.is_timestamp(cells.type):
        return cells
    dates = cells.cast(pa.date32(), safe=False)
    return dates if pc.all(pc.equal(dates.cast(cells.type), cells)).as_py() else cells


def without_totals(table: Arrow, names: list[str], totals: Collection[str], path: str) -> Arrow:
    """The table with the cells of these columns empty where they hold a label that marks a total."""
    wanted = {label.strip() for label in totals}
    lacking = set(wanted)
    for name in names if wanted else ():
        cells = coded(labelled(table, name, path))
        if is_text_type(cells.dictionary.type):
            lacking -= {label.strip() for label in cells.dictionary.drop_null().to_pylist()}
            table = with_cells(table, name, labels_only(cells, list(wanted)))
    if lacking:
        raise InputError(f"{shown(path)}: no cell of {', '.join(names)} is {min(lacking)!r}; leave `totals` out")
    return table


def path_ends(table: Arrow, name: str, totals: Collection[str]) -> Bools:
    """Where a column names nothing: its cell is empty, a *, or a label that marks a total."""
    cells = labelled(table, name, "")
    labels = cells.dictionary if pa.types.is_dictionary(cells.type) else cells
    if is_text_type(labels.type):
        texts = pc.utf8_trim_whitespace(pc.fill_null(labels, ""))
        is_end = pc.is_in(texts, pa.array(["", "*", *totals], texts.type))
    else:
        is_end = pc.is_null(labels, nan_is_null=pa.types.is_floating(labels.type))
    ends: Bools = is_end.to_numpy(zero_copy_only=False)
    return ends if labels is cells else np.append(ends, True)[codes(cells)]


def total_labels(table: Arrow, names: Sequence[str]) -> list[str]:
    """Labels of these columns that read as a total."""
    marks: dict[str, None] = {}
    for name in names:
        cells = labelled(table, name, "")
        if is_text_type(label_type(cells)):
            labels = distinct(cells)
            marks |= dict.fromkeys(text.strip() for text in labels.filter(reads_as_total(labels, name)).to_pylist())
    return list(marks)


def refuse_sums(tree: Tree, figures: ArrayLike, path: str, remedy: str, variance: ArrayLike | None = None) -> None:
    """Raises an InputError where a label is the sum of its siblings in every family that it has two or more in.

    Counts do that by chance about once in as many times as they are large: this is refused only where it would happen
    in less than one of 10,000 tables, or where the label reads as a total. With the `variance` of their noise, what is
    a sum but for noise counts as well, and one in ten, unless totals that were measured count the label in, or rows
    below it are no such sums.
    """
    figure = stated = tree.to_level_order(np.asarray(figures, np.float64))
    spread = np.zeros(len(tree)) if variance is None else tree.to_level_order(np.asarray(variance, np.float64))
    if np.isnan(stated).any():  # what has no figure is the sum of what is below it
        figure, spread = figure.copy(), spread.copy()
        for family in tree.families(upwards=True):
            lacks = np.isnan(figure[family.parent])
            for each in (spread, figure):
                each[family.parent[lacks]] = family.sum(each[family.children])[lacks]
    for level in range(tree.total, tree.depth):
        words = _sum_of_siblings(tree, level, figure, None if variance is None else spread, stated)
        if words:
            raise InputError(f"{shown(path)}: {words}: it looks like a total; {remedy}")


def _sum_of_siblings(tree: Tree, level: int, figure: Floats, spread: Floats | None, stated: Floats) -> str:
    here, family = tree.slice(level), Family(tree, level - 1) if level else None

    def with_siblings(each: Floats) -> Floats:
        """The sum of each node's family."""
        return np.full(len(each), each.sum()) if family is None else family.spread(family.sum(each))

    value = figure[here]
    coded = tree.labels[level - tree.total]
    code, names = codes(coded), len(coded.dictionary)
    present, whole = with_siblings(1.0 * (value != 0)), with_siblings(value)
    unit = next((10.0**-k for k in range(4) if _multiples(value, 10.0**-k)), EXACT * np.abs(value).max(initial=1))
    eligible = (present >= 3) & (value > unit)
    is_sum = eligible & (np.abs(2 * value - whole) <= EXACT * np.abs(whole))
    seen, sums = np.bincount(code[eligible], minlength=names), np.bincount(code[is_sum], minlength=names)
    strength = np.bincount(code[is_sum], np.log(value[is_sum] / unit), names)
    enough = np.full(names, np.log(names / BY_CHANCE))
    if is_text_type(coded.dictionary.type):
        enough[reads_as_total(coded.dictionary, tree.attributes[level - tree.total])] = 0
    suspects, close = (sums > 0) & (seen == sums) & (strength >= enough), sums
    if spread is not None:
        width = np.where(is_sum, unit, 2 * NEAR * np.sqrt(with_siblings(spread[here])))
        near = eligible & (np.abs(2 * value - whole) <= width / 2 + unit * is_sum)
        above = np.nan if family is None else stated[tree.family[here]]  # the measured total of a node's family
        near &= ~(np.abs(above - whole) < np.abs(above - whole + value))  # unless that counts it in
        ask = np.full(len(value), TO_ASK)
        if level + 1 < tree.depth:
            agree, rows = _sums_below(tree, level, figure, spread)
            near, ask = near & agree, np.where(rows > 0, TO_ASK_BELOW, TO_ASK)
        close, total, wide = (np.bincount(code[near], each[near], names) for each in (near, value * ask, width**2))
        suspects |= (close > 0) & (close >= MOST * seen) & (names * np.sqrt(wide) <= total)
    if not suspects.any():
        return ""
    i, name = int(np.argmax(suspects)), tree.attributes[level - tree.total]
    many = (
        "" if seen[i] == 1 else f", in {'every family' if max(sums[i], close[i]) == seen[i] else 'nearly all families'}"
    )
    is_near = "is" if sums[i] == seen[i] else "is near"
    return f"{coded.dictionary[i].as_py()!r} in column {name!r} {is_near} the sum of the rows beside it{many}"


def _sums_below(tree: Tree, level: int, figure: Any, spread: Any) -> tuple[Bools, Any]:
    """Whether rows below each node of a level are the sums of those below its siblings, but for noise; and how many."""
    here, below, coded = tree.slice(level), tree.slice(level + 1), tree.labels[level + 1 - tree.total]
    parent, nodes = tree.family[below] - here.start, here.stop - here.start
    pair = (tree.family[here] + 1)[parent] * len(coded.dictionary) + codes(coded)
    pair = np.unique(pair, return_inverse=True)[1]
    sums, noise = (np.bincount(pair, each[below])[pair] for each in (figure, spread))
    off = np.nan_to_num((2 * figure[below] - sums) ** 2 / np.maximum(noise, EXACT))  # 0 where it is not known
    rows = np.bincount(parent, minlength=nodes)
    agree: Bools = np.bincount(parent, off, nodes) <= rows + 2 * np.sqrt(2 * rows)
    return agree, rows


def _multiples(value: Floats, unit: float) -> bool:
    whole = value / unit
    return bool((np.abs(whole - np.round(whole)) <= 1e-6).all())
