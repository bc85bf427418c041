"""Download: the rows of a view as CSV that a spreadsheet shows and does not run."""

import csv
import io
from collections.abc import Iterator
from math import isfinite, isnan
from typing import Any

from attributary.explore.change import chance, verdict
from attributary.explore.look import Look
from attributary.explore.rows import columns
from attributary.explore.view import View
from attributary.tables.not_private import NAME, together

RUN = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")  # what a spreadsheet takes for a formula


def as_csv(look: Look, view: View) -> Iterator[str]:
    """All rows of a view, in its order: labels, figures, relative error and, of two tables, the change."""
    store = look.store
    heads = [*(["measure"] if store.now.measure else []), *(store.now.attributes or ("node",)), *store.figures, "error"]
    if store.before is not None:
        heads += ["before", "variance_before", "change", "standard_error", "z", "chance", "verdict"]
    names = columns(store)
    words = together(*(table.not_private for table in store.tables))
    heads += [NAME] if words else []
    yield _lines([[_label(head) for head in heads]])
    for block in look.every(view):
        rows = (_cells(look, dict(zip(names, cells, strict=True))) for cells in block)
        yield _lines([[*row, words] if words else row for row in rows])


def _cells(look: Look, row: dict[str, Any]) -> list[Any]:
    store = look.store
    labels = [_label(row[f"a{i}"]) for i in range(len(store.now.attributes))] or [row["node"]]
    error = None if row["estimate"] is None else row["variance"] ** 0.5 / max(look.tau, row["estimate"])
    measure = [_label(store.now.measure)] if store.now.measure else []
    cells = measure + labels + [_number(row[name]) for name in store.figures] + [_number(error)]
    if store.before is None:
        return cells
    z = row["z"]
    words = "gone" if row["node"] is None else "new" if row["earlier"] is None else verdict(z)
    compared = [row["old"], row["old_variance"], row["change"], row["spread"], z, None if z is None else chance(z)]
    return [*cells, *map(_number, compared), words]


def _label(text: str | None) -> str:
    """A label; one that a spreadsheet would run gets an apostrophe before it, which says that it is text."""
    return "" if text is None else "'" + text if text.startswith(RUN) else text


def _number(x: float | None) -> str:
    if x is None or isnan(x):
        return ""
    return repr(x) if isfinite(x) else "inf" if x > 0 else "-inf"


def _lines(rows: list[list[Any]]) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="\r\n").writerows(rows)
    return text.getvalue()
