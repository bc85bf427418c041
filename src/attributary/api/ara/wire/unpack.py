"""unpack: the bytes of a compressed Avro block, up to a limit."""

import zlib

CODECS = ("null", "deflate", "snappy", "zstandard")
MOST_UNPACKED = 2**26  # bytes of one block; writers make them of 16 to 64 thousand
SMALL = 2**16  # a block may always hold so much
MOST_RATIO = 200  # of bytes to packed bytes; reports in the clear, which are mostly padding, have about 30
FEW = 256  # records that a block may always hold
MOST_RECORDS = 8  # for each packed byte; keys in a row take about one byte each


def most_unpacked(length: int, codec: str) -> int:
    """How many bytes a block of that length may hold."""
    return length if codec == "null" else min(max(SMALL, MOST_RATIO * length), MOST_UNPACKED)


def most_records(length: int, codec: str) -> int:
    """How many records a block of that length may hold: none of ours is empty."""
    return length if codec == "null" else MOST_RECORDS * length + FEW


def unpacked(data: bytes, codec: str) -> bytes:
    """What a block held before it was packed; a ValueError, OSError or zlib.error if it is damaged or too much."""
    if codec == "null":
        return data
    most = most_unpacked(len(data), codec)
    if codec == "deflate":
        unpacker = zlib.decompressobj(-15)
        found = unpacker.decompress(data, most + 1)
        if not unpacker.eof or len(found) > most:
            raise ValueError("a block ends too early, or is too long")
        return found
    return _snappy(data, most) if codec == "snappy" else _zstandard(data, most)


def _snappy(data: bytes, most: int) -> bytes:
    import pyarrow as pa

    packed, checksum = data[:-4], data[-4:]
    length = 0
    for i, byte in enumerate(packed[:5]):
        length |= (byte & 127) << 7 * i
        if byte < 128:
            break
    if length > min(most, 64 * len(packed)):  # two bytes stand for 64 at most
        raise ValueError("a block is too long")
    found: bytes = pa.Codec("snappy").decompress(packed, length, asbytes=True)
    if zlib.crc32(found) != int.from_bytes(checksum, "big"):
        raise ValueError("a block is not what was packed")
    return found


def _zstandard(data: bytes, most: int) -> bytes:
    import pyarrow as pa

    with pa.CompressedInputStream(pa.BufferReader(data), "zstd") as stream:
        found: bytes = stream.read(most + 1)
    if len(found) > most:
        raise ValueError("a block is too long")
    return found
