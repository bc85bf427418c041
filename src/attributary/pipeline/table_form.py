"""Table form: what a user's table is taken for, said in words, so that nothing is guessed in silence.

    >>> form = recognise(read_table("sales.csv"))
    >>> form.levels, form.value, form.totals
    (('region', 'store', 'week'), 'visits', ('ALL',))
    >>> print(*form.notes, sep="\\n")

What is given is not questioned. What is not given is recognised where only one reading fits all rows; else an
InputError shows the options that say it.
"""

import re
from collections.abc import Collection, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np

from attributary.changes.period_order import MONTHS, without_accents
from attributary.errors import InputError
from attributary.pipeline.level_columns import level_columns, path_ends, refused, total_labels, without_totals
from attributary.pipeline.missing_rows import Incomplete, lack_labels
from attributary.tables import place, shown
from attributary.tables.number_form import WORDS, decimal_sign, figure_column, plain_numbers, point_of_noise
from attributary.tables.table_columns import arrow_table, column, floats, is_text_type, mark, with_cells, words_of
from attributary.tables.text_form import NOTED
from attributary.tree import Tree
from attributary.tree.match import with_missing
from attributary.tree.paths import TotalLabelError, reads_as_total
from attributary.types import Floats

NULL = "NULL"  # the label of rows that a query grouped by null
FIGURES = (
    *("noisy", "noisy_count", "count", "counts", "value", "conversions", "users", "visits", "visitors", "orders"),
    *("clicks", "impressions", "sessions", "events", "n", "cnt", "dp_count", "num", "total_count", "reach"),
)  # usual names of a column of figures
NOISE = (
    *("variance", "noise_variance", "var", "std", "stddev", "sd", "sigma", "scale", "low", "high", "lo", "hi"),
    *("lower", "upper", "lower_bound", "upper_bound", "ci_low", "ci_high", "epsilon"),
    *("noise_interval_low", "noise_interval_high"),
)  # and of those that say how noisy it is
NEAR = (0.8, 1.25)  # what a total is of the sum of its rows, whatever the noise
LONGEST = 200  # of names in a message
KEEP = 50  # columns that a message or a guess looks at
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


@dataclass(frozen=True, eq=False)
class TableForm:
    """A table, its roles, its figures as numbers, and what was assumed."""

    table: Any  # Arrow, one row per node; cells that mark totals are empty
    path: str  # what messages call it
    tree: Tree  # node i is row i; nodes without a row come last, and after them leaves for rows that are missing
    levels: tuple[str, ...]  # top to bottom
    value: str
    figures: Floats  # nan where a cell is empty, the middle of its bound where it was suppressed
    extra: Floats  # what a suppressed cell adds to the variance of its noise; inf where it was not measured
    totals: tuple[str, ...] = ()  # labels that mark totals
    notes: tuple[str, ...] = ()  # what was recognised, in words
    incomplete: tuple[int, ...] = ()  # nodes whose families lack rows

    def with_missing(self, found: Iterable[Incomplete]) -> "TableForm":
        """With leaves for what is missing in these families."""
        each = list(found)
        if not each:
            return self
        families = np.any([one.families for one in each], axis=0)
        nodes = np.flatnonzero(self.tree.from_level_order(families)).tolist()
        notes, tree = tuple(one.words for one in each), with_missing(self.tree, families)
        return replace(self, tree=tree, notes=(*self.notes, *notes), incomplete=(*self.incomplete, *nodes))


def recognise(
    frame: Any,
    levels: Sequence[str] | None = None,
    value: str | None = None,
    *,
    amounts: Collection[str] = (),
    totals: Collection[str] = (),
    no_totals: bool = False,
    suppressed: Collection[str] = (),
    empty: str | None = None,
    missing: str | tuple[int, ...] | None = None,
    decimal: str | None = None,
    wide: str | None = None,
    fill: bool = False,
    path: str = "the table",
) -> TableForm:
    """What a table holds: its levels, its figures, its totals and its suppressed cells.

    `amounts` are columns of numbers besides the figures, such as their variance. `suppressed` are texts such as <5,
    `empty` says what empty figures are (unmeasured or zero), `missing` the same of missing rows (or which nodes lack
    some), `decimal` is the decimal sign, and `wide` names the level that the columns of a pivot table are labels of.
    """
    table, notes = mark(arrow_table(frame)), list[str]()  # a column of marks is not about nodes
    metadata = dict(table.schema.metadata or {})
    if NOTED in metadata:
        notes.append(f"cells are separated by {metadata.pop(NOTED).decode()!r}")
        table = table.replace_schema_metadata(metadata)
    spread = wide_columns(table, levels, value, wide, amounts)
    if spread is not None:
        marks = [] if no_totals else [*totals, *total_labels(table, spread.levels)]
        if levels is None:
            spread = replace(spread, levels=tuple(_levels(table, spread.levels, marks, path)))
            notes.append(f"levels: {' > '.join((*spread.levels, spread.level))}")
        words = words_of(table)
        table, levels, left_out = long_table(table, spread, marks, path)
        table, value = mark(table, words), FIGURE
        notes += [str(spread), left_out]
        path = f"{path}, one row per cell"
    grouping = _grouping_columns(table)
    roles = {*grouping.values(), *amounts}
    if value is None:
        value = _value_column(table, {*(levels or ()), *roles}, path)
        notes.append(f"figures: column {value}")
    likely = decimal_sign(column(table, value, path))
    table, figures, extra, more = figure_column(table, value, path, suppressed, empty, decimal)
    notes += more
    if value == FIGURE and any(more):  # where a report looks for figures, they are numbers
        table = with_cells(table, value, figures)
    for name in amounts:
        if name in table.column_names and name != value:
            table, note = plain_numbers(table, name, path, decimal, likely or point_of_noise(table.column(name)))
            notes.append(note)
    table, more = _null_labels(table, grouping, path)
    notes += more
    if levels is None:
        rest = [name for name in table.column_names if name not in {value, *roles} and not _is_amount(table, name)]
        rest = [name for name in rest if not path_ends(table, name, ()).all()]
        marks = [] if no_totals else total_labels(table, rest)
        levels = _levels(table, rest, [*totals, *marks], path)
        notes.append(f"levels: {' > '.join(levels)}")
    names = level_columns(table, levels, path).column_names

    def without(marks: Collection[str]) -> tuple[Any, Tree]:
        made = without_totals(table, names, marks, path)
        with refused(path):
            columns = level_columns(made, names, path)
            return made, Tree.from_paths(columns, names, fill=fill, totals=None if no_totals else ())

    try:
        marks = list(totals)
        marked, tree = without(marks)
    except InputError as error:
        marks = _true_marks(table, names, figures, path) if isinstance(error.__cause__, TotalLabelError) else []
        if totals or not marks:
            raise
        notes += [f"{label} marks totals: its figures are near the sums of the rows beside it" for label in marks]
        marked, tree = without(marks)
    said = tuple(note for note in notes if note)
    form = TableForm(marked, path, tree, tuple(names), value, figures, extra, tuple(marks), said)
    return form.with_missing(lack_labels(tree, missing))


def _value_column(table: Any, others: Collection[str], path: str) -> str:
    """The column of figures: the only one with a usual name, or the only one of numbers."""
    free = [name for name in table.column_names[:KEEP] if name not in others and not _is_amount(table, name)]
    numeric = [name for name in free if _is_numeric(table, name)]
    usual = [name for name in numeric if name.lower() in FIGURES]
    for some in (usual, numeric):
        if len(some) == 1:
            return str(some[0])
    words = " or ".join(f"`value={name[:LONGEST]}`" for name in (usual or numeric)[:5]) or "no column has numbers only"
    raise InputError(f"{shown(path)} does not say which column has the figures; give it with `value`: {words}")


def _is_amount(table: Any, name: str) -> bool:
    """Whether a column looks like what is said of the noise."""
    return name.lower() in NOISE and _is_numeric(table, name)


def _is_numeric(table: Any, name: str) -> bool:
    """Whether the column has numbers, empty cells and bounds alone, and some number."""
    for sign in WORDS:
        with suppress(InputError):
            known = figure_column(table, name, "", sign=sign)
            return bool(np.any((known.extra == 0) & ~np.isnan(known.figures)))
    return False


# Levels.


def _levels(table: Any, names: Sequence[str], totals: Collection[str], path: str) -> list[str]:
    """The columns that name nodes, top to bottom: whoever is empty in some row, so are all below it.

    Only one may never be empty, no two may be empty in the same rows, every node must have its row, and every node
    above the last level some below it: a column of remarks does not look like that.
    """
    ends = {name: path_ends(table, name, totals) for name in names[:KEEP]}
    ordered = sorted(ends, key=lambda name: int(ends[name].sum()))
    nested = all((ends[a] <= ends[b]).all() and (ends[a] < ends[b]).any() for a, b in pairwise(ordered))
    if names and nested and len(names) <= KEEP:
        marked = without_totals(table, ordered, totals, path)
        with refused(path):
            tree = Tree.from_paths(level_columns(marked, ordered, path), ordered, fill=True, totals=None)
        if len(tree) == table.num_rows and bool((tree.level[tree.is_leaf] == tree.depth - 1).all()):
            return ordered
    texts = [name for name in ordered if not _is_numeric(table, name)] or ordered
    raise InputError(
        f"{shown(path)} does not say which columns name a node; give them with `levels`, top to bottom, as in "
        f"`levels={','.join(texts)[:LONGEST] or 'region,store'}`"
    )


# Totals.


def _true_marks(table: Any, levels: Sequence[str], figures: Floats, path: str) -> list[str]:
    """The labels that read as a total, if they are: columns below them are empty, and each level is near its sums."""
    marks, several = total_labels(table, levels), False
    ends = [path_ends(table, name, marks) for name in levels]
    if not all((a <= b).all() for a, b in pairwise(ends)):
        return []
    try:
        tree = Tree.from_paths(without_totals(table, list(levels), marks, path), list(levels), fill=True, totals=None)
    except ValueError:  # the labels are not what marks totals, and what is wrong is said of the table as it is
        return []
    figure = tree.to_level_order(np.append(figures, np.full(len(tree) - len(figures), np.nan)))
    for level in reversed(range(1, tree.depth)):  # what has no figure is the sum of what is below it
        here, up = tree.slice(level), tree.slice(level - 1)
        family, sums = tree.family[here], figure[up].copy()
        below = np.bincount(family, np.nan_to_num(figure[here]), len(tree))[up]
        stated = (np.bincount(family, minlength=len(tree))[up] > 1) & np.isfinite(sums)
        if stated.any() and not NEAR[0] < sums[stated].sum() / (below[stated].sum() or np.nan) < NEAR[1]:
            return []
        several |= bool(stated.any())
        figure[up] = np.where(np.isnan(sums), below, sums)
    return marks if several else []


# GROUPING().


def _grouping_columns(table: Any) -> dict[str, str]:
    """The columns that hold GROUPING() of others, by these others."""
    by_letters = {_letters(name): name for name in table.column_names}
    flags = {_letters(name).removeprefix("grouping"): name for name in table.column_names if _is_flag(name)}
    return {by_letters[of]: flag for of, flag in flags.items() if of and of in by_letters}


def _is_flag(name: str) -> bool:
    return _letters(name).startswith("grouping")


def _letters(name: str) -> str:
    return re.sub(r"[\W_]", "", name.lower())


def _null_labels(table: Any, grouping: dict[str, str], path: str) -> tuple[Any, list[str]]:
    """The table with a label where GROUPING() says that an empty cell is a group of its own."""
    import pyarrow as pa
    import pyarrow.compute as pc

    notes = []
    for name, flag in grouping.items():
        flags, ends = floats(table, flag, path), path_ends(table, name, ())
        odd = ~np.isin(flags, (0, 1))
        if odd.any():
            raise InputError(f"{place(path, int(np.argmax(odd)))}: {flag} is 0 or 1; got {flags[odd][0]:g}")
        label = (flags == 1) & ~ends & ~path_ends(table, name, total_labels(table, [name]))
        if label.any():
            row = int(np.argmax(label))
            raise InputError(
                f"{place(path, row)}: {flag} is 1, which says that the row is a total, but {name} is not empty"
            )
        null = (flags == 0) & ends
        if null.any():
            cells = column(table, name, path)
            is_nan = pc.is_null(cells, nan_is_null=pa.types.is_floating(cells.type))  # no label in text, either
            cells = pc.if_else(is_nan, None, cells).cast(pa.string())
            if pc.any(pc.equal(cells, NULL)).as_py():
                raise InputError(
                    f"{shown(path)}: {name} has both the label {NULL} and groups of null; rename the label"
                )
            table = with_cells(table, name, pc.if_else(pa.array(null), NULL, cells))
            notes.append(f"{int(null.sum()):,} empty cells of {name} are a group of their own ({flag} is 0): {NULL}")
    return table, notes


# Pivots: one column per day or week becomes one row per cell, their margins the rows of totals.


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
        raise InputError(f"the columns of {named} do not look like dates: name the others with `levels`")
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
            f"numbers, too: say that all of them are with `wide={level}`, or leave the others out of the table"
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
