"""log_files: the files of one log, by names, patterns and folders; whether they are whole; the engine that reads."""

import csv
import os
import re
import zlib
from collections.abc import Callable, Sequence
from contextlib import suppress
from glob import glob, has_magic
from io import TextIOWrapper
from threading import Event
from typing import Literal, NamedTuple, Protocol
from urllib.parse import unquote, urlparse

import pyarrow as pa
from pyarrow import parquet

from attributary.errors import InputError, first_few
from attributary.spec import Logs
from attributary.tables.table_source import DELIMITER, Format, by_content, by_name, is_text, packing_of
from attributary.tables.text_form import LONGEST_CELL, NOT_TEXT, odd_separator
from attributary.types import Arrow

READ = "CSV or TSV (also .gz and .zst) and Parquet"
PARTITION = re.compile(r"(?:^|/)([^/=]+)=([^/]*)(?=/)")  # a folder named after a column's value: day=2026-03-01
NO_VALUE = "__HIVE_DEFAULT_PARTITION__"


TABLE = "table://"  # before the name of a table in a catalog, which Spark reads: table://shop.impressions


class Files(NamedTuple):
    """The files of one log, all of one kind; an address such as s3://… is left to the engine."""

    paths: tuple[str, ...]
    format: Format
    packing: str | None = None  # gzip or zstd
    columns: tuple[str, ...] | None = None  # of text, as all its files have them; None where the engine is to look
    header: bool = True  # whether text begins with them

    @property
    def delimiter(self) -> str:
        return DELIMITER[self.format]

    @property
    def partitioned(self) -> bool:
        """Whether all files are in folders that are named after values of the same columns, which are text then."""
        names = {tuple(partition(path)) for path in self.paths}
        return len(names) == 1 and names != {()}

    def refuse_folders(self) -> None:
        """Refuses addresses of folders and tables, for an engine that does not read them."""
        for path in self.paths:
            if "://" in path and by_name(path).format is None:
                raise InputError(
                    f"{path} does not end like a log file; logs are {READ}: give files or a pattern, as in "
                    f"{path.rstrip('/')}/*.parquet, or choose the engine spark"
                )

    @property
    def name(self) -> str:
        """The files in a message."""
        more = len(self.paths) - 1
        return self.paths[0] + (f" and {more} more" if more else "")


def files(names: Sequence[str], folder: str = ".", header: Sequence[str] | None = None) -> Files:
    """The files that names, patterns and folders stand for, relative to a folder; a mistake is an InputError.

    `header` names the columns of text that does not begin with their names.
    """
    paths = tuple(path for name in names for path in _matching(name, folder))
    first = None
    for path in paths:
        kind = _file_kind(path, header is None)
        if first is None:
            first = kind
        elif (kind.format, kind.packing) != (first.format, first.packing):
            rule = f"the files of a log must have one format; {path} is not like {paths[0]}"
            raise InputError(f"{rule}: convert one of them")
        elif kind.columns != first.columns:
            begins, its = (first_few(each.columns or (), 6) for each in (kind, first))
            rule = "the files of a log must have the same columns in the same order"
            raise InputError(f"{rule}; {path} begins with {begins}, and {paths[0]} with {its}")
    assert first is not None
    columns = first.columns if header is None else tuple(header)
    return first._replace(paths=paths, columns=columns if is_text(first.format) else None, header=header is None)


def partition(path: str) -> dict[str, str | None]:
    """The columns that the folders of a file are named after, and their values: day=2026-03-01/part-0.parquet."""
    return {unquote(name): None if cell == NO_VALUE else unquote(cell) for name, cell in PARTITION.findall(path)}


def _matching(name: str, folder: str) -> list[str]:
    if name.startswith("file://"):
        name = unquote(urlparse(name).path)
    if "://" in name:
        return [name]
    path = os.path.normpath(os.path.join(folder, name))
    if os.path.isdir(path):
        paths, empty = _inside(path), f"the folder {path} has no files in it"
    elif has_magic(name) and not os.path.exists(path):
        matching = sorted(glob(path, recursive=True))
        paths, empty = [file for file in matching if os.path.isfile(file)], f"no file matches {path}"
        paths = paths or [file for match in matching for file in _inside(match)]
    else:
        paths, empty = [path] if os.path.exists(path) else [], f"there is no file {path}"
    if not paths:
        raise InputError(f"{empty}; give the log's files, relative to the folder of the spec")
    return paths


def _inside(folder: str) -> list[str]:
    """The files in a folder and in those below it; names that begin with . or _ are others' notes."""
    paths = []
    for here, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if name[0] not in "._")
        paths += [os.path.join(here, name) for name in sorted(names) if name[0] not in "._"]
    return [file for file in paths if os.path.isfile(file)]


def _file_kind(path: str, header: bool) -> Files:
    named = by_name(path)
    if "://" in path:  # without an ending, a folder of Parquet files or a table
        return Files((path,), named.format or "parquet", named.packing)
    try:
        with open(path, "rb") as file:
            packing = packing_of(file.read(4))
        if named.format == "parquet":
            return Files((path,), "parquet")
        with pa.input_stream(path, compression=packing) as stream:
            beginning: bytes = stream.read(65536)
        kind = named.format or by_content(beginning or b"\n")
        if not is_text(kind) and kind != "parquet":
            raise InputError(f"{path} is Arrow; logs are {READ}")
        columns = _columns(path, packing, DELIMITER[kind], beginning) if header and is_text(kind) else None
    except OSError as error:
        reason = "it is cut off or damaged" if not error.strerror else error.strerror
        raise InputError(f"{path} cannot be read: {reason}") from error
    return Files((path,), kind, packing, columns)


def _columns(path: str, packing: str | None, delimiter: str, beginning: bytes) -> tuple[str, ...]:
    """The names that a text file begins with."""
    for first, words in NOT_TEXT.items():
        if beginning.startswith(first):
            raise InputError(f"{path} {words}")
    csv.field_size_limit(LONGEST_CELL)
    with pa.input_stream(path, compression=packing) as stream:
        text = TextIOWrapper(stream, encoding="utf-8-sig", newline="")
        try:
            names = next((row for row in csv.reader(text, delimiter=delimiter) if row), [])
        except (UnicodeDecodeError, csv.Error):
            raise InputError(f"{path}: line 1 is not UTF-8 text; save the file as UTF-8") from None
        finally:
            text.detach()
    if not names:
        raise InputError(f"{path} is empty; a log begins with the names of its columns")
    names = [name or f"column {i} without a name" for i, name in enumerate(names, 1)]  # as pandas writes its index
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise InputError(f"{path} has two columns called {twice!r}; name each column once")
    if odd_separator(names):
        raise InputError(f"{path} has one column, {names[0]!r}{odd_separator(names)}")
    return tuple(names)


def replace_files(logs: Logs, impressions: Sequence[str] = (), conversions: Sequence[str] = ()) -> Logs:
    """The logs with other files, relative to the working folder; `impressions` may be rows with their conversions."""
    if logs.is_attributed and conversions:
        raise InputError("the rows of this log have their conversions already; leave conversions out")
    side = "attributed" if logs.is_attributed else "impressions"
    others = {side: impressions, "conversions": conversions}
    update = {}
    for name, paths in others.items():
        if paths:
            update[name] = tuple(path if "://" in path else os.path.abspath(path) for path in paths)
    return logs.model_copy(update=update)


def all_files(logs: Logs, folder: str) -> list[str]:
    """The paths of all logs that a spec names."""
    return [path for log in _all_logs(logs, folder) for path in log.paths]


def _all_logs(logs: Logs, folder: str) -> list[Files]:
    each = (logs.impressions, logs.conversions, logs.attributed)
    return [files(names, folder, logs.header) for names in each if names]


def is_generated(path: str) -> bool:
    """Whether a file says that it was generated: Parquet in its metadata, gzip in the name of what it holds."""
    if path.endswith((".parquet", ".pq")):
        with suppress(OSError, pa.ArrowException):
            return b"generated" in (parquet.read_schema(path).metadata or {})
        return False
    with suppress(OSError), open(path, "rb") as file:
        return file.read(2) == b"\x1f\x8b" and b"generated-by-attributary" in file.read(200)
    return False


def rows_in_logs(logs: Logs | None, folder: str) -> int:
    """The rows of all logs that a spec names, if their files say so, as Parquet's do; else 0."""
    if logs is None:
        return 0
    every = _all_logs(logs, folder)
    if any(log.format != "parquet" or any("://" in path for path in log.paths) for log in every):
        return 0
    with suppress(OSError, pa.ArrowException):  # whoever reads it will say what is wrong with it
        rows = [sum(int(parquet.read_metadata(path).num_rows) for path in log.paths) for log in every]
        return sum(rows) if all(rows) else 0
    return 0


# DuckDB takes some compressed files that end too early for whole ones.

CHUNK = 2**20
ZSTD_FRAME, ZSTD_SKIPPED = 0xFD2FB528, range(0x184D2A50, 0x184D2A60)  # how a zstd frame begins (RFC 8878)


def refuse_cut_zstd(path: str) -> None:
    """Walks from block to block of a zstd file without unpacking any; a file that ends too early is an InputError."""
    with open(path, "rb") as file:

        def number(length: int) -> int:
            data = file.read(length)
            if len(data) < length:
                raise _cut_off(path)
            return int.from_bytes(data, "little")

        size = file.seek(0, 2)
        file.seek(0)
        while file.tell() < size:
            magic = number(4)
            if magic in ZSTD_SKIPPED:
                file.seek(number(4), 1)
                continue
            if magic != ZSTD_FRAME:
                raise InputError(f"{path} is damaged; it is not zstd throughout")
            about = number(1)
            single, checksum = about >> 5 & 1, about >> 2 & 1
            file.seek((0 if single else 1) + (0, 1, 2, 4)[about & 3] + (single, 2, 4, 8)[about >> 6], 1)
            last = 0
            while not last:
                block = number(3)
                last, kind, length = block & 1, block >> 1 & 3, block >> 3
                file.seek(1 if kind == 1 else length, 1)
            file.seek(4 * checksum, 1)
        if file.tell() > size:
            raise _cut_off(path)


def refuse_cut_gzip(path: str, stop: Event) -> None:
    """Unpacks a gzip file to its end, or until `stop` is set; a file that ends too early is an InputError."""
    unpack, empty = zlib.decompressobj(31), True
    with open(path, "rb") as file:
        try:
            while (data := file.read(CHUNK)) and not stop.is_set():
                while data:
                    if unpack.eof:
                        unpack = zlib.decompressobj(31)  # files one after the other are one
                    unpack.decompress(data)
                    data, empty = unpack.unused_data.lstrip(b"\0"), False
        except zlib.error as error:
            raise InputError(f"{path} is damaged: {str(error).split(': ')[-1]}") from None
    if not stop.is_set() and not (unpack.eof or empty):
        raise _cut_off(path)


def _cut_off(path: str) -> InputError:
    return InputError(f"{path} is cut off; fetch the whole file")


# What counting asks of DuckDB or Spark. Both run the same SQL; an engine adds what they do not share.

Kind = Literal["text", "whole", "number", "bool", "date", "time", "zoned", "other"]  # time: without a zone
Report = Callable[[str, float | None], None]  # told what is being done, and which share of it is, if that is known


class Relation(NamedTuple):
    """The rows of a log, as an engine reads them."""

    sql: str  # what stands after FROM
    kinds: dict[str, Kind]  # of its columns; those of text files are all text
    types: dict[str, str]  # the same in the engine's words
    files: Files

    @property
    def name(self) -> str:
        return self.files.name


class CastError(ValueError):
    """A CAST failed: some text is not what its column is taken for. Who asked knows where to look for it."""


class Engine(Protocol):
    """Reads files and runs portable SQL: what DuckDB and Spark understand in the same way."""

    types: dict[Kind, str]  # what the kinds date, time and zoned are called in SQL

    def open(self, files: Files) -> Relation:
        """The rows of these files; an InputError where they cannot be read, or do not go together."""

    def column(self, name: str) -> str:
        """A column's name in SQL, whatever it is made of."""

    def text(self, value: str) -> str:
        """A text in SQL, whatever it is made of."""

    def micros(self, value: str, kind: Kind) -> str:
        """SQL for the microseconds from 1970 to a value of kind date, time or zoned."""

    def run(self, sql: str, stage: str = "") -> Arrow:
        """The result as an Arrow table; a CastError where a CAST failed, an InputError where reading did.

        `stage` says in words what this is for.
        """

    def place(self, relation: Relation, condition: str) -> str | None:
        """Where the first row is for which this holds, as in `sales.csv: row 5`; None where it is not known."""
