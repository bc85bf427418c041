"""attributary generate: logs that look like the published ones, a small shop, and counts of a known process."""

from typing import Any

import click

from attributary.cli.options import choice, option, quiet, row_count
from attributary.cli.printing import fact, say, writing_bar

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
@option("--rows", "Number of rows (shop: impressions; forest: leaves).  [default: as published]", type=row_count)
@option("--seed", "Seed of the random draws.", type=click.IntRange(min=0), default=0)
@choice("--format", FORMATS, "File format.  [default: by the ending of the output]", to="format_")
@option("-o --output PATH", "Folder or file to write.", required=True)
@quiet("Print no progress and no messages.")
def generate(*, kind: str, rows: int | None, seed: int, format_: Any, output: str, quiet: bool) -> None:
    from attributary.generated import GENERATED, VERSION
    from attributary.paper import KINDS, generate

    with writing_bar(KINDS[kind] if rows is None else rows, not quiet) as progress:
        written = generate(kind, output, rows, seed, format_, progress)
    if not quiet:
        for path, number in written:
            fact(generated={"path": path, "rows": number})
            say(f"{path}: {number:,} rows, {GENERATED[kind]} (version {VERSION}, seed {seed})")
