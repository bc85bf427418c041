"""Payload: the contributions of a report as CBOR, to the byte as browsers write it."""

import re
from collections.abc import Sequence
from typing import Any, Final

from attributary.api.ara.wire import cbor
from attributary.api.ara.wire.contribution import Contribution
from attributary.api.ara.wire.fault import Category, Fault
from attributary.errors import brief

VERSIONS: Final = ("", "0.1", "1.0")
MAJOR: Final = re.compile(r"(?!0+\.0+$)0*([01])\.[0-9]{1,9}")  # 0.0 is no version
PADDED_TO: Final = 20  # contributions of a report, null ones included, so that its size says nothing
BEGINNING: Final = b"\xa2\x64data"
END: Final = b"\x69operation\x69histogram"
KEY_BYTES, VALUE_BYTES, MOST_ID_BYTES = 16, 4, 8
MOST_BYTES: Final = 2**22  # of a payload; 65,535 contributions, the most that a browser could write, take fewer


def is_version(version: Any) -> bool:
    """Whether reports of a version can be read: by its major number, 0 or 1, or the first, which had none."""
    return isinstance(version, str) and (version == "" or MAJOR.fullmatch(version) is not None)


def like(version: Any) -> str:
    """Which of VERSIONS reports of a version are like; a Fault if it cannot be read."""
    if not is_version(version):
        raise Fault(
            f"the version of a report begins with 0 or 1, as in 0.1 and 1.0; got {brief(version)}",
            Category.UNSUPPORTED_SHAREDINFO_VERSION,
        )
    match = MAJOR.fullmatch(version)
    return "" if match is None else VERSIONS[1 + int(match[1])]


def encode(
    contributions: Sequence[Contribution], version: str = "1.0", pad_to: int = PADDED_TO, id_bytes: int = 1
) -> bytes:
    """The CBOR of some contributions, padded with null ones; version "" has no padding.

    Filtering ids take `id_bytes` bytes each from version 1.0 on, and earlier versions have none.
    """
    version = like(version)
    if not 1 <= id_bytes <= MOST_ID_BYTES:
        raise ValueError(f"a filtering id has 1 to {MOST_ID_BYTES} bytes; got {id_bytes}")
    missing = 0 if version == "" else max(pad_to - len(contributions), 0)
    rows = [*contributions, *[Contribution(0, 0)] * missing]
    has_id = version == "1.0"
    records = (record_beginning(id_bytes if has_id else 0, c) for c in rows)
    body = b"".join(
        start + _uint(c.value, VALUE_BYTES, "value") + b"\x66bucket\x50" + _uint(c.key, KEY_BYTES, "key")
        for start, c in zip(records, rows, strict=True)
    )
    return BEGINNING + array_head(len(rows)) + body + END


def record_beginning(id_bytes: int, contribution: Contribution) -> bytes:
    """What stands before the value of a contribution; the members come shortest first, as in canonical CBOR."""
    if not id_bytes:
        if contribution.filtering_id:
            raise ValueError(f"filtering ids need version 1.0; got {contribution.filtering_id}")
        return b"\xa2\x65value\x44"
    identity = _uint(contribution.filtering_id, id_bytes, "filtering id")
    return b"\xa3\x62id" + bytes([0x40 + id_bytes]) + identity + b"\x65value\x44"


def array_head(length: int) -> bytes:
    """The beginning of an array of that length."""
    if length < 24:
        return bytes([0x80 + length])
    return bytes([0x98, length]) if length < 256 else b"\x99" + _uint(length, 2, "number of contributions")


def decode(data: bytes) -> list[Contribution]:
    """All contributions of a payload, null ones included; whatever is not such a payload is a Fault.

    Besides what browsers write, this takes members in any order, lengths left open, and numbers with leading zero
    bytes left out, as test tools write them.
    """
    if len(data) > MOST_BYTES:
        raise Fault(f"a payload has {MOST_BYTES:,} bytes at most; got {len(data):,}")
    try:
        found = cbor.read(data)
    except ValueError as error:
        raise Fault(f"the payload is not CBOR as browsers write it: {error}") from None
    if not isinstance(found, dict):
        raise Fault(f"a payload is a map with names; got {brief(found)}")
    if found.get("operation") != "histogram":
        raise Fault(
            f'a payload has operation "histogram"; got {brief(found.get("operation"))}', Category.UNSUPPORTED_OPERATION
        )
    rows = found.get("data")
    if not isinstance(rows, list):
        raise Fault(f"a payload has a list of contributions as data; got {brief(rows)}")
    return [_contribution(row) for row in rows]


def _contribution(row: Any) -> Contribution:
    if not isinstance(row, dict) or "bucket" not in row or "value" not in row:
        raise Fault(f"a contribution has bucket, value and perhaps id; got {brief(row)}")
    return Contribution(
        _number(row["bucket"], KEY_BYTES, "bucket"),
        _number(row["value"], VALUE_BYTES, "value"),
        _number(row.get("id", b""), MOST_ID_BYTES, "id"),
    )


def _number(data: Any, most: int, name: str) -> int:
    if not isinstance(data, bytes) or len(data) > most:
        raise Fault(f"the {name} of a contribution is up to {most} bytes; got {brief(data)}")
    return int.from_bytes(data, "big")


def _uint(number: int, size: int, name: str) -> bytes:
    if not 0 <= number < 256**size:
        raise ValueError(f"a {name} here is a whole number from 0 to {256**size - 1}; got {number}")
    return number.to_bytes(size, "big")
