"""View: which rows are looked at, in which order, as an address says it."""

from collections.abc import Mapping
from dataclasses import dataclass

from attributary.errors import InputError
from attributary.explore.store import Store

PAGE = 100  # rows
LONGEST = 1000  # characters to search for
NODES = "nodes are numbers"


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


def view(asked: Mapping[str, str], store: Store) -> View:
    """The view that an address asks for; whatever it cannot mean is refused."""
    from attributary.explore.rows import sorts

    allowed = sorts(store)
    sort = asked.get("sort") or "estimate"
    if sort not in allowed:
        raise InputError(f"rows are sorted by {', '.join(allowed)}; got {sort[:40]!r}")
    find = asked.get("find", "")
    if len(find) > LONGEST or "\0" in find:
        raise InputError(
            f"words to search for have at most {LONGEST:,} characters, none of them NUL; got {len(find):,}"
        )
    node, gone = _node(asked.get("node", ""), store)
    level = asked.get("level", "")
    if node is not None and not store.now.attributes and (find or level):
        raise InputError("a table without labels is searched as a whole; leave out the node")
    return View(
        node,
        gone,
        find,
        None if level in ("", "all") else _whole(level, "level", len(store.now.levels)),
        level == "all",
        sort,
        asked.get("down", "" if sort in ("label", "order") else "1") == "1",
        _whole(asked.get("page") or "0", "page", 10**9),
    )


def _node(text: str, store: Store) -> tuple[int | None, bool]:
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
