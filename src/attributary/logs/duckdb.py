"""duckdb: the engine for one machine. It reads more than fits into memory, and spills what it cannot hold."""

import errno
import os
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress
from glob import escape, iglob
from threading import Event
from typing import Any, Self, TypeVar

from attributary.errors import InputError, TryAgain
from attributary.logs.log_files import CastError, Files, Kind, Relation, Report, refuse_cut_gzip, refuse_cut_zstd
from attributary.types import Arrow, Record
from attributary.whole_files import hold, remove_if_dead

Result = TypeVar("Result")
POLL = 0.1  # seconds
LOCK = "lock"
ROW = '"the number of the row"'
KINDS: dict[Kind, str] = {
    "text": "VARCHAR UUID",
    "whole": "TINYINT SMALLINT INTEGER BIGINT HUGEINT UTINYINT USMALLINT UINTEGER UBIGINT",
    "number": "FLOAT DOUBLE DECIMAL",
    "time": "TIMESTAMP TIMESTAMP_S TIMESTAMP_MS TIMESTAMP_NS",
    "bool": "BOOLEAN",
    "date": "DATE",
}


class DuckDB:
    """A connection of its own, for a `with` statement. Limits that are left out are DuckDB's choice.

    `memory` is as in 4GB, `temp` the folder to spill to; `report` is told how far a query has come.
    """

    types: dict[Kind, str] = {"date": "DATE", "time": "TIMESTAMP", "zoned": "TIMESTAMPTZ"}  # noqa: RUF012

    def __init__(
        self,
        memory: str | None = None,
        temp: str | None = None,
        threads: int | None = None,
        report: Report | None = None,
    ) -> None:
        import duckdb

        self._report = report or (lambda stage, share: None)
        before_2 = int(duckdb.__version__.split(".")[0]) < 2
        self._sees_cut_gzip = not before_2
        self._connection = duckdb.connect()
        if before_2:  # its cache keeps a file that is replaced within a second
            self._set("enable_external_file_cache", False)
        self._set("memory_limit", memory)
        self._set("threads", threads)
        self._set("preserve_insertion_order", False)
        print_no_progress(self._connection, watched=report is not None)
        self._set("python_enable_replacements", False)  # or FROM impressions may mean a variable of that name
        self._set("TimeZone", "UTC")
        self._spill, self._lock = _folder(temp)
        self._set("temp_directory", self._spill.name)
        self._pool, self._stop = ThreadPoolExecutor(), Event()
        self._checks: list[Future[None]] = []
        self._keeps = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._connection.interrupt()
        self._pool.shutdown()
        self._connection.close()
        os.close(self._lock)
        self._spill.cleanup()

    def open(self, files: Files) -> Relation:
        files.refuse_folders()
        self._look_for_cuts(files)
        rows = _rows(files)
        types = self._types(rows)
        for path in files.paths[1:] if files.format == "parquet" else ():
            others = self._types(_rows(files._replace(paths=(path,))))
            for name in types.keys() & others.keys():
                if _kind(types[name]) != _kind(others[name]):  # DuckDB would turn the one into the other
                    types[name] = f"{types[name]} in {files.paths[0]} and {others[name]} in {path}"
        uuids = [self.column(name) for name, words in types.items() if words == "UUID"]
        if uuids:
            texts = ", ".join(f"CAST({name} AS VARCHAR) AS {name}" for name in uuids)
            rows = f"(SELECT * REPLACE ({texts}) FROM {rows})"
        return Relation(rows, {name: _kind(words) for name, words in types.items()}, types, files)

    def column(self, name: str) -> str:
        return '"' + name.replace('"', '""') + '"'

    def text(self, value: str) -> str:
        return literal(value)

    def micros(self, value: str, kind: Kind) -> str:
        return f"EPOCH_US({value})"

    def run(self, sql: str, stage: str = "") -> Arrow:
        try:
            return self._waited(lambda: self._connection.sql(sql).to_arrow_table(), stage)
        finally:  # a cut file explains a failure better than what DuckDB found at its end
            while self._checks:
                self._checks.pop().result()

    def keep(self, name: str, sql: str, stage: str = "", given: Any = None) -> str:
        """Makes a table on disk, beside what is spilled, of a query; what it is called.

        The query may read record batches that are `given`, as the table `given`.
        """
        table = f"kept.{name}"
        if not self._keeps:
            self._connection.execute(f"ATTACH {literal(os.path.join(self._spill.name, 'kept'))} AS kept")
            self._keeps = True
        if given is not None:
            self._connection.register("given", given)
        self._waited(lambda: self._connection.execute(f"CREATE TABLE {table} AS {sql}"), stage)
        if given is not None:
            self._connection.unregister("given")
        return table

    def batches(self, sql: str, rows: int) -> Any:
        """The result as a reader of record batches of about so many rows, beside whatever else is run."""
        return self._connection.cursor().sql(sql).to_arrow_reader(rows)

    def place(self, relation: Relation, condition: str) -> str | None:
        self._set("preserve_insertion_order", True)
        for path in relation.files.paths:
            rows = _rows(relation.files._replace(paths=(path,)))
            with_numbers = f"SELECT *, ROW_NUMBER() OVER () AS {ROW} FROM {rows}"
            first = self.run(f"SELECT MIN({ROW}) FROM ({with_numbers}) WHERE {condition}", "looking for the row")
            row = first.column(0)[0].as_py()
            if row is not None:
                return f"{path}: row {row:,}"
        return None

    def _waited(self, call: Callable[[], Result], stage: str) -> Result:
        """What the call gives. It is made in a thread, so that its progress is seen and Ctrl-C heard."""
        future = self._pool.submit(call)
        try:
            while not future.done():
                share = self._connection.query_progress()
                self._report(stage, share / 100 if share >= 0 else None)
                wait([future], POLL)
        except BaseException:
            self._stop.set()
            self._connection.interrupt()
            raise
        with duckdb_errors():
            return future.result()

    def _types(self, rows: str) -> dict[str, str]:
        with duckdb_errors():
            described = self._connection.sql(f"SELECT * FROM {rows} LIMIT 0")
            return dict(zip(described.columns, map(str, described.types), strict=True))

    def _set(self, name: str, value: str | int | None) -> None:
        import duckdb

        if value is None:
            return
        try:
            self._connection.execute(f"SET {name} = {literal(value)}")
        except duckdb.Error as error:
            reason = str(error).splitlines()[0].split("Error: ")[-1]
            raise InputError(f"DuckDB does not accept {value!r} as {name}: {reason}") from None

    def _look_for_cuts(self, files: Files) -> None:
        """Looks for what DuckDB does not see: zstd that ends too early and, before version 2, gzip that does."""
        for path in files.paths if files.packing else ():
            if "://" in path:
                continue
            if files.packing == "zstd":
                refuse_cut_zstd(path)
            elif not self._sees_cut_gzip:
                self._checks.append(self._pool.submit(refuse_cut_gzip, path, self._stop))


def print_no_progress(connection: Any, watched: bool = False) -> None:
    """Turns off DuckDB's progress bar, which prints to standard output; the progress can still be `watched`.

    In a notebook without widgets there is no bar, and DuckDB refuses to set anything about it.
    """
    import duckdb

    with suppress(duckdb.Error):
        connection.execute("SET enable_progress_bar_print = false")
        connection.execute(f"SET enable_progress_bar = {watched}")


def _folder(temp: str | None) -> tuple[Any, int]:
    """A folder to spill to and the lock that keeps it; those of processes that were killed are removed."""
    try:
        for lock in iglob(os.path.join(escape(temp or tempfile.gettempdir()), "attributary-*", LOCK)):
            remove_if_dead(lock, lambda path: shutil.rmtree(os.path.dirname(path), ignore_errors=True))
        spill = tempfile.TemporaryDirectory(prefix="attributary-", dir=temp, ignore_cleanup_errors=True)
        handle = os.open(os.path.join(spill.name, LOCK), os.O_CREAT | os.O_RDWR, 0o600)
        hold(handle)
        return spill, handle
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise TryAgain(f"{temp or tempfile.gettempdir()} is full; make room, or choose another (`temp`)") from None
        folder = temp or "the folder for temporary files"
        raise InputError(f"{folder} cannot hold temporary files: {error.strerror}; choose another (`temp`)") from None


def _kind(words: str) -> Kind:
    if words == "TIMESTAMP WITH TIME ZONE":
        return "zoned"
    name = words.partition("(")[0]  # DECIMAL(18,3)
    return next((kind for kind, types in KINDS.items() if name in types.split()), "other")


def _rows(files: Files) -> str:
    """What stands after FROM. Cells of text stay text, so that a label such as 007 keeps its zeros."""
    paths = literal([path if "://" in path else escape(path) for path in files.paths])
    options: Record = {"hive_partitioning": files.partitioned}  # columns that folders are named after, as text
    options |= {"hive_types_autocast": False} if files.partitioned else {}
    if files.format == "parquet":
        return f"read_parquet({paths}, {_options(options)})"
    options |= {"header": files.header, "delim": files.delimiter, "quote": '"', "escape": '"'}
    options |= {"compression": files.packing} if files.packing else {}
    if files.columns is None:
        options["all_varchar"] = True
    else:
        options |= {"auto_detect": False, "columns": dict.fromkeys(files.columns, "VARCHAR")}
    return f"read_csv({paths}, {_options(options)})"


def _options(options: Record) -> str:
    return ", ".join(f"{name} = {literal(value)}" for name, value in options.items())


def literal(value: Any) -> str:
    """A value as SQL has it."""
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    if isinstance(value, list):
        return "[" + ", ".join(map(literal, value)) + "]"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{literal(key)}: {literal(inner)}" for key, inner in value.items()) + "}"
    return str(value)


NO_ROOM = "No space left|max_temp_directory_size|failed to offload"
LINE = r"CSV Error on Line: (\d+)"
CELLS = r"Expected Number of Columns: (\d+) Found: (\d+)"


@contextmanager
def duckdb_errors() -> Iterator[None]:
    """Errors about files become InputErrors, about cells CastErrors, about memory and disk TryAgain; others pass."""
    import duckdb

    try:
        yield
    except duckdb.OutOfMemoryException as error:
        raise TryAgain(_room(str(error))) from error
    except duckdb.InterruptException:
        raise KeyboardInterrupt from None
    except (duckdb.ConversionException, duckdb.OutOfRangeException) as error:
        raise CastError(_first(str(error))) from error
    except duckdb.IOException as error:
        words = str(error)
        if re.search(NO_ROOM, words):
            raise TryAgain(_room(words)) from error
        raise InputError(_no_engine(words) or _first(words)) from error
    except duckdb.InvalidInputException as error:
        raise InputError(_csv(str(error)) or _first(str(error))) from error
    except UnicodeDecodeError as error:
        raise InputError("a log is damaged: a column's name is not UTF-8; write the file again") from error
    except (duckdb.Error, RuntimeError) as error:
        extension = re.search(r"extension [\"'](\w+)", str(error))
        if extension:
            raise InputError(
                f"DuckDB reads such addresses with its extension {extension[1]}, which is not installed and cannot be "
                f"fetched from here; run `INSTALL {extension[1]}` in DuckDB once, copy the files, or use `engine=spark`"
            ) from error
        if type(error) not in (duckdb.Error, RuntimeError):
            raise
        # An error without a kind of its own is what the reader of Parquet says of bytes that are not.
        raise InputError(f"a log is damaged: {_first(str(error))[:200]}; write the file again") from error


@contextmanager
def text_file_errors(path: str) -> Iterator[None]:
    """As `duckdb_errors`, for one text file of numbers in fixed columns: always InputErrors, with the file's name."""
    import duckdb

    with duckdb_errors():
        try:
            yield
        except (duckdb.IOException, duckdb.InvalidInputException, duckdb.ConversionException) as error:
            raise InputError(_text_file(str(error), path)) from error


def _text_file(words: str, path: str) -> str:
    line, cells = re.search(LINE, words), re.search(CELLS, words)
    where = f"{path}: line {line[1]}" if line else path
    number = re.search(r'Error when converting column "(.+?)"\. Could not convert string "(.*?)" to', words, re.DOTALL)
    if number:
        return f"{where}: {number[2][:40]!r} in column {number[1]} is not a number; is this the right file?"
    if cells:
        return f"{where} has {cells[2]} cells instead of {cells[1]}; is the file damaged, or cut off?"
    stream = re.search(r"failed(?:\(\))?: (?:Invalid: )*(.*?)(?:\. Detail: Python exception|$)", words, re.DOTALL)
    if stream:  # Python's own words, by way of Arrow
        return stream[1] if stream[1].startswith(path) else f"{path} cannot be read: {stream[1][:200]!r}"
    if "GZIP" in words:
        return f"{path} is cut off or damaged (its gzip data ends too early); fetch it again"
    return f"{where} cannot be read: {words.splitlines()[0][:200]}"


def _first(words: str) -> str:
    """The first line, without the kind of error before it."""
    return re.sub(r"^[\w ]*Error: ", "", words.splitlines()[0])


def _no_engine(words: str) -> str | None:
    """What to do about an address that DuckDB takes for a file of this machine."""
    address = re.search(r'No files found that match the pattern "((\w+)://[^"]*)"', words)
    if not address:
        return None
    return (
        f"no file matches {address[1]}, or DuckDB cannot read {address[2]}://; check the address, or use `engine=spark`"
    )


def _csv(words: str) -> str | None:
    line, file = re.search(LINE, words), re.search(r"^ *file ?= ?(.*)$", words, re.MULTILINE)
    if not line or not file:
        return None
    cells = re.search(CELLS, words)
    if cells:
        reason = f"has {cells[2]} cells, but the header has {cells[1]}; quote cells that contain the separator"
    elif "unicode" in words.lower() or "utf-8" in words.lower():
        reason = "is not UTF-8; save the file as UTF-8"
    elif "quote" in words:
        reason = "has quotes that do not close; write a quote inside quotes twice"
    else:
        reason = next((text for text in words.splitlines()[2:] if text.strip()), "cannot be read")
    return f"{file[1]}: line {int(line[1]):,} {reason}"


def _room(words: str) -> str:
    if re.search(NO_ROOM, words):
        return (
            "no disk space left for what does not fit into memory; "
            f"choose a folder with more space (`temp`), or allow more memory (`memory`): {_first(words)}"
        )
    return f"not enough memory for this log; allow more (`memory`), or use fewer threads (`threads`): {_first(words)}"
