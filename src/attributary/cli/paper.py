"""attributary paper: the paper's experiments on a published file, or on a look-alike."""

import os
from typing import TYPE_CHECKING, Any

import click

from attributary.cli import evaluate as grids
from attributary.cli.options import choice, flag, option, quiet, row_count
from attributary.cli.printing import fact, print_tables, say, stages
from attributary.cli.reading import check_folder, make_folder, refuse_inputs
from attributary.errors import InputError
from attributary.types import Record
from attributary.whole_files import save, sole_writer, whole_folder

if TYPE_CHECKING:
    from attributary.evaluate import Evaluation
    from attributary.facts.numerals import Table

DATASETS = ["csscl", "camb"]
PICTURES = ("pdf", "png", "svg")
PAPER_NOISES = "Noise models to try: api (on scaled sums), unit (on counts), gaussian (delta = 1e-6)."

ABOUT = f"""Repeat the paper's experiments (its figures 4 and 5).

\b
    $ attributary paper camb --generated --rows 20000 --draws 5 \\
          --method optimal-unbiased -o figures/

FILE is Criteo's published file, packed or unpacked, or a look-alike from `attributary generate`. With --generated, rows
are generated for this run, and the output says so.

Rows of the first days (csscl 45, camb 15) make a prior, measured with epsilon 1, split equally and denoised. Each
method estimates the counts of the later days.

{grids.METHODS}

THE OUTPUT is a folder: evaluation (the table, also as LaTeX), index.html, and a figure for each noise model. An
interrupted run continues where it stopped. More: docs/evaluation.md
"""


@click.command(
    cls=grids.GridCommand, help=ABOUT, short_help="Repeat the paper's experiments, on its files or on look-alikes."
)
@click.argument("dataset", type=click.Choice(DATASETS), metavar="csscl|camb")
@click.argument("file", required=False, metavar="[FILE]")
@flag("--generated", "Generate the rows instead of reading FILE.")
@option("--rows", "Number of rows to generate.  [default: as many as published]", type=row_count)
@option("--rows-seed", "Seed of the generated rows.", type=click.IntRange(0), default=0)
@choice(
    "--expect", ["published", "any"], "Whether FILE must be the published file, or may be a part of it.", "published"
)
@choice("--missing", ["value", "drop"], "Count a missing attribute as a value, or leave its rows out.", "value")
@choice(
    "--unknown-delay", ["drop", "first"], "Leave sales without a delay out, or put them into the first bucket.", "drop"
)
@choice(
    "--boundary-day", ["keep", "drop"], "Keep or drop rows after the log's last whole day (csscl 90, camb 30).", "keep"
)
@grids.tried("--epsilon", "epsilons", grids.Numbers(), "Budgets to try.", "0.5,1,2,4,8,16,32,64")
@grids.tried("--tau", "taus", grids.Numbers(), "Thresholds to try.", "5,10")
@grids.tried("--noise", "noises", grids.NoiseNames(), PAPER_NOISES, "api,unit")
@grids.grid_options
@option("-o --output DIR", "Folder to write to.", required=True)
@choice("--format", grids.FORMATS, "Format of the table.", "parquet", "format_")
@quiet("Print no progress and no messages.")
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
    noises: tuple[str, ...],
    prior_epsilon: float | None,
    threads: int | None,
    cache: str | None,
    output: str,
    format_: str,
    quiet: bool,
    **grid: Any,
) -> None:
    from attributary.evaluate.user_cases import EPSILON
    from attributary.facts.evaluation import best_tables, error_tables, stated_tables
    from attributary.paper.experiment import PAPER, STATED_EPSILON, Choices, PaperLog, paper

    if generated == (file is not None):
        raise InputError("give either the published file or --generated, which generates rows like it")
    if not generated and rows is not None:
        raise InputError("--rows says how many to generate; add --generated, or leave it out")
    check_folder(output)
    click.get_current_context().with_resource(sole_writer(output))
    refuse_inputs([os.path.join(output, name) for name in _names(dataset)], [file])
    kept = cache or os.path.join(output, "cache")
    make_folder(kept, "--cache" if cache else "-o")
    make_folder(output)
    choices = Choices(missing, unknown_delay, boundary_day)
    with grids.resumable():
        with stages(not quiet) as stage:
            stage("generating and counting" if generated else "reading and counting")
            log = PaperLog(file, rows, rows_seed, expect)
            prior = EPSILON if prior_epsilon is None else prior_epsilon
            options: Record = {"prior_epsilon": prior, "seed": grid["seed"], "cache": kept, "threads": threads}
            experiment = paper(dataset, log, noises, choices, **options)
        evaluation = grids.run_grid(experiment.cases, kept, not quiet, **grid)
        with stages(not quiet) as stage:
            stage("drawing")
            beside = [*stated_tables(evaluation, PAPER[dataset].stated, STATED_EPSILON), *best_tables(evaluation)]
            _write(evaluation, beside, dataset, output, format_)
    if not quiet:
        print_tables([*error_tables(evaluation.points), *beside])
        fact(not_counted=experiment.left_out, generated=experiment.generated)
        for why, number, conversions in experiment.left_out:
            also = "" if why.startswith("conversions") else f", with {conversions:,} conversions"
            say(f"not counted: {number:,} {why}{also}")
        whose = " (its rows were generated)" if experiment.generated else ""
        say(f"open {os.path.join(output, 'index.html')} to see the results{whose}")


def _names(dataset: str) -> list[str]:
    """The files of one dataset that the command may write."""
    from attributary.noise import MODELS

    pictures = [f"{dataset}-{noise}.{kind}" for noise in MODELS for kind in PICTURES]
    return [*(f"evaluation.{kind}" for kind in grids.FORMATS), *pictures, "evaluation.tex", "index.html"]


def _write(evaluation: "Evaluation", beside: "list[Table]", dataset: str, output: str, format_: str) -> None:
    """Writes the table, the figures and the page, all of one run."""
    from attributary.report import ReportInputs, page
    from attributary.tables import write_table

    inputs = ReportInputs(evaluation=tuple(evaluation.points), error_tables=tuple(beside))
    html = page(inputs, title=f"The paper's experiments: {dataset}").html
    with whole_folder(output, _names(dataset)) as place:
        write_table(evaluation.table, os.path.join(place, f"evaluation.{format_}"))
        for noise in dict.fromkeys(evaluation.table.column("noise").to_pylist()):
            for kind in PICTURES:
                evaluation.save_figure(os.path.join(place, f"{dataset}-{noise}.{kind}"), noise=noise)
        save(evaluation.latex().encode(), os.path.join(place, "evaluation.tex"))
        save(html, os.path.join(place, "index.html"))
