"""grouping_sets: a table with rows of several breakdowns, as SQL's CUBE and GROUPING SETS write them, in its parts.

The columns that a row names are its grouping set. Sets that lie within each other, such as (store) and (store, month),
are levels of one tree, so that all sets make few trees; two trees meet in the sums by the attributes that both have.
A column `breakdown` tells trees apart by itself.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from attributary.denoising.joint import Joint, joint, meetings_of
from attributary.errors import InputError
from attributary.estimates import ADDED
from attributary.measurements import Measurements
from attributary.pipeline.level_columns import path_ends, total_labels
from attributary.pipeline.margin_rows import gap_rows
from attributary.pipeline.table_form import NEAR, grouping_columns, noise_columns, null_labels, value_column
from attributary.spec.breakdown import BREAKDOWN
from attributary.tables import shown
from attributary.tables.number_form import is_numeric
from attributary.tables.table_columns import column
from attributary.tree import Tree
from attributary.tree.paths import refused
from attributary.types import Arrow, Bools, Floats, Ints

REMEDY = "add its row, with an empty figure and `empty=unmeasured` if nobody measured it"
MOST = 60  # attributes


class TablePart(NamedTuple):
    """Rows of a table that make one tree."""

    rows: Ints
    levels: tuple[str, ...]  # top to bottom
    totals: tuple[str, ...]  # labels that mark totals there


def parts_of(
    table: Arrow, levels: Sequence[str] | None, value: Any, spent: Collection[str], form: Mapping[str, Any], path: str
) -> list[TablePart]:
    """The parts of a table that is no hierarchy, the largest first; none if it is one, or its attributes are not clear.

    `spent` are columns that are about noise, and `form` has the options of `recognise`.
    """
    grouping = grouping_columns(table)
    table, _ = null_labels(table, grouping, path)
    group = _groups(table, levels)
    names = list(levels or _attributes(table, value, {*spent, *grouping.values()}, form, path))
    if not 1 < len(names) < MOST or not set(names) <= set(table.column_names):
        return []
    marks = [] if form.get("no_totals") else [*form.get("totals", ()), *total_labels(table, names)]
    ends = [path_ends(table, name, marks) for name in names]
    unclear = levels is None and not all(each.any() for each in ends)  # a column that no row leaves out may be a remark
    if group is None and (unclear or gap_rows(table, names, marks).any()):  # or there is one margin
        return []
    if group is None and table.select(names).group_by(names).aggregate([]).num_rows < table.num_rows:
        return []  # groups of null, or rows that occur twice
    sets: Ints = sum(((~each).astype(np.int64) << i for i, each in enumerate(ends)), np.zeros(table.num_rows, np.int64))
    made, labels = list[TablePart](), np.zeros(table.num_rows) if group is None else group
    for rows in (np.flatnonzero(labels == label) for label in dict.fromkeys(labels.tolist())):
        for chain in _chains(np.unique(sets[rows]).tolist()):
            here = rows[np.isin(sets[rows], chain)]
            order = [i for low, high in zip([0, *chain], chain, strict=False) for i in _members(high & ~low)]
            part = table.take(here)
            there = [m for m in marks if any((path_ends(part, names[i], [m]) > path_ends(part, names[i], ())).any()
                                             for i in order)]  # fmt: skip
            made.append(TablePart(here, tuple(names[i] for i in order), tuple(there)))
    several = len({frozenset(part.levels) for part in made}) > 1 and all(part.levels for part in made)
    return sorted(made, key=lambda part: -len(part.levels)) if several else []


def _groups(table: Arrow, levels: Sequence[str] | None) -> Any:
    """The labels of a column that says the breakdown of each row, if there are several."""
    if BREAKDOWN not in table.column_names or BREAKDOWN in (levels or ()):
        return None
    labels = np.array(column(table, BREAKDOWN, "").cast("string").to_pylist(), dtype=object)
    return None if (labels == None).any() or len(set(labels)) < 2 else labels.astype(str)  # noqa: E711


def _attributes(table: Arrow, value: Any, spent: Collection[str], form: Mapping[str, Any], path: str) -> list[str]:
    """The columns that may name nodes."""
    others = {*spent, *ADDED, *noise_columns(table.column_names), BREAKDOWN}
    suppressed = form.get("suppressed", ())
    value = value or value_column(table, others, path, suppressed)
    others |= {name.strip() for name in ([value, *value.split(",")] if isinstance(value, str) else value)}
    some = [name for name in table.column_names if name not in others and not path_ends(table, name, ()).all()]
    return [n for n in some if path_ends(table, n, ()).any() or not is_numeric(column(table, n, path), suppressed)]


def _members(bits: int) -> list[int]:
    return [i for i in range(MOST) if bits >> i & 1]


def _chains(sets: list[int]) -> list[list[int]]:
    """Sets of bits as few chains, each from the smallest set to the largest."""
    left, chains = sorted(sets, key=lambda s: (-s.bit_count(), s)), list[list[int]]()
    while left:
        chain = [left[0]]
        for each in left[1:]:
            if each & chain[-1] == each:
                chain.append(each)
        left = [each for each in left if each not in chain]
        chains.append(chain[::-1])
    return chains


def denoised_parts(
    parts: Sequence[tuple[Tree, Measurements]], names: Sequence[str], path: str, stated: bool, nonnegative: bool
) -> list[Joint]:
    """The trees of a table, denoised together; every sum that two of them have is one number.

    Unless the levels are `stated`, all trees must have nearly the same total.
    """
    trees = [tree for tree, _ in parts]
    for tree, name in zip(trees, names, strict=True):
        short: Bools = tree.is_leaf & (tree.level < tree.depth - 1)
        if short.any():
            lone = tree.name(int(np.argmax(short)))
            raise InputError(
                f"{shown(path)}: {lone} has no rows below it among those by {name}; add them, or leave it out"
            )
    with refused(path):
        meetings = meetings_of(trees, [f"rows by {name}" for name in names], REMEDY)
    others = [" and ".join(name for name in names if name != own) for own in names]
    try:
        made = joint(parts, meetings, others, nonnegative)
    except InputError as error:
        raise InputError(f"{shown(path)}: {error}; or leave out the rows by {names[1]}") from error
    sums = [float(est.plain.count[est.tree.roots].sum()) for est in made]
    every = dict.fromkeys(name for tree in trees for name in tree.attributes)
    off = next((i for i, s in enumerate(sums) if not NEAR[0] * s <= sums[0] <= NEAR[1] * s), None)
    if off is not None and not stated:
        raise InputError(
            f"{shown(path)}: rows by {names[0]} add up to {sums[0]:.6g}, rows by {names[off]} to {sums[off]:.6g}, but "
            f"rows of one table count the same conversions. If these do, give `levels={','.join(every)}`"
        )
    return made


def summed(cells: Joint, part: Joint, count: Floats) -> Floats:
    """The sums of cells that the nodes of another part are, all of whose attributes the cells have."""
    meeting = next(m for m in part.meetings if (m.one, m.other) == (cells.number, part.number))
    of, at = (meeting.of_leaves(one.number, one.tree) for one in (cells, part))
    sums: Floats = part.tree.roll_up(np.bincount(of, count[cells.tree.leaves], meeting.size)[at])
    return sums
