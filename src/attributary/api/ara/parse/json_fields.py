"""json_fields: values, lists, objects and addresses of a registration, each read and checked; None where refused."""

import re
from collections.abc import Callable
from typing import Any, TypeVar

from attributary.api.ara.parse.findings import Findings, Path
from attributary.api.sites import Url, parse_url
from attributary.errors import brief

UINT = re.compile(r"[0-9]+", re.ASCII)
INT = re.compile(r"-?[0-9]+", re.ASCII)
HEX128 = re.compile(r"0[xX][0-9A-Fa-f]{1,32}", re.ASCII)
INFINITY = float("inf")
NAMES: dict[str, tuple[type, ...]] = {
    "a boolean": (bool,),
    "a number": (int, float),
    "a string": (str,),
    "a list": (list,),
    "an object": (dict,),
}


def is_a(j: Any, name: str) -> bool:
    """Whether a JSON value is of the type with this name; true is not a number."""
    return type(j) in NAMES[name]


def typed(j: Any, path: Path, findings: Findings, *names: str) -> bool:
    """Whether a value is of one of the types; an error is found where it is not."""
    for name in names:
        if type(j) in NAMES[name]:
            return True
    findings.error(path, f"must be {' or '.join(names)}")
    return False


def string(j: Any, path: Path, findings: Findings) -> str | None:
    return j if typed(j, path, findings, "a string") else None


def boolean(j: Any, path: Path, findings: Findings) -> bool | None:
    return j if typed(j, path, findings, "a boolean") else None


def number(j: Any, path: Path, findings: Findings) -> int | float | None:
    return j if typed(j, path, findings, "a number") else None


def within(n: float | None, path: Path, findings: Findings, low: float, high: float, message: str | None = None) -> Any:
    """The number, where it lies in the range."""
    if n is None or low <= n <= high:
        return n
    findings.error(path, message or f"must be in the range [{low}, {high}]")
    return None


def whole(
    j: Any, path: Path, findings: Findings, low: float = -INFINITY, high: float = INFINITY, message: str | None = None
) -> int | None:
    """A whole number in the range; 2.0 is whole."""
    n = number(j, path, findings)
    if n is None:
        return None
    if isinstance(n, float) and not n.is_integer():
        findings.error(path, "must be an integer")
        return None
    return within(int(n), path, findings, low, high, message)  # type: ignore[no-any-return]


def positive(j: Any, path: Path, findings: Findings) -> int | None:
    return whole(j, path, findings, 1, INFINITY, "must be positive")


def contribution_value(j: Any, path: Path, findings: Findings) -> int | None:
    return whole(j, path, findings, 1, 65_536)


def uint(j: Any, path: Path, findings: Findings) -> int | None:
    """A whole number ≥ 0 in a string; above 20 digits it is 10²⁰, since all beyond 64 bits is refused anyway."""
    text = string(j, path, findings)
    if text is None:
        return None
    if not UINT.fullmatch(text):
        findings.error(path, "string must represent a non-negative integer (must match /^[0-9]+$/)")
        return None
    return _bounded(text)


def uint64(j: Any, path: Path, findings: Findings) -> int | None:
    return within(uint(j, path, findings), path, findings, 0, 2**64 - 1, "must fit in an unsigned 64-bit integer")  # type: ignore[no-any-return]


def int64(j: Any, path: Path, findings: Findings) -> int | None:
    text = string(j, path, findings)
    if text is None:
        return None
    if not INT.fullmatch(text):
        findings.error(path, "string must represent an integer (must match /^-?[0-9]+$/)")
        return None
    n = -_bounded(text[1:]) if text[0] == "-" else _bounded(text)
    return within(n, path, findings, -(2**63), 2**63 - 1, "must fit in a signed 64-bit integer")  # type: ignore[no-any-return]


def _bounded(digits: str) -> int:
    digits = digits.lstrip("0")
    return int(digits or "0") if len(digits) <= 20 else 10**20


def hex128(j: Any, path: Path, findings: Findings) -> int | None:
    text = string(j, path, findings)
    if text is None:
        return None
    if not HEX128.fullmatch(text):
        findings.error(path, "must be a hex128 (must match /^0[xX][0-9A-Fa-f]{1,32}$/)")
        return None
    return int(text, 16)


def one_of(j: Any, path: Path, findings: Findings, allowed: tuple[str, ...]) -> str | None:
    text = string(j, path, findings)
    if text is None or text in allowed:
        return text
    findings.error(path, f"must be one of the following (case-sensitive): {', '.join(allowed)}")
    return None


def clamp(n: int, path: Path, findings: Findings, low: int, high: int, why: str = "") -> int:
    """The number, or the end of the range that it lies beyond, with a warning."""
    if n < low:
        findings.warning(path, f"will be clamped to min of {low}")
        return low
    if n > high:
        findings.warning(path, f"will be clamped to max of {high}{why}")
        return high
    return n


def length(text: str) -> int:
    """The length of a string as a browser counts it, in UTF-16 units."""
    return len(text) if text.isascii() else len(text.encode("utf-16-le", "surrogatepass")) // 2


def short(text: str, path: Path, findings: Findings, limit: int, what: str) -> bool:
    """Whether a string is no longer than the limit."""
    if length(text) <= limit:
        return True
    findings.error(path, f"{what} ({length(text)} > {limit})")
    return False


T = TypeVar("T")
Reader = Callable[[Any, Path, Findings], T | None]
ABSENT: Any = object()


def sized(size: int, path: Path, findings: Findings, low: int, high: float) -> bool:
    """Whether a list's length lies in the range."""
    if low <= size <= high:
        return True
    findings.error(
        path, f"length must be in the range [{low}, {'Infinity' if high == INFINITY else high}]", f"got {size}"
    )
    return False


def each(
    j: Any, path: Path, findings: Findings, read: Reader[T], low: int = 0, high: float = INFINITY, stop: bool = False
) -> tuple[T, ...] | None:
    """A list's items; with `stop`, what follows a refused item is not read, where it would only be refused in turn."""
    if not typed(j, path, findings, "a list") or not sized(len(j), path, findings, low, high):
        return None
    faults, items = findings.faults, []
    for i, item in enumerate(j):
        value = read(item, (*path, i), findings)
        if value is not None:
            items.append(value)
        elif stop:
            return None
    return tuple(items) if findings.faults == faults else None


def distinct(
    j: Any, path: Path, findings: Findings, read: Reader[T], low: int = 0, high: float = INFINITY, strict: bool = False
) -> tuple[T, ...] | None:
    """A list's distinct items in order; one that stands twice gives a warning, or with `strict` an error."""
    if not typed(j, path, findings, "a list"):
        return None
    faults, items = findings.faults, dict[T, None]()
    for i, item in enumerate(j):
        value = read(item, (*path, i), findings)
        if value is None:
            continue
        if value in items:
            (findings.error if strict else findings.warning)((*path, i), f"duplicate value {value}")
        items[value] = None
    if findings.faults > faults or not sized(len(items), path, findings, low, high):
        return None
    return tuple(items)


def key_values(
    j: Any, path: Path, findings: Findings, read: Callable[[str, Any, Path, Findings], T | None], most: float = INFINITY
) -> dict[str, T] | None:
    """An object's entries, whatever their keys."""
    if not typed(j, path, findings, "an object"):
        return None
    if len(j) > most:
        findings.error(path, f"exceeds the maximum number of keys ({most})")
        return None
    faults, entries = findings.faults, dict[str, T]()
    for key, item in j.items():
        value = read(key, item, (*path, key), findings)
        if value is not None:
            entries[key] = value
    return entries if findings.faults == faults else None


class Fields:
    """An object with known keys: each is taken once, and what is left over at the end is unknown."""

    __slots__ = ("_faults", "_found", "_path", "_rest")

    def __init__(self, j: dict[str, Any], path: Path, findings: Findings) -> None:
        self._rest, self._path, self._found, self._faults = j, path, findings, findings.faults

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


def destinations(j: Any, path: Path, findings: Findings) -> tuple[str, ...] | None:
    """The sites where a source may be attributed: one, or a list of up to three."""
    if not typed(j, path, findings, "a string", "a list"):
        return None
    if is_a(j, "a list"):
        return distinct(j, path, findings, _site, 1, 3)
    one = _site(j, path, findings)
    return None if one is None else (one,)


def coordinator(j: Any, path: Path, findings: Findings, allowed: tuple[str, ...]) -> str | None:
    """The origin of the aggregation service's key server."""
    url = _url(j, path, findings)
    if url is None:
        return None
    if url.more_than_origin:
        findings.warning(path, f"URL components other than origin ({url.origin}) will be ignored")
    if url.origin not in allowed:
        findings.error(path, f"must be one of the following: {', '.join(allowed)}")
        return None
    return url.origin


def _site(j: Any, path: Path, findings: Findings) -> str | None:
    url = _url(j, path, findings)
    if url is not None and url.more_than_site:
        findings.warning(path, f"URL components other than site ({url.site}) will be ignored")
    if url is not None and url.public_suffix:
        words = "is a public suffix, which no one site has, and does not match the sites below it"
        findings.warning(path, f"{url.site} {words}: write the whole domain, as in https://shop.example")
    return None if url is None else url.site


def _url(j: Any, path: Path, findings: Findings) -> Url | None:
    text = string(j, path, findings)
    if text is None:
        return None
    url = parse_url(text)
    hint = f"got {brief(text)}: write an address as in https://shop.example"
    if url is None:
        findings.error(path, "invalid URL", hint)
    elif not url.trustworthy:
        findings.error(path, "URL must use HTTP/HTTPS and be potentially trustworthy", hint)
        return None
    return url
