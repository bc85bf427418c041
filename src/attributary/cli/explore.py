"""attributary explore: estimates of any size in the browser, and budgets to try out."""

import sys
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from attributary.explore.plan_start import PlanStart
    from attributary.explore.sources import Sources

ABOUT = """Look through estimates of any size in the browser, and try out budgets.

\b
    $ attributary explore shop/run
    $ attributary explore this/estimates.parquet last/estimates.parquet
    $ attributary explore spec.toml --prior counts.parquet
    $ attributary explore

COUNTS browses the tree: open a node, search by label, sort by count, error or correction, download as CSV. Where a
table has several measures, choose one. With a second table, every count is shown beside the earlier one, with the
change and whether noise explains it.

PLAN tries out epsilon, tau and the levels' shares, and shows the expected error of every level, the best split, and
three examples of what a report would look like. It starts with the estimates, the plan, the spec and its prior or logs,
or a made-up tree.

A FILE is a table of estimates from `run` or `denoise`, a plan, a spec, or a folder written by `run`. Parquet files are
queried in place; other tables are read into memory once. The page is served on this machine only, to whoever has the
address with its token. Ctrl-C stops it.
"""


@click.command(help=ABOUT, short_help="Browse estimates of any size, and try out budgets.")
@click.argument("file", metavar="[FILE]", required=False)
@click.argument("earlier", metavar="[EARLIER]", required=False)
@click.option("--levels", metavar="A,B,C", help="Columns that name a node, top to bottom, if the table does not say.")
@click.option(
    "--tau", type=float, help="Errors are relative to the count, or to this if larger.  [default: the plan's, 10]"
)
@click.option("--prior", "prior_path", metavar="FILE", help="With a spec: counts or a report of an earlier period.")
@click.option("--protected", is_flag=True, help="The counts of --prior were protected.")
@click.option("--port", type=click.IntRange(0, 65535), default=0, help="Port to listen on.  [default: any free port]")
@click.option("--no-browser", is_flag=True, help="Print the address only; do not open a browser.")
@click.option("--memory", metavar="SIZE", help="DuckDB's memory limit, as in 4GB.  [default: most of this machine's]")
@click.option("-q", "--quiet", is_flag=True, help="Print nothing but the address.")
def explore(
    *,
    file: str | None,
    earlier: str | None,
    levels: str | None,
    tau: float | None,
    prior_path: str | None,
    protected: bool,
    port: int,
    no_browser: bool,
    memory: str | None,
    quiet: bool,
) -> None:
    from attributary.cli.progress import stages
    from attributary.errors import InputError
    from attributary.explore.estimate_store import open_store
    from attributary.explore.explore_session import Session
    from attributary.explore.plan_start import plan_start
    from attributary.explore.server import serve
    from attributary.explore.sources import Sources, sources_in

    if tau is not None and not 0 < tau < float("inf"):
        raise InputError(f"--tau is a number above 0; got {tau}")
    sources = sources_in(file) if file else Sources()
    if prior_path and not sources.spec:
        raise InputError("--prior goes with a spec; give one, as in `attributary explore spec.toml --prior counts.csv`")
    tables = _tables(sources, file, earlier)
    names = [name.strip() for name in levels.split(",")] if levels else None
    prior: PlanStart | None = None
    with stages(not quiet) as stage:
        if sources.spec:
            stage("reading")
            prior = _of_spec(sources.spec, prior_path, protected, stage)
        store = open_store(tables, names, memory, stage) if tables else None
    plan = sources.plan
    relative = tau if tau is not None else plan.spec.tau if plan else 10.0
    session = Session(
        (lambda: open_store(tables, names, memory)) if tables else None,
        lambda current: prior or plan_start(current, plan, tau),
        relative,
        plan.spec.noise_model.shape.name if plan else "laplace",
        store,
        {part.measure.name: part for part in plan.by_measure} if plan else {},
    )
    if store is None:
        session.plan({})  # what is wrong with a plan is said here, not on the page
    serve(session, port, lambda address, once: _ready(address, None if no_browser else once, quiet))


def _tables(sources: "Sources", file: str | None, earlier: str | None) -> list[str]:
    """The tables to open: the estimates, and earlier ones."""
    from attributary.errors import InputError
    from attributary.explore.sources import sources_in

    if earlier is None:
        return [sources.estimates] if sources.estimates else []
    before = sources_in(earlier).estimates
    if sources.estimates is None or before is None:
        raise InputError(
            f"two tables of estimates are compared; {file if sources.estimates is None else earlier} is not one"
        )
    return [sources.estimates, before]


def _of_spec(path: str, prior_path: str | None, protected: bool, stage: Any) -> "PlanStart":
    """What the Plan tab begins with: the spec's tree with the prior, or with what its logs count."""
    import os

    from attributary.cli.read_inputs import load_spec, read_tree_and_prior
    from attributary.explore.plan_start import start_of_prior
    from attributary.logs.count import count
    from attributary.logs.duckdb import DuckDB
    from attributary.prior import from_counts

    spec = load_spec(path)
    if prior_path or spec.logs is None:
        tree, prior = read_tree_and_prior(spec, None, prior_path, protected)
        return start_of_prior(spec, tree, prior, prior_path or "nothing")
    stage("counting the logs")
    with DuckDB() as engine:
        counts = count(spec, os.path.dirname(path), engine=engine)
    tree = spec.tree(counts.table)
    return start_of_prior(spec, tree, from_counts(tree, counts.table), f"the logs of {path}")


def _ready(address: str, once: str | None, quiet: bool) -> None:
    from attributary.cli.printing import say
    from attributary.cli.summary_file import current, fact

    click.echo(address)
    sys.stdout.flush()
    if not quiet:
        say("open this address; it works on this machine only. Ctrl-C stops it.")
    summary = current()
    if summary is not None:
        fact("address", address.partition("#")[0])  # without the token: a file may be read by others
        summary.write()  # now, as the rest lasts until Ctrl-C
    if once:
        import webbrowser

        webbrowser.open(once)
