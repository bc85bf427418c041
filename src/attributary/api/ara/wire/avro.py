"""avro: reports, domains and results in the aggregation service's files, each kind with its schema.

Keys are arrays of two 64-bit halves, high and low. A domain is written with all 16 bytes of a key, results without the
leading zero bytes, as the service does; both are read either way, and several files (shards) are read as one.
"""

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from glob import glob, has_magic
from itertools import islice
from typing import Any, BinaryIO, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from attributary.api.ara.wire import avro_blocks
from attributary.api.ara.wire.aggregatable_report import Report
from attributary.api.ara.wire.avro_blocks import BYTES, LONG, MAGIC, MANY, Damaged, Header, record_fields
from attributary.errors import InputError
from attributary.tables.table_source import readable
from attributary.types import Ints, Keys, Record

Schema = Record


def _record(name: str, **fields: tuple[Any, str]) -> Schema:
    """The schema of a record, from the type of each field and what it says of it."""
    each = [{"name": name, "type": kind} | ({"doc": doc} if doc else {}) for name, (kind, doc) in fields.items()]
    return {"type": "record", "name": name, "fields": each}


ENCODED: Final = "128-bit integer encoded as a 16-byte big-endian bytestring."
BUCKET: Final = ("bytes", f"Histogram bucket used in aggregation. {ENCODED} Leading 0-bits will be left out.")
TAGS: Final = {"type": "enum", "name": "bucket_tags", "symbols": ["in_domain", "in_reports"]}
REPORTS_SCHEMA: Final = _record(
    "AggregatableReport", payload=("bytes", ""), key_id=("string", ""), shared_info=("string", "")
)
DOMAIN_SCHEMA: Final = _record(
    "AggregationBucket",
    bucket=("bytes", f"A single bucket that appears in the aggregation service output. {ENCODED}"),
)
RESULTS_SCHEMA: Final = _record("AggregatedFact", bucket=BUCKET, metric=("long", "Metric associated with the bucket"))
DEBUG_RESULTS_SCHEMA: Final = _record(
    "DebugAggregatedFact",
    bucket=BUCKET,
    unnoised_metric=("long", "Unnoised metric associated with the bucket."),
    noise=("long", "The noise applied to metric in the regular result."),
    annotations=({"type": "array", "items": TAGS}, ""),
)


ENDINGS = (".avro", ".json", ".jsonl", ".ndjson")


def named_files(given: str | Sequence[str], what: str) -> list[str]:
    """The files, each once, in order; of a folder those that end like Avro or JSON. Messages call them `what`."""
    names: dict[str, None] = {}
    for name in [given] if isinstance(given, str) else given:
        if os.path.isdir(name):
            inside = sorted(os.path.join(name, file) for file in os.listdir(name) if file[0] not in "._")
            paths = [path for path in inside if path.lower().endswith(ENDINGS) and os.path.isfile(path)]
            empty = f"the folder {name} has no file that ends in {', '.join(ENDINGS)}"
        elif has_magic(name) and not os.path.exists(name):
            paths = sorted(path for path in glob(name, recursive=True) if os.path.isfile(path))
            empty = f"no file is {name}"
        else:
            paths, empty = [name] if os.path.exists(name) else [], f"there is no file {name}"
        if not paths:
            raise InputError(f"{empty}; give the files of {what}")
        names.update(dict.fromkeys(paths))
    return list(names)


NOTE = "attributary"  # the names of our words in a file's metadata
EPSILON, L1, NOT_PRIVATE, PLAN = f"{NOTE}.epsilon", f"{NOTE}.l1", f"{NOTE}.not_private", f"{NOTE}.plan"
FINGERPRINTS = re.compile(r"[0-9a-f]{16}(,[0-9a-f]{16})*")
MOST_NOTE = 1000  # bytes
REPORTS_IN_BLOCK = 256
REPORT = {"payload": BYTES, "key_id": BYTES, "shared_info": BYTES}


class StatedNoise(NamedTuple):
    """What a summary report says of its noise: DLap(epsilon / l1), and why it is not private, if it is not."""

    epsilon: float | None = None  # where it does not say, or has no noise
    l1: int | None = None
    not_private: str = ""
    plan: str = ""  # the fingerprints of the plans whose keys were queried, with commas between them


NOTHING_STATED = StatedNoise()


class Results(NamedTuple):
    """A summary report: a sum for each key, and what each of its files says of itself."""

    keys: Keys
    metric: Ints
    stated: tuple[StatedNoise, ...] = ()


class DebugResults(NamedTuple):
    """Sums before noise, the noise, and where each key was found: NOT protected."""

    keys: Keys
    unnoised: Ints
    noise: Ints
    in_domain: NDArray[np.bool_]
    in_reports: NDArray[np.bool_]


def write_domain(path: str, keys: Keys, plan: str = "") -> None:
    """Writes the keys to query, and the fingerprint of the plan that they are of."""
    avro_blocks.write(path, DOMAIN_SCHEMA, avro_blocks.encoded_domain(keys), {PLAN: plan})


def read_domain(paths: str | Sequence[str]) -> Keys:
    """The keys of a domain, in the order of its files; a key may come twice."""
    return _columns(named_files(paths, "the domain"), {"bucket": BYTES})[0]


def plans_of_domain(paths: str | Sequence[str]) -> dict[str, str]:
    """The fingerprint of a plan that each file of a domain states, by name; "" where it states none."""
    stated = {}
    for path in named_files(paths, "the domain"):
        with _opened(path) as (_, header):
            stated[path] = _plan(header.metadata.get(PLAN, b"").decode(errors="replace"))
    return stated


def write_results(path: str, keys: Keys, metric: Ints, note: str = "", stated: StatedNoise = NOTHING_STATED) -> None:
    rate = {} if stated.epsilon is None else {EPSILON: f"{stated.epsilon!r}".removesuffix(".0"), L1: str(stated.l1)}
    said = {NOTE: note, **rate, NOT_PRIVATE: stated.not_private, PLAN: stated.plan}
    avro_blocks.write(path, RESULTS_SCHEMA, avro_blocks.encoded_results(keys, [metric]), said)


def read_results(given: str | Sequence[str]) -> Results:
    """The sums of a summary report, in the order of its files."""
    paths = named_files(given, "the summary report")
    keys, longs, metadata = _columns(paths, {"bucket": BYTES, "metric": LONG})
    return Results(keys, longs[0], tuple(map(_stated, paths, metadata)))


def results_stated(path: str) -> Results:
    """What a file of a summary report says of itself, without its sums."""
    with _opened(path) as (_, header):
        return Results(np.empty((0, 2), np.uint64), np.empty(0, np.int64), (_stated(path, header.metadata),))


def stated_noise(path: str, epsilon: object, l1: object, not_private: str, plan: str = "") -> StatedNoise:
    """What a file says of its noise, as numbers, if they are such; neither is as good as no word of them."""
    if epsilon is None and l1 is None:
        return StatedNoise(not_private=not_private, plan=_plan(plan))
    try:
        rate = float(str(epsilon)), int(str(l1))
    except ValueError:
        rate = (float("nan"), 0)
    if not (0 < rate[0] < float("inf") and 0 < rate[1] < 2**63):
        raise InputError(
            f"{path}: the epsilon and l1 that a summary report states are numbers above 0; "
            f"got {epsilon!s:.20} and {l1!s:.20}"
        )
    return StatedNoise(*rate, not_private, _plan(plan))


def _plan(stated: str) -> str:
    """The fingerprints that a file states; nothing if it is something else."""
    return stated if FINGERPRINTS.fullmatch(stated) else ""


def write_debug_results(path: str, results: DebugResults, note: str = "") -> None:
    """Writes sums and noise side by side, which are NOT protected."""
    tags = results.in_domain.astype(np.int64) + 2 * results.in_reports
    blocks = avro_blocks.encoded_results(results.keys, [results.unnoised, results.noise], tags)
    avro_blocks.write(path, DEBUG_RESULTS_SCHEMA, blocks, {NOTE: note})


def write_reports(path: str, reports: Iterable[Report]) -> None:
    """Writes reports as the service reads them: payload, key id and shared info."""
    avro_blocks.write(path, REPORTS_SCHEMA, _report_blocks(iter(reports)))


def report_blocks(path: str) -> Iterator[tuple[int, int, int]]:
    """Where the blocks of a file of reports are, how many each says it has, and in how many bytes at most."""
    with _opened(path) as (file, header):
        record_fields(header.schema, REPORT)
        yield from avro_blocks.places(file, header)


def rows_or_damage(path: str, places: Sequence[int]) -> Iterator[list[bytes] | Damaged]:
    """Payload, key id and shared info of each report in some blocks, and what is wrong where one is damaged."""
    if not places:
        return
    with _opened(path) as (file, header):
        fields, size = record_fields(header.schema, REPORT), os.path.getsize(path)
        for at in places:
            try:
                count, data, _ = avro_blocks.block(file, header, at, size)
                yield from avro_blocks.rows(data, count, fields, len(REPORT))
            except Damaged as damage:
                yield damage


def _report_blocks(reports: Iterator[Report]) -> Iterator[tuple[int, bytes]]:
    while some := list(islice(reports, REPORTS_IN_BLOCK)):
        cells = (cell for r in some for cell in (r.payload, r.key_id.encode(), r.shared_info.encode()))
        yield len(some), b"".join(avro_blocks.encoded(len(cell)) + cell for cell in cells)


def _stated(path: str, metadata: Mapping[str, bytes]) -> StatedNoise:
    said = {name: value.decode(errors="replace") for name, value in metadata.items() if name.startswith(NOTE)}
    if NOTE in said and not {EPSILON, NOT_PRIVATE} & said.keys():
        raise InputError(
            f"{path}: a summary report of `attributary aggregate` states its epsilon and l1, or why it is not private; "
            f"this one has the words {said[NOTE]!r:.60} alone: give the file as it was written"
        )
    return stated_noise(path, said.get(EPSILON), said.get(L1), said.get(NOT_PRIVATE, ""), said.get(PLAN, ""))


def _columns(paths: list[str], wanted: dict[str, str]) -> tuple[Keys, list[Ints], list[dict[str, bytes]]]:
    """The keys and numbers of all records, in order, and what each file says of itself."""
    keys, longs, metadata = [np.empty((0, 2), np.uint64)], [np.empty((0, len(wanted) - 1), np.int64)], []
    for path in paths:
        with _opened(path) as (file, header):
            fields = record_fields(header.schema, wanted)
            metadata.append({name: value[:MOST_NOTE] for name, value in header.metadata.items()})
            many = os.path.getsize(path) >= MANY
            for count, data in avro_blocks.blocks(file, header):
                block = avro_blocks.scanned(data, count, fields, len(wanted), many)
                keys.append(block[0])
                longs.append(block[1])
    numbers = np.concatenate(longs)
    return np.concatenate(keys), list(np.ascontiguousarray(numbers.T)), metadata


def is_avro(path: str) -> bool:
    with readable(path, "give files that are there"), open(path, "rb") as file:
        return file.read(len(MAGIC)) == MAGIC


@contextmanager
def _opened(path: str) -> Iterator[tuple[BinaryIO, Header]]:
    """A file and its header; what is wrong with either, or found wrong later, as an InputError that names the file."""
    try:
        with readable(path, "give files that are there"), open(path, "rb") as file:
            yield file, avro_blocks.read_header(file)
    except Damaged as damage:
        raise InputError(f"{path}: {damage}; give a file with the aggregation service's schema") from None
