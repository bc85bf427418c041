"""attributary aggregate: sum reports into a summary report, once."""

import os
import re
from typing import TYPE_CHECKING

import click

from attributary.cli.options import MOST_AT_ONCE
from attributary.errors import InputError

if TYPE_CHECKING:
    from attributary.api.attribution_api import Aggregation, Tally
    from attributary.plan import JointPlan, Plan

DAY = 86_400  # seconds
SERVICE_DAYS = 90  # the age up to which the aggregation service takes reports

ABOUT = """Sum aggregatable reports into a noisy summary report: a local aggregation service.

\b
    $ attributary aggregate plan.json reports/ --domain keys/domain.avro \\
          -o summary.avro

REPORTS are files, patterns or folders: Avro as the aggregation service reads it, or JSON as the browser sends it.
Encrypted reports need --key. Reports that cannot be used are left out and counted.

THE DOMAIN holds the keys to sum up, as `attributary keys` writes it. Every key gets exact noise DLap(epsilon / L1),
even if no report has it. Contributions to other keys are dropped.

THE LEDGER records what was queried: no report is queried twice. There is one ledger per user; --ledger names one that
several users or machines share. After an interruption, run the same command again: it gives the same answer. A damaged
ledger is never replaced: restore it from a backup.

Without a plan, give --epsilon and --l1 (65536 in browsers). The outputs of --debug, --no-noise and --seed are marked
NOT PRIVATE and spend no budget. More: docs/aggregate.md
"""


@click.command(help=ABOUT, short_help="Sum reports into a summary report, as a local aggregation service.")
@click.argument("files", metavar="[PLAN] REPORTS...", nargs=-1, required=True)
@click.option(
    "--domain", metavar="FILE", required=True, multiple=True, help="The keys to query (Avro); may be repeated."
)
@click.option("-o", "--output", metavar="FILE", required=True, help="The summary report to write (.avro or .json).")
@click.option(
    "--key",
    "key_files",
    metavar="FILE",
    multiple=True,
    help="The private key, if reports are encrypted; of several, or of a folder, key_id chooses.",
)
@click.option("--epsilon", type=float, help="Another ε than the plan's, above 0 and up to 64.")
@click.option(
    "--l1", type=click.IntRange(1, 2**32 - 1), help="Without a plan, with --epsilon: the L1 of a report, as in 65536."
)
@click.option(
    "--filtering-ids", metavar="N,N", default="0", show_default=True, help="Filtering ids whose contributions count."
)
@click.option(
    "--ledger",
    "ledger_file",
    metavar="FILE",
    help="Record of what was queried.  [default: attributary/ledger.sqlite in $XDG_STATE_HOME or ~/.local/state]",
)
@click.option(
    "--max-errors",
    "most_errors",
    metavar="SHARE",
    default="10%",
    show_default=True,
    help="Largest share of unusable reports.",
)
@click.option(
    "--max-age", "since", metavar="TIME", help="Refuse reports that were due longer ago (before today, UTC), as in 90d."
)
@click.option(
    "--reporting-site", metavar="SITE", default="", help="Site whose reports count.  [default: the most frequent]"
)
@click.option("--skip-spent", is_flag=True, help="Leave out reports of hours that were queried before, and count them.")
@click.option("--errors", "errors_file", metavar="FILE", help="Write how many reports have which error (JSON).")
@click.option("--debug", is_flag=True, help="Count only reports in debug mode; write sums and noise side by side, too.")
@click.option("--no-noise", is_flag=True, help="Write exact sums, which are NOT private.")
@click.option("--seed", type=click.IntRange(0), help="Seed of the noise, for tests: NOT private.")
@click.option(
    "--processes",
    type=click.IntRange(1, MOST_AT_ONCE),
    help="Processes used for reading reports.  [default: one per processor]",
)
@click.option("-q", "--quiet", is_flag=True, help="Print nothing but privacy warnings and new ledgers.")
def aggregate(
    *,
    files: tuple[str, ...],
    domain: tuple[str, ...],
    output: str,
    key_files: tuple[str, ...],
    epsilon: float | None,
    l1: int | None,
    filtering_ids: str,
    ledger_file: str | None,
    most_errors: str,
    since: str | None,
    skip_spent: bool,
    reporting_site: str,
    errors_file: str | None,
    debug: bool,
    no_noise: bool,
    seed: int | None,
    processes: int | None,
    quiet: bool,
) -> None:
    import time

    from attributary import api
    from attributary.cli.printing import say
    from attributary.cli.progress import stages
    from attributary.cli.reading import refuse_inputs
    from attributary.cli.summary_file import stage_rows

    plan, reports = _plan(files, epsilon, l1)
    beside = os.path.splitext(output)[0] + ".debug.avro" if debug else None
    read = [*files, *domain, *key_files]
    refuse_inputs([output, beside], [*read, ledger_file])
    refuse_inputs([errors_file], [*read, ledger_file], "--errors")
    if not (quiet or debug or no_noise or seed is not None or (plan and plan.breakdowns[0].keys)):
        why = "no plan is given" if plan is None else "the plan has no keys"
        say(f"{why}, so nothing shows whether the domain fits these reports: a wrong one is spent all the same")
    now = time.time()
    with stages(not quiet) as stage:
        done = api.aggregate(
            plan,
            reports,
            domain,
            ledger_file,
            output=output,
            epsilon=epsilon,
            l1=l1,
            private_keys=key_files,
            filtering_ids=_ids(filtering_ids),
            most_errors=_share(most_errors),
            errors_file=errors_file,
            reporting_site=reporting_site,
            since=0 if since is None else _since(since, now),
            skip_spent=skip_spent,
            debug=debug,
            no_noise=no_noise,
            seed=seed,
            processes=processes,
            progress=stage,
        )
    stage_rows("adding up", done.tally.reports)
    _print(done, now, quiet)


def _plan(
    files: tuple[str, ...], epsilon: float | None, l1: int | None
) -> tuple["Plan | JointPlan | None", tuple[str, ...]]:
    """The plan, unless the options are in its place, and the files that are reports."""
    from attributary.file_kind import file_kind
    from attributary.plan import load_plan

    first = file_kind(files[0], "aggregate") if os.path.isfile(files[0]) else None
    if l1 is None:
        path, *reports = files
        if not reports:
            raise InputError(f"a plan and reports are needed; got only {path}: without a plan, give --epsilon and --l1")
        if first is not None and first.kind not in ("plan", "JSON"):
            first.refuse("aggregate")
        return load_plan(path), tuple(reports)
    if epsilon is not None and first is not None and first.kind == "plan":
        raise InputError(f"--l1 is for reports without a plan; leave it out, since {files[0]} is one")
    return None, files


def _ids(text: str) -> frozenset[int]:
    words = [word.strip() for word in text.split(",")]
    if not all(word.isdecimal() and int(word) < 2**64 for word in words):
        raise InputError(f"filtering ids are whole numbers from 0, as in 0,1; got --filtering-ids {text}")
    return frozenset(map(int, words))


def _share(text: str) -> float:
    number = re.fullmatch(r"\s*(\d{1,3}(?:\.\d{1,9})?)\s*%\s*", text)
    if number is None or not float(number[1]) <= 100:
        raise InputError(f"--max-errors is a share of the reports from 0% to 100%; got {text[:40]!r}")
    return float(number[1]) / 100


def _since(text: str, now: float) -> int:
    """The second that reports must be due from, by whole days or hours: a retry soon after is the same query."""
    from attributary.spec.attribute import A_SPAN, span

    try:
        age = span(text).seconds
    except ValueError:
        raise InputError(f"--max-age is {A_SPAN}; got {text[:40]!r}") from None
    step = DAY if age >= DAY else 3600
    return max(int(now) // step * step - age, 0)


def _print(done: "Aggregation", now: float, quiet: bool) -> None:
    """Prints what became of the reports; if quiet, only what is new or not private."""
    from attributary.cli.printing import muted, say
    from attributary.cli.summary_file import fact
    from attributary.errors import one_line

    t, output = done.tally, done.output
    fact("answered", done.answered)
    if done.answered:
        if not quiet:
            restored = "; restored from a copy of that answer" if done.restored else ""
            say(f"{output}: already answered at {done.answered}; nothing was drawn or spent{restored}")
        return
    lines = [f"{output}: {done.noise}"] if (quiet or muted()) and done.not_private else []
    lines += [f"{done.ledger}: a new ledger, which knows of no earlier query"] if done.new_ledger else []
    lines += [f"{done.debug_output}: NOT PRIVATE: exact sums and noise side by side"] if done.debug_output else []
    for line in lines:
        say(one_line(line), always=True)
    fact("keys", len(done.keys))
    fact("noise", done.noise)
    fact("not_private", done.not_private)
    fact("tally", t)
    fact("faults", done.faults)
    fact("ledger", done.ledger)
    fact("shared_ids_spent", done.shared_ids if done.ledger else 0)
    if not quiet:
        for line in (
            f"{output}: {len(done.keys):,} keys, {done.noise}",
            f"reports: {t.used:,} of {t.reports:,} used, {t.repeated:,} repeated, {t.faulty:,} refused",
            *([f"  {t.skipped:,} left out, of hours that were queried before"] if t.skipped else []),
            *(f"  {number:,} {name}" for name, number in t.categories.items()),
            *(f"  {fault}" for fault in done.faults),
            *([f"  … and {t.faulty - len(done.faults):,} more"] if t.faulty > len(done.faults) else []),
            *_age(t.oldest, now),
            *([_contributions(t)] if done.not_private else []),
            f"{done.ledger}: {done.shared_ids:,} shared ids spent" if done.ledger else "nothing was spent",
        ):
            say(one_line(line))


def _contributions(t: "Tally") -> str:
    told = f"{t.summed:,} summed, {t.nulls:,} null, {t.filtered:,} with other filtering ids"
    return f"contributions: {told}, {t.outside:,} with keys outside the domain"


def _age(oldest: int | None, now: float) -> list[str]:
    days = 0 if oldest is None else int((now - oldest) // DAY)
    if days <= SERVICE_DAYS:
        return []
    return [f"the oldest report was due {days:,} days ago; the aggregation service takes {SERVICE_DAYS} (--max-age)"]
