"""Scalars: single values of a registration, each read and checked; None where refused."""

import re
from typing import Any

from attributary.api.ara.parse.findings import Findings, Path

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
    """Whether a JSON value is of the type with this name; true is no number."""
    return type(j) in NAMES[name]


def typed(j: Any, path: Path, found: Findings, *names: str) -> bool:
    """Whether a value is of one of the types; an error is found where it is not."""
    for name in names:
        if type(j) in NAMES[name]:
            return True
    found.error(path, f"must be {' or '.join(names)}")
    return False


def string(j: Any, path: Path, found: Findings) -> str | None:
    return j if typed(j, path, found, "a string") else None


def boolean(j: Any, path: Path, found: Findings) -> bool | None:
    return j if typed(j, path, found, "a boolean") else None


def number(j: Any, path: Path, found: Findings) -> int | float | None:
    return j if typed(j, path, found, "a number") else None


def within(n: float | None, path: Path, found: Findings, low: float, high: float, message: str | None = None) -> Any:
    """The number, where it lies in the range."""
    if n is None or low <= n <= high:
        return n
    found.error(path, message or f"must be in the range [{low}, {high}]")
    return None


def whole(
    j: Any, path: Path, found: Findings, low: float = -INFINITY, high: float = INFINITY, message: str | None = None
) -> int | None:
    """A whole number in the range; 2.0 is whole."""
    n = number(j, path, found)
    if n is None:
        return None
    if isinstance(n, float) and not n.is_integer():
        found.error(path, "must be an integer")
        return None
    return within(int(n), path, found, low, high, message)  # type: ignore[no-any-return]


def positive(j: Any, path: Path, found: Findings) -> int | None:
    return whole(j, path, found, 1, INFINITY, "must be positive")


def contribution_value(j: Any, path: Path, found: Findings) -> int | None:
    return whole(j, path, found, 1, 65_536)


def uint(j: Any, path: Path, found: Findings) -> int | None:
    """A whole number ≥ 0 in a string; above 20 digits it is 10²⁰, since all beyond 64 bits is refused anyway."""
    text = string(j, path, found)
    if text is None:
        return None
    if not UINT.fullmatch(text):
        found.error(path, "string must represent a non-negative integer (must match /^[0-9]+$/)")
        return None
    return _bounded(text)


def uint64(j: Any, path: Path, found: Findings) -> int | None:
    return within(uint(j, path, found), path, found, 0, 2**64 - 1, "must fit in an unsigned 64-bit integer")  # type: ignore[no-any-return]


def int64(j: Any, path: Path, found: Findings) -> int | None:
    text = string(j, path, found)
    if text is None:
        return None
    if not INT.fullmatch(text):
        found.error(path, "string must represent an integer (must match /^-?[0-9]+$/)")
        return None
    n = -_bounded(text[1:]) if text[0] == "-" else _bounded(text)
    return within(n, path, found, -(2**63), 2**63 - 1, "must fit in a signed 64-bit integer")  # type: ignore[no-any-return]


def _bounded(digits: str) -> int:
    digits = digits.lstrip("0")
    return int(digits or "0") if len(digits) <= 20 else 10**20


def hex128(j: Any, path: Path, found: Findings) -> int | None:
    text = string(j, path, found)
    if text is None:
        return None
    if not HEX128.fullmatch(text):
        found.error(path, "must be a hex128 (must match /^0[xX][0-9A-Fa-f]{1,32}$/)")
        return None
    return int(text, 16)


def one_of(j: Any, path: Path, found: Findings, allowed: tuple[str, ...]) -> str | None:
    text = string(j, path, found)
    if text is None or text in allowed:
        return text
    found.error(path, f"must be one of the following (case-sensitive): {', '.join(allowed)}")
    return None


def clamp(n: int, path: Path, found: Findings, low: int, high: int, why: str = "") -> int:
    """The number, or the end of the range that it lies beyond, with a warning."""
    if n < low:
        found.warning(path, f"will be clamped to min of {low}")
        return low
    if n > high:
        found.warning(path, f"will be clamped to max of {high}{why}")
        return high
    return n


def length(text: str) -> int:
    """The length of a string as a browser counts it, in UTF-16 units."""
    return len(text) if text.isascii() else len(text.encode("utf-16-le", "surrogatepass")) // 2


def short(text: str, path: Path, found: Findings, limit: int, what: str) -> bool:
    """Whether a string is no longer than the limit."""
    if length(text) <= limit:
        return True
    found.error(path, f"{what} ({length(text)} > {limit})")
    return False
