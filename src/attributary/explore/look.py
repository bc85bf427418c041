"""Look: answers to what a page asks of a store, as plain values."""

from collections.abc import Iterator
from math import inf, isfinite
from typing import Any

import numpy as np

from attributary.errors import InputError
from attributary.estimates import FIGURES, thresholds
from attributary.explore import rows as sql
from attributary.explore.change import chance, verdict
from attributary.explore.rows import ABOVE_ALL, Asked, Place
from attributary.explore.store import Store
from attributary.explore.view import PAGE, View
from attributary.measurements import Measurements

BLOCK = 2048  # rows that are fetched at a time
Row = dict[str, Any]


class Look:
    """One cursor on a store, for one thread; closing it, or interrupting it from another thread, ends its query."""

    def __init__(self, store: Store, tau: float, shape: str) -> None:
        self.store, self.tau, self.shape = store, tau, shape
        self.cursor = store.connection.cursor()

    def page(self, view: View) -> dict[str, Any]:
        """The rows of a page, and whether there are more; how many there are in all, where that is known."""
        now, before = self._places(view)
        found = self._fetch(sql.rows(self.store, view, self.tau, now, before))
        known = not view.flat and self.store.before is None
        roots = self.store.now.forest.sizes[0]
        of = (roots if view.node is None else int(self.store.now.forest.children[view.node])) if known else None
        return {"rows": self._shown(found[:PAGE], view.flat), "more": len(found) > PAGE, "page": view.page, "of": of}

    def node(self, view: View) -> Row:
        """The node that a view is of, with its path."""
        now, before = self._places(view)
        found = self._shown(self._fetch(sql.row(self.store, view, now, before)), True)
        return found[0]

    def count(self, view: View) -> int:
        """How many rows a view has in all."""
        (found,) = self._fetch(sql.count(self.store, view, *self._places(view)))[0]
        return int(found)

    def every(self, view: View) -> Iterator[list[tuple[Any, ...]]]:
        """All rows of a view, block by block, as `rows.columns` names their cells."""
        asked = sql.rows(self.store, view, self.tau, *self._places(view), every=True)
        self.cursor.execute(asked.sql, asked.values)
        while block := self.cursor.fetchmany(BLOCK):
            yield block

    def _fetch(self, asked: Asked) -> list[tuple[Any, ...]]:
        found: list[tuple[Any, ...]] = self.cursor.execute(asked.sql, asked.values).fetchall()
        return found

    def _places(self, view: View) -> tuple[Place | None, Place | None]:
        """The view's node in both tables; None where a table does not have it."""
        if view.node is None:
            return ABOVE_ALL, ABOVE_ALL
        store, (name, other) = self.store, ("before", "now") if view.gone else ("now", "before")
        name, other = store.view(name), store.view(other)
        if not view.flat and store.before is None:
            return Place(view.node, -1, ()), None
        labels = ", ".join(["level", *(f"a{i}" for i in range(len(store.now.attributes)))])
        found = self._fetch(Asked(f"SELECT {labels} FROM {name} WHERE node = ?", [view.node]))
        if not found:
            raise InputError(f"node {view.node} is not there any more; open the file again")
        level, *cells = found[0]
        depth = level + 1 - int(store.now.total)
        own = Place(view.node, level, tuple(cells[:depth]))
        if store.before is None:
            return own, None
        path = " AND ".join(["level = ?", *(f"a{i} = ?" for i in range(depth))])
        there = self._fetch(Asked(f"SELECT node FROM {other} WHERE {path}", [level, *own.labels]))
        twin = Place(there[0][0], level, own.labels) if there else None
        return (twin, own) if view.gone else (own, twin)

    def _shown(self, found: list[tuple[Any, ...]], with_path: bool) -> list[Row]:
        """Rows for the page: numbers that JSON knows, and what is derived from them."""
        names, store = sql.columns(self.store), self.store
        shown = [dict(zip(names, cells, strict=True)) for cells in found]
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
        found: list[bool] = (np.abs(np.nan_to_num(columns["correction"])) > beyond).tolist()
        return found
