"""count: logs become counts, one for each leaf of the spec's tree (the paper's sections 2.2 and 3.1)."""

from collections.abc import Sequence
from contextlib import nullcontext
from typing import Any

from attributary.errors import InputError
from attributary.logs.attribute_labels import missing_cells, refuse_no_other
from attributary.logs.count_sql import one_log, two_logs
from attributary.logs.counts import Counts, leaves
from attributary.logs.engine import CastError, Engine, Report
from attributary.logs.log_columns import LogTable
from attributary.logs.log_files import files
from attributary.logs.times import Moment, Period
from attributary.spec import Logs, Spec


def count(
    spec: Spec,
    folder: str = ".",
    *,
    since: Moment | None = None,
    until: Moment | None = None,
    engine: Engine | str = "duckdb",
) -> Counts:
    """The conversions of every leaf: known attributes as they occur in impressions, the full domain of unknown ones.

    A conversion belongs to the last impression before it, as the spec's section [logs] says; its files are relative to
    `folder`. A period has the impressions from `since` on and before `until`, in the log's own clock, and the
    conversions that belong to them. The engine is "duckdb", "spark", or one that you have set up.
    """
    logs = spec.logs
    if logs is None:
        raise InputError("the spec has no section [logs], which says where impressions and conversions are; add it")
    refuse_no_other(spec.unknown, logs)
    period = Period(since, until)
    with make_engine(engine) if isinstance(engine, str) else nullcontext(engine) as running:
        sides = _open_logs(spec, logs, folder, running)
        try:
            if logs.is_attributed:
                grouped = running.run(one_log(spec, logs, sides[0], period), "counting")
            else:
                grouped = running.run(two_logs(spec, logs, sides[0], sides[1], period), "attributing and counting")
        except CastError as error:
            raise _bad_cell(sides, error) from error
    return leaves(spec, logs, grouped, period)


def make_engine(name: str, report: Report | None = None, master: str | None = None, **limits: Any) -> Any:
    """An engine for a `with` statement: "duckdb" with its limits (memory, temp, threads), or "spark" at a master."""
    if name == "duckdb":
        from attributary.logs.duckdb import DuckDB

        if master is not None:
            raise InputError("master is an option of Spark; choose the engine spark, or leave it out")
        return DuckDB(report=report, **limits)
    if name == "spark":
        from attributary.logs.spark import Spark

        for limit, value in limits.items():
            if value is not None:
                raise InputError(f"{limit} is an option of DuckDB; leave it out with Spark, which has its own settings")
        return Spark(master=master, report=report)
    raise InputError(f"an engine is duckdb or spark; got {name!r}")


def _open_logs(spec: Spec, logs: Logs, folder: str, engine: Engine) -> list[LogTable]:
    ours, theirs = logs.impression_columns, logs.conversion_columns
    columns = {"attributed": ours | theirs} if logs.is_attributed else {"impressions": ours, "conversions": theirs}
    _refuse_unused(spec, logs)
    sides = []
    for side, called in columns.items():
        names: Sequence[str] | None = getattr(logs, side)
        if names is None:
            raise InputError(f'logs.{side} is missing; give its files, as in {side} = "{side}/*.parquet"')
        relation = engine.open(files(names, folder, logs.header))
        sides.append(LogTable(engine, relation, called, missing_cells(logs), logs.time_unit))
    return sides


def _refuse_unused(spec: Spec, logs: Logs) -> None:
    """A name that nothing is called would be passed over in silence."""
    both = {logs.user, *logs.keys, logs.time, logs.converted, logs.conversion_time, logs.delay} - {None}
    known, unknown = ({a.name for a in attributes} for attributes in (spec.known, spec.unknown))
    unknown |= {measure.source for measure in spec.values}
    for where, names, used in (
        ("impression_columns", logs.impression_columns, both | known),
        ("conversion_columns", logs.conversion_columns, both | unknown),
    ):
        for name in names.keys() - used:
            raise InputError(
                f"logs.{where} names a column for {name!r}, which is not needed; "
                f"needed are {', '.join(sorted(map(str, used)))}"
            )


def _bad_cell(sides: list[LogTable], error: CastError) -> InputError:
    """The cell that made a CAST fail."""
    for log in sides:
        for column, bad, needed in log.doubts:
            place = log.engine.place(log.relation, bad)
            if place is not None:
                cell = log.engine.run(
                    f"SELECT {log.engine.column(column)} AS cell FROM {log.relation.sql} WHERE {bad} LIMIT 1"
                )
                return InputError(f"{place}: {cell.column('cell')[0].as_py()!r} in column {column!r}; {needed}")
    return InputError(f"{sides[0].relation.name}: a number is out of range ({error}); is time_unit right?")
