"""report_files: reports as they stand in files, in shares that a process opens one at a time.

A share of an Avro file is only where its blocks are: whoever opens it reads them, so that no report is sent between
processes. JSON is read a report at a time, so that no file need fit into memory.
"""

import json
import os
import re
from codecs import BOM_UTF8, getincrementaldecoder
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import BinaryIO, NamedTuple

from attributary.api.ara.wire import avro
from attributary.api.ara.wire.aggregatable_report import from_json, from_members
from attributary.api.ara.wire.avro import is_avro
from attributary.api.ara.wire.avro_blocks import Damaged
from attributary.errors import InputError
from attributary.types import Record

SHARE = 2000  # reports
MOST_IN_SHARE = 2**25  # bytes of them, should they be large
MOST_REPORT = 2**23  # bytes of a report in JSON, which has its payload twice at most, in base64
LINES = (".jsonl", ".ndjson")
CHUNK = 2**16

# A report: where it is, as in "x.avro: report", its number there, its shared info, its payload, as it is and in the
# clear if it has that, and its key id; or what is wrong with it. A plain tuple, since there are many.
Given = tuple[str, int, str, bytes, bytes | None, bytes, str]

Content = Record | str | bytes | None  # the members of a report, its JSON, or nothing if that is too long


class Share(NamedTuple):
    """Some reports: blocks of an Avro file by their places, or the reports themselves."""

    size: int  # how many, as far as the files tell
    path: str = ""
    blocks: tuple[int, ...] = ()
    first: int = 1  # the number of the first report in the blocks
    reports: tuple[Given, ...] = ()


def shares(paths: Sequence[str]) -> Iterator[Share]:
    """All reports of some files: Avro, one JSON object, a JSON list of them, or one on each line."""
    some: list[Given] = []
    room = MOST_IN_SHARE
    for path in paths:
        if is_avro(path):
            yield from _avro_shares(path)
            continue
        for report in _json_reports(path):
            some.append(report)
            room -= len(report[2]) + len(report[3]) + len(report[4] or b"")
            if len(some) == SHARE or room < 0:
                yield Share(len(some), reports=tuple(some))
                some, room = [], MOST_IN_SHARE
    if some:
        yield Share(len(some), reports=tuple(some))


def reports(share: Share) -> Iterator[Given]:
    """The reports of a share, and what is wrong where one is not whole."""
    yield from share.reports
    if not share.blocks:
        return
    where, number = f"{share.path}: report", share.first
    for row in avro.rows_or_damage(share.path, share.blocks):
        if isinstance(row, Damaged):
            yield f"{share.path}: what follows report", number - 1, "", b"", None, b"", str(row)
            continue
        try:
            yield where, number, row[2].decode(), row[0], None, row[1], ""
        except UnicodeDecodeError:
            yield where, number, "", b"", None, b"", "shared_info is UTF-8 text"
        number += 1


def reports_of(path: str) -> Iterator[Given]:
    """The reports of one file, read as far as they are asked for."""
    if is_avro(path):
        for share in _avro_shares(path):
            yield from reports(share)
    else:
        yield from _json_reports(path)


def _avro_shares(path: str) -> Iterator[Share]:
    blocks: list[int] = []
    first = after = 1
    room = MOST_IN_SHARE
    for at, count, most in avro.report_blocks(path):
        blocks.append(at)
        after, room = after + count, room - most
        if after - first >= SHARE or room < 0:
            yield Share(after - first, path, tuple(blocks), first)
            blocks, first, room = [], after, MOST_IN_SHARE
    if blocks:
        yield Share(after - first, path, tuple(blocks), first)


def _json_reports(path: str) -> Iterator[Given]:
    if os.path.getsize(path) == 0:
        raise InputError(f"{path} is empty; reports are Avro or JSON")
    reports: Iterator[tuple[int, Content]]
    with open(path, "rb") as file:
        start = file.read(1024).removeprefix(BOM_UTF8).lstrip()
        file.seek(0)
        if path.lower().endswith(LINES) or (start[:1] == b"{" and _has_lines(file)):
            reports = _lines(file)
            where = f"{path}: line"
        elif start[:1] == b"{":
            reports = iter([(1, _bounded(file.read(MOST_REPORT + 1)))])
            where = f"{path}: report"
        elif start[:1] == b"[":
            reports = enumerate(_items(file, path), 1)
            where = f"{path}: report"
        else:
            raise InputError(f"{path} is neither Avro nor JSON; give reports as the browser or the service has them")
        for number, text in reports:
            yield _given(where, number, text)


def _has_lines(file: BinaryIO) -> bool:
    """Whether each line is a report of its own: the first is one, or the one after it begins as one does."""
    lines = _lines(file)
    _, first = next(lines)
    try:
        json.loads(first or b"")
    except (ValueError, RecursionError):
        _, second = next(lines, (0, b""))
        return second is None or second.startswith(b"{")
    finally:
        file.seek(0)
    return True


def _lines(file: BinaryIO) -> Iterator[tuple[int, bytes | None]]:
    """The lines that hold something, with their numbers; None for one that is too long."""
    number = 0
    while line := file.readline(MOST_REPORT + 1):
        number += 1
        whole = _bounded(line)
        while len(line) > MOST_REPORT and not line.endswith(b"\n"):
            line = file.readline(MOST_REPORT + 1)
        if whole is None or whole.strip():
            yield number, whole


def _bounded(text: bytes) -> bytes | None:
    return text if len(text) <= MOST_REPORT else None


BLANK = re.compile(r"[ \t\n\r]*")
# Up to the next bracket or comma that is not within a text, or to a text whose end is not there yet.
PLAIN = re.compile(r'(?:[^"\[\]{},]++|"[^"\\]*+(?:\\.[^"\\]*+)*+")*+', re.DOTALL)


def _items(file: BinaryIO, path: str) -> Iterator[Content]:
    """The items of a JSON list; as texts where they are not objects, or None where they are too long.

    What is wrong within an item is told of that item alone: only its quotes, brackets and commas must be whole.
    """
    scan, characters = json.JSONDecoder().raw_decode, getincrementaldecoder("utf-8")("surrogateescape")
    data = characters.decode(file.read(CHUNK))
    at = data.index("[") + 1
    while True:
        begin = BLANK.match(data, at).end()  # type: ignore[union-attr]  # it matches nothing, too
        with suppress(ValueError, RecursionError):  # most items are whole and within the part that was read
            item, end = scan(data, begin) if data.startswith("{", begin) else (None, begin)
            end = BLANK.match(data, end).end()  # type: ignore[union-attr]
            if item is not None and data.startswith(",", end):
                yield item
                at = end + 1
                continue
        start, depth, long = at, 1, False
        while True:
            at = PLAIN.match(data, at).end()  # type: ignore[union-attr]
            sign = data[at : at + 1]
            if sign in ("", '"'):
                more = file.read(max(CHUNK, len(data) - start))  # a text is looked through again: few times, then
                if not more:
                    raise InputError(f"{path} is not JSON: its list does not end; give whole files")
                long = long or len(data) - start > MOST_REPORT
                if long and sign:  # of a text that goes on, its beginning will do
                    data = '"' + "\\" * ((len(data) - len(data.rstrip("\\"))) % 2)
                    start = at = 0
                start = at if long else start
                data, start, at = data[start:] + characters.decode(more), 0, at - start
                continue
            depth += (sign in "[{") - (sign in "]}")
            if depth == 0 or (depth == 1 and sign == ","):
                break
            at += 1
        text = None if long else data[start:at]
        if text is None or text.strip() or depth:
            yield text
        at += 1
        if not depth:
            break
    if data[at:].strip() or any(part.strip() for part in iter(lambda: file.read(CHUNK), b"")):
        raise InputError(f"{path} is not JSON: there is more after its list; give one list in a file")


def _given(where: str, number: int, content: Content) -> Given:
    try:
        if content is None:
            raise ValueError(f"a report has {MOST_REPORT:,} bytes at most")
        report = from_members(content) if isinstance(content, dict) else from_json(content)
    except ValueError as error:
        return where, number, "", b"", None, b"", str(error)
    key_id = report.key_id.encode()
    return where, number, report.shared_info, report.payload, report.debug_cleartext_payload, key_id, ""
