"""What went wrong, by who can mend it: the user, or the machine with time."""

import re
import reprlib
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from itertools import islice
from json import JSONDecodeError
from typing import Any

OPTION = re.compile(r"(`[^`]*`)|(?<![\w'\"-])--([a-z][a-z-]*)")  # commands, which stay as they are, and options
_commands: ContextVar[bool] = ContextVar("commands", default=False)


@contextmanager
def on_command_line() -> Iterator[None]:
    """Within it, errors name options as commands have them."""
    token = _commands.set(True)
    try:
        yield
    finally:
        _commands.reset(token)


class NamesOptions(Exception):  # noqa: N818, it is a kind of them
    """Is written with options, as in --no-totals; whoever calls from Python reads `no_totals`."""

    def __str__(self) -> str:
        words = "\n".join(map(shortened, super().__str__().split("\n")))  # whatever of the user's is in them
        return words if _commands.get() else OPTION.sub(_as_argument, words)


def _as_argument(found: re.Match[str]) -> str:
    return found[1] or f"`{found[2].replace('-', '_')}`"


class InputError(NamesOptions, ValueError):
    """The user's data or options are wrong: one line with the rule, the value and the remedy."""


class TryAgain(NamesOptions):
    """The machine could not do it now (memory, disk, a service that does not start): the same call may work later."""


def shortened(line: str, most: int = 1000) -> str:
    """A line without its middle, if it is very long; the rule is at its beginning, the remedy at its end."""
    return line if len(line) <= most else f"{line[: most // 2 - 1]} … {line[2 - most // 2 :]}"


def brief(value: object, most: int = 60) -> str:
    """A value from outside as it may stand in a message: short, and quick to make, however large or deep it is."""
    words = _BRIEF.repr(value)
    return words if len(words) <= most else words[: most - 1] + "…"


def why_not_json(error: Exception) -> str:
    """What `json.loads` found wrong, in words that are not Python's own."""
    if isinstance(error, RecursionError):
        return "it is nested too deeply"
    return str(error) if isinstance(error, JSONDecodeError | UnicodeError) else "a number has thousands of digits"


class _Brief(reprlib.Repr):
    def __init__(self) -> None:
        super().__init__()
        self.maxlevel, self.maxstring, self.maxother = 2, 100, 100
        self.maxdict = self.maxlist = self.maxtuple = self.maxset = self.maxfrozenset = 3

    def repr_str(self, value: str, level: int) -> str:
        return repr(value[: self.maxstring])

    def repr_bytes(self, value: bytes, level: int) -> str:
        return repr(value[: self.maxstring])

    def repr_int(self, value: int, level: int) -> str:
        return repr(value) if value.bit_length() < 256 else f"a whole number of {value.bit_length()} bits"

    def repr_dict(self, value: dict[Any, Any], level: int) -> str:  # as they come: sorting could take any time
        if level <= 0 and value:
            return "{...}"
        some = [f"{self.repr1(k, level - 1)}: {self.repr1(v, level - 1)}" for k, v in islice(value.items(), 3)]
        return "{" + ", ".join(some + ["..."] * (len(value) > len(some))) + "}"


_BRIEF = _Brief()


def one_line(words: str) -> str:
    """The words with line breaks, escapes and the like spelt out."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in words)
