"""The commands: `attributary NAME`, each in the file of its name, imported when it is asked for."""

import os
import sys
from collections.abc import Callable
from contextlib import suppress
from importlib import import_module
from typing import Any

import click

from attributary import __version__
from attributary.cli.command_errors import LONGEST, bare, end_of, stand_in, with_options
from attributary.cli.options import TextOrFile
from attributary.cli.printing import choose_lines, log_line, with_summary
from attributary.errors import InputError, one_line
from attributary.whole_files import written

COMMANDS = ["init", "run", "generate", "count", "plan", "keys"]
COMMANDS += ["aggregate", "denoise", "evaluate", "paper", "report", "explore"]


class Commands(click.Group):
    """Commands by name, and the one place where an error becomes a line and an exit code."""

    chosen: click.Command | None = None
    alone = False  # whether the process is for one command, and not somebody's Python

    def list_commands(self, ctx: click.Context) -> list[str]:
        return COMMANDS

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        command: click.Command = getattr(import_module(f"attributary.cli.{cmd_name}"), cmd_name)
        for param in with_summary(command).params:
            param.type = TextOrFile() if param.type is click.STRING else param.type
        return command

    def resolve_command(self, ctx: click.Context, args: list[str]) -> Any:
        name, self.chosen, rest = super().resolve_command(ctx, args)
        if self.alone and self.chosen is not None and self.chosen.callback is not None:
            self.chosen.callback = _without_pandas(self.chosen.callback)
        return name, self.chosen, rest

    def main(self, args: Any = None, *_: Any, **options: object) -> Any:
        name = "attributary"  # whatever it was called by
        if f"_{name.upper()}_COMPLETE" in os.environ:  # the shell asks for completions
            return super().main(args, name)
        stand_in()
        written.clear()
        self.chosen, self.alone = None, args is None
        words = list(sys.argv[1:] if args is None else args)
        choose_lines(words)
        error = self._run(name, words)
        try:
            sys.stdout.flush()
        except OSError as late:
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # or Python would try once more at the end, and complain
            error = error or late
        code, message = (0, "") if error is None else end_of(error)
        if error is not None and code == 1 and os.environ.get("ATTRIBUTARY_DEBUG"):
            raise error
        message = with_options(message, self.chosen)
        with suppress(OSError):
            said = {"error": bare(message)[:LONGEST]} if message else {}
            if log_line("end", command=getattr(self.chosen, "name", None), exit_code=code, **said):
                message = ""
        if message:
            several = message.split("\n") if hasattr(error, "lines") else [message]  # mistakes have a line each
            with suppress(OSError):
                click.echo("\n".join(one_line(line[:LONGEST])[:LONGEST] for line in several), err=True)
        error = None  # its frames hold connections of DuckDB, which would complain if they outlived the interpreter
        sys.exit(code)

    def _run(self, name: str, args: list[str]) -> BaseException | None:
        """Runs a command, and gives what ended it; None if it came to its end."""
        try:
            _refuse_bytes(args)
            with self.make_context(name, args) as ctx:
                self.invoke(ctx)
        except click.exceptions.NoArgsIsHelpError as error:
            click.echo(error.format_message(), err=True)
            return click.exceptions.Exit(2)
        except BaseException as error:  # Ctrl-C too
            return error
        return None


def _without_pandas(callback: Callable[..., object]) -> Callable[..., Any]:
    """The command, before which Arrow looks for pandas in vain: it takes longer to import than a small table to read.

    Arrow would import it at its first value, to know such frames; those of a command are its own.
    """

    def run(**options: object) -> Any:
        import pyarrow as pa

        sys.meta_path.insert(0, _NoPandas)
        try:
            pa.scalar(None)
        finally:
            sys.meta_path.remove(_NoPandas)
        return callback(**options)

    return run


class _NoPandas:
    @staticmethod
    def find_spec(name: str, *_: Any) -> None:
        if name == "pandas":
            raise ImportError(name)


def _refuse_bytes(args: list[str]) -> None:
    """Refuses arguments that are no text, as the names of files in another encoding are."""
    for word in args:
        try:
            word.encode()
        except UnicodeEncodeError:
            raise InputError(f"names of files and options are UTF-8; got {word[:80]!r}: rename the file") from None


@click.command(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, package_name="attributary")
def main() -> None:
    """Hierarchical conversion counts under differential privacy that add up.

    \b
    Make a table of noisy figures add up:
        $ attributary denoise --table figures.csv --noise laplace:scale=3 \\
              -o estimates.csv
    Run end to end from logs, on this machine:
        $ attributary init impressions.parquet conversions.parquet
        $ attributary run spec.toml
    Plan a privacy budget before anything is measured:
        $ attributary plan spec.toml --prior counts.parquet -o plan.json

    Data is written to files or standard output, messages to standard error. Exit codes: 0 done, 1 internal error, 2
    mistake in the input or the options, 75 try again later, 77 refused to protect privacy, 130 interrupted, 141
    standard output was closed. More, with tab completion: docs/commands.md
    """
