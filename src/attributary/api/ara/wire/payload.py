"""payload: the contributions of a report as CBOR, to the byte as browsers write it, and of many reports as arrays.

Browsers write payloads byte for byte alike, but for keys, values and ids, so that those of one length are a matrix of
which the other columns are known. Payloads that are written differently are decoded one by one.
"""

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from attributary.api.ara.wire.shared_info import Fault, like
from attributary.errors import brief


@dataclass(frozen=True, slots=True)
class Contribution:
    """A value for a 128-bit key; key 0 with value 0 is a null contribution, which pads a report."""

    key: int
    value: int
    filtering_id: int = 0


PADDED_TO: Final = 20  # contributions of a report, null ones included, so that its size says nothing
BEGINNING: Final = b"\xa2\x64data"
END: Final = b"\x69operation\x69histogram"
KEY_BYTES, VALUE_BYTES, MOST_ID_BYTES = 16, 4, 8
MOST_BYTES: Final = 2**22  # of a payload; 65,535 contributions, the most that a browser could write, take fewer


def encode(
    contributions: Sequence[Contribution], version: str = "1.0", pad_to: int = PADDED_TO, id_bytes: int = 1
) -> bytes:
    """The CBOR of some contributions, padded with null ones; version "" has no padding."""
    version = like(version)
    if not 1 <= id_bytes <= MOST_ID_BYTES:
        raise ValueError(f"a filtering id has 1 to {MOST_ID_BYTES} bytes; got {id_bytes}")
    missing = 0 if version == "" else max(pad_to - len(contributions), 0)
    rows = [*contributions, *[Contribution(0, 0)] * missing]
    parts = [BEGINNING, array_head(len(rows))]
    for c in rows:  # members come shortest first, as in canonical CBOR
        if version == "1.0":
            parts += [b"\xa3\x62id", bytes([0x40 + id_bytes]), _uint(c.filtering_id, id_bytes, "filtering id")]
        elif c.filtering_id:
            raise ValueError(f"filtering ids need version 1.0; got {c.filtering_id}")
        else:
            parts.append(b"\xa2")
        parts += [b"\x65value\x44", _uint(c.value, VALUE_BYTES, "value")]
        parts += [b"\x66bucket\x50", _uint(c.key, KEY_BYTES, "key")]
    return b"".join([*parts, END])


def array_head(length: int) -> bytes:
    if length < 24:
        return bytes([0x80 + length])
    return bytes([0x98, length]) if length < 256 else b"\x99" + _uint(length, 2, "number of contributions")


def decode(data: bytes) -> list[Contribution]:
    """All contributions of a payload, null ones included; whatever is not such a payload is a Fault.

    Test tools write members in any order, leave lengths open and leading zero bytes out; that is read, too.
    """
    if len(data) > MOST_BYTES:
        raise Fault(f"a payload has {MOST_BYTES:,} bytes at most; got {len(data):,}")
    try:
        content = read_cbor(data)
    except ValueError as error:
        raise Fault(f"the payload is not CBOR as browsers write it: {error}") from None
    if not isinstance(content, dict):
        raise Fault(f"a payload is a map with names; got {_kind(content)}")
    if (operation := content.get("operation")) != "histogram":
        raise Fault(f'a payload has operation "histogram"; got {brief(operation)}', "UNSUPPORTED_OPERATION")
    rows = content.get("data")
    if not isinstance(rows, list):
        raise Fault(f"a payload has a list of contributions as data; got {_kind(rows)}")
    return [_contribution(row) for row in rows]


def _contribution(row: object) -> Contribution:
    if not isinstance(row, dict) or "bucket" not in row or "value" not in row:
        raise Fault(f"a contribution has bucket, value and perhaps id; got {_kind(row)}")
    members = (("bucket", KEY_BYTES), ("value", VALUE_BYTES), ("id", MOST_ID_BYTES))
    return Contribution(*(_number(row.get(name, b""), most, name) for name, most in members))


def _number(data: object, most: int, name: str) -> int:
    if not isinstance(data, bytes) or len(data) > most:
        raise Fault(f"the {name} of a contribution is up to {most} bytes; got {_kind(data)}")
    return int.from_bytes(data, "big")


def _kind(value: object) -> str:
    """What a value is, not which: messages about sealed reports must not tell what these contribute."""
    if isinstance(value, bytes):
        return f"{len(value):,} bytes"
    return {dict: "a map", list: "a list", str: "a text", type(None): "nothing"}.get(type(value), "a number")


def _uint(number: int, size: int, name: str) -> bytes:
    if not 0 <= number < 256**size:
        raise ValueError(f"a {name} here is a whole number from 0 to {256**size - 1}; got {number}")
    return number.to_bytes(size, "big")


# CBOR without trust: what JSON has, and bytes. Tags are refused: they could make large values of few bytes, or run
# code. Lengths are checked against the bytes that are there, and nesting is limited, so that time and memory are
# proportional to the input.

DEEPEST = 8
OPEN = 31  # a length that is left open: items follow up to BREAK
BREAK = 0xFF
SIMPLE = {20: False, 21: True, 22: None, 23: None}
FLOATS = {25: ">e", 26: ">f", 27: ">d"}


def read_cbor(data: bytes) -> object:
    """The value that some bytes stand for, all of them; a ValueError if they stand for none."""
    try:
        value, at = _item(data, 0, DEEPEST)
    except (IndexError, struct.error):
        raise ValueError("it ends too early") from None
    if at != len(data):
        raise ValueError("there are bytes after its end")
    return value


def _item(data: bytes, at: int, depth: int) -> tuple[Any, int]:
    head = data[at]
    kind, length = head >> 5, head & 31
    at += 1
    if 24 <= length < 28 and kind != 7:
        digits, at = _piece(data, at, 1 << length - 24)
        length = int.from_bytes(digits, "big")
    elif length > 27 and not (length == OPEN and 2 <= kind <= 5):
        raise ValueError(f"byte {head} begins nothing")
    elif length == OPEN:
        length = -1
    if kind in (2, 3):
        text, at = _piece(data, at, length) if length >= 0 else _chunks(data, at, kind)
        return text if kind == 2 else text.decode(), at
    if kind in (4, 5):
        if not depth:
            raise ValueError(f"it is nested more than {DEEPEST} deep")
        items, at = _items(data, at, length, depth - 1, kind - 3)
        return items if kind == 4 else dict(zip(items[::2], items[1::2], strict=True)), at
    if kind == 6:
        raise ValueError(f"it has a tag ({length}), and a payload has none")
    if kind == 7:
        if length in SIMPLE:
            return SIMPLE[length], at
        if length not in FLOATS:
            raise ValueError(f"simple value {length} means nothing")
        digits, at = _piece(data, at, 2 << length - 25)
        return struct.unpack(FLOATS[length], digits)[0], at
    return (length if kind == 0 else -1 - length), at


def _piece(data: bytes, at: int, length: int) -> tuple[bytes, int]:
    if length > len(data) - at:
        raise IndexError
    return data[at : at + length], at + length


def _chunks(data: bytes, at: int, kind: int) -> tuple[bytes, int]:
    parts = []
    while data[at] != BREAK:
        if data[at] >> 5 != kind or data[at] & 31 == OPEN:
            raise ValueError("the parts of a string are not strings")
        part, at = _item(data, at, 0)
        parts.append(part if kind == 2 else part.encode())
    return b"".join(parts), at + 1


def _items(data: bytes, at: int, length: int, depth: int, each: int) -> tuple[list[Any], int]:
    """The items of a list, or of a map, which has two for `each`: a name and a value."""
    items: list[Any] = []
    while data[at] != BREAK if length < 0 else len(items) < length * each:
        if each == 2 and data[at] >> 5 != 3:
            raise ValueError("the names in a map are texts")
        for _ in range(each):
            item, at = _item(data, at, depth)
            items.append(item)
    return items, at + (length < 0)


SMALLEST = 36  # bytes of a contribution without an id; one with an id has 4 more and those of the id


class Columns(NamedTuple):
    """Contributions, those of one report beside each other, without the null ones."""

    report: NDArray[np.int64]  # the place of its payload
    keys: NDArray[np.uint64]  # (n, 2): high and low
    value: NDArray[np.int64]
    filtering_id: NDArray[np.uint64]
    nulls: NDArray[np.int64]  # how many null ones each payload has


Part = tuple[NDArray[np.int64], NDArray[np.uint64], NDArray[np.int64], NDArray[np.uint64]]  # the first four of these


class PayloadLayout(NamedTuple):
    """Where things stand in payloads of one length."""

    number: int
    id_bytes: int
    begin: int
    fixed: NDArray[np.uint8]  # 255 where a byte is known
    known: NDArray[np.uint8]  # the byte there


def columns(payloads: Sequence[bytes]) -> tuple[Columns, dict[int, Fault]]:
    """The contributions of all payloads, and for each payload that is none, by its place, why."""
    head = slice(len(BEGINNING), len(BEGINNING) + 3)  # the length of the list, if a browser wrote it
    groups: dict[tuple[int, bytes], list[int]] = {}
    for place, payload in enumerate(payloads):
        groups.setdefault((len(payload), payload[head]), []).append(place)
    parts: list[Part] = []
    faults: dict[int, Fault] = {}
    for (length, start), places in groups.items():
        layout = layout_of(length, start)
        others = places
        if layout is not None:
            table = np.frombuffer(b"".join([payloads[i] for i in places]), np.uint8).reshape(-1, length)
            alike = ((table & layout.fixed) == layout.known).all(axis=1)
            parts.append(_at_once(table[alike], np.array(places)[alike], layout))
            others = np.array(places)[~alike].tolist()
        for place in others:
            try:
                parts.append(_one(decode(payloads[place]), place))
            except Fault as fault:
                faults[place] = fault
    report, keys, value, ids = (np.concatenate(each) for each in zip(*parts or [_one([], 0)], strict=True))
    null = (value == 0) & (keys[:, 0] == 0) & (keys[:, 1] == 0)
    nulls = np.bincount(report[null], minlength=len(payloads))
    return Columns(report[~null], keys[~null], value[~null], ids[~null], nulls), faults


@lru_cache(64)
def layout_of(length: int, head: bytes) -> PayloadLayout | None:
    """How payloads of that length are laid out if browsers wrote them, judging by the length of their list."""
    if length > MOST_BYTES or not head or not (0x80 <= head[0] <= 0x99):
        return None
    number = head[0] & 31 if head[0] < 0x98 else int.from_bytes(head[1 : head[0] - 0x96], "big")
    begin = len(BEGINNING) + len(array_head(number))
    body = length - begin - len(END)
    if number < 1 or body < 0 or body % number:
        return None
    size = body // number
    id_bytes = max(size - SMALLEST - 4, 0)
    if size != SMALLEST and not 1 <= id_bytes <= MOST_ID_BYTES:
        return None
    version, width = ("1.0", id_bytes) if id_bytes else ("0.1", 1)
    least = Contribution(0, 0)
    most = Contribution(256**KEY_BYTES - 1, 256**VALUE_BYTES - 1, 256**id_bytes - 1)
    zeros, ones = (np.frombuffer(encode([c] * number, version, number, width), np.uint8) for c in (least, most))
    same = zeros == ones
    fixed, known = (np.where(same, byte, 0).astype(np.uint8) for byte in (255, zeros))
    return PayloadLayout(number, id_bytes, begin, fixed, known)


def _at_once(table: NDArray[np.uint8], places: NDArray[np.int64], layout: PayloadLayout) -> Part:
    size = (table.shape[1] - layout.begin - len(END)) // layout.number
    rows = table[:, layout.begin : -len(END)].reshape(len(table) * layout.number, size)
    keys = np.ascontiguousarray(rows[:, -KEY_BYTES:]).view(">u8").astype(np.uint64)
    value_at = size - KEY_BYTES - 8 - VALUE_BYTES  # between them: the name of the key and its length
    value = np.ascontiguousarray(rows[:, value_at : value_at + VALUE_BYTES]).view(">u4").astype(np.int64)[:, 0]
    ids = np.zeros(len(rows), np.uint64)
    for j in range(layout.id_bytes):
        ids = (ids << np.uint64(8)) | rows[:, 5 + j]
    return np.repeat(places, layout.number), keys, value, ids


def _one(contributions: list[Contribution], place: int) -> Part:
    keys = np.array([[c.key >> 64, c.key & 2**64 - 1] for c in contributions], np.uint64).reshape(-1, 2)
    value = np.array([c.value for c in contributions], np.int64)
    ids = np.array([c.filtering_id for c in contributions], np.uint64)
    return np.full(len(value), place), keys, value, ids
