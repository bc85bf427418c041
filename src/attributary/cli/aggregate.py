"""attributary aggregate: reports become a summary report, once."""

import os
import re
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from attributary.api.ara.service.aggregation import Sums

DEBUG = "NOT PRIVATE: a debug run, which spends nothing and may be repeated; not for release"
DAY = 86_400  # seconds
SERVICE_DAYS = 90  # the age up to which the aggregation service takes reports
EARLIER_LEDGER = "attributary-ledger.sqlite"  # beside the output, until ledgers were the user's

ABOUT = """Aggregatable reports in, a summary report out: a local aggregation service.

\b
    $ attributary aggregate plan.json reports/ --domain domain.avro \\
          --key private.key -o summary.avro

REPORTS are files, patterns or folders: Avro as the aggregation service reads it, or JSON as the browser sends it (one
report, a list of them, or one on each line). With --key they are decrypted; without it, what they hold in the clear is
summed. A report that cannot be used is told and left out; the others count. Reports with the same id count once.

THE DOMAIN holds the keys to sum up, as `attributary keys` writes it. Every one of them gets exact discrete Laplace
noise DLap(epsilon / L1), also where no report has it; other keys are dropped, and counted.

THE LEDGER remembers what was queried, by shared id: the API, its version, the origin, the destination, the day of the
impression, the filtering id, and the hour that the report was due. No shared id is queried twice. There is one ledger
per user; --ledger names one that several users or machines share. If the command is interrupted, the same command again
gives the same answer; if it is done, the same command again says so and changes nothing. A ledger that is damaged or
missing is never replaced by a new one: restore it from a backup.

WITHOUT A PLAN, for reports that others planned, give --epsilon and --l1 (65536 in browsers).

ERRORS. If more than --max-errors of the reports cannot be used, nothing is spent or written. Errors are counted by the
aggregation service's categories, as in DECRYPTION_ERROR; --errors writes the counts as JSON.

--debug is for reports in debug mode; others do not count. It writes exact sums and noise beside the output and spends
nothing. --no-noise and --seed are for tests. Each of the three says in its output that it is not private, and spends
nothing.
"""


@click.command(help=ABOUT, short_help="Reports in, a summary report out: a local aggregation service.")
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
    help="The private key, if reports are encrypted; several, or a folder of them, are chosen by key_id.",
)
@click.option("--epsilon", type=float, help="Another ε than the plan's, above 0 and up to 64.")
@click.option("--l1", type=click.IntRange(1), help="Without a plan, with --epsilon: the L1 of a report, as in 65536.")
@click.option(
    "--filtering-ids", metavar="N,N", default="0", show_default=True, help="Contributions with these ids count."
)
@click.option(
    "--ledger",
    "ledger_file",
    metavar="FILE",
    help="What was queried.  [default: attributary/ledger.sqlite in $XDG_STATE_HOME or ~/.local/state]",
)
@click.option(
    "--max-errors", metavar="SHARE", default="10%", show_default=True, help="Reports that may be unusable at most."
)
@click.option(
    "--max-age", metavar="TIME", help="Refuse reports that were due longer ago (before today, UTC), as in 90d."
)
@click.option("--reporting-site", metavar="SITE", default="", help="Whose reports count.  [default: that of most]")
@click.option("--errors", "errors_file", metavar="FILE", help="Write how many reports have which error (JSON).")
@click.option("--debug", is_flag=True, help="Count only reports in debug mode; write sums and noise side by side, too.")
@click.option("--no-noise", is_flag=True, help="Exact sums, which are NOT private.")
@click.option("--seed", type=click.IntRange(0), help="The same noise each time, which is not for release.")
@click.option(
    "--processes", type=click.IntRange(1), help="Processes used for decryption.  [default: one per processor]"
)
@click.option(
    "-q", "--quiet", is_flag=True, help="No progress and no messages, except on new ledgers and what is not private."
)
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
    max_errors: str,
    max_age: str | None,
    reporting_site: str,
    errors_file: str | None,
    debug: bool,
    no_noise: bool,
    seed: int | None,
    processes: int | None,
    quiet: bool,
) -> None:
    import time
    from concurrent.futures.process import BrokenProcessPool

    import numpy as np

    from attributary.api.ara.service import aggregation, ledger
    from attributary.api.ara.service.batch import Rules
    from attributary.api.ara.service.summary import write_summary
    from attributary.api.ara.wire import avro
    from attributary.api.ara.wire.private_key import read_private_keys
    from attributary.cli.outputs import refuse_inputs
    from attributary.cli.progress import stages
    from attributary.errors import InputError, TryAgain
    from attributary.noise import Entropy
    from attributary.tables.not_private import NO_NOISE, SEEDED, together

    epsilon, l1, reports = _rate(files, epsilon, l1)
    if no_noise and seed is not None:
        raise InputError("--seed is for noise, and --no-noise is without; give one of them")
    _check_output(output, errors_file)
    read = [*files, *domain, *key_files]
    refuse_inputs([output, _beside(output) if debug else None], [*read, ledger_file, errors_file])
    refuse_inputs([errors_file], [*read, ledger_file], "--errors")
    ids, most_errors = _ids(filtering_ids), _share(max_errors)
    rules = Rules(reporting_site, debug, 0 if max_age is None else _since(max_age, time.time()))
    key = read_private_keys(key_files) if key_files else None
    not_private = together(NO_NOISE if no_noise else "", "" if seed is None else SEEDED, DEBUG if debug else "")
    book = None if not_private else _ledger(ledger_file, output)
    with stages(not quiet) as stage:
        stage("reading the domain")
        keys = avro.read_domain(domain)
        if not len(keys):
            raise InputError(f"{domain[0]} has no keys; a summary report needs some to sum up")
        try:
            sums = aggregation.add_up(
                reports,
                keys,
                key,
                ids,
                processes or os.cpu_count() or 1,
                debug,
                lambda number: stage(f"adding up, {number:,} reports"),
                rules,
            )
        except BrokenProcessPool as error:
            raise TryAgain("a process that decrypts was ended, as where memory is short; nothing was spent") from error
        except ValueError as error:
            raise InputError(str(error)) from error
        if errors_file is not None:
            _write_errors(errors_file, sums)
        aggregation.check(sums, domain[0], most_errors)
        rng: Entropy | None = None if seed is None else np.random.default_rng(seed)
        if book is not None:
            new = not os.path.exists(book)
            query = ledger.query_of(sums.shared, sums.keys, sums.total, epsilon / l1, sums.report_ids)
            secret = ledger.reserve(book, sums.shared, query)
            if isinstance(secret, ledger.Answer):
                ledger.check_answer(secret, output)
                if not quiet:
                    click.echo(f"{output}: already answered at {secret.when}; nothing was drawn or spent", err=True)
                return
            rng = ledger.Stretched(secret)
        stage("drawing noise")
        noise = np.zeros(len(sums.keys), np.int64) if no_noise else aggregation.draw(sums, epsilon, l1, rng)
        stage("writing")
        note = not_private or f"noise DLap({epsilon:g}/{l1})"
        stated = avro.Stated(None if no_noise else epsilon, None if no_noise else l1, not_private)
        if debug:
            avro.write_debug_results(_beside(output), aggregation.debug_results(sums, noise), "NOT PRIVATE: exact sums")
        write_summary(output, sums.keys, aggregation.noisy(sums.total, noise), note, stated)
        if book is not None:
            ledger.finish(book, query, ledger.answer_in(output, time.time()))
    if quiet and not_private:
        click.echo(f"{output}: {note}", err=True)
    if book is not None and new:
        click.echo(f"{book}: a new ledger, which knows of no earlier query", err=True)
    if debug:
        click.echo(f"{_beside(output)}: NOT PRIVATE: exact sums and noise side by side", err=True)
    if not quiet:
        spent = "nothing was spent" if book is None else f"{book}: {len(sums.shared):,} shared ids spent"
        _print(sums, output, note, spent, time.time())


def _rate(files: tuple[str, ...], epsilon: float | None, l1: int | None) -> tuple[float, int, tuple[str, ...]]:
    """ε and L1, from the plan unless the options say them, and the files that are reports."""
    from attributary.errors import InputError
    from attributary.plan import Plan

    reports = files
    if l1 is None:
        plan, *others = files
        reports = tuple(others)
        if not reports:
            raise InputError(f"a plan and reports are needed; got only {plan}: without a plan, give --epsilon and --l1")
        asks = Plan.load(plan).spec
        if not asks.noise_model.on_sums:
            raise InputError(f'{plan} is for noise on whole counts; reports need a plan with noise = "api"')
        epsilon, l1 = asks.epsilon if epsilon is None else epsilon, asks.l1
    elif epsilon is None:
        raise InputError("--l1 is for reports without a plan, and goes with --epsilon; give both, or a plan")
    elif _is_plan(files[0]):
        raise InputError(f"--l1 is for reports without a plan; leave it out, since {files[0]} is one")
    if not 0 < epsilon <= 64:
        raise InputError(f"the epsilon of a summary report is above 0 and up to 64; got {epsilon:g}")
    return epsilon, l1, reports


def _is_plan(path: str) -> bool:
    from attributary.errors import InputError
    from attributary.plan import Plan

    if not path.endswith(".json") or not os.path.isfile(path):
        return False
    with open(path, "rb") as file:
        if b'"spec"' not in file.read(2**20):
            return False
    try:
        Plan.load(path)
    except InputError:
        return False
    return True


def _ledger(given: str | None, output: str) -> str:
    """The ledger to use: the one that was named, or the user's."""
    from attributary.api.ara.service.ledger import file_of, users_ledger
    from attributary.errors import InputError

    if given is not None:
        file_of(given)  # refuses what is no file
        return given
    earlier = os.path.join(os.path.dirname(output), EARLIER_LEDGER)
    if os.path.exists(earlier):
        raise InputError(
            f"{earlier} is the ledger of an earlier version, which kept it beside the output; go on with it by "
            f"--ledger {earlier}, or move it to {users_ledger()}"
        )
    return users_ledger()


def _ids(given: str) -> frozenset[int]:
    from attributary.errors import InputError

    words = [word.strip() for word in given.split(",")]
    if not all(word.isdecimal() and int(word) < 2**64 for word in words):
        raise InputError(f"filtering ids are whole numbers from 0, as in 0,1; got --filtering-ids {given}")
    return frozenset(map(int, words))


def _share(given: str) -> float:
    from attributary.errors import InputError

    number = re.fullmatch(r"\s*(\d{1,3}(?:\.\d{1,9})?)\s*%\s*", given)
    if number is None or not float(number[1]) <= 100:
        raise InputError(f"--max-errors is a share of the reports from 0% to 100%; got {given[:40]!r}")
    return float(number[1]) / 100


def _since(given: str, now: float) -> int:
    """The second that reports must be due from, by whole days or hours: a retry soon after is the same query."""
    from attributary.errors import InputError
    from attributary.spec.span import RULE, span

    try:
        age = span(given).seconds
    except ValueError:
        raise InputError(f"--max-age is {RULE}; got {given[:40]!r}") from None
    step = DAY if age >= DAY else 3600
    return max(int(now) // step * step - age, 0)


def _check_output(path: str, errors: str | None) -> None:
    """Refuses early what could not be written."""
    from attributary.errors import InputError

    if not path.endswith((".avro", ".json")):
        raise InputError(f"a summary report is Avro or JSON; end {path} in .avro or .json")
    for file in [path] if errors is None else [path, errors]:
        folder = os.path.dirname(os.path.realpath(file))
        special = os.path.exists(file) and not os.path.isfile(file)
        if special or not os.path.isdir(folder) or not os.access(folder, os.W_OK):
            option = "-o" if file == path else "--errors"
            raise InputError(f"{file} cannot be written; choose a file in a folder that is there with {option}")
    if errors is not None and os.path.realpath(errors) in map(os.path.realpath, (path, _beside(path))):
        raise InputError(f"-o and --errors both write to {errors}; give each a file of its own")


def _write_errors(path: str, sums: "Sums") -> None:
    """The counts of errors as the aggregation service tells them, and the first few in words."""
    import json

    from attributary.errors import InputError
    from attributary.tables.whole_file import whole_file

    tally = sums.tally
    counts = [*tally.categories.items(), *([("NUM_REPORTS_WITH_ERRORS", tally.faulty)] if tally.faulty else [])]
    found = {
        "reports": tally.reports,
        "error_counts": [{"category": str(name), "count": number} for name, number in counts],
        "error_messages": list(sums.faults),
    }
    try:
        with whole_file(path) as file:
            file.write(json.dumps(found, indent=2).encode() + b"\n")
    except OSError as error:
        raise InputError(f"{path} cannot be written: {error.strerror or error}") from error


def _beside(output: str) -> str:
    return os.path.splitext(output)[0] + ".debug.avro"


def _print(sums: "Sums", output: str, note: str, spent: str, now: float) -> None:
    from attributary.cli.one_line import one_line

    t = sums.tally
    lines = [
        f"{output}: {len(sums.keys):,} keys, {note}",
        f"reports: {t.used:,} of {t.reports:,} used, {t.repeated:,} repeated, {t.faulty:,} refused",
        *(f"  {number:,} {name}" for name, number in t.categories.items()),
        *(f"  {fault}" for fault in sums.faults),
        *([f"  … and {t.faulty - len(sums.faults):,} more"] if t.faulty > len(sums.faults) else []),
        *_age(t.oldest, now),
        f"contributions: {t.summed:,} summed, {t.nulls:,} null, {t.filtered:,} with other filtering ids, "
        f"{t.outside:,} with keys outside the domain",
        spent,
    ]
    for line in lines:
        click.echo(one_line(line), err=True)


def _age(oldest: int | None, now: float) -> list[str]:
    days = 0 if oldest is None else int((now - oldest) // DAY)
    if days <= SERVICE_DAYS:
        return []
    return [f"the oldest report was due {days:,} days ago; the aggregation service takes {SERVICE_DAYS} (--max-age)"]
