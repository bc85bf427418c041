"""Reading: what a command reads and where it writes: a place that can be written to, and nothing that it reads."""

import os
import shlex
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from glob import escape, glob, has_magic
from pathlib import PurePath
from typing import TYPE_CHECKING

import click
from click.core import ParameterSource

from attributary.cli.printing import current
from attributary.errors import InputError, QuestionError

if TYPE_CHECKING:
    from attributary.spec import Spec


SQLITE = b"SQLite format 3\0"


@contextmanager
def answered() -> Iterator[None]:
    """A question that only the user can answer is shown with this command and an answer."""
    try:
        yield
    except QuestionError as error:
        raise InputError(f"{error.question} For example: {_this_command(error.options)}") from error


def _this_command(more: dict[str, str]) -> str:
    """The command that runs, as the user gave it, with more options."""
    ctx, words = click.get_current_context(), list[str]()
    for parameter in ctx.command.params:
        name = parameter.name or ""
        value = more.get(name, ctx.params.get(name))
        if name not in more and ctx.get_parameter_source(name) is not ParameterSource.COMMANDLINE:
            continue
        each = value if isinstance(value, tuple | list) else (value,)
        option = [max(parameter.opts, key=len)] if isinstance(parameter, click.Option) else []
        words += option if value is True else [word for one in each for word in (*option, str(one))]
    return shlex.join([*ctx.command_path.split(), *words])


def check_folder(folder: str) -> None:
    """Refuses early what could not be written to."""
    if os.path.exists(folder) and not (os.path.isdir(folder) and os.access(folder, os.W_OK)):
        raise InputError(f"{folder} is not a writable folder; choose another with -o")


def make_folder(folder: str, option: str = "-o") -> None:
    try:
        os.makedirs(folder, exist_ok=True)
    except OSError as problem:
        raise InputError(f"{folder} cannot be made: {problem.strerror}; choose another with {option}") from problem


def refuse_inputs(outputs: Iterable[str | None], inputs: Iterable[str | None], option: str = "-o") -> None:
    """Refuses to write over an input, or among the files of a folder or of a pattern that is read.

    Whatever the two are called: links, hard links and other spellings are the same file. `-` and addresses are none.
    The nodes beside a plan are read with it. A ledger is never written over, whether this command reads it or not.
    """
    paths = [path for path in inputs if path and path != "-" and "://" not in path]
    if any(path.endswith(".json") for path in paths):
        from attributary.plan.file import beside  # plans and specs come with it

        paths += [beside(path) for path in paths if path.endswith(".json")]
    places, summary = [(output, option) for output in outputs if output and output != "-"], current()
    if summary is not None and summary.path != "-":
        if any(_same(output, summary.path) for output, _ in places):
            raise InputError(f"{summary.path} is what this command writes; choose another place with --summary")
        places.append((summary.path, "--summary"))
    for output, said in places:
        if os.path.exists(output) and not os.path.isfile(output):
            continue
        remedy = f"choose another place with {said}"
        if _is_database(output):
            raise InputError(f"{output} is a database, as the ledger of queries is, and would be overwritten; {remedy}")
        for path in paths:
            if _same(output, path):
                also = "" if output == path else f" ({path})"
                raise InputError(f"{output} is what this command reads{also}, and would be overwritten; {remedy}")
            if _among(output, path):
                raise InputError(f"{output} would be among the files that are read ({path}); {remedy}")


def log_paths(spec: "Spec", folder: str) -> list[str]:
    """The files, folders and patterns of a spec's logs, which are relative to its folder."""
    logs = spec.logs
    sides = (logs.impressions, logs.conversions, logs.attributed) if logs else ()
    return [path if "://" in path else os.path.join(folder, path) for side in sides if side for path in side]


def _is_database(path: str) -> bool:
    try:
        with open(path, "rb") as file:
            return file.read(len(SQLITE)) == SQLITE
    except OSError:  # it is not there yet, or cannot be read
        return False


def _same(one: str, other: str) -> bool:
    try:
        return os.path.samefile(one, other)
    except OSError:  # one is not there yet
        return os.path.realpath(one) == os.path.realpath(other)


def _among(output: str, input_path: str) -> bool:
    place = os.path.realpath(output)
    if os.path.isdir(input_path):
        return _below(place, os.path.realpath(input_path))
    if not has_magic(input_path) or os.path.exists(input_path):
        return False
    parts = PurePath(os.path.abspath(input_path)).parts
    fixed = next(i for i, part in enumerate(parts) if has_magic(part))
    folder, rest = os.path.realpath(os.path.join(*parts[:fixed])), parts[fixed:]
    if "**" in rest:
        return _below(place, folder)
    if PurePath(place).match(os.path.join(escape(folder), *rest)):
        return True
    return os.path.exists(output) and any(_same(output, path) for path in glob(input_path))


def _below(place: str, folder: str) -> bool:
    return os.path.commonpath([place, folder]) == folder
