"""attributary paper: the paper's experiments on a published file, or on a look-alike."""

import os
from typing import Any

import click

from attributary.cli.evaluated import FORMATS, Numbers, grid_options

DATASETS = ["csscl", "camb"]

ABOUT = """The paper's experiments (its figures 4 and 5) on the published file, or on a look-alike.

\b
    $ attributary paper csscl CriteoSearchData -o figures/
    $ attributary paper camb --generated --rows 1000000 -o figures/

FILE is Criteo's as it was published, in its archive or out of it, or a look-alike that `attributary generate` wrote.
With --generated, rows are generated for this run. What is shown says so either way.

THE EXPERIMENT: rows of the first days (csscl 45, camb 15) make a prior, measured with epsilon 1 split equally and
denoised. Counts of the later days are what each method has to tell, for two trees, tau 5 and 10, epsilon 0.5 to 64.

\b
    equal-raw, equal-blue         the same budget for each level
    leaves-blue                   all of it on the leaves
    greedy-raw, greedy-blue       the paper's Algorithm 3, by the prior
    greedy-top-down               the same, counts never negative
    optimal-blue, -top-down       the best split by level
    per-node-blue, -top-down      a budget for each node
    optimal-prior, per-node-prior  estimates that use the prior, too (slow)
    planned-prior                 a split made for such estimates (slow)

raw is without post-processing, blue with the paper's, top-down never negative. The first five are the paper's.

THE OUTPUT is a folder: evaluation (the table), index.html, and a figure for each noise model as PNG and SVG. What is
finished is kept in its folder cache: an interrupted run goes on where it was, and rows are counted once.
"""


@click.command(help=ABOUT, short_help="The paper's experiments, on a published file or on a look-alike.")
@click.argument("dataset", type=click.Choice(DATASETS), metavar="csscl|camb")
@click.argument("file", required=False, metavar="[FILE]")
@click.option("--generated", is_flag=True, help="Generate the rows, instead of FILE.")
@click.option("--rows", type=click.IntRange(1, 10**10), help="How many to generate.  [default: as many as published]")
@click.option("--rows-seed", type=click.IntRange(0), default=0, show_default=True, help="Of the generated rows.")
@click.option(
    "--expect",
    type=click.Choice(["published", "any"]),
    default="published",
    show_default=True,
    help="Whether FILE must have the published figures, or may be a part of it.",
)
@click.option(
    "--missing",
    type=click.Choice(["value", "drop"]),
    default="value",
    show_default=True,
    help="A missing attribute is a value, or its rows are left out.",
)
@click.option(
    "--unknown-delay",
    type=click.Choice(["drop", "first"]),
    default="drop",
    show_default=True,
    help="A sale without a delay is left out, or is in the first bucket.",
)
@click.option(
    "--boundary-day",
    type=click.Choice(["keep", "drop"]),
    default="keep",
    show_default=True,
    help="Rows after the log's last whole day (csscl 90, camb 30).",
)
@click.option("--epsilon", "epsilons", type=Numbers(), default="0.5,1,2,4,8,16,32,64", show_default=True)
@click.option("--tau", "taus", type=Numbers(), default="5,10", show_default=True)
@click.option(
    "--noise", metavar="NAME", default="both", show_default=True, help="Noise model: api (scaled sums), unit (counts)."
)
@grid_options
@click.option("-o", "--output", metavar="DIR", required=True, help="The folder to write to.")
@click.option(
    "--format", "format_", type=click.Choice(FORMATS), default="parquet", show_default=True, help="Of the table."
)
@click.option("-q", "--quiet", is_flag=True, help="No progress and no words.")
def paper(
    *,
    dataset: str,
    file: str | None,
    generated: bool,
    rows: int | None,
    rows_seed: int,
    expect: str,
    missing: Any,
    unknown_delay: Any,
    boundary_day: Any,
    noise: str,
    prior_epsilon: float,
    seed: int,
    cache: str | None,
    output: str,
    format_: str,
    quiet: bool,
    **grid: Any,
) -> None:
    from attributary.cli.evaluated import print_best, resumed, run_grid
    from attributary.cli.printing import say
    from attributary.cli.progress import stages
    from attributary.cli.reading import check_folder, refuse_inputs
    from attributary.cli.summary_file import fact
    from attributary.errors import InputError
    from attributary.evaluate.paper import NOISES, Log, paper
    from attributary.evaluate.paper_counts import Choices, folder
    from attributary.noise import page_of

    if generated == (file is not None):
        raise InputError("give either the published file or --generated, which generates rows like it")
    if not generated and rows is not None:
        raise InputError("--rows says how many to generate; add --generated, or leave it out")
    check_folder(output)
    noises = NOISES if noise == "both" else (page_of(noise).name,)
    refuse_inputs([os.path.join(output, name) for name in _names(dataset)], [file])
    kept = folder(cache or os.path.join(output, "cache"))
    folder(output)
    choices = Choices(missing, unknown_delay, boundary_day)
    with resumed():
        with stages(not quiet) as stage:
            stage("generating and counting" if generated else "reading and counting")
            log = Log(file, rows, rows_seed, expect)
            made = paper(dataset, log, noises, choices, prior_epsilon=prior_epsilon, seed=seed, cache=kept)
        table = run_grid(made.cases, kept, not quiet, seed=seed, **grid)
        with stages(not quiet) as stage:
            stage("drawing")
            _write(table, dataset, output, format_)
    if not quiet:
        print_best(table)
        print_beside(table)
        fact("not_counted", made.left_out)
        fact("generated", made.generated)
        for why, number, conversions in made.left_out:
            also = "" if why.startswith("conversions") else f", with {conversions:,} conversions"
            say(f"not counted: {number:,} {why}{also}")
        says = " (its rows were generated)" if made.generated else ""
        say(f"{os.path.join(output, 'index.html')} shows it all{says}")


def _names(dataset: str) -> list[str]:
    """The files of one dataset that the command may write."""
    from attributary.noise import MODELS

    pictures = [f"{dataset}-{noise}.{kind}" for noise in MODELS for kind in ("png", "svg")]
    return [*(f"evaluation.{kind}" for kind in FORMATS), *pictures, "index.html"]


def _write(table: Any, dataset: str, output: str, format_: str) -> None:
    """Writes the table, the figures and the page, all of one run."""
    from attributary.evaluate.evaluation_page import figure, page, png, svg
    from attributary.tables import write_table
    from attributary.tables.whole_files import whole_file, whole_folder

    files: dict[str, bytes] = {}
    for noise in dict.fromkeys(table.column("noise").to_pylist()):
        spec = figure(table, dataset, noise)
        files |= {f"{dataset}-{noise}.png": png(spec), f"{dataset}-{noise}.svg": svg(spec).encode()}
    files["index.html"] = page(table, f"The paper's experiments: {dataset}").encode()
    with whole_folder(output, _names(dataset)) as place:
        write_table(table, os.path.join(place, f"evaluation.{format_}"))
        for name, data in files.items():
            with whole_file(os.path.join(place, name)) as out:
                out.write(data)


def print_beside(table: Any) -> None:
    """Prints the figures that the paper states beside those of this run, to standard error."""
    from attributary.cli.printing import console, print_table
    from attributary.evaluate.comparison import beside

    found = beside(table)
    if not found:
        return
    rows = [["tree", "tau", "noise", "the paper", "greedy-blue", "our best", "by"]]
    for row in found:
        figures = (f"{row.stated:.2f}", f"{row.greedy:.3f}", f"{row.ours:.3f}", row.our_method)
        rows += [[f"{row.dataset}, {row.tree}", f"{row.tau:g}", row.noise, *figures]]
    out = console()
    out.print(f"stated by the paper at epsilon = 4, and on {'generated' if found[0].generated else 'these'} rows")
    print_table(out, rows)
    out.print()
