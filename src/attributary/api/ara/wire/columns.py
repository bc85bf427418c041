"""Columns: the contributions of many payloads as arrays.

Browsers write payloads byte for byte alike, but for keys, values and ids, so that those of one length are a matrix of
which the other columns are known. Payloads that are written differently are decoded one by one.
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from attributary.api.ara.wire.contribution import Contribution
from attributary.api.ara.wire.fault import Fault
from attributary.api.ara.wire.payload import (
    BEGINNING,
    END,
    KEY_BYTES,
    MOST_BYTES,
    MOST_ID_BYTES,
    VALUE_BYTES,
    array_head,
    decode,
    encode,
)

SMALLEST = 36  # bytes of a contribution without an id; one with an id has 4 more and those of the id


NONE = np.empty(0, np.int64)


class Columns(NamedTuple):
    """Contributions, those of one report beside each other, without the null ones."""

    report: NDArray[np.int64]  # the place of its payload
    keys: NDArray[np.uint64]  # (n, 2): high and low
    value: NDArray[np.int64]
    filtering_id: NDArray[np.uint64]
    nulls: NDArray[np.int64]  # how many null ones each payload has


class Layout(NamedTuple):
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
    parts: list[Columns] = []
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
    return _without_nulls(parts, len(payloads)), faults


def layout_of(length: int, head: bytes) -> Layout | None:
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
    return _layout(number, id_bytes, begin)


@lru_cache(64)
def _layout(number: int, id_bytes: int, begin: int) -> Layout:
    version, width = ("1.0", id_bytes) if id_bytes else ("0.1", 1)
    least = Contribution(0, 0)
    most = Contribution(256**KEY_BYTES - 1, 256**VALUE_BYTES - 1, 256**id_bytes - 1)
    zeros, ones = (np.frombuffer(encode([c] * number, version, number, width), np.uint8) for c in (least, most))
    same = zeros == ones
    return Layout(
        number, id_bytes, begin, np.where(same, 255, 0).astype(np.uint8), np.where(same, zeros, 0).astype(np.uint8)
    )


def _at_once(table: NDArray[np.uint8], places: NDArray[np.int64], layout: Layout) -> Columns:
    number, k = layout.number, layout.id_bytes
    size = (table.shape[1] - layout.begin - len(END)) // number
    rows = table[:, layout.begin : -len(END)].reshape(len(table) * number, size)
    keys = np.ascontiguousarray(rows[:, -KEY_BYTES:]).view(">u8").astype(np.uint64)
    value_at = rows.shape[1] - KEY_BYTES - 8 - VALUE_BYTES  # between them: the name of the key and its length
    value = np.ascontiguousarray(rows[:, value_at : value_at + VALUE_BYTES]).view(">u4").astype(np.int64)[:, 0]
    ids = np.zeros(len(rows), np.uint64)
    for j in range(k):
        ids = (ids << np.uint64(8)) | rows[:, 5 + j]
    return Columns(np.repeat(places, number), keys, value, ids, NONE)


def _one(contributions: list[Contribution], place: int) -> Columns:
    keys = np.array([[c.key >> 64, c.key & 2**64 - 1] for c in contributions], np.uint64).reshape(-1, 2)
    value = np.array([c.value for c in contributions], np.int64)
    ids = np.array([c.filtering_id for c in contributions], np.uint64)
    return Columns(np.full(len(value), place), keys, value, ids, NONE)


def _without_nulls(parts: list[Columns], payloads: int) -> Columns:
    if not parts:
        parts = [_one([], 0)]
    report, keys, value, ids = (np.concatenate([part[i] for part in parts]) for i in range(4))
    null = (value == 0) & (keys[:, 0] == 0) & (keys[:, 1] == 0)
    nulls = np.bincount(report[null], minlength=payloads)
    if not null.any():
        return Columns(report, keys, value, ids, nulls)
    return Columns(report[~null], keys[~null], value[~null], ids[~null], nulls)
