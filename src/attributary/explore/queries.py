"""Queries: answers to what a page asks of a store, as plain values or as CSV."""

import csv
import io
from collections.abc import Iterator
from math import erfc, exp, inf, isfinite, isnan, sqrt
from typing import Any

import numpy as np

from attributary.errors import InputError
from attributary.estimates import FIGURES, thresholds
from attributary.explore import sql
from attributary.explore.estimate_store import EstimateStore
from attributary.explore.sql import ABOVE_ALL, PAGE, Place, SqlQuery, View, columns
from attributary.measurements import Measurements
from attributary.tables.not_private import NAME, together

BLOCK = 2048  # rows that are fetched at a time
SURE, LIKELY = 0.001, 0.05
CHANGED, MAYBE, NOISE = "changed", "probably changed", "could be noise"
RUN = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")  # what a spreadsheet takes for a formula


Row = dict[str, Any]


class Queries:
    """One cursor on a store, for one thread; closing it, or interrupting it from another thread, ends its query."""

    def __init__(self, store: EstimateStore, tau: float, shape: str) -> None:
        self.store, self.tau, self.shape = store, tau, shape
        self.cursor = store.connection.cursor()

    def page(self, view: View) -> dict[str, Any]:
        """The rows of a page, and whether there are more; how many there are in all, where that is known."""
        now, before = self._places(view)
        rows = self._fetch(sql.rows(self.store, view, self.tau, now, before))
        known = not view.flat and self.store.before is None
        roots = self.store.now.forest.sizes[0]
        of = (roots if view.node is None else int(self.store.now.forest.children[view.node])) if known else None
        return {"rows": self._shown(rows[:PAGE], view.flat), "more": len(rows) > PAGE, "page": view.page, "of": of}

    def node(self, view: View) -> Row:
        """The node that a view is of, with its path."""
        now, before = self._places(view)
        rows = self._shown(self._fetch(sql.row(self.store, view, now, before)), True)
        return rows[0]

    def count(self, view: View) -> int:
        """How many rows a view has in all."""
        (number,) = self._fetch(sql.count(self.store, view, *self._places(view)))[0]
        return int(number)

    def every(self, view: View) -> Iterator[list[tuple[Any, ...]]]:
        """All rows of a view, block by block, as `rows.columns` names their cells."""
        query = sql.rows(self.store, view, self.tau, *self._places(view), every=True)
        self.cursor.execute(query.sql, query.values)
        while block := self.cursor.fetchmany(BLOCK):
            yield block

    def _fetch(self, query: SqlQuery) -> list[tuple[Any, ...]]:
        rows: list[tuple[Any, ...]] = self.cursor.execute(query.sql, query.values).fetchall()
        return rows

    def _places(self, view: View) -> tuple[Place | None, Place | None]:
        """The view's node in both tables; None where a table does not have it."""
        if view.node is None:
            return ABOVE_ALL, ABOVE_ALL
        store, (name, other) = self.store, ("before", "now") if view.gone else ("now", "before")
        name, other = store.view(name), store.view(other)
        if not view.flat and store.before is None:
            return Place(view.node, -1, ()), None
        labels = ", ".join(["level", *(f"a{i}" for i in range(len(store.now.attributes)))])
        rows = self._fetch(SqlQuery(f"SELECT {labels} FROM {name} WHERE node = ?", [view.node]))
        if not rows:
            raise InputError(f"node {view.node} no longer exists; open the file again")
        level, *cells = rows[0]
        depth = level + 1 - int(store.now.total)
        here = Place(view.node, level, tuple(cells[:depth]))
        if store.before is None:
            return here, None
        path = " AND ".join(["level = ?", *(f"a{i} = ?" for i in range(depth))])
        there = self._fetch(SqlQuery(f"SELECT node FROM {other} WHERE {path}", [level, *here.labels]))
        twin = Place(there[0][0], level, here.labels) if there else None
        return (twin, here) if view.gone else (here, twin)

    def _shown(self, rows: list[tuple[Any, ...]], with_path: bool) -> list[Row]:
        """Rows for the page: numbers that JSON knows, and what is derived from them."""
        names, store = sql.columns(self.store), self.store
        shown = [dict(zip(names, cells, strict=True)) for cells in rows]
        implausible = self._implausible(shown)
        for row, flag in zip(shown, implausible, strict=True):
            gone = row["node"] is None
            table, number = (store.before, row["earlier"]) if gone else (store.now, row["node"])
            assert table is not None
            row["id"] = f"before-{number}" if gone else str(number)
            row["children"] = int(table.forest.children[number])
            if with_path:
                labels = [row[f"a{i}"] for i in range(len(table.attributes))]
                row["path"] = self._path(table.forest.above(number), labels, gone)
            for i in range(len(table.attributes)):
                del row[f"a{i}"]
            row["implausible"] = flag
            if not gone:
                row["error"] = row["variance"] ** 0.5 / max(self.tau, row["estimate"])
            if store.before is not None:
                row["verdict"] = "gone" if gone else "new" if row["earlier"] is None else verdict(row["z"])
                row["chance"] = None if row["z"] is None else chance(row["z"])
            for name, value in row.items():
                if isinstance(value, float) and not isfinite(value):
                    row[name] = None
        return shown

    def _path(self, nodes: list[int], labels: list[Any], gone: bool) -> list[list[str]]:
        """The nodes from the root down, each with its label."""
        names = (["total"] if self.store.now.total else []) + labels
        before = "before-" * gone
        return [[f"{before}{v}", names[i] if names else f"node {v}"] for i, v in enumerate(nodes)]

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


def chance(z: float) -> float:
    """How often noise alone makes a difference of this many standard errors, √(variance + variance), or more.

    That depends on the noise's shape: 2·Φ(−|z|) if many figures stand behind it, exp(−√2·|z|) if one does, with Laplace
    noise. The larger of the two is given.
    """
    size = abs(z)
    return max(erfc(size / sqrt(2)), exp(-sqrt(2) * size)) if size < inf else 0.0


def verdict(z: float | None) -> str:
    """A change in words; none where there is nothing to compare."""
    if z is None:
        return ""
    often = chance(z)
    return CHANGED if often <= SURE else MAYBE if often <= LIKELY else NOISE


def as_csv(queries: Queries, view: View) -> Iterator[str]:
    """All rows of a view, in its order: labels, figures, relative error and, of two tables, the change."""
    store = queries.store
    heads = [*(["measure"] if store.now.measure else []), *(store.now.attributes or ("node",)), *store.figures, "error"]
    if store.before is not None:
        heads += ["before", "variance_before", "change", "standard_error", "z", "chance", "verdict"]
    names = columns(store)
    words = together(*(table.not_private for table in store.tables))
    heads += [NAME] if words else []
    yield _lines([[_label(head) for head in heads]])
    for block in queries.every(view):
        rows = (_cells(queries, dict(zip(names, cells, strict=True))) for cells in block)
        yield _lines([[*row, words] if words else row for row in rows])


def _cells(queries: Queries, row: dict[str, Any]) -> list[Any]:
    store = queries.store
    labels = [_label(row[f"a{i}"]) for i in range(len(store.now.attributes))] or [row["node"]]
    error = None if row["estimate"] is None else row["variance"] ** 0.5 / max(queries.tau, row["estimate"])
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
