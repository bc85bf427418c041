"""attributary denoise: noisy figures, from a table or from a summary report, become figures that add up."""

import sys
from typing import Any

import click

from attributary.cli.estimator import estimator_options

SHAPES = ["laplace", "dlap", "normal"]
OF_BOTH = ("epsilon", "l1")  # options that state the noise of a table and of a summary report
FORMATS = ["csv", "tsv", "parquet", "arrow", "arrows"]

ABOUT = """Noisy figures of any tree in, the best consistent figures out.

Each figure is a true count plus noise of known variance. The estimates add up at every node and have the least variance
of all unbiased estimates that do.

A SUMMARY REPORT of the Attribution Reporting API needs the plan that its reports were made by, and the tree that was
queried (tree.parquet, which `attributary keys` wrote; it is looked for beside the report and beside the plan):

\b
    $ attributary denoise plan.json summary.avro --tree keys/tree.parquet \\
          -o estimates.parquet

Avro or the service's JSON. Shards (a folder, or files named as in summary-1-of-3.avro) are one report; several reports
hold different conversions, and add up. The output has a row per node. With several measures, it has one for each of
them, told apart by the column measure; values are in their unit.

Its noise is what the report states (`attributary aggregate` writes ε and L1 into it). For a report that states none,
--epsilon does, or else it is the plan's; the messages say which ε was used, and where it is from.

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

A LABEL THAT READS AS A TOTAL, such as ALL, or that is the sum of the rows beside it, is refused: --total ALL says that
it marks totals (its cells are empty in the output), --no-totals that it is an ordinary label.

THE NOISE is given in one of three ways: --variance, --std, or --epsilon with --contribution. An AMOUNT is a column, or
one number, or one number per level from top to bottom; if there is a column of that name, it is the column. A variance
of inf means not measured, and the figure may then be empty; 0 means known exactly.

WHAT IS EXPECTED can have a part in the estimates: with --learn, families are expected to share their parent's count as
their cousins do; with --prior, also as they did in an earlier period, whose estimates or counts the file holds. Each
measure goes by its own rows in the file (column measure) and by its own tau. How far that is trusted is learned from
today's figures. Errors become smaller, most where noise is large and counts are small, but estimates are no longer
unbiased: do without for figures that someone is billed by.

THE OUTPUT has your rows in your order with your columns, as they were (figures from a text file become numbers in
Parquet and Arrow), and five more:

\b
    estimate    the denoised count
    variance    of the estimate before --nonnegative and --whole
    low, high   hold the true count between them with --confidence
    correction  how far the figure was moved, in standard deviations of such
                a move: beyond 5 or so, look at the row
    from_prior  with --learn or --prior: how much of the estimate came from
                what was expected, from 0 to 1

Two more stand at the end, unless columns of yours have these names: noisy and noise_variance, each figure and the
variance of its noise, where `report` and `explore` look for them.

If your variance column itself is called variance, it is noise_variance in the output. Other columns of yours with
such a name are not overwritten but refused; --prefix gives the added ones other names.
"""


@click.command(help=ABOUT, short_help="Noisy figures of any tree in, the best consistent figures out.")
@click.argument("files", nargs=-1, metavar="[PLAN SUMMARY...]")
@click.option("--tree", metavar="FILE", help="With a summary report: the nodes that were queried.")
@click.option(
    "--table", "path", metavar="FILE", help="CSV, TSV (also .gz or .zst), Parquet or Arrow; - is standard input."
)
@click.option("--levels", metavar="A,B,C", help="The columns that name a node, top to bottom.")
@click.option("--value", metavar="COLUMN", help="The column of noisy figures.")
@click.option("--variance", metavar="AMOUNT", help="Variance of the noise.")
@click.option("--std", metavar="AMOUNT", help="Or its standard deviation.")
@click.option("--epsilon", type=float, help="Or ε of the summary report, whose noise is DLap(ε / L1).")
@click.option("--contribution", metavar="AMOUNT", help="With --epsilon: what one conversion adds to the sum.")
@click.option(
    "--l1",
    type=click.IntRange(max=2**32 - 1),
    help="With --epsilon: the L1 of all contributions.  [default: the plan's, or 65536]",
)
@click.option("--sums", is_flag=True, help="With --epsilon: the figures are sums of contributions; divide them.")
@click.option("--fill", is_flag=True, help="Nodes without a row are not measured; add rows for them at the end.")
@click.option("--learn", is_flag=True, help="Use what cousins share: smaller errors, no longer unbiased.")
@click.option("--prior", metavar="FILE", help="And what an earlier period's estimates or counts say.")
@estimator_options
@click.option("--total", multiple=True, metavar="LABEL", help="A label that marks totals, as in --total ALL.")
@click.option("--no-totals", is_flag=True, help="Labels such as ALL are ordinary ones.")
@click.option(
    "--shape",
    type=click.Choice(SHAPES),
    default="laplace",
    show_default=True,
    help="Of the noise; dlap: discrete Laplace on whole counts.",
)
@click.option(
    "-o",
    "--output",
    metavar="FILE",
    default="-",
    show_default=True,
    help="Where to write; - is standard output, as CSV.",
)
@click.option("--format", "format_", type=click.Choice(FORMATS), help="Of the output, if its ending does not tell.")
@click.option("--prefix", default="", help="Goes before the names of the added columns.")
@click.option("-q", "--quiet", is_flag=True, help="No summary, except on what is not private.")
def denoise(
    *,
    files: tuple[str, ...],
    tree: str | None,
    path: str | None,
    levels: str | None,
    value: str | None,
    confidence: float,
    output: str,
    format_: Any,
    quiet: bool,
    nonnegative: Any,
    whole: bool,
    learn: bool,
    prior: str | None,
    **of_table: Any,
) -> None:
    from attributary.cli.progress import stages
    from attributary.cli.reading import refuse_inputs
    from attributary.cli.summarised import denoised_summary, trees_beside
    from attributary.cli.summary import print_measures, print_summary
    from attributary.cli.tabled import denoised_table
    from attributary.tables import check_output, write_table
    from attributary.tables.not_private import words_of

    how: dict[str, Any] = {"nonnegative": nonnegative, "whole": whole, "learn": learn, "prior": prior}
    asked = _asked(files, tree, {"--table": path, "--levels": levels, "--value": value}, of_table)
    written = check_output(output, format_)
    trees = [tree] if tree or not files else trees_beside(files)
    refuse_inputs([output], [*files, *trees, path, prior])
    with stages(not quiet and not (output == "-" and sys.stdout.isatty())) as stage:
        if asked is None:
            rate = {name: of_table[name] for name in OF_BOTH}
            found = denoised_summary(files[0], files[1:], tree, confidence, stage, **rate, **how)
        else:
            found = denoised_table(*asked, confidence, written.format, stage, **of_table, **how)
        stage("writing")
        write_table(found.table, output, format_)
    words = words_of(found.table)
    if words:
        click.echo(f"{'standard output' if output == '-' else output}: {words}", err=True)
    if not quiet and found.measures is not None:
        print_measures(found.measures, found.table.num_rows, output, found.notes)
    elif not quiet:
        print_summary(found.estimate, found.table.num_rows, output, found.notes)


def _asked(
    files: tuple[str, ...], tree: str | None, named: dict[str, str | None], of_table: dict[str, Any]
) -> tuple[str, str, str] | None:
    """The table, its levels and its value, if it is a table; refuses what belongs to the other way."""
    from attributary.errors import InputError

    given = [
        f"--{name.replace('_', '-')}" for name, value in of_table.items() if value and name not in ("shape", *OF_BOTH)
    ]
    given = [name for name, value in named.items() if value is not None] + given
    if len(files) == 1:
        if not files[0].endswith((".json", ".avro")):
            raise InputError(f"{files[0]} is a table: use --table {files[0]}, or give a plan and a summary report")
        raise InputError(f"a plan goes with its summary report, as in {files[0]} summary.avro; got only one file")
    if files and given:
        raise InputError(f"{given[0]} belongs to --table; a plan and its summary report say what it would")
    if files:
        return None
    if tree is not None:
        raise InputError("--tree belongs to a plan and its summary report; give them, or leave --tree out")
    lacking = [name for name, value in named.items() if value is None]
    if lacking:
        raise InputError(f"give a plan and its summary report, or --table, --levels and --value; lacks {lacking[0]}")
    return named["--table"] or "", named["--levels"] or "", named["--value"] or ""
