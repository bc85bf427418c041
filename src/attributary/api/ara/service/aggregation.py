"""Aggregation: reports become a summary report, once: a local aggregation service.

`aggregate` keeps the order that keeps the budget: it looks for an earlier answer, adds up, reserves in the ledger,
draws noise, writes the answer and finishes in the ledger. So a process may die anywhere: no budget is lost, and no
second answer is bought.
"""

import hashlib
import json
import os
import secrets
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from attributary.api.ara.keys.key_layout import layout
from attributary.api.ara.service import batch
from attributary.api.ara.service import ledger as ledgers
from attributary.api.ara.service.batch import FAULTS_KEPT, ReportIds, Rules, SpentHours
from attributary.api.ara.service.summary_report import Index, distinct, other_keys, write_summary
from attributary.api.ara.wire import avro
from attributary.api.ara.wire.avro import DebugResults, StatedNoise
from attributary.api.ara.wire.encryption import read_private_keys
from attributary.api.ara.wire.shared_info import Origin, shared_id
from attributary.api.attribution_api import Aggregation, Tally
from attributary.errors import InputError, PrivacyRefusal, TryAgain
from attributary.noise import Entropy, sample_dlap
from attributary.plan import Plan
from attributary.plan.file import refuse_other_plan
from attributary.spec.terms import terms_of
from attributary.tables.table_columns import NO_NOISE, SEEDED, together
from attributary.types import Ints, Keys
from attributary.whole_files import save

MOST = 2**63 - 1
NOTHING = np.empty(0, np.int64)
ENDINGS = (".avro", ".json")
DEBUG = "NOT PRIVATE: a debug run, which spends nothing and may be repeated; not for release"


def aggregate(
    plan: Plan | None,
    reports: str | Sequence[str],
    domain: str | Sequence[str] | Keys,
    ledger: str | None = None,
    *,
    output: str,
    epsilon: float | None = None,
    l1: int | None = None,
    private_keys: str | Sequence[str] = (),
    filtering_ids: Collection[int] = (0,),
    most_errors: float = 0.1,
    errors_file: str | None = None,
    reporting_site: str = "",
    since: int = 0,
    skip_spent: bool = False,
    debug: bool = False,
    no_noise: bool = False,
    seed: int | None = None,
    processes: int | None = None,
    progress: Callable[[str], None] = lambda words: None,
    now: float | None = None,
) -> Aggregation:
    """The noisy sums of reports over the keys of a domain, written to `output`; each report is aggregated once.

    `reports` are files, patterns or folders: Avro as the aggregation service reads it, or JSON as browsers send it.
    `domain` is a file, several, or the keys themselves. Every key gets exact noise DLap(ε/L1), with the plan's ε and L1
    unless `epsilon` says otherwise; without a plan, give `epsilon` and `l1`. What was queried is remembered in the
    ledger, which is the user's unless `ledger` names a file; a second query of the same reports is refused.

    A query that was answered is known by its inputs: nothing is decrypted then, and a lost `output` is restored. With
    `skip_spent`, reports of hours that were spent on another query, as late ones are, are left out and counted.

    `private_keys` are files with the keys of encrypted reports. Reports of one `reporting_site` count (by default the
    site of most of them) that were due `since` a second. If more than a share `most_errors` cannot be used,
    nothing is spent or written; `errors_file` gets the counts of errors as JSON. `debug` (only reports in debug mode
    count), `no_noise` and `seed` are for tests: they spend nothing, and their output says that it is not private.
    """
    when = time.time() if now is None else now
    epsilon, l1 = _rate(plan, epsilon, l1)
    _check_files(output, errors_file)
    if no_noise and seed is not None:
        raise InputError("`seed` is for noise, and `no_noise` leaves it out; give one of them")
    named = [private_keys] if isinstance(private_keys, str) else private_keys
    secret_keys = read_private_keys(named) if named else None
    not_private = together(NO_NOISE if no_noise else "", "" if seed is None else SEEDED, DEBUG if debug else "")
    book = None if not_private else _ledger(ledger)
    if skip_spent and book is None:
        raise InputError("`skip_spent` goes by the ledger, which such a run does not use; leave it out")
    progress("reading the domain")
    keys, plans = _domain(domain, plan)
    paths = avro.named_files([reports] if isinstance(reports, str) else reports, "reports")
    noise_words = not_private or f"noise DLap({epsilon:g}/{l1})"
    inputs: bytes | None = None
    if book is not None:
        progress("looking for an earlier answer")
        options = (epsilon, l1, sorted(filtering_ids), reporting_site, since, skip_spent)
        inputs = _inputs(paths, keys, secret_keys, options)
        receipt = ledgers.answered(book, inputs, when)
        if receipt is not None and (errors_file is None or os.path.exists(errors_file)):
            restored = ledgers.restore_answer(book, receipt, output)
            about = (NOTHING, noise_words, "", Tally(), (), 0, book)
            return Aggregation(output, Index.of(keys).keys, *about, answered=receipt.when, restored=restored)
    spent = SpentHours(book, tuple(sorted(filtering_ids)), secrets.token_hex(8)) if skip_spent and book else None
    rules = Rules(reporting_site, debug, since, spent)

    def tell(number: int) -> None:
        progress(f"adding up, {number:,} reports")

    try:
        cores = processes or os.cpu_count() or 1
        sums = add_up(paths, keys, secret_keys, filtering_ids, cores, debug, tell, rules)
    except BrokenProcessPool as error:
        raise TryAgain("a process that reads reports was ended, as where memory is short; nothing was spent") from error
    except ValueError as error:
        raise InputError(str(error)) from error
    if errors_file is not None:
        _write_errors(errors_file, sums)
    check(sums, most_errors)
    debug_output = beside(output) if debug else None
    new = book is not None and not os.path.exists(book)
    tally = sums.tally if not_private else replace(sums.tally, summed=None, nulls=None, filtered=None, outside=None)

    def result(noisy_sums: Ints, answered: str = "", restored: bool = False) -> Aggregation:
        about = (noise_words, not_private, tally, sums.faults, len(sums.shared), book, new, debug_output)
        return Aggregation(output, sums.keys, noisy_sums, *about, answered, restored)

    rng: Entropy | None = None if seed is None else np.random.default_rng(seed)
    if book is not None:
        query = ledgers.query_of(sums.shared, sums.keys, sums.total, epsilon / l1, sums.report_ids)
        secret = ledgers.reserve(book, sums.shared, query, when)
        if isinstance(secret, ledgers.Receipt):
            return result(NOTHING, secret.when, ledgers.restore_answer(book, secret, output))
        rng = ledgers.Stretched(secret)
    progress("drawing noise")
    noise = np.zeros(len(sums.keys), np.int64) if no_noise else draw(sums, epsilon, l1, rng)
    progress("writing")
    if debug_output is not None:
        avro.write_debug_results(debug_output, debug_results(sums, noise), "NOT PRIVATE: exact sums")
    stated = StatedNoise(None if no_noise else epsilon, None if no_noise else l1, not_private, plans)
    noisy_sums = noisy(sums.total, noise)
    write_summary(output, sums.keys, noisy_sums, noise_words, stated)
    if book is not None:
        receipt = ledgers.receipt_of(output, when)
        ledgers.keep_copy(book, receipt)
        ledgers.finish(book, query, receipt, inputs)
    return result(noisy_sums)


def _inputs(paths: Sequence[str], keys: Keys, secret_keys: Mapping[str, bytes] | None, options: object) -> bytes:
    """A digest of all that an answer is made from: what is in the files in any order, domain, keys and options."""
    whole = hashlib.sha256(repr((options, keys.shape, sorted((secret_keys or {}).items()))).encode())
    whole.update(np.ascontiguousarray(keys, "<u8").data)
    contents = []
    for path in paths:
        with open(path, "rb") as file:
            contents.append(hashlib.file_digest(file, "sha256").digest())
    whole.update(b"".join(sorted(contents)))
    return whole.digest()


def beside(output: str) -> str:
    """The file of exact sums and noise that a debug run writes beside its summary report."""
    return os.path.splitext(output)[0] + ".debug.avro"


def _rate(plan: Plan | None, epsilon: float | None, l1: int | None) -> tuple[float, int]:
    """ε and L1 of the noise: the plan's, or those that are given."""
    if plan is None and (epsilon is None or l1 is None):
        raise InputError("`l1` is for reports without a plan, and goes with `epsilon`; give both, or a plan")
    ara = terms_of({"api": {"kind": "ara"}})
    used = plan.spec.epsilon if epsilon is None and plan is not None else epsilon or 0.0
    limit = plan.spec.l1 if l1 is None and plan is not None else l1 or 0
    if not 0 < used <= ara.largest_epsilon:
        raise InputError(f"the epsilon of a summary report is above 0 and up to {ara.largest_epsilon:g}; got {used:g}")
    return used, limit


def _check_files(output: str, errors: str | None) -> None:
    """Refuses early what could not be written."""
    if not output.endswith(ENDINGS):
        raise InputError(f"a summary report is Avro or JSON; end {output} in .avro or .json")
    for file in [output] if errors is None else [output, errors]:
        folder = os.path.dirname(os.path.realpath(file))
        special = os.path.exists(file) and not os.path.isfile(file)
        if special or not os.path.isdir(folder) or not os.access(folder, os.W_OK):
            option = "`output`" if file == output else "`errors_file`"
            raise InputError(f"{file} cannot be written; choose a file in a folder that is there with {option}")
    if errors is not None and os.path.realpath(errors) in map(os.path.realpath, (output, beside(output))):
        raise InputError(f"`output` and `errors_file` both write to {errors}; give each a file of its own")


def _ledger(named: str | None) -> str:
    """The ledger to use: the one that is named, or the user's."""
    if named is None:
        return ledgers.users_ledger()
    ledgers.file_of(named)  # refuses what is not a file
    return named


def _domain(domain: str | Sequence[str] | Keys, plan: Plan | None) -> tuple[Keys, str]:
    """The keys to sum up, and the fingerprints of their plans; refuses those of another plan.

    Nothing else tells a wrong domain before it is spent: whether reports have its keys is what the noise protects.
    """
    if isinstance(domain, np.ndarray):
        keys, name, stated = domain, "the domain", {"the domain": ""}
    else:
        keys, name = avro.read_domain(domain), domain if isinstance(domain, str) else domain[0]
        stated = avro.plans_of_domain(domain)
    if not len(keys):
        raise InputError(f"{name} has no keys; a summary report needs some to sum up")
    if plan is None:
        return keys, "" if "" in stated.values() else ",".join(dict.fromkeys(stated.values()))
    for path, fingerprint in stated.items():
        refuse_other_plan(path, fingerprint, plan.fingerprint, "the plan")
    layouts = [layout(each) for each in plan.breakdowns if each.keys is not None]
    if layouts and not np.any([each.of_plan(keys) for each in layouts], axis=0).all():
        raise other_keys(name, keys, layouts[0], "the plan")
    return keys, plan.fingerprint


def _write_errors(path: str, sums: "KeySums") -> None:
    """The counts of errors as the aggregation service tells them, and the first few in words."""
    tally = sums.tally
    counts = dict(tally.categories) | ({"NUM_REPORTS_WITH_ERRORS": tally.faulty} if tally.faulty else {})
    content = {
        "reports": tally.reports,
        "error_counts": [{"category": str(name), "count": number} for name, number in counts.items()],
        "error_messages": list(sums.faults),
    }
    save(json.dumps(content, indent=2) + "\n", path)


@dataclass(frozen=True, eq=False)
class KeySums:
    """A sum for each key of the domain, exact: NOT protected."""

    keys: Keys  # of the domain, each once, in its order
    total: Ints
    in_reports: NDArray[np.bool_]
    outside_keys: Keys  # of the reports alone, if they were asked for
    outside_total: Ints
    tally: Tally
    faults: tuple[str, ...]  # the first few
    shared: tuple[tuple[bytes, int], ...]  # the shared ids that were queried, with their hours
    report_ids: Iterable[str] = ()  # of the reports that were used, in order


def add_up(
    paths: Sequence[str],
    domain: Keys,
    key: batch.Key | None = None,
    filtering_ids: Collection[int] = (0,),
    processes: int = 1,
    outside: bool = False,
    progress: Callable[[int], None] = lambda reports: None,
    rules: batch.Rules | None = None,
) -> KeySums:
    """The sums of the reports in some files, each report once, over the keys of a domain."""
    index = Index.of(domain)
    total, in_reports = np.zeros(len(index.keys), np.int64), np.zeros(len(index.keys), bool)
    beyond = [(np.empty((0, 2), np.uint64), np.empty(0, np.int64))]  # summed up to now, and since
    wanted = np.array(sorted(filtering_ids), np.uint64)
    seen = ReportIds()
    shared: set[tuple[Origin, int]] = set()
    faults: list[str] = []
    categories: Counter[str] = Counter()
    tally = Counter(summed=0, nulls=0, filtered=0, outside=0)
    oldest, everything = MOST, 0
    for part in batch.parts(paths, key, processes, rules):
        keep = seen.add(part.report_ids)
        fresh = keep[part.columns.report]
        chosen = fresh & np.isin(part.columns.filtering_id, wanted)
        keys, value = part.columns.keys[chosen], part.columns.value[chosen]
        everything += int(value.sum())
        if everything > MOST:  # more than any one sum, and the first that could go wrong
            raise ValueError(f"the values of a batch sum to {MOST} at most; split the batch")
        place = index.find(keys)
        inside = place >= 0
        np.add.at(total, place[inside], value[inside])
        in_reports[place[inside]] = True
        if outside and not inside.all():
            beyond.append((keys[~inside], value[~inside]))
            if sum(len(values) for _, values in beyond[1:]) > len(beyond[0][1]):  # so that in all, it costs little
                beyond = [_summed(beyond)]
        shared |= part.shared
        faults += part.faults[: FAULTS_KEPT - len(faults)]
        usable = sum(report_id is not None for report_id in part.report_ids)
        reports = {"repeated": usable - int(keep.sum()), "faulty": part.categories.total(), "skipped": part.skipped}
        tally.update(reports, used=int(keep.sum()), reports=usable + part.categories.total() + part.skipped)
        tally.update(nulls=int(part.columns.nulls[keep].sum()), filtered=int((fresh & ~chosen).sum()))
        tally.update(summed=int(inside.sum()), outside=int((~inside).sum()))
        categories += part.categories
        oldest = int(part.due[keep].min(initial=oldest))
        progress(tally["reports"])
    ids = sorted((shared_id(origin, hour, k), hour) for origin, hour in shared for k in sorted(filtering_ids))
    counts = Tally(**tally, categories=dict(categories.most_common()), oldest=oldest if len(seen) else None)
    return KeySums(index.keys, total, in_reports, *_summed(beyond), counts, tuple(faults), tuple(ids), seen)


def _summed(parts: list[tuple[Keys, Ints]]) -> tuple[Keys, Ints]:
    """Values by key, each key once."""
    keys, group = distinct(np.concatenate([keys for keys, _ in parts]))
    total = np.zeros(len(keys), np.int64)
    np.add.at(total, group, np.concatenate([values for _, values in parts]))
    return keys, total


def check(sums: KeySums, most_errors: float = 0.1) -> None:
    """Refuses a batch that no budget should be spent on: of no use, or with too many errors.

    What reports contribute decides nothing here: refusals are free, and could be asked for until all of it is known.
    Reports that are not in debug mode are left out of a debug run, but are no errors.
    """
    tally = sums.tally
    errors = tally.faulty - tally.categories.get("DEBUG_NOT_ENABLED", 0)
    why = ", ".join(f"{number:,} {name}" for name, number in tally.categories.items())
    why += f"; the first: {sums.faults[0]}" if sums.faults else ""
    if tally.skipped and not tally.used:
        raise PrivacyRefusal(f"all {tally.skipped:,} reports that can be used are of hours that were queried before")
    if not tally.used:
        raise InputError(f"no report can be used, of {tally.reports:,}; {why or 'there are none'}")
    if not errors <= most_errors * tally.reports:
        raise InputError(
            f"{errors:,} of {tally.reports:,} reports cannot be used, and at most {100 * most_errors:g} % may be "
            f"(`most_errors`); nothing was spent: {why}"
        )


def draw(sums: KeySums, epsilon: float, l1: int, rng: Entropy | None = None) -> Ints:
    """Exact DLap(ε/L1) noise for every key of the domain, whether or not a report has it."""
    return sample_dlap(epsilon / l1, len(sums.keys), rng)


def noisy(total: Ints, noise: Ints) -> Ints:
    """The sums with their noise; refuses what 64 bits cannot hold."""
    answer = total + noise
    if ((noise > 0) != (answer > total))[noise != 0].any():
        raise ValueError("a noisy sum does not fit 64 bits")
    return answer


def debug_results(sums: KeySums, noise: Ints) -> DebugResults:
    """Sums and noise side by side, for the keys of the domain and for those of the reports alone."""
    n, m = len(sums.keys), len(sums.outside_keys)
    return DebugResults(
        np.concatenate([sums.keys, sums.outside_keys]),
        np.concatenate([sums.total, sums.outside_total]),
        np.concatenate([noise, np.zeros(m, np.int64)]),
        np.arange(n + m) < n,
        np.concatenate([sums.in_reports, np.ones(m, bool)]),
    )
