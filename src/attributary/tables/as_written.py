"""As written: a table that `denoise --table` wrote in the shape of the user's, as rows of nodes and figures.

That shape has three forms: columns of figures behind the user's; such columns for each of several figures,
`visits_estimate` and `revenue_estimate`; and a pivot, in which `W1` is an estimate and `W1_low` stands behind. Labels
of totals and decimal commas are the user's, too. Readers see one form: a row for each node, or for each node and
measure.
"""

import json
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

from attributary.arrow import pa, pc
from attributary.tables.number_form import BELOW as BOUND
from attributary.tables.number_form import plain_numbers
from attributary.tables.table_columns import is_text_type, with_cells
from attributary.tables.total_words import without_subtotals
from attributary.types import Arrow

MEASURED = ("noisy", "noise_variance")
NEEDED = ("estimate", "variance", "low", "high")
ADDED = (*MEASURED, *NEEDED, "correction", "from_prior", "zero_probability")
LEVELS, TOTALS, BELOW = "levels", b"totals", " > "  # which columns name a row's node, and what is between them
MEASURE = "measure"
CALLED = ", figures: "  # before what the cells of a pivot are called
TOTAL = ", total: "  # before the name of the column that holds the total of each row of a pivot
BEHIND = ("low", "high", "variance")  # what stands behind each estimate of a pivot
BESIDE = b"beside"  # in the metadata: what other breakdown had a part in the estimates
FIGURE = b"figure"  # in the metadata: what the figures are called
UNNAMED = "figures"  # what those of a pivot without a title are called
PIVOT = b"pivot"  # in the metadata of a pivot's cells: sums above its rows are not in the table


class WrittenForm(NamedTuple):
    """The form of a table, by its columns."""

    figures: tuple[str, ...] = ()  # the names of several figures, or the columns of a pivot; none in a plain table
    pivot: bool = False


def written_form(names: Sequence[str]) -> WrittenForm | None:
    """How a table with these columns was written; None where it does not look like ours."""
    there = set(names)
    if set(NEEDED) <= there:
        return WrittenForm()
    several = tuple(name for name in names if all(f"{name}_{one}" in there for one in NEEDED))
    if several:
        return WrittenForm(several)
    pivot = tuple(name for name in names if all(f"{name}_{one}" in there for one in BEHIND))
    return WrittenForm(pivot, True) if pivot and LEVELS in there else None


def names_of_nodes(names: Sequence[str]) -> list[str]:
    """The columns that `rows_of_nodes` gives a table with these."""
    form = written_form(names)
    if form is None or not form.figures:
        return list(names)
    behind = {f"{figure}_{name}" for figure in form.figures for name in ADDED}
    kept = [name for name in names if name not in behind and (name not in form.figures or not form.pivot)]
    return [*([] if form.pivot else [MEASURE]), *kept, *ADDED[: len(MEASURED) + len(NEEDED)]]


def rows_of_nodes(table: Arrow) -> Arrow:
    """The table with one row for each node and measure, its figures numbers and totals without labels."""
    form = written_form(table.column_names)
    if form is None:
        return table
    table = _without_margin(_without_labels_of_totals(_numbers(table, form)))
    if form.pivot:
        return _unpivoted(table, form.figures)
    return _stacked(table, form.figures) if form.figures else table


def _numbers(table: Arrow, form: WrittenForm) -> Arrow:
    """The table with numbers where texts have decimal commas, but for labels; a bound such as <5 is no number."""
    labels = set(level_names(table))
    for name in table.column_names:
        if is_text_type(table.column(name).type) and (name in ADDED or (labels and name not in {*labels, LEVELS})):
            cells = table.column(name)
            bound = pc.match_substring_regex(cells, f"^{BOUND.pattern}$")
            try:
                table, _ = plain_numbers(with_cells(table, name, pc.if_else(bound, None, cells)), name, "")
            except ValueError:  # 1,234 alone, in a column of the user's
                continue
    return table


def level_names(table: Arrow) -> list[str]:
    """The levels that a column states, top to bottom."""
    if LEVELS not in table.column_names or not is_text_type(table.column(LEVELS).type):
        return []
    return max((str(text or "") for text in pc.unique(table.column(LEVELS)).to_pylist()), key=len).split(BELOW)


def _without_labels_of_totals(table: Arrow) -> Arrow:
    """The table with empty labels below each row's own level."""
    metadata = table.schema.metadata or {}
    for label in json.loads(metadata.get(TOTALS, b"[]")):
        for name in json.loads(metadata.get(LEVELS.encode(), b"[]")):
            cells = table.column(name)
            if is_text_type(cells.type):
                table = with_cells(
                    table, name, pc.if_else(pc.equal(pc.utf8_trim_whitespace(cells), label), None, cells)
                )
    for i, name in enumerate(level_names(table)):
        if name in table.column_names and is_text_type(table.column(name).type):
            depth = [len(text.split(BELOW)) if text else 0 for text in table.column(LEVELS).to_pylist()]
            below = pa.array([each <= i for each in depth])
            table = with_cells(table, name, pc.if_else(below, None, table.column(name)))
    names = json.loads(metadata.get(LEVELS.encode(), b"[]")) or level_names(table)
    return without_subtotals(table, [name for name in names if name in table.column_names])[0]


def _without_margin(table: Arrow) -> Arrow:
    """The table without rows of other breakdowns, which were denoised together with these."""
    metadata = table.schema.metadata or {}
    levels = level_names(table)
    if levels and BESIDE in metadata:
        levels = json.loads(metadata.get(LEVELS.encode(), b"[]")) or levels
    if levels and not levels[-1].partition(TOTAL)[2]:
        paths = [str(text or "").split(BELOW) if text else [] for text in table.column(LEVELS).to_pylist()]
        other = [path != levels[: len(path)] for path in paths]
        if any(other):
            beside = dict.fromkeys(tuple(path) for path, is_other in zip(paths, other, strict=True) if is_other)
            by = [path for path in beside if not any(path == each[: len(path)] for each in beside if each != path)]
            table = table.replace_schema_metadata({**metadata, BESIDE: " and ".join(map(BELOW.join, by)).encode()})
            table = table.filter(pc.invert(pa.array(other)))
        return table
    names = json.loads(metadata.get(LEVELS.encode(), b"[]")) if BESIDE in metadata else []
    for above, name in pairwise(names):
        table = table.filter(pc.or_(pc.is_valid(table.column(above)), pc.is_null(table.column(name))))
    return table


def _stacked(table: Arrow, figures: Sequence[str]) -> Arrow:
    """The figures one below the other, told apart by a first column."""
    behind = {f"{figure}_{name}" for figure in figures for name in ADDED}
    users, parts = table.drop_columns([name for name in table.column_names if name in behind]), []
    for figure in figures:
        part = users.add_column(0, MEASURE, pa.array([figure] * len(users), pa.string()))
        for name in ADDED:
            if f"{figure}_{name}" in table.column_names:
                part = part.append_column(name, table.column(f"{figure}_{name}"))
        parts.append(part)
    return pa.concat_tables(parts, promote_options="permissive")


def _unpivoted(table: Arrow, columns: Sequence[str]) -> Arrow:
    """A row for each cell: the total of a row is the figure of its own node, and a row of totals has no other cell."""
    levels, stated = level_names(table), table.column(LEVELS)
    whole = pc.equal(stated, max(stated.unique().to_pylist(), key=lambda text: len(text or "")))
    levels[-1], _, margin = levels[-1].partition(TOTAL)
    levels[-1], _, called = levels[-1].partition(CALLED)
    parts = []
    for column in columns:
        rows = table if column == margin else table.filter(whole)
        made = {name: rows.column(name) for name in levels[:-1]}
        made[levels[-1]] = pa.array([None if column == margin else column] * len(rows), pa.string())
        for name in ADDED:
            source = column if name == "estimate" else f"{column}_{name}"
            if source in table.column_names:
                made[name] = rows.column(source)
        made[LEVELS] = pa.array([BELOW.join(levels)] * len(rows), pa.string())
        parts.append(pa.table(made))
    metadata, rest = (
        {**(table.schema.metadata or {}), PIVOT: b"yes", FIGURE: (called or UNNAMED).encode()},
        table.filter(pc.invert(pc.fill_null(whole, False))),
    )
    measured = (f"{name}_{MEASURED[0]}" for name in columns if name != margin)
    if any(pc.count(rest.column(name)).as_py() for name in measured if name in table.column_names):
        metadata[BESIDE] = levels[-1].encode()  # rows of totals were measured
    return pa.concat_tables(parts, promote_options="permissive").replace_schema_metadata(metadata)
