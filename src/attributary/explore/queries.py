"""Queries: answers to what a page asks of a store, as plain values or as CSV."""

import csv
import io
from collections.abc import Iterator
from math import inf, isfinite, isnan
from typing import Any

import numpy as np

from attributary import rmsre
from attributary.errors import InputError
from attributary.estimates import FIGURES, thresholds
from attributary.explore import sql
from attributary.explore.estimate_store import CHANGES, EstimateStore
from attributary.explore.sql import PAGE, Place, SqlQuery, View, columns
from attributary.measurements import Measurements
from attributary.tables.table_columns import NAME

BLOCK = 2048  # rows that are fetched at a time
RUN = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")  # what a spreadsheet takes for a formula


Row = dict[str, Any]


class Queries:
    """One cursor on a store, for one thread; closing it, or interrupting it from another thread, ends its query."""

    def __init__(self, store: EstimateStore, tau: float, shape: str) -> None:
        self.store, self.tau, self.shape = store, tau, shape
        self.cursor = store.connection.cursor()

    def page(self, view: View) -> dict[str, Any]:
        """The rows of a page, and whether there are more; how many there are in all, where that is known."""
        rows = self._fetch(sql.rows(self.store, view, self.tau, self._place(view)))
        roots = self.store.now.forest.sizes[0]
        of = None if view.flat else roots if view.node is None else int(self.store.now.forest.children[view.node])
        return {"rows": self._shown(rows[:PAGE], view.flat), "more": len(rows) > PAGE, "page": view.page, "of": of}

    def node(self, node: int) -> Row:
        """A node with its path."""
        return self._shown(self._fetch(sql.row(self.store, node)), True)[0]

    def count(self, view: View) -> int:
        """How many rows a view has in all."""
        (number,) = self._fetch(sql.count(self.store, view, self._place(view)))[0]
        return int(number)

    def every(self, view: View) -> Iterator[list[tuple[Any, ...]]]:
        """All rows of a view, block by block, as `rows.columns` names their cells."""
        query = sql.rows(self.store, view, self.tau, self._place(view), every=True)
        self.cursor.execute(query.sql, query.values)
        while block := self.cursor.fetchmany(BLOCK):
            yield block

    def _fetch(self, query: SqlQuery) -> list[tuple[Any, ...]]:
        rows: list[tuple[Any, ...]] = self.cursor.execute(query.sql, query.values).fetchall()
        return rows

    def _place(self, view: View) -> Place:
        """The view's node; its level and labels where rows of any depth are asked for."""
        if view.node is None or not view.flat:
            return Place(view.node, -1, ())
        labels = ", ".join(["level", *(f"a{i}" for i in range(len(self.store.now.attributes)))])
        rows = self._fetch(SqlQuery(f"SELECT {labels} FROM {self.store.view} WHERE node = ?", [view.node]))
        if not rows:
            raise InputError(f"node {view.node} no longer exists; open the file again")
        level, *cells = rows[0]
        return Place(view.node, level, tuple(cells[: level + 1 - int(self.store.now.total)]))

    def _shown(self, rows: list[tuple[Any, ...]], with_path: bool) -> list[Row]:
        """Rows for the page: numbers that JSON knows, and what is derived from them."""
        names, now = sql.columns(self.store), self.store.now
        shown = [dict(zip(names, cells, strict=True)) for cells in rows]
        for row, flag in zip(shown, self._implausible(shown), strict=True):
            row["id"] = str(row["node"])
            row["children"] = int(now.forest.children[row["node"]])
            labels = [row.pop(f"a{i}") for i in range(len(now.attributes))]
            if with_path:
                nodes, names_above = now.forest.above(row["node"]), (["total"] if now.total else []) + labels
                row["path"] = [[str(v), names_above[i] if names_above else f"node {v}"] for i, v in enumerate(nodes)]
            row["implausible"] = flag
            row["error"] = self._error(row)
            for name, value in row.items():
                if isinstance(value, float) and not isfinite(value):
                    row[name] = None
        return shown

    def _error(self, row: Row) -> float | None:
        """The relative error; of a node that is gone, none."""
        return None if row["estimate"] is None else float(rmsre.relative(row["estimate"], row["variance"], self.tau))

    def _implausible(self, shown: list[Row]) -> list[bool]:
        """Whether each correction is one that noise hardly makes, as a report has it."""
        if not shown:
            return []
        columns = {name: np.array([np.nan if r[name] is None else r[name] for r in shown], float) for name in FIGURES}
        variance = np.where(columns["noise_variance"] >= 0, columns["noise_variance"], inf)
        measured = Measurements(columns["noisy"], variance, self.shape)
        beyond = thresholds(measured, self.store.checked.corrections)
        implausible: list[bool] = (np.abs(np.nan_to_num(columns["correction"])) > beyond).tolist()
        return implausible


def as_csv(queries: Queries, view: View) -> Iterator[str]:
    """All rows of a view, in its order: labels, figures, relative error and, of two tables, the change."""
    store = queries.store
    heads = [*(["measure"] if store.now.measure else []), *(store.now.attributes or ("node",)), *store.figures, "error"]
    heads += CHANGES if store.series else ()
    names = columns(store)
    words = store.now.not_private
    heads += [NAME] if words else []
    yield _lines([[_label(head) for head in heads]])
    for block in queries.every(view):
        rows = (_cells(queries, dict(zip(names, cells, strict=True))) for cells in block)
        yield _lines([[*row, words] if words else row for row in rows])


def _cells(queries: Queries, row: dict[str, Any]) -> list[Any]:
    store = queries.store
    labels = [_label(row[f"a{i}"]) for i in range(len(store.now.attributes))] or [row["node"]]
    measure = [_label(store.now.measure)] if store.now.measure else []
    cells = measure + labels + [_number(row[name]) for name in store.figures] + [_number(queries._error(row))]
    return [*cells, *(_number(row[name]) for name in CHANGES[:-1]), row["verdict"]] if store.series else cells


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
