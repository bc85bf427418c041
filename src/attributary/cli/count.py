"""attributary count: logs become a table of counts, one row per leaf."""

import os
from typing import Any, get_args

import click

from attributary.cli.options import engine_options, file_output, format_option, option, period_options, quiet
from attributary.cli.printing import fact, place_of, reading_bar, say, stage_rows
from attributary.cli.reading import log_paths, refuse_inputs
from attributary.tables.table_source import Format

FORMATS = [name for name in get_args(Format) if name != "xlsx"]  # counts are too many rows for a sheet

ABOUT = """Count the conversions of every leaf in logs.

\b
    $ attributary count spec.toml -o counts.parquet

SPEC is a TOML file whose section [logs] says where impressions and conversions are, and which columns join them.
LOGS replace the spec's impressions: CSV, TSV (also .gz and .zst) or Parquet, by name, pattern, folder or address such
as s3://bucket/*.parquet.

A conversion belongs to the last impression of the same user before it. It counts if it is within the window and is that
impression's first, or one of the first few if the spec sets conversions_per_impression.

THE OUTPUT has one row per leaf: the attributes, impressions and conversions. These are true counts, and the file says
that they are NOT PRIVATE. With --engine spark it is a folder of Parquet files, or an address; standard output and
other formats are one file, which passes through this machine. More: docs/logs.md, docs/cluster.md
"""


@click.command(help=ABOUT, short_help="Count the conversions of every leaf in logs.")
@click.argument("spec", metavar="SPEC")
@click.argument("logs", metavar="[LOGS]...", nargs=-1)
@option("--conversions FILE", "Conversions to read instead of the spec's.", multiple=True)
@period_options
@engine_options
@file_output()
@format_option(FORMATS)
@quiet("Print no progress and no messages.")
def count(
    *,
    spec: str,
    logs: tuple[str, ...],
    conversions: tuple[str, ...],
    since: str | None,
    until: str | None,
    engine: str,
    output: str,
    format_: Any,
    quiet: bool,
    **options: Any,
) -> None:
    from attributary.cli.print_results import print_counts
    from attributary.logs.count import count, make_engine
    from attributary.logs.log_files import replace_files, rows_in_logs
    from attributary.spec import Spec
    from attributary.tables import check_output, write_table
    from attributary.tables.table_columns import TRUE_COUNTS
    from attributary.tables.table_source import by_name

    shards = engine == "spark" and output != "-" and (format_ or by_name(output).format or "parquet") == "parquet"
    if not shards:
        check_output(output, format_)
    asks, folder = Spec.load(spec), os.path.dirname(spec)
    in_parts, leaves = False, None
    if engine == "spark":
        from attributary.pipeline.spark_count import count_spark, why_not_in_parts

        in_parts = not why_not_in_parts(asks)
    if shards and not in_parts:
        shards = False
        check_output(output, format_)
    if asks.logs is not None:
        asks = asks.model_copy(update={"logs": replace_files(asks.logs, logs, conversions)})
    refuse_inputs([output], [spec, *log_paths(asks, folder)])
    with (
        reading_bar(not quiet, lambda: rows_in_logs(asks.logs, folder)) as report,
        make_engine(engine, report, **options) as running,
    ):
        if in_parts:
            on_workers = count_spark(asks, folder, since=since, until=until, engine=running)
            counts = on_workers.counts if shards else on_workers.collected()
        else:
            counts = count(asks, folder, since=since, until=until, engine=running).refuse_no_match()
        if shards:
            leaves, rows = on_workers.leaves, on_workers.save(output)
        else:
            rows = counts.table.num_rows
    stage_rows("attributing and counting" if asks.logs and not asks.logs.is_attributed else "counting", counts.rows)
    if not shards:
        write_table(counts.table, output, format_)
    if not quiet:
        print_counts(counts, asks, leaves)
        fact(not_private=TRUE_COUNTS)
        say(f"{rows:,} rows written to {place_of(output)}; {TRUE_COUNTS}")
        if engine == "spark" and not shards:
            say("they passed through this machine, as one file; a folder of Parquet stays on the workers")
