"""attributary aggregate: reports become a summary report, once."""

import os
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from attributary.ara.service.aggregation import Sums

LEDGER = "attributary-ledger.sqlite"

ABOUT = """Aggregatable reports in, a summary report out: a local aggregation service.

\b
    $ attributary aggregate plan.json reports/ --domain domain.avro \\
          --key private.key -o summary.avro

REPORTS are files, patterns or folders: Avro as the aggregation service reads it, or JSON as the browser sends it (one
report, a list of them, or one on each line). With --key they are decrypted; without it, what they hold in the clear is
summed. A report that cannot be used is told and left out; the others count. Reports with an id that came before count
once.

THE DOMAIN holds the keys to sum up, as `attributary keys` writes it. Every one of them gets exact discrete Laplace
noise DLap(epsilon / L1), also where no report has it; other keys are dropped, and counted.

THE LEDGER remembers what was queried, by shared id: the API, its version, the origin, the destination, the day of the
impression, the filtering id, and the hour that the report was due. No shared id is queried twice. If the command is
interrupted, the same command again gives the same answer. By default the ledger stands beside the output; where outputs
go to several folders, give one ledger to all.

--no-noise and --seed are for tests. Their output says that it is not private, and nothing is spent.
"""


@click.command(help=ABOUT, short_help="Reports in, a summary report out: a local aggregation service.")
@click.argument("plan", metavar="PLAN")
@click.argument("reports", metavar="REPORTS...", nargs=-1, required=True)
@click.option(
    "--domain", metavar="FILE", required=True, multiple=True, help="The keys to query (Avro); may be repeated."
)
@click.option("-o", "--output", metavar="FILE", required=True, help="The summary report to write (Avro).")
@click.option("--key", "key_file", metavar="FILE", help="The private key, if reports are encrypted.")
@click.option("--epsilon", type=float, help="Another ε than the plan's, above 0 and up to 64.")
@click.option(
    "--filtering-ids", metavar="N,N", default="0", show_default=True, help="Contributions with these ids count."
)
@click.option(
    "--ledger", "ledger_file", metavar="FILE", help=f"What was queried.  [default: {LEDGER} beside the output]"
)
@click.option("--debug", is_flag=True, help="Also write sums and noise side by side, NOT protected.")
@click.option("--no-noise", is_flag=True, help="Exact sums, which are NOT private.")
@click.option("--seed", type=click.IntRange(0), help="The same noise each time, which is not for release.")
@click.option("--processes", type=click.IntRange(1), help="That decrypt.  [default: one for each processor]")
@click.option("-q", "--quiet", is_flag=True, help="No progress and no words, except on what is not private.")
def aggregate(
    *,
    plan: str,
    reports: tuple[str, ...],
    domain: tuple[str, ...],
    output: str,
    key_file: str | None,
    epsilon: float | None,
    filtering_ids: str,
    ledger_file: str | None,
    debug: bool,
    no_noise: bool,
    seed: int | None,
    processes: int | None,
    quiet: bool,
) -> None:
    import numpy as np

    from attributary.ara.service import aggregation, ledger
    from attributary.ara.wire import avro
    from attributary.ara.wire.private_key import read_private_key
    from attributary.cli.progress import stages
    from attributary.errors import InputError
    from attributary.noise import Entropy
    from attributary.plan import Plan
    from attributary.tables.not_private import NO_NOISE, SEEDED

    asks = Plan.load(plan).spec
    epsilon = asks.epsilon if epsilon is None else epsilon
    if not 0 < epsilon <= 64:
        raise InputError(f"the epsilon of a summary report is above 0 and up to 64; got {epsilon:g}")
    if asks.noise != "api":
        raise InputError(f'{plan} is for noise on whole counts; reports need a plan with noise = "api"')
    if no_noise and seed is not None:
        raise InputError("--seed is for noise, and --no-noise is without; give one of them")
    _check_output(output)
    ids = _ids(filtering_ids)
    key = None if key_file is None else read_private_key(key_file)
    book = ledger_file or os.path.join(os.path.dirname(output), LEDGER)
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
            )
        except ValueError as error:
            raise InputError(str(error)) from error
        if not sums.tally.used:
            raise InputError(f"no report can be used, of {sums.tally.reports}{_first(sums)}")
        not_private, query = NO_NOISE if no_noise else "" if seed is None else SEEDED, b""
        rng: Entropy | None = None
        if no_noise:
            noise = np.zeros(len(sums.keys), np.int64)
        elif seed is not None:
            rng = np.random.default_rng(seed)
        else:
            query = ledger.digest(sums.shared, sums.keys, sums.total, epsilon / asks.l1)
            rng = ledger.Stretched(ledger.reserve(book, sums.shared, query))
        if not no_noise:
            stage("drawing noise")
            noise = aggregation.draw(sums, epsilon, asks.l1, rng)
        stage("writing")
        note = not_private or f"noise DLap({epsilon:g}/{asks.l1})"
        if debug:
            avro.write_debug_results(_beside(output), aggregation.debug_results(sums, noise), "NOT PRIVATE: exact sums")
        stated = avro.Stated(None if no_noise else epsilon, None if no_noise else asks.l1, not_private)
        avro.write_results(output, sums.keys, aggregation.noisy(sums.total, noise), note, stated)
        if query:
            ledger.finish(book, query)
    if quiet and (no_noise or seed is not None):
        click.echo(f"{output}: {note}", err=True)
    if debug:
        click.echo(f"{_beside(output)}: NOT PRIVATE: sums and noise side by side", err=True)
    if not quiet:
        _print(sums, output, note, f"{book}: {len(sums.shared)} shared ids spent" if query else "nothing was spent")


def _ids(given: str) -> frozenset[int]:
    from attributary.errors import InputError

    words = [word.strip() for word in given.split(",")]
    if not all(word.isdecimal() and int(word) < 2**64 for word in words):
        raise InputError(f"filtering ids are whole numbers from 0, as in 0,1; got --filtering-ids {given}")
    return frozenset(map(int, words))


def _check_output(path: str) -> None:
    """Refuses early what could not be written."""
    from attributary.errors import InputError

    folder = os.path.dirname(os.path.realpath(path))
    if not path.endswith(".avro"):
        raise InputError(f"a summary report is Avro; end {path} in .avro")
    if os.path.isdir(path) or not os.path.isdir(folder) or not os.access(folder, os.W_OK):
        raise InputError(f"{path} cannot be written; choose a file in a folder that is there with -o")


def _beside(output: str) -> str:
    return output.removesuffix(".avro") + ".debug.avro"


def _first(sums: "Sums") -> str:
    return f"; {sums.faults[0]}" if sums.faults else "; there are none"


def _print(sums: "Sums", output: str, note: str, spent: str) -> None:
    from attributary.cli.one_line import one_line

    t = sums.tally
    lines = [
        f"{output}: {len(sums.keys):,} keys, {note}",
        f"reports: {t.used:,} of {t.reports:,} used, {t.repeated:,} repeated, {t.faulty:,} that cannot be used",
        *(f"  {fault}" for fault in sums.faults),
        *([f"  … and {t.faulty - len(sums.faults):,} more"] if t.faulty > len(sums.faults) else []),
        f"contributions: {t.summed:,} summed, {t.nulls:,} null, {t.filtered:,} of other filtering ids, "
        f"{t.outside:,} of keys outside the domain",
        spent,
    ]
    for line in lines:
        click.echo(one_line(line), err=True)
