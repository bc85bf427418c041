"""attributary explore: estimates of any size in the browser, and budgets to try out."""

import sys
from typing import Any

import click

from attributary.cli.options import amount_options, flag, form_options, levels_option, option, quiet, tau_option
from attributary.cli.printing import current, fact, say, stages
from attributary.cli.reading import answered

ABOUT = """Browse estimates of any size, and try out budgets, in the browser.

\b
    $ attributary explore run
    $ attributary explore this/run/estimates.parquet last/run/estimates.parquet
    $ attributary explore figures.csv --noise laplace:scale=3
    $ attributary explore spec.toml --prior counts.parquet
    $ attributary explore

FILE is a table of estimates, a raw table of noisy figures, a plan, a spec, a folder that `run` wrote, or a folder of
periods. A raw table is denoised in memory; what it is taken for is printed, and the options below correct it. With a
second table or a folder of periods, every count is shown next to the earlier one. Without a file, the Plan tab starts
with a made-up tree.

The page is served on this machine only, to whoever has the address with its token. Ctrl-C stops it. More:
docs/explore.md
"""


@click.command(help=ABOUT, short_help="Browse estimates of any size, and try out budgets.")
@click.argument("file", metavar="[FILE]", required=False)
@click.argument("earlier", metavar="[EARLIER]", required=False)
@levels_option("if the table does not state them.")
@option("--noise MODEL", "Noise of a raw table, as in `denoise --noise`.")
@flag("--fill", "With a raw table: add nodes without a row, as not measured.")
@amount_options
@form_options
@tau_option
@option("--prior FILE", "With a spec: counts or a report of an earlier period.")
@flag("--protected", "The counts of --prior were protected.")
@option("--breakdown NAME", "Of several breakdowns, the one to look at.  [default: the first]")
@option(
    "--port",
    "Port to listen on.  [default: any free port]",
    type=click.IntRange(0, 65535),
    default=0,
    show_default=False,
)
@flag("--no-browser", "Print the address only; do not open a browser.")
@option("--memory SIZE", "DuckDB's memory limit, as in 4GB.  [default: most of this machine's]")
@quiet("Print nothing but the address.")
def explore(*, file: str | None, earlier: str | None, port: int, no_browser: bool, quiet: bool, **how: Any) -> None:
    from attributary.cli.print_results import print_form
    from attributary.explore import open_session, serve

    with stages(not quiet) as stage, answered():
        session = open_session(file, earlier, stage=stage, **how)
    if not quiet:
        print_form(session.recognised, session.doubts)
    serve(session, port, lambda address, once: _ready(address, None if no_browser else once, quiet))


def _ready(address: str, once: str | None, quiet: bool) -> None:
    click.echo(address)
    sys.stdout.flush()
    if not quiet:
        say("open this address; it works on this machine only. Ctrl-C stops it.")
    summary = current()
    if summary is not None:
        fact(address=address.partition("#")[0])  # without the token: a file may be read by others
        summary.write()  # now, as the rest lasts until Ctrl-C
    if once:
        import webbrowser

        webbrowser.open(once)
