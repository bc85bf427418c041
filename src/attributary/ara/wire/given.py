"""Given: reports as they stand in files, in shares that a process opens one at a time.

A share of an Avro file is only where its blocks are: whoever opens it reads them, so that no report is sent between
processes.
"""

import json
import os
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from attributary.ara.wire import avro, container
from attributary.ara.wire.container import Damaged
from attributary.ara.wire.report import from_json, from_members
from attributary.errors import InputError

SHARE = 2000  # reports

# A report: where it is, as in "x.avro: report", its number there, its shared info, and its payload, as it is and in the
# clear if it has that; or what is wrong with it. A plain tuple, since there are many.
Given = tuple[str, int, str, bytes, bytes | None, str]


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
    for path in paths:
        try:
            with open(path, "rb") as file:
                beginning = file.read(len(container.MAGIC))
        except OSError as error:
            raise InputError(f"{path} cannot be read: {error.strerror}") from None
        if beginning == container.MAGIC:
            yield from _avro_shares(path)
            continue
        for report in _json_reports(path):
            some.append(report)
            if len(some) == SHARE:
                yield Share(SHARE, reports=tuple(some))
                some = []
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
            yield f"{share.path}: what follows report", number - 1, "", b"", None, str(row)
            continue
        try:
            yield where, number, row[2].decode(), row[0], None, ""
        except UnicodeDecodeError:
            yield where, number, "", b"", None, "shared_info is UTF-8 text"
        number += 1


def _avro_shares(path: str) -> Iterator[Share]:
    blocks: list[int] = []
    first = after = 1
    for at, count in avro.report_blocks(path):
        blocks.append(at)
        after += count
        if after - first >= SHARE:
            yield Share(after - first, path, tuple(blocks), first)
            blocks, first = [], after
    if blocks:
        yield Share(after - first, path, tuple(blocks), first)


def _json_reports(path: str) -> Iterator[Given]:
    if os.path.getsize(path) == 0:
        raise InputError(f"{path} is empty; reports are Avro or JSON")
    with open(path, "rb") as file:
        start = file.read(1024).lstrip()[:1]
        file.seek(0)
        if start not in (b"{", b"["):
            raise InputError(f"{path} is neither Avro nor JSON; give reports as the browser or the service has them")
        first = file.readline()
        if start == b"{" and _is_json(first):
            file.seek(0)
            for number, line in enumerate(file, 1):
                if line.strip():
                    yield _given(f"{path}: line", number, line)
            return
        text = first + file.read()
    if start == b"{":
        yield _given(f"{path}: report", 1, text)
        return
    try:
        items = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path} is not JSON: {error}") from None
    for number, item in enumerate(items, 1):
        yield _given(f"{path}: report", number, item)


def _is_json(text: bytes) -> bool:
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


def _given(where: str, number: int, content: Any) -> Given:
    try:
        report = from_json(content) if isinstance(content, bytes) else from_members(content)
    except ValueError as error:
        return where, number, "", b"", None, str(error)
    return where, number, report.shared_info, report.payload, report.debug_cleartext_payload, ""
