"""read_estimates: the estimates in a table, of one measure or of several, with the tree that its rows name."""

import json
from contextlib import suppress
from dataclasses import replace
from typing import Any

import numpy as np

from attributary.denoising import denoise
from attributary.errors import InputError
from attributary.estimates import (
    ANYTHING,
    COLUMNS,
    FIGURES,
    FROM_PRIOR,
    IMPRESSIONS,
    LARGEST,
    NODE,
    OPTIONAL,
    USUAL,
    About,
    Estimates,
    about,
    figures_of,
    known_above,
    label_columns,
)
from attributary.spec.breakdown import BREAKDOWN
from attributary.tables import place, shown
from attributary.tables.as_written import BELOW, LEVELS, MEASURE, MEASURED, NEEDED, PIVOT, UNNAMED
from attributary.tables.table_columns import column, floats, is_text_type, of_label, plain, words_of
from attributary.tree import Tree
from attributary.tree.match import match, with_missing
from attributary.tree.paths import refused, text_labels
from attributary.types import Arrow, Cells, Floats, Ints, Record

OFF = 0.02  # of a standard deviation: estimates of a whole family add up
MANY = 100  # values of a column that are no measures any more


def read_estimates(table: Arrow, path: str, levels: list[str] | None = None, rows: Ints | None = None) -> Estimates:
    """The estimates in a table, one row per node; `levels` names its label columns where the table does not tell.

    `rows` are the numbers of these rows in the file, where the table has those of one measure only.
    """
    tree = tree_of(table, path, levels, rows)
    there = {name: floats(table, name, path, rows) for name in OPTIONAL if name in table.column_names}
    for each in (each for each in COLUMNS if each.rule and each.name in there):
        _refuse(~each.holds(there), there[each.name], f"{each.name} is {each.rule}", path, rows)
    known = about(table.schema.metadata)
    if len(tree) != table.num_rows:
        if not set(MEASURED) <= set(there) or FROM_PRIOR in there:
            raise InputError(
                f"{shown(path)} has rows for {table.num_rows:,} of {len(tree):,} nodes; a report needs all of them: "
                "denoise with `fill`"
            )
        there = _with_sums(tree, there, known)
    impressions = _impressions(table, tree, path, levels, rows)
    known = replace(known, figure=_figure(table, tree, there, known.figure, rows), not_private=words_of(table))
    if rows is None and impressions is None and not set(NODE) <= set(table.column_names):  # ours has all nodes
        tree, there = _with_missing(tree, there)
    return Estimates.from_columns(tree, there, known, impressions=impressions)


def _with_sums(tree: Tree, there: dict[str, Floats], about: About) -> dict[str, Floats]:
    """The columns with nodes that have no row, which are sums of those below them: from what was measured, again."""
    rows = len(there["estimate"])
    more = (0, len(tree) - rows)
    noisy = np.pad(np.nan_to_num(there["noisy"]), more)
    variance = np.pad(np.nan_to_num(there["noise_variance"], nan=np.inf), more, constant_values=np.inf)
    again = denoise(tree, noisy, variance, shape=about.shape or "laplace")
    added = figures_of(again, about.confidence or USUAL)
    made = {name: np.append(values, added[name][rows:]) for name, values in there.items()}
    leaf = np.where(tree.is_leaf, made["estimate"], 0.0)
    moved = np.where(np.arange(len(tree)) < rows, 0.0, tree.sum_up(leaf) - made["estimate"])  # they may be non-negative
    return made | {name: made[name] + moved for name in ("estimate", "low", "high")}


def _with_missing(tree: Tree, there: dict[str, Floats]) -> tuple[Tree, dict[str, Floats]]:
    """Tree and columns with leaves for missing rows: where estimates do not add up, or what is summed is known and the
    sum is not. They are between 0 and what is left, which they share.
    """
    x, var = (tree.to_level_order(there[name]) for name in NEEDED[:2])
    child = tree.family >= 0
    below, spread = (np.bincount(tree.family[child], a[child], len(tree)) for a in (x, var))
    with np.errstate(invalid="ignore"):
        off = np.abs(x - below) > np.maximum(OFF * np.sqrt(var + spread), 1e-6 * np.abs(x))
    short = ~tree.in_level_order.is_leaf & (spread < np.inf) & (off | (var == np.inf))
    if not short.any():
        return tree, there
    made, new = with_missing(tree, short), {"noise_variance": np.inf, FROM_PRIOR: 0.0}
    more = (0, len(made) - len(tree))
    values = {name: np.pad(a, more, constant_values=new.get(name, np.nan)) for name, a in there.items()}
    x, var, low, high = (made.to_level_order(values[name]) for name in NEEDED)
    for family in made.families():
        p, c = family.parent, family.children
        add = np.isnan(x[c])
        number = family.sum(1.0 * add)
        of_x, of_var, of_low = (family.sum(np.where(add, 0.0, a[c])) for a in (x, var, low))
        with np.errstate(invalid="ignore", divide="ignore"):
            left, top = family.spread((x[p] - of_x) / number), family.spread(high[p] - of_low)
        wide = family.spread(np.where(number == 1, var[p] + of_var, np.inf))
        ends = np.minimum(left, 0), np.fmax(top, np.maximum(left, 0))
        for a, made_up in zip((x, var, low, high), (left, wide, *ends), strict=True):
            a[c] = np.where(add, made_up, a[c])
    return made, values | {name: made.from_level_order(a) for name, a in zip(NEEDED, (x, var, low, high), strict=True)}


def _refuse(wrong: Any, cells: Floats, rule: str, path: str, rows: Ints | None) -> None:
    if wrong.any():
        row = int(np.argmax(wrong))
        raise InputError(f"{_where(path, row, rows)}: {rule}; got {cells[row]:g}")


def _where(path: str, row: int, rows: Ints | None) -> str:
    """Where a row is in the file, of which `rows` may be a part."""
    return place(path, row if rows is None else int(rows[row]))


def _figure(table: Arrow, tree: Tree, there: dict[str, Floats], stated: str, rows: Ints | None) -> str:
    """The column of the user's that was denoised: the one stated, or one before the estimates that holds the same.

    Ours are conversions, and those of `rows` of a measure have its name.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    names: list[str] = table.column_names
    others = {*tree.attributes, *NODE, *OPTIONAL}
    users = [name for name in names[: names.index("estimate")] if name not in others and name.lower() not in ANYTHING]
    if stated in users or PIVOT in (table.schema.metadata or {}):
        return stated
    noisy = there.get("noisy", np.full(len(tree), np.nan))[: table.num_rows]
    for name in users:
        cells = table.column(name)
        if pa.types.is_string(cells.type):
            number = pc.match_substring_regex(cells, r"^-?[0-9]+(\.[0-9]+)?$")
            cells = pc.if_else(number, cells, None).cast(pa.float64())
        if pa.types.is_integer(cells.type) or pa.types.is_floating(cells.type):
            values = cells.cast(pa.float64(), safe=False).to_numpy()
            if (known := np.isfinite(values)).any() and np.array_equal(values[known], noisy[known]):
                return name
    return "" if set(NODE) <= set(names) or rows is not None else UNNAMED


def _impressions(table: Arrow, tree: Tree, path: str, levels: list[str] | None, rows: Ints | None) -> Floats | None:
    """The impressions of each node, in level order; where a cell is empty, those of the node above."""
    if IMPRESSIONS not in table.column_names or IMPRESSIONS in (levels or tree.attributes):
        return None
    seen = floats(table, IMPRESSIONS, path, rows)
    wrong = ~(np.isnan(seen) | ((seen >= 0) & (seen < np.inf)))
    _refuse(wrong, seen, "impressions are a number, 0 or more", path, rows)
    return known_above(tree, tree.to_level_order(seen))


def by_breakdown(table: Arrow) -> dict[str, Arrow]:
    """The tables of several breakdowns that we wrote into one, by name; nothing of any other table."""
    names = table.column_names
    if names[:1] != [BREAKDOWN] or NODE[0] not in names:
        return {}
    each, labels = dict[str, Arrow](), label_columns([name for name in names if name not in (BREAKDOWN, MEASURE)])
    for name in table.column(BREAKDOWN).cast("string").unique().to_pylist():
        rows = of_label(table, BREAKDOWN, name, ())
        empty = [label for label in labels if rows.column(label).null_count == rows.num_rows]
        each[name] = rows.drop_columns(empty)
    return each


def read_measures(table: Arrow, path: str, levels: list[str] | None = None) -> dict[str, Estimates]:
    """The estimates of each measure in a table, all on the tree of the first."""
    names, read = measure_names(table, path), dict[str, Estimates]()
    for name in names.unique().to_pylist():
        rows, numbers = rows_of_measure(table, names, name)
        est = read_estimates(rows, path, levels, numbers)
        first = next(iter(read), name)
        read[name] = est if name == first else aligned(est, read[first].tree, name, first, path)
    return read


def measure_names(table: Arrow, path: str) -> Cells:
    """Which measure each row is of, as text."""
    import pyarrow as pa
    import pyarrow.compute as pc

    cells = plain(table.column(MEASURE))
    if pa.types.is_nested(cells.type):
        raise InputError(f"{shown(path)}: column {MEASURE!r} is {cells.type}; measures have names")
    cells = pc.fill_null(cells.cast(pa.string()), "")
    empty = pc.index(cells, "").as_py()
    if empty >= 0:
        raise InputError(f"{place(path, empty)}: the measure is empty; every row must name its measure")
    if (many := pc.count_distinct(cells).as_py()) > MANY:
        raise InputError(
            f"{shown(path)}: column {MEASURE!r} has {many:,} values, too many for measures; if it names nodes, list it "
            "in `levels`"
        )
    return cells


def rows_of_measure(table: Arrow, names: object, name: str) -> tuple[Any, Ints]:
    """The rows of one measure without that column, and their numbers."""
    import pyarrow.compute as pc

    mask = pc.equal(names, name)
    return table.drop_columns([MEASURE]).filter(mask), np.flatnonzero(mask.to_numpy())


def aligned(est: Estimates, tree: Tree, name: str, first: str, path: str) -> Estimates:
    """The same estimates on another tree that has the same nodes."""
    alike = len(est) == len(tree) and bool(est.tree.attributes) == bool(tree.attributes)
    if alike and tree.attributes:
        place_of = match(tree, est.tree.table()).node
        alike = bool((place_of >= 0).all())
    elif alike:
        place_of = np.argsort(tree.at(np.arange(len(tree))))
        alike = np.array_equal(tree.family, est.tree.family)
    if not alike:
        raise InputError(
            f"{shown(path)}: {name!r} has other nodes than {first!r}, {len(est):,} and {len(tree):,}; all measures of "
            "a table need a row for each node"
        )

    def moved(values: Floats) -> Floats:
        there = np.empty(len(tree))
        there[place_of] = est.tree.from_level_order(values)
        return there

    columns: Record = {name: moved(getattr(est, name)) for name in FIGURES}
    columns["extras"] = {name: moved(values) for name, values in est.extras.items()}
    columns["impressions"] = None if est.impressions is None else moved(est.impressions)
    return replace(est, tree=tree, **columns)


def tree_of(table: Arrow, path: str, levels: list[str] | None, rows: Ints | None = None) -> Tree:
    """The tree that a table's rows name, in their order."""
    names = table.column_names
    ours = set(NODE) <= set(names)
    with refused(path, rows):
        if ours and levels is None:
            levels = label_columns(names)
            if not levels:
                node, parent = (floats(table, name, path) for name in ("node", "parent"))
                if not (node == np.arange(len(node))).all() or not (parent == np.round(parent)).all():
                    raise InputError(f"{shown(path)}: nodes are numbered 0, 1, 2 … in the order of their rows")
                return Tree.from_parents(parent.astype(np.int64))
        if levels := levels or stated_levels(table):
            fill = PIVOT in (table.schema.metadata or {})
            return Tree.from_paths(_labels(table, levels, path), levels, fill=fill, totals=None)
    levels = label_columns(names)
    with suppress(ValueError):  # the columns before the figures, if they name one node for each row
        tree = Tree.from_paths(_labels(table, levels, path), levels, totals=None)
        if len(tree) == table.num_rows:
            return tree
    raise InputError(f"{shown(path)} does not say which columns name a node; give them with `levels`, top to bottom")


def _labels(table: Arrow, levels: list[str], path: str) -> Arrow:
    import pyarrow as pa

    for name in levels:
        column(table, name, path)  # or an error that tells what there is
    return pa.table({name: text_labels(table, name) for name in levels})


def stated_levels(table: Arrow) -> list[str] | None:
    """The level columns that a table states, in its metadata or in a column; None where it states none that it has."""
    import pyarrow.compute as pc

    try:
        levels = json.loads((table.schema.metadata or {}).get(LEVELS.encode(), b"null"))
    except ValueError:
        levels = None
    if levels is None and LEVELS in table.column_names and is_text_type(table.column(LEVELS).type):
        longest = max((str(text or "") for text in pc.unique(table.column(LEVELS)).to_pylist()), key=len, default="")
        levels = longest.split(BELOW)
    good = isinstance(levels, list) and levels and all(name in table.column_names for name in levels)
    return levels if good else None


def stated_largest(table: Arrow) -> dict[str, float]:
    """The most that one conversion adds, by measure, where a table states it: so far sums vary by chance."""
    try:
        stated = json.loads((table.schema.metadata or {}).get(LARGEST.encode(), b"{}"))
        return {str(name): float(most) for name, most in stated.items() if 0 < float(most) < np.inf}
    except (ValueError, TypeError, AttributeError):
        return {}
