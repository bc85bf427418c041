"""Payloads: what is encoded is decoded, arrays say what one by one says, and no bytes do harm."""

import base64
import json
from contextlib import suppress
from typing import Any

import cbor2
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from attributary.api.ara.wire import payload
from attributary.api.ara.wire.payload import Contribution, columns
from attributary.api.ara.wire.shared_info import VERSIONS
from support.vectors import vectors

NULL = Contribution(0, 0)
contributions = st.builds(Contribution, st.integers(0, 2**128 - 1), st.integers(0, 2**32 - 1), st.integers(0, 255))
without_ids = st.builds(Contribution, st.integers(0, 2**128 - 1), st.integers(0, 2**32 - 1))


@st.composite
def payloads(draw: st.DrawFn) -> tuple[bytes, list[Contribution]]:
    """A payload as browsers write it, and what it holds, null contributions included."""
    version = draw(st.sampled_from(VERSIONS))
    id_bytes = draw(st.integers(1, 8))
    rows = draw(st.lists(contributions if version == "1.0" else without_ids, max_size=30))
    pad_to = draw(st.sampled_from([0, 20, 25]))
    padding = [NULL] * (max(pad_to - len(rows), 0) if version else 0)
    return payload.encode(rows, version, pad_to, id_bytes), rows + padding


@given(payloads())
def test_decoding_inverts_encoding(made: tuple[bytes, list[Contribution]]) -> None:
    data, rows = made
    assert payload.decode(data) == rows


@given(payloads())
def test_the_bytes_are_cbor(made: tuple[bytes, list[Contribution]]) -> None:
    data, rows = made
    read = cbor2.loads(data)
    assert list(read) == ["data", "operation"] and read["operation"] == "histogram"
    assert [(int.from_bytes(row["bucket"]), int.from_bytes(row["value"])) for row in read["data"]] == [
        (row.key, row.value) for row in rows
    ]
    assert all(len(row["bucket"]) == 16 and len(row["value"]) == 4 for row in read["data"])
    assert cbor2.dumps(read, canonical=True) == data  # shortest lengths, members shortest first


@given(st.lists(payloads(), max_size=12), st.lists(st.binary(max_size=200), max_size=3), st.randoms())
def test_columns_say_what_decoding_one_by_one_says(
    made: list[tuple[bytes, list[Contribution]]], others: list[bytes], rng: Any
) -> None:
    data = [one for one, _ in made] + others
    rng.shuffle(data)
    found, faults = columns(data)
    expected, nulls = [], 0
    for place, one in enumerate(data):
        try:
            rows = payload.decode(one)
        except ValueError:
            assert place in faults
            continue
        assert place not in faults
        real = [row for row in rows if (row.key, row.value) != (0, 0)]
        nulls += len(rows) - len(real)
        expected += [(place, row.key, row.value, row.filtering_id) for row in real]
    keys = [(high << 64) | low for high, low in found.keys.tolist()]
    rows = zip(found.report.tolist(), keys, found.value.tolist(), found.filtering_id.tolist(), strict=True)
    assert sorted(rows) == sorted(expected) and found.nulls.sum() == nulls


@given(payloads(), st.data())
def test_one_other_byte_is_told_by_columns_as_by_decoding(
    made: tuple[bytes, list[Contribution]], data: st.DataObject
) -> None:
    changed = bytearray(made[0])
    changed[data.draw(st.integers(0, len(changed) - 1))] ^= data.draw(st.integers(1, 255))
    found, faults = columns([made[0], bytes(changed)])
    try:
        rows = payload.decode(bytes(changed))
    except ValueError:
        assert list(faults) == [1]
        return
    assert not faults
    real = [(row.key, row.value, row.filtering_id) for row in rows if (row.key, row.value) != (0, 0)]
    mine = found.report == 1
    keys = [(high << 64) | low for high, low in found.keys[mine].tolist()]
    assert list(zip(keys, found.value[mine].tolist(), found.filtering_id[mine].tolist(), strict=True)) == real


def test_shorter_numbers_and_open_lengths_are_read() -> None:
    data = b"\xbfddata\x81\xbffbucketDkey1evalueC\x0fB@\xffioperationihistogram\xff"
    assert payload.decode(data) == [Contribution(int.from_bytes(b"key1"), 1_000_000)]
    found, faults = columns([data])
    assert not faults and found.keys.tolist() == [[0, int.from_bytes(b"key1")]] and found.value.tolist() == [1_000_000]
    assert payload.decode(cbor2.dumps({"operation": "histogram", "data": [{"value": b"", "bucket": b""}]})) == [NULL]


def plain(rows: list[Contribution]) -> bytes:
    """The payload as a program writes it that knows nothing of browsers: other names first, no padding."""
    data = [{"bucket": c.key.to_bytes(16), "value": c.value.to_bytes(4), "id": bytes([c.filtering_id])} for c in rows]
    return cbor2.dumps({"operation": "histogram", "data": data})


@given(st.lists(st.lists(contributions, max_size=5), min_size=1, max_size=4), st.booleans())
def test_payloads_laid_out_otherwise_are_read_also_alone_in_their_length(
    batch: list[list[Contribution]], among_others: bool
) -> None:
    data = [plain(rows) for rows in batch] + [payload.encode(rows) for rows in batch if among_others]
    found, faults = columns(data)
    assert not faults
    real = [row for rows in batch for row in rows if (row.key, row.value) != (0, 0)] * (1 + among_others)
    assert found.value.sum() == sum(row.value for row in real) and len(found.value) == len(real)


def test_a_stranger_does_not_slow_down_payloads_of_its_length(monkeypatch: pytest.MonkeyPatch) -> None:
    like = payload.encode([Contribution(1, 2)])
    other = cbor2.dumps({"data": [{"bucket": bytes(n), "value": b""} for n in (8, 4)], "operation": "histogram"})
    other = cbor2.dumps({**cbor2.loads(other), "x": bytes(len(like) - len(other) - 5)})
    assert len(other) == len(like)
    read = []
    decode = payload.decode
    monkeypatch.setattr("attributary.api.ara.wire.payload.decode", lambda data: read.append(data) or decode(data))
    found, faults = columns([other, like, like])
    assert not faults and read == [other] and found.value.tolist() == [2, 2]


def test_no_contributions_is_a_payload() -> None:
    found, faults = columns([payload.encode([], pad_to=0)])
    assert not faults and len(found.value) == 0 and found.keys.shape == (0, 2)
    assert columns([])[0].keys.shape == (0, 2)


def test_published_payloads_are_decoded_and_encoded_to_the_byte() -> None:
    folders = [vectors("golden-reports"), vectors("golden-private-aggregation")]
    names = [sorted(folder.glob("*/*_cleartext_payloads.json")) for folder in folders]
    assert len(names[0]) >= 13 and len(names[1]) >= 10
    for name in [*names[0], *names[1]]:
        [text] = json.loads(name.read_text())
        data = base64.b64decode(text)
        version = {"latest": "1.0", "version_0.1": "0.1", "version_": ""}[name.parent.name]
        rows = [row for row in payload.decode(data) if row != NULL]
        assert payload.encode(rows, version) == data, name


def with_tags(depth: int) -> bytes:
    """Lists that each hold the one before twice, by tags 28 and 29: few bytes for 2**depth of things."""
    data = b"\xd8\x1c\x80"
    for number in range(depth):
        data = b"\xd8\x1c\x82" + data + b"\xd8\x1d" + cbor2.dumps(depth - number)
    return b"\xa2ddata\x82" + data + b"\x01ioperationihistogram"


HARMFUL = {
    "shared values": with_tags(40),
    "a tag on a name": b"\xa2\xc1ddata\x80ioperationihistogram",
    "more than a payload": b"\xa1ddata\x5a\x00\x50\x00\x00" + bytes(0x500000),
    "chunks in chunks": b"\xa1ddata\x5f\x5f\x41a\xff\xff",
    "texts among bytes": b"\xa1ddata\x5f\x61a\xff",
    "a text that is none": b"\xa1ddata\x61\xff",
    "a reserved length": b"\xa1ddata\x5c",
    "a stray break": b"\xa1ddata\xff",
    "a list of 2**60": b"\xa2ddata\x9b\x10" + bytes(7),
    "a map of 2**60": b"\xbb\x10" + bytes(7),
    "bytes of 2**60": b"\xa1ddata\x5b\x10" + bytes(7),
    "deep lists": b"\x81" * 100_000,
    "deep maps": b"\xa1\x61a" * 50_000,
    "deep tags": b"\xc1" * 100_000,
    "a large exponent": b"\xc4\x82\x1a\x7f\xff\xff\xff\x01",
    "a broken pattern": b"\xd8\x23\x63(((",
    "a shared value in itself": b"\xd8\x1c\x81\xd8\x1d\x00",
    "nothing": b"",
}


@pytest.mark.parametrize("data", HARMFUL.values(), ids=HARMFUL)
def test_harmful_payloads_are_refused(data: bytes) -> None:
    with pytest.raises(ValueError, match="payload"):
        payload.decode(data)
    assert list(columns([data, payload.encode([NULL]), data])[1]) == [0, 2]


def plain_value(draw: st.DrawFn) -> Any:
    return draw(
        st.recursive(
            st.none()
            | st.booleans()
            | st.integers(-(2**64), 2**64 - 1)
            | st.binary(max_size=30)
            | st.text(max_size=30),
            lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
            max_leaves=12,
        )
    )


values = st.composite(plain_value)()


def depth(value: Any) -> int:
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else None
    return 0 if inner is None else 1 + max(map(depth, inner), default=0)


@given(values, st.booleans())
def test_cbor_is_read_as_another_package_reads_it(value: Any, canonical: bool) -> None:
    data = cbor2.dumps(value, canonical=canonical)
    if depth(value) > payload.DEEPEST:
        with pytest.raises(ValueError, match="nested"):
            payload.read_cbor(data)
    else:
        assert payload.read_cbor(data) == value


@given(payloads(), st.lists(st.tuples(st.integers(0, 10**6), st.integers(0, 255)), min_size=1, max_size=3))
def test_mutated_cbor_is_what_another_package_says_it_is(
    made: tuple[bytes, list[Contribution]], changes: list[tuple[int, int]]
) -> None:
    data = bytearray(made[0])
    for at, byte in changes:
        data[at % min(len(data), 60)] = byte
    try:
        mine = payload.read_cbor(bytes(data))
    except ValueError as error:
        if not any(words in str(error) for words in ("tag", "nested", "simple value", "names in a map", "bytes after")):
            with pytest.raises(cbor2.CBORDecodeError):
                cbor2.loads(bytes(data))
        return
    theirs = cbor2.loads(bytes(data))
    assert repr(mine) == repr(theirs) or "undefined" in repr(theirs)  # not equal: NaN


@given(st.binary(max_size=64))
def test_any_bytes_are_a_value_or_refused(data: bytes) -> None:
    with suppress(ValueError):
        payload.read_cbor(data)


GOOD = {"bucket": b"\1", "value": b"\2"}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ([], "a payload is a map"),
        ({1: 2}, "the names in a map are texts"),
        ({"data": [GOOD]}, 'operation "histogram"; got None'),
        ({"data": [GOOD], "operation": "sum"}, "got 'sum'"),
        ({"operation": "histogram"}, "a list of contributions as data; got nothing"),
        ({"operation": "histogram", "data": [1]}, "bucket, value and perhaps id; got a number"),
        ({"operation": "histogram", "data": [{"bucket": b""}]}, "bucket, value and perhaps id; got a map$"),
        (
            {"operation": "histogram", "data": [{**GOOD, "value": 2}]},
            "value of a contribution is up to 4 bytes; got a num",
        ),
        ({"operation": "histogram", "data": [{**GOOD, "value": bytes(5)}]}, "up to 4 bytes; got 5 bytes$"),
        ({"operation": "histogram", "data": [{**GOOD, "bucket": bytes(17)}]}, "up to 16 bytes"),
        ({"operation": "histogram", "data": [{**GOOD, "id": bytes(9)}]}, "up to 8 bytes"),
        ({"operation": "histogram", "data": "x" * 100}, "got a text$"),
    ],
)
def test_what_is_no_payload_is_refused_in_words(content: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        payload.decode(cbor2.dumps(content))


def test_bytes_after_the_end_are_refused() -> None:
    with pytest.raises(ValueError, match="bytes after its end"):
        payload.decode(payload.encode([NULL]) + b"\0")


@pytest.mark.parametrize(
    ("rows", "options", "message"),
    [
        ([Contribution(2**128, 1)], {}, "a key here is a whole number from 0 to 3402823"),
        ([Contribution(-1, 1)], {}, "got -1"),
        ([Contribution(1, 2**32)], {}, "a value here is a whole number from 0 to 4294967295; got 4294967296"),
        ([Contribution(1, 1, 256)], {}, "a filtering id here is a whole number from 0 to 255; got 256"),
        ([Contribution(1, 1, 1)], {"version": "0.1"}, "filtering ids need version 1.0"),
        ([], {"version": "2"}, "as in 0.1 and 1.0; got '2'"),
        ([], {"id_bytes": 9}, "1 to 8 bytes; got 9"),
        ([NULL] * 65536, {}, "a number of contributions here"),
    ],
)
def test_what_cannot_be_encoded_is_refused(rows: list[Contribution], options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        payload.encode(rows, **options)


def test_many_contributions_have_longer_heads() -> None:
    for number in (23, 24, 255, 256, 1000):
        rows = [Contribution(i, i, i % 256) for i in range(1, number + 1)]
        data = payload.encode(rows)
        assert payload.decode(data) == rows
        assert np.array_equal(columns([data])[0].value, np.arange(1, number + 1))
