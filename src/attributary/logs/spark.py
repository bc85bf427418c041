"""spark: the engine for a cluster. It runs the SQL that DuckDB runs."""

import os
import re
from collections.abc import Mapping
from contextlib import ExitStack
from functools import reduce
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import unquote

from attributary.errors import InputError
from attributary.logs.complaint import complaints, quiet_py4j
from attributary.logs.engine import Kind, Relation, Report
from attributary.logs.files import Files
from attributary.logs.session import active_session, start_session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

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
    is left as it was: what is set here is set in a session beside it.
    """

    types: dict[Kind, str] = {"date": "DATE", "time": "TIMESTAMP_NTZ", "zoned": "TIMESTAMP"}  # noqa: RUF012

    def __init__(
        self,
        session: "SparkSession | None" = None,
        master: str | None = None,
        settings: Mapping[str, str] | None = None,
        report: Report | None = None,
    ) -> None:
        given = session or active_session()
        if given is not None and (master is not None or settings):
            raise InputError(f"a Spark session is running already; stop it, or leave out {master or 'the settings'}")
        self._quiet = ExitStack()
        with quiet_py4j():
            self._started = start_session(master or "local[*]", settings) if given is None else None
        self._session = (given or self._started).newSession()  # type: ignore[union-attr]
        for name, value in AS_DUCKDB.items():
            self._session.conf.set(name, value)
        self._report = report or (lambda stage, share: None)
        self._frames: dict[str, list[DataFrame]] = {}

    def __enter__(self) -> Self:
        self._quiet.enter_context(quiet_py4j())
        return self

    def __exit__(self, *_: object) -> None:
        for view in self._frames:
            self._session.catalog.dropTempView(view)
        if self._started is not None:
            self._started.stop()
        self._quiet.close()

    def open(self, files: Files) -> Relation:
        with complaints(files.name):
            alike = _alike(files)
            frames = [self._read(files._replace(paths=paths)) for paths in alike]
        types = _types([(paths[0], dict(frame.dtypes)) for paths, frame in zip(alike, frames, strict=True)])
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

    def run(self, sql: str, stage: str = "") -> Any:
        self._report(stage, None)
        with complaints():
            return self._session.sql(sql).toArrow()

    def place(self, relation: Relation, condition: str) -> str | None:
        numbered = relation.files.format == "parquet"  # lines of text have no numbers on a cluster
        where = ["_metadata.file_path", *(["_metadata.row_index"] if numbered else [])]
        for frame in self._frames[relation.sql]:
            with complaints(relation.name):
                found = frame.where(condition).selectExpr(*where).orderBy(*(w.split(".")[1] for w in where)).head()
            if found is not None:
                file = unquote(found[0]).removeprefix("file:").replace("///", "/")
                return f"{file}: row {found[1] + 1:,}" if numbered else file
        return None

    def _read(self, files: Files) -> "DataFrame":
        paths = [path if "://" in path else _address(path) for path in files.paths]
        reader = self._session.read
        above = _partitioned(files.paths[0]) if files.partitioned else None
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
        raise InputError(f"Spark passes over files whose names begin with . or _; rename {path}")
    return "file://" + re.sub(r"([][{}*?\\])", r"\\\1", os.path.abspath(path))


def _partitioned(path: str) -> str | None:
    """The folder above those that are named after a column's value, as in day=2026-03-01, which are a column then."""
    whole = path if "://" in path else "file://" + os.path.abspath(path)
    found = re.match(r"(.+?)/[^/=]+=[^/]*/", whole)
    return found[1] if found else None


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


def _types(found: list[tuple[str, dict[str, str]]]) -> dict[str, str]:
    """The columns of a log whose files have these; a type that differs names both, and is of no kind."""
    (first, types), *others = found
    for path, theirs in others:
        for name, words in list(types.items()):
            if name not in theirs:
                raise InputError(f"the files of a log have the same columns; {first} has {name!r}, and {path} has not")
            if _kind(words) != _kind(theirs[name]):
                types[name] = f"{words} in {first} and {theirs[name]} in {path}"
    return types


def _together(frames: "list[DataFrame]", kinds: dict[str, Kind]) -> "DataFrame":
    """One frame; columns that are not alike become text, and are refused if they are asked for."""
    if len(frames) == 1:
        return frames[0]
    from pyspark.sql import functions as sf

    names = {name: sf.col("`" + name.replace("`", "``") + "`") for name in kinds}
    cells = [column.cast("string").alias(name) if kinds[name] == "other" else column for name, column in names.items()]
    return reduce(lambda one, other: one.unionByName(other), (frame.select(cells) for frame in frames))


def _kind(words: str) -> Kind:
    if words.startswith("decimal"):
        return "whole" if words.endswith(",0)") else "number"
    return next((kind for kind, types in KINDS.items() if words in types.split()), "other")
