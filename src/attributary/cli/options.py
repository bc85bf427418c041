"""options: options that mean the same in several commands."""

from typing import Any

import click

from attributary.kernel import limit_threads

MOST_AT_ONCE = 1024  # threads or processes


def _limit(context: click.Context, _: click.Parameter, number: int | None) -> int | None:
    context.with_resource(limit_threads(number))
    return number


def threads(command: Any) -> Any:
    """--threads: for DuckDB, to which the command hands it, and for the compiled passes, which have it from here."""
    help_ = "Threads of DuckDB and of the compiled passes.  [default: all cores]"
    return click.option(
        "--threads", type=click.IntRange(1, MOST_AT_ONCE), callback=_limit, metavar="NUMBER", help=help_
    )(command)


def duckdb_limits(command: Any) -> Any:
    """--memory, --temp and --threads."""
    memory = click.option("--memory", metavar="SIZE", help="Memory limit of DuckDB, as in 4GB.  [default: 80 % of RAM]")
    temp = click.option(
        "--temp", metavar="DIR", help="Folder for what does not fit into memory.  [default: the temporary folder]"
    )
    return memory(temp(threads(command)))
