"""avro_records: the records of Avro blocks as rows and as arrays, and keys and numbers as records.

Any flat schema that has the fields asked for is read row by row. Keys and numbers are read and written many at a time:
a record's bytes are laid out in a matrix with room for the longest, and a mask says which of them are there.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from attributary.api.ara.wire.avro_container import Damaged, number
from attributary.errors import brief
from attributary.types import Ints, Keys

BYTES, LONG, NULL = "bytes", "long", "null"
KINDS = {"bytes": BYTES, "string": BYTES, "long": LONG, "int": LONG, "enum": LONG, "null": NULL}
MOST_FIELDS = 100
SIZES = {"boolean": 1, "float": 4, "double": 8}  # of fields that are passed over


class RecordField(NamedTuple):
    kind: str
    size: int  # of a field that is passed over
    null: int  # which of the two branches of a union is null; -1 if there is no union
    place: int  # among the fields asked for; -1 if it was not


def record_fields(schema: Any, wanted: Mapping[str, str]) -> list[RecordField]:
    """The fields of a record in their order; refuses what lacks a wanted field of its kind, or is not flat."""
    if not isinstance(schema, dict) or schema.get("type") != "record" or not isinstance(schema.get("fields"), list):
        raise Damaged("its schema is not a record")
    places = {name: place for place, name in enumerate(wanted)}
    fields, names = [], set()
    if len(schema["fields"]) > MOST_FIELDS:
        raise Damaged(f"its records have more than {MOST_FIELDS} fields")
    for given in schema["fields"]:
        name = given.get("name") if isinstance(given, dict) else None
        if not isinstance(name, str):
            raise Damaged(f"its schema has a field without a name: {brief(given)}")
        field = _field(given.get("type"), places.get(name, -1))
        if field is None:
            raise Damaged(f"its field {brief(name)} is of a kind that has no place here")
        if field.place >= 0 and (field.kind != wanted[name] or name in names):
            raise Damaged(f"its field {brief(name)} is not {wanted[name]}")
        names.add(name)
        fields.append(field)
    missing = [name for name in wanted if name not in names]
    if missing:
        raise Damaged(f"its records have no field {missing[0]!r}")
    return fields


def _field(kind: Any, place: int) -> RecordField | None:
    null = -1
    if isinstance(kind, list) and len(kind) == 2 and "null" in kind:
        null = kind.index("null")
        kind = kind[1 - null]
    if isinstance(kind, dict):
        kind = kind.get("type")
    if not isinstance(kind, str):
        return None
    if kind in SIZES:
        return RecordField(kind, SIZES[kind], null, place)
    return RecordField(KINDS[kind], 0, null, place) if kind in KINDS else None


def rows(data: bytes, count: int, fields: list[RecordField], width: int) -> Iterator[list[Any]]:
    """The wanted values of each record; Damaged where a record is not whole or null."""
    if all(field == (BYTES, 0, -1, i) for i, field in enumerate(fields)):
        yield from _byte_rows(data, count, width)
        return
    at, end = 0, len(data)
    for _ in range(count):
        row = [None] * width
        try:
            for kind, size, null, place in fields:
                value: Any = None
                if null >= 0:
                    branch, at = number(data, at)
                    if branch == null:
                        if place >= 0:
                            raise Damaged("a record has null where a value is needed")
                        continue
                if kind == BYTES:
                    length, at = number(data, at)
                    if not 0 <= length <= end - at:
                        raise Damaged("a record goes beyond the end of its block")
                    value = data[at : at + length]
                    at += length
                elif kind == LONG:
                    value, at = number(data, at)
                else:
                    at += size
                if place >= 0:
                    row[place] = value
        except IndexError:
            at = end + 1
        if at > end:
            raise Damaged("a record goes beyond the end of its block")
        yield row
    if at != end:
        raise Damaged("a block is longer than its records")


def _byte_rows(data: bytes, count: int, width: int) -> Iterator[list[Any]]:
    """The same for records of nothing but bytes, as reports are: of these there are many."""
    at, end = 0, len(data)
    fields = range(width)
    for _ in range(count):
        row = []
        try:
            for _ in fields:
                length = data[at]
                if length < 128 and not length & 1:  # most lengths take one byte or two
                    begin = at + 1
                    at = begin + (length >> 1)
                elif (more := data[at + 1]) < 128 and not length & 1:
                    begin = at + 2
                    at = begin + ((length & 127) >> 1 | more << 6)
                else:
                    length, begin = number(data, at)
                    at = begin + length if length >= 0 else end + 1
                row.append(data[begin:at])
        except IndexError:
            at = end + 1
        if at > end:
            raise Damaged("a record goes beyond the end of its block")
        yield row
    if at != end:
        raise Damaged("a block is longer than its records")


MANY = 2**22  # bytes of a file; compiling the scan costs about a second, once


def scanned(data: bytes, count: int, fields: list[RecordField], width: int, many: bool) -> tuple[Keys, Ints]:
    """The keys (n, 2) and numbers (n, k) of a block's records, as `fields` has them; compiled if there are many."""
    plain = [field.kind for field in fields] == [BYTES] + [LONG] * (width - 1)
    plain = plain and all(field.null < 0 and field.place == i for i, field in enumerate(fields))
    if plain and width == 1 and len(data) == 17 * count:
        table = np.frombuffer(data, np.uint8).reshape(-1, 17)
        if (table[:, 0] == 2 * 16).all():
            return _keys(np.ascontiguousarray(table[:, 1:])), np.empty((count, 0), np.int64)
    if plain and many:
        digits, numbers = np.zeros((count, 16), np.uint8), np.zeros((count, width - 1), np.int64)
        if _compiled_walk()(np.frombuffer(data, np.uint8), digits, numbers) != len(data):
            raise Damaged("a block and its records do not end together, or a key has more than 16 bytes")
        return _keys(digits), numbers
    records = list(rows(data, count, fields, width))
    longest = max((len(row[0]) for row in records), default=0)
    if longest > 16:
        raise Damaged(f"a key has 16 bytes at most; got {longest}")
    digits = np.frombuffer(b"".join(row[0].rjust(16, b"\0") for row in records), np.uint8).reshape(-1, 16)
    return _keys(digits), np.array([row[1:] for row in records], np.int64).reshape(count, width - 1)


@cache
def _compiled_walk() -> Callable[..., Any]:
    from numba import njit

    compiled: Callable[..., Any] = njit(nogil=True)(walk)
    return compiled


def walk(data: NDArray[np.uint8], keys: NDArray[np.uint8], numbers: NDArray[np.int64]) -> int:
    """Fills keys and numbers from records, and gives the place after the last; -1 if one is not whole."""
    at, end = 0, len(data)
    for i in range(len(keys)):
        if at >= end:
            return -1
        length = int(data[at])
        at += 1
        if length > 32 or length & 1 or at + length // 2 > end:
            return -1
        length //= 2
        for j in range(length):
            keys[i, 16 - length + j] = data[at + j]
        at += length
        for k in range(numbers.shape[1]):
            value = np.uint64(0)
            for j in range(10):
                if at >= end:
                    return -1
                byte = np.uint64(data[at])
                at += 1
                if j == 9 and byte > np.uint64(1):
                    return -1
                value |= (byte & np.uint64(127)) << np.uint64(7 * j)
                if byte < np.uint64(128):
                    break
            numbers[i, k] = np.int64(value >> np.uint64(1)) ^ -np.int64(value & np.uint64(1))
    return at


def _keys(digits: NDArray[np.uint8]) -> NDArray[np.uint64]:
    return digits.view(">u8").astype(np.uint64)


Bytes = NDArray[np.uint8]
Mask = NDArray[np.bool_]
IN_BLOCK = 2**13  # records: what a block needs stays in the cache
TAG_LISTS = np.array([[0, 0, 0, 0], [2, 0, 0, 0], [2, 2, 0, 0], [4, 0, 2, 0]], np.uint8)  # none, 0, 1, both
TAG_BYTES = np.array([1, 3, 3, 4])


def encoded_domain(keys: Keys) -> Iterator[tuple[int, bytes]]:
    """Blocks of records {key}, with all 16 bytes of each."""
    for some in _parts(len(keys)):
        table = np.insert(_digits(keys[some]), 0, 2 * 16, axis=1)
        yield len(table), table.tobytes()


def encoded_results(keys: Keys, longs: Sequence[Ints], tags: Ints | None = None) -> Iterator[tuple[int, bytes]]:
    """Blocks of records {key without leading zero bytes, numbers, perhaps a list of tags}."""
    for some in _parts(len(keys)):
        parts = [_short_keys(keys[some]), *(_varints(column[some]) for column in longs)]
        if tags is not None:
            parts.append((TAG_LISTS[tags[some]], np.arange(4) < TAG_BYTES[tags[some], None]))
        table, there = (np.concatenate([part[i] for part in parts], axis=1) for i in (0, 1))
        yield len(table), table[there].tobytes()


def _digits(keys: Keys) -> Bytes:
    """The 16 bytes of each key, the highest first."""
    return np.ascontiguousarray(keys, ">u8").view(np.uint8).reshape(-1, 16)


def _short_keys(keys: Keys) -> tuple[Bytes, Mask]:
    digits = _digits(keys)
    some = digits != 0
    zeros = np.where(some.any(axis=1), some.argmax(axis=1), 16)
    there = np.arange(-1, 16) >= zeros[:, None]
    there[:, 0] = True
    return np.insert(digits, 0, 2 * (16 - zeros), axis=1), there


def _varints(numbers: Ints) -> tuple[Bytes, Mask]:
    """Avro's numbers: sign last, then seven bits a byte, the lowest first."""
    rest = ((numbers << 1) ^ (numbers >> 63)).view(np.uint64)
    width = max(-(-int(rest.max(initial=0)).bit_length() // 7), 1)
    shifted = rest[:, None] >> (7 * np.arange(width, dtype=np.uint64))
    there = shifted > 0
    there[:, 0] = True
    more = np.zeros_like(there)
    more[:, :-1] = there[:, 1:]
    return (shifted & 127).astype(np.uint8) | np.where(more, np.uint8(128), np.uint8(0)), there


def _parts(length: int) -> Iterator[slice]:
    return (slice(i, i + IN_BLOCK) for i in range(0, length, IN_BLOCK))
