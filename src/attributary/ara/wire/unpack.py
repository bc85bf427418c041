"""unpack: the bytes of a compressed Avro block, up to a limit."""

import zlib

CODECS = ("null", "deflate", "snappy", "zstandard")
MOST_UNPACKED = 2**28  # bytes of one block; writers make them of 16 to 64 thousand


def unpacked(data: bytes, codec: str) -> bytes:
    """What a block held before it was packed; a ValueError, OSError or zlib.error if it is damaged or too much."""
    if codec == "null":
        return data
    if codec == "deflate":
        unpacker = zlib.decompressobj(-15)
        found = unpacker.decompress(data, MOST_UNPACKED)
        if not unpacker.eof:
            raise ValueError("a block ends too early, or is too long")
        return found
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
    found: bytes = pa.Codec("snappy").decompress(packed, length, asbytes=True)
    if zlib.crc32(found) != int.from_bytes(checksum, "big"):
        raise ValueError("a block is not what was packed")
    return found


def _zstandard(data: bytes) -> bytes:
    import pyarrow as pa

    with pa.CompressedInputStream(pa.BufferReader(data), "zstd") as stream:
        found: bytes = stream.read(MOST_UNPACKED + 1)
    if len(found) > MOST_UNPACKED:
        raise ValueError("a block is too long")
    return found
