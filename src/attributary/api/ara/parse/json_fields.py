"""JSON as browsers read it: each value of a registration read and checked, and what was found, with its path.

A reader takes a value with its place in the text, and gives what it means, or None where it is refused.
"""

import json
import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Generic, TypeVar

from attributary.api.sites import Url, parse_url
from attributary.errors import brief, one_line
from attributary.types import Record

Path = tuple[str | int, ...]
LONGEST, LONGEST_KEY = 300, 60  # characters of a message, and of a key in its path
T = TypeVar("T")
N = TypeVar("N", bound=float)


def printable(text: str, most: int = LONGEST) -> str:
    """A text that may stand in a message: bounded, on one line."""
    shown = one_line(text[: most + 1])
    return shown if len(shown) <= most else shown[: most - 1] + "…"


@dataclass(frozen=True, slots=True)
class Issue:
    """One finding, where it is, and perhaps a hint at what to write."""

    path: Path
    message: str
    hint: str = field(default="", compare=False)

    def __str__(self) -> str:
        keys = (f"[{key}]" if isinstance(key, int) else f".{printable(key, LONGEST_KEY)}" for key in self.path)
        where, hint = "".join(keys).removeprefix("."), f"; {self.hint}" if self.hint else ""
        return (f"{where}: " if where else "") + printable(self.message) + hint


@dataclass(slots=True)
class Findings:
    """What was found so far; while `soft`, errors become warnings, for parts that may be wrong without harm."""

    errors: list[Issue] = field(default_factory=list)
    warnings: list[Issue] = field(default_factory=list)
    notes: list[Issue] = field(default_factory=list)
    soft: bool = False
    faults: int = 0  # errors, soft ones included: a part is whole where none came while it was read
    limit: str | None = None

    def error(self, path: Path, message: str, hint: str = "") -> None:
        """Find an error, in the words that browsers have for it, and in ours what was there and what to write."""
        self.faults += 1
        (self.warnings if self.soft else self.errors).append(Issue(path, message, hint))

    def exceeds(self, limit: str, message: str) -> None:
        """Find a source that exceeds a limit of its event-level reports; the API's name of the first stays."""
        self.limit = self.limit or f"source-{limit}-limit"
        self.error((), message)

    def warning(self, path: Path, message: str) -> None:
        self.warnings.append(Issue(path, message))

    def note(self, path: Path, message: str) -> None:
        self.notes.append(Issue(path, message))


@dataclass(frozen=True, slots=True)
class Parsed(Generic[T]):
    """A registration, or None where it is refused; and what was found."""

    value: T | None
    errors: tuple[Issue, ...] = ()
    warnings: tuple[Issue, ...] = ()
    notes: tuple[Issue, ...] = ()
    limit: str | None = None  # the API's name of the one that a source's event-level reports exceed, if it is that


INFINITY = float("inf")
NAMES: dict[str, tuple[type, ...]] = {
    "a boolean": (bool,),
    "a number": (int, float),
    "a string": (str,),
    "a list": (list,),
    "an object": (dict,),
}


@dataclass(frozen=True, slots=True)
class Json:
    """A value of a JSON text, where it stands, and what was found in the text so far."""

    value: Any
    path: Path
    findings: Findings

    def error(self, message: str, hint: str = "") -> T | None:
        """Find an error, and give None, as a reader gives where a value is refused."""
        self.findings.error(self.path, message, hint)
        return None

    def warning(self, message: str) -> None:
        self.findings.warning(self.path, message)

    def at(self, key: str | int, value: object) -> "Json":
        return Json(value, (*self.path, key), self.findings)

    @property
    def key(self) -> str:
        return str(self.path[-1])

    def is_a(self, name: str) -> bool:
        """Whether the value is of the type with this name; true is not a number."""
        return type(self.value) in NAMES[name]

    def typed(self, *names: str) -> bool:
        """Whether the value is of one of the types; an error is found where it is not."""
        return any(map(self.is_a, names)) or bool(self.error(f"must be {' or '.join(names)}"))

    def within(self, n: N | None, low: float, high: float, message: str | None = None) -> N | None:
        """The number, where it lies in the range."""
        if n is None or low <= n <= high:
            return n
        return self.error(message or f"must be in the range [{low}, {high}]")

    def clamp(self, n: int, low: int, high: int, why: str = "") -> int:
        """The number, or the end of the range that it lies beyond, with a warning."""
        if n < low:
            self.warning(f"will be clamped to min of {low}")
        elif n > high:
            self.warning(f"will be clamped to max of {high}{why}")
        return min(max(n, low), high)

    def lacks(self, **needed: object) -> bool:
        """Whether something is refused that the value is checked against."""
        lacking = next((name for name, value in needed.items() if value is None), None)
        return lacking is not None and not self.error(f"cannot be fully validated without a valid {lacking}")

    def sized(self, size: int, low: int, high: float) -> bool:
        if low <= size <= high:
            return True
        self.error(f"length must be in the range [{low}, {'Infinity' if high == INFINITY else high}]", f"got {size}")
        return False

    def short(self, text: str, limit: int, what: str) -> bool:
        """Whether a string, as long as browsers count it in UTF-16 units, is no longer than the limit."""
        length = len(text) if text.isascii() else len(text.encode("utf-16-le", "surrogatepass")) // 2
        if length > limit:
            self.error(f"{what} ({length} > {limit})")
        return length <= limit


Reader = Callable[[Json], T | None]
ABSENT: Any = object()


def _typed(name: str) -> Reader[Any]:
    return lambda j: j.value if j.typed(name) else None


string: Reader[str] = _typed("a string")
boolean: Reader[bool] = _typed("a boolean")
number: Reader[float] = _typed("a number")


def whole(low: float = -INFINITY, high: float = INFINITY, message: str | None = None) -> Reader[int]:
    """A whole number in the range; 2.0 is whole."""

    def read(j: Json) -> int | None:
        n = number(j)
        if isinstance(n, float) and not n.is_integer():
            return j.error("must be an integer")
        return None if n is None else j.within(int(n), low, high, message)

    return read


positive = whole(1, INFINITY, "must be positive")
contribution_value = whole(1, 65_536)


def _string_that(holds: Callable[[str], object], message: str) -> Reader[str]:
    def read(j: Json) -> str | None:
        text = string(j)
        return text if text is None or holds(text) else j.error(message)

    return read


def short_string(limit: int, what: str) -> Reader[str]:

    def read(j: Json) -> str | None:
        text = string(j)
        return text if text is not None and j.short(text, limit, what) else None

    return read


def like(pattern: str, what: str) -> Reader[str]:
    return _string_that(re.compile(pattern, re.ASCII).fullmatch, f"{what} (must match /^{pattern}$/)")


def one_of(*allowed: str) -> Reader[str]:
    message = f"must be one of the following (case-sensitive): {', '.join(allowed)}"
    return _string_that(allowed.__contains__, message)


_digits = like("[0-9]+", "string must represent a non-negative integer")
_signed_digits = like("-?[0-9]+", "string must represent an integer")
_hexadecimal = like("0[xX][0-9A-Fa-f]{1,32}", "must be a hex128")


def _whole_in(digits: Reader[str], low: float, high: float, message: str | None = None) -> Reader[int]:
    """A whole number in a string; above 20 digits it is 10²⁰, since all beyond 64 bits is refused anyway."""

    def read(j: Json) -> int | None:
        if (text := digits(j)) is None:
            return None
        bare = text.removeprefix("-").lstrip("0")
        size = int(bare or "0") if len(bare) <= 20 else 10**20
        return j.within(-size if text[0] == "-" else size, low, high, message)

    return read


uint = _whole_in(_digits, 0, INFINITY)
uint64 = _whole_in(_digits, 0, 2**64 - 1, "must fit in an unsigned 64-bit integer")
int64 = _whole_in(_signed_digits, -(2**63), 2**63 - 1, "must fit in a signed 64-bit integer")


def hex128(j: Json) -> int | None:
    text = _hexadecimal(j)
    return None if text is None else int(text, 16)


def one_or_list(names: tuple[str, str], one: Reader[T], several: Reader[tuple[T, ...]]) -> Reader[tuple[T, ...]]:
    """One value, or a list of them; `names` are those of both types."""

    def read(j: Json) -> tuple[T, ...] | None:
        if not j.typed(*names):
            return None
        if j.is_a("a list"):
            return several(j)
        value = one(j)
        return None if value is None else (value,)

    return read


def each(read: Reader[T], low: int = 0, high: float = INFINITY, stop: bool = False) -> Reader[tuple[T, ...]]:
    """A list's items; with `stop`, what follows a refused item is not read, where it would only be refused in turn."""

    def read_all(j: Json) -> tuple[T, ...] | None:
        if not j.typed("a list") or not j.sized(len(j.value), low, high):
            return None
        faults, items = j.findings.faults, []
        for i, item in enumerate(j.value):
            value = read(j.at(i, item))
            if value is not None:
                items.append(value)
            elif stop:
                return None
        return tuple(items) if j.findings.faults == faults else None

    return read_all


def distinct(read: Reader[T], low: int = 0, high: float = INFINITY, strict: bool = False) -> Reader[tuple[T, ...]]:
    """A list's distinct items in order; one that stands twice gives a warning, or with `strict` an error."""

    def read_all(j: Json) -> tuple[T, ...] | None:
        if not j.typed("a list"):
            return None
        faults, items = j.findings.faults, dict[T, None]()
        for i, item in enumerate(j.value):
            place = j.at(i, item)
            value = read(place)
            if value is None:
                continue
            if value in items:
                (place.error if strict else place.warning)(f"duplicate value {value}")
            items[value] = None
        if j.findings.faults > faults or not j.sized(len(items), low, high):
            return None
        return tuple(items)

    return read_all


def entries(read: Reader[T], most: float = INFINITY) -> Reader[dict[str, T]]:

    def read_all(j: Json) -> dict[str, T] | None:
        if not j.typed("an object"):
            return None
        if len(j.value) > most:
            return j.error(f"exceeds the maximum number of keys ({most})")
        faults, made = j.findings.faults, dict[str, T]()
        for key, item in j.value.items():
            value = read(j.at(key, item))
            if value is not None:
                made[key] = value
        return made if j.findings.faults == faults else None

    return read_all


def short_keyed(limit: int, what: str, read: Reader[T]) -> Reader[T]:
    """An entry whose key is no longer than the limit."""
    return lambda j: read(j) if j.short(j.key, limit, what) else None


class Fields:
    """An object with known keys, each taken once, and the `values` that they were read to."""

    __slots__ = ("j", "values")

    def __init__(self, j: Json) -> None:
        self.j, self.values = j, Record()

    def take(self, name: str, read: Reader[T], default: object = None) -> Any:
        """What a key holds, read; the default where it is absent, None where it is refused."""
        value = self.j.value.pop(name, ABSENT)
        return default if value is ABSENT else read(self.j.at(name, value))


Field = Callable[[Fields, str], Any]


def required(read: Reader[Any]) -> Field:
    """A key whose absence is an error."""
    return lambda f, name: f.take(name, read) if name in f.j.value else f.j.at(name, None).error("required")


def optional(read: Reader[Any], default: object = None) -> Field:
    return lambda fields, name: fields.take(name, read, default)


def given(earlier: str, read: Callable[[Any, Json], object], default: object = None) -> Field:
    """A key that is read in the light of an earlier one's value."""
    return lambda fields, name: fields.take(name, partial(read, fields.values[earlier]), default)


def lenient(read: Reader[Any], default: object = None) -> Field:
    """A key that holds the default where it is refused, which is then only a warning."""

    def field(fields: Fields, name: str) -> Any:
        found = fields.j.findings
        soft, faults, found.soft = found.soft, found.faults, True
        value = fields.take(name, read, default)
        refused, found.soft, found.faults = found.faults > faults, soft, faults
        return default if refused else value

    return field


def record(make: Callable[..., T], **known: Field) -> Reader[T]:
    """What is made of an object's fields, which are read in this order; what is left over gives a warning each."""

    def read(j: Json) -> T | None:
        if not j.typed("an object"):
            return None
        fields, faults = Fields(j), j.findings.faults
        for name, take in known.items():
            fields.values[name] = take(fields, name)
        for name in j.value:
            j.at(name, None).warning("unknown field")
        return make(**fields.values) if j.findings.faults == faults else None

    return read


def coordinator(allowed: tuple[str, ...]) -> Field:
    """The origin of the aggregation service's key server; by default the first."""

    def read(j: Json) -> str | None:
        url = address(j)
        if url is None:
            return None
        if url.more_than_origin:
            j.warning(f"URL components other than origin ({url.origin}) will be ignored")
        return url.origin if url.origin in allowed else j.error(f"must be one of the following: {', '.join(allowed)}")

    return optional(read, allowed[0])


def address(j: Json) -> Url | None:
    text = string(j)
    if text is None:
        return None
    url = parse_url(text)
    hint = f"got {brief(text)}: write an address as in https://shop.example"
    if url is None:
        j.error("invalid URL", hint)
    elif not url.trustworthy:
        return j.error("URL must use HTTP/HTTPS and be potentially trustworthy", hint)
    return url


def parsed(text: str, read: Reader[T]) -> Parsed[T]:
    """What a text means, with its findings; a value with an error is refused."""
    findings = Findings()
    j = load(text, findings)
    value = None if findings.errors else read(j)
    whole = None if findings.errors else value
    return Parsed(whole, tuple(findings.errors), tuple(findings.warnings), tuple(findings.notes), findings.limit)


LONGEST_INT = 20  # digits; every number a registration may hold is shorter


def load(text: str, findings: Findings) -> Json:
    """The JSON's value; an error is found where there is none. Numbers may be huge, keys may stand twice."""
    twice: list[str] = []

    def entries(items: list[tuple[str, Any]]) -> Record:
        whole = dict(items)
        if len(whole) < len(items):
            times = Counter(key for key, _ in items)
            twice.append(next(key for key, count in times.items() if count > 1))
        return whole

    try:
        value = json.JSONDecoder(object_pairs_hook=entries, parse_int=_integer, parse_constant=_refuse).decode(text)
        if twice:
            findings.warning((), f"the key {json.dumps(twice[0])} is duplicated in one object; the last one counts")
        if "\\u" in text or not text.isascii():
            json.dumps(value, ensure_ascii=False).encode()  # half a surrogate pair cannot be sent on
        return Json(value, (), findings)
    except UnicodeEncodeError:
        findings.error((), "has half of a surrogate pair in a string")
    except RecursionError:
        findings.error((), "is nested too deeply")
    except ValueError as error:
        findings.error((), f"is not JSON: {error}")
    return Json(None, (), findings)


def _integer(digits: str) -> int | float:
    # A number of millions of digits takes minutes to convert; to a browser all of them are doubles.
    return int(digits) if len(digits) <= LONGEST_INT else float(digits)


def _refuse(word: str) -> None:
    raise ValueError(f"{word} is not a number")
