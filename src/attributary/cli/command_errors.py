"""Command errors: what ended a command, as a line for standard error and a code for the shell."""

import errno
import io
import os
import re
import sys
from collections.abc import Iterator
from typing import Any, NamedTuple

import click

from attributary import __version__
from attributary.errors import InputError, PrivacyRefusal, TryAgain, one_line, shortened
from attributary.whole_files import written

LONGEST = 2000  # characters of a message: a file may hold anything
FULL = {errno.ENOSPC, errno.EDQUOT}
SCARCE = {errno.ENOMEM, errno.EMFILE, errno.ENFILE}
ARGUMENT = re.compile(r"(?<![\w'\"])`([a-z]\w*)(?:=([^`]+))?`")  # as library messages name one: `levels=region,store`
SAYS_FULL = ("No space left on device", "Disk quota exceeded")  # of libraries that keep the number to themselves


def with_options(message: str, command: click.Command | None) -> str:
    """The message with arguments as options of the command: `levels=region,store` reads --levels region,store.

    An argument is an option's parameter, or called like the option. Others stay as they are.
    """
    options: dict[str, str] = {}
    for option in command.params if command else ():
        if isinstance(option, click.Option):
            names = [option.name or "", *(name.lstrip("-").replace("-", "_") for name in option.opts)]
            options |= dict.fromkeys(names, option.opts[0])

    def named(argument: re.Match[str]) -> str:
        name, value = argument.groups()
        return argument[0] if name not in options else options[name] if value is None else f"{options[name]} {value}"

    return ARGUMENT.sub(named, message)


class End(NamedTuple):
    code: int
    message: str = ""


def end_of(error: BaseException) -> End:
    """The code and the line of an error; an empty line where there is nothing to say."""
    match error:
        case click.exceptions.Exit():
            end = End(error.exit_code)
        case KeyboardInterrupt() | click.Abort() | EOFError():
            names = list(dict.fromkeys(written))
            more = f" and {len(names) - 3:,} more" if len(names) > 3 else ""
            said = f"already written: {', '.join(names[:3])}{more}" if names else "nothing was written"
            end = End(130, f"interrupted; {said}")
        case BrokenPipeError():  # the reader has had enough, as `head` does
            end = End(141)
        case SystemExit() if isinstance(error.__context__, BrokenPipeError):  # so says Rich, of tables
            end = End(141)
        case TryAgain():
            end = End(75, f"not now: {error}")
        case _ if scarce := _scarce(error):
            end = End(75, f"not now: {error if isinstance(error, InputError) else scarce}{REMEDY}")
        case PrivacyRefusal():
            end = End(77, f"error: {error}")
        case InputError():
            end = End(2, f"error: {error}")
        case click.ClickException():
            end = End(2, f"error: {_of_click(error)}")
        case RecursionError():
            end = End(2, "error: an input is nested too deeply to be read; give a flatter one")
        case UnicodeEncodeError():  # file names that are not UTF-8, and labels that no text can hold
            end = End(2, f"error: names and labels are UTF-8 text; got {error.object[:80]!r}: rename it")
        case _:
            end = End(1, f"internal error in attributary {__version__}: {type(error).__name__}: {error}{BUG}")
    return end


def bare(message: str) -> str:
    """The line under a key `error`, which need not say that it is one."""
    return one_line(message.removeprefix("error: "))


BUG = "; set ATTRIBUTARY_DEBUG=1 to see where, and please report it"
REMEDY = "; make room, or choose another place, and run it again"


def _scarce(error: BaseException) -> str:
    """What the machine had too little of, in words; nothing if that was not why."""
    for cause in _causes(error):
        if isinstance(cause, MemoryError) or type(cause).__name__ == "OutOfMemoryException":  # DuckDB's
            return "there is not enough memory"
        number = cause.errno if isinstance(cause, OSError) else None
        if number in FULL or any(words in str(cause)[:LONGEST] for words in SAYS_FULL):
            return "the disk is full, or its quota is used up"
        if number in SCARCE:
            return f"the machine is short of what is needed ({os.strerror(number or 0)})"
    return ""


def _causes(error: BaseException) -> Iterator[BaseException]:
    """The error and those that it was made of, also where `from None` hides them from the reader."""
    seen: set[int] = set()
    cause: BaseException | None = error
    while cause is not None and id(cause) not in seen:
        seen.add(id(cause))
        yield cause
        cause = cause.__cause__ or cause.__context__


def _of_click(error: click.ClickException) -> str:
    """click's words as one line of ours, with where to look."""
    words = shortened(" ".join(error.format_message().split()).rstrip("."), 800)
    ctx = getattr(error, "ctx", None)
    command = ctx.command_path if ctx is not None else "attributary"
    words = words.replace(". Did you mean", "; did you mean")
    return f"{words[:1].lower()}{words[1:]}{'' if words.endswith('?') else ';'} see `{command} --help`"


class Closed(io.RawIOBase):
    """In the place of a stream that is not there: the first use of it is refused in words."""

    def __init__(self, name: str) -> None:
        self.called = name

    def readable(self) -> bool:
        return True

    def writable(self) -> bool:
        return True

    def readinto(self, buffer: object, /) -> int:
        raise InputError(f"standard {self.called} is closed; open it, or give a file")

    write = readinto


def stand_in() -> None:
    """Puts something in the place of closed streams; else the next file that is opened would become one of them."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the least number that is free: this one
    for stream, name in (("stdin", "input"), ("stdout", "output")):
        if getattr(sys, stream) is None:
            raw: Any = Closed(name)
            setattr(sys, stream, io.TextIOWrapper(raw, encoding="utf-8", write_through=True))
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115, it stays open to the end
