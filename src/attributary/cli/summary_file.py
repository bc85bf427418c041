"""Summary file: with --summary FILE.json a command also writes all that it prints, as data.

Every command has the option, and none needs to know: what is printed goes through `printing`, which notes it here. A
command adds what its lines say as figures with `fact`.
"""

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, fields, is_dataclass
from functools import wraps
from math import isfinite, isnan
from typing import Any

import click

from attributary import __version__
from attributary.errors import InputError
from attributary.whole_files import save, written

HELP = "Also write all that is printed to this file, as JSON; - is standard output."


@dataclass
class SummaryFile:
    """What a command prints: lines, tables and, by name, the figures in them."""

    path: str
    command: str
    muted: bool  # nothing is to be printed, but for what is not private
    facts: dict[str, Any] = field(default_factory=dict)
    messages: list[str] = field(default_factory=list)
    tables: list[dict[str, Any]] = field(default_factory=list)
    done: bool = False

    def write(self) -> None:
        """Writes the file, once; a command that never ends by itself calls this when it has printed all."""
        if self.done:
            return
        self.done = True
        paths = [path for path in dict.fromkeys(written) if os.path.exists(path)]
        said = {
            "command": self.command,
            "version": __version__,
            **self.facts,
            "tables": self.tables,
            "messages": self.messages,
            "written": paths,
        }
        save(json.dumps(as_json(said), ensure_ascii=False, indent=2, allow_nan=False) + "\n", self.path)


_current: ContextVar[SummaryFile | None] = ContextVar("summary", default=None)


def current() -> SummaryFile | None:
    """The summary of the command that runs, if one is wanted."""
    return _current.get()


def fact(name: str, value: Any) -> None:
    """Notes a figure, or several, under a name; several values of one name make a list."""
    summary = current()
    if summary is None:
        return
    if name in summary.facts:
        before = summary.facts[name]
        summary.facts[name] = [*(before if isinstance(before, list) else [before]), value]
    else:
        summary.facts[name] = value


def with_summary(command: click.Command) -> click.Command:
    """The command with the option --summary."""
    if any(parameter.name == "summary" for parameter in command.params):
        return command
    option = click.Option(["--summary"], metavar="FILE", help=HELP)
    last = next((i for i, one in enumerate(command.params) if one.name == "quiet"), len(command.params))
    command.params.insert(last, option)
    callback = command.callback
    assert callback is not None

    @wraps(callback)
    def with_file(*, summary: str | None, **params: Any) -> Any:
        if summary is None:
            return callback(**params)
        with _collected(command.name or "", summary, params) as given:
            return callback(**given)

    command.callback = with_file
    return command


@contextmanager
def _collected(command: str, path: str, params: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Notes what a command prints, and writes it at the end; gives the command's parameters."""
    _check(path, params)
    summary = SummaryFile(path, command, bool(params.get("quiet")))
    token = _current.set(summary)
    try:
        yield {**params, **({"quiet": False} if "quiet" in params else {})}  # muted: said, but not shown
        summary.write()
    finally:
        _current.reset(token)


def _check(path: str, params: Mapping[str, Any]) -> None:
    """Refuses early what could not be written, and what the command line names as something else."""
    if path == "-":
        if params.get("output") == "-":
            raise InputError("standard output holds either the result or the summary; give -o or --summary a file")
        return
    folder = os.path.dirname(os.path.realpath(path))
    to_come = isinstance(params.get("output"), str) and os.path.realpath(params["output"]) == folder
    if os.path.isdir(path) or not (to_come or (os.path.isdir(folder) and os.access(folder, os.W_OK))):
        raise InputError(f"{path} is not a file that can be written; choose another with --summary")
    for value in params.values():
        for named in value if isinstance(value, tuple) else (value,):
            if isinstance(named, str) and os.path.realpath(named) == os.path.realpath(path):
                raise InputError(f"{path} is another file of this command; choose another place with --summary")


def as_json(value: Any) -> Any:
    """A value as JSON can hold it: arrays are lists, nan is null, and infinite numbers are the texts inf and -inf."""
    value = _of_basic_types(value)
    if isinstance(value, Mapping):
        return {str(key): as_json(item) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [as_json(item) for item in value]
    if isinstance(value, float) and not isfinite(value):
        return None if isnan(value) else str(value)
    return value if value is None or isinstance(value, bool | int | float) else str(value)


def _of_basic_types(value: Any) -> Any:
    """The numbers, texts, lists and mappings that a value is made of; a figure is its number."""
    if hasattr(value, "_asdict"):
        return value._asdict()
    if is_dataclass(value) and not isinstance(value, type):
        return {one.name: getattr(value, one.name) for one in fields(value)}
    if hasattr(value, "model_dump"):
        return value.model_dump(mode="json")
    if hasattr(value, "tolist"):  # of NumPy
        return value.tolist()
    return getattr(value, "value", value) if isinstance(value, str) else value
