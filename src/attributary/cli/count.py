"""attributary count: logs become a table of counts, one for each leaf."""

import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from attributary.cli.printing import one_line

if TYPE_CHECKING:
    from attributary.logs.attribute_labels import OutsideDomain
    from attributary.logs.counts import Counts
    from attributary.logs.engine import Report
    from attributary.logs.value_bins import ValueTotals
    from attributary.spec import Spec

ENGINES = ["duckdb", "spark"]
FORMATS = ["csv", "tsv", "parquet", "arrow", "arrows"]

ABOUT = """Logs in, the count of every leaf out.

SPEC is a TOML file. Its section [logs] says where impressions and conversions are, and what joins them:

\b
    [logs]
    impressions = "impressions/*.parquet"
    conversions = "conversions/*.parquet"
    user = "user"
    time = "time"
    window = "30d"
\b
    $ attributary count spec.toml -o counts.parquet

Or its rows have their conversions already: attributed = "rows.parquet", with converted, conversion_time or delay.

LOGS are files to read instead of the spec's impressions (or attributed rows); --conversions goes with them. Files are
CSV or TSV (also .gz and .zst) or Parquet. Several, patterns and folders are fine; folders named after a value, as in
day=2026-03-01, are a column. Addresses such as s3://bucket/*.parquet are read by the engine.

A CONVERSION belongs to the last impression before it of the same user. It is counted if that is within the window, and
if it is the impression's first, or among as many as the spec's conversions_per_impression says.

THE OUTPUT has one row per leaf, with the values of known attributes that occur in impressions, and the whole domain of
unknown ones: the attributes, impressions, conversions. The impressions stand on the first leaf of each known path. What
is counted nowhere is told in words.

A PERIOD has the impressions --from a time and before --until another, in the log's own clock: a number, a span such as
45d from 0, a date or a time.
"""


@click.command(help=ABOUT, short_help="Logs in, the count of every leaf out.")
@click.argument("spec", metavar="SPEC")
@click.argument("logs", metavar="[LOGS]...", nargs=-1)
@click.option("--conversions", multiple=True, metavar="FILE", help="Conversions to read instead of the spec's.")
@click.option("--from", "since", metavar="TIME", help="Only impressions from this time on.")
@click.option("--until", metavar="TIME", help="Only impressions before this time.")
@click.option("--engine", type=click.Choice(ENGINES), default="duckdb", show_default=True, help="What reads the logs.")
@click.option("--memory", metavar="SIZE", help="DuckDB's limit, as in 4GB.  [default: most of this machine's]")
@click.option("--temp", metavar="DIR", help="Where DuckDB puts what does not fit.  [default: the temporary folder]")
@click.option("--threads", type=click.IntRange(1), help="DuckDB's threads.  [default: all]")
@click.option("--master", metavar="URL", help="Spark's.  [default: the running session, or this machine]")
@click.option(
    "-o", "--output", metavar="FILE", default="-", show_default=True, help="Where to write; - is standard output."
)
@click.option("--format", "format_", type=click.Choice(FORMATS), help="Of the output, if its ending does not tell.")
@click.option("-q", "--quiet", is_flag=True, help="No progress and no words.")
def count(
    *,
    spec: str,
    logs: tuple[str, ...],
    conversions: tuple[str, ...],
    since: str | None,
    until: str | None,
    output: str,
    format_: Any,
    quiet: bool,
    **options: Any,
) -> None:
    from attributary.cli.asked import load_spec
    from attributary.cli.reading import log_paths, refuse_inputs
    from attributary.logs.count import count
    from attributary.tables import check_output, write_table

    check_output(output, format_)
    asks, folder = with_files(load_spec(spec), logs, conversions), os.path.dirname(spec)
    refuse_inputs([output], [spec, *log_paths(asks, folder)])
    start = time.perf_counter()
    with progress(not quiet, lambda: rows_of(asks, folder)) as report, engine(report, **options) as running:
        counts = count(asks, folder, since=since, until=until, engine=running)
    took = time.perf_counter() - start
    write_table(counts.table, output, format_)
    if not quiet:
        print_counts(counts, asks)
        where = "standard output" if output == "-" else output
        read = speed(counts.rows or rows_of(asks, folder), took)
        click.echo(f"{counts.table.num_rows:,} rows written to {where}{read}", err=True)


def speed(rows: int, took: float) -> str:
    """How fast the logs were read, where that took a while."""
    return f"; {rows:,} rows read in {took:.0f} s, {rows / took:,.0f} a second" if rows and took > 2 else ""


def with_files(spec: "Spec", logs: tuple[str, ...], conversions: tuple[str, ...]) -> "Spec":
    """The spec with files of the command's, which are relative to where it runs."""
    from attributary.errors import InputError

    if spec.logs is None or not (logs or conversions):
        return spec
    if spec.logs.is_attributed and conversions:
        raise InputError("the rows of this log have their conversions already; leave --conversions out")
    side = "attributed" if spec.logs.is_attributed else "impressions"
    given = {side: logs, "conversions": conversions}
    absolute = {
        name: tuple(path if "://" in path else os.path.abspath(path) for path in paths)
        for name, paths in given.items()
        if paths
    }
    return spec.model_copy(update={"logs": spec.logs.model_copy(update=absolute)})


def engine(
    report: "Report", engine: str, memory: str | None, temp: str | None, threads: int | None, master: str | None
) -> Any:
    """The engine that the options ask for, to be used in a `with` statement."""
    from attributary.errors import InputError

    if engine == "spark":
        for name, value in (("memory", memory), ("temp", temp), ("threads", threads)):
            if value is not None:
                raise InputError(
                    f"--{name} is DuckDB's; Spark has settings of its own: leave it out with --engine spark"
                )
        from attributary.logs.spark import Spark

        return Spark(master=master, report=report)
    if master is not None:
        raise InputError("--master is Spark's; add --engine spark, or leave it out")
    from attributary.logs.duckdb import DuckDB

    return DuckDB(memory, temp, threads, report)


def rows_of(spec: "Spec", folder: str) -> int:
    """How many rows there are to read, where all files say so; else 0."""
    from attributary.logs.log_files import files, rows_in

    logs = spec.logs
    given = [paths for paths in (logs.impressions, logs.conversions, logs.attributed) if paths] if logs else []
    rows = [rows_in(files(paths, folder, logs.header if logs else None)) for paths in given]
    return sum(rows) if all(rows) else 0


@contextmanager
def progress(show: bool, rows: Callable[[], int]) -> Iterator["Report"]:
    """A function to call with a stage and its share; a bar shows them if standard error is a terminal."""
    if not show or not sys.stderr.isatty():
        yield lambda stage, share: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[rate]}"))
    with Progress(*columns, TimeElapsedColumn(), console=Console(stderr=True), transient=True) as bar:
        number, begun = rows(), dict[str, float]()
        task = bar.add_task("starting", total=None, rate="")

        def report(stage: str, share: float | None) -> None:
            took = time.perf_counter() - begun.setdefault(stage, time.perf_counter())
            rate = f"{share * number / took:,.0f} rows a second" if share and number and took > 1 else ""
            bar.update(task, description=stage, total=1 if share else None, completed=share or 0, rate=rate)

        yield report


def print_counts(counts: "Counts", spec: "Spec") -> None:
    """Prints what was counted, and what was not, to standard error."""
    window = spec.logs.window if spec.logs else None
    fates = [
        (counts.unattributed, "no impression before it"),
        (counts.late, f"not within the window of {window}"),
        (counts.exceeded, _exceeded(spec)),
        (counts.incomplete, "no user, key or time"),
        *((found.conversions, _outside(found)) for found in counts.outside if not found.kept),
    ]
    what = "leaves" if "rank" not in counts.table.column_names else "rows by leaf, rank and step of values"
    lines = [
        f"{counts.impressions:,} impressions, {counts.conversions:,} conversions, {counts.table.num_rows:,} {what}"
    ]
    if any(number for number, _ in fates):
        lines += ["conversions that are not counted:"]
        lines += [f"{number:12,}  {words}" for number, words in fates if number]
    lines += [line for value in counts.values for line in _value(value)]
    lines += [
        f"{found.conversions:,} conversions count as other: {_outside(found)}" for found in counts.outside if found.kept
    ]
    if counts.undated:
        lines += [f"{counts.undated:,} impressions have no time: they get no conversion, and are in no period"]
    click.echo("\n".join(map(one_line, lines)), err=True)


def _exceeded(spec: "Spec") -> str:
    limit = spec.conversions_per_impression
    if limit == 1:
        return "its impression has a conversion already"
    return f"its impression has {20 if limit == 'auto' else limit} conversions already"


def _value(value: "ValueTotals") -> list[str]:
    """What became of a value."""
    unit = f" {value.unit}" if value.unit else ""
    lines = [f"{value.measure}: {value.total - value.cut:,.2f}{unit} of {value.total:,.2f}{unit} counted"]
    if value.clip is None:
        lines = [f"{value.measure}: {value.total:,.2f}{unit}; a plan says at what each is clipped"]
    if value.clipped:
        lines += [f"{value.clipped:12,}  conversions bring more than {value.clip:,g}{unit}, and count as that"]
    if value.missing:
        lines += [f"{value.missing:12,}  conversions have no {value.measure}, which counts as 0"]
    if value.not_positive:
        lost = f": {value.refunded:,.2f}{unit} in all" if value.refunded else ""
        lines += [f"{value.not_positive:12,}  conversions have a {value.measure} of 0 or less, which counts as 0{lost}"]
    return lines


def _outside(found: "OutsideDomain") -> str:
    shown = ", ".join(f"{value} ({times:,})" for value, times in found.values.items())
    return (
        f"{found.attribute} not in its domain: {shown}{', …' if sum(found.values.values()) < found.conversions else ''}"
    )
