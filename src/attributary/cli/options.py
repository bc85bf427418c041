"""options: options that mean the same in several commands."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from attributary.kernel import limit_threads

if TYPE_CHECKING:
    from attributary.pipeline.estimator import Estimator

MOST_AT_ONCE = 1024  # threads or processes
NAMES = ["unbiased", "nonnegative", "learned"]  # of pipeline.estimator.ESTIMATORS, without importing it
BETWEEN_0_AND_1 = click.FloatRange(0, 1, min_open=True, max_open=True)
ESTIMATOR = click.option(
    "--estimator",
    type=click.Choice(NAMES),
    help="unbiased: adds up, least variance. nonnegative: none below 0. learned: also uses shares learned from similar "
    "nodes and the prior: smaller errors, no longer unbiased.  [default: unbiased, or learned with a prior]",
)
JOINT = click.option("--joint", is_flag=True, help="With nonnegative: fit all counts at once, not family by family.")
WHOLE = click.option("--whole", is_flag=True, help="Whole numbers that add up.")
CONFIDENCE = click.option(
    "--confidence", type=BETWEEN_0_AND_1, default=0.95, show_default=True, help="Confidence level of the intervals."
)


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


def estimator_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Adds --estimator, --joint, --whole and --confidence to a command."""
    for option in (CONFIDENCE, WHOLE, JOINT, ESTIMATOR):
        command = option(command)
    return command


def chosen_estimator(name: str | None, joint: bool, whole: bool, prior: str | None = None) -> "Estimator":
    """The estimator that a command was asked for; a prior alone asks for `learned`."""
    from attributary.errors import InputError
    from attributary.pipeline.estimator import JOINT, WITH_PRIOR, Estimator

    chosen = name or ("learned" if prior else "nonnegative" if joint else "unbiased")
    if joint and chosen not in JOINT:
        raise InputError(f"--joint goes with --estimator {' or '.join(JOINT)}; got --estimator {chosen}")
    if prior and chosen not in WITH_PRIOR:
        raise InputError(f"--prior goes with --estimator {' or '.join(WITH_PRIOR)}; got --estimator {chosen}")
    return Estimator(chosen, joint, whole)
