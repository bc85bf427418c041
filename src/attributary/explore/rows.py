"""Rows: a view as SQL. Every name in it is ours; whatever a user gave is bound, not written."""

from typing import Any, NamedTuple

from attributary.estimates import FROM_PRIOR
from attributary.explore.store import Store
from attributary.explore.view import PAGE, View

KEYS = {
    "estimate": "estimate",
    "error": "sqrt(variance) / greatest(?, estimate)",
    "correction": "abs(correction)",
    "label": "label",
    "order": "node",
}
COMPARED = {"change": "change", "significance": "abs(z)"}
EXPECTED = {"prior": FROM_PRIOR}


class Asked(NamedTuple):
    sql: str
    values: list[Any]


class Place(NamedTuple):
    """A node in one table: its number, its level and its labels; None, -1 and none above the roots."""

    node: int | None
    level: int
    labels: tuple[str, ...]


ABOVE_ALL = Place(None, -1, ())


def sorts(store: Store) -> list[str]:
    """What rows can be sorted by."""
    return [*KEYS, *(EXPECTED if FROM_PRIOR in store.figures else ()), *(COMPARED if store.before else ())]


def columns(store: Store) -> list[str]:
    """The columns of every answer, in order."""
    own = ["node", "level", "label", *_labels(store), *store.figures]
    return [*own, "earlier", "old", "old_variance", "change", "spread", "z"] if store.before else own


def rows(store: Store, view: View, tau: float, now: Place | None, before: Place | None, every: bool = False) -> Asked:
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
    return Asked(sql, [*chosen.values, *values])


def count(store: Store, view: View, now: Place | None, before: Place | None) -> Asked:
    """How many rows a view has in all."""
    chosen = _chosen(store, view, now, before)
    return Asked(f"SELECT count(*) FROM {chosen.sql}", chosen.values)


def row(store: Store, view: View, now: Place | None, before: Place | None) -> Asked:
    """The one row of the node that the view is of."""
    parts = [_one(now), _one(before)]
    chosen = (
        _joined(store, *parts)
        if store.before
        else Asked(f"(SELECT * FROM {store.view('now')} WHERE {parts[0].sql})", parts[0].values)
    )
    return Asked(f"SELECT {', '.join(columns(store))} FROM {chosen.sql}", chosen.values)


def _chosen(store: Store, view: View, now: Place | None, before: Place | None) -> Asked:
    condition = _condition(store, view, now)
    if not store.before:
        return Asked(f"{store.view('now')} WHERE {condition.sql}", condition.values)
    return _joined(store, condition, _condition(store, view, before))


def _condition(store: Store, view: View, place: Place | None) -> Asked:
    """The rows of one table that a view asks for."""
    if place is None:
        return Asked("false", [])
    if not view.flat:
        return Asked("parent = ?", [-1 if place.node is None else place.node])
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
    return Asked(" AND ".join(parts) or "true", values)


def _one(place: Place | None) -> Asked:
    return Asked("false", []) if place is None or place.node is None else Asked("node = ?", [place.node])


def _joined(store: Store, now: Asked, before: Asked) -> Asked:
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
    return Asked(sql, [*now.values, *before.values])


def _labels(store: Store) -> list[str]:
    return [f"a{i}" for i in range(len(store.now.attributes))]
