"""batch: the reports of some files, opened and laid out as arrays, a share at a time, by several processes if asked.

A share of an Avro file is only where its blocks are: whoever opens it reads them, so that no report is sent between
processes. JSON is read a report at a time, so that no file need fit into memory. What is wrong with a report costs that
report alone: its part says what and where.
"""

import json
import multiprocessing
import os
import re
import signal
from codecs import BOM_UTF8, getincrementaldecoder
from collections import Counter, deque
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import chain, islice
from typing import BinaryIO, NamedTuple

import numpy as np
from numpy.typing import NDArray

from attributary.api.ara.service.ledger import is_spent
from attributary.api.ara.wire import avro, encryption
from attributary.api.ara.wire.aggregatable_report import from_json, from_members
from attributary.api.ara.wire.avro import is_avro, named_files
from attributary.api.ara.wire.avro_blocks import Damaged
from attributary.api.ara.wire.encryption import ANY
from attributary.api.ara.wire.payload import Columns, columns
from attributary.api.ara.wire.shared_info import HOUR, Fault, Origin, identity, shared_id
from attributary.api.sites import parse_url
from attributary.errors import InputError, brief
from attributary.types import Bools, Record

SHARE = 2000  # reports
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


def opened(share: "Share", key: Key | None, rules: Rules) -> OpenReports:
    """Reports decrypted and decoded; every fault with the report's place."""
    whole: list[tuple[bytes, str, int, Origin]] = []  # the payload, the id, when it was due, and from where
    places: list[tuple[int, str, int]] = []  # of these, in this share and in words
    faults: list[tuple[int, str, int, str]] = []
    categories, skipped = Counter[str](), 0
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
                private = keys.get(key_name := key_id.decode(errors="replace"), keys.get(ANY))
                if private is None:
                    rule = f"there is no private key with its key_id {brief(key_name)}"
                    raise Fault(rule, "DECRYPTION_KEY_NOT_FOUND")
                clear = encryption.opener(private)(payload, text, origin[1])
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
            "REPORTING_SITE_MISMATCH",
        )
    if rules.debug and not debug:
        raise Fault("it is not in debug mode", "DEBUG_NOT_ENABLED")
    if due < rules.since:
        raise Fault("it was due too long ago (`since`)", "ORIGINAL_REPORT_TIME_TOO_OLD")


# Reports as they stand in files.

MOST_IN_SHARE = 2**25  # bytes of them, should they be large
MOST_REPORT = 2**23  # bytes of a report in JSON, which has its payload twice at most, in base64
LINES = (".jsonl", ".ndjson")
CHUNK = 2**16

# A report: where it is, as in "x.avro: report", its number there, its shared info, its payload, as it is and in the
# clear if it has that, and its key id; or what is wrong with it. A plain tuple, since there are many.
Given = tuple[str, int, str, bytes, bytes | None, bytes, str]

Content = Record | str | bytes | None  # the members of a report, its JSON, or nothing if that is too long


class Share(NamedTuple):
    """Some reports: blocks of an Avro file by their places, or the reports themselves."""

    size: int  # how many, as far as the files tell
    path: str = ""
    blocks: tuple[int, ...] = ()
    first: int = 1  # the number of the first report in the blocks
    reports: tuple[Given, ...] = ()


def shares(paths: Sequence[str]) -> Iterator[Share]:
    """All reports of some files: Avro, one JSON object, a JSON list of them, or one on each line."""
    some: list[Given] = []
    room = MOST_IN_SHARE
    for path in paths:
        if is_avro(path):
            yield from _avro_shares(path)
            continue
        for report in _json_reports(path):
            some.append(report)
            room -= len(report[2]) + len(report[3]) + len(report[4] or b"")
            if len(some) == SHARE or room < 0:
                yield Share(len(some), reports=tuple(some))
                some, room = [], MOST_IN_SHARE
    if some:
        yield Share(len(some), reports=tuple(some))


def reports(share: Share) -> Iterator[Given]:
    """The reports of a share, and what is wrong where one is not whole."""
    yield from share.reports
    where, number = f"{share.path}: report", share.first
    for row in avro.rows_or_damage(share.path, share.blocks):
        if isinstance(row, Damaged):
            yield f"{share.path}: what follows report", number - 1, "", b"", None, b"", str(row)
            continue
        try:
            yield where, number, row[2].decode(), row[0], None, row[1], ""
        except UnicodeDecodeError:
            yield where, number, "", b"", None, b"", "shared_info is UTF-8 text"
        number += 1


def reports_of(path: str) -> Iterator[Given]:
    """The reports of one file, read as far as they are asked for."""
    return chain.from_iterable(map(reports, _avro_shares(path))) if is_avro(path) else _json_reports(path)


def _avro_shares(path: str) -> Iterator[Share]:
    blocks: list[int] = []
    first = after = 1
    room = MOST_IN_SHARE
    for at, count, most in avro.report_blocks(path):
        blocks.append(at)
        after, room = after + count, room - most
        if after - first >= SHARE or room < 0:
            yield Share(after - first, path, tuple(blocks), first)
            blocks, first, room = [], after, MOST_IN_SHARE
    if blocks:
        yield Share(after - first, path, tuple(blocks), first)


def _json_reports(path: str) -> Iterator[Given]:
    if os.path.getsize(path) == 0:
        raise InputError(f"{path} is empty; reports are Avro or JSON")
    reports: Iterator[tuple[int, Content]]
    with open(path, "rb") as file:
        start = file.read(1024).removeprefix(BOM_UTF8).lstrip()
        file.seek(0)
        if path.lower().endswith(LINES) or (start[:1] == b"{" and _has_lines(file)):
            reports = _lines(file)
            where = f"{path}: line"
        elif start[:1] == b"{":
            reports = iter([(1, _bounded(file.read(MOST_REPORT + 1)))])
            where = f"{path}: report"
        elif start[:1] == b"[":
            reports = enumerate(_items(file, path), 1)
            where = f"{path}: report"
        else:
            raise InputError(f"{path} is neither Avro nor JSON; give reports as the browser or the service has them")
        for number, text in reports:
            yield _given(where, number, text)


def _has_lines(file: BinaryIO) -> bool:
    """Whether each line is a report of its own: the first is one, or the one after it begins as one does."""
    lines = _lines(file)
    _, first = next(lines)
    try:
        json.loads(first or b"")
    except (ValueError, RecursionError):
        _, second = next(lines, (0, b""))
        return second is None or second.startswith(b"{")
    finally:
        file.seek(0)
    return True


def _lines(file: BinaryIO) -> Iterator[tuple[int, bytes | None]]:
    """The lines that hold something, with their numbers; None for one that is too long."""
    number = 0
    while line := file.readline(MOST_REPORT + 1):
        number += 1
        whole = _bounded(line)
        while len(line) > MOST_REPORT and not line.endswith(b"\n"):
            line = file.readline(MOST_REPORT + 1)
        if whole is None or whole.strip():
            yield number, whole


def _bounded(text: bytes) -> bytes | None:
    return text if len(text) <= MOST_REPORT else None


BLANK = re.compile(r"[ \t\n\r]*")
# Up to the next bracket or comma that is not within a text, or to a text whose end is not there yet.
PLAIN = re.compile(r'(?:[^"\[\]{},]++|"[^"\\]*+(?:\\.[^"\\]*+)*+")*+', re.DOTALL)


def _items(file: BinaryIO, path: str) -> Iterator[Content]:
    """The items of a JSON list; as texts where they are not objects, or None where they are too long.

    What is wrong within an item is told of that item alone: only its quotes, brackets and commas must be whole.
    """
    scan, characters = json.JSONDecoder().raw_decode, getincrementaldecoder("utf-8")("surrogateescape")
    data = characters.decode(file.read(CHUNK))
    at = data.index("[") + 1
    while True:
        begin = BLANK.match(data, at).end()  # type: ignore[union-attr]  # it matches nothing, too
        with suppress(ValueError, RecursionError):  # most items are plain, whole and within the part that was read
            item, end = scan(data, begin) if data.isascii() and data.startswith("{", begin) else (None, begin)
            end = BLANK.match(data, end).end()  # type: ignore[union-attr]
            if item is not None and data.startswith(",", end):
                yield item
                at = end + 1
                continue
        start, depth, long = at, 1, False
        while True:
            at = PLAIN.match(data, at).end()  # type: ignore[union-attr]
            sign = data[at : at + 1]
            if sign in ("", '"'):
                more = file.read(max(CHUNK, len(data) - start))  # a text is looked through again: few times, then
                if not more:
                    raise InputError(f"{path} is not JSON: its list does not end; give whole files")
                long = long or len(data) - start > MOST_REPORT
                if long and sign:  # of a text that goes on, its beginning will do
                    data = '"' + "\\" * ((len(data) - len(data.rstrip("\\"))) % 2)
                    start = at = 0
                start = at if long else start
                data, start, at = data[start:] + characters.decode(more), 0, at - start
                continue
            depth += (sign in "[{") - (sign in "]}")
            if depth == 0 or (depth == 1 and sign == ","):
                break
            at += 1
        text = None if long else data[start:at]
        if text is None or text.strip() or depth:
            yield text
        at += 1
        if not depth:
            break
    if data[at:].strip() or any(part.strip() for part in iter(lambda: file.read(CHUNK), b"")):
        raise InputError(f"{path} is not JSON: there is more after its list; give one list in a file")


def _given(where: str, number: int, content: Content) -> Given:
    try:
        if content is None:
            raise ValueError(f"a report has {MOST_REPORT:,} bytes at most")
        report = from_members(content) if isinstance(content, dict) else from_json(content)
    except ValueError as error:
        return where, number, "", b"", None, b"", str(error)
    key_id = report.key_id.encode()
    return where, number, report.shared_info, report.payload, report.debug_cleartext_payload, key_id, ""


# Which reports were seen, in few bytes each: reports are many more than keys.

FEW = 2**16  # ids that are not yet sorted
PART = 8  # of the sorted ones may wait as many again: a set takes more room, and sorting takes time
BLOCK = 2**14


class ReportIds:
    """UUIDs in small letters, each once: sixteen bytes in a sorted array, and a set of those that came since."""

    def __init__(self) -> None:
        self._sorted = np.empty(0, "S16")
        self._recent: set[bytes] = set()

    def __len__(self) -> int:
        return len(self._sorted) + len(self._recent)

    def __iter__(self) -> Iterator[str]:
        """The ids as text, in order."""
        self._sort()
        for i in range(0, len(self._sorted), BLOCK):
            digits = self._sorted[i : i + BLOCK].tobytes().hex()
            for k in range(0, len(digits), 32):
                one = digits[k : k + 32]
                yield f"{one[:8]}-{one[8:12]}-{one[12:16]}-{one[16:20]}-{one[20:]}"

    def add(self, ids: Sequence[str | None]) -> Bools:
        """Adds some; which of them came for the first time. None is no id, and never does."""
        each = [bytes(16) if one is None else bytes.fromhex(one.replace("-", "")) for one in ids]
        wanted = np.frombuffer(b"".join(each), "S16")
        place = np.searchsorted(self._sorted, wanted)
        new = np.array([one is not None for one in ids], bool)
        near = place < len(self._sorted)
        new[near] &= self._sorted[place[near]] != wanted[near]
        for i in np.flatnonzero(new).tolist():
            new[i] = each[i] not in self._recent
            self._recent.add(each[i])
        if len(self._recent) > max(FEW, len(self._sorted) // PART):
            self._sort()
        return new

    def _sort(self) -> None:
        recent = np.frombuffer(b"".join(self._recent), "S16")
        self._recent.clear()
        self._sorted = np.sort(np.concatenate([self._sorted, np.sort(recent)]), kind="stable")  # which merges two runs
