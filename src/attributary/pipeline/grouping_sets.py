"""grouping_sets: a table with rows of several breakdowns, as SQL's CUBE and GROUPING SETS write them, in its parts.

The columns that a row names are its grouping set. Sets that lie within each other, such as (store) and (store, month),
are levels of one tree, so that all sets make few trees; two trees meet in the sums by the attributes that both have.
A column `breakdown` tells trees apart by itself.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from attributary.denoising.joint import Joint, joint, meetings_of
from attributary.denoising.meeting import Meeting
from attributary.errors import InputError
from attributary.estimates import ADDED
from attributary.measurements import Measurements
from attributary.pipeline.column_roles import grouping_columns, noise_columns, null_labels, value_column
from attributary.pipeline.level_columns import level_columns, path_ends, total_labels
from attributary.spec.breakdown import BREAKDOWN
from attributary.tables import shown
from attributary.tables.number_form import is_numeric
from attributary.tables.table_columns import column, labelled, plain, texts_of, with_coded
from attributary.tree import Tree
from attributary.tree.match import match
from attributary.tree.paths import refused
from attributary.types import Arrow, Bools, Floats, Ints, Values

NEAR = (0.8, 1.25)  # what a total is of the sum of its rows, whatever the noise
EXACT = 1e-9  # of a sum, for rounding
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
    table = pa.table({name: labelled(with_coded(table, [name]), name, path) for name in names})
    marks = [] if form.get("no_totals") else [*texts_of(form.get("totals", ())), *total_labels(table, names)]
    ends = [path_ends(table, name, marks) for name in names]
    unclear = levels is None and not all(each.any() for each in ends)  # a column that no row leaves out may be a remark
    if group is None and (unclear or gap_rows(table, names, marks).any()):  # or there is one margin
        return []
    if group is None and table.group_by(names).aggregate([]).num_rows < table.num_rows:
        return []  # groups of null, or rows that occur twice
    sets: Ints = sum(((~each).astype(np.int64) << i for i, each in enumerate(ends)), np.zeros(table.num_rows, np.int64))
    made, labels = list[TablePart](), np.zeros(table.num_rows) if group is None else group
    for rows in (np.flatnonzero(labels == label) for label in dict.fromkeys(labels.tolist())):
        for chain in _chains(np.unique(sets[rows]).tolist()):
            here = rows[np.isin(sets[rows], chain)]
            inside = [i for i in range(len(names)) if chain[-1] >> i & 1]
            order = sorted(inside, key=lambda i: next(at for at, some in enumerate(chain) if some >> i & 1))
            part, of = table.take(here), [names[i] for i in order]
            made.append(TablePart(here, tuple(of), tuple(mark for mark in marks if marks_totals(part, of, mark))))
    several = len({frozenset(part.levels) for part in made}) > 1 and all(part.levels for part in made)
    return sorted(made, key=lambda part: -len(part.levels)) if several else []


def marks_totals(table: Arrow, names: Sequence[str], label: str) -> bool:
    """Whether a label of any of these columns marks totals."""
    return any((path_ends(table, name, [label]) > path_ends(table, name, ())).any() for name in names)


def _groups(table: Arrow, levels: Sequence[str] | None) -> Values | None:
    """The labels of a column that says the breakdown of each row, if there are several."""
    if BREAKDOWN not in table.column_names or BREAKDOWN in (levels or ()):
        return None
    labels = np.array(column(table, BREAKDOWN, "").cast("string").to_pylist(), dtype=object)
    return None if (labels == None).any() or len(set(labels)) < 2 else labels.astype(str)  # noqa: E711


def _attributes(table: Arrow, value: Any, spent: Collection[str], form: Mapping[str, Any], path: str) -> list[str]:
    """The columns that may name nodes."""
    others = {*spent, *ADDED, *noise_columns(table.column_names), BREAKDOWN}
    suppressed = texts_of(form.get("suppressed", ()))
    value = value or value_column(table, others, path, suppressed)
    others |= {name.strip() for name in ([value, *value.split(",")] if isinstance(value, str) else value)}
    some = [name for name in table.column_names if name not in others and not path_ends(table, name, ()).all()]
    return [n for n in some if path_ends(table, n, ()).any() or not is_numeric(column(table, n, path), suppressed)]


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
    for tree, by in zip(trees, names, strict=True):
        short = tree.is_leaf & (tree.level < tree.depth - 1)
        if short.any():
            lone = f"{shown(path)}: {tree.name(int(np.argmax(short)))}"
            raise InputError(f"{lone} has no rows below it among those by {by}; add them, or leave it out")
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


# Margins: rows of totals that one hierarchy cannot have, such as sums by month beside store > month. Pivots with totals
# of their columns have them. They are a second breakdown: month, or month > region beside region > store > month.


def gap_rows(table: Arrow, names: Sequence[str], marks: Collection[str]) -> Bools:
    """Rows that name the last level, and of those above it some from the top: (month) or (region, month).

    None if all rows are of one hierarchy, or if any skips levels in another way.
    """
    ends = np.array([path_ends(table, name, marks) for name in names])
    gaps: Bools = ends[:-1].any(axis=0) & ~ends[-1]
    crossed = gaps.any() and (ends[:-2] <= ends[1:-1]).all() and (~ends).all(axis=0).any()
    if crossed:  # a group of null has the path of its total
        rest = level_columns(table, names, "").filter(~gaps)
        crossed = rest.group_by(list(names)).aggregate([]).num_rows == rest.num_rows
    return gaps if crossed else np.zeros_like(gaps)


def margin_tree(table: Arrow, names: Sequence[str], leaves: Arrow, path: str) -> Tree:
    """The tree of these rows, with the last level on top; node i is row i, and sums that have no row come last.

    `leaves` are the rows of the cells, of which it has all sums.
    """
    named = [~path_ends(table, name, ()) for name in names[:-1]]
    levels = [names[-1], *names[: int(np.sum(named, axis=0).max())]]
    with refused(path):
        tree = Tree.from_paths(rows := level_columns(table, levels, path), levels, fill=True, totals=None)
        cells = level_columns(leaves, levels, path)
        lacking = cells.filter(pa.array(match(tree, cells).node < 0)).group_by(levels).aggregate([])
        if lacking.num_rows:
            each = [pa.table({name: plain(some.column(name)) for name in levels}) for some in (rows, lacking)]
            both = pa.concat_tables(each, promote_options="permissive")
            tree = Tree.from_paths(both, levels, fill=True, totals=None)
        return tree


def sums_of_leaves(tree: Tree, table: Arrow, margin: Tree, path: str) -> Ints:
    """Which leaf of the margin each leaf of the cells' tree is part of, both by their place in `leaves`."""
    leaves, by, size = tree.leaves, margin.attributes[0], len(margin.leaves)
    if (leaves >= table.num_rows).any():
        raise InputError(f"{shown(path)}: rows are missing, so that totals by {by} are not the sums of those there")
    place = match(margin, table.take(leaves).select(list(margin.attributes))).node
    number = np.full(len(margin) + 1, -1)
    number[margin.leaves] = np.arange(size)
    of = number[np.where(place < 0, -1, place if margin.order is None else margin.order[place])]
    if (of < 0).any():
        raise InputError(f"{shown(path)}: {tree.name(int(leaves[np.argmin(of)]))} has no rows by {by}; add them")
    alone = np.bincount(of, minlength=size) == 0
    if alone.any():
        name = margin.name(int(margin.leaves[np.argmax(alone)]))
        raise InputError(f"{shown(path)}: {name} is a total of no rows: no cell has it; add the rows, or leave it out")
    return of


def margin_sums(tree: Tree, margin: Tree, of: Ints, count: Floats) -> Floats:
    """The sums of cells that the nodes of the margin are."""
    return margin.roll_up(np.bincount(of, count[tree.leaves], len(margin.leaves)).astype(np.float64))


def with_margin(
    cells: Measurements, sums: Measurements, table: Arrow, path: str, nonnegative: bool = False
) -> tuple[Joint, Joint]:
    """Cells and totals, denoised together; every total is the sum of its cells."""
    tree, margin = cells.tree, sums.tree
    assert tree is not None and margin is not None
    of, by = sums_of_leaves(tree, table, margin, path), " > ".join(margin.attributes)
    exact = cells.variance == 0
    figures, inexact = (margin_sums(tree, margin, of, each) for each in (np.where(exact, cells.noisy, 0), 1.0 - exact))
    off = np.abs(figures - sums.noisy) > EXACT * np.maximum(np.abs(figures), 1)
    off &= (sums.variance == 0) & (inexact == 0)
    if off.any():
        v = int(np.argmax(off))
        raise InputError(
            f"{shown(path)}: exact figures (variance 0) must agree; {margin.name(v)} is {sums.noisy[v]:.17g}, but its "
            f"rows add up to {figures[v]:.17g}: correct one of them, or state its noise"
        )
    meeting = Meeting(0, 1, of, np.arange(len(margin.leaves)))
    try:
        names = [by, " > ".join(tree.attributes)]
        made, other = joint([(tree, cells), (margin, sums)], [meeting], names, nonnegative)
    except InputError as error:
        raise InputError(f"{shown(path)}: {error}; or leave out the rows of totals by {by}") from error
    count, blue = (margin_sums(tree, margin, of, np.asarray(each, float)) for each in (made.count, made.blue))
    return made, replace(other, count=count, blue=blue)
