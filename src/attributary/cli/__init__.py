"""The commands: `attributary NAME`, each in the file of its name, imported when it is asked for."""

import os
import sys
from importlib import import_module
from typing import Any

import click

from attributary import __version__
from attributary.cli.one_line import one_line
from attributary.errors import InputError, TryAgain

COMMANDS = [
    "run",
    "generate",
    "count",
    "plan",
    "keys",
    "aggregate",
    "denoise",
    "evaluate",
    "paper",
    "report",
    "explore",
]


class Commands(click.Group):
    """Commands by name, and the one place where an error becomes a line and an exit code."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return COMMANDS

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        command: click.Command = getattr(import_module(f"attributary.cli.{cmd_name}"), cmd_name)
        return command

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except (click.ClickException, click.exceptions.Exit):
            raise
        except InputError as error:
            code, message = 2, f"error: {error}"
        except TryAgain as error:
            code, message = 75, f"not now: {error}"
        except (KeyboardInterrupt, click.Abort):
            code, message = 130, "interrupted; nothing was written"
        except BrokenPipeError:  # the reader has had enough, as `head` does
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            code, message = 141, ""
        except Exception as error:
            if os.environ.get("ATTRIBUTARY_DEBUG"):
                raise
            code = 1
            message = (
                f"this is a bug of attributary {__version__}, not yours: {type(error).__name__}: {error}; "
                "set ATTRIBUTARY_DEBUG=1 to see where, and please report it"
            )
        if message:
            click.echo(one_line(message), err=True)
        return ctx.exit(code)


@click.command(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, package_name="attributary")
def main() -> None:
    """Hierarchical conversion counts under differential privacy that add up.

    Data is written to files or standard output, messages to standard error.

    \b
    Exit codes:
        0    done
        2    a mistake in the input or the options; one line says which
        75   this machine could not do it now (memory, disk, Spark); try again
        130  interrupted
        141  the reader of standard output has gone
        1    an internal error; please report it
    """
