"""column_roles: which columns of a user's table hold figures, their noise, or GROUPING() of others."""

import re
from collections.abc import Collection, Sequence
from itertools import product

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from attributary.errors import InputError, QuestionError
from attributary.pipeline.level_columns import path_ends, total_labels
from attributary.tables import place, shown
from attributary.tables.as_written import ADDED
from attributary.tables.number_form import is_numeric
from attributary.tables.table_columns import column, floats, is_text_type, with_cells
from attributary.types import Arrow, Cells

NULL = "NULL"  # the label of rows that a query grouped by null
FIGURES = (
    *("noisy", "noisy_count", "count", "counts", "value", "conversions", "users", "visits", "visitors", "orders"),
    *("clicks", "impressions", "sessions", "events", "n", "cnt", "dp_count", "num", "total_count", "reach"),
)  # usual names of a column of figures
NOISE = ("variance", "noise_variance", "var", "std", "stddev", "sd", "sigma", "scale", "epsilon")  # and of its noise
BOUNDS = (
    *(("low", "high"), ("lower", "upper"), ("lower", "higher"), ("lo", "hi"), ("min", "max"), ("lcl", "ucl")),
    *(("untere", "obere"), ("2.5", "97.5"), ("2,5", "97,5")),
)  # in names of columns between which the true count lies
LONGEST = 200  # of names in a message
KEEP = 50  # columns that a message or a guess looks at


def bound_pairs(names: Sequence[str]) -> list[tuple[str, str]]:
    """Pairs of columns that are called low and high or the like, and else the same."""
    there, pairs = {name.lower(): name for name in names}, dict[tuple[str, str], None]()
    for (low, high), name in product(BOUNDS, names):
        other = re.sub(rf"(?<![^\W_]){re.escape(low)}(?![^\W_])", high, name.lower())
        if other != name.lower() and other in there:
            pairs[name, there[other]] = None
    return list(pairs)


def noise_columns(names: Sequence[str]) -> set[str]:
    return {name for name in names if name.lower() in NOISE} | {name for pair in bound_pairs(names) for name in pair}


def value_column(table: Arrow, others: Collection[str], path: str, suppressed: Collection[str]) -> str:
    """The column of figures: the only one with a usual name, or the only one of numbers."""
    noise = noise_columns(table.column_names[:KEEP])
    free = [name for name in table.column_names[:KEEP] if name not in {*others, *ADDED, *noise}]
    numeric = [name for name in free if is_numeric(column(table, name, path), suppressed)]
    usual = [name for name in numeric if name.lower() in FIGURES]
    for some in (usual, numeric):
        if len(some) == 1:
            return str(some[0])
    for name in () if numeric else free:
        text = _odd_text(column(table, name, path), suppressed)
        if text:
            question = f"{shown(path)}: what is {text!r} in column {name}, a figure that was suppressed?"
            raise QuestionError(question, value=name, suppressed=text)
    if not numeric:
        remedy = "give their column with `value`, and texts that stand for suppressed figures with `suppressed`"
        raise InputError(f"{shown(path)}: no column has numbers only, so that none can be the figures; {remedy}")
    words = " or ".join(name[:LONGEST] for name in (usual or numeric)[:5])
    several = ", or several of them" if len(numeric) > 1 else ""
    pivot = "; or are they one figure in several columns (`wide=month`)" if len(numeric) > 2 and not usual else ""
    question = f"{shown(path)}: which column has the figures, {words}{several}{pivot}?"
    raise QuestionError(question, value=(usual or numeric)[0][:LONGEST])


def _odd_text(cells: Cells, suppressed: Collection[str]) -> str:
    """The only text in a column that has numbers otherwise, besides those that are known; nothing if there is none."""
    texts = pc.value_counts(pc.utf8_trim_whitespace(cells).drop_null()) if is_text_type(cells.type) else []
    each = [(one["values"].as_py(), one["counts"].as_py()) for one in texts[: KEEP * KEEP]]
    odd = [(text, many) for text, many in each if text not in suppressed and not re.search(r"\d", text) and text]
    text = odd[0][0] if len(odd) == 1 and odd[0][1] < len(cells) / 2 else ""
    return text if text and is_numeric(cells, [*suppressed, text]) else ""


def grouping_columns(table: Arrow) -> dict[str, str]:
    """The columns that hold GROUPING() of others, by these others."""
    by_letters = {re.sub(r"[\W_]", "", name.lower()): name for name in table.column_names}
    flags = {of.removeprefix("grouping"): name for of, name in by_letters.items() if of.startswith("grouping")}
    return {by_letters[of]: flag for of, flag in flags.items() if of and of in by_letters}


def null_labels(table: Arrow, grouping: dict[str, str], path: str) -> tuple[Arrow, list[str]]:
    """The table with a label where GROUPING() says that an empty cell is a group of its own."""
    notes = []
    for name, flag in grouping.items():
        flags, ends = floats(table, flag, path), path_ends(table, name, ())
        odd = ~np.isin(flags, (0, 1))
        if odd.any():
            raise InputError(f"{place(path, int(np.argmax(odd)))}: {flag} is 0 or 1; got {flags[odd][0]:g}")
        label = (flags == 1) & ~ends & ~path_ends(table, name, total_labels(table, [name]))
        if label.any():
            row = int(np.argmax(label))
            rule = "is 1, which says that the row is a total"
            raise InputError(f"{place(path, row)}: {flag} {rule}, but {name} is not empty")
        null = (flags == 0) & ends
        if null.any():
            cells = column(table, name, path)
            is_nan = pc.is_null(cells, nan_is_null=pa.types.is_floating(cells.type))  # no label in text, either
            cells = pc.if_else(is_nan, None, cells).cast(pa.string())
            if pc.any(pc.equal(cells, NULL)).as_py():
                raise InputError(f"{shown(path)}: {name} has the label {NULL} and groups of null; rename the label")
            table = with_cells(table, name, pc.if_else(pa.array(null), NULL, cells))
            notes.append(f"{int(null.sum()):,} empty cells of {name} are a group of their own ({flag} is 0): {NULL}")
    return table, notes
