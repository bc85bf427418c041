"""attributary run: the whole way on this machine, from logs to counts that add up."""

import os
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from attributary.denoising import Estimate
    from attributary.plan import Plan
    from attributary.tree import Tree

    Floats = NDArray[np.float64]

METHODS = ["optimal", "greedy", "equal", "leaves", "per-node"]
NONNEGATIVE = ["top-down", "joint"]
FORMATS = ["parquet", "csv"]
BETWEEN_0_AND_1 = click.FloatRange(0, 1, min_open=True, max_open=True)
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
with --prior-until, of the earlier counts, measured with noise of their own at the same epsilon.

THE OUTPUT is a folder, which is made if it is not there:

\b
    report.html  all of it as a page, if counts alone are asked for
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
@click.option(
    "--nonnegative",
    type=click.Choice(NONNEGATIVE),
    is_flag=False,
    flag_value="top-down",
    help="No estimate below 0: top-down, unless told to fit all jointly.",
)
@click.option("--whole", is_flag=True, help="Whole numbers that add up.")
@click.option(
    "--confidence", type=BETWEEN_0_AND_1, default=0.95, show_default=True, help="That low and high hold the true count."
)
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
    from attributary.cli.estimates import of_nodes
    from attributary.cli.planned import print_plan
    from attributary.cli.progress import stages
    from attributary.cli.run_parts import run_parts
    from attributary.cli.summary import print_measures, print_summary
    from attributary.denoising import denoise
    from attributary.evaluate.private import private_prior
    from attributary.logs.count import count
    from attributary.logs.duckdb import DuckDB
    from attributary.plan import make_plan
    from attributary.prior import from_counts, none
    from attributary.prior import learn as learn_shares
    from attributary.profile import profile

    asks, folder = load_spec(spec), os.path.dirname(spec)
    _check_folder(output)
    with (
        progress(not quiet, lambda: rows_of(asks, folder)) as report,
        DuckDB(memory, temp, threads, report) as engine,
    ):
        before = None if prior_until is None else count(asks, folder, until=prior_until, engine=engine)
        counts = count(asks, folder, since=prior_until, engine=engine)
    with stages(not quiet) as stage, np.errstate(divide="ignore"):  # Estimate.correction divides by 0 if unmoved
        stage("planning")
        tree = asks.tree(counts.table)
        known = [attribute.name for attribute in asks.known]
        prior = none(tree) if before is None else from_counts(tree, before.table, known=known)
        if not asks.counts_alone or asks.conversions_per_impression != 1:
            earlier = None if before is None else profile(tree, asks, before.table)
            plan = make_plan(asks, tree, prior, method, profile=earlier)
            stage("simulating a summary report and denoising it")
            rng = None if seed is None else np.random.default_rng(seed)
            done = run_parts(plan, tree, profile(tree, asks, counts.table), rng, confidence, **estimator)
            stage("writing")
            tables = {"estimates": labelled(done.table, seed), "counts": counts.table}
            tables |= {} if done.ratios is None else {"ratios": labelled(done.ratios, seed)}
            tables |= {} if before is None else {"prior": before.table}
            path = write(output, plan, tables, format_)
    if not asks.counts_alone or asks.conversions_per_impression != 1:
        if not quiet:
            told = None if before is None else f"impressions before {prior_until}"
            print_counts(counts, asks)
            print_plan(plan, tree, prior, told, None)
            click.echo("", err=True)
            with np.errstate(divide="ignore"):
                print_measures(done.estimates, done.table.num_rows, path, [NOT_FOR_RELEASE] if seed is not None else [])
            for name, off in done.errors.items():
                click.echo(f"error of this draw: {off:.1%} of {name}, or of its tau if larger", err=True)
            true = " and ".join(name for name in tables if name not in ("estimates", "ratios"))
            click.echo(f"plan.json and {true} are there too; {true} hold true counts, NOT protected", err=True)
        return
    with stages(not quiet) as stage, np.errstate(divide="ignore"):
        plan = make_plan(asks, tree, prior, method)
        stage("simulating a summary report")
        truth = from_counts(tree, counts.table).mean
        rng = None if seed is None else np.random.default_rng(seed)
        noisy, variance = simulated(plan, tree, truth, rng), plan.variance(tree)
        stage("denoising")
        shape: Any = "laplace" if asks.noise == "api" else "dlap"
        past = private_prior(asks, tree, before.table, rng, asks.epsilon) if learn and before is not None else None
        expected = learn_shares(tree, noisy, variance, past, tau=asks.tau) if learn else None
        est = denoise(tree, noisy, variance, prior=expected, shape=shape, **estimator)
        stage("writing")
        tables = {"estimates": labelled(of_nodes(est, confidence), seed), "counts": counts.table}
        tables |= {} if before is None else {"prior": before.table}
        path = write(output, plan, tables, format_)
        stage("drawing")
        page = draw(output, path)
    if quiet:
        return
    print_counts(counts, asks)
    print_plan(plan, tree, prior, None if before is None else f"impressions before {prior_until}", None)
    click.echo("", err=True)
    with np.errstate(divide="ignore"):
        print_summary(est, len(tree), path, [NOT_FOR_RELEASE] if seed is not None else [])
    click.echo(f"error of this draw: {error(est, truth, asks.tau):.1%} of the count, or of tau if larger", err=True)
    true = " and ".join(name for name in tables if name != "estimates")
    click.echo(f"plan.json, {true} are there too; {true} hold true counts, NOT protected", err=True)
    click.echo(f"the page to look at: {page}", err=True)


def simulated(plan: "Plan", tree: "Tree", count: "Floats", rng: Any = None) -> "Floats":
    """What a summary report would say of each node, as a count; 0 where it has no key."""
    import numpy as np

    from attributary.ara.service.simulate import simulated_summary
    from attributary.noise import sample_dlap

    spec, contribution = plan.spec, plan.contribution(tree)
    if spec.noise == "api":
        sums = simulated_summary(contribution, count, spec.epsilon, spec.l1, rng)
        return sums / np.maximum(contribution, 1)
    noisy = np.zeros(len(tree))
    for amount in np.unique(contribution[contribution > 0]):
        here = contribution == amount
        noisy[here] = count[here] + sample_dlap(spec.epsilon * int(amount) / spec.l1, int(here.sum()), rng)
    return noisy


def labelled(table: Any, seed: int | None) -> Any:
    """The table, which says of itself if its noise was seeded."""
    return table if seed is None else table.replace_schema_metadata({"attributary": f"seed {seed}: {NOT_FOR_RELEASE}"})


def error(est: "Estimate", truth: "Floats", tau: float) -> float:
    """The root mean squared relative error of these very estimates, over levels and their nodes."""
    import numpy as np

    from attributary import rmsre

    return rmsre.tree(est.tree, truth, np.square(est.count - truth), tau)


def write(folder: str, plan: "Plan", tables: dict[str, Any], format_: str) -> str:
    """Writes all files, the estimates last, and says where these are."""
    from attributary.errors import InputError
    from attributary.tables import write_table

    try:
        os.makedirs(folder, exist_ok=True)
    except OSError as problem:
        raise InputError(f"{folder} cannot be made: {problem.strerror}; choose another with -o") from None
    plan.save(os.path.join(folder, "plan.json"))
    paths = {name: os.path.join(folder, f"{name}.{format_}") for name in reversed(tables)}
    for name, path in paths.items():
        write_table(tables[name], path)
    return paths["estimates"]


def draw(folder: str, estimates: str) -> str:
    """Writes the page beside what it shows, and says where it is."""
    from attributary.report import page, read, save

    path = os.path.join(folder, "report.html")
    save(page(read([os.path.join(folder, "plan.json"), estimates])).html, path)
    return path


def _check_folder(folder: str) -> None:
    """Refuses early what could not be written to."""
    from attributary.errors import InputError

    if os.path.exists(folder) and not (os.path.isdir(folder) and os.access(folder, os.W_OK)):
        raise InputError(f"{folder} is no folder that can be written to; choose another with -o")
