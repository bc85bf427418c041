"""Entries: lists, sets, maps and objects of a registration, each item read in its place."""

from collections.abc import Callable
from typing import Any, TypeVar

from attributary.api.ara.parse.findings import Findings, Path
from attributary.api.ara.parse.scalars import INFINITY, typed

T = TypeVar("T")
Reader = Callable[[Any, Path, Findings], T | None]
ABSENT: Any = object()


def sized(size: int, path: Path, found: Findings, low: int, high: float) -> bool:
    """Whether a list's length lies in the range."""
    if low <= size <= high:
        return True
    found.error(path, f"length must be in the range [{low}, {'Infinity' if high == INFINITY else high}]", f"got {size}")
    return False


def each(
    j: Any, path: Path, found: Findings, read: Reader[T], low: int = 0, high: float = INFINITY, stop: bool = False
) -> tuple[T, ...] | None:
    """A list's items; with `stop`, what follows a refused item is not read, where it would only be refused in turn."""
    if not typed(j, path, found, "a list") or not sized(len(j), path, found, low, high):
        return None
    faults, items = found.faults, []
    for i, item in enumerate(j):
        value = read(item, (*path, i), found)
        if value is not None:
            items.append(value)
        elif stop:
            return None
    return tuple(items) if found.faults == faults else None


def distinct(
    j: Any, path: Path, found: Findings, read: Reader[T], low: int = 0, high: float = INFINITY, strict: bool = False
) -> tuple[T, ...] | None:
    """A list's distinct items in order; one that stands twice gives a warning, or with `strict` an error."""
    if not typed(j, path, found, "a list"):
        return None
    faults, items = found.faults, dict[T, None]()
    for i, item in enumerate(j):
        value = read(item, (*path, i), found)
        if value is None:
            continue
        if value in items:
            (found.error if strict else found.warning)((*path, i), f"duplicate value {value}")
        items[value] = None
    if found.faults > faults or not sized(len(items), path, found, low, high):
        return None
    return tuple(items)


def key_values(
    j: Any, path: Path, found: Findings, read: Callable[[str, Any, Path, Findings], T | None], most: float = INFINITY
) -> dict[str, T] | None:
    """An object's entries, whatever their keys."""
    if not typed(j, path, found, "an object"):
        return None
    if len(j) > most:
        found.error(path, f"exceeds the maximum number of keys ({most})")
        return None
    faults, entries = found.faults, dict[str, T]()
    for key, item in j.items():
        value = read(key, item, (*path, key), found)
        if value is not None:
            entries[key] = value
    return entries if found.faults == faults else None


class Fields:
    """An object with known keys: each is taken once, and what is left over at the end is unknown."""

    __slots__ = ("_faults", "_found", "_path", "_rest")

    def __init__(self, j: dict[str, Any], path: Path, found: Findings) -> None:
        self._rest, self._path, self._found, self._faults = j, path, found, found.faults

    def take(self, name: str, read: Reader[T], default: Any = None) -> Any:
        """What a key holds, read; the default where it is absent, None where it is refused."""
        j = self._rest.pop(name, ABSENT)
        return default if j is ABSENT else read(j, (*self._path, name), self._found)

    def need(self, name: str, read: Reader[T]) -> Any:
        """What a key holds; an error where it is absent."""
        if name not in self._rest:
            self._found.error((*self._path, name), "required")
            return None
        return self.take(name, read)

    def lenient(self, name: str, read: Reader[T], default: Any = None) -> Any:
        """What a key holds, or the default where it is refused, which is then only a warning."""
        soft, faults, self._found.soft = self._found.soft, self._found.faults, True
        value = self.take(name, read, default)
        self._found.soft = soft
        if self._found.faults == faults:
            return value
        self._found.faults = faults
        return default

    def one(self, readers: dict[str, Reader[Any]], default: Any) -> Any:
        """What one of several keys holds, of which only one may be there."""
        here = [name for name in readers if name in self._rest]
        values = [self.take(name, readers[name]) for name in here]
        if len(here) > 1:
            self._found.error(self._path, f"mutually exclusive fields: {', '.join(here)}")
            return None
        return values[0] if here else default

    def whole(self) -> bool:
        """Whether nothing was refused; keys that were not taken give a warning each."""
        for name in self._rest:
            self._found.warning((*self._path, name), "unknown field")
        return self._found.faults == self._faults
