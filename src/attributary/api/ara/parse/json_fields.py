"""JSON as browsers read it: each value of a registration read and checked, and what was found, with its path.

A reader takes a value with its place in the text, and gives what it means; where it finds an error, it raises Refused.
What holds several values reads all of them first, so that all errors are found at once.
"""

import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from operator import methodcaller
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


class Refused(Exception):  # noqa: N818
    """A value is refused; the errors are among the findings."""


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
    limit: str | None = None

    def exceeds(self, limit: str, message: str) -> None:
        """Find a source that exceeds a limit of its event-level reports; the API's name of the first stays."""
        self.limit = self.limit or f"source-{limit}-limit"
        self.errors.append(Issue((), message))

    def warning(self, path: Path, message: str) -> None:
        self.warnings.append(Issue(path, message))

    def note(self, message: str) -> None:
        self.notes.append(Issue((), message))


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

    def error(self, message: str, hint: str = "") -> Refused:
        """Find an error, in the words that browsers have for it, and in ours what was there and what to write."""
        found = self.findings
        (found.warnings if found.soft else found.errors).append(Issue(self.path, message, hint))
        return Refused()

    def warning(self, message: str) -> None:
        self.findings.warning(self.path, message)

    def at(self, key: str | int, value: object = None) -> "Json":
        return Json(value, (*self.path, key), self.findings)

    def places(self) -> Iterator["Json"]:
        """What a list or an object holds, each in its place."""
        items = self.value.items() if self.is_a("an object") else enumerate(self.value)
        return (self.at(key, value) for key, value in items)

    @property
    def key(self) -> str:
        return str(self.path[-1])

    def is_a(self, name: str) -> bool:
        """Whether the value is of the type with this name; true is not a number."""
        return type(self.value) in NAMES[name]

    def typed(self, *names: str) -> Any:
        """The value, which is of one of the types."""
        for name in names:
            if self.is_a(name):
                return self.value
        raise self.error(f"must be {' or '.join(names)}")

    def within(self, n: N, low: float, high: float, message: str | None = None) -> N:
        """The number, which lies in the range."""
        if not low <= n <= high:
            raise self.error(message or f"must be in the range [{low}, {high}]")
        return n

    def clamp(self, n: int, low: int, high: int, why: str) -> int:
        """The number, or the end of the range that it lies beyond, with a warning."""
        if n < low:
            self.warning(f"will be clamped to min of {low}")
        elif n > high:
            self.warning(f"will be clamped to max of {high}{why}")
        return min(max(n, low), high)

    def needs(self, name: str, value: T | None) -> T:
        """The value of an earlier key that this one is checked against; None stands for one that was refused."""
        if value is None:
            raise self.error(f"cannot be fully validated without a valid {name}")
        return value

    def sized(self, size: int, low: int, high: float) -> None:
        if not low <= size <= high:
            end = "Infinity" if high == INFINITY else high
            raise self.error(f"length must be in the range [{low}, {end}]", f"got {size}")

    def short(self, text: str, limit: int, what: str) -> str:
        """The text, which is no longer than the limit, as browsers count it: in UTF-16 units."""
        length = len(text) if text.isascii() else len(text.encode("utf-16-le", "surrogatepass")) // 2
        if length > limit:
            raise self.error(f"{what} ({length} > {limit})")
        return text


Reader = Callable[[Json], T]


string: Reader[str] = methodcaller("typed", "a string")
number: Reader[float] = methodcaller("typed", "a number")
boolean: Reader[bool] = methodcaller("typed", "a boolean")


def whole(low: float = -INFINITY, high: float = INFINITY, message: str | None = None) -> Reader[int]:
    """A whole number in the range; 2.0 is whole."""

    def read(j: Json) -> int:
        n = number(j)
        if isinstance(n, float) and not n.is_integer():
            raise j.error("must be an integer")
        return j.within(int(n), low, high, message)

    return read


positive = whole(1, INFINITY, "must be positive")
contribution_value = whole(1, 65_536)


def _string_that(holds: Callable[[str], object], message: str) -> Reader[str]:
    def read(j: Json) -> str:
        if not holds(text := string(j)):
            raise j.error(message)
        return text

    return read


def short_string(limit: int, what: str) -> Reader[str]:
    return lambda j: j.short(string(j), limit, what)


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

    def read(j: Json) -> int:
        text = digits(j)
        bare = text.removeprefix("-").lstrip("0")
        size = int(bare or "0") if len(bare) <= 20 else 10**20
        return j.within(-size if text[0] == "-" else size, low, high, message)

    return read


uint = _whole_in(_digits, 0, INFINITY)
uint64 = _whole_in(_digits, 0, 2**64 - 1, "must fit in an unsigned 64-bit integer")
int64 = _whole_in(_signed_digits, -(2**63), 2**63 - 1, "must fit in a signed 64-bit integer")


def hex128(j: Json) -> int:
    return int(_hexadecimal(j), 16)


def address(j: Json) -> Url:
    text = string(j)
    url, hint = parse_url(text), f"got {brief(text)}: write an address as in https://shop.example"
    if url is None:
        raise j.error("invalid URL", hint)
    if not url.trustworthy:
        raise j.error("URL must use HTTP/HTTPS and be potentially trustworthy", hint)
    return url


def one_or_list(names: tuple[str, str], one: Reader[T], several: Reader[tuple[T, ...]]) -> Reader[tuple[T, ...]]:
    """One value, or a list of them; `names` are those of both types."""

    def read(j: Json) -> tuple[T, ...]:
        j.typed(*names)
        return several(j) if j.is_a("a list") else (one(j),)

    return read


def _every(places: Iterable[Json], read: Reader[T], stop: bool = False) -> list[T]:
    """What all places hold; refused once all are read, or with `stop` at the first that is."""
    values, refused = list[T](), False
    for place in places:
        try:
            values.append(read(place))
        except Refused:
            refused = True
            if stop:
                break
    if refused:
        raise Refused
    return values


def each(read: Reader[T], low: int = 0, high: float = INFINITY, stop: bool = False) -> Reader[tuple[T, ...]]:
    """A list's items; with `stop`, what follows a refused item is not read, where it would only be refused in turn."""

    def read_all(j: Json) -> tuple[T, ...]:
        j.sized(len(j.typed("a list")), low, high)
        return tuple(_every(j.places(), read, stop))

    return read_all


def distinct(read: Reader[T], low: int = 0, high: float = INFINITY, strict: bool = False) -> Reader[tuple[T, ...]]:
    """A list's distinct items in order; one that stands twice gives a warning, or with `strict` an error."""

    def read_all(j: Json) -> tuple[T, ...]:
        j.typed("a list")
        items = dict[T, None]()

        def item(place: Json) -> None:
            if (value := read(place)) in items:
                words = f"duplicate value {value}"
                if strict:
                    raise place.error(words)
                place.warning(words)
            items[value] = None

        _every(j.places(), item)
        j.sized(len(items), low, high)
        return tuple(items)

    return read_all


def entries(read: Reader[T], most: float = INFINITY) -> Reader[dict[str, T]]:

    def read_all(j: Json) -> dict[str, T]:
        if len(j.typed("an object")) > most:
            raise j.error(f"exceeds the maximum number of keys ({most})")
        return dict(zip(j.value, _every(j.places(), read), strict=True))

    return read_all


def short_keyed(limit: int, what: str, read: Reader[T]) -> Reader[T]:
    """An entry whose key is no longer than the limit."""

    def keyed(j: Json) -> T:
        j.short(j.key, limit, what)
        return read(j)

    return keyed


class Fields:
    """An object with known keys, each taken once, and the `values` that they were read to."""

    __slots__ = ("j", "refused", "values")

    def __init__(self, j: Json) -> None:
        self.j, self.values, self.refused = j, Record(), False

    def take(self, name: str, read: Reader[T], default: object = None) -> Any:
        """What a key holds, read; the default where it is absent, None where it is refused."""
        if name not in self.j.value:
            return default
        try:
            return read(self.j.at(name, self.j.value.pop(name)))
        except Refused:
            self.refused = True
            return None

    def refuse(self, j: Json, message: str) -> None:
        """Finds an error of the object or of one of its keys, and goes on with the others."""
        j.error(message)
        self.refused = True

    def whole(self) -> None:
        """Refuses the object if one of its keys was refused."""
        if self.refused:
            raise Refused


Field = Callable[[Fields, str], Any]


def optional(read: Callable[..., Any], default: object = None, after: str = "") -> Field:
    """A key that may be absent; one that comes `after` another is read in the light of its value."""

    def field(fields: Fields, name: str) -> Any:
        return fields.take(name, (lambda j: read(fields.values[after], j)) if after else read, default)

    return field


def required(read: Callable[..., Any], after: str = "") -> Field:
    """A key whose absence is an error."""
    taken = optional(read, after=after)

    def field(fields: Fields, name: str) -> Any:
        if name not in fields.j.value:
            fields.refuse(fields.j.at(name), "required")
        return taken(fields, name)

    return field


def lenient(read: Reader[Any], default: object = None) -> Field:
    """A key that holds the default where it is refused, which is then only a warning."""

    def forgiving(j: Json) -> Any:
        j.findings.soft = True
        try:
            return read(j)
        except Refused:
            return default
        finally:
            j.findings.soft = False

    return optional(forgiving, default)


def record(make: Callable[..., T], **known: Field) -> Reader[T]:
    """What is made of an object's fields, which are read in this order; what is left over gives a warning each."""

    def read(j: Json) -> T:
        j.typed("an object")
        fields = Fields(j)
        for name, take in known.items():
            fields.values[name] = take(fields, name)
        for name in j.value:
            j.at(name).warning("unknown field")
        fields.whole()
        return make(**fields.values)

    return read


def parsed(text: str, read: Reader[T]) -> Parsed[T]:
    """What a text means, with its findings; a value with an error is refused."""
    findings, value = Findings(), None
    with suppress(Refused):
        value = read(_load(text, findings))
    whole = None if findings.errors else value
    return Parsed(whole, tuple(findings.errors), tuple(findings.warnings), tuple(findings.notes), findings.limit)


LONGEST_INT = 20  # digits; every number a registration may hold is shorter


def _load(text: str, findings: Findings) -> Json:
    """The JSON's value. Numbers may be huge, keys may stand twice."""
    twice: list[str] = []

    def entries(items: list[tuple[str, Any]]) -> Record:
        whole = dict(items)
        if len(whole) < len(items):
            times = Counter(key for key, _ in items)
            twice.append(next(key for key, count in times.items() if count > 1))
        return whole

    place = Json(None, (), findings)
    try:
        value = json.JSONDecoder(object_pairs_hook=entries, parse_int=_integer, parse_constant=_refuse).decode(text)
        if twice:
            place.warning(f"the key {json.dumps(twice[0])} is duplicated in one object; the last one counts")
        if "\\u" in text or not text.isascii():
            json.dumps(value, ensure_ascii=False).encode()  # half a surrogate pair cannot be sent on
        return Json(value, (), findings)
    except UnicodeEncodeError:
        raise place.error("has half of a surrogate pair in a string") from None
    except RecursionError:
        raise place.error("is nested too deeply") from None
    except ValueError as error:
        raise place.error(f"is not JSON: {error}") from None


def _integer(digits: str) -> int | float:
    # A number of millions of digits takes minutes to convert; to a browser all of them are doubles.
    return int(digits) if len(digits) <= LONGEST_INT else float(digits)


def _refuse(word: str) -> None:
    raise ValueError(f"{word} is not a number")
