"""avro_container: an Avro file as a header and blocks of records, read without trust and written whole.

A block states its length and number of records. Neither is trusted: the length is checked against the file, the number
of records against the length, and unpacking stops at a limit.
"""

import hashlib
import json
import os
import zlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any, BinaryIO

from attributary.errors import InputError, brief
from attributary.whole_files import whole_file

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
    """Writes an Avro file, whole or not at all; the same records make the same bytes."""
    text = json.dumps(schema, separators=(",", ":")).encode()
    metadata = {"avro.schema": text, "avro.codec": b"null"} | {k: v.encode() for k, v in (notes or {}).items()}
    pairs = [part for name, value in metadata.items() for part in (name.encode(), value)]
    head = encoded(len(metadata)) + b"".join(encoded(len(part)) + part for part in pairs) + encoded(0)
    sync = hashlib.sha256(head).digest()[:SYNC]
    try:
        with whole_file(path) as file:
            file.write(MAGIC + head + sync)
            for count, data in blocks:
                file.write(encoded(count) + encoded(len(data)))
                file.write(data)
                file.write(sync)
    except OSError as error:
        raise InputError(f"{path} cannot be written: {error.strerror or error}") from error


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
