"""Encoded: keys and numbers as the bytes of Avro records, many at a time.

A record's bytes are laid out in a matrix with room for the longest, and a mask says which of them are there.
"""

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from attributary.types import Ints, Keys

Bytes = NDArray[np.uint8]
Mask = NDArray[np.bool_]
IN_BLOCK = 2**13  # records: what a block needs stays in the cache
TAGS = np.array([[0, 0, 0, 0], [2, 0, 0, 0], [2, 2, 0, 0], [4, 0, 2, 0]], np.uint8)  # lists of enums: none, 0, 1, both
TAG_BYTES = np.array([1, 3, 3, 4])


def encoded_domain(keys: Keys) -> Iterator[tuple[int, bytes]]:
    """Blocks of records {key}, with all 16 bytes of each."""
    for some in _parts(len(keys)):
        table = np.empty((len(keys[some]), 17), np.uint8)
        table[:, 0] = 2 * 16
        table[:, 1:] = key_bytes(keys[some])
        yield len(table), table.tobytes()


def encoded_results(keys: Keys, longs: Sequence[Ints], tags: Ints | None = None) -> Iterator[tuple[int, bytes]]:
    """Blocks of records {key without leading zero bytes, numbers, perhaps a list of tags}."""
    for some in _parts(len(keys)):
        parts = [_short_keys(keys[some]), *(_varints(column[some]) for column in longs)]
        if tags is not None:
            parts.append((TAGS[tags[some]], np.arange(4) < TAG_BYTES[tags[some], None]))
        table, there = (np.concatenate([part[i] for part in parts], axis=1) for i in (0, 1))
        yield len(table), table[there].tobytes()


def key_bytes(keys: Keys) -> Bytes:
    """The 16 bytes of each key, the highest first."""
    return np.ascontiguousarray(keys, ">u8").view(np.uint8).reshape(-1, 16)


def _short_keys(keys: Keys) -> tuple[Bytes, Mask]:
    digits = key_bytes(keys)
    some = digits != 0
    zeros = np.where(some.any(axis=1), some.argmax(axis=1), 16)
    table = np.empty((len(keys), 17), np.uint8)
    table[:, 0] = 2 * (16 - zeros)
    table[:, 1:] = digits
    there = np.arange(-1, 16) >= zeros[:, None]
    there[:, 0] = True
    return table, there


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
