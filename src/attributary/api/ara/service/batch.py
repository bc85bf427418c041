"""batch: many reports opened and laid out as arrays, a share at a time, by several processes if asked.

What is wrong with a report costs that report alone: its part says what and where.
"""

import multiprocessing
import os
import signal
from collections import Counter, deque
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import chain, islice
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from attributary.api.ara.service.ledger import is_spent
from attributary.api.ara.wire import encryption
from attributary.api.ara.wire.avro import named_files
from attributary.api.ara.wire.encryption import ANY
from attributary.api.ara.wire.payload import Columns, columns
from attributary.api.ara.wire.report_files import SHARE, Share, reports, reports_of, shares
from attributary.api.ara.wire.shared_info import HOUR, Category, Fault, Origin, identity, shared_id
from attributary.api.sites import parse_url
from attributary.errors import brief

MANY = 4 * SHARE  # reports; starting processes takes as long as decrypting so many
IN_CLEAR = 25 * SHARE  # reports in the clear that are decoded before processes start
FAULTS_KEPT = 5  # of a part, in words; all are counted
Key = bytes | Mapping[str, bytes]  # one private key, or several by their ids


class SpentHours(NamedTuple):
    """Which reports are left out: those whose shared ids a ledger knows as spent."""

    ledger: str
    filtering_ids: tuple[int, ...]
    batch: str  # a name of its own for each batch, since the ledger changes in between


@dataclass(frozen=True)
class Rules:
    """What a report must be to count, besides being whole."""

    reporting_site: str = ""  # the site of its reporting origin, as in https://adtech.example; "": that of most reports
    debug: bool = False  # only reports in debug mode count
    since: int = 0  # the second from which on it was due
    spent: SpentHours | None = None


@dataclass(frozen=True, eq=False)
class OpenReports:
    """Some reports, opened: what they contribute, and who they are."""

    columns: Columns  # its places count the reports of this part
    report_ids: list[str | None]  # None for one that could not be used
    due: NDArray[np.int64]  # the second that each was scheduled for
    shared: set[tuple[Origin, int]]  # origin and hour
    faults: list[str]  # the first few
    categories: Counter[str]  # how many reports cannot be used, by the aggregation service's names of why
    skipped: int = 0  # reports of spent hours


def parts(
    names: Sequence[str], key: Key | None = None, processes: int = 1, rules: Rules | None = None
) -> Iterator[OpenReports]:
    """The reports of all files, opened with private keys; without one, what they hold in the clear."""
    paths, rules = named_files(names, "reports"), rules or Rules()
    rules = replace(rules, reporting_site=_site(rules.reporting_site) if rules.reporting_site else main_site(paths))
    coming = shares(paths)
    here = None if processes == 1 else 0 if key is not None else IN_CLEAR // SHARE
    yield from (opened(share, key, rules) for share in islice(coming, here))
    first = list(islice(coming, MANY // SHARE))
    if sum(share.size for share in first) < MANY:
        yield from (opened(share, key, rules) for share in chain(first, coming))
        return
    # Fresh processes, not forked ones: a fork would share the locks of whatever threads there are.
    fresh, alone = multiprocessing.get_context("spawn"), (signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for us to handle
    with ProcessPoolExecutor(processes, fresh, signal.signal, alone) as pool:
        waiting: deque[Future[OpenReports]] = deque(pool.submit(opened, share, key, rules) for share in first)
        while waiting:
            for share in islice(coming, max(2 * processes + 1 - len(waiting), 0)):  # so that few wait in memory
                waiting.append(pool.submit(opened, share, key, rules))
            yield waiting.popleft().result()


def opened(share: Share, key: Key | None, rules: Rules) -> OpenReports:
    """Reports decrypted and decoded; every fault with the report's place."""
    whole: list[tuple[bytes, str, int, Origin]] = []  # the payload, the id, when it was due, and from where
    places: list[tuple[int, str, int]] = []  # of these, in this share and in words
    faults: list[tuple[int, str, int, str]] = []
    categories: Counter[str] = Counter()
    skipped = 0
    keys = {ANY: key} if isinstance(key, bytes) else key
    for order, (where, number, text, payload, clear, key_id, unread) in enumerate(reports(share)):
        try:
            if unread:
                raise Fault(unread)
            report_id, origin, time, debug = identity(text)
            _check(origin[2], time, debug, rules)
            if rules.spent is not None and _is_spent(rules.spent, origin, time // HOUR * HOUR):
                skipped += 1
                continue
            if keys is not None:
                clear = _decrypted(payload, text, origin[1], key_id, keys)
        except Fault as fault:
            categories[fault.category] += 1
            if len(faults) < FAULTS_KEPT:
                faults.append((order, where, number, str(fault)))
            continue
        whole.append((payload if clear is None else clear, report_id, time, origin))
        places.append((order, where, number))
    pairs, bad = columns([payload for payload, _, _, _ in whole])
    hint = "" if key else " (if the reports are encrypted, give their key)"
    categories.update(fault.category for fault in bad.values())
    faults += [(*places[i], f"{bad[i]}{hint}") for i in sorted(bad)[:FAULTS_KEPT]]
    words = [f"{where} {number}: {why}" for _, where, number, why in sorted(faults)[:FAULTS_KEPT]]
    ids = [None if i in bad else report_id for i, (_, report_id, _, _) in enumerate(whole)]
    due = np.array([time for _, _, time, _ in whole], np.int64)
    shared = {(origin, time // HOUR * HOUR) for i, (_, _, time, origin) in enumerate(whole) if i not in bad}
    return OpenReports(pairs, ids, due, shared, words, categories, skipped)


@lru_cache(2**16)  # the same few hours come again and again
def _is_spent(spent: SpentHours, origin: Origin, hour: int) -> bool:
    return is_spent(spent.ledger, [(shared_id(origin, hour, number), hour) for number in spent.filtering_ids])


def main_site(paths: Sequence[str]) -> str:
    """The reporting site that most reports have, judging by the first of each file, and by a hundred files at most."""
    weight: Counter[str] = Counter()
    for path in paths[:: -(-len(paths) // 100)]:
        sites: Counter[str] = Counter()
        for _, _, text, *_ in islice(reports_of(path), 100):
            with suppress(Fault):
                sites[_site(identity(text)[1][2])] += 1
        for name, number in sites.items():
            weight[name] += os.path.getsize(path) * number // sites.total() + 1
    return max(weight, key=weight.__getitem__, default="")


@lru_cache(1024)
def _site(origin: str) -> str:
    """The site of an origin; of one that is none, itself."""
    url = parse_url(origin if "://" in origin else f"https://{origin}")
    return origin if url is None else url.site


def _check(reporting_origin: str, due: int, debug: bool, rules: Rules) -> None:
    if rules.reporting_site and _site(reporting_origin) != rules.reporting_site:
        raise Fault(
            f"its reporting_origin is not of the site {brief(rules.reporting_site)} (`reporting_site`); "
            f"got {brief(reporting_origin)}",
            Category.REPORTING_SITE_MISMATCH,
        )
    if rules.debug and not debug:
        raise Fault("it is not in debug mode", Category.DEBUG_NOT_ENABLED)
    if due < rules.since:
        raise Fault("it was due too long ago (`since`)", Category.ORIGINAL_REPORT_TIME_TOO_OLD)


def _decrypted(payload: bytes, text: str, version: str, key_id: bytes, keys: Mapping[str, bytes]) -> bytes:
    name = key_id.decode(errors="replace")
    key = keys.get(name, keys.get(ANY))
    if key is None:
        raise Fault(f"there is no private key with its key_id {brief(name)}", Category.DECRYPTION_KEY_NOT_FOUND)
    return encryption.opener(key)(payload, text, version)
