"""attributary denoise: noisy figures, from a table or from a summary report, become figures that add up."""

import os
import sys
from collections.abc import Sequence
from typing import Any

import click

from attributary.cli.options import amount_options, chosen_estimator, estimator_options, form_options, threads

FORMATS = ["csv", "tsv", "parquet", "arrow", "arrows"]
TREE = "tree.parquet"

ABOUT = """Noisy figures of any tree in, the best consistent figures out.

Each figure is a true count plus noise of known variance. The estimates add up at every node and have the least variance
of all unbiased estimates that do.

A SUMMARY REPORT of the Attribution Reporting API needs the plan that its reports were made by, and the tree that was
queried (tree.parquet, which `attributary keys` wrote; it is looked for beside the report and beside the plan):

\b
    $ attributary denoise plan.json summary.avro --tree keys/tree.parquet \\
          -o estimates.parquet

SEVERAL DAYS add up, each by the tree that it was queried by. Where a tree has all impressions (as `attributary keys`
writes it, without --partial), a campaign that is not in it has no conversions in that report; else it is not measured.
If a new plan took over, each report is read by its own:

\b
    $ attributary denoise old.json monday/summary.avro new.json tuesday/summary.avro

A plan, its trees and its reports name each other by a fingerprint, and keys begin with 16 bits of it. What does not
belong together is refused.

Avro or the service's JSON. Shards (a folder, or files named as in summary-1-of-3.avro) are one report; several reports
hold different conversions, and add up. The output has a row per node. With several measures, it has one for each of
them, named in the column measure; values are in their unit.

Its noise is what the report states (`attributary aggregate` writes ε and L1 into it). For a report that states none,
--noise api:epsilon=4 does, or else it is the plan's; the messages say which ε was used, and where it is from.

RESULTS of BigQuery (tables) and of W3C Attribution (JSON) go with their plan and tree in the same way.

ANY OTHER TABLE goes by --table:

\b
    $ cat sales.csv
    campaign,day,noisy
    shoes,,103
    shoes,mon,58
    shoes,tue,51
\b
    $ attributary denoise --table sales.csv --levels campaign,day \\
          --value noisy --variance 8,4 -o out.csv
\b
    $ cut -d, -f1-5 out.csv
    campaign,day,noisy,estimate,variance
    shoes,,103,106,4
    shoes,mon,58,56.5,3
    shoes,tue,51,49.5,3

THE TABLE has one row per node, or one row per leaf. One row per node: a node above the last level leaves the columns
below it empty (null in Parquet and Arrow) or has a * there; a row that is empty in all of them is the total above the
first level. One row per leaf: nodes above are sums, and --fill adds rows for them. Leaves may end at any level.

WHAT IS NOT STATED is recognised where only one reading fits all rows, and printed: separators, decimal commas and
thousands, levels by their empty cells, the column of figures, labels such as ALL that mark totals, cells such as <5,
and pivots with a column per day. What fits two readings is refused, with the option that decides. So --table and
--noise may be all that is needed.

THE NOISE is given by --variance, --std or --noise. An AMOUNT is a column, one number, or one number per level from top
to bottom; if there is a column of that name, it is the column. A variance of inf means not measured, and the figure may
then be empty; 0 means known exactly.

\b
    --noise laplace:scale=3                      also dlap:rate=1, normal:std=2
    --noise laplace:epsilon=1,levels=3           of the whole table; also
                                                 normal:epsilon=1,delta=1e-6
    --noise laplace:interval=LOW,HIGH@0.95,two-sided
                                                 columns of bounds; or one-sided
    --noise 'region=laplace:scale=3; store=normal:std=2'
            ...,rounded=10                       figures were rounded, too
    --noise api:epsilon=4,contribution=32768     as in a summary report
            ...,l1=65536                         all contributions together
            ...,sums                             figures are sums: divide them
    --noise normal --variance 8,4                the shape alone
    --noise estimated                            nobody states it: from how far
                                                 rows miss adding up

THE ESTIMATOR is unbiased by default. nonnegative gives counts that are never negative. learned expects that families
share their parent's count as other nodes with the same label do and, with --prior, as they did in an earlier period,
whose estimates or counts the file holds. A folder of earlier reports is used as a whole: of each, the noisy figures,
and older ones count less. Each measure goes by its own rows in the file (column measure) and by its own
tau. How far that is trusted is learned from today's figures. Errors become smaller, most where noise is large and
counts are small, but estimates are no longer unbiased: do not use it for figures that someone is billed by. posterior
goes on from there: it weighs every whole count by its probability given all figures, and gives the mean. Its errors are
the smallest, its intervals are whole numbers, and it is for counts alone, to read and to rank by.

THE OUTPUT has your rows in your order with your columns, as they were (figures from a text file become numbers in
Parquet and Arrow), and five more:

\b
    estimate    the denoised count
    variance    of the estimate, before it was made nonnegative or whole
    low, high   the interval of the true count, at --confidence
    correction  how far the figure was moved, in standard deviations of such
                a move: beyond 5 or so, look at the row
    from_prior  with --estimator learned or posterior: the weight of what was
                learned in the estimate, from 0 to 1
    zero_probability  with --estimator posterior: that of a count of 0

Two more stand at the end, unless columns of yours have these names: noisy and noise_variance, each figure and the
variance of its noise, where `report` and `explore` look for them.

If your variance column itself is called variance, it is noise_variance in the output. Other columns of yours with
such a name are not overwritten but refused; --prefix gives the added ones other names.
"""


@click.command(help=ABOUT, short_help="Noisy figures of any tree in, the best consistent figures out.")
@click.argument("files", nargs=-1, metavar="[PLAN SUMMARY...]...")
@click.option(
    "--tree",
    metavar="FILE",
    multiple=True,
    help="With a summary report: the nodes that were queried; of several reports one for all, or one for each.",
)
@click.option(
    "--table", "path", metavar="FILE", help="CSV, TSV (also .gz or .zst), Parquet or Arrow; - is standard input."
)
@click.option("--levels", metavar="A,B,C", help="Columns that name a node, top to bottom.  [default: recognised]")
@amount_options
@click.option("--noise", metavar="MODEL", help="Or the noise model with its parameters, as in laplace:scale=3.")
@click.option("--fill", is_flag=True, help="Nodes without a row are not measured; add rows for them at the end.")
@click.option(
    "--prior",
    metavar="FILE|DIR",
    help="Estimates or counts of an earlier period, or a folder of earlier reports, for learned and posterior.",
)
@click.option("--protected", is_flag=True, help="The counts in --prior were protected themselves.")
@estimator_options
@form_options
@click.option(
    "-o",
    "--output",
    metavar="FILE",
    default="-",
    show_default=True,
    help="Where to write; - is standard output, as CSV.",
)
@click.option("--format", "format_", type=click.Choice(FORMATS), help="Format of the output.  [default: by its ending]")
@click.option("--prefix", default="", help="Prefix of the names of the added columns.")
@threads
@click.option("-q", "--quiet", is_flag=True, help="No messages, except on what is not private.")
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
    **of_table: Any,
) -> None:
    from attributary.cli.print_estimates import print_estimates, print_form
    from attributary.cli.printing import say, warn_first
    from attributary.cli.progress import stages
    from attributary.cli.reading import refuse_inputs
    from attributary.denoising.passes import passes_once
    from attributary.pipeline.denoise_table import denoise_table
    from attributary.tables import check_output, is_text, read_table, write_table
    from attributary.tables.table_columns import words_of

    chosen = chosen_estimator(estimator, joint, whole, prior)
    how: dict[str, Any] = {
        "estimator": chosen,
        "prior": prior,
        "protected": protected,
        "noise": noise,
        "confidence": confidence,
    }
    _refuse_mixtures(files, tree, {"--table": path, "--levels": levels, "--value": value}, of_table)
    written = check_output(output, format_)
    trees = tree or _trees_beside(files)
    refuse_inputs([output], [*files, *trees, path, prior])
    with passes_once(), stages(not quiet and not (output == "-" and sys.stdout.isatty())) as stage:
        if path is None:
            denoised = _summary(files, tree, stage, how)
        else:
            stage("reading")
            table = read_table(path, separator=of_table.pop("separator"))
            how |= {"totals": of_table.pop("total"), "keep_text": is_text(written.format), "path": path, "stage": stage}
            denoised = denoise_table(table, _names(table, levels), value, **how, **of_table)
        stage("writing")
        write_table(denoised.table, output, format_)
    warn_first("" if quiet else denoised.misfit)
    words = words_of(denoised.table)
    if words:
        say(f"{'standard output' if output == '-' else output}: {words}", always=True)
    if not quiet:
        print_form(denoised.recognised, denoised.doubts)
        print_estimates(denoised.estimates, denoised.table.num_rows, output, denoised.notes)


def _names(table: Any, levels: str | None) -> list[str] | None:
    """The columns that a user names with commas, which may have blanks around them."""
    names = table.column_names
    return None if levels is None else [name if name in names else name.strip() for name in levels.split(",")]


def _summary(files: Sequence[str], trees: Sequence[str], stage: Any, how: dict[str, Any]) -> Any:
    """Summary reports denoised by the plans in files, each on the tree that it was queried by."""
    from attributary.pipeline.denoise_summary import QueriedReports, denoise_batches
    from attributary.pipeline.read_tree import read_queried
    from attributary.plan import Plan

    batches: dict[tuple[str, str], list[str]] = {}  # files by plan and tree
    for plan_path, summary, tree_path in _with_trees(files, trees):
        batches.setdefault((plan_path, tree_path), []).append(summary)
    plans = {path: Plan.load(path) for path, _ in batches}
    stage("building the tree")
    queried = {(plan, tree): read_queried(plans[plan], tree, plan) for plan, tree in batches}
    stage("reading")
    every = [QueriedReports(plans[one[0]], summaries, *queried[one], name=one[0]) for one, summaries in batches.items()]
    return denoise_batches(every, stage=stage, **how)


def _with_trees(files: Sequence[str], trees: Sequence[str]) -> list[tuple[str, str, str]]:
    """Each summary report with its plan, which is the last one named before it, and with its tree."""
    from attributary.errors import InputError
    from attributary.plan.plan_file import is_plan

    pairs: list[tuple[str, str]] = []
    plan = files[0]
    for path in files[1:]:
        if is_plan(path):
            plan = path
        else:
            pairs.append((plan, path))
    if not pairs or plan != pairs[-1][0]:
        raise InputError(f"a plan goes with its summary report, as in {plan} summary.avro; got none for {plan}")
    if len(trees) > 1 and len(trees) != len(pairs):
        raise InputError(
            f"--tree is one for all summary reports, or one for each, in their order; got {len(trees)} for {len(pairs)}"
        )
    every = [path for _, path in pairs]
    found = trees or [_tree_beside([path, plan, *every]) for plan, path in pairs]
    return [(*pair, found[i] if len(found) > 1 else found[0]) for i, pair in enumerate(pairs)]


def _trees_beside(paths: Sequence[str]) -> list[str]:
    """Where a tree may be that was not named: beside one of these files."""
    return [os.path.join(path if os.path.isdir(path) else os.path.dirname(path), TREE) for path in paths]


def _tree_beside(paths: list[str]) -> str:
    """The tree beside one of these files."""
    from attributary.errors import InputError

    there = next((place for place in _trees_beside(paths) if os.path.exists(place)), None)
    if there is None:
        raise InputError(
            f"the nodes that were queried are needed, and there is no {TREE} beside report or plan; give --tree "
            "a file that `attributary keys --impressions` wrote"
        )
    return there


def _refuse_mixtures(
    files: tuple[str, ...], tree: tuple[str, ...], named: dict[str, str | None], of_table: dict[str, Any]
) -> None:
    """Refuses what is neither a table nor a plan with its summary report, or something of both."""
    from attributary.errors import InputError

    options = [name for name, value in named.items() if value is not None]
    options += [f"--{name.replace('_', '-')}" for name, value in of_table.items() if value]
    if len(files) == 1:
        if not files[0].endswith((".json", ".avro")):
            raise InputError(f"{files[0]} is a table: use --table {files[0]}, or give a plan and a summary report")
        raise InputError(f"a plan goes with its summary report, as in {files[0]} summary.avro; got only one file")
    if files and options:
        raise InputError(f"{options[0]} belongs to --table; a plan and its summary report say what it would")
    if files:
        return
    if tree:
        raise InputError("--tree belongs to a plan and its summary report; give them, or leave --tree out")
    if named["--table"] is None:
        raise InputError("give a plan and its summary report, or --table, --levels and --value; lacks --table")
