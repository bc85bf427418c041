"""attributary denoise: noisy figures, from a table or from a summary report, become figures that add up."""

import os
import sys
from collections.abc import Sequence
from glob import has_magic
from typing import Any, get_args

import click

from attributary.cli import options
from attributary.cli.printing import place_of, say, stages, warn_first
from attributary.cli.reading import answered, refuse_inputs
from attributary.errors import InputError
from attributary.tables.table_source import Format
from attributary.types import Arrow, Record

FORMATS = list(get_args(Format))
TREE = "tree.parquet"

ABOUT = """Turn noisy figures of any tree into the best figures that add up.

Each figure is a true count plus noise of known variance. The estimates add up at every node and have the least variance
of all unbiased estimates that do.

A SUMMARY REPORT needs its plan, and the tree that `attributary keys` wrote:

\b
    $ attributary denoise plan.json summary.avro --tree keys/tree.parquet \\
          -o estimates.parquet

Several reports add up. Results of BigQuery (tables) and of W3C Attribution (JSON) are read in the same way.

ANY OTHER TABLE has one row per node or one row per leaf. What you do not state is recognised where only one reading
fits all rows, and printed:

\b
    $ attributary denoise --table figures.csv --noise laplace:scale=3 \\
          -o estimates.csv
    $ attributary denoise --table figures.csv --levels region,store \\
          --value visits --variance 8,4 -o estimates.csv

THE NOISE is given by --variance, --std or --noise. An AMOUNT is a column, one number, or one number per level from top
to bottom. A variance of inf means not measured; 0 means known exactly. Common models:

\b
    --noise laplace:scale=3                also dlap:rate=1, normal:std=2
    --noise laplace:epsilon=1,levels=3     one budget for the whole table
    --noise api:epsilon=4,contribution=32768    as in a summary report
    --noise estimated                      from how far rows miss adding up

THE ESTIMATOR is unbiased by default, or learned with --prior. learned and posterior have smaller errors, most of all
for small counts, but they are biased: do not bill by them.

THE OUTPUT has your rows and columns, and adds estimate, variance, low and high (the interval at --confidence),
correction (how far the figure moved, in standard deviations), noisy and noise_variance; with learned or posterior also
from_prior, the weight of the prior. With --engine spark, it is a folder of Parquet files. More: docs/table.md,
docs/prior.md, docs/posterior.md, docs/cluster.md
"""


@click.command(help=ABOUT, short_help="Turn noisy figures of any tree into the best figures that add up.")
@click.argument("files", nargs=-1, metavar="[PLAN SUMMARY...]...")
@options.option(
    "--tree FILE",
    "With a summary report: the nodes that were queried; of several reports one for all, or one for each.",
    multiple=True,
)
@options.option("--table FILE", "CSV, TSV (also .gz or .zst), Parquet or Arrow; - is standard input.", "path")
@options.option("--levels A,B,C", "Columns that name a node, top to bottom.  [default: recognised]")
@options.amount_options
@options.option("--noise MODEL", "Noise model with its parameters, as in laplace:scale=3.")
@options.flag("--fill", "Add rows for nodes without one, as not measured.")
@options.prior_options
@options.estimator_options
@options.form_options
@options.file_output(about="Where to write; - is standard output, as CSV.")
@options.format_option(FORMATS)
@options.option("--prefix", "Prefix of the names of the added columns.", default="")
@options.threads
@options.cluster_options
@options.quiet()
def denoise(
    *,
    files: tuple[str, ...],
    tree: tuple[str, ...],
    path: str | None,
    levels: str | None,
    value: str | None,
    confidence: float,
    output: str,
    format_: Any,
    quiet: bool,
    estimator: str | None,
    joint: bool,
    whole: bool,
    prior: str | None,
    protected: bool,
    threads: int | None,
    noise: str | None,
    engine: str,
    master: str | None,
    conf: tuple[str, ...],
    **of_table: Any,
) -> None:
    from attributary.cli.print_results import print_estimates, print_form
    from attributary.denoising.passes import passes_once
    from attributary.pipeline.denoise_table import denoise_table
    from attributary.tables import check_output, read_table, write_table
    from attributary.tables.table_columns import words_of

    chosen = options.chosen_estimator(estimator, joint, whole, prior)
    how: Record = {
        "estimator": chosen,
        "prior": prior,
        "protected": protected,
        "noise": noise,
        "confidence": confidence,
    }
    _refuse_mixtures(files, tree, {"path": path, "levels": levels, "value": value, **of_table})
    cluster = options.on_cluster(engine, master, conf)
    if cluster is not None:
        source = {"files": files, "tree": tree, "path": path, "levels": levels, "value": value}
        _on_spark(cluster, source, how, output, format_, of_table, quiet)
        return
    written = check_output(output, format_)
    trees = tree or _trees_beside(files)
    refuse_inputs([output], [*files, *trees, path, prior])
    with passes_once(), stages(not quiet and not (output == "-" and sys.stdout.isatty())) as stage:
        if path is None:
            denoised = _summary(files, tree, stage, how)
        else:
            stage("reading")
            how |= {"path": path, "stage": stage}
            with answered():
                table = read_table(path, separator=of_table.pop("separator"), sheet=of_table.pop("sheet"))
                denoised = denoise_table(table, _names(table, levels), value, **how, **of_table)
        stage("writing")
        made = denoised.written(written.format)
        write_table(made, output, format_)
    warn_first("" if quiet else denoised.misfit)
    if words := words_of(made):
        say(f"{place_of(output)}: {words}", always=True)
    if quiet:
        return
    print_form(denoised.recognised, denoised.doubts)
    breakdowns = denoised.breakdowns if path is None else {}
    for name, part in breakdowns.items():
        say(f"\n{name}")
        print_estimates(part.quantities(confidence), part.table.num_rows, output, part.notes)
    if not breakdowns:
        print_estimates(denoised.quantities(confidence), made.num_rows, output, denoised.notes)


def _on_spark(
    cluster: Any,
    source: dict[str, Any],
    how: dict[str, Any],
    output: str,
    format_: Any,
    of_table: dict[str, Any],
    quiet: bool,
) -> None:
    """Denoises on a cluster, and prints what was written: Parquet files in a folder."""
    from attributary.logs.spark_folder import save_frame
    from attributary.pipeline.spark_nodes import denoise_summary_spark, denoise_table_spark
    from attributary.plan import Plan

    if output == "-" or format_ not in (None, "parquet"):
        raise InputError("a cluster writes a folder of Parquet files; give its name, as in -o estimates.parquet")
    here = {**of_table, "prior": how.pop("prior"), "protected": how.pop("protected")}
    amounts = {name: here.pop(name) for name in ("variance", "std", "fill", "prefix")}
    for name, given in here.items():
        if given not in (None, False, (), ""):
            raise InputError(f"--{name.replace('_', '-')} is for one machine; leave it out, or --engine spark")
    path, plans = source["path"], source["files"]
    with cluster as engine:
        if path is None:
            pairs = _with_trees(plans, source["tree"])
            if len({(plan, tree) for plan, _, tree in pairs}) > 1:
                raise InputError("a cluster denoises reports of one plan and one tree; denoise those of each alone")
            name, tree = pairs[0][0], pairs[0][2]
            reports = [report for _, report, _ in pairs]
            made = denoise_summary_spark(Plan.load(name), reports, tree, engine=engine, name=name, **how)
        else:
            if not (source["levels"] and source["value"]):
                raise InputError("a cluster recognises no columns; say which with --levels and --value")
            names = [level.strip() for level in source["levels"].split(",")]
            made = denoise_table_spark([path], names, source["value"], engine=engine, **how, **amounts)
        rows = save_frame(engine.session, made.frame, output)
    if made.not_private:
        say(f"{output}: {made.not_private}", always=True)
    if not quiet:
        for note in made.notes:
            say(note)
        say(f"{rows:,} rows written to {output}")


def _names(table: Arrow, levels: str | None) -> list[str] | None:
    """The columns that a user names with commas, which may have blanks around them."""
    names = table.column_names
    return None if levels is None else [name if name in names else name.strip() for name in levels.split(",")]


def _summary(files: Sequence[str], trees: Sequence[str], stage: Any, how: Record) -> Any:
    """Summary reports denoised by the plans in files, each on the tree that it was queried by."""
    from attributary.pipeline.denoise_summary import QueriedReports, denoise_batches
    from attributary.pipeline.read_prior import read_queried
    from attributary.plan import Plan

    batches: dict[tuple[str, str], list[str]] = {}  # files by plan and tree
    for plan_path, summary, tree_path in _with_trees(files, trees):
        batches.setdefault((plan_path, tree_path), []).append(summary)
    plans = {path: Plan.load(path) for path, _ in batches}
    stage("building the tree")
    queried = {(plan, tree): read_queried(plans[plan], tree, plan) for plan, tree in batches}
    stage("reading")
    every = [QueriedReports(plans[one[0]], summaries, *queried[one], one[0]) for one, summaries in batches.items()]
    return denoise_batches(every, stage=stage, **how)


def _with_trees(files: Sequence[str], trees: Sequence[str]) -> list[tuple[str, str, str]]:
    """Each summary report with its plan, which is the last one named before it, and with its tree."""
    from attributary.file_kind import file_kind

    pairs: list[tuple[str, str]] = []
    plan = files[0]
    for path in files[1:]:
        if os.path.isfile(path) and file_kind(path).kind == "plan":
            plan = path
        else:
            pairs.append((plan, path))
    if not pairs or plan != pairs[-1][0]:
        raise InputError(f"denoise a plan with its summary report, as in {plan} summary.avro; {plan} has none")
    if len(trees) > 1 and len(trees) != len(pairs):
        raise InputError(
            f"--tree is one for all summary reports, or one for each, in their order; got {len(trees)} for {len(pairs)}"
        )
    every = [path for _, path in pairs]
    missing = next((path for path in every if not has_magic(path) and not os.path.exists(path)), None)
    if missing is not None:
        raise InputError(f"there is no file {missing}; give the files of the summary report")
    found = trees or [_tree_beside([path, plan, *every]) for plan, path in pairs]
    return [(*pair, found[i] if len(found) > 1 else found[0]) for i, pair in enumerate(pairs)]


def _trees_beside(paths: Sequence[str]) -> list[str]:
    """Where a tree may be that was not named: beside one of these files."""
    return [os.path.join(path if os.path.isdir(path) else os.path.dirname(path), TREE) for path in paths]


def _tree_beside(paths: list[str]) -> str:
    """The tree beside one of these files."""
    there = next((place for place in _trees_beside(paths) if os.path.exists(place)), None)
    if there is None:
        raise InputError(
            f"the nodes that were queried are needed, and there is no {TREE} beside report or plan; give --tree "
            "a file that `attributary keys --impressions` wrote"
        )
    return there


def _refuse_mixtures(files: tuple[str, ...], tree: tuple[str, ...], of_table: Record) -> None:
    """Refuses what is neither a table nor a plan with its summary report, and mixtures of both."""
    options = [name for name, value in of_table.items() if value not in (None, False, (), "")]
    if len(files) == 1:
        if not files[0].endswith((".json", ".avro")):
            raise InputError(f"{files[0]} is a table: use --table {files[0]}, or give a plan and a summary report")
        raise InputError(f"denoise a plan with its summary report, as in {files[0]} summary.avro; got only one file")
    if files and options:
        raise InputError(f"`{options[0]}` belongs to --table; with a plan and its summary report, leave it out")
    if files:
        return
    if tree:
        raise InputError("--tree belongs to a plan and its summary report; give them, or leave --tree out")
    if of_table["path"] is None:
        raise InputError("give a plan and its summary report, or --table, --levels and --value; lacks --table")
