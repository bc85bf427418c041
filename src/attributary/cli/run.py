"""attributary run: end to end, from logs to counts that add up."""

import os
from collections.abc import Collection, Iterator
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import click

from attributary.cli import options
from attributary.cli.printing import Out, fact, muted, print_table, reading_bar, say, stage_rows, stages, warn_first
from attributary.cli.reading import check_folder, log_paths, refuse_inputs
from attributary.errors import InputError
from attributary.types import Record
from attributary.whole_files import sole_writer

if TYPE_CHECKING:
    from attributary.pipeline.run import Run
    from attributary.pipeline.run_parts import RunInParts
    from attributary.report import ReportInputs
    from attributary.spec import Spec

FORMATS = ["parquet", "csv"]

ABOUT = """Run end to end: logs, counts, plan, noise, counts that add up.

\b
    $ attributary generate shop -o shop/
    $ attributary run shop/spec.toml --prior-until 2026-02-02 -o shop/run

This simulates the browsers and the aggregation service: conversions are counted as in `attributary count`, the budget
is split as in `attributary plan`, every node gets the noise of a summary report, and the figures are denoised as in
`attributary denoise`.

THE PRIOR is made from impressions before --prior-until, and the later ones are measured; or it is read from --prior.
Without one, the plan follows the structure of the tree. --plan simulates an existing plan. --from and --until leave
out all other impressions, of prior and counts.

THE OUTPUT is a folder:

\b
    report.html  a page with everything
    plan.json    the contribution of each level
    estimates    one row per node: the noisy figure, the estimate, its interval
    counts       the true counts, and prior, the earlier ones: NOT protected
    ratios       with counts and values: the value per conversion

Each run draws new noise: whoever publishes two runs of the same logs has spent 2 epsilon. An earlier run is therefore
replaced only with --again. With --seed the noise repeats and protects nobody: all files say NOT PRIVATE.

With --engine spark all of it is done on a cluster. Tables are then folders of Parquet files, and DIR may be an address.
More: docs/index.md, docs/prior.md, docs/cluster.md
"""


@click.command(help=ABOUT, short_help="End to end, from logs to counts that add up.")
@click.argument("spec", metavar="SPEC")
@options.period_options
@options.option("--prior-until TIME", "Impressions before this time make the prior, later ones the counts.")
@options.prior_options
@options.option("--plan PLAN", "Simulate this plan, as `attributary plan` wrote it.")
@options.method_option()
@options.estimator_options
@options.noise_seed
@options.flag("--again", "Replace an earlier run: a second release, 2ε in all.")
@options.engine_options
@options.option("-o --output DIR", "The folder to write to.", default="run")
@options.choice("--format", FORMATS, "Format of the tables.", "parquet", "format_")
@options.quiet()
def run(
    *,
    spec: str,
    prior: str | None,
    estimator: str | None,
    joint: bool,
    whole: bool,
    seed: int | None,
    again: bool,
    output: str,
    format_: str,
    quiet: bool,
    engine: str,
    **how: Any,
) -> None:
    from attributary.cli.print_results import print_counts, print_estimates, print_plans
    from attributary.facts.plan import batch_lines
    from attributary.facts.privacy import NOT_PROTECTED, loss_table
    from attributary.logs.count import make_engine
    from attributary.logs.log_files import rows_in_logs
    from attributary.pipeline.run import FILES, check_earlier
    from attributary.pipeline.run_by_root import RunByRoot, run_into
    from attributary.pipeline.spark_run import run_spark
    from attributary.spec import Spec
    from attributary.tables.table_columns import SEEDED, TRUE_COUNTS, together

    plan, given = how["plan"], click.get_current_context().get_parameter_source("method")
    if plan and given != click.core.ParameterSource.DEFAULT:
        raise InputError(f"--plan {plan} has its split already; got --method {how['method']}: leave one of them out")
    chosen = options.chosen_estimator(estimator, joint, whole)
    asks, folder = Spec.load(spec), os.path.dirname(spec)
    check_folder(output)
    refuse_inputs([os.path.join(output, name) for name in FILES], [spec, prior, plan, *log_paths(asks, folder)])
    with ExitStack() as open_:
        open_.enter_context(sole_writer(output))
        if engine == "spark" and format_ != "parquet":
            raise InputError(f"tables of a cluster are Parquet; got --format {format_}: leave it out")
        check_earlier(output, FILES, again or seed is not None)
        bar = open_.enter_context(reading_bar(not quiet, lambda: rows_in_logs(asks.logs, folder)))
        stage = open_.enter_context(stages(not quiet))
        of_engine = {name: how.pop(name) for name in ("memory", "temp", "threads", "master", "conf")}
        running = open_.enter_context(make_engine(engine, bar, **of_engine))
        how |= {"prior": prior, "estimator": chosen, "engine": running, "stage": stage}
        if engine == "spark":
            spark = run_spark(asks, folder, **how, seed=seed)
            shown = spark.save(output, stage, again=again or seed is not None)
            _print_parts(asks, spark, shown, how, output, quiet)
            return
        done = run_into(output, asks, folder, format=format_, **how, seed=seed)
    if isinstance(done, RunByRoot):
        _print_parts(asks, done, done.shown, how, output, quiet)
        return
    stage_rows("writing", done.tables["estimates"].num_rows)
    words = together("" if seed is None else SEEDED, done.not_private)
    if words and (quiet or muted()):
        say(f"{output}: {words}", always=True)
    if quiet:
        return
    for part in done.parts:
        warn_first(part.prior.misfit(part.tree))
    print_counts(done.counts, asks)
    source = f"as in {plan}" if plan else prior or (how["prior_until"] and f"impressions before {how['prior_until']}")
    print_plans(done.plan, [(part.tree, part.prior) for part in done.parts], source)
    path = os.path.join(output, f"estimates.{format_}")
    for name, one in zip(done.names, done.breakdowns, strict=True):
        say(f"\n{name}" if name else "")
        rows = one.tables["estimates"].num_rows
        print_estimates(one.shown.quantities(None), rows, path, [words] if words else [])
    if losses := done.losses:
        table = loss_table(losses)
        say(f"\n{table.caption}: {NOT_PROTECTED}")
        print_table(Out(), [table.heads, *table.rows])
        if any(loss.moved for loss in losses):
            say("moved: levels count different conversions, which the check of the noise takes for noise")
        fact(losses=[loss._asdict() for loss in losses])
    first = done.breakdowns[0]
    for few in batch_lines(first.plan, first.tree, next(iter(first.truth.values())), "in these logs"):
        say(f"{few.subject}: {few.text}")
    fact(errors_of_this_draw=done.errors, not_private=TRUE_COUNTS)  # what is counted, and the error
    _print_errors(done.errors)
    for line in _notes(done, done.tables, output, not words):
        say(line)


def _print_parts(
    asks: "Spec", done: "RunInParts", shown: "ReportInputs", how: Record, output: str, quiet: bool
) -> None:
    """Prints what a run in parts came to."""
    from attributary.cli.print_results import print_counts, print_estimates, print_plan

    words = shown.not_private
    if words and (quiet or muted()):
        say(f"{output}: {words}", always=True)
    if quiet:
        return
    print_counts(done.counts, asks, done.leaves)
    source = how["prior"] or (None if done.before is None else f"impressions before {how['prior_until']}")
    print_plan(done.plan, done.tree, done.prior, f"as in {how['plan']}" if how["plan"] else source)
    say("")
    notes = [*([f"below are the upper levels: {shown.upper}"] if shown.upper else []), *([words] if words else [])]
    print_estimates(shown.quantities(None), done.rows, os.path.join(output, shown.files[-1]), notes)
    _print_errors(getattr(done, "errors", {}))
    for line in _notes(done, done.tables, output, not words):
        say(line)


def _print_errors(errors: dict[str, float]) -> None:
    for name, error in errors.items():
        say(f"error of this run: {error:.1%} of {name} (or of tau, if that is larger)")


def _notes(done: "Run | RunInParts", tables: Collection[str], output: str, private: bool) -> Iterator[str]:
    """What to say of a run besides counts, plan and estimates."""
    true = "counts" if done.before is None else "counts and prior"
    ratios = " ratios," if "ratios" in tables else ""
    yield f"also written: plan.json,{ratios} {true} ({true} hold true counts, NOT protected)"
    if done.generated:
        yield "the rows of these logs were generated"
    if private:
        noise = done.plan.spec.noise_model
        twice = f"{'' if noise.account else '2'}ε = {noise.loss(2):.4g}"
        yield f"each run draws new noise: publishing two runs of these logs has a privacy loss of {twice}"
    yield f"report: {os.path.join(output, 'report.html')}"
