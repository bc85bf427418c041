"""Table form: what a user's table is taken for, said in words, so that nothing is guessed in silence.

    >>> form = recognise(read_table("sales.csv"))
    >>> form.levels, form.value, form.totals
    (('region', 'store', 'week'), 'visits', ('ALL',))
    >>> print(*form.notes, sep="\\n")

What is given is not questioned. What is not given is recognised where only one reading fits all rows; else an
InputError shows the options that say it.
"""

import json
import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from attributary.changes.period_files import MONTHS, without_accents
from attributary.errors import InputError, QuestionError
from attributary.pipeline.column_roles import KEEP, LONGEST, grouping_columns, noise_columns, null_labels, value_column
from attributary.pipeline.figure_doubts import Incomplete, lack_labels
from attributary.pipeline.grouping_sets import NEAR, gap_rows, margin_sums, margin_tree, marks_totals, sums_of_leaves
from attributary.pipeline.level_columns import level_columns, path_ends, total_labels, without_totals
from attributary.tables import shown
from attributary.tables.as_written import ADDED, LEVELS, MEASURE, MEASURED, PIVOT, UNNAMED, level_names, written_form
from attributary.tables.number_form import decimal_sign, figure_column, is_numeric, plain_numbers, point_of_noise
from attributary.tables.spreadsheet import MERGED, NOTES, TITLE
from attributary.tables.table_columns import (
    arrow_table,
    column,
    is_text_type,
    mark,
    texts_of,
    with_cells,
    with_coded,
    words_of,
)
from attributary.tables.table_writer import OF_SOURCE
from attributary.tables.text_form import dialect
from attributary.tables.total_words import reads_as_total, without_subtotals
from attributary.tree import Tree
from attributary.tree.match import with_missing
from attributary.tree.paths import refused
from attributary.types import Arrow, Bools, Cells, Floats, Frame, Ints

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

    table: Arrow  # one row per node; cells that mark totals are empty
    path: str  # what messages call it
    tree: Tree  # node i is row i; nodes without a row come last, and after them leaves for rows that are missing
    levels: tuple[str, ...]  # top to bottom
    value: str
    figures: Floats  # nan where a cell is empty, the middle of its bound where it was suppressed
    extra: Floats  # what a suppressed cell adds to the variance of its noise; inf where it was not measured
    totals: tuple[str, ...] = ()  # labels that mark totals
    notes: tuple[str, ...] = ()  # what was recognised, in words
    incomplete: tuple[int, ...] = ()  # nodes whose families lack rows
    user: Arrow = None  # the table as it is written: with the labels of totals, and figures as texts
    pivot: "Pivot | None" = None  # which the rows are the cells of
    decimal: str = "."
    margin: "TableForm | None" = None  # rows of totals that are no nodes of the tree: a second breakdown
    second: bool = False  # whether this is one of several breakdowns, whose noise is not stated by level
    rows: Ints | None = None  # which rows of the user's table these are, where there is a margin

    @property
    def called(self) -> str:
        """What its figures are called."""
        return self.value if self.pivot is None else self.pivot.called

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
    frame: Frame,
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
    second: bool = False,
    path: str = "the table",
) -> TableForm:
    """What a table holds: its levels, its figures, its totals and its suppressed cells.

    `amounts` are columns of numbers besides the figures, such as their variance. `suppressed` are texts such as <5,
    `empty` says what empty figures are (unmeasured or zero), `missing` the same of missing rows (or which nodes lack
    some), `decimal` is the decimal sign, and `wide` names the level that the columns of a pivot table are labels of.
    `second` says that the table has one of several breakdowns.
    """
    totals, suppressed = texts_of(totals), texts_of(suppressed)
    table, notes, source = _source(mark(arrow_table(frame)))  # a column of marks is not about nodes
    _refuse_estimates(table, value, path)
    spread, pivot = wide_columns(table, levels, value, wide, amounts), None
    subtotals = list[str]()
    if spread is not None:
        users = table
        if not no_totals:
            table, subtotals = without_subtotals(table, spread.levels)
        marks = [] if no_totals else [*totals, *total_labels(table, spread.levels)]
        if levels is None:
            merged = merged_levels(source, spread.levels)
            names = merged or _levels(table, spread.levels, totals, path, suppressed, no_totals)[0]
            spread = replace(spread, levels=tuple(names))
            notes.append(f"levels: {' > '.join((*spread.levels, spread.level))}")
        words = words_of(table)
        ends = [path_ends(table, name, marks) for name in spread.levels]
        depth = np.where(np.any(ends, 0), np.argmax(ends, 0), len(ends)) if ends else np.zeros(table.num_rows)
        called = value if value and value not in table.column_names else _named_by_title(source)
        if re.search("[,>]", called):
            raise InputError(f"{shown(path)}: what figures are called has no comma and no >; got {called[:LONGEST]!r}")
        pivot = Pivot(table, spread, depth.astype(np.int64), called, users)
        table, levels = long_table(pivot, path)
        table, value = mark(table, words), FIGURE
        notes.append(str(spread))
        path, fill = f"{path}, one row per cell", True  # there is no place for rows above
    grouping = grouping_columns(table)
    table, null_notes = null_labels(table, grouping, path)
    roles = {*grouping.values(), *amounts}
    if value is None:
        value = value_column(table, {*(levels or ()), *roles}, path, suppressed)
        notes.append(f"figures: column {value}")
    user, likely = table, decimal_sign(column(table, value, path))
    if pivot is None:
        names = [name for name in levels or table.column_names if name in table.column_names and name != value]
        table = with_coded(table, {*names} - {*roles})
    if not no_totals and pivot is None:
        table, subtotals = without_subtotals(table, names)
    if subtotals:
        more_alike = f" ({len(subtotals) - 1:,} more alike)" * (len(subtotals) > 1)
        notes.append(f"{subtotals[0]} is the total of the rows that it names{more_alike}")
    table, figures, extra, more = figure_column(table, value, path, suppressed, empty, decimal)
    notes += more
    if value == FIGURE and any(more):  # where a report looks for figures, they are numbers
        table = with_cells(table, value, figures)
        user = with_cells(user, value, figures)
    for name in amounts:
        if name in table.column_names and name != value:
            table, note = plain_numbers(table, name, path, decimal, likely or point_of_noise(column(table, name, path)))
            notes.append(note)
    notes += null_notes
    tree, marks = None, list[str]()
    if levels is None:
        rest = [name for name in table.column_names if name not in {value, *roles, *ADDED}]
        levels, tree = _levels(table, rest, totals, path, suppressed, no_totals)
        notes.append(f"levels: {' > '.join(levels)}")
    names = level_columns(table, levels, path).column_names
    labels = [] if no_totals else [*totals, *total_labels(table, names)]
    gaps = gap_rows(table, names, labels)
    every, of_user, of_figures = table, user, (figures, extra)
    if gaps.any():
        rest = pa.array(~gaps)
        table, user, figures, extra = table.filter(rest), user.filter(rest), figures[~gaps], extra[~gaps]
        totals = [label for label in totals if marks_totals(table, names, label)]
    if not no_totals and not totals:
        marks = total_labels(table, names)
    if marks:
        ends = [path_ends(table, name, marks) for name in names]
        if tree is None and all((above <= below).all() for above, below in pairwise(ends)):
            with suppress(ValueError):  # what is wrong is said of the table as it is
                tree = _tree(table, names, marks, path, fill=True, totals=None)
        if tree is not None and _are_sums(tree, figures):
            notes += [f"{label} marks totals: its figures are near the sums of the rows beside it" for label in marks]
        else:
            tree, marks = None, []
    if tree is None or totals or (len(tree) > table.num_rows and not fill):
        marks = marks or list(totals)
        tree = _tree(table, names, marks, path, fill, totals=None if no_totals else ())
    marked = without_totals(table, names, marks, path)
    said = tuple(note for note in notes if note)
    form = TableForm(
        *(marked, path, tree, tuple(names), value, figures, extra, tuple(marks), said),
        user=user.replace_schema_metadata({**(user.schema.metadata or {}), **source}),
        pivot=pivot,
        decimal=decimal or likely or ".",
        second=second,
    )
    if gaps.any():
        cut = pa.array(gaps)
        other = replace(form, table=every.filter(cut), user=of_user.filter(cut), rows=np.flatnonzero(gaps))
        figures, extra = (each[gaps] for each in of_figures)
        margin = _margin_form(form, replace(other, figures=figures, extra=extra), labels)
        if margin is None and pivot is None:
            _tree(every, names, [*marks, *labels], path, fill, totals=())  # which says what is wrong
        form = replace(form, margin=margin, rows=np.flatnonzero(~gaps), totals=tuple(dict.fromkeys([*marks, *labels])))
    return form.with_missing(lack_labels(tree, missing))


def _margin_form(form: TableForm, rows: TableForm, marks: Collection[str]) -> TableForm | None:
    """Rows of totals that are no nodes of the tree, as a breakdown of their own; None if they are far from the sums."""
    leaves = form.tree.leaves
    leaves = leaves[leaves < form.table.num_rows]
    table = rows.table
    for name in form.levels:
        ends = pa.array(path_ends(table, name, marks))
        table = with_cells(table, name, pc.if_else(ends, None, column(table, name, "")))
    tree = margin_tree(table, form.levels, form.table.take(leaves), form.path)
    with suppress(InputError):  # said where they are denoised
        figures = np.pad(form.figures, (0, len(form.tree) - len(form.figures)))
        below = margin_sums(form.tree, tree, sums_of_leaves(form.tree, form.table, tree, form.path), figures)
        known = np.isfinite(rows.figures) & np.isfinite(below[: len(rows.figures)])
        if not NEAR[0] < rows.figures[known].sum() / (below[: len(known)][known].sum() or np.nan) < NEAR[1]:
            return None
    path = f"{form.path}, totals by {tree.attributes[0]}"
    return replace(rows, table=table, tree=tree, levels=tuple(tree.attributes), path=path, second=True)


def _refuse_estimates(table: Arrow, value: str | None, path: str) -> None:
    """Asks whether a table that was denoised is meant to be denoised once more."""
    written = written_form(table.column_names)
    if written is None or value is not None:
        return
    if PIVOT in (table.schema.metadata or {}):
        rule = f"{shown(path)} has estimates already, which a report shows"
        raise InputError(f"{rule}; denoise the pivot that they were made of")
    stated = json.loads((table.schema.metadata or {}).get(LEVELS.encode(), b"[]")) or level_names(table)
    others = [name for name in table.column_names if name not in {*stated, *ADDED, LEVELS, MEASURE}]
    value = next((name for name in others if is_numeric(column(table, name, path))), MEASURED[0])
    levels = {"levels": ",".join(stated)} if stated else {}
    question = f"{shown(path)} has estimates already, which a report shows. Denoise the figures once more?"
    raise QuestionError(question, value=value, **levels, prefix="again_")


def _source(table: Arrow) -> tuple[Arrow, list[str], dict[bytes, bytes]]:
    """The table without what it notes of the file that it is from, which in words, and as it was noted."""
    metadata = table.schema.metadata or {}
    source = {key: value for key, value in metadata.items() if key in OF_SOURCE}
    form, notes = dialect(table, ""), source.get(NOTES, b"").decode().split("\n")
    notes += [f"cells are separated by {form.separator!r}"] if form.separator else []
    titled = form.above > form.stated
    notes += [f"names of columns: line {form.above + 1} (what is above is a title)"] if titled else []
    notes += ["text is in the encoding of Western Windows (cp1252)"] if form.encoding == "cp1252" else []
    others = {key: value for key, value in metadata.items() if key not in source}
    return (table.replace_schema_metadata(others) if source else table), notes, source


def _named_by_title(source: dict[bytes, bytes]) -> str:
    """What the title above a sheet says that the figures are, as in Visits by month."""
    title, word = source.get(TITLE, b"").decode(), r"[^\W\d_]+"
    named = re.match(rf"({word}(?: {word})?)(?: (?:by|per|nach|je|pro|par|por) .*)?$", title)
    return named[1] if named else UNNAMED


# Levels.


def merged_levels(source: dict[bytes, bytes], names: Sequence[str]) -> list[str]:
    """The columns of a sheet that have merged cells, and the only other one below them; none where it is not clear."""
    merged = [name for name in json.loads(source.get(MERGED, b"[]")) if name in names]
    others = [name for name in names if name not in merged]
    return [*merged, *others] if merged and len(others) == 1 else []


def _levels(
    table: Arrow, names: Sequence[str], totals: Collection[str], path: str, suppressed: Collection[str], no_totals: bool
) -> tuple[list[str], Tree]:
    """The columns that name nodes, top to bottom, and the tree that they make.

    All columns, or else all but numbers that are in every row, or else all but numbers: a second column of figures.
    """
    empty, noise = {name for name in names if path_ends(table, name, ()).all()}, noise_columns(table.column_names)
    free = [name for name in names[:KEEP] if name not in empty | noise]
    cells = {name: column(table, name, path) for name in free}
    numbers = {name for name in free if is_numeric(cells[name], suppressed) and not _coded(cells[name])}
    everywhere = {name for name in numbers if not path_ends(table, name, ()).any()}
    refusals = list[InputError]()

    def made(some: list[str], crossed: bool = False) -> tuple[list[str], Tree] | None:
        """The columns in their order and the tree, if all nodes have their row and the last level all leaves.

        With `crossed`, the columns are in order, and other rows are sums by the last of them.
        """
        marks = [*totals, *([] if no_totals else total_labels(table, some))]
        gaps = gap_rows(table, some, marks) if crossed and len(some) > 1 else np.zeros(table.num_rows, bool)
        if crossed and not gaps.any():
            return None
        rows = table.filter(pa.array(~gaps)) if crossed else table
        ends = {name: path_ends(rows, name, marks) for name in some}
        ordered = some if crossed else sorted(some, key=lambda name: int(ends[name].sum()))
        if not some or not all((ends[a] <= ends[b]).all() and (ends[a] < ends[b]).any() for a, b in pairwise(ordered)):
            return None
        try:
            there = [label for label in marks if marks_totals(rows, some, label)]
            tree = _tree(rows, ordered, there, path, fill=True, totals=None if no_totals or marks else ())
        except InputError as error:
            refusals.extend([] if crossed else [error])
            return None
        whole = len(tree) == rows.num_rows and bool((tree.level[tree.is_leaf] == tree.depth - 1).all())
        return (ordered, tree) if whole else None

    for others in (set[str](), everywhere, numbers) if len(names) <= KEEP else ():
        some = [name for name in free if name not in others]
        recognised = made(some) or made(some, crossed=True)
        if recognised is not None:
            return recognised
    if refusals:
        raise refusals[0]
    texts = [name for name in free if name not in numbers] or free
    likely = (made([name for name in texts if name != other]) for other in reversed(texts))
    hint = next((one[0] for one in likely if one is not None), texts) if 2 < len(texts) < KEEP else texts
    question = f"{shown(path)}: which columns are the hierarchy, top to bottom?"
    raise QuestionError(question, levels=",".join(hint)[:LONGEST] or "region,store")


def _coded(cells: Cells) -> bool:
    """Whether texts are numbers of something, as 0012 is of a store."""
    return is_text_type(cells.type) and bool(pc.any(pc.match_substring_regex(cells, r"^0\d+$")).as_py())


def _tree(
    table: Arrow, names: Sequence[str], marks: Collection[str], path: str, fill: bool, totals: Collection[str] | None
) -> Tree:
    """The tree that the rows name, where these labels mark totals."""
    marked = without_totals(table, list(names), marks, path)
    with refused(path):
        return Tree.from_paths(level_columns(marked, names, path), list(names), fill=fill, totals=totals)


# Totals.


def _are_sums(tree: Tree, figures: Floats) -> bool:
    """Whether the figures of each level are near the sums of those below them, and some are."""
    several = False
    figure = tree.to_level_order(np.append(figures, np.full(len(tree) - len(figures), np.nan)))
    for level in reversed(range(1, tree.depth)):  # what has no figure is the sum of what is below it
        here, up = tree.slice(level), tree.slice(level - 1)
        family, sums = tree.family[here], figure[up].copy()
        below = np.bincount(family, np.nan_to_num(figure[here]), len(tree))[up]
        stated = (np.bincount(family, minlength=len(tree))[up] > 1) & np.isfinite(sums)
        if stated.any() and not NEAR[0] < sums[stated].sum() / (below[stated].sum() or np.nan) < NEAR[1]:
            return False
        several |= bool(stated.any())
        figure[up] = np.where(np.isnan(sums), below, sums)
    return several


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
    table: Arrow, levels: Sequence[str] | None, value: str | None, named: str | None, others: Collection[str]
) -> WideColumns | None:
    """The columns of a pivot: two or more whose names are dates or the like, or with `named` all numbers.

    Other columns of numbers beside or after such dates may be of the pivot, too (months in another language), and are
    refused unless it is `named`.
    """
    if value in table.column_names and named is None:
        return None
    free = [name for name in table.column_names if name not in {*(levels or ()), *others}]
    period = next((kind for kind in PERIODS if sum(_is_one(name, kind) for name in free) > 1), None)
    if named is None and period is None:
        return None
    level = named or period or ""
    if {level, FIGURE} & set(table.column_names):
        raise InputError(f"a wide table becomes one with columns {level} and {FIGURE}, and has one of them already")
    dated = [name for name in free if period and _is_one(name, period)]
    if not dated and levels is None:
        raise InputError(f"the columns of {named} do not look like dates: name the others with `levels`")
    margins = [name for name in free if reads_as_total(pa.array([name]), "row")[0]]
    if len(margins) > 1:
        raise InputError(f"a wide table has one column of totals; got {' and '.join(margins[:2])}: leave out one")
    first = free.index(dated[0]) if dated and (named is None or levels is None) else 0
    while levels is not None and first and _has_numbers(table, free[first - 1]):
        first -= 1
    labels = [name for name in free[first:] if name in dated or (name not in margins and _has_numbers(table, name))]
    strays = [name for name in labels if name not in dated]
    if strays and named is None:
        rule = f"columns {dated[0]} to {dated[-1]} look like those of a pivot by {level}, and beside them"
        remedy = f"say that all of them are with `wide={level}`, or leave the others out of the table"
        raise InputError(f"{rule} {strays[0]} has numbers, too: {remedy}")
    rest = tuple(name for name in free if name not in {*labels, *margins})
    dropped = () if levels is None else rest
    return WideColumns(level, tuple(labels), margins[0] if margins else None, tuple(levels or rest), dropped)


def _has_numbers(table: Arrow, name: str) -> bool:
    cells = column(table, name, "")
    if not is_text_type(cells.type):
        return not pa.types.is_temporal(cells.type)
    return bool(pc.any(pc.match_substring_regex(pc.utf8_trim_whitespace(cells), NUMBER)).as_py())


def _is_one(name: str, period: str) -> bool:
    return re.fullmatch(PERIODS[period], without_accents(name.strip())) is not None


class Pivot(NamedTuple):
    """A wide table."""

    table: Arrow
    wide: WideColumns
    depth: Ints  # how many of its levels each row names
    called: str  # what its figures are
    user: Arrow  # the table as the user has it, in which the row of North may be called North Total

    @property
    def inner(self) -> Bools:
        """Which rows are not totals."""
        whole: Bools = self.depth == len(self.wide.levels)
        return whole

    def cells(self) -> Iterator[tuple[str, Ints, int]]:
        """Each column with its rows that are nodes, and the number of the first of these nodes."""
        first = 0
        for name in (*([self.wide.margin] if self.wide.margin else []), *self.wide.columns):
            rows = np.flatnonzero(self.inner | (name == self.wide.margin))
            yield name, rows, first
            first += len(rows)


def long_table(pivot: Pivot, path: str) -> tuple[Arrow, list[str]]:
    """One row per cell, and its levels; cells in rows of totals come last, but for those of the margin."""
    table, wide, inner = pivot.table, pivot.wide, pivot.inner
    if not wide.levels or not inner.any():
        raise InputError(f"{shown(path)}: a wide table needs columns that name its rows, and rows that are not totals")
    parts, totals = [], np.flatnonzero(~inner)
    for name, rows in [*((name, rows) for name, rows, _ in pivot.cells()), *((name, totals) for name in wide.columns)]:
        source = table.take(rows)
        made = {each: source.column(each) for each in wide.levels}
        made[wide.level] = pa.array([None if name == wide.margin else name] * len(rows), pa.string())
        made[FIGURE] = column(source, name, path).cast(pa.string())
        parts.append(pa.table(made))
    return pa.concat_tables(parts, promote_options="permissive"), [*wide.levels, wide.level]
