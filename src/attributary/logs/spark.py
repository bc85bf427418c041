"""spark: the engine for a cluster, which runs the SQL that DuckDB runs, and its session."""

import logging
import os
import re
import shutil
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import reduce
from secrets import token_hex
from typing import IO, TYPE_CHECKING, Any, Self
from urllib.parse import unquote

from attributary.errors import InputError, TryAgain
from attributary.logs.log_files import TABLE, CastError, Files, Kind, Relation, Report, files
from attributary.types import Arrow

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import StructType

AS_DUCKDB = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.ansi.enabled": "true",  # a CAST that fails is an error, not null
    "spark.sql.variable.substitute": "false",  # ${…} in a label is text
    "spark.sql.sources.partitionColumnTypeInference.enabled": "false",  # 007 keeps its zeros
    "spark.sql.csv.parser.columnPruning.enabled": "false",  # a line with too few or too many cells is seen
}
KINDS: dict[Kind, str] = {
    "text": "string",
    "whole": "tinyint smallint int bigint",
    "number": "float double",
    "time": "timestamp_ntz",
    "zoned": "timestamp",
    "bool": "boolean",
    "date": "date",
}


class Spark:
    """The engine of a session, for a `with` statement: of the one given, of the active one, or of a new one.

    A new one is at `master`, or on this machine, with `settings` of Spark's own, and is stopped in the end. Another one
    is left as it was: what is set here is set in a session beside it. Frames are read under their names, as a spec says
    them: impressions = "table://impressions" with frames={"impressions": frame}.
    """

    types: dict[Kind, str] = {"date": "DATE", "time": "TIMESTAMP_NTZ", "zoned": "TIMESTAMP"}  # noqa: RUF012

    def __init__(
        self,
        session: "SparkSession | None" = None,
        master: str | None = None,
        settings: Mapping[str, str] | None = None,
        report: Report | None = None,
        frames: "Mapping[str, DataFrame] | None" = None,
    ) -> None:
        running = session or active_session()
        if running is not None and (master is not None or settings):
            raise InputError(f"a Spark session is running already; stop it, or leave out {master or 'the settings'}")
        self._quiet = ExitStack()
        with quiet_py4j():
            self._started = start_session(master or "local[*]", settings) if running is None else None
        self._session = (running or self._started).newSession()  # type: ignore[union-attr]
        for name, value in AS_DUCKDB.items():
            self._session.conf.set(name, value)
        self._report = report or (lambda stage, share: None)
        self._frames: dict[str, list[DataFrame]] = {}
        self._given, self._views = dict(frames or {}), list[str]()

    def __enter__(self) -> Self:
        self._quiet.enter_context(quiet_py4j())
        return self

    def __exit__(self, *_: object) -> None:
        for view in self._frames:
            self._session.catalog.dropTempView(view)
        for view in self._views:
            self._session.catalog.dropGlobalTempView(view)
        if self._started is not None:
            self._started.stop()
        self._quiet.close()

    def open(self, files: Files) -> Relation:
        with spark_errors(files.name):
            alike = _alike(files)
            frames = [self._read(files._replace(paths=paths)) for paths in alike]
        types = _common_types([(paths[0], dict(frame.dtypes)) for paths, frame in zip(alike, frames, strict=True)])
        kinds = {name: _kind(words) for name, words in types.items()}
        view = f"log_{len(self._frames)}"
        self._frames[view] = frames
        _together(frames, kinds).createOrReplaceTempView(view)
        return Relation(view, kinds, types, files)

    def column(self, name: str) -> str:
        return "`" + name.replace("`", "``") + "`"

    def text(self, value: str) -> str:
        return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"

    def micros(self, value: str, kind: Kind) -> str:
        return f"UNIX_MICROS({value if kind == 'zoned' else f'CAST({value} AS TIMESTAMP)'})"

    def run(self, sql: str, stage: str = "") -> Arrow:
        self._report(stage, None)
        with spark_errors():
            return self._session.sql(sql).toArrow()

    def frame(self, sql: str) -> "DataFrame":
        """The result as a frame, which stays on the workers."""
        return self._session.sql(sql)

    def place(self, relation: Relation, condition: str) -> str | None:
        if relation.name.startswith(TABLE):
            return relation.name if self._frames[relation.sql][0].where(condition).head() is not None else None
        has_numbers = relation.files.format == "parquet"  # lines of text have no numbers on a cluster
        where = ["_metadata.file_path", *(["_metadata.row_index"] if has_numbers else [])]
        for frame in self._frames[relation.sql]:
            with spark_errors(relation.name):
                row = frame.where(condition).selectExpr(*where).orderBy(*(w.split(".")[1] for w in where)).head()
            if row is not None:
                file = unquote(row[0]).removeprefix("file:").replace("///", "/")
                return f"{file}: row {row[1] + 1:,}" if has_numbers else file
        return None

    def read(self, names: Sequence[str], folder: str = ".") -> "DataFrame":
        """The rows of files, folders, addresses or a table in a catalog, as a frame."""
        return self.frame(f"SELECT * FROM {self.open(files(names, folder)).sql}")

    @property
    def session(self) -> "SparkSession":
        return self._session

    def _read(self, files: Files) -> "DataFrame":
        tables = [path.removeprefix(TABLE) for path in files.paths if path.startswith(TABLE)]
        if tables:
            if len(files.paths) > 1:
                raise InputError(f"a table in a catalog is a log of its own; got {TABLE}{tables[0]} beside others")
            if tables[0] not in self._given:
                return self._session.table(tables[0])
            view = f"attributary_{token_hex(8)}"  # of all sessions
            self._given[tables[0]].createGlobalTempView(view)
            self._views.append(view)
            return self._session.table(f"global_temp.{view}")
        paths = [path if "://" in path else _address(path) for path in files.paths]
        reader = self._session.read
        above = _base_path(files.paths[0]) if files.partitioned else None
        if above is not None:
            reader = reader.option("basePath", above)
        if files.format == "parquet":
            return reader.parquet(*paths)
        schema = None if files.columns is None else ", ".join(f"{self.column(name)} STRING" for name in files.columns)
        return reader.csv(
            paths,
            schema,
            sep=files.delimiter,
            header=files.header,
            quote='"',
            escape='"',
            mode="FAILFAST",
            enforceSchema=True,
        )


def _address(path: str) -> str:
    """A file of this machine: Spark has a working folder of its own, and takes [ and the like for a pattern."""
    if os.path.basename(path)[0] in "._":
        raise InputError(f"Spark ignores files whose names begin with . or _; rename {path}")
    return "file://" + re.sub(r"([][{}*?\\])", r"\\\1", os.path.abspath(path))


def _base_path(path: str) -> str | None:
    """The folder above those that are named after a column's value, as in day=2026-03-01, which are a column then."""
    whole = path if "://" in path else "file://" + os.path.abspath(path)
    above = re.match(r"(.+?)/[^/=]+=[^/]*/", whole)
    return above[1] if above else None


def _alike(files: Files) -> list[tuple[str, ...]]:
    """The files by their columns: Spark takes all for alike, and would read null where a column is missing."""
    if files.format != "parquet" or len(files.paths) == 1 or any("://" in path for path in files.paths):
        return [files.paths]
    import pyarrow.parquet as pq

    groups: dict[str, tuple[str, ...]] = {}
    for path in files.paths:
        schema = str(pq.read_schema(path).remove_metadata())
        groups[schema] = (*groups.get(schema, ()), path)
    return list(groups.values())


def _common_types(columns: list[tuple[str, dict[str, str]]]) -> dict[str, str]:
    """The columns of a log whose files have these; a type that differs names both, and is of no kind."""
    (first, types), *others = columns
    for path, theirs in others:
        for name, words in list(types.items()):
            if name not in theirs:
                raise InputError(
                    f"the files of a log must have the same columns; {first} has {name!r}, {path} does not"
                )
            if _kind(words) != _kind(theirs[name]):
                types[name] = f"{words} in {first} and {theirs[name]} in {path}"
    return types


def _together(frames: "list[DataFrame]", kinds: dict[str, Kind]) -> "DataFrame":
    """One frame; columns that are not alike become text, and are refused if they are asked for."""
    if len(frames) == 1:
        return frames[0]
    names = {name: named_column(name) for name in kinds}
    cells = [column.cast("string").alias(name) if kinds[name] == "other" else column for name, column in names.items()]
    return reduce(lambda one, other: one.unionByName(other), (frame.select(cells) for frame in frames))


def named_column(name: str) -> "Column":
    """A column whose name may hold dots."""
    from pyspark.sql import functions as sf

    return sf.col("`" + name.replace("`", "``") + "`")


def _kind(words: str) -> Kind:
    if words.startswith("decimal"):
        return "whole" if words.endswith(",0)") else "number"
    return next((kind for kind, types in KINDS.items() if words in types.split()), "other")


# What workers make of a frame, Arrow in and out.


PART = "__part"  # the column that says which rows go to a worker together


def of_batches(
    frame: "DataFrame", work: "Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]", schema: object
) -> "DataFrame":
    """What the workers make of batches of rows, in columns of a schema: Spark's, Arrow's, or words."""
    with any_pandas():
        return frame.mapInArrow(work, _schema(schema))


def of_parts(frame: "DataFrame", work: Callable[[Arrow], Arrow], schema: object) -> "DataFrame":
    """What they make of the rows of each part, as one Arrow table."""

    def made(rows: Arrow) -> Arrow:  # PySpark takes the self of a method for a key
        return work(rows)

    with any_pandas():
        return frame.groupBy(PART).applyInArrow(made, _schema(schema))


def _schema(schema: object) -> "StructType | str":
    from pyspark.sql.pandas.types import from_arrow_schema
    from pyspark.sql.types import StructType

    return schema if isinstance(schema, str | StructType) else from_arrow_schema(schema)


# A new session: quiet and, where it is local, kept to this machine.


HERE = "127.0.0.1"
LONGEST = 200  # characters of a reason, or of what Spark says
QUIET = {"spark.log.level": "ERROR", "spark.ui.showConsoleProgress": "false"}
LOCAL = {"spark.driver.host": HERE, "spark.driver.bindAddress": HERE, "spark.ui.enabled": "false"}


def active_session() -> "SparkSession | None":
    """The session that runs in this process, if there is one."""
    refuse_no_pyspark()
    from pyspark.sql import SparkSession

    return SparkSession.getActiveSession()


def start_session(master: str = "local[*]", settings: Mapping[str, str] | None = None) -> "SparkSession":
    """A session at a master's address; without one, on all cores of this machine. `settings` are Spark's own."""
    refuse_no_pyspark()
    from py4j.protocol import Py4JError  # type: ignore[import-untyped]
    from pyspark import SparkConf, SparkContext
    from pyspark.errors import PySparkException
    from pyspark.sql import SparkSession

    if master.startswith("sc://"):  # Spark Connect: nothing runs here
        return SparkSession.builder.remote(master).getOrCreate()
    _refuse_no_java()
    local = master.startswith("local")
    conf = SparkConf().setMaster(master).setAppName("attributary")
    conf.setAll(list({**QUIET, **(LOCAL if local else {}), **(settings or {})}.items()))
    with tempfile.TemporaryFile("w+") as output, _environment(local), any_pandas():
        try:
            return SparkSession(SparkContext(conf=conf, gateway=_java(conf, output)))
        except (PySparkException, Py4JError, OSError) as error:
            reason = _reason(output, error)
            fault = InputError if re.search("Master must|Could not parse Master", reason) else TryAgain
            raise fault(f"Spark did not start at {master}: {reason}") from error


@contextmanager
def any_pandas() -> Iterator[None]:
    """PySpark warns of pandas from 3 on, also where it uses none, as here: all is Arrow."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "PySpark does not yet fully support pandas", FutureWarning)
        yield


def refuse_no_pyspark() -> None:
    try:
        import pyspark  # noqa: F401
    except ImportError:
        raise InputError("Spark needs PySpark, which is not installed; pip install 'attributary[spark]'") from None


def _refuse_no_java() -> None:
    home = os.environ.get("JAVA_HOME")
    if not shutil.which("java", path=os.path.join(home, "bin") if home else None):
        where = f"in JAVA_HOME={home}" if home else "on the PATH"
        raise InputError(
            f"Spark needs Java 17 or newer, and there is none {where}; "
            "install one (on Debian: apt install openjdk-17-jre-headless), or set JAVA_HOME"
        )


def _java(conf: object, output: IO[str]) -> Any:
    """The Java process, whose chatter goes to a file; None where there is one from before."""
    from pyspark import SparkContext
    from pyspark.java_gateway import launch_gateway

    return None if SparkContext._gateway else launch_gateway(conf, {"stdout": output, "stderr": output})  # type: ignore[no-untyped-call]


@contextmanager
def _environment(local: bool) -> Iterator[None]:
    """Has Java listen to this machine only, and workers be this Python: Spark takes that from the environment alone."""
    wanted = {"SPARK_LOCAL_IP": HERE, "PYSPARK_PYTHON": sys.executable} if local else {}
    missing = {name: value for name, value in wanted.items() if name not in os.environ}
    os.environ.update(missing)
    try:
        yield
    finally:
        for name in missing:
            del os.environ[name]


def _reason(output: IO[str], error: Exception) -> str:
    """What Java complained of, or else the error's own first line."""
    output.seek(0)
    complaints = [line.strip() for line in output if re.search(r"(Exception|Error)\b", line)]
    return (complaints[0] if complaints else str(error).strip().splitlines()[0])[:LONGEST]


FAILED_CASTS = ("CAST_INVALID_INPUT", "CAST_OVERFLOW", "ARITHMETIC_OVERFLOW", "CANNOT_PARSE", "INVALID_FRACTION")
CANCELLED = "SPARK_JOB_CANCELLED|Job \\d+ cancelled|InterruptedException"
SCARCE = "OutOfMemoryError|No space left on device|ExecutorLostFailure|SparkContext was shut down"
GONE = "Answer from Java side is empty|Error while (?:sending|receiving)|Connection (?:refused|reset)"
SHOWN = 60  # characters of a line


@contextmanager
def spark_errors(name: str = "the log") -> Iterator[None]:
    """Spark's errors about files and cells become InputErrors and CastErrors, about the machine TryAgain; others pass.

    What fails because Ctrl-C cancelled it is a KeyboardInterrupt.
    """
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    logger = logging.getLogger("SQLQueryContextLogger")  # PySpark's second copy of its errors, with their stack
    was, logger.disabled = logger.disabled, True
    try:
        yield
    except (PySparkException, Py4JError, ConnectionError) as error:
        words = f"{error}\n{getattr(error, 'java_exception', '')}"
        if re.search(CANCELLED, words):
            raise KeyboardInterrupt from None
        scarce = re.search(f"[^\n]*(?:{SCARCE}|{GONE})[^\n]*", words)
        if scarce or isinstance(error, ConnectionError):
            reason = (scarce[0] if scarce else str(error)).strip()[:LONGEST]
            raise TryAgain(f"Spark gave up: {reason}; give it more memory or disk, and run it again") from error
        mistake = _of_worker(words) or _mistake(str(error), name)
        if mistake is None:
            raise
        raise mistake from error
    finally:
        logger.disabled = was


@contextmanager
def quiet_py4j() -> Iterator[None]:
    """Py4J logs Ctrl-C, and what fails by it, with the stack to the root logger, and raises it as well."""
    root = logging.getLogger()

    def others(record: logging.LogRecord) -> bool:
        return not str(record.msg).endswith("while sending command.")

    root.addFilter(others)
    try:
        yield
    finally:
        root.removeFilter(others)


NO_PYTHON = {
    r"No module named '(\w+)": "has no {}",
    r"\[PACKAGE_NOT_INSTALLED\] (\w+)": "has no {}",
    r"\[PYTHON_VERSION_MISMATCH\] ([^\n]*)": "is another one: {}",
    r'Cannot run program "([^"]*python[^"]*)"': "is not there: {}",
}


def _of_worker(words: str) -> ValueError | None:
    """The mistake that a worker found, or what its Python lacks."""
    if found := re.search(r"attributary\.errors\.InputError: ([^\n]*)", words):
        return InputError(found[1])
    reasons = (why.format(found[1]) for pattern, why in NO_PYTHON.items() if (found := re.search(pattern, words)))
    reason = next(reasons, None)
    if reason is None:
        return None
    return InputError(
        f"the Python of Spark's workers {reason}; install attributary where they run, or name a Python that has it, "
        "--conf spark.pyspark.python=PATH"
    )


def _mistake(words: str, name: str) -> ValueError | None:
    """The mistake that these words are about; the innermost cause stands last."""
    messages = dict(re.findall(r"\[([A-Z_]{5,})[.A-Z_]*\] ([^\n]*)", words))
    for condition in FAILED_CASTS:
        if condition in messages:
            return CastError(messages[condition].split(" SQLSTATE")[0])
    path = re.search(r"(?:reading file|Path does not exist:) (?:file:)?(?://)?(\S+?)\.?\s", words)
    file = path[1] if path else name
    if "MALFORMED_CSV_RECORD" in messages:
        line = messages["MALFORMED_CSV_RECORD"].removeprefix("Malformed CSV record: ").split(" SQLSTATE")[0]
        return InputError(
            f"{file}: a line has more or fewer cells than the header, {line[:SHOWN]!r}; quote cells that contain the "
            "separator, and leave none out; where cells contain line breaks, use Parquet"
        )
    for condition, there in (("PATH_NOT_FOUND", f"file {file}"), ("TABLE_OR_VIEW_NOT_FOUND", f"table {name}")):
        if condition in messages:
            return InputError(f"there is no {there}")
    if "PARQUET_TYPE_ILLEGAL" in messages or "UNSUPPORTED_TIME_TYPE" in messages:
        return InputError(
            f"{file}: {_first(messages)}; Spark reads times to the microsecond: write the file again with those"
        )
    if "FAILED_READ_FILE" in messages:
        causes: list[str] = re.findall(r"Caused by: [\w.$]+: ([^\n]*)", words)
        reason = causes[-1] if causes else _first(messages)
        return InputError(f"{file} is cut off" if "end of input" in reason else f"{file} cannot be read: {reason}")
    return None


def _first(messages: dict[str, str]) -> str:
    return next(iter(messages.values())).split(" SQLSTATE")[0].rstrip(". ")
