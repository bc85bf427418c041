"""Scan: the keys and numbers of an Avro block as arrays."""

from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from attributary.api.ara.wire.container import Damaged
from attributary.api.ara.wire.rows import BYTES, LONG, Field, rows

MANY = 2**22  # bytes of a file; compiling the scan costs about a second, once


class Block(NamedTuple):
    """(n, 2) halves of keys, and (n, k) numbers."""

    keys: NDArray[np.uint64]
    longs: NDArray[np.int64]


def scanned(data: bytes, count: int, fields: list[Field], width: int, many: bool) -> Block:
    """The records of a block: a key first, then numbers, as `fields` asks for them; compiled if there are many."""
    plain = [field.kind for field in fields] == [BYTES] + [LONG] * (width - 1)
    plain = plain and all(field.null < 0 and field.place == i for i, field in enumerate(fields))
    if plain and width == 1 and len(data) == 17 * count:
        table = np.frombuffer(data, np.uint8).reshape(-1, 17)
        if (table[:, 0] == 2 * 16).all():
            return Block(_keys(np.ascontiguousarray(table[:, 1:])), np.empty((count, 0), np.int64))
    if plain and many:
        return _compiled_scan(data, count, width - 1)
    return _slow_scan(data, count, fields, width)


def _slow_scan(data: bytes, count: int, fields: list[Field], width: int) -> Block:
    found = list(rows(data, count, fields, width))
    longest = max((len(row[0]) for row in found), default=0)
    if longest > 16:
        raise Damaged(f"a key has 16 bytes at most; got {longest}")
    keys = np.frombuffer(b"".join(row[0].rjust(16, b"\0") for row in found), np.uint8).reshape(-1, 16)
    return Block(_keys(keys), np.array([row[1:] for row in found], np.int64).reshape(count, width - 1))


def _compiled_scan(data: bytes, count: int, longs: int) -> Block:
    keys, numbers = np.zeros((count, 16), np.uint8), np.zeros((count, longs), np.int64)
    end = _walk()(np.frombuffer(data, np.uint8), keys, numbers)
    if end != len(data):
        raise Damaged("a block and its records do not end together, or a key has more than 16 bytes")
    return Block(_keys(keys), numbers)


@cache
def _walk() -> Callable[..., Any]:
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
