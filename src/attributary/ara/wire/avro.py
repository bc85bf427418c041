"""Avro: reports, domains and results in the aggregation service's files, each kind with its schema.

Keys are arrays of two 64-bit halves, high and low. A domain is written with all 16 bytes of a key, results without the
leading zero bytes, as the service does; both are read either way, and several files (shards) are read as one.
"""

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from typing import Any, BinaryIO, NamedTuple

import numpy as np
from numpy.typing import NDArray

from attributary.ara.wire import container, schemas
from attributary.ara.wire.container import Damaged, Header
from attributary.ara.wire.encoded import encoded_domain, encoded_results
from attributary.ara.wire.files import files
from attributary.ara.wire.report import Report
from attributary.ara.wire.rows import BYTES, LONG, TAGS, layout, rows
from attributary.ara.wire.scan import MANY, scanned
from attributary.errors import InputError

Keys = NDArray[np.uint64]  # (n, 2): high and low
Ints = NDArray[np.int64]
NOTE = "attributary"  # the name of our words in a file's metadata
REPORTS_IN_BLOCK = 256
REPORT = {"payload": BYTES, "key_id": BYTES, "shared_info": BYTES}


class Results(NamedTuple):
    """A summary report: a sum for each key; the notes are what its files say of themselves."""

    keys: Keys
    metric: Ints
    notes: tuple[str, ...] = ()


class DebugResults(NamedTuple):
    """Sums before noise, the noise, and where each key was found: NOT protected."""

    keys: Keys
    unnoised: Ints
    noise: Ints
    in_domain: NDArray[np.bool_]
    in_reports: NDArray[np.bool_]


def write_domain(path: str, keys: Keys) -> None:
    """Writes the keys to query."""
    container.write(path, schemas.DOMAIN, encoded_domain(keys))


def read_domain(given: str | Sequence[str]) -> Keys:
    """The keys of a domain, in the order of its files; a key may come twice."""
    return _columns(_paths(given, "the domain"), {"bucket": BYTES})[0]


def write_results(path: str, keys: Keys, metric: Ints, note: str = "") -> None:
    """Writes a summary report."""
    container.write(path, schemas.RESULTS, encoded_results(keys, [metric]), {NOTE: note} if note else None)


def read_results(given: str | Sequence[str]) -> Results:
    """The sums of a summary report, in the order of its files."""
    keys, longs, notes = _columns(_paths(given, "the summary report"), {"bucket": BYTES, "metric": LONG})
    return Results(keys, longs[0], notes)


def write_debug_results(path: str, found: DebugResults, note: str = "") -> None:
    """Writes sums and noise side by side, which are NOT protected."""
    tags = found.in_domain.astype(np.int64) + 2 * found.in_reports
    blocks = encoded_results(found.keys, [found.unnoised, found.noise], tags)
    container.write(path, schemas.DEBUG_RESULTS, blocks, {NOTE: note} if note else None)


def read_debug_results(given: str | Sequence[str]) -> DebugResults:
    """Sums and noise side by side, in the order of the files."""
    wanted = {"bucket": BYTES, "unnoised_metric": LONG, "noise": LONG, "annotations": TAGS}
    found: list[list[Any]] = []
    for path in _paths(given, "the debug results"):
        with _opened(path) as (file, header):
            fields = layout(header.schema, wanted)
            for count, data in container.blocks(file, header):
                found.extend(rows(data, count, fields, len(wanted)))
    keys = np.array([_halves(row[0]) for row in found], np.uint64).reshape(-1, 2)
    unnoised, noise = (np.array([row[i] for row in found], np.int64) for i in (1, 2))
    in_domain, in_reports = (np.array([tag in row[3] for row in found], bool) for tag in (0, 1))
    return DebugResults(keys, unnoised, noise, in_domain, in_reports)


def write_reports(path: str, reports: Iterable[Report]) -> None:
    """Writes reports as the service reads them: payload, key id and shared info."""
    container.write(path, schemas.REPORTS, _report_blocks(iter(reports)))


def read_reports(given: str | Sequence[str]) -> Iterator[Report]:
    """The reports of Avro files; a damaged file is an InputError where the damage is."""
    for path in _paths(given, "reports"):
        for row in rows_or_damage(path, [at for at, _ in report_blocks(path)]):
            if isinstance(row, Damaged):
                raise InputError(f"{path}: {row}")
            payload, key_id, shared_info = row
            try:
                yield Report(shared_info.decode(), payload, key_id.decode())
            except UnicodeDecodeError:
                raise InputError(f"{path}: the key_id and shared_info of a report are UTF-8 text") from None


def report_blocks(path: str) -> list[tuple[int, int]]:
    """Where the blocks of a file of reports are, and how many each says it has; 0 where one is damaged."""
    with _opened(path) as (file, header):
        layout(header.schema, REPORT)
        return list(container.places(file, header))


def rows_or_damage(path: str, places: Sequence[int]) -> Iterator[list[bytes] | Damaged]:
    """Payload, key id and shared info of each report in some blocks, and what is wrong where one is damaged."""
    with _opened(path) as (file, header):
        fields, size = layout(header.schema, REPORT), os.path.getsize(path)
        for at in places:
            try:
                count, data, _ = container.block(file, header, at, size)
                yield from rows(data, count, fields, len(REPORT))
            except Damaged as damage:
                yield damage


def _report_blocks(reports: Iterator[Report]) -> Iterator[tuple[int, bytes]]:
    length = container.encoded
    while some := list(islice(reports, REPORTS_IN_BLOCK)):
        parts = []
        for report in some:
            key_id, info = report.key_id.encode(), report.shared_info.encode()
            parts += [length(len(report.payload)), report.payload, length(len(key_id)), key_id, length(len(info)), info]
        yield len(some), b"".join(parts)


def _columns(paths: list[str], wanted: dict[str, str]) -> tuple[Keys, list[Ints], tuple[str, ...]]:
    """The keys and numbers of all records, in order."""
    keys, longs, notes = [np.empty((0, 2), np.uint64)], [np.empty((0, len(wanted) - 1), np.int64)], []
    for path in paths:
        with _opened(path) as (file, header):
            fields = layout(header.schema, wanted)
            if NOTE in header.metadata:
                notes.append(header.metadata[NOTE].decode(errors="replace"))
            many = os.path.getsize(path) >= MANY
            for count, data in container.blocks(file, header):
                block = scanned(data, count, fields, len(wanted), many)
                keys.append(block.keys)
                longs.append(block.longs)
    numbers = np.concatenate(longs)
    return np.concatenate(keys), list(np.ascontiguousarray(numbers.T)), tuple(notes)


def _halves(key: bytes) -> tuple[int, int]:
    if len(key) > 16:
        raise Damaged(f"a key has 16 bytes at most; got {len(key)}")
    number = int.from_bytes(key, "big")
    return number >> 64, number & 2**64 - 1


@contextmanager
def _opened(path: str) -> Iterator[tuple[BinaryIO, Header]]:
    """A file and its header; what is wrong with either, or found wrong later, as an InputError that names the file."""
    try:
        with open(path, "rb") as file:
            yield file, container.read_header(file)
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}") from None
    except Damaged as damage:
        raise InputError(f"{path}: {damage}; give a file with the aggregation service's schema") from None


def _paths(given: str | Sequence[str], what: str) -> list[str]:
    return files([given] if isinstance(given, str) else given, what)
