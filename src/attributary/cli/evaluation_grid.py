"""The grid of an evaluation, which the commands evaluate and paper share: options, progress, and resuming it."""

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from attributary.cli.options import MOST_AT_ONCE, NameOf, Option, threads, together
from attributary.cli.printing import say
from attributary.cli.progress import shows

if TYPE_CHECKING:
    from attributary.evaluate import Case

MOST_DRAWS = 10**6
POOLS = ["nodes", "roots"]
FORMATS = ["parquet", "csv"]
METHODS = "(methods)"  # where a help text lists them


class GridCommand(click.Command):
    """A command whose help lists the methods there are, as the registries have them."""

    def format_help_text(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        about, self.help = self.help, (self.help or "").replace(METHODS, methods_help())
        super().format_help_text(ctx, formatter)
        self.help = about


def methods_help() -> str:
    """The methods in words: every split and every estimator, the slow ones marked."""
    from attributary.budget import METHODS as SPLITS
    from attributary.estimators import ESTIMATORS
    from attributary.evaluate.methods import PLANNED
    from attributary.facts.evaluation import PAPER, ZEROS

    splits = {name: method.words for name, method in SPLITS.items()}
    splits[PLANNED] = "optimal, made for the estimator as `plan --estimator` does (slow)"
    kinds = [kind for kind in ESTIMATORS.values() if kind.name != ZEROS]
    estimators = {kind.name: kind.words + (" (slow)" if kind.slow else "") for kind in kinds}
    lists = ("\n".join(f"    {name:<12} {of}" for name, of in each.items()) for each in (splits, estimators))
    return (
        "A METHOD is a split of the budget (--method) and an estimator (--estimator), as in optimal-nonnegative. Slow "
        "ones are tried only if you name them.\n\n\b\n" + "\n\n\b\n".join(lists) + "\n\nzeros, which answers 0 "
        "everywhere, is always among them: a method above it is worse than not measuring. raw, limit0 and limit1 are "
        f"baselines. The paper's five are {', '.join(PAPER)}."
    )


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


class NoiseNames(click.ParamType):  # type: ignore[type-arg,unused-ignore]
    """Names of noise models, as in api,unit."""

    name = "names"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, ...]:
        from attributary.noise import page_of

        return value if isinstance(value, tuple) else tuple(page_of(name.strip()).name for name in value.split(","))


def _methods() -> Iterable[str]:
    from attributary.budget import METHODS as SPLITS
    from attributary.evaluate.methods import PLANNED, methods

    return [*SPLITS, PLANNED, *methods()]


def _estimates() -> Iterable[str]:
    from attributary.estimators import ESTIMATORS

    return ESTIMATORS


def _draws(ctx: click.Context, param: click.Parameter, value: int) -> int:
    if value == 1:
        raise click.BadParameter("1 draw has no standard error; give 2 or more, or 0 for no simulation")
    return value


def choice(flag: str, *values: str, help: str) -> Option:
    """An option with a few values, the first of them by default."""
    return click.option(flag, type=click.Choice(values), default=values[0], show_default=True, help=help)


def tried(flag: str, to: str, kind: Any, about: str, default: str | None = None) -> Option:
    """An option that takes what to try, as in 1,2,4; by default what the spec says."""
    about += "" if default else "  [default: the spec's]"
    return click.option(flag, to, type=kind, default=default, show_default=default is not None, help=about)


def several(flag: str, to: str, names: Callable[[], Iterable[str]], about: str, default: str) -> Option:
    """An option that takes names and may be repeated."""
    about = f"{about}; may be repeated.  [default: {default}]"
    return click.option(flag, to, multiple=True, type=NameOf(names), metavar="NAME", help=about)


grid_options = together(
    several("--method", "methods", _methods, "Split to try, or a whole method", "all"),
    several("--estimator", "estimators", _estimates, "Estimator to try", "all but the slow ones"),
    click.option(
        "--draws",
        type=click.IntRange(0, MOST_DRAWS),
        callback=_draws,
        default=50,
        show_default=True,
        help="Number of noise draws; 0 for closed forms only.",
    ),
    choice("--pool", *POOLS, help="Average errors over all nodes of a level, or give each root the same weight."),
    click.option("--prior-epsilon", type=float, help="Epsilon of the private prior.  [default: 1]"),
    click.option("--coverage", is_flag=True, help="Add two columns: how many 95 % intervals hold the true count."),
    click.option(
        "--seed",
        type=click.IntRange(0),
        default=0,
        show_default=True,
        help="Seed of the private prior and of the noise draws.",
    ),
    click.option(
        "--workers",
        type=click.IntRange(1, MOST_AT_ONCE),
        help="Number of processes.  [default: one per core if that is faster]",
    ),
    threads,
    click.option("--cache", metavar="DIR", help="Folder for finished results.  [default: beside the output]"),
)


@contextmanager
def resumable(kept: bool = True) -> Iterator[None]:
    """Says how to continue after an interrupt, wherever it falls, if finished results were kept."""
    try:
        yield
    except (KeyboardInterrupt, click.Abort):
        if not kept:
            raise
        say("interrupted; run the same command again to continue from here")
        raise click.exceptions.Exit(130) from None


def run_grid(cases: "list[Case]", cache: str, show: bool, *, methods: tuple[str, ...], **options: Any) -> Any:
    """The table of a grid; finished results are kept in the cache, and found there the next time."""
    from attributary.evaluate import Store, evaluate

    store = Store(os.path.join(cache, "finished.jsonl"))
    with _bar(show) as progress:
        return evaluate(cases, methods or None, zeros=True, store=store, progress=progress, **options)


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
