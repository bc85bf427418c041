"""margin_rows: rows of totals that one hierarchy cannot have, such as sums by month beside store > month.

A pivot with totals of its columns has them, and so have SQL's CUBE and GROUPING SETS. They are a second breakdown of
the same conversions: month, or month > region beside region > store > month.
"""

from collections.abc import Collection, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from attributary.denoising.joint import Joint, joint
from attributary.denoising.meeting import Meeting
from attributary.errors import InputError
from attributary.measurements import Measurements
from attributary.pipeline.level_columns import level_columns, path_ends
from attributary.tables import shown
from attributary.tables.table_columns import column, with_cells
from attributary.tree import Tree
from attributary.tree.match import match
from attributary.tree.paths import refused
from attributary.types import Arrow, Bools, Floats, Ints

EXACT = 1e-9  # of a sum, for rounding


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


def without_marks(table: Arrow, names: Sequence[str], marks: Collection[str]) -> Arrow:
    """The table with empty cells where these columns hold labels that mark totals."""
    for name in names:
        ends = pa.array(path_ends(table, name, marks))
        table = with_cells(table, name, pc.if_else(ends, None, column(table, name, "")))
    return table


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
            both = pa.concat_tables([rows, lacking.select(levels)], promote_options="permissive")
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
