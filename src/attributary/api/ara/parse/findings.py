"""findings: JSON as a browser reads it, and what is wrong with a registration or odd about it, each with its path."""

import json
from collections import Counter
from dataclasses import dataclass, field
from typing import Any, Generic, NamedTuple, TypeVar

Path = tuple[str | int, ...]
LONGEST, LONGEST_KEY = 300, 60  # characters of a message, and of a key in its path
T = TypeVar("T")


def printable(text: str, most: int = LONGEST) -> str:
    """A text that may stand in a message: bounded, on one line."""
    shown = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text[: most + 1])
    return shown if len(shown) <= most else shown[: most - 1] + "…"


class Issue(NamedTuple):
    """One finding, and where it is."""

    path: Path
    message: str

    def __str__(self) -> str:
        keys = (f"[{key}]" if isinstance(key, int) else f".{printable(key, LONGEST_KEY)}" for key in self.path)
        where = "".join(keys).removeprefix(".")
        return f"{where}: {printable(self.message)}" if where else printable(self.message)


class _Hinted(Issue):
    """A finding that is shown with a hint."""

    hint: str

    def __new__(cls, path: Path, message: str, hint: str) -> "_Hinted":
        issue = super().__new__(cls, path, message)
        issue.hint = hint
        return issue

    def __str__(self) -> str:
        return f"{super().__str__()}; {self.hint}"


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
        (self.warnings if self.soft else self.errors).append(
            _Hinted(path, message, hint) if hint else Issue(path, message)
        )

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
    """A registration, or None where it is refused; and what was found.

    `limit` is the API's name of the limit that a source's event-level reports exceed, where it is refused for that.
    """

    value: T | None
    errors: tuple[Issue, ...] = ()
    warnings: tuple[Issue, ...] = ()
    notes: tuple[Issue, ...] = ()
    limit: str | None = None


def parsed(value: T | None, findings: Findings) -> Parsed[T]:
    """The value with its findings; a value with an error is refused."""
    whole = None if findings.errors else value
    return Parsed(whole, tuple(findings.errors), tuple(findings.warnings), tuple(findings.notes), findings.limit)


LONGEST_INT = 20  # digits; every number a registration may hold is shorter


def load(text: str, findings: Findings) -> Any:
    """The JSON's value, or None with an error found; numbers may be huge, keys may stand twice, nothing may be NaN."""
    try:
        try:
            value = ONCE.decode(text)
        except _TwiceError as error:
            value = LAST.decode(text)
            findings.warning((), f"the key {json.dumps(error.key)} is duplicated in one object; the last one counts")
        if "\\u" in text or not text.isascii():
            json.dumps(value, ensure_ascii=False).encode()  # half a surrogate pair cannot be sent on
        return value
    except UnicodeEncodeError:
        findings.error((), "has half of a surrogate pair in a string")
    except RecursionError:
        findings.error((), "is nested too deeply")
    except ValueError as error:
        findings.error((), f"is not JSON: {error}")
    return None


class _TwiceError(Exception):
    def __init__(self, key: str) -> None:
        self.key = key


def _once(items: list[tuple[str, Any]]) -> dict[str, Any]:
    whole = dict(items)
    if len(whole) < len(items):
        times = Counter(key for key, _ in items)
        raise _TwiceError(next(key for key, count in times.items() if count > 1))
    return whole


def _integer(digits: str) -> int | float:
    # A number of millions of digits takes minutes to convert; to a browser all of them are doubles.
    return int(digits) if len(digits) <= LONGEST_INT else float(digits)


def _refuse(word: str) -> None:
    raise ValueError(f"{word} is not a number")


def _decoder(pairs: Any) -> json.JSONDecoder:
    return json.JSONDecoder(object_pairs_hook=pairs, parse_int=_integer, parse_constant=_refuse)


ONCE, LAST = _decoder(_once), _decoder(dict)
