"""attributary report: one page of a plan, estimates or an evaluation, to send on."""

import os
from typing import TYPE_CHECKING, Any

import click

from attributary.cli import options
from attributary.cli.printing import fact, place_of, say, stages
from attributary.cli.reading import make_folder, refuse_inputs
from attributary.errors import InputError

if TYPE_CHECKING:
    from attributary.plan import Plan
    from attributary.report import Chart

NODES, SERIES_NODES = 200_000, 2_000
TESTS = ["rates", "counts", "per-impression"]
FORMATS = ["svg", "png", "pdf"]
FORM = ("no_totals", "suppressed", "empty", "missing", "decimal", "separator", "sheet", "wide")
RAW = ("value", "variance", "std", *FORM)

ABOUT = """Make one page to send on: the counts, how accurate they are, and how private.

\b
    $ attributary report run -o report.html
    $ attributary report weeks/ -o weeks.html
    $ attributary report this/run last/run -o changes.html
    $ attributary report figures.csv --noise laplace:scale=3 -o check.html

FILE is a plan, a table of estimates, an evaluation, a folder of these, a folder of periods, or a raw table of noisy
figures. A page of periods shows what changed by more than noise and chance explain. A page of a raw table checks
whether it adds up, whether the noise is as stated, and what denoising would gain.

The page is one HTML file, which needs no network. Large trees are cut to --nodes nodes, and the page says what is left
out. True counts in a folder are left out. More: docs/report.md, docs/weeks.md
"""


@click.command(help=ABOUT, short_help="Make one page to send on: counts, accuracy, privacy.")
@click.argument("files", metavar="FILE...", nargs=-1, required=True)
@options.file_output("report.html")
@options.levels_option("if no file states them.")
@options.option(
    "--noise MODEL",
    "Noise as in `denoise --noise`, or laplace, dlap or normal, if no file states it.  [default: the plan's, laplace]",
)
@options.tau_option
@options.option("--title", "Title of the page.  [default: what is counted, by level]")
@options.option(
    "--nodes",
    f"Largest number of nodes on the page.  [default: {NODES:,}; {SERIES_NODES:,} with periods]",
    type=click.IntRange(1, 10**9),
)
@options.option(
    "--periods LEVEL",
    "Compare the labels of the last level, such as week; or some of them: week=W1,W5.",
    "by",
)
@options.option(
    "--largest", "With periods: the largest amount that one event adds, such as a purchase; 1 for counts.", type=float
)
@options.choice("--test", TESTS, "With periods: the hypothesis to test.  [default: rates, for counts]")
@options.option(
    "--false-discoveries",
    "With periods: expected share of wrong calls among the nodes called changed.",
    type=float,
    default=0.05,
)
@options.flag("--proven", "With periods: hold that share under any dependence between nodes.")
@options.option("--measure NAME", "With periods: the measure to compare.  [default: the first]")
@options.choice(
    "--against",
    ["last", "mean"],
    "With periods: compare the last one with the one before, or with the mean of all earlier ones.  [default: last]",
)
@options.option("--changes FILE", "With periods: also write what changed in the last step, as a table.")
@options.amount_options
@options.form_options
@options.option("--charts DIR", "Also write each chart to this folder.")
@options.choice("--format", FORMATS, "Format of the charts.", "svg", "format_")
@options.quiet()
def report(
    *,
    files: tuple[str, ...],
    output: str,
    levels: list[str] | None,
    noise: str | None,
    tau: float | None,
    title: str | None,
    nodes: int | None,
    charts: str | None,
    format_: str,
    quiet: bool,
    **of_periods: Any,
) -> None:
    from attributary.changes.period_files import period_tables
    from attributary.noise import parse, shape_of
    from attributary.report import page, read, save
    from attributary.tables import check_output

    if tau is not None and not 0 < tau < float("inf"):
        raise InputError(f"--tau is a number above 0; got {tau}")
    shape = noise and (parse(noise).shape if ":" in noise or noise == "estimated" else shape_of(noise)).name
    raw = {name: of_periods.pop(name) for name in RAW} | {"noise": noise, "totals": of_periods.pop("totals")}
    check_output(output, "csv")  # a file of text
    weeks = _one_table(files) if of_periods["by"] else period_tables(list(files))
    if weeks:
        if charts:
            raise InputError("--charts draws one period; give one run, or leave it out")
        _report_series(weeks, output, nodes, title, quiet, levels=levels, **of_periods)
        return
    if any(of_periods[name] for name in ("test", "proven", "measure", "largest", "against", "changes")):
        raise InputError(
            "--test, --proven, --measure, --largest, --against and --changes compare periods; give a folder of them, "
            "or THIS and LAST"
        )
    with stages(not quiet) as stage:
        stage("reading")
        inputs = read(list(files), levels, shape, **raw)
        refuse_inputs([output], inputs.files)
        stage("drawing")
        made = page(inputs, tau, nodes or NODES, title)
        stage("writing")
        pictures = _write_charts(made.charts, charts, format_, inputs.files) if charts else []
        save(made.html, output)
    notes = [f"{path} holds true counts, NOT protected: left out" for path in inputs.left_out]
    notes += [f"{made.left_out:,} nodes are left out; raise --nodes to show more"] if made.left_out else []
    notes += [f"{len(pictures)} charts written to {charts}"] if charts else []
    _say_made(made.html, output, inputs.not_private, made.lead if inputs.check_of_table else [], notes, quiet)
    if quiet:
        return
    fact(not_private=inputs.not_private, true_counts_left_out=inputs.left_out, nodes_left_out=made.left_out)
    fact(charts=pictures, bytes=len(made.html.encode()))


def _one_table(files: tuple[str, ...]) -> dict[str, str]:
    """The table whose last level is periods."""
    from attributary.changes.period_files import table_of_period

    path = table_of_period(files[0]) if len(files) == 1 else None
    if path is None:
        raise InputError(
            f"--periods compares the estimates within one table; got {', '.join(files)}: denoise a raw table first, as "
            "in `attributary denoise --table figures.csv -o estimates.csv`"
        )
    return {path: path}


def _report_series(
    weeks: dict[str, str],
    output: str,
    nodes: int | None,
    title: str | None,
    quiet: bool,
    changes: str | None = None,
    against: str | None = None,
    **options: Any,
) -> None:
    from attributary.changes import periods
    from attributary.facts.changes import change_facts
    from attributary.report import save, series_page
    from attributary.tables import check_output, write_table

    refuse_inputs([output], list(weeks.values()))
    if changes:
        check_output(changes)
        refuse_inputs([changes], [*weeks.values(), output], "--changes")
    with stages(not quiet) as stage:
        stage("reading")
        series = periods(next(iter(weeks.values())) if options["by"] else weeks, **options)
        series = series.against_mean() if against == "mean" else series
        plans = [plan for path in dict.fromkeys(weeks.values()) if (plan := _plan_of(path))]
        stage("drawing")
        made = series_page(series, plans, nodes or SERIES_NODES, title)
        save(made.html, output)
        if changes:
            write_table(series.last.table(), changes)
    notes = [f"changes written to {changes}"] if changes else []
    _say_made(made.html, output, series.not_private, made.lead, notes, quiet)
    if not quiet:
        facts = change_facts(series, plans)
        fact(total=facts.total, sum=facts.sum, changed=facts.changed, periods=facts.periods)


def _plan_of(path: str) -> "Plan | None":
    """The plan beside a table of estimates, if the table states that it is of this plan; else no ε is known."""
    from attributary.plan import Plan
    from attributary.tables import read_table

    plan_file = os.path.join(os.path.dirname(path), "plan.json")
    if not os.path.exists(plan_file):
        return None
    plan, stated = Plan.load(plan_file), (read_table(path).schema.metadata or {}).get(b"plan", b"").decode()
    return plan if plan.fingerprint in stated.split(",") else None


def _say_made(html: str, output: str, not_private: str, answer: list[str], notes: list[str], quiet: bool) -> None:
    """Why the page is not private, and unless quiet what it answers, what it leaves out, and where it is."""
    if not_private:
        say(f"{place_of(output)}: {not_private}", always=True)
    if quiet:
        return
    if answer:
        fact(answer=answer)
    size = len(html.encode())
    large = f"{size / 1e6:,.1f} MB" if size >= 1e6 else f"{size / 1e3:.0f} kB"
    for sentence in (*answer, *notes, *([] if output == "-" else [f"report written to {output} ({large})"])):
        say(sentence)


def _write_charts(drawn: "list[Chart]", folder: str, format_: str, read: tuple[str, ...]) -> list[str]:
    from attributary.report import save, to_file

    make_folder(folder, "--charts")
    paths = [os.path.join(folder, f"{chart.name}.{format_}") for chart in drawn]
    refuse_inputs(paths, read, "--charts")
    for chart, path in zip(drawn, paths, strict=True):
        save(to_file(chart, format_), path)
    return paths
