"""SQL: which rows an address asks for, and the query that finds them. Every name in it is ours; user input is bound."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from attributary.errors import InputError
from attributary.estimates import FROM_PRIOR, ZERO
from attributary.explore.estimate_store import CHANGES, EstimateStore

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
EXPECTED = {"prior": FROM_PRIOR, "zero": ZERO}


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
    node = _whole(params["node"], "node", len(store.now)) if params.get("node") else None
    level = params.get("level", "")
    if node is not None and not store.now.attributes and (find or level):
        raise InputError("a table without labels is searched as a whole; leave out the node")
    return View(
        node,
        find,
        None if level in ("", "all") else _whole(level, "level", len(store.now.levels)),
        level == "all",
        sort,
        params.get("down", "" if sort in ("label", "order") else "1") == "1",
        _whole(params.get("page") or "0", "page", 10**9),
    )


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


def sorts(store: EstimateStore) -> list[str]:
    """What rows can be sorted by."""
    expected = [name for name, column in EXPECTED.items() if column in store.figures]
    return [*KEYS, *expected, *(COMPARED if store.series else ())]


def columns(store: EstimateStore) -> list[str]:
    """The columns of every answer, in order."""
    labels = [f"a{i}" for i in range(len(store.now.attributes))]
    return ["node", "level", "label", *labels, *store.figures, *(CHANGES if store.series else ())]


def rows(store: EstimateStore, view: View, tau: float, place: Place, every: bool = False) -> SqlQuery:
    """A page of a view and one row more, which tells whether there is another page; or every row."""
    condition = _condition(view, place)
    key = (KEYS | EXPECTED | COMPARED)[view.sort]
    order = f"ORDER BY {key} {'DESC' if view.down else 'ASC'} NULLS LAST, node"
    page = "" if every else f" LIMIT {PAGE + 1} OFFSET {PAGE * view.page}"
    sql = f"SELECT {', '.join(columns(store))} FROM {store.view} WHERE {condition.sql} {order}{page}"
    return SqlQuery(sql, [*condition.values, *([tau] if "?" in key else [])])


def count(store: EstimateStore, view: View, place: Place) -> SqlQuery:
    """How many rows a view has in all."""
    condition = _condition(view, place)
    return SqlQuery(f"SELECT count(*) FROM {store.view} WHERE {condition.sql}", condition.values)


def row(store: EstimateStore, node: int) -> SqlQuery:
    """The one row of a node."""
    return SqlQuery(f"SELECT {', '.join(columns(store))} FROM {store.view} WHERE node = ?", [node])


def _condition(view: View, place: Place) -> SqlQuery:
    """The rows of one table that a view asks for."""
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
