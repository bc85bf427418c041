"""cbor: the values in a text of CBOR, without trust.

Reads what JSON has, and bytes: lists, maps with text keys, text, numbers. Tags are refused: they could make large
values of few bytes, or run code. Lengths are checked against the bytes that are there, and nesting is limited, so that
time and memory are proportional to the input.
"""

import struct
from typing import Any

DEEPEST = 8
OPEN = 31  # a length that is left open: items follow up to BREAK
BREAK = 0xFF
SIMPLE = {20: False, 21: True, 22: None, 23: None}
FLOATS = {25: ">e", 26: ">f", 27: ">d"}


def read(data: bytes) -> Any:
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
        size = 1 << length - 24
        if size > len(data) - at:
            raise IndexError
        length = int.from_bytes(data[at : at + size], "big")
        at += size
    elif length > 27 and not (length == OPEN and 2 <= kind <= 5):
        raise ValueError(f"byte {head} begins nothing")
    else:
        length = -1 if length == OPEN else length
    if kind in (2, 3):
        if length > len(data) - at:
            raise IndexError
        text, at = (data[at : at + length], at + length) if length >= 0 else _chunks(data, at, kind)
        return text if kind == 2 else text.decode(), at
    if kind in (4, 5):
        if not depth:
            raise ValueError(f"it is nested more than {DEEPEST} deep")
        return (_list if kind == 4 else _map)(data, at, length, depth - 1)
    if kind == 6:
        raise ValueError(f"it has a tag ({length}), and a payload has none")
    if kind == 7:
        if length in SIMPLE:
            return SIMPLE[length], at
        if length not in FLOATS:
            raise ValueError(f"simple value {length} means nothing")
        size = 2 << length - 25
        return struct.unpack(FLOATS[length], data[at : at + size])[0], at + size
    return (length if kind == 0 else -1 - length), at


def _chunks(data: bytes, at: int, kind: int) -> tuple[bytes, int]:
    parts = []
    while data[at] != BREAK:
        if data[at] >> 5 != kind or data[at] & 31 == OPEN:
            raise ValueError("the parts of a string are not strings")
        part, at = _item(data, at, 0)
        parts.append(part if kind == 2 else part.encode())
    return b"".join(parts), at + 1


def _list(data: bytes, at: int, length: int, depth: int) -> tuple[list[Any], int]:
    items: list[Any] = []
    while data[at] != BREAK if length < 0 else len(items) < length:
        value, at = _item(data, at, depth)
        items.append(value)
    return items, at + (length < 0)


def _map(data: bytes, at: int, length: int, depth: int) -> tuple[dict[str, Any], int]:
    entries: dict[str, Any] = {}
    while data[at] != BREAK if length < 0 else length > 0:
        if data[at] >> 5 != 3:
            raise ValueError("the names in a map are texts")
        short = data[at] - 0x60  # most names and values are: then they are read here, which is faster
        if short < 24 and at + short < len(data):
            at += short + 1
            name = data[at - short : at].decode()
        else:
            name, at = _item(data, at, depth)
        short = data[at] - 0x40
        if 0 <= short < 24 and at + short < len(data):
            at += short + 1
            entries[name] = data[at - short : at]
        else:
            entries[name], at = _item(data, at, depth)
        length -= length > 0
    return entries, at + (length < 0)
