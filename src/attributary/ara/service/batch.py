"""Batch: many reports opened and laid out as arrays, a share at a time, by several processes if asked.

What is wrong with a report costs that report alone: its part says what and where.
"""

import multiprocessing
import signal
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from dataclasses import dataclass
from itertools import chain, islice

import numpy as np
from numpy.typing import NDArray

from attributary.ara.wire import encryption
from attributary.ara.wire.columns import Columns, columns
from attributary.ara.wire.files import files
from attributary.ara.wire.given import SHARE, Share, reports, shares
from attributary.ara.wire.shared_info import Origin, identity

MANY = 4 * SHARE  # reports; starting processes takes as long as decrypting so many


@dataclass(frozen=True, eq=False)
class Part:
    """Some reports, opened: what they contribute, and who they are."""

    columns: Columns  # its places count the reports of this part
    report_ids: list[str | None]  # None for one that could not be used
    shared: set[tuple[Origin, int]]  # origin and hour
    faults: list[str]


def parts(given: Sequence[str], key: bytes | None = None, processes: int = 1) -> Iterator[Part]:
    """The reports of all files, opened with a private key; without one, what they hold in the clear."""
    coming = shares(files(given, "reports"))
    first: list[Share] = []
    if processes > 1 and key is not None:
        while sum(share.size for share in first) < MANY and (share := next(coming, None)) is not None:
            first.append(share)
    if sum(share.size for share in first) < MANY:
        yield from (opened(share, key) for share in chain(first, coming))
        return
    # Fresh processes, not forked ones: a fork would share the locks of whatever threads there are.
    fresh, alone = multiprocessing.get_context("spawn"), (signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for us to handle
    with ProcessPoolExecutor(processes, fresh, signal.signal, alone) as pool:
        waiting: deque[Future[Part]] = deque(pool.submit(opened, share, key) for share in first)
        while waiting:
            for share in islice(coming, max(2 * processes + 1 - len(waiting), 0)):  # so that few wait in memory
                waiting.append(pool.submit(opened, share, key))
            yield waiting.popleft().result()


def opened(share: Share, key: bytes | None) -> Part:
    """Reports decrypted and decoded; every fault with the report's place."""
    payloads: list[bytes] = []
    ids: list[str | None] = []
    shared: list[tuple[Origin, int]] = []
    places: list[tuple[int, str, int]] = []  # in this share, and in words
    faults: dict[tuple[int, str, int], str] = {}
    decrypt = None if key is None else encryption.opener(key)
    for order, (where, number, text, payload, clear, fault) in enumerate(reports(share)):
        try:
            if fault:
                raise ValueError(fault)
            report_id, version, origin, hour = identity(text)
            if decrypt is not None:
                clear = decrypt(payload, text, version)
        except ValueError as error:
            faults[order, where, number] = str(error)
            continue
        payloads.append(payload if clear is None else clear)
        ids.append(report_id)
        shared.append((origin, hour))
        places.append((order, where, number))
    found, bad = columns(payloads)
    hint = "" if key else " (if the reports are encrypted, give their key)"
    for i, why in bad.items():
        faults[places[i]] = why + hint
        ids[i] = None
    words = [f"{where} {number}: {why}" for (_, where, number), why in sorted(faults.items())]
    return Part(found, ids, {pair for i, pair in enumerate(shared) if i not in bad}, words)


def once(part: Part, seen: set[str]) -> NDArray[np.bool_]:
    """Which reports of a part can be used and were not seen before; adds these to `seen`."""
    ids = part.report_ids
    fresh = {report_id for report_id in ids if report_id is not None}
    if len(fresh) == len(ids) and seen.isdisjoint(fresh):
        seen |= fresh
        return np.ones(len(ids), bool)
    keep = np.zeros(len(ids), bool)
    for i, report_id in enumerate(ids):
        if report_id is not None and report_id not in seen:
            seen.add(report_id)
            keep[i] = True
    return keep
