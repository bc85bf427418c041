"""Avro files: the service's schemas, the same as fastavro reads and writes, and no file does harm."""

import json
import random
import time
import tracemalloc
import zlib
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import fastavro
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from attributary.api.ara.service import aggregation
from attributary.api.ara.service import batch as batches
from attributary.api.ara.wire import avro, avro_blocks, payload
from attributary.api.ara.wire.aggregatable_report import Report
from attributary.api.ara.wire.avro_blocks import BYTES, LONG, record_fields
from attributary.api.ara.wire.payload import Contribution
from attributary.errors import InputError
from support.browser_reports import batch, read_reports
from support.effort import examples
from support.vectors import vectors

SCHEMAS = {
    "reports": avro.REPORTS_SCHEMA,
    "output_domain": avro.DOMAIN_SCHEMA,
    "results": avro.RESULTS_SCHEMA,
    "debug_results": avro.DEBUG_RESULTS_SCHEMA,
}
lengths = st.integers(0, 40)
halves = st.sampled_from([0, 1, 255, 256, 2**63, 2**64 - 1]) | st.integers(0, 2**64 - 1)
longs = st.sampled_from([0, -1, 63, 64, -64, -65, 2**63 - 1, -(2**63)]) | st.integers(-(2**63), 2**63 - 1)


def keys_of(n: int) -> st.SearchStrategy[Any]:
    return hnp.arrays(np.uint64, (n, 2), elements=halves)


def big(keys: Any) -> list[int]:
    return [(int(high) << 64) | int(low) for high, low in keys]


def fast(path: Path) -> list[Any]:
    with open(path, "rb") as file:
        return list(fastavro.reader(file))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("avro")


@pytest.mark.parametrize("name", SCHEMAS)
def test_schemas_are_the_services(name: str) -> None:
    assert json.loads((vectors("avro-schemas") / f"{name}.avsc").read_text()) == SCHEMAS[name]


@given(lengths.flatmap(lambda n: st.tuples(keys_of(n), *[hnp.arrays(np.int64, n, elements=longs)] * 2)), st.data())
def test_what_is_written_is_what_fastavro_and_we_read(folder: Path, given: Any, data: st.DataObject) -> None:
    keys, first, second = given
    tags = data.draw(hnp.arrays(bool, (2, len(keys))))
    domain, results, debug = (folder / f"{name}.avro" for name in ("domain", "results", "debug"))
    avro.write_domain(str(domain), keys)
    avro.write_results(str(results), keys, first, "a note", avro.StatedNoise(4, 65536))
    avro.write_debug_results(str(debug), avro.DebugResults(keys, first, second, *tags))
    assert np.array_equal(avro.read_domain(str(domain)), keys)
    again = avro.read_results(str(results))
    assert np.array_equal(again.keys, keys) and np.array_equal(again.metric, first)
    assert again.stated == (avro.StatedNoise(4, 65536),)
    assert [row["bucket"] for row in fast(domain)] == [key.to_bytes(16, "big") for key in big(keys)]
    short = [key.to_bytes(16, "big").lstrip(b"\0") for key in big(keys)]
    assert fast(results) == [{"bucket": b, "metric": m} for b, m in zip(short, first.tolist(), strict=True)]
    names = np.array(["in_domain", "in_reports"])
    assert fast(debug) == [
        {"bucket": b, "unnoised_metric": u, "noise": n, "annotations": names[[i, j]].tolist()}
        for b, u, n, i, j in zip(short, first.tolist(), second.tolist(), *tags.tolist(), strict=True)
    ]


@given(st.lists(st.tuples(st.text(), st.binary(), st.text()), max_size=20))
def test_reports_are_written_and_read(folder: Path, given: list[tuple[str, bytes, str]]) -> None:
    path = folder / "reports.avro"
    reports = [Report(*row) for row in given]
    avro.write_reports(str(path), reports)
    assert read_reports(str(path)) == reports
    assert fast(path) == [{"payload": p, "key_id": k, "shared_info": s} for s, p, k in given]


@pytest.mark.parametrize("codec", ["null", "deflate"])
@given(lengths.flatmap(lambda n: st.tuples(keys_of(n), hnp.arrays(np.int64, n, elements=longs))))
@settings(max_examples=examples(30))
def test_files_of_fastavro_are_read(codec: str, folder: Path, given: Any) -> None:
    keys, metric = given
    path = folder / f"theirs-{codec}.avro"
    rows = [
        {"bucket": key.to_bytes(16, "big").lstrip(b"\0"), "metric": m}
        for key, m in zip(big(keys), metric.tolist(), strict=True)
    ]
    with open(path, "wb") as file:
        fastavro.writer(file, avro.RESULTS_SCHEMA, rows, codec, sync_interval=100)
    again = avro.read_results(str(path))
    assert np.array_equal(again.keys, keys) and np.array_equal(again.metric, metric)


@pytest.mark.parametrize("codec", ["snappy", "zstandard"])
def test_other_codecs_are_read(codec: str, folder: Path) -> None:
    import pyarrow as pa

    keys = np.arange(2000, dtype=np.uint64).reshape(-1, 2)
    path = folder / f"{codec}.avro"
    avro.write_domain(str(path), keys)
    with open(path, "rb") as file:
        [(count, data)] = avro_blocks.blocks(file, avro_blocks.read_header(file))
    packed = pa.compress(data, {"zstandard": "zstd"}.get(codec, codec), asbytes=True)
    packed += zlib.crc32(data).to_bytes(4, "big") if codec == "snappy" else b""
    path.write_bytes(a_file(packed, count, codec=codec, schema=avro.DOMAIN_SCHEMA))
    assert np.array_equal(avro.read_domain(str(path)), keys)
    path.write_bytes(a_file(packed[:-1], count, codec=codec, schema=avro.DOMAIN_SCHEMA))
    with pytest.raises(InputError, match=f"does not unpack as {codec}"):
        avro.read_domain(str(path))


def test_the_compiled_scan_is_the_slow_one(folder: Path) -> None:
    rng = np.random.default_rng(0)
    n = 3000
    keys = rng.integers(0, 2**64, (n, 2), np.uint64) >> rng.integers(0, 64, (n, 2), np.uint64)
    metric = rng.integers(-(2**63), 2**63 - 1, n) >> rng.integers(0, 63, n)
    path = folder / "avro_blocks.avro"
    avro.write_results(str(path), keys, metric)
    with open(path, "rb") as file:
        header = avro_blocks.read_header(file)
        [(count, data)] = avro_blocks.blocks(file, header)
    fields = record_fields(header.schema, {"bucket": BYTES, "metric": LONG})
    slow, quick = (avro_blocks.scanned(data, count, fields, 2, many) for many in (False, True))
    for read, longs in (slow, quick):
        assert np.array_equal(read, keys) and np.array_equal(longs[:, 0], metric)
    draws = random.Random(1)
    for _ in range(2000):
        bad = bytearray(data[: draws.randrange(200)] if draws.random() < 0.5 else data[:300])
        for _ in range(draws.randrange(3)):
            if bad:
                bad[draws.randrange(len(bad))] = draws.randrange(256)
        number = draws.randrange(20)
        answers = []
        for many in (False, True):
            try:
                block = avro_blocks.scanned(bytes(bad), number, fields, 2, many)
                answers.append((block[0].tolist(), block[1].tolist()))
            except avro_blocks.Damaged:
                answers.append(([], []))
        assert answers[0] == answers[1], bytes(bad)


def test_shards_are_read_as_one(tmp_path: Path) -> None:
    keys = np.arange(12, dtype=np.uint64).reshape(-1, 2)
    for i in range(3):
        avro.write_results(str(tmp_path / f"r-{i + 1}-of-3.avro"), keys[2 * i : 2 * i + 2], np.array([i, 10 * i]))
    (tmp_path / "_SUCCESS").write_text("")
    for paths in (str(tmp_path), str(tmp_path / "*.avro"), sorted(map(str, tmp_path.glob("*.avro")))):
        found = avro.read_results(paths)
        assert np.array_equal(found.keys, keys) and found.metric.tolist() == [0, 0, 1, 10, 2, 20]


def test_other_flat_schemas_are_read(folder: Path) -> None:
    path = folder / "other.avro"
    schema = {
        "type": "record",
        "name": "Row",
        "namespace": "elsewhere",
        "fields": [
            {"name": "ratio", "type": "double"},
            {"name": "metric", "type": ["null", "long"]},
            {"name": "why", "type": ["string", "null"]},
            {"name": "ok", "type": "boolean"},
            {"name": "bucket", "type": {"type": "bytes"}},
        ],
    }
    row = {"ratio": 0.5, "metric": 7, "why": None, "ok": True, "bucket": b"\2"}
    with open(path, "wb") as file:
        fastavro.writer(file, schema, [row, {**row, "why": "because", "metric": -7}])
    found = avro.read_results(str(path))
    assert found.keys.tolist() == [[0, 2], [0, 2]] and found.metric.tolist() == [7, -7]
    with open(path, "wb") as file:
        fastavro.writer(file, schema, [{**row, "metric": None}])
    with pytest.raises(InputError, match="null where a value is needed"):
        avro.read_results(str(path))


def test_the_same_records_make_the_same_bytes(tmp_path: Path) -> None:
    keys, metric = np.ones((5, 2), np.uint64), np.arange(5)
    for name in "ab":
        avro.write_results(str(tmp_path / name), keys, metric)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_a_file_is_whole_or_absent(tmp_path: Path) -> None:
    path = tmp_path / "r.avro"

    def broken() -> Iterator[Report]:
        yield from batch([[(1, 1)]] * 300)
        raise RuntimeError("no more")

    avro.write_domain(str(path), np.ones((1, 2), np.uint64))
    before = path.read_bytes()
    with pytest.raises(RuntimeError):
        avro.write_reports(str(path), broken())
    assert path.read_bytes() == before and [p.name for p in tmp_path.iterdir()] == ["r.avro"]
    with pytest.raises(InputError, match="cannot be written"):
        avro.write_domain(str(tmp_path / "none" / "x.avro"), np.ones((1, 2), np.uint64))


def a_file(
    block: bytes, count: int, codec: str = "null", schema: Any = avro.REPORTS_SCHEMA, length: int | None = None
) -> bytes:
    """An Avro file of one block that may lie."""
    e, text = avro_blocks.encoded, json.dumps(schema).encode()
    head = b"Obj\1" + e(2) + e(11) + b"avro.schema" + e(len(text)) + text
    head += e(10) + b"avro.codec" + e(len(codec)) + codec.encode() + e(0) + b"S" * 16
    return head + e(count) + e(len(block) if length is None else length) + block + b"S" * 16


NOTHING = {"type": "record", "name": "R", "fields": []}
DEFLATE = zlib.compressobj(9, wbits=-15)
BOMB = (DEFLATE.compress(bytes(2**20)) + DEFLATE.flush(zlib.Z_FULL_FLUSH)) * 2**9 + DEFLATE.flush()  # 2**29 zeros
HARMFUL: dict[str, tuple[bytes, str]] = {
    "no file": (b"", "it is not an Avro file"),
    "text": (b"bucket,metric\n", "it is not an Avro file"),
    "header cut": (a_file(b"", 0)[:100], "its header is damaged"),
    "marker cut": (a_file(b"", 0)[:-30], "it ends within its header"),
    "many names": (b"Obj\1" + avro_blocks.encoded(2**60), "its header is damaged"),
    "a long name": (b"Obj\1\2" + avro_blocks.encoded(2**60), "its header is damaged"),
    "a long number": (b"Obj\1" + b"\xff" * 30, "its header is damaged"),
    "deep schema": (b"Obj\1\2\x16avro.schema" + avro_blocks.encoded(200_000) + b"[" * 200_000, "header is damaged"),
    "schema of a number": (a_file(b"", 0, schema="long"), "its schema is not a record"),
    "empty records": (a_file(b"", 2**60, schema=NOTHING), "no field 'payload'"),
    "other kinds": (
        a_file(b"", 1, schema={**NOTHING, "fields": [{"name": "payload", "type": "long"}]}),
        "its field 'payload' is not bytes",
    ),
    "lists of nothing": (
        a_file(b"", 1, schema={**NOTHING, "fields": [{"name": "x", "type": {"type": "array", "items": "null"}}]}),
        "its field 'x' is of a kind that has no place here",
    ),
    "a field that is none": (a_file(b"", 1, schema={**NOTHING, "fields": [1]}), "a field without a name: 1"),
    "many records": (a_file(b"\0\0\0", 2**60), "says that 3 bytes hold 1152921504606846976 records"),
    "few bytes": (a_file(b"\0\0\0", 2), "a record goes beyond the end"),
    "a long block": (a_file(b"\0\0\0", 1, length=2**60), "goes beyond the end of the file"),
    "a negative block": (a_file(b"\0\0\0", 1, length=-5), "goes beyond the end of the file"),
    "another marker": (a_file(b"\0\0\0", 1)[:-1] + b"T", "does not end in the file's marker"),
    "a long record": (a_file(avro_blocks.encoded(2**60), 1), "a record goes beyond the end"),
    "a negative record": (a_file(b"\1\0\0", 1), "a record goes beyond the end"),
    "more than its records": (a_file(b"\0\0\0\0", 1), "a block is longer than its records"),
    "unknown codec": (a_file(b"\0\0\0", 1, "xz"), "it is packed with 'xz'; pack it with one of null, deflate"),
    "not deflate": (a_file(b"\xff\xff\xff", 1, "deflate"), "does not unpack as deflate"),
    "deflate cut": (a_file(BOMB[:-9], 1, "deflate"), "does not unpack as deflate"),
    "a small bomb": (a_file(BOMB[:33_000], 1, "deflate"), "into 67,108,864 bytes at most"),
    "a bomb": (a_file(BOMB, 1, "deflate"), "into 67,108,864 bytes at most"),
    "a bomb of records": (
        a_file(zlib.compress(bytes(3 * 2**20), 9)[2:-4], 2**20, "deflate"),
        "does not unpack as deflate|hold 1048576 records",
    ),
    "records of no bytes": (a_file(zlib.compress(bytes(60_000))[2:-4], 20_000, "deflate"), "hold 20000 records"),
    "many fields": (a_file(b"\0", 1, schema={**NOTHING, "fields": [{"name": "x", "type": "null"}] * 101}), "than 100"),
    "a name that is none": (a_file(b"\0", 1, schema={**NOTHING, "fields": [{"name": [], "type": "null"}]}), "a name"),
    "a long name of a field": (
        a_file(b"\0", 1, schema={**NOTHING, "fields": [{"name": "x" * 10**5, "type": 1}]}),
        "its field 'x{58}… is of a kind",
    ),
    "a snappy bomb": (a_file(b"\xff\xff\xff\xff\x0f" + bytes(9), 1, "snappy"), "does not unpack as snappy"),
    "block cut": (a_file(b"\0\0\0", 1) + b"\2", "no number of records and length"),
}


def packed(data: bytes, codec: str) -> bytes:
    """A block's bytes as a writer packs them."""
    import pyarrow as pa

    if codec == "deflate":
        return zlib.compress(data, 1)[2:-4]
    checksum = zlib.crc32(data).to_bytes(4, "big") if codec == "snappy" else b""
    return bytes(pa.compress(data, {"zstandard": "zstd"}.get(codec, codec), asbytes=True)) + checksum


@pytest.mark.parametrize("codec", ["deflate", "snappy", "zstandard"])
def test_a_block_unpacks_into_64_mebibytes_at_most(codec: str) -> None:
    most = packed(bytes(2**26), codec)
    assert avro_blocks.unpacked(most, codec) == bytes(2**26)
    with pytest.raises(ValueError, match="too long"):
        avro_blocks.unpacked(packed(bytes(2**26 + 1), codec), codec)


@pytest.mark.parametrize("codec", ["deflate", "snappy", "zstandard"])
@pytest.mark.parametrize("in_block", [60, 1])
def test_reports_that_are_mostly_padding_are_read_however_well_they_pack(
    codec: str, in_block: int, folder: Path
) -> None:
    reports = [Report(one.shared_info, payload.encode([Contribution(i + 1, 7)], pad_to=1000))
               for i, one in enumerate(batch([[(1, 1)]] * 60))]  # fmt: skip
    plain, path = folder / "plain.avro", folder / f"padded-{codec}.avro"
    content = b""
    for i in range(0, 60, in_block):
        avro.write_reports(str(plain), reports[i : i + in_block])
        with open(plain, "rb") as file:
            [(count, data)] = avro_blocks.blocks(file, avro_blocks.read_header(file))
        part = a_file(packed(data, codec), count, codec=codec)
        content += part[len(a_file(b"", 0, codec=codec)) - 18 :] if content else part
        assert codec != "zstandard" or len(data) > 200 * len(packed(data, codec)) or in_block == 1
    path.write_bytes(content)
    assert read_reports(str(path)) == reports
    sizes = [(count, size) for _, count, size in avro.report_blocks(str(path))]
    assert sum(count for count, _ in sizes) == 60 and sum(size for _, size in sizes) > 60 * 40_000
    sums = aggregation.add_up([str(path)], np.array([[0, i + 1] for i in range(60)], np.uint64))
    assert sums.total.tolist() == [7] * 60 and sums.tally.faulty == 0


def test_shares_hold_what_their_blocks_unpack_into(folder: Path) -> None:
    path, data = folder / "large.avro", bytes([128, 128, 128, 8]) + bytes(2**23) + b"\0\0"  # a report of 8 mebibytes
    part = a_file(packed(data, "zstandard"), 1, codec="zstandard")
    path.write_bytes(part + part[len(a_file(b"", 0, codec="zstandard")) - 18 :] * 19)
    assert [share.size for share in batches.shares([str(path)])] == [4] * 5


@pytest.mark.parametrize("name", HARMFUL)
def test_harmful_files_are_refused(name: str, folder: Path) -> None:
    content, message = HARMFUL[name]
    path = folder / "harm.avro"
    path.write_bytes(content)
    tracemalloc.start()
    try:
        with pytest.raises(InputError, match=message):
            read_reports(str(path))
        assert tracemalloc.get_traced_memory()[1] < 2**30
    finally:
        tracemalloc.stop()


def read(path: Path) -> list[Any]:
    return list(avro.rows_or_damage(str(path), [at for at, _, _ in avro.report_blocks(str(path))]))


def test_a_damaged_block_costs_itself_alone(folder: Path) -> None:
    path = folder / "damaged.avro"
    avro.write_reports(str(path), batch([[(i + 1, 1)] for i in range(3 * avro.REPORTS_IN_BLOCK)]))
    content = bytearray(path.read_bytes())
    with open(path, "rb") as file:
        header = avro_blocks.read_header(file)
        size = len(next(avro_blocks.blocks(file, header))[1])
    content[header.end + size + 22] ^= 255  # in the second block's beginning
    path.write_bytes(content)
    found = read(path)
    damage = [row for row in found if isinstance(row, avro_blocks.Damaged)]
    assert len(damage) == 1 and len(found) == 2 * avro.REPORTS_IN_BLOCK + 1
    path.write_bytes(bytes(path.read_bytes()[:-100]))
    assert len(read(path)) == avro.REPORTS_IN_BLOCK + 2


def test_markers_without_end_are_passed_over_in_proportion(folder: Path) -> None:
    path = folder / "markers.avro"
    start = time.process_time()
    path.write_bytes(a_file(b"\0\0\0", 1) + b"S" * 16 * 160_000)
    found = read(path)
    assert len(found) == 2 and found[0] == [b""] * 3 and isinstance(found[1], avro_blocks.Damaged)
    assert time.process_time() - start < 5  # it took minutes of a machine when every marker cost a megabyte


READERS: list[Callable[[str], Any]] = [
    avro.read_domain,
    avro.read_results,
    read_reports,
]


ODD = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.text(max_size=3)
    | st.sampled_from(["record", "bytes", "null", "string"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["type", "name", "fields", "items"]), inner, max_size=4)
    ),
)


@given(ODD, st.sampled_from(range(3)))
@example([], 0)
@example({"a": 1}, 1)
def test_any_schema_is_taken_or_refused(folder: Path, odd: Any, where: int) -> None:
    fields = [
        {"name": name, "type": kind} for name, kind in zip(avro.REPORT, ("bytes", "string", "string"), strict=True)
    ]
    schemas_of = [
        odd,
        {"type": "record", "name": "R", "fields": [*fields, odd]},
        {"type": "record", "name": odd, "fields": [*fields, {"name": odd, "type": odd}]},
    ]
    path = folder / "odd.avro"
    path.write_bytes(a_file(b"\0\0\0", 1, schema=schemas_of[where]))
    for reader in READERS:
        with suppress(InputError):  # and nothing else
            reader(str(path))


@pytest.mark.parametrize(
    "schema", ['{"type": ' + "9" * 5000 + "}", "[" * 3000 + "]" * 3000, '"\\ud800"', '{"a": NaN}', "\xff"]
)
def test_texts_that_are_no_schema_are_refused(folder: Path, schema: str) -> None:
    text, e = schema.encode("latin-1"), avro_blocks.encoded
    path = folder / "odd.avro"
    path.write_bytes(b"Obj\1" + e(1) + e(11) + b"avro.schema" + e(len(text)) + text + e(0) + b"S" * 16)
    for reader in READERS:
        with pytest.raises(InputError, match="header is damaged|schema is not a record"):
            reader(str(path))


@given(st.data())
@settings(max_examples=examples(300))
def test_mutated_files_are_read_or_refused(folder: Path, data: st.DataObject) -> None:
    path = folder / "mutated.avro"
    kind = data.draw(st.integers(0, 3))
    keys, metric = np.arange(8, dtype=np.uint64).reshape(-1, 2), np.arange(4)
    if kind == 0:
        avro.write_domain(str(path), keys)
    elif kind == 1:
        avro.write_results(str(path), keys, metric)
    elif kind == 2:
        avro.write_debug_results(str(path), avro.DebugResults(keys, metric, metric, metric > 1, metric > 2))
    else:
        avro.write_reports(str(path), batch([[(1, 1)]] * 3))
    content = bytearray(path.read_bytes())
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(content)))
        content[at : at + data.draw(st.integers(0, 4))] = data.draw(st.binary(max_size=4))
    path.write_bytes(content)
    for reader in READERS:
        with suppress(InputError):  # and nothing else
            reader(str(path))
