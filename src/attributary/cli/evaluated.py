"""evaluated: what the commands paper and evaluate share: the grid's options, its progress, and what is told of it."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from attributary.cli.options import MOST_AT_ONCE
from attributary.cli.printing import say
from attributary.cli.progress import shows

if TYPE_CHECKING:
    from attributary.evaluate import Case

MOST_DRAWS = 10**6
SMALL = 1e-4  # an error that is as good as none
POOLS = ["nodes", "roots"]
FORMATS = ["parquet", "csv"]
METHODS = [
    *("equal-raw", "equal-blue", "leaves-blue", "greedy-raw", "greedy-blue", "greedy-top-down"),
    *("optimal-blue", "optimal-top-down", "optimal-prior", "planned-prior"),
    *("per-node-blue", "per-node-top-down", "per-node-prior"),
]


class Numbers(click.ParamType):  # type: ignore[type-arg,unused-ignore]
    """Positive numbers, as in 1,2,4."""

    name = "numbers"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[float, ...]:
        if isinstance(value, tuple):
            return value
        try:
            numbers = tuple(float(part) for part in str(value).split(","))
        except ValueError:
            numbers = ()
        if not numbers or not all(0 < number < float("inf") for number in numbers):
            self.fail(f"{value!r} is not a list of positive numbers, as in 1,2,4", param, ctx)
        return numbers


def _draws(ctx: click.Context, param: click.Parameter, value: int) -> int:
    if value == 1:
        raise click.BadParameter("1 draw has no standard error; give 2 or more, or 0 for no simulation")
    return value


GRID = (
    click.option(
        "--method",
        "methods",
        multiple=True,
        type=click.Choice(METHODS),
        metavar="NAME",
        help="One of those above, or several by repeating it.  [default: all but the slow ones]",
    ),
    click.option(
        "--draws",
        type=click.IntRange(0, MOST_DRAWS),
        callback=_draws,
        default=50,
        show_default=True,
        help="Of noise; 0: no simulation.",
    ),
    click.option(
        "--pool", type=click.Choice(POOLS), default="nodes", show_default=True, help="What counts alike in a level."
    ),
    click.option(
        "--prior-epsilon",
        type=float,
        default=1.0,
        show_default=True,
        help="Of the private prior.",
    ),
    click.option("--coverage", is_flag=True, help="How many 95 % intervals hold the true count: two more columns."),
    click.option("--seed", type=click.IntRange(0), default=0, show_default=True, help="Of the prior and of the draws."),
    click.option(
        "--workers",
        type=click.IntRange(1, MOST_AT_ONCE),
        help="Processes.  [default: one for each core, where that pays]",
    ),
    click.option("--cache", metavar="DIR", help="For what is finished.  [default: beside the output]"),
)


def grid_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Adds the options of a grid to a command."""
    for option in reversed(GRID):
        command = option(command)
    return command


@contextmanager
def resumed(kept: bool = True) -> Iterator[None]:
    """Says how to go on after an interrupt, wherever it falls, if what is finished was kept."""
    try:
        yield
    except (KeyboardInterrupt, click.Abort):
        if not kept:
            raise
        say("interrupted; run the same command again, and it goes on from here")
        raise click.exceptions.Exit(130) from None


def run_grid(cases: "list[Case]", cache: str, show: bool, *, methods: tuple[str, ...], **asked: Any) -> Any:
    """The table of a grid; what is finished is kept in the cache, and found there the next time."""
    from attributary.evaluate import Store, evaluate

    store = Store(os.path.join(cache, "finished.jsonl"))
    with _bar(show) as progress:
        return evaluate(cases, methods or None, store=store, progress=progress, **asked).table


@contextmanager
def _bar(show: bool) -> Iterator[Callable[[int, int], None]]:
    """A function to call with the number of tasks that are done and of all; a bar shows it on a terminal."""
    if not shows(show):
        yield lambda done, of: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

    columns = (TextColumn("evaluating"), BarColumn(), TextColumn("{task.completed} of {task.total} splits"))
    times = (TimeElapsedColumn(), TimeRemainingColumn())
    with Progress(*columns, *times, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("tasks", total=None)
        yield lambda done, of: bar.update(task, completed=done, total=of)


def print_best(table: Any) -> None:
    """Prints the paper's best method and ours at every ε, to standard error."""
    from attributary.cli.printing import console, print_table
    from attributary.evaluate.comparison import best

    panels: dict[Any, list[list[str]]] = {}
    for row in best(table):
        small = max(row.paper, row.ours) < SMALL
        words = [f"{row.epsilon:g}", f"{row.paper:.4f}", row.paper_method, f"{row.ours:.4f}", row.our_method]
        panels.setdefault(row[:4], []).append([*words, "" if small else f"{row.lower:.1%}"])
    out = console()
    for (dataset, tree, noise, tau), rows in panels.items():
        out.print(f"{dataset}, {tree}: tree error under {noise} noise, tau = {tau:g}")
        print_table(out, [["epsilon", "paper's best", "by", "our best", "by", "lower by"], *rows])
        out.print()
