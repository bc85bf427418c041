"""attributary generate: logs that look like the published ones, a small shop, and counts of a known process."""

from typing import Any

import click

KINDS = ["csscl", "camb", "shop", "forest"]
FORMATS = ["parquet", "published"]

ABOUT = """Generate logs: no row is real, and every file says so.

\b
    csscl   like the Criteo Sponsored Search Conversion Log
    camb    like Criteo's Attribution Modeling for Bidding dataset
    shop    a small shop: impressions, conversions and a spec.toml
    forest  counts of two periods from a known process, and a spec.toml

\b
    $ attributary generate csscl --rows 100000 -o logs/
    $ attributary generate shop -o shop/

The output is a file if it ends in .parquet, .tsv or .tsv.gz, else a folder. The same seed and number of rows give the
same bytes. More: docs/datasets.md
"""


@click.command(help=ABOUT, short_help="Generate logs: look-alikes of published ones, or a small shop.")
@click.argument("kind", type=click.Choice(KINDS), metavar="csscl|camb|shop|forest")
@click.option(
    "--rows",
    type=click.IntRange(1, 10**10),
    help="Number of rows (shop: impressions; forest: leaves).  [default: as published]",
)
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Seed of the random draws.")
@click.option(
    "--format", "format_", type=click.Choice(FORMATS), help="File format.  [default: by the ending of the output]"
)
@click.option("-o", "--output", metavar="PATH", required=True, help="Folder or file to write.")
@click.option("-q", "--quiet", is_flag=True, help="Print no progress and no messages.")
def generate(*, kind: str, rows: int | None, seed: int, format_: Any, output: str, quiet: bool) -> None:
    from attributary.cli.printing import say
    from attributary.cli.progress import writing_bar
    from attributary.cli.summary_file import fact
    from attributary.generated import GENERATED, VERSION
    from attributary.paper import KINDS, generate

    with writing_bar(KINDS[kind] if rows is None else rows, not quiet) as progress:
        written = generate(kind, output, rows, seed, format_, progress)
    if not quiet:
        for path, number in written:
            fact("generated", {"path": path, "rows": number})
            say(f"{path}: {number:,} rows, {GENERATED[kind]} (version {VERSION}, seed {seed})")
