"""attributary aggregate: sum reports into a summary report, once."""

import os
import re
import time
from typing import TYPE_CHECKING, Any

import click

from attributary.cli.options import MOST_AT_ONCE, flag, noise_seed, option, quiet
from attributary.cli.printing import fact, muted, say, stage_rows, stages
from attributary.cli.reading import refuse_inputs
from attributary.errors import InputError, one_line

if TYPE_CHECKING:
    from attributary.api.attribution_api import Aggregation
    from attributary.plan import Plan

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
@option("--domain FILE", "The keys to query (Avro); may be repeated.", required=True, multiple=True)
@option("-o --output FILE", "The summary report to write (.avro or .json).", required=True)
@option(
    "--key FILE",
    "The private key, if reports are encrypted; of several, or of a folder, key_id chooses.",
    "private_keys",
    multiple=True,
)
@option("--epsilon", "Use this ε instead of the plan's, above 0 and up to 64.", type=float)
@option("--l1", "Without a plan, with --epsilon: the L1 of a report, as in 65536.", type=click.IntRange(1, 2**32 - 1))
@option("--filtering-ids N,N", "Filtering ids whose contributions count.", default="0")
@option(
    "--ledger FILE",
    "Record of what was queried.  [default: attributary/ledger.sqlite in $XDG_STATE_HOME or ~/.local/state]",
)
@option("--max-errors SHARE", "Largest share of reports that may be unusable.", "most_errors", default="10%")
@option("--max-age TIME", "Refuse reports that were due longer than this before today (UTC), as in 90d.", "since")
@option("--reporting-site SITE", "Site whose reports count.  [default: the most frequent]", default="")
@flag("--skip-spent", "Leave out reports of hours that were queried before, and count them.")
@option("--errors FILE", "Write the number of reports with each error to this file (JSON).", "errors_file")
@flag("--debug", "Count only reports in debug mode; write sums and noise side by side, too.")
@flag("--no-noise", "Write exact sums, which are NOT private.")
@noise_seed
@option(
    "--processes",
    "Processes used for reading reports.  [default: one per processor]",
    type=click.IntRange(1, MOST_AT_ONCE),
)
@quiet("Print nothing but privacy warnings and new ledgers.")
def aggregate(
    *, files: tuple[str, ...], domain: tuple[str, ...], output: str, ledger: str | None, quiet: bool, **how: Any
) -> None:

    from attributary import api

    plan, reports = _plan(files, how["epsilon"], how["l1"])
    beside = os.path.splitext(output)[0] + ".debug.avro" if how["debug"] else None
    read = [*files, *domain, *how["private_keys"], ledger]
    refuse_inputs([output, beside], read)
    refuse_inputs([how["errors_file"]], read, "--errors")
    not_private = how["debug"] or how["no_noise"] or how["seed"] is not None
    if not (quiet or not_private or (plan and plan.breakdowns[0].keys)):
        why = "no plan is given" if plan is None else "the plan has no keys"
        say(f"{why}, so nothing shows whether the domain fits these reports: a wrong one spends budget, too")
    now = time.time()
    how |= {"filtering_ids": _ids(how["filtering_ids"]), "most_errors": _share(how["most_errors"])}
    how |= {"since": 0 if how["since"] is None else _since(how["since"], now)}
    with stages(not quiet) as stage:
        done = api.aggregate(plan, reports, domain, ledger, output=output, progress=stage, **how)
    stage_rows("adding up", done.tally.reports)
    _print(done, now, quiet)


def _plan(files: tuple[str, ...], epsilon: float | None, l1: int | None) -> tuple["Plan | None", tuple[str, ...]]:
    """The plan, unless the options are in its place, and the files that are reports."""
    from attributary.file_kind import file_kind
    from attributary.plan import Plan

    first = file_kind(files[0], "aggregate") if os.path.isfile(files[0]) else None
    if l1 is None:
        path, *reports = files
        if not reports:
            raise InputError(f"a plan and reports are needed; got only {path}: without a plan, give --epsilon and --l1")
        if first is not None and first.kind not in ("plan", "JSON"):
            first.refuse("aggregate")
        return Plan.load(path), tuple(reports)
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
    t, output = done.tally, done.output
    fact(answered=done.answered)
    if done.answered:
        if not quiet:
            restored = "; restored from a copy of that answer" if done.restored else ""
            say(f"{output}: already answered at {done.answered}; nothing was drawn or spent{restored}")
        return
    always = [f"{output}: {done.noise}"] if (quiet or muted()) and done.not_private else []
    always += [f"{done.ledger}: a new ledger, which knows of no earlier query"] if done.new_ledger else []
    always += [f"{done.debug_output}: NOT PRIVATE: exact sums and noise side by side"] if done.debug_output else []
    for line in always:
        say(one_line(line), always=True)
    fact(keys=len(done.keys), noise=done.noise, not_private=done.not_private, tally=t, faults=done.faults)
    fact(ledger=done.ledger, shared_ids_spent=done.shared_ids if done.ledger else 0)
    if quiet:
        return
    lines = [f"{output}: {len(done.keys):,} keys, {done.noise}"]
    lines += [f"reports: {t.used:,} of {t.reports:,} used, {t.repeated:,} repeated, {t.faulty:,} refused"]
    lines += [f"  {t.skipped:,} left out, of hours that were queried before"] if t.skipped else []
    lines += [f"  {number:,} {name}" for name, number in t.categories.items()]
    lines += [f"  {fault}" for fault in done.faults]
    lines += [f"  … and {t.faulty - len(done.faults):,} more"] if t.faulty > len(done.faults) else []
    if (days := 0 if t.oldest is None else int((now - t.oldest) // DAY)) > SERVICE_DAYS:
        service = f"the aggregation service takes {SERVICE_DAYS} (--max-age)"
        lines += [f"the oldest report was due {days:,} days ago; {service}"]
    if done.not_private:
        told = f"{t.summed:,} summed, {t.nulls:,} null, {t.filtered:,} with other filtering ids"
        lines += [f"contributions: {told}, {t.outside:,} with keys outside the domain"]
    lines += [f"{done.ledger}: {done.shared_ids:,} shared ids spent" if done.ledger else "nothing was spent"]
    for line in lines:
        say(one_line(line))
