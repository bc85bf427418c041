"""attributary denoise: a table of noisy figures becomes one that adds up."""

import sys
from typing import Any

import click

NONNEGATIVE = ["top-down", "joint"]
SHAPES = ["laplace", "dlap", "normal"]
FORMATS = ["csv", "tsv", "parquet", "arrow", "arrows"]
BETWEEN_0_AND_1 = click.FloatRange(0, 1, min_open=True, max_open=True)

ABOUT = """Noisy figures of any tree in, the best consistent figures out.

Each figure is a true count plus noise of known variance. The estimates add up at every node and have the least variance
of all unbiased estimates that do.

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

THE NOISE is given in one of three ways: --variance, --std, or --epsilon with --contribution. An AMOUNT is a column, or
one number, or one number per level from top to bottom; if there is a column of that name, it is the column. A variance
of inf means not measured, and the figure may then be empty; 0 means known exactly.

THE OUTPUT has your rows in your order with your columns, as they were (figures from a text file become numbers in
Parquet and Arrow), and five more:

\b
    estimate    the denoised count
    variance    of the estimate before --nonnegative and --whole
    low, high   hold the true count between them with --confidence
    correction  how far the figure was moved, in standard deviations of such
                a move: beyond 5 or so, look at the row

If your variance column itself is called variance, it is noise_variance in the output. Other columns of yours with
such a name are not overwritten but refused; --prefix gives the added ones other names.
"""


@click.command(help=ABOUT, short_help="Noisy figures of any tree in, the best consistent figures out.")
@click.option(
    "--table",
    "path",
    metavar="FILE",
    required=True,
    help="CSV, TSV (also .gz or .zst), Parquet or Arrow; - is standard input.",
)
@click.option("--levels", metavar="A,B,C", required=True, help="The columns that name a node, top to bottom.")
@click.option("--value", metavar="COLUMN", required=True, help="The column of noisy figures.")
@click.option("--variance", metavar="AMOUNT", help="Variance of the noise.")
@click.option("--std", metavar="AMOUNT", help="Or its standard deviation.")
@click.option("--epsilon", type=float, help="Or the budget of a summary report, which adds noise DLap(epsilon / L1).")
@click.option("--contribution", metavar="AMOUNT", help="With --epsilon: what one conversion adds to the sum.")
@click.option("--l1", type=int, help="With --epsilon: the L1 of all contributions.  [default: 65536]")
@click.option("--sums", is_flag=True, help="With --epsilon: the figures are sums of contributions; divide them.")
@click.option("--fill", is_flag=True, help="Nodes without a row are not measured; add rows for them at the end.")
@click.option(
    "--nonnegative",
    type=click.Choice(NONNEGATIVE),
    is_flag=False,
    flag_value="top-down",
    help="No estimate below 0: top-down, unless told to fit all jointly.",
)
@click.option("--whole", is_flag=True, help="Whole numbers that add up.")
@click.option(
    "--confidence", type=BETWEEN_0_AND_1, default=0.95, show_default=True, help="That low and high hold the true count."
)
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
@click.option("-q", "--quiet", is_flag=True, help="No summary.")
def denoise(
    *,
    path: str,
    levels: str,
    value: str,
    fill: bool,
    confidence: float,
    output: str,
    format_: Any,
    prefix: str,
    quiet: bool,
    nonnegative: Any,
    whole: bool,
    shape: Any,
    **noise: Any,
) -> None:
    from attributary.cli.estimates import estimates, filled, kept_names, with_numbers
    from attributary.cli.labels import labels
    from attributary.cli.progress import stages
    from attributary.cli.refused import refused
    from attributary.cli.summary import print_summary
    from attributary.cli.variances import Noise, measurements
    from attributary.denoising import denoise
    from attributary.tables import check_output, is_text, read_table, write_table
    from attributary.tree import Tree

    given = Noise(**noise)
    written = check_output(output, format_)
    with stages(not quiet and not (output == "-" and sys.stdout.isatty())) as stage:
        stage("reading")
        table = read_table(path)
        names = kept_names(table, given.variance, prefix, path)
        stage("building the tree")
        paths = labels(table, levels, path)
        with refused(path):
            tree = Tree.from_paths(paths, paths.column_names, fill=fill)
        noisy, variance = measurements(table, value, given, tree, path)
        stage("denoising")
        with refused(path):
            est = denoise(tree, noisy, variance, nonnegative=nonnegative, whole=whole, shape=shape)
        figures = [value, given.variance, given.std, given.contribution]
        result = filled(table, tree) if fill else table
        result = result if is_text(written.format) else with_numbers(result, figures)
        result = estimates(result, names, est, confidence, prefix)
        stage("writing")
        write_table(result, output, format_)
    if not quiet:
        renamed = names != table.column_names
        notes = [f"your column {given.variance} is called noise_variance there"] if renamed else []
        print_summary(est, result.num_rows, output, notes)
