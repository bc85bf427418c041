"""SQL: which rows an address asks for, and the query that finds them. Every name in it is ours; user input is bound."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from attributary.errors import InputError
from attributary.estimates import FROM_PRIOR
from attributary.explore.estimate_store import EstimateStore

PAGE = 100  # rows
LONGEST = 1000  # characters to search for


KEYS = {
    "estimate": "estimate",
    "error": "sqrt(variance) / greatest(?, estimate)",
    "correction": "abs(correction)",
    "label": "label",
    "order": "node",
}
COMPARED = {"change": "change", "significance": "abs(z)"}
EXPECTED = {"prior": FROM_PRIOR}


@dataclass(frozen=True)
class View:
    """The children of a node or, where a level or words are given, all nodes below it that these hold for."""

    node: int | None = None  # None: above all roots
    gone: bool = False  # the node is one of the earlier table
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


def view(params: Mapping[str, str], store: EstimateStore) -> View:
    """The view that an address asks for; whatever it cannot mean is refused."""

    allowed = sorts(store)
    sort = params.get("sort") or "estimate"
    if sort not in allowed:
        raise InputError(f"rows are sorted by {', '.join(allowed)}; got {sort[:40]!r}")
    find = params.get("find", "")
    if len(find) > LONGEST or "\0" in find:
        raise InputError(
            f"words to search for have at most {LONGEST:,} characters, none of them NUL; got {len(find):,}"
        )
    node, gone = _node(params.get("node", ""), store)
    level = params.get("level", "")
    if node is not None and not store.now.attributes and (find or level):
        raise InputError("a table without labels is searched as a whole; leave out the node")
    return View(
        node,
        gone,
        find,
        None if level in ("", "all") else _whole(level, "level", len(store.now.levels)),
        level == "all",
        sort,
        params.get("down", "" if sort in ("label", "order") else "1") == "1",
        _whole(params.get("page") or "0", "page", 10**9),
    )


def _node(text: str, store: EstimateStore) -> tuple[int | None, bool]:
    """A node as in 17, or, of the earlier table, before-17."""
    if not text:
        return None, False
    gone = text.startswith("before-")
    table = store.before if gone else store.now
    if table is None:
        raise InputError("there is no earlier table to take a node from; leave out before-")
    return _whole(text.removeprefix("before-"), "node", len(table)), gone


def _whole(text: str, name: str, end: int) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 12 and int(text) < end):
        raise InputError(f"a {name} is a whole number from 0 to {end - 1:,}; got {text[:40]!r}")
    return int(text)


class SqlQuery(NamedTuple):
    sql: str
    values: list[Any]


class Place(NamedTuple):
    """A node in one table: its number, its level and its labels; None, -1 and none above the roots."""

    node: int | None
    level: int
    labels: tuple[str, ...]


ABOVE_ALL = Place(None, -1, ())


def sorts(store: EstimateStore) -> list[str]:
    """What rows can be sorted by."""
    return [*KEYS, *(EXPECTED if FROM_PRIOR in store.figures else ()), *(COMPARED if store.before else ())]


def columns(store: EstimateStore) -> list[str]:
    """The columns of every answer, in order."""
    names = ["node", "level", "label", *_labels(store), *store.figures]
    return [*names, "earlier", "old", "old_variance", "change", "spread", "z"] if store.before else names


def rows(
    store: EstimateStore, view: View, tau: float, now: Place | None, before: Place | None, every: bool = False
) -> SqlQuery:
    """A page of a view and one row more, which tells whether there is another page; or every row.

    `now` and `before` are the node that the view is of, in each table; None where a table does not have it.
    """
    chosen = _chosen(store, view, now, before)
    key = (KEYS | EXPECTED | COMPARED)[view.sort]
    values = [tau] if "?" in key else []
    way = "DESC" if view.down else "ASC"
    order = f"ORDER BY {key} {way} NULLS LAST, node NULLS LAST" + ", earlier" * bool(store.before)
    page = "" if every else f" LIMIT {PAGE + 1} OFFSET {PAGE * view.page}"
    sql = f"SELECT {', '.join(columns(store))} FROM {chosen.sql} {order}{page}"
    return SqlQuery(sql, [*chosen.values, *values])


def count(store: EstimateStore, view: View, now: Place | None, before: Place | None) -> SqlQuery:
    """How many rows a view has in all."""
    chosen = _chosen(store, view, now, before)
    return SqlQuery(f"SELECT count(*) FROM {chosen.sql}", chosen.values)


def row(store: EstimateStore, view: View, now: Place | None, before: Place | None) -> SqlQuery:
    """The one row of the node that the view is of."""
    parts = [_one(now), _one(before)]
    chosen = (
        _joined(store, *parts)
        if store.before
        else SqlQuery(f"(SELECT * FROM {store.view('now')} WHERE {parts[0].sql})", parts[0].values)
    )
    return SqlQuery(f"SELECT {', '.join(columns(store))} FROM {chosen.sql}", chosen.values)


def _chosen(store: EstimateStore, view: View, now: Place | None, before: Place | None) -> SqlQuery:
    condition = _condition(store, view, now)
    if not store.before:
        return SqlQuery(f"{store.view('now')} WHERE {condition.sql}", condition.values)
    return _joined(store, condition, _condition(store, view, before))


def _condition(store: EstimateStore, view: View, place: Place | None) -> SqlQuery:
    """The rows of one table that a view asks for."""
    if place is None:
        return SqlQuery("false", [])
    if not view.flat:
        return SqlQuery("parent = ?", [-1 if place.node is None else place.node])
    parts: list[str] = []
    values: list[Any] = []
    if view.level is not None:
        parts.append("level = ?")
        values.append(view.level)
    if place.node is not None:
        parts.append("level > ?")
        values.append(place.level)
    for i, label in enumerate(place.labels):
        parts.append(f"a{i} = ?")
        values.append(label)
    if view.find:
        parts.append("contains(lower(label), lower(?))")
        values.append(view.find)
    return SqlQuery(" AND ".join(parts) or "true", values)


def _one(place: Place | None) -> SqlQuery:
    return SqlQuery("false", []) if place is None or place.node is None else SqlQuery("node = ?", [place.node])


def _joined(store: EstimateStore, now: SqlQuery, before: SqlQuery) -> SqlQuery:
    """Rows of both tables side by side, by their paths; a row that only one of them has stands alone."""
    labels = _labels(store)
    same = " AND ".join(["n.level = b.level", *(f"n.{a} IS NOT DISTINCT FROM b.{a}" for a in labels)])
    both = ", ".join(f"coalesce(n.{name}, b.{name}) AS {name}" for name in ("level", "label", *labels))
    figures = ", ".join(f"n.{figure}" for figure in store.figures)
    change = "n.estimate - b.estimate"
    spread = "sqrt(n.variance + b.variance)"
    sql = f"""(
        SELECT n.node, {both}, {figures}, b.node AS earlier, b.estimate AS old, b.variance AS old_variance,
            {change} AS change, {spread} AS spread,
            CASE WHEN {spread} > 0 THEN ({change}) / {spread} WHEN {change} = 0 THEN 0 ELSE NULL END AS z
        FROM (SELECT * FROM {store.view("now")} WHERE {now.sql}) n
        FULL JOIN (SELECT * FROM {store.view("before")} WHERE {before.sql}) b ON {same}
    )"""
    return SqlQuery(sql, [*now.values, *before.values])


def _labels(store: EstimateStore) -> list[str]:
    return [f"a{i}" for i in range(len(store.now.attributes))]
