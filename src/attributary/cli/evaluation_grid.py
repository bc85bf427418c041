"""The grid of an evaluation, which the commands evaluate and paper share: options, progress, and resuming it."""

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from attributary.cli.options import MOST_AT_ONCE, NameOf, Option, choice, flag, option, threads, together
from attributary.cli.printing import say, task_bar

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

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> tuple[float, ...]:
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


def tried(flag: str, to: str, kind: object, about: str, default: str | None = None) -> Option:
    """An option that takes what to try, as in 1,2,4; by default what the spec says."""
    return option(flag, about + "  [default: the spec's]" * (default is None), to, type=kind, default=default)


def several(flag: str, names: Callable[[], Iterable[str]], about: str, to: str) -> Option:
    """An option that takes names and may be repeated."""
    return option(f"{flag} NAME", about, to, multiple=True, type=NameOf(names))


options = together(
    several("--method", _methods, "Split to try, or a whole method; may be repeated.  [default: all]", "methods"),
    several(
        "--estimator",
        _estimates,
        "Estimator to try; may be repeated.  [default: all but the slow ones]",
        "estimators",
    ),
    option(
        "--draws",
        "Number of noise draws; 0 for closed forms only.",
        type=click.IntRange(0, MOST_DRAWS),
        callback=_draws,
        default=50,
    ),
    choice("--pool", POOLS, "Average errors over all nodes of a level, or give each root the same weight.", "nodes"),
    option("--prior-epsilon", "Epsilon of the private prior.  [default: 1]", type=float),
    flag("--coverage", "Add two columns: how many 95 % intervals hold the true count."),
    option("--seed", "Seed of the private prior and of the noise draws.", type=click.IntRange(0), default=0),
    option(
        "--workers",
        "Number of processes.  [default: one per core if that is faster]",
        type=click.IntRange(1, MOST_AT_ONCE),
    ),
    threads,
    option("--cache DIR", "Folder for finished results.  [default: beside the output]"),
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


def run(cases: "list[Case]", cache: str, show: bool, *, methods: tuple[str, ...], **how: Any) -> Any:
    """The table of a grid; finished results are kept in the cache, and found there the next time."""
    from attributary.evaluate import Store, evaluate

    store = Store(os.path.join(cache, "finished.jsonl"))
    with task_bar(show) as progress:
        return evaluate(cases, methods or None, zeros=True, store=store, progress=progress, **how)
