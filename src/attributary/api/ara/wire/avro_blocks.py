"""avro_blocks: an Avro file as a header and blocks of records, read without trust and written whole.

A block states its length and number of records. Neither is trusted: the length is checked against the file, the number
of records against the length, and unpacking stops at a limit. Any flat schema that has the fields asked for is read row
by row. Keys and numbers are read and written many at a time: a record's bytes are laid out in a matrix with room for
the longest, and a mask says which of them are there.
"""

import hashlib
import json
import os
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import islice
from typing import Any, BinaryIO, NamedTuple

import numpy as np
from numpy.typing import NDArray

from attributary.errors import brief
from attributary.types import Bools, Ints, Keys
from attributary.whole_files import output_file

MAGIC = b"Obj\x01"
SYNC = 16  # bytes of the marker after each block
MOST_HEADER = 2**20
SMALLEST_TOLD = 64  # bytes; of a damaged stretch after another one, which is shorter than any report


class Damaged(ValueError):  # noqa: N818
    """A file that does not agree with its own header or blocks; where."""


@dataclass(frozen=True)
class Header:
    """What an Avro file says of all its blocks."""

    schema: Any
    codec: str
    metadata: Mapping[str, bytes]
    sync: bytes
    end: int  # where the first block begins


def read_header(file: BinaryIO) -> Header:
    data = file.read(MOST_HEADER)
    if not data.startswith(MAGIC):
        raise Damaged("it is not an Avro file")
    try:
        metadata, end = _metadata(data, len(MAGIC))
        schema = json.loads(metadata["avro.schema"])
        codec = metadata.get("avro.codec", b"null").decode()
    except (KeyError, IndexError, ValueError, RecursionError):
        raise Damaged("its header is damaged") from None
    if codec not in CODECS:
        raise Damaged(f"it is packed with {brief(codec)}; pack it with one of {', '.join(CODECS)}")
    if len(data) < end + SYNC:
        raise Damaged("it ends within its header")
    return Header(schema, codec, metadata, data[end : end + SYNC], end + SYNC)


def _metadata(data: bytes, at: int) -> tuple[dict[str, bytes], int]:
    metadata: dict[str, bytes] = {}
    while True:
        count, at = number(data, at)
        if count == 0:
            return metadata, at
        if count < 0:  # then the block's size follows
            _, at = number(data, at)
        for _ in range(abs(count)):
            name, at = _piece(data, at)
            metadata[name.decode()], at = _piece(data, at)


def _piece(data: bytes, at: int) -> tuple[bytes, int]:
    length, at = number(data, at)
    if not 0 <= length <= len(data) - at:
        raise Damaged("a length goes beyond the end")
    return data[at : at + length], at + length


def number(data: bytes, at: int) -> tuple[int, int]:
    """The whole number at a place, and the place after it; an IndexError beyond the end."""
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            break
        shift += 7
        if shift > 63:
            raise Damaged("a number has more than 64 bits")
    if value >> 64:
        raise Damaged("a number has more than 64 bits")
    return value >> 1 ^ -(value & 1), at


def blocks(file: BinaryIO, header: Header) -> Iterator[tuple[int, bytes]]:
    """For each block the number of its records, and their bytes; Damaged where one is not whole."""
    size = os.fstat(file.fileno()).st_size
    at = header.end
    while at < size:
        count, data, at = block(file, header, at, size)
        yield count, data


def places(file: BinaryIO, header: Header) -> Iterator[tuple[int, int, int]]:
    """Where each block is, how many records it says it has, and how many bytes they take, unpacked.

    Where one is damaged both are 0, and the next begins after the next marker.
    """
    size = os.fstat(file.fileno()).st_size
    at, damaged = header.end, False
    while at < size:
        try:
            count, begin, length = _head(file, at, size)
            file.seek(begin + length)
            if file.read(SYNC) != header.sync:
                raise Damaged
        except Damaged:
            marker, after = _next_marker(file, header.sync, at, size)
            if not damaged or marker - at > SMALLEST_TOLD:
                yield at, 0, 0
            at, damaged = after, True
            continue
        if count or length:
            plain = length
            if header.codec != "null":
                try:
                    plain = len(block(file, header, at, size)[1])
                except Damaged:
                    plain = 0
            yield at, count if count <= plain else 0, plain
        at, damaged = begin + length + SYNC, False


def block(file: BinaryIO, header: Header, at: int, size: int) -> tuple[int, bytes, int]:
    """The block at a place of a file of that size: the number of its records, their bytes, and the place after it."""
    count, begin, length = _head(file, at, size)
    file.seek(begin)
    data, marker = file.read(length), file.read(SYNC)
    if marker != header.sync:
        raise Damaged(f"the block at byte {at} does not end in the file's marker")
    try:
        data = unpacked(data, header.codec)
    except (ValueError, OSError, zlib.error):
        words = f"the block at byte {at} does not unpack as {header.codec} into {MOST_UNPACKED:,} bytes at most"
        raise Damaged(words) from None
    if count > min(len(data), length if header.codec == "null" else MOST_RECORDS * length + FEW):
        raise Damaged(f"the block at byte {at} says that {len(data)} bytes hold {count} records")
    return count, data, begin + length + SYNC


def _head(file: BinaryIO, at: int, size: int) -> tuple[int, int, int]:
    """What a block says of itself: the number of its records, where their bytes begin, and how many there are."""
    file.seek(at)
    try:
        head = file.read(20)
        count, used = number(head, 0)
        length, used = number(head, used)
    except (IndexError, Damaged):
        raise Damaged(f"the block at byte {at} has no number of records and length") from None
    begin = at + used
    if not (0 <= length <= size - begin - SYNC and count >= 0):
        raise Damaged(f"the block at byte {at} goes beyond the end of the file")
    return count, begin, length


def _next_marker(file: BinaryIO, sync: bytes, at: int, size: int) -> tuple[int, int]:
    """Where the next marker is, and where it ends, with those that follow at once."""
    window = 2**12  # markers may stand close together: then most of a large one would be read in vain
    while at < size:
        file.seek(at)
        part = file.read(window)
        place = part.find(sync)
        if place >= 0:
            end = place + SYNC
            while part.startswith(sync, end):  # no block begins so
                end += SYNC
            return at + place, at + end
        if len(part) <= SYNC:
            break
        at += len(part) - SYNC + 1
        window = min(2 * window, 2**20)
    return size, size


def write(
    path: str, schema: Mapping[str, Any], blocks: Iterable[tuple[int, bytes]], notes: Mapping[str, str] | None = None
) -> None:
    """Writes an Avro file, whole or not at all, with the notes that say something; the same records, the same bytes."""
    text = json.dumps(schema, separators=(",", ":")).encode()
    metadata = {"avro.schema": text, "avro.codec": b"null"} | {k: v.encode() for k, v in (notes or {}).items() if v}
    pairs = [part for name, value in metadata.items() for part in (name.encode(), value)]
    head = encoded(len(metadata)) + b"".join(encoded(len(part)) + part for part in pairs) + encoded(0)
    sync = hashlib.sha256(head).digest()[:SYNC]
    with output_file(path) as file:
        file.write(MAGIC + head + sync)
        for count, data in blocks:
            file.write(encoded(count) + encoded(len(data)))
            file.write(data)
            file.write(sync)


def encoded(number: int) -> bytes:
    """A whole number as Avro writes it."""
    rest = number << 1 ^ number >> 63
    out = bytearray()
    while rest > 127:
        out.append(rest & 127 | 128)
        rest >>= 7
    out.append(rest)
    return bytes(out)


CODECS = ("null", "deflate", "snappy", "zstandard")
MOST_UNPACKED = 2**26  # bytes of one block; writers make them of 16 to 64 thousand, or of one report
CHUNK = 2**16
FEW = 256  # records that a packed block may always hold; of others each has a byte at least
MOST_RECORDS = 8  # for each packed byte; keys in a row take about one byte each, and the id of a report more than ten


def unpacked(data: bytes, codec: str) -> bytes:
    """What a block held before it was packed; a ValueError, OSError or zlib.error if it is damaged or too much."""
    if codec == "null":
        return data
    if codec == "deflate":
        unpacker = zlib.decompressobj(-15)
        plain = unpacker.decompress(data, MOST_UNPACKED + 1)
        if not unpacker.eof or len(plain) > MOST_UNPACKED:
            raise ValueError("a block ends too early, or is too long")
        return plain
    return _snappy(data) if codec == "snappy" else _zstandard(data)


def _snappy(data: bytes) -> bytes:
    import pyarrow as pa

    packed, checksum = data[:-4], data[-4:]
    length = 0
    for i, byte in enumerate(packed[:5]):
        length |= (byte & 127) << 7 * i
        if byte < 128:
            break
    if length > min(MOST_UNPACKED, 64 * len(packed)):  # two bytes stand for 64 at most
        raise ValueError("a block is too long")
    plain: bytes = pa.Codec("snappy").decompress(packed, length, asbytes=True)
    if zlib.crc32(plain) != int.from_bytes(checksum, "big"):
        raise ValueError("a block is not what was packed")
    return plain


def _zstandard(data: bytes) -> bytes:
    import pyarrow as pa

    with pa.CompressedInputStream(pa.BufferReader(data), "zstd") as stream:
        plain = b"".join(islice(iter(lambda: stream.read(CHUNK), b""), MOST_UNPACKED // CHUNK + 1))
    if len(plain) > MOST_UNPACKED:
        raise ValueError("a block is too long")
    return plain


Bytes = NDArray[np.uint8]
BYTES, LONG, NULL = "bytes", "long", "null"
KINDS = {"bytes": BYTES, "string": BYTES, "long": LONG, "int": LONG, "enum": LONG, "null": NULL}
MOST_FIELDS = 100
SIZES = {"boolean": 1, "float": 4, "double": 8}  # of fields that are passed over


class RecordField(NamedTuple):
    kind: str
    size: int  # of a field that is passed over
    null: int  # which of the two branches of a union is null; -1 if there is no union
    place: int  # among the fields asked for; -1 if it was not


def record_fields(schema: object, wanted: Mapping[str, str]) -> list[RecordField]:
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
    null = kind.index("null") if isinstance(kind, list) and len(kind) == 2 and "null" in kind else -1
    if null >= 0:
        kind = kind[1 - null]
    if isinstance(kind, dict):
        kind = kind.get("type")
    if not isinstance(kind, str):
        return None
    known = kind in KINDS or kind in SIZES
    return RecordField(KINDS.get(kind, kind), SIZES.get(kind, 0), null, place) if known else None


def rows(data: bytes, count: int, fields: list[RecordField], width: int) -> Iterator[list[Any]]:
    """The wanted values of each record; Damaged where a record is not whole or null."""
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


MANY = 2**22  # bytes of a file; compiling the scan costs about a second, once


def scanned(data: bytes, count: int, fields: list[RecordField], width: int, many: bool) -> tuple[Keys, Ints]:
    """The keys (n, 2) and numbers (n, k) of a block's records, as `fields` has them; compiled if there are many."""
    plain = [field.kind for field in fields] == [BYTES] + [LONG] * (width - 1)
    plain = plain and all(field.null < 0 and field.place == i for i, field in enumerate(fields))
    if plain and width == 1 and len(data) == 17 * count:
        table = np.frombuffer(data, np.uint8).reshape(-1, 17)
        if (table[:, 0] == 2 * 16).all():
            return np.ascontiguousarray(table[:, 1:]).view(">u8").astype(np.uint64), np.empty((count, 0), np.int64)
    if plain and many:
        digits, numbers = np.zeros((count, 16), np.uint8), np.zeros((count, width - 1), np.int64)
        if _compiled_walk()(np.frombuffer(data, np.uint8), digits, numbers) != len(data):
            raise Damaged("a block and its records do not end together, or a key has more than 16 bytes")
        return digits.view(">u8").astype(np.uint64), numbers
    records = list(rows(data, count, fields, width))
    longest = max((len(row[0]) for row in records), default=0)
    if longest > 16:
        raise Damaged(f"a key has 16 bytes at most; got {longest}")
    keys = np.frombuffer(b"".join(row[0].rjust(16, b"\0") for row in records), ">u8").astype(np.uint64).reshape(-1, 2)
    return keys, np.array([row[1:] for row in records], np.int64).reshape(count, width - 1)


@cache
def _compiled_walk() -> Callable[..., Any]:
    from numba import njit

    return njit(nogil=True)(walk)


def walk(data: Bytes, keys: Bytes, numbers: NDArray[np.int64]) -> int:
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


def _short_keys(keys: Keys) -> tuple[Bytes, Bools]:
    digits = _digits(keys)
    some = digits != 0
    zeros = np.where(some.any(axis=1), some.argmax(axis=1), 16)
    there = np.arange(-1, 16) >= zeros[:, None]
    there[:, 0] = True
    return np.insert(digits, 0, 2 * (16 - zeros), axis=1), there


def _varints(numbers: Ints) -> tuple[Bytes, Bools]:
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
