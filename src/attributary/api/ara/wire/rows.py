"""Rows: the records of an Avro block as lists of values, for any flat schema that has the fields asked for."""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from attributary.api.ara.wire.container import Damaged, number
from attributary.errors import brief

BYTES, LONG, TAGS, NULL = "bytes", "long", "tags", "null"
KINDS = {"bytes": BYTES, "string": BYTES, "long": LONG, "int": LONG, "enum": LONG, "null": NULL}
MOST_FIELDS = 100
SIZES = {"boolean": 1, "float": 4, "double": 8}  # of fields that are passed over


class Field(NamedTuple):
    kind: str
    size: int  # of a field that is passed over
    null: int  # which of the two branches of a union is null; -1 if there is no union
    place: int  # among the fields asked for; -1 if it was not


def layout(schema: Any, wanted: Mapping[str, str]) -> list[Field]:
    """The fields of a record in their order; refuses what lacks a wanted field of its kind, or is not flat."""
    if not isinstance(schema, dict) or schema.get("type") != "record" or not isinstance(schema.get("fields"), list):
        raise Damaged("its schema is not a record")
    places = {name: place for place, name in enumerate(wanted)}
    fields, found = [], set()
    if len(schema["fields"]) > MOST_FIELDS:
        raise Damaged(f"its records have more than {MOST_FIELDS} fields")
    for given in schema["fields"]:
        name = given.get("name") if isinstance(given, dict) else None
        if not isinstance(name, str):
            raise Damaged(f"its schema has a field without a name: {brief(given)}")
        field = _field(given.get("type"), places.get(name, -1))
        if field is None:
            raise Damaged(f"its field {brief(name)} is of a kind that has no place here")
        if field.place >= 0 and (field.kind != wanted[name] or name in found):
            raise Damaged(f"its field {brief(name)} is not {wanted[name]}")
        found.add(name)
        fields.append(field)
    missing = [name for name in wanted if name not in found]
    if missing:
        raise Damaged(f"its records have no field {missing[0]!r}")
    return fields


def _field(kind: Any, place: int) -> Field | None:
    null = -1
    if isinstance(kind, list) and len(kind) == 2 and "null" in kind:
        null = kind.index("null")
        kind = kind[1 - null]
    if isinstance(kind, dict):
        items = kind.get("items")
        if kind.get("type") == "array" and isinstance(items, dict) and items.get("type") == "enum":
            return Field(TAGS, 0, null, place)
        kind = kind.get("type")
    if not isinstance(kind, str):
        return None
    if kind in SIZES:
        return Field(kind, SIZES[kind], null, place)
    return Field(KINDS[kind], 0, null, place) if kind in KINDS else None


def rows(data: bytes, count: int, fields: list[Field], width: int) -> Iterator[list[Any]]:
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
                elif kind == TAGS:
                    value, at = _tags(data, at)
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


def _tags(data: bytes, at: int) -> tuple[list[int], int]:
    found: list[int] = []
    while True:
        count, at = number(data, at)
        if count == 0:
            return found, at
        if count < 0:
            _, at = number(data, at)
        if abs(count) > len(data) - at:
            raise Damaged("a list goes beyond the end of its block")
        for _ in range(abs(count)):
            tag, at = number(data, at)
            found.append(tag)
