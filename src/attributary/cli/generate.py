"""attributary generate: logs that look like the published ones, and a little shop."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import click

KINDS = ["csscl", "camb", "shop"]
FORMATS = ["parquet", "published"]

ABOUT = """Generated logs, none of whose rows is real; every file says so.

\b
    csscl  like the Criteo Sponsored Search Conversion Log:
           partner > country > device > age group > delay
    camb   like Criteo's Attribution Modeling for Bidding dataset:
           campaign > cat1 > cat8 > delay
    shop   a little shop with names, as impressions and conversions,
           and a spec.toml that asks for campaign > location > day

\b
    $ attributary generate csscl --rows 100000 -o logs/

The look-alikes have the published figures (rows, skews, delays, amounts, users); fewer or more rows keep their
proportions. What they look like beyond these figures is assumed: the documentation says what. The same seed and number
of rows give the same bytes.

THE OUTPUT is a file if it ends in .parquet, .tsv or .tsv.gz. Without an ending, or with a / at the end, it is a folder,
which is made if it is not there. Parquet holds one row per impression, attributed; the published format is that of
Criteo's file: text with tabs, -1 where a value is missing.
"""


@click.command(help=ABOUT, short_help="Logs that look like the published ones, and a little shop.")
@click.argument("kind", type=click.Choice(KINDS), metavar="csscl|camb|shop")
@click.option("--rows", type=click.IntRange(min=1), help="How many rows (shop: impressions).  [default: as published]")
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Of the draws.")
@click.option("--format", "format_", type=click.Choice(FORMATS), help="If the output's ending does not tell.")
@click.option("-o", "--output", metavar="PATH", required=True, help="A folder or a file.")
@click.option("-q", "--quiet", is_flag=True, help="No progress and no summary.")
def generate(*, kind: str, rows: int | None, seed: int, format_: Any, output: str, quiet: bool) -> None:
    from attributary.datasets import GENERATED, KINDS, VERSION, generate

    with _bar(KINDS[kind] if rows is None else rows, not quiet) as progress:
        written = generate(kind, output, rows, seed, format_, progress)
    if not quiet:
        for path, number in written:
            click.echo(f"{path}: {number:,} rows, {GENERATED[kind]} (version {VERSION}, seed {seed})", err=True)


@contextmanager
def _bar(rows: int, show: bool) -> Iterator[Callable[[int], None]]:
    """A function to call with the number of rows that were added; a bar shows them if standard error is a terminal."""
    if not show or not sys.stderr.isatty():
        yield lambda added: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    done = TextColumn("{task.completed:,.0f} of {task.total:,.0f} rows{task.fields[rate]}")
    console = Console(stderr=True)
    with Progress(BarColumn(), done, TimeRemainingColumn(), console=console, transient=True) as bar:
        task = bar.add_task("rows", total=rows, rate="")

        def progress(added: int) -> None:
            bar.advance(task, added)
            speed = bar.tasks[0].speed
            bar.update(task, rate=f", {speed:,.0f} a second" if speed else "")

        yield progress
