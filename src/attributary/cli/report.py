"""attributary report: a plan, estimates and an evaluation as one page to send on."""

import os
from typing import Any

import click

NODES = 200_000
FORMATS = ["svg", "png"]

ABOUT = """One page to send on: the counts, how accurate they are, and how private.

\b
    $ attributary run shop/spec.toml -o shop/run
    $ attributary report shop/run -o report.html

A FILE is a plan (JSON), a table of estimates from `run` or `denoise`, an evaluation, or a folder of these; its content
tells which. Tables of true counts in a folder are left out. Of several measures, the page shows all, with a switch
between them, and their ratios if the folder has `run`'s table of ratios.

THE PAGE is one HTML file. It needs no network and no other file, works from a disk or a mail, can be printed, and has
light and dark colours. Trees of more than --nodes nodes are cut to the largest counts and the implausible corrections,
and the page says what is left out.
"""


@click.command(help=ABOUT, short_help="One page to send on: counts, accuracy, privacy.")
@click.argument("files", metavar="FILE...", nargs=-1, required=True)
@click.option(
    "-o",
    "--output",
    metavar="FILE",
    default="report.html",
    show_default=True,
    help="File to write; - is standard output.",
)
@click.option("--levels", metavar="A,B,C", help="Columns that name a node, top to bottom, if no file says.")
@click.option(
    "--noise",
    metavar="MODEL",
    help="Noise as in `denoise --noise`, or laplace, dlap or normal, if no file says.  [default: the plan's, laplace]",
)
@click.option(
    "--tau", type=float, help="Errors are relative to the count, or to this if larger.  [default: the plan's, 10]"
)
@click.option("--title", help="Title of the page.  [default: what is counted, by level]")
@click.option(
    "--nodes", type=click.IntRange(1, 10**9), default=NODES, show_default=True, help="Most nodes that the page shows."
)
@click.option("--charts", metavar="DIR", help="Also write each chart to this folder.")
@click.option(
    "--format", "format_", type=click.Choice(FORMATS), default="svg", show_default=True, help="Format of the charts."
)
@click.option("-q", "--quiet", is_flag=True, help="No messages, except on what is not private.")
def report(
    *,
    files: tuple[str, ...],
    output: str,
    levels: str | None,
    noise: str | None,
    tau: float | None,
    title: str | None,
    nodes: int,
    charts: str | None,
    format_: str,
    quiet: bool,
) -> None:
    from attributary.cli.printing import say
    from attributary.cli.progress import stages
    from attributary.cli.reading import refuse_inputs
    from attributary.cli.summary_file import fact
    from attributary.errors import InputError
    from attributary.noise import parse, shape_of
    from attributary.report import page, read, save

    if tau is not None and not 0 < tau < float("inf"):
        raise InputError(f"--tau is a number above 0; got {tau}")
    shape = noise and (parse(noise).shape if ":" in noise else shape_of(noise)).name
    _check_page(output)
    with stages(not quiet) as stage:
        stage("reading")
        inputs = read(list(files), (levels and [name.strip() for name in levels.split(",")]) or None, shape)
        refuse_inputs([output], inputs.files)
        stage("drawing")
        made = page(inputs, tau, nodes, title)
        stage("writing")
        pictures = _write_charts(made.charts, charts, format_, inputs.files) if charts else []
        save(made.html, output)
    if inputs.not_private:
        say(f"{'standard output' if output == '-' else output}: {inputs.not_private}", always=True)
    if quiet:
        return
    fact("not_private", inputs.not_private)
    fact("true_counts_left_out", inputs.left_out)
    fact("nodes_left_out", made.left_out)
    fact("charts", pictures)
    fact("bytes", len(made.html.encode()))
    for path in inputs.left_out:
        say(f"{path} holds true counts, NOT protected: left out")
    if made.left_out:
        say(f"{made.left_out:,} nodes are left out; raise --nodes to show more")
    if charts:
        say(f"{len(pictures)} charts written to {charts}")
    if output != "-":
        say(f"report written to {output} ({_size(len(made.html.encode()))})")


def _size(bytes_: int) -> str:
    return f"{bytes_ / 1e6:,.1f} MB" if bytes_ >= 1e6 else f"{bytes_ / 1e3:.0f} kB"


def _write_charts(drawn: Any, folder: str, format_: str, read: tuple[str, ...]) -> list[str]:
    from attributary.cli.reading import make_folder, refuse_inputs
    from attributary.report import save, to_png, to_svg

    make_folder(folder, "--charts")
    paths = [os.path.join(folder, f"{chart.name}.{format_}") for chart in drawn]
    refuse_inputs(paths, read, "--charts")
    for chart, path in zip(drawn, paths, strict=True):
        save(to_png(chart) if format_ == "png" else to_svg(chart), path)
    return paths


def _check_page(path: str) -> None:
    """Refuses early what could not be written."""
    from attributary.errors import InputError

    if path == "-":
        return
    if os.path.isdir(path):
        raise InputError(
            f"{path} is a folder; give the name of a file in it, as in {os.path.join(path, 'report.html')}"
        )
    folder = os.path.dirname(os.path.realpath(path))
    if not os.path.isdir(folder) or not os.access(folder, os.W_OK):
        raise InputError(f"{path} cannot be written: there is no folder {folder} to write to; choose another with -o")
