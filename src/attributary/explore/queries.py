"""Queries: which rows an address asks for, and the answers, as plain values or as CSV.

Every name in the SQL is ours; user input is bound.
"""

import csv
import io
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from math import inf, isfinite, isnan
from typing import Any

import numpy as np

from attributary.errors import InputError
from attributary.estimates import EXTRAS, FIGURES, thresholds
from attributary.explore.estimate_store import CHANGES, EstimateStore
from attributary.measurements import Measurements
from attributary.tables.table_columns import NAME
from attributary.types import Record

Params = Mapping[str, str]
BLOCK = 2048  # rows that are fetched at a time
RUN = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")  # what a spreadsheet takes for a formula
PAGE = 100  # rows
LONGEST = 1000  # characters to search for
ERROR = "CASE WHEN estimate IS NOT NULL THEN sqrt(variance) / greatest(?, estimate) END AS error"  # relative, as rmsre
KEYS = {"estimate": "estimate", "error": "error", "correction": "abs(correction)", "label": "label", "order": "node"}
COMPARED = {"change": "change", "significance": "abs(z)"}
EXPECTED = {column.key: name for name, column in EXTRAS.items()}


@dataclass(frozen=True)
class View:
    """The children of a node or, where a level or words are given, all nodes below it that these hold for."""

    node: int | None = None  # None: above all roots
    find: str = ""
    level: int | None = None
    all_levels: bool = False
    sort: str = "estimate"
    down: bool = True
    page: int = 0

    @property
    def flat(self) -> bool:
        """Whether rows of any depth are shown, not only children."""
        return bool(self.find) or self.level is not None or self.all_levels


def requested_view(params: Params, store: EstimateStore) -> View:
    """The view that an address asks for; whatever it cannot mean is refused."""
    expected = [name for name, column in EXPECTED.items() if column in store.figures]
    allowed = [*KEYS, *expected, *(COMPARED if store.series else ())]
    sort = params.get("sort") or "estimate"
    if sort not in allowed:
        raise InputError(f"rows are sorted by {', '.join(allowed)}; got {sort[:40]!r}")
    find = params.get("find", "")
    if len(find) > LONGEST or "\0" in find:
        raise InputError(
            f"words to search for have at most {LONGEST:,} characters, none of them NUL; got {len(find):,}"
        )
    node = _whole(params["node"], "node", len(store)) if params.get("node") else None
    level = params.get("level", "")
    if node is not None and not store.attributes and (find or level):
        raise InputError("a table without labels is searched as a whole; leave out the node")
    return View(
        node,
        find,
        None if level in ("", "all") else _whole(level, "level", len(store.levels)),
        level == "all",
        sort,
        params.get("down", "" if sort in ("label", "order") else "1") == "1",
        _whole(params.get("page") or "0", "page", 10**9),
    )


def _whole(text: str, name: str, end: int) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 12 and int(text) < end):
        raise InputError(f"a {name} is a whole number from 0 to {end - 1:,}; got {text[:40]!r}")
    return int(text)


class Queries:
    """One cursor on a store, for one thread; closing it, or interrupting it from another thread, ends its query."""

    def __init__(self, store: EstimateStore, tau: float, shape: str) -> None:
        self.store, self.tau, self.shape = store, tau, shape
        self.cursor = store.connection.cursor()

    @property
    def names(self) -> list[str]:
        """The columns of every answer, in order."""
        store = self.store
        labels = [f"a{i}" for i in range(len(store.attributes))]
        return ["node", "level", "label", *labels, *store.figures, *(CHANGES if store.series else ()), "error"]

    def page(self, params: Params) -> Record:
        """The rows of a page, and whether there are more; how many there are in all, where that is known."""
        view = requested_view(params, self.store)
        found = self._sorted(view, f" LIMIT {PAGE + 1} OFFSET {PAGE * view.page}").fetchall()
        forest = self.store.forest
        of = None if view.flat else forest.sizes[0] if view.node is None else int(forest.children[view.node])
        return {"rows": self._shown(found[:PAGE], view.flat), "more": len(found) > PAGE, "page": view.page, "of": of}

    def node(self, params: Params) -> Record:
        node = requested_view(params, self.store).node
        if node is None:
            raise InputError("the address needs a node, as in node=17")
        return self._shown(self._select("node = ?", [node]).fetchall(), True)[0]

    def count(self, params: Params) -> Record:
        """How many rows a view has in all."""
        condition, values = self._condition(requested_view(params, self.store))
        (number,) = self.cursor.execute(f"SELECT count(*) FROM {self.store.view} WHERE {condition}", values).fetchone()
        return {"of": int(number)}

    def csv(self, params: Params) -> Iterator[str]:
        """All rows of a view, in its order: labels, figures, relative error and, of two tables, the change."""
        store, found = self.store, self._sorted(requested_view(params, self.store))
        changes = CHANGES if store.series else ()
        measure = [store.measure] if store.measure else []
        words = [store.about.not_private] if store.about.not_private else []

        def line(cells: tuple[Any, ...]) -> list[str]:
            row = dict(zip(self.names, cells, strict=True))
            labels = [row[f"a{i}"] for i in range(len(store.attributes))] or [str(row["node"])]
            figures = [_number(row[name]) for name in (*store.figures, "error", *changes[:-1])]
            return [*map(_label, [*measure, *labels]), *figures, *(row[name] for name in changes[-1:]), *words]

        names = ["measure"] * len(measure) + [*(store.attributes or ("node",)), *store.figures, "error", *changes]
        yield _lines([map(_label, names + [NAME] * len(words))])
        while block := found.fetchmany(BLOCK):
            yield _lines(map(line, block))

    def _sorted(self, view: View, page: str = "") -> Any:
        key = (KEYS | EXPECTED | COMPARED)[view.sort]
        condition, values = self._condition(view)
        order = f" ORDER BY {key} {'DESC' if view.down else 'ASC'} NULLS LAST, node"
        return self._select(condition + order + page, values)

    def _select(self, condition: str, values: list[Any]) -> Any:
        names = ", ".join([*self.names[:-1], ERROR])
        return self.cursor.execute(f"SELECT {names} FROM {self.store.view} WHERE {condition}", [self.tau, *values])

    def _condition(self, view: View) -> tuple[str, list[object]]:
        """The rows that a view asks for, and the values in that."""
        if not view.flat:
            return "parent = ?", [-1 if view.node is None else view.node]
        parts: Record = {} if view.level is None else {"level = ?": view.level}
        if view.node is not None:
            labels = ", ".join(["level", *(f"a{i}" for i in range(len(self.store.attributes)))])
            query = f"SELECT {labels} FROM {self.store.view} WHERE node = ?"
            row = self.cursor.execute(query, [view.node]).fetchone()
            if row is None:
                raise InputError(f"node {view.node} no longer exists; open the file again")
            above = row[1 : row[0] + 2 - int(self.store.total)]
            parts |= {"level > ?": row[0]} | {f"a{i} = ?": label for i, label in enumerate(above)}
        parts |= {"contains(lower(label), lower(?))": view.find} if view.find else {}
        return " AND ".join(parts) or "true", [*parts.values()]

    def _shown(self, rows: list[tuple[Any, ...]], with_path: bool) -> list[Record]:
        """Rows for the page: numbers that JSON knows, and what is derived from them."""
        store = self.store
        shown = [dict(zip(self.names, cells, strict=True)) for cells in rows]
        for row, flag in zip(shown, self._implausible(shown), strict=True):
            row["id"] = str(row["node"])
            row["children"] = int(store.forest.children[row["node"]])
            labels = [row.pop(f"a{i}") for i in range(len(store.attributes))]
            if with_path:
                nodes, names_above = store.forest.above(row["node"]), ["total"] * store.total + labels
                row["path"] = [[str(v), names_above[i] if names_above else f"node {v}"] for i, v in enumerate(nodes)]
            row["implausible"] = flag
            for name, value in row.items():
                if isinstance(value, float) and not isfinite(value):
                    row[name] = None
        return shown

    def _implausible(self, shown: list[Record]) -> list[bool]:
        """Whether each correction is one that noise hardly makes, as a report has it."""
        if not shown:
            return []
        figures = {name: np.array([np.nan if r[name] is None else r[name] for r in shown], float) for name in FIGURES}
        variance = np.where(figures["noise_variance"] >= 0, figures["noise_variance"], inf)
        measured = Measurements(figures["noisy"], variance, self.shape)
        beyond = thresholds(measured, self.store.checked.corrections)
        implausible: list[bool] = (np.abs(np.nan_to_num(figures["correction"])) > beyond).tolist()
        return implausible


def _label(text: str | None) -> str:
    """A label; one that a spreadsheet would run gets an apostrophe before it, which says that it is text."""
    return "" if text is None else "'" + text if text.startswith(RUN) else text


def _number(x: float | None) -> str:
    if x is None or isnan(x):
        return ""
    return repr(x) if isfinite(x) else "inf" if x > 0 else "-inf"


def _lines(rows: Iterable[Iterable[str]]) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="\r\n").writerows(rows)
    return text.getvalue()
