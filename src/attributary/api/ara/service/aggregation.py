"""Aggregation: a batch of reports becomes a sum for each key of the domain, and the sums get their noise."""

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from attributary.api.ara.service import batch
from attributary.api.ara.service.index import Index, distinct
from attributary.api.ara.wire.avro import DebugResults
from attributary.api.ara.wire.fault import Category
from attributary.api.ara.wire.shared_info import Origin, shared_id
from attributary.errors import InputError
from attributary.noise import Entropy, sample_dlap
from attributary.types import Ints, Keys

MOST = 2**63 - 1
FAULTS_KEPT = 5


@dataclass(frozen=True)
class Tally:
    """What became of the reports and of their contributions."""

    reports: int = 0
    used: int = 0
    repeated: int = 0  # reports whose id had come before
    faulty: int = 0  # reports, or damaged blocks of them
    summed: int = 0  # contributions
    nulls: int = 0
    filtered: int = 0  # of other filtering ids
    outside: int = 0  # of keys that the domain does not have
    categories: Mapping[str, int] = field(default_factory=dict)  # faulty reports by the service's names of why
    oldest: int | None = None  # the second that the oldest report of those used was due


@dataclass(frozen=True, eq=False)
class Sums:
    """A sum for each key of the domain, exact: NOT protected."""

    keys: Keys  # of the domain, each once, in its order
    total: Ints
    in_reports: NDArray[np.bool_]
    outside_keys: Keys  # of the reports alone, if they were asked for
    outside_total: Ints
    tally: Tally
    faults: tuple[str, ...]  # the first few
    shared: tuple[tuple[bytes, int], ...]  # the shared ids that were queried, with their hours
    report_ids: Collection[str] = ()  # of the reports that were used


def add_up(
    given: Sequence[str],
    domain: Keys,
    key: batch.Key | None = None,
    filtering_ids: Collection[int] = (0,),
    processes: int = 1,
    outside: bool = False,
    progress: Callable[[int], None] = lambda reports: None,
    rules: batch.Rules | None = None,
) -> Sums:
    """The sums of the reports in some files, each report once, over the keys of a domain."""
    index = Index.of(domain)
    total, in_reports = np.zeros(len(index.keys), np.int64), np.zeros(len(index.keys), bool)
    beyond = [(np.empty((0, 2), np.uint64), np.empty(0, np.int64))]  # summed up to now, and since
    wanted = np.array(sorted(filtering_ids), np.uint64)
    seen: set[str] = set()
    shared: set[tuple[Origin, int]] = set()
    faults: list[str] = []
    categories: Counter[str] = Counter()
    oldest: int | None = None
    everything = repeated = faulty = summed = nulls = filtered = missed = 0
    for part in batch.parts(given, key, processes, rules):
        keep = batch.once(part, seen)
        fresh = keep[part.columns.report]
        chosen = fresh & np.isin(part.columns.filtering_id, wanted)
        everyone = slice(None) if chosen.all() else chosen  # most often; then nothing is copied
        keys, value = part.columns.keys[everyone], part.columns.value[everyone]
        everything += int(value.sum())
        if everything > MOST:  # more than any one sum, and the first that could go wrong
            raise ValueError(f"the values of a batch sum to {MOST} at most; split the batch")
        place = index.find(keys)
        inside = place >= 0
        there = slice(None) if inside.all() else inside
        np.add.at(total, place[there], value[there])
        in_reports[place[there]] = True
        if outside and not inside.all():
            beyond.append((keys[~inside], value[~inside]))
            if sum(len(values) for _, values in beyond[1:]) > len(beyond[0][1]):  # so that in all, it costs little
                beyond = [_summed(beyond)]
        shared |= part.shared
        faults += part.faults[: FAULTS_KEPT - len(faults)]
        usable = sum(report_id is not None for report_id in part.report_ids)
        repeated, faulty = repeated + usable - int(keep.sum()), faulty + part.categories.total()
        summed, missed = summed + int(inside.sum()), missed + int((~inside).sum())
        nulls, filtered = nulls + int(part.columns.nulls[keep].sum()), filtered + int((fresh & ~chosen).sum())
        categories += part.categories
        if keep.any():
            first = int(part.due[keep].min())
            oldest = first if oldest is None else min(oldest, first)
        progress(len(seen) + repeated + faulty)
    counts = (len(seen) + repeated + faulty, len(seen), repeated, faulty, summed, nulls, filtered, missed)
    tally = Tally(*counts, dict(categories.most_common()), oldest)
    ids = sorted((shared_id(origin, hour, k), hour) for origin, hour in shared for k in sorted(filtering_ids))
    return Sums(index.keys, total, in_reports, *_summed(beyond), tally, tuple(faults), tuple(ids), seen)


def _summed(parts: list[tuple[Keys, Ints]]) -> tuple[Keys, Ints]:
    """Values by key, each key once."""
    keys, group = distinct(np.concatenate([keys for keys, _ in parts]))
    total = np.zeros(len(keys), np.int64)
    np.add.at(total, group, np.concatenate([values for _, values in parts]))
    return keys, total


def check(sums: Sums, domain: str, most_errors: float = 0.1) -> None:
    """Refuses a batch that no budget should be spent on: of no use, with too many errors, or of another domain.

    Reports that are not in debug mode are left out of a debug run, but are no errors.
    """
    tally = sums.tally
    errors = tally.faulty - tally.categories.get(Category.DEBUG_NOT_ENABLED, 0)
    why = ", ".join(f"{number:,} {name}" for name, number in tally.categories.items())
    why += f"; the first: {sums.faults[0]}" if sums.faults else ""
    if not tally.used:
        raise InputError(f"no report can be used, of {tally.reports:,}; {why or 'there are none'}")
    if not errors <= most_errors * tally.reports:
        raise InputError(
            f"{errors:,} of {tally.reports:,} reports cannot be used, and at most {100 * most_errors:g} % may be "
            f"(--max-errors); nothing was spent: {why}"
        )
    if tally.outside and not tally.summed:
        raise InputError(
            f"no key of any report is in the domain: {tally.outside:,} contributions have other keys than the "
            f"{len(sums.keys):,} of {domain}; nothing was spent: give the domain that belongs to these reports"
        )


def draw(sums: Sums, epsilon: float, l1: int, rng: Entropy | None = None) -> Ints:
    """Exact DLap(ε/L1) noise for every key of the domain, whether or not a report has it."""
    return sample_dlap(epsilon / l1, len(sums.keys), rng)


def noisy(total: Ints, noise: Ints) -> Ints:
    """The sums with their noise; refuses what 64 bits cannot hold."""
    found = total + noise
    if ((noise > 0) != (found > total))[noise != 0].any():
        raise ValueError("a noisy sum does not fit 64 bits")
    return found


def debug_results(sums: Sums, noise: Ints) -> DebugResults:
    """Sums and noise side by side, for the keys of the domain and for those of the reports alone."""
    n, m = len(sums.keys), len(sums.outside_keys)
    return DebugResults(
        np.concatenate([sums.keys, sums.outside_keys]),
        np.concatenate([sums.total, sums.outside_total]),
        np.concatenate([noise, np.zeros(m, np.int64)]),
        np.arange(n + m) < n,
        np.concatenate([sums.in_reports, np.ones(m, bool)]),
    )
