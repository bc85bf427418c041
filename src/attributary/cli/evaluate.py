"""attributary evaluate: what each method would have given you, on your own logs or on an earlier report."""

import os
from typing import TYPE_CHECKING, Any

import click

from attributary.cli.evaluated import FORMATS, Numbers, grid_options

if TYPE_CHECKING:
    from attributary.spec import Spec


ABOUT = """What would each method have given me?

SPEC is the TOML file of `attributary plan`. Counts that are known are measured again and again under simulated noise,
with every way to split the budget and every estimator, and the errors are compared.

\b
    $ attributary evaluate spec.toml --prior-until 2026-02-02 -o errors.csv
    $ attributary evaluate spec.toml --counts last_month.csv -o errors.csv

THE COUNTS are those of the spec's logs, or of the table --counts: one row per leaf with a column conversions, or an
earlier report with a column estimate, as `attributary denoise` writes it (what is below 0 is taken as 0).

THE PRIOR that methods may see: impressions before --prior-until, or the table --prior. Its counts are measured with
--prior-epsilon, split equally, and denoised, so that nothing is given away; estimates are taken as they are. Without
either, it is made of the counts themselves, as if the last period had been just like this one.

\b
    equal-raw, equal-blue         the same budget for each level
    leaves-blue                   all of it on the leaves
    greedy-raw, greedy-blue       the paper's Algorithm 3, by the prior
    greedy-top-down               the same, counts never negative
    optimal-blue, -top-down       the best split by level
    per-node-blue, -top-down      a budget for each node
    optimal-prior, per-node-prior  estimates that use the prior, too (slow)
    planned-prior                 a split made for such estimates (slow)

raw is without post-processing, blue adds up, top-down is never negative either. The first five are the paper's.

MEASURES, and several conversions to an impression: errors are of each measure, and of all together, whose measure is
empty. The truth is without limits; what they cut off is in every error, and has a column, bias. Limits that the spec
leaves open are chosen from the prior's counts as they are and, to compare, set by hand: at m = 1, 2, 5 and 15, clipped
at the 95th and the 99th percentile, equal parts for all measures.

THE OUTPUT has a row for each method, epsilon, tau and level, and one for the tree, whose level is empty. A budget for
each node is more than the API can carry out as it stands; it shows what that would be worth.
"""


@click.command(help=ABOUT, short_help="What each method would have given you.")
@click.argument("spec", metavar="SPEC")
@click.option("--counts", metavar="FILE", help="Counts or estimates, instead of the spec's logs.")
@click.option("--prior", metavar="FILE", help="Counts or estimates of an earlier period.")
@click.option("--prior-until", metavar="TIME", help="Impressions before this time are the prior, the others measured.")
@click.option("--epsilon", "epsilons", type=Numbers(), help="As in 1,2,4.  [default: the spec's]")
@click.option("--tau", "taus", type=Numbers(), help="As in 5,10.  [default: the spec's]")
@click.option("--noise", metavar="NAME", help="Noise model: api, unit, or both.  [default: the spec's]")
@grid_options
@click.option("-o", "--output", metavar="FILE", default="-", show_default=True, help="A table; - is standard output.")
@click.option("--format", "format_", type=click.Choice(FORMATS), help="Of the output, if its ending does not tell.")
@click.option("-q", "--quiet", is_flag=True, help="No progress and no words.")
def evaluate(
    *,
    spec: str,
    counts: str | None,
    prior: str | None,
    prior_until: str | None,
    epsilons: tuple[float, ...] | None,
    taus: tuple[float, ...] | None,
    noise: str | None,
    prior_epsilon: float,
    seed: int,
    cache: str | None,
    output: str,
    format_: Any,
    quiet: bool,
    **grid: Any,
) -> None:
    from contextlib import nullcontext
    from tempfile import TemporaryDirectory

    from attributary.cli.asked import load_spec
    from attributary.cli.evaluated import print_best, resumed, run_grid
    from attributary.cli.evaluated_many import many_cases, print_limits, refuse_options
    from attributary.cli.printing import say
    from attributary.cli.reading import log_paths, refuse_inputs
    from attributary.cli.summary_file import fact
    from attributary.errors import InputError
    from attributary.evaluate.paper import NOISES
    from attributary.evaluate.paper_counts import folder
    from attributary.evaluate.user_cases import own_cases, own_truth
    from attributary.noise import page_of
    from attributary.pipeline.level_columns import refused
    from attributary.tables import check_output, write_table

    check_output(output, format_)
    asks = load_spec(spec)
    refuse_inputs([output], [spec, counts, prior, *([] if counts else log_paths(asks, os.path.dirname(spec)))])
    if prior_until is not None and (prior is not None or counts is not None):
        raise InputError("--prior-until divides the spec's logs; it does not go with --prior or --counts: leave it out")
    simple = not asks.has_limits
    if not simple:
        refuse_options(click.get_current_context())
    noises = NOISES if noise == "both" else (page_of(noise or asks.noise).name,)
    beside = f"{output}.cache"
    throwaway = cache is None and output == "-"
    where = TemporaryDirectory(prefix="attributary-") if throwaway else nullcontext(cache or beside)
    with resumed(not throwaway), where as place:
        kept = folder(place)
        logs = None if counts is not None else _of_logs(asks, os.path.dirname(spec), prior_until, kept, quiet)
        made = logs is not None and logs[2]
        name = os.path.splitext(os.path.basename(counts or spec))[0]
        if simple:
            truth, before = _tables(asks, logs, counts, prior)
            options: dict[str, Any] = {"prior_epsilon": prior_epsilon, "seed": seed, "generated": made}
            with refused(counts or spec):
                own_truth(asks, truth)
            with refused(prior or counts or spec):
                cases = own_cases(name, asks, truth, before, noises, **options)
        else:
            cases = [*many_cases(asks, name, logs, counts, prior, noises)]
        chosen: dict[str, Any] = {"epsilons": epsilons or (asks.epsilon,), "taus": taus or (asks.tau,)}
        table = run_grid(cases, kept, not quiet, seed=seed, **chosen, **grid)
    write_table(table, output, format_)
    if not quiet:
        (print_best if simple else print_limits)(table)
        to = "standard output" if output == "-" else output
        fact("rows", table.num_rows)
        fact("generated", made)
        say(f"{table.num_rows:,} rows written to {to}; {_of(prior_until, prior, simple)}")
        if made:
            say("the rows of these logs were generated")


def _of(prior_until: str | None, prior: str | None, private: bool) -> str:
    """What the prior was, in words."""
    if prior:
        return f"the prior is {prior}"
    how = "privately" if private else "as they are, NOT protected"
    if prior_until is None:
        return f"the prior was made of these very counts, {how}: give --prior or --prior-until for an earlier period"
    return f"the prior was made of impressions before {prior_until}, {how}"


def _tables(spec: "Spec", logs: tuple[Any, Any, bool] | None, counts: str | None, prior: str | None) -> tuple[Any, Any]:
    """The counts that are measured, and those of before, if there are any."""
    truth, before, _ = logs or (_read(spec, counts or ""), None, False)
    return truth, before if prior is None else _read(spec, prior)


def _of_logs(spec: "Spec", folder: str, until: str | None, cache: str, quiet: bool) -> tuple[Any, Any, bool]:
    from attributary.cli.print_counts import print_counts
    from attributary.cli.printing import say
    from attributary.cli.progress import reading_bar
    from attributary.errors import InputError
    from attributary.evaluate.paper_counts import cached, identity
    from attributary.logs.count import count
    from attributary.logs.duckdb import DuckDB
    from attributary.logs.log_files import all_files, is_generated, rows_in_logs

    logs = spec.logs
    if logs is None:
        raise InputError("the spec has no section [logs]; add it, or give counts with --counts")
    paths = all_files(logs, folder)
    remote = any("://" in path for path in paths)
    key = "" if remote else identity(paths, spec.model_dump_json(exclude={"epsilon", "tau", "noise"}), until)

    def make() -> dict[str, Any]:
        with (
            reading_bar(not quiet, lambda: rows_in_logs(logs, folder)) as report,
            DuckDB(report=report) as engine,
        ):
            made = {"after": count(spec, folder, since=until, engine=engine)}
            if until is not None:
                made["before"] = count(spec, folder, until=until, engine=engine)
        for name, counts in made.items() if not quiet else ():
            say({"after": "measured:", "before": "the prior:"}[name])
            print_counts(counts, spec)
        return {name: counts.table for name, counts in made.items()}

    names = ("after",) if until is None else ("after", "before")
    tables = cached(None if remote else cache, key, names, make)
    return tables["after"], tables.get("before"), any(map(is_generated, paths))


def _read(spec: "Spec", path: str) -> Any:
    """A table of counts or of estimates, with the columns that are needed of it."""
    from attributary.errors import InputError
    from attributary.pipeline.level_columns import level_columns
    from attributary.pipeline.read_prior import COUNTS, ESTIMATES, of_measure
    from attributary.tables import read_table, shown
    from attributary.tables.table_columns import floats

    table = of_measure(read_table(path), spec, path)
    needed = ESTIMATES if ESTIMATES[0] in table.column_names else COUNTS
    if needed[0] not in table.column_names:
        raise InputError(
            f"{shown(path)} has neither conversions (counts) nor estimate and variance (a report); its columns are "
            f"{', '.join(table.column_names)}"
        )
    rows = level_columns(table, [attribute.name for attribute in spec.attributes], path)
    for name in needed:
        rows = rows.append_column(name, [floats(table, name, path)])
    return rows
