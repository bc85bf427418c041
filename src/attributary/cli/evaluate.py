"""attributary evaluate: what each method would have given you, on your own logs or on an earlier report."""

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, nullcontext
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import click

from attributary.cli.options import (
    MOST_AT_ONCE,
    NameOf,
    Option,
    choice,
    file_output,
    flag,
    format_option,
    option,
    period_options,
    quiet,
    threads,
    together,
)
from attributary.cli.printing import fact, place_of, print_tables, reading_bar, say, task_bar, warn_first
from attributary.cli.reading import log_paths, make_folder, refuse_inputs
from attributary.errors import InputError
from attributary.whole_files import save, sole_writer

if TYPE_CHECKING:
    from attributary.evaluate import Case, Evaluation
    from attributary.evaluate.user_cases import LogPeriods
    from attributary.spec import Spec

MOST_DRAWS = 10**6
POOLS = ["nodes", "roots"]
FORMATS = ["parquet", "csv"]
METHODS = "(methods)"  # where a help text lists them
ENDINGS = (".pdf", ".svg", ".png")
ABOUT = f"""Compare the errors that each method would have had on your counts.

\b
    $ attributary evaluate spec.toml --prior-until 2026-02-02 -o errors.csv
    $ attributary evaluate spec.toml --counts counts.parquet -o errors.csv

SPEC is the TOML file of `attributary plan`. The counts of the spec's logs, or of the table --counts, are measured again
and again under simulated noise, with every split of the budget and every estimator.

THE PRIOR is made from impressions before --prior-until, or read from --prior. Its counts are measured with
--prior-epsilon; estimates are used as they are. Without either option, the prior is made from the counts themselves.

{METHODS}

THE OUTPUT has a row for each method, epsilon, tau and level, and one for the whole tree, whose level is empty. With
several measures, each has its rows, and so have all together; bias is what the limits cut off. More: docs/evaluation.md
"""


# The grid of an evaluation, which the command paper has, too: its options, and what resumes it


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


grid_options = together(
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


def run_grid(cases: "list[Case]", cache: str, show: bool, *, methods: tuple[str, ...], **how: Any) -> "Evaluation":
    """The table of a grid; finished results are kept in the cache, and found there the next time."""
    from attributary.evaluate import Store, evaluate

    store = Store(os.path.join(cache, "finished.jsonl"))
    with task_bar(show) as progress:
        return evaluate(cases, methods or None, zeros=True, store=store, progress=progress, **how)


@click.command(cls=GridCommand, help=ABOUT, short_help="Compare the errors that each method would have had.")
@click.argument("spec", metavar="SPEC")
@option("--counts FILE", "Table of counts or estimates to use instead of the spec's logs.")
@option("--prior FILE", "Table of counts or estimates of an earlier period.")
@period_options
@option("--prior-until TIME", "Impressions before this time make the prior; the later ones are measured.")
@tried("--epsilon", "epsilons", Numbers(), "Budgets to try, as in 1,2,4.")
@tried("--tau", "taus", Numbers(), "Thresholds to try, as in 5,10.")
@tried("--noise", "noises", NoiseNames(), "Noise models, as in api,unit,gaussian.")
@grid_options
@file_output()
@option("--figure FILE", "Also draw the errors: a .pdf, .svg or .png file.")
@option("--latex FILE", "Also write the tree errors as LaTeX tables.")
@format_option(FORMATS)
@quiet("Print no progress and no messages.")
def evaluate(
    *,
    spec: str,
    counts: str | None,
    prior: str | None,
    since: str | None,
    until: str | None,
    prior_until: str | None,
    epsilons: tuple[float, ...] | None,
    taus: tuple[float, ...] | None,
    noises: tuple[str, ...] | None,
    prior_epsilon: float | None,
    threads: int | None,
    cache: str | None,
    output: str,
    figure: str | None,
    latex: str | None,
    format_: Any,
    quiet: bool,
    **grid: Any,
) -> None:

    from attributary.evaluate.user_cases import joint_cases, user_cases
    from attributary.facts.evaluation import best_tables, error_tables
    from attributary.logs.log_files import is_generated
    from attributary.spec import Spec
    from attributary.tables import check_output, read_table, write_table
    from attributary.tables.table_columns import words_of

    check_output(output, format_)
    for more in filter(None, (figure, latex)):
        check_output(more, "csv")
    if figure and not figure.endswith(ENDINGS):
        raise InputError(f"--figure is a file that ends in {' or '.join(ENDINGS)}; got {figure!r:.80}")
    asks = Spec.load(spec)
    folder = os.path.dirname(spec)
    logs_read = [] if counts else log_paths(asks, folder)
    refuse_inputs([output, *filter(None, (figure, latex))], [spec, counts, prior, *logs_read])
    if prior_until is not None and (prior is not None or counts is not None):
        raise InputError("--prior-until divides the spec's logs; it does not go with --prior or --counts: leave it out")
    period = (since, prior_until, until)
    if counts is not None and (since or until):
        raise InputError("--from and --until select impressions in logs, and --counts has none: leave them out")
    if output != "-":
        click.get_current_context().with_resource(sole_writer(output))
    throwaway = cache is None and output == "-"
    where = TemporaryDirectory(prefix="attributary-") if throwaway else nullcontext(cache or f"{output}.cache")
    with resumable(not throwaway), where as kept:
        make_folder(kept, "--cache")
        logs = None if counts else _count_logs(asks, folder, period, kept, threads, quiet)
        generated = logs.generated if logs else is_generated(counts or "")
        cases = (user_cases if asks.breakdowns is None else joint_cases)(
            asks,
            logs.measured if logs else read_table(counts or ""),
            read_table(prior) if prior else logs.earlier if logs else None,
            noises or (),
            name=os.path.splitext(os.path.basename(counts or spec))[0],
            prior_epsilon=prior_epsilon,
            seed=grid["seed"],
            generated=generated,
            counts_from=counts or spec,
            before_from=prior or counts or spec,
        )
        grid |= {"epsilons": epsilons or (asks.epsilon,), "taus": taus or (asks.tau,)}
        evaluation = run_grid(cases, kept, not quiet, **grid)
    table = evaluation.table
    write_table(table, output, format_)
    if figure:
        evaluation.save_figure(figure)
    if latex:
        save(evaluation.latex().encode(), latex)
    if not quiet:
        warn_first(cases[0].prior.misfit(cases[0].tree))
        print_tables([*error_tables(evaluation.points), *best_tables(evaluation)])
        fact(rows=table.num_rows, generated=generated, not_private=words_of(table))
        made_from = _about_prior(prior_until, prior, cases[0].prior.protected)
        say(f"{table.num_rows:,} rows written to {place_of(output)}; {made_from}")
        if generated:
            say("the rows were generated" if counts else "the rows of these logs were generated")


def _about_prior(prior_until: str | None, prior: str | None, private: bool) -> str:
    if prior:
        return f"the prior is {prior}"
    how = "privately" if private else "without noise, NOT protected"
    if prior_until is None:
        return f"the prior was made from the same counts, {how}: give --prior or --prior-until for an earlier period"
    return f"the prior was made from impressions before {prior_until}, {how}"


def _count_logs(
    spec: "Spec",
    folder: str,
    period: tuple[str | None, str | None, str | None],
    cache: str,
    threads: int | None,
    quiet: bool,
) -> "LogPeriods":
    """The counts of the spec's logs; says what was counted, unless it was counted before."""
    from attributary.cli.print_results import print_counts
    from attributary.evaluate import log_periods
    from attributary.logs.duckdb import DuckDB
    from attributary.logs.log_files import rows_in_logs

    @contextmanager
    def engine() -> Iterator[DuckDB]:
        with (
            reading_bar(not quiet, lambda: rows_in_logs(spec.logs, folder)) as report,
            DuckDB(threads=threads, report=report) as running,
        ):
            yield running

    since, prior_until, until = period
    periods = log_periods(spec, folder, prior_until, since=since, until=until, cache=cache, engine=engine)
    for which, counts in periods.counted.items() if not quiet else ():
        say({"measured": "measured:", "earlier": "prior:"}[which])
        print_counts(counts, spec)
    return periods
