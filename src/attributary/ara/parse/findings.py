"""Findings: what is wrong with a registration, or odd about it, each with its path in the JSON."""

from dataclasses import dataclass, field
from typing import Generic, NamedTuple, TypeVar

Path = tuple[str | int, ...]
T = TypeVar("T")


class Issue(NamedTuple):
    """One finding, and where it is."""

    path: Path
    message: str

    def __str__(self) -> str:
        where = "".join(f"[{key}]" if isinstance(key, int) else f".{key}" for key in self.path).removeprefix(".")
        return f"{where}: {self.message}" if where else self.message


@dataclass(slots=True)
class Findings:
    """What was found so far; while `soft`, errors are told as warnings, for parts that may be wrong without harm."""

    errors: list[Issue] = field(default_factory=list)
    warnings: list[Issue] = field(default_factory=list)
    notes: list[Issue] = field(default_factory=list)
    soft: bool = False
    faults: int = 0  # errors, soft ones included: a part is whole where none came while it was read

    def error(self, path: Path, message: str) -> None:
        self.faults += 1
        (self.warnings if self.soft else self.errors).append(Issue(path, message))

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


def parsed(value: T | None, found: Findings) -> Parsed[T]:
    """The value with its findings; a value with an error is refused."""
    whole = None if found.errors else value
    return Parsed(whole, tuple(found.errors), tuple(found.warnings), tuple(found.notes))
