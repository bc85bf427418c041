"""attributary run: the whole way on this machine, from logs to counts that add up."""

import os
from typing import TYPE_CHECKING, Any

import click

from attributary.cli.options import chosen_estimator, duckdb_limits, estimator_options

if TYPE_CHECKING:
    from attributary.plan import Plan

METHODS = ["optimal", "greedy", "equal", "leaves", "per-node"]
FORMATS = ["parquet", "csv"]
TABLES = ["estimates", "ratios", "counts", "prior"]
NAMES = ["report.html", "plan.json", "plan.nodes.parquet", *(f"{name}.{end}" for name in TABLES for end in FORMATS)]

ABOUT = """The whole way on this machine: logs, counts, plan, noise, counts that add up.

\b
    $ attributary generate shop -o shop/
    $ attributary run shop/spec.toml --prior-until 2026-02-02 -o shop/run

What the browsers and the aggregation service would do is simulated: each conversion is attributed and counted as in
`attributary count`, the budget is split as in `attributary plan`, every node gets the noise that a summary report would
have, and the noisy figures are denoised as in `attributary denoise`.

THE PRIOR, which tells the plan what counts to expect, are the counts of impressions before --prior-until; the later
ones are then what is measured. Without it, the plan goes by the structure of the tree.

With --estimator learned, estimates also use shares learned from other nodes with the same label and, with
--prior-until, from the earlier counts, measured with their own noise at the same epsilon. The optimal split is then
made for such estimates, as in `attributary plan --estimator learned`.

THE OUTPUT is a folder, which is made if it is not there:

\b
    report.html  all of it as a page
    plan.json    what each level contributes
    estimates    one row per node: the noisy figure, the estimate, its interval
    counts       the true counts, and prior, those of before: NOT protected
    ratios       with counts and values: what a conversion brings

All files are of one run: they take the place of an earlier run's together, and other files in the folder stay.

The noise is the operating system's, exact, and another one each time. So a second run of the same logs is a second
release: whoever publishes both has spent 2 epsilon. A folder that holds a run is therefore replaced only with --again.
With --seed the noise is the same each time, and protects nobody: all that is written says NOT PRIVATE.
"""


@click.command(help=ABOUT, short_help="The whole way on this machine, from logs to counts that add up.")
@click.argument("spec", metavar="SPEC")
@click.option("--prior-until", metavar="TIME", help="Impressions before this time are the prior, the others measured.")
@click.option("--method", type=click.Choice(METHODS), default="optimal", show_default=True, help="To split the budget.")
@estimator_options
@click.option("--seed", type=click.IntRange(0), help="The same noise each time, which is NOT private.")
@click.option("--again", is_flag=True, help="Replace an earlier run: a second release, 2ε in all.")
@duckdb_limits
@click.option("-o", "--output", metavar="DIR", default="run", show_default=True, help="The folder to write to.")
@click.option(
    "--format", "format_", type=click.Choice(FORMATS), default="parquet", show_default=True, help="Of tables."
)
@click.option("-q", "--quiet", is_flag=True, help="No progress and no messages, except on what is not private.")
def run(
    *,
    spec: str,
    prior_until: str | None,
    method: str,
    estimator: str | None,
    joint: bool,
    whole: bool,
    seed: int | None,
    again: bool,
    confidence: float,
    output: str,
    format_: str,
    quiet: bool,
    memory: str | None,
    temp: str | None,
    threads: int | None,
) -> None:
    import numpy as np

    from attributary.cli.asked import load_spec
    from attributary.cli.planned import print_plan
    from attributary.cli.print_counts import print_counts
    from attributary.cli.print_estimates import print_estimates
    from attributary.cli.progress import reading_bar, stages
    from attributary.cli.reading import check_folder, log_paths, refuse_inputs
    from attributary.cli.run_counts import run_counts
    from attributary.cli.run_parts import run_parts
    from attributary.logs.count import count
    from attributary.logs.duckdb import DuckDB
    from attributary.logs.log_files import all_files, is_generated, rows_in_logs
    from attributary.prior import from_counts, none
    from attributary.tables.not_private import SEEDED, TRUE_COUNTS, mark
    from attributary.tables.whole_files import whole_folder

    chosen = chosen_estimator(estimator, joint, whole)
    asks, folder = load_spec(spec), os.path.dirname(spec)
    check_folder(output)
    refuse_inputs([os.path.join(output, name) for name in NAMES], [spec, *log_paths(asks, folder)])
    _check_earlier(output, again or seed is not None)
    simple = not asks.has_limits
    with (
        reading_bar(not quiet, lambda: rows_in_logs(asks.logs, folder)) as report,
        DuckDB(memory, temp, threads, report) as engine,
    ):
        before = None if prior_until is None else count(asks, folder, until=prior_until, engine=engine).table
        counts = count(asks, folder, since=prior_until, engine=engine)
    with stages(not quiet) as stage, np.errstate(divide="ignore"):  # Estimate.correction divides by 0 if unmoved
        stage("planning")
        tree = asks.tree(counts.table)
        known = [attribute.name for attribute in asks.known]
        prior = none(tree) if before is None else from_counts(tree, before, known=known)
        rng = None if seed is None else np.random.default_rng(seed)
        way = run_counts if simple else run_parts
        done = way(asks, tree, prior, before, counts.table, method, rng, confidence, stage, chosen)
        true = {"counts": counts.table} | ({} if before is None else {"prior": before})
        words = "" if seed is None else SEEDED
        tables = {name: mark(table, words) for name, table in done.tables.items()}
        tables |= {name: mark(table, TRUE_COUNTS) for name, table in true.items()}
        made_up = asks.logs is not None and any(map(is_generated, all_files(asks.logs, folder)))
        with whole_folder(output, NAMES) as place:
            stage("writing")
            write(place, done.plan, tables, format_)
            stage("drawing")
            shown = ["plan.json", *(f"{name}.{format_}" for name in done.tables)]
            draw(place, [os.path.join(place, name) for name in shown], made_up)
    path = os.path.join(output, f"estimates.{format_}")
    if quiet:
        if words:
            click.echo(f"{output}: {words}", err=True)
        return
    print_counts(counts, asks)
    print_plan(done.plan, tree, prior, None if before is None else f"impressions before {prior_until}", None)
    click.echo("", err=True)
    rows, notes = done.tables["estimates"].num_rows, [words] if words else []
    with np.errstate(divide="ignore"):
        print_estimates(done.estimates, rows, path, notes)
    names, ratios = " and ".join(true), " ratios," if "ratios" in done.tables else ""
    beside = f"plan.json,{ratios} {names} are there too; {names} hold true counts, NOT protected"
    generated = ["the rows of these logs were generated"] if made_up else []
    twice = f"each run draws new noise: publishing two runs of these logs costs 2ε = {2 * asks.epsilon:g}, not one ε"
    page = f"the page to look at: {os.path.join(output, 'report.html')}"
    for line in [*done.errors, beside, *generated, *([] if words else [twice]), page]:
        click.echo(line, err=True)


def _check_earlier(folder: str, again: bool) -> None:
    """Refuses to replace an earlier run unless that is wanted, and files that are not of a run at all."""
    from attributary.errors import InputError
    from attributary.tables.whole_files import was_stopped

    there = [name for name in NAMES if os.path.exists(os.path.join(folder, name))]
    if not there or was_stopped(folder):
        return
    if "plan.json" not in there or not any(name.startswith("estimates.") for name in there):
        raise InputError(f"{folder} has a {there[0]} that is not of a run; choose another folder with -o")
    if not again:
        raise InputError(
            f"{folder} holds an earlier run, and another one is a second release (2ε if both are published); "
            "add --again to replace it, or choose another folder with -o"
        )


def write(folder: str, plan: "Plan", tables: dict[str, Any], format_: str) -> None:
    """Writes the plan and the tables."""
    from attributary.tables import write_table

    plan.save(os.path.join(folder, "plan.json"))
    for name, table in tables.items():
        write_table(table, os.path.join(folder, f"{name}.{format_}"))


def draw(folder: str, shown: list[str], generated: bool) -> None:
    """Writes the page beside what it shows; its title tells if the rows were generated."""
    from attributary.report import page, read, save
    from attributary.report.page import titled

    given = read(shown)
    html = page(given, title=f"{titled(given)}, generated" if generated else None).html
    save(html, os.path.join(folder, "report.html"))
