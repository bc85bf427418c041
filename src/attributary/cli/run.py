"""attributary run: the whole way on this machine, from logs to counts that add up."""

import os
from typing import TYPE_CHECKING, Any

import click

from attributary.cli.estimator import estimator_options

if TYPE_CHECKING:
    from attributary.plan import Plan

METHODS = ["optimal", "greedy", "equal", "leaves", "per-node"]
FORMATS = ["parquet", "csv"]
NOT_FOR_RELEASE = "its noise is seeded, and protects nobody: not for release"

ABOUT = """The whole way on this machine: logs, counts, plan, noise, counts that add up.

\b
    $ attributary generate shop -o shop/
    $ attributary run shop/spec.toml --prior-until 2026-02-02 -o shop/run

What the browsers and the aggregation service would do is simulated: each conversion is attributed and counted as in
`attributary count`, the budget is split as in `attributary plan`, every node gets the noise that a summary report would
have, and the noisy figures are denoised as in `attributary denoise`.

THE PRIOR, which tells the plan what counts to expect, are the counts of impressions before --prior-until; the later
ones are then what is measured. Without it, the plan goes by the structure of the tree.

With --learn, what is expected has a part in the estimates, as in `attributary denoise --learn`: shares of cousins and,
with --prior-until, of the earlier counts, measured with noise of their own at the same epsilon. The optimal split is
then made for such estimates, as in `attributary plan --learn`.

THE OUTPUT is a folder, which is made if it is not there:

\b
    report.html  all of it as a page
    plan.json    what each level contributes
    estimates    one row per node: the noisy figure, the estimate, its interval
    counts       the true counts, and prior, those of before: NOT protected
    ratios       with counts and values: what a conversion brings

The noise is the operating system's, exact, and another one each time. With --seed it is the same each time, and
protects nobody.
"""


@click.command(help=ABOUT, short_help="The whole way on this machine, from logs to counts that add up.")
@click.argument("spec", metavar="SPEC")
@click.option("--prior-until", metavar="TIME", help="Impressions before this time are the prior, the others measured.")
@click.option("--method", type=click.Choice(METHODS), default="optimal", show_default=True, help="To split the budget.")
@click.option("--learn", is_flag=True, help="Use what cousins and the prior share: no longer unbiased.")
@estimator_options
@click.option("--seed", type=click.IntRange(0), help="The same noise each time, which is not for release.")
@click.option("--memory", metavar="SIZE", help="DuckDB's limit, as in 4GB.  [default: most of this machine's]")
@click.option("--temp", metavar="DIR", help="Where DuckDB puts what does not fit.  [default: the temporary folder]")
@click.option("--threads", type=click.IntRange(1), help="DuckDB's threads.  [default: all]")
@click.option("-o", "--output", metavar="DIR", default="run", show_default=True, help="The folder to write to.")
@click.option(
    "--format", "format_", type=click.Choice(FORMATS), default="parquet", show_default=True, help="Of tables."
)
@click.option("-q", "--quiet", is_flag=True, help="No progress and no words.")
def run(
    *,
    spec: str,
    prior_until: str | None,
    method: str,
    learn: bool,
    seed: int | None,
    confidence: float,
    output: str,
    format_: str,
    quiet: bool,
    memory: str | None,
    temp: str | None,
    threads: int | None,
    **estimator: Any,
) -> None:
    import numpy as np

    from attributary.cli.asked import load_spec
    from attributary.cli.count import print_counts, progress, rows_of
    from attributary.cli.folder import check_folder
    from attributary.cli.planned import print_plan
    from attributary.cli.progress import stages
    from attributary.cli.run_counts import run_counts
    from attributary.cli.run_parts import run_parts
    from attributary.cli.summary import print_measures, print_summary
    from attributary.evaluate.paper import is_generated
    from attributary.logs.count import count
    from attributary.logs.duckdb import DuckDB
    from attributary.logs.files import all_files
    from attributary.prior import from_counts, none

    asks, folder = load_spec(spec), os.path.dirname(spec)
    check_folder(output)
    simple = asks.counts_alone and asks.conversions_per_impression == 1
    with (
        progress(not quiet, lambda: rows_of(asks, folder)) as report,
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
        done = way(asks, tree, prior, before, counts.table, method, rng, confidence, stage, learn, **estimator)
        stage("writing")
        true = {"counts": counts.table} | ({} if before is None else {"prior": before})
        path = write(output, done.plan, {name: labelled(t, seed) for name, t in done.tables.items()} | true, format_)
        stage("drawing")
        made_up = asks.logs is not None and any(map(is_generated, all_files(asks.logs, folder)))
        shown = [os.path.join(output, "plan.json"), path]
        shown += [os.path.join(output, f"ratios.{format_}")] if "ratios" in done.tables else []
        page = draw(output, shown, made_up)
    if quiet:
        return
    print_counts(counts, asks)
    print_plan(done.plan, tree, prior, None if before is None else f"impressions before {prior_until}", None)
    click.echo("", err=True)
    rows, notes = done.tables["estimates"].num_rows, [NOT_FOR_RELEASE] if seed is not None else []
    with np.errstate(divide="ignore"):
        if simple:
            print_summary(done.estimates["count"], rows, path, notes)
        else:
            print_measures(done.estimates, rows, path, notes)
    names, ratios = " and ".join(true), " ratios," if "ratios" in done.tables else ""
    beside = f"plan.json,{ratios} {names} are there too; {names} hold true counts, NOT protected"
    generated = ["the rows of these logs were generated"] if made_up else []
    for line in [*done.errors, beside, *generated, f"the page to look at: {page}"]:
        click.echo(line, err=True)


def labelled(table: Any, seed: int | None) -> Any:
    """The table, which says of itself if its noise was seeded."""
    from attributary.cli.estimates import noted

    return table if seed is None else noted(table, attributary=f"seed {seed}: {NOT_FOR_RELEASE}")


def write(folder: str, plan: "Plan", tables: dict[str, Any], format_: str) -> str:
    """Writes all files, the estimates last, and says where these are."""
    from attributary.cli.folder import make_folder
    from attributary.tables import write_table

    make_folder(folder)
    plan.save(os.path.join(folder, "plan.json"))
    paths = {name: os.path.join(folder, f"{name}.{format_}") for name in reversed(tables)}
    for name, path in paths.items():
        write_table(tables[name], path)
    return paths["estimates"]


def draw(folder: str, shown: list[str], generated: bool) -> str:
    """Writes the page beside what it shows, and says where it is; its title tells if the rows were generated."""
    from attributary.report import page, read, save
    from attributary.report.page import titled

    path, given = os.path.join(folder, "report.html"), read(shown)
    save(page(given, title=f"{titled(given)}, generated" if generated else None).html, path)
    return path
