"""User errors, and failures that may pass.

Messages name arguments in backticks, as in `no_totals` or `levels=region,store`. Commands show them as their options.
"""

import reprlib
from collections.abc import Iterable
from difflib import get_close_matches
from itertools import islice
from json import JSONDecodeError
from typing import Any


class ShortLinesError(Exception):
    """An error whose lines are short, whatever they quote from the user's data."""

    def __str__(self) -> str:
        return "\n".join(map(shortened, super().__str__().split("\n")))


class InputError(ShortLinesError, ValueError):
    """The user's data or options are wrong: one line with the rule, the value and the remedy."""


class PrivacyRefusal(InputError):  # noqa: N818, it says what it is
    """What would reveal more than was promised, as a second answer would: no other option makes it right."""


class QuestionError(InputError):
    """What only the user knows: a question, and the options of a call that answers it."""

    def __init__(self, question: str, **options: str) -> None:
        example = ", ".join(f"`{name}={value}`" for name, value in options.items())
        super().__init__(f"{question} For example {example}")
        self.question, self.options = question, options


class TryAgain(ShortLinesError):  # noqa: N818, it says what to do
    """The machine could not do it now (memory, disk, a service that does not start): the same call may work later."""


def shortened(line: str, limit: int = 1000) -> str:
    """A very long line without its middle: the rule is at its beginning, the remedy at its end."""
    return line if len(line) <= limit else f"{line[: limit // 2 - 1]} … {line[2 - limit // 2 :]}"


def brief(value: object, limit: int = 60) -> str:
    """The value as a message shows it: short, and quick to make, however large or deep the value is."""
    text = _BRIEF.repr(value)
    return text if len(text) <= limit else text[: limit - 1] + "…"


def did_you_mean(name: str, names: Iterable[str]) -> str:
    """A question in a message, with a blank behind it, where one of the names is nearly this one."""
    close = get_close_matches(name, list(names), 1)
    return f"did you mean {close[0]!r}? " if close else ""


def first_few(names: Iterable[str], most: int = 12) -> str:
    """The first of some names, and how many more there are."""
    every = list(names)
    return ", ".join(every[:most]) + (f" and {len(every) - most} more" if len(every) > most else "")


def why_not_json(error: Exception) -> str:
    """Says what `json.loads` refused, without Python's own wording."""
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
    """The text with line breaks, escapes and the like spelt out."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in words)
