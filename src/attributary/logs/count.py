"""count: logs become counts, one for each leaf of the spec's tree (the paper's sections 2.2 and 3.1)."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from decimal import Decimal
from importlib import resources
from typing import Any, NamedTuple, Self

import numpy as np

from attributary.errors import InputError
from attributary.logs.counts import FATES, Counts, last_rank, leaves, reported_leaves, value_columns
from attributary.logs.devices import SITE, DeviceRules, Devices, SiteColumns, rules_of
from attributary.logs.labels import missing_cells, refuse_no_other
from attributary.logs.log_columns import (
    CLOCK_WORDS,
    ENDLESS,
    Clock,
    LogTable,
    Moment,
    Period,
    comma_list,
    conditions,
    day_of,
    duration_of,
    flag,
    is_empty,
    key,
    label,
    number,
    on_clocks,
    place_sql,
    refuse_no_epoch,
    time_of,
    window_micros,
)
from attributary.logs.log_files import CastError, Engine, Report, files
from attributary.spec import Attribute, Logs, Spec
from attributary.spec.attribute import span
from attributary.types import Arrow


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
    with make_engine(engine) if isinstance(engine, str) else nullcontext(engine) as running:
        return Question.of(spec, folder, since, until, running).counts(spec, running)


@dataclass(frozen=True, eq=False)
class Question:
    """What counts the logs of a spec in a period: SQL that gives groups of rows by their fate and attributes.

    Where devices decide what is reported, there are `rules` instead.
    """

    logs: Logs
    period: Period
    sides: list[LogTable]
    sql: str
    clock: Clock  # of the impressions' times
    rules: DeviceRules | None = None

    @classmethod
    def of(cls, spec: Spec, folder: str, since: Moment | None, until: Moment | None, engine: Engine) -> Self:
        """The question of a spec; mistakes in it, or in how the logs look, are InputErrors."""
        logs = spec.logs
        if logs is None:
            raise InputError("the spec has no section [logs], which says where impressions and conversions are; add it")
        refuse_no_other(spec.unknown, logs)
        period = Period(since, until, logs.timezone)
        sides = _open_logs(spec, logs, folder, engine)
        made = cls(logs, period, sides, "", "number", None if logs.is_attributed else rules_of(spec))
        with made.bad_cells():
            one = logs.is_attributed
            if made.rules is not None:
                return replace(made, clock=_both_times(logs, sides[0], sides[1])[2])
            query = one_log(spec, logs, sides[0], period) if one else two_logs(spec, logs, sides[0], sides[1], period)
        return replace(made, sql=query.sql, clock=query.clock)

    def counts(self, spec: Spec, engine: Engine, groups: Any = None) -> Counts:
        """The counts of all leaves; `groups` is what the SQL gives, where it was run before."""
        with self.bad_cells():
            if self.rules is None:
                rows = engine.run(self.sql, self.stage) if groups is None else groups
                return self.finished(leaves(spec, self.logs, rows, self.period))
            devices = device_logs(spec, self, self.rules.sites(spec))
            counted = self.rules.count(spec, devices)
            return self.finished(reported_leaves(spec, self.logs, devices, counted, self.period))

    @property
    def stage(self) -> str:
        return "counting" if self.logs.is_attributed else "attributing and counting"

    @contextmanager
    def bad_cells(self) -> Iterator[None]:
        """A CAST that fails here is an InputError that names the cell."""
        try:
            yield
        except CastError as error:
            raise _bad_cell(self.sides, error) from error

    def finished(self, counts: Counts) -> Counts:
        """The counts with what they do not show: the period's clock, and rows that do not meet conditions."""
        filtered = _left_out(self.sides)
        rows = None if counts.rows is None else counts.rows + sum(filtered.values())
        return replace(counts, clock=self.period.words(self.clock), filtered=filtered, rows=rows)


def make_engine(
    name: str, report: Report | None = None, master: str | None = None, conf: Sequence[str] = (), **limits: Any
) -> Any:
    """An engine for a `with` statement: "duckdb" with its limits (memory, temp, threads), or "spark" at a master.

    `conf` are settings of Spark's own, as in "spark.executor.memory=8g".
    """
    if name == "duckdb":
        from attributary.logs.duckdb import DuckDB

        for option, value in (("master", master), ("conf", conf)):
            if value:
                raise InputError(f"{option} is an option of Spark; choose the engine spark, or leave it out")
        return DuckDB(report=report, **limits)
    if name == "spark":
        from attributary.logs.spark import Spark

        for limit, value in limits.items():
            if value is not None:
                raise InputError(f"{limit} is an option of DuckDB; leave it out with Spark, which has its own settings")
        for setting in conf:
            if not re.fullmatch(r"[^=\s]+=.*", setting):
                raise InputError(f"conf is a setting and its value, as in spark.executor.memory=8g; got {setting!r}")
        return Spark(master=master, settings=dict(setting.split("=", 1) for setting in conf), report=report)
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
        log = LogTable(engine, relation, called, missing_cells(logs), logs.time_unit)
        where = logs.conversions_where if side == "conversions" else logs.impressions_where
        sides.append(replace(log, where=conditions(log, where)))
    return sides


def _left_out(sides: list[LogTable]) -> dict[str, int]:
    """How many rows of each log do not meet the spec's conditions."""
    rows = {
        log.relation.name: f"SELECT COUNT(*) AS n FROM {log.relation.sql} WHERE NOT ({log.where})"
        for log in sides
        if log.where
    }
    return {name: int(sides[0].engine.run(sql, "choosing rows").column("n")[0].as_py()) for name, sql in rows.items()}


def _refuse_unused(spec: Spec, logs: Logs) -> None:
    """A name that nothing is called would be passed over in silence."""
    both = {logs.user, *logs.keys, logs.time, logs.converted, logs.conversion_time, logs.delay} - {None}
    known, unknown = ({a.name for a in side if a.calendar is None} for side in (spec.known, spec.unknown))
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


# Grouping by words would take longer.
FATES_IN_SQL = {fate: f"CAST({number} AS TINYINT)" for number, fate in enumerate(FATES)}

DELAY = "(next_moment - 1 - moment) / 2"  # an impression's moment is twice its time, a conversion's one more
LAST_DELAY = "(moment - 1 - last_touch) / 2"


class CountingSql(NamedTuple):
    sql: str
    clock: Clock  # of the impressions' times


def two_logs(spec: Spec, logs: Logs, impressions: LogTable, conversions: LogTable, period: Period) -> CountingSql:
    """SQL that counts impressions, conversions and what became of them."""
    seen, done, clock = _both_times(logs, impressions, conversions)
    if clock == "number" and period.has_dates:
        refuse_no_epoch(impressions, seen)
    keys = _keys(logs, impressions, conversions)
    calendars = _calendars(spec, logs, _Times(impressions, seen, clock), period)
    known = {f"known_{i}": calendars.get(a.name) or label(impressions, a.name) for i, a in enumerate(spec.known)}
    known = known or {"known_0": "0"}
    attributes = {f"unknown_{i}": a for i, a in enumerate(spec.unknown)}
    unknown = {
        name: calendars.get(a.name) or _unknown_value(conversions, a)
        for name, a in attributes.items()
        if not spec.is_delay(a)
    }
    got = {name: f"next_{name}" if name in unknown else bucket_sql(DELAY, a) for name, a in attributes.items()}
    many = spec.conversions_per_impression != 1 or bool(spec.values)
    micros, values = value_columns(spec, conversions)
    touched = {name: name if name in unknown else bucket_sql(LAST_DELAY, a) for name, a in attributes.items()}
    unknown |= micros
    by, in_order = ", ".join(keys), nulls_first("moment", "path", *unknown)
    common = _common(impressions, conversions, (seen, done), keys, known, unknown)
    common |= {"time_in_period": period.holds("time", clock, logs.time_unit)}
    sql = _fill(
        "attribution_many" if many else "attribution",
        **common,
        events=_fill("events", **common),
        all_unknown=comma_list(attributes),
        nothing_unknown=comma_list(f"NULL AS {name}" for name in attributes),
        in_order=in_order,
        next_unknown=comma_list(f"LEAD({u}) OVER (PARTITION BY {by} ORDER BY {in_order}) AS next_{u}" for u in unknown),
        got_unknown=comma_list(
            f"{sql} AS {name}" if many else f"CASE WHEN is_impression THEN {sql} END AS {name}"
            for name, sql in (touched if many else got).items()
        ),
        ranked_in_order=nulls_first("moment", *unknown),
        last_rank=str(last_rank(spec)),
        **values,
        window=str(2 * window_micros(logs)),
        touch_in_period=period.holds("last_touch", clock, logs.time_unit, times=2),
    )
    return CountingSql(sql, clock)


def device_logs(spec: Spec, question: Question, sites: SiteColumns) -> Devices:
    """The events of all devices that converted, sorted once."""
    import pyarrow.compute as pc

    logs, period, (impressions, conversions) = question.logs, question.period, question.sides
    for attribute in spec.unknown:
        if spec.is_delay(attribute):
            rule = "is the time from impression to conversion, which no client of the"
            raise InputError(f"{attribute.name!r} {rule} {spec.terms.title} can tell; leave it out")
    seen, done, clock = _both_times(logs, impressions, conversions)
    if clock == "number" and period.has_dates:
        refuse_no_epoch(impressions, seen)
    (user, both), *more = _keys(logs, impressions, conversions).items()
    calendars = _calendars(spec, logs, _Times(impressions, seen, clock), period)
    views = {f"known_{i}": calendars.get(a.name) or label(impressions, a.name) for i, a in enumerate(spec.known)}
    kinds = {
        f"unknown_{i}": calendars.get(a.name) or _unknown_value(conversions, a) for i, a in enumerate(spec.unknown)
    }
    needed = {name: (ours, its) for name, (ours, its) in more}
    views |= {name: ours for name, (ours, _) in needed.items()}
    kinds |= {name: its for name, (_, its) in needed.items()}
    views |= {SITE: label(impressions, sites.impression)} if sites.impression else {}
    kinds |= {SITE: key(conversions, sites.conversion)[0]} if sites.conversion else {}
    kinds |= value_columns(spec, conversions)[0]
    views, kinds = views or {"known_0": "0"}, kinds or {"unknown_0": "0"}
    common = _common(impressions, conversions, (seen, done), {user: both}, views, kinds)
    there = [user, *needed, *[SITE] * (sites.conversion is not None)]
    common |= {
        "joinable": " AND ".join(f"{name} IS NOT NULL" for name in there),
        "time_in_period": period.holds("time", clock, logs.time_unit),
    }
    common |= {"kind": ", ".join(kinds), "kind_in_order": nulls_first(*kinds), "events": _fill("events", **common)}

    def run(wanted: str) -> Arrow:
        return conversions.engine.run(_fill("devices", **common, wanted=wanted), "attributing and counting")

    seen_views = run(f"SELECT path - 1 AS code, {common['known']}, dated, not_dated FROM paths ORDER BY path")
    nothing = ", ".join(f"NULL AS {name}" for name in kinds)
    left = f"FROM conversions WHERE time IS NULL OR NOT ({common['joinable']})"
    seen_kinds = run(
        f"SELECT code, {common['kind']}, number FROM kinds "
        f"UNION ALL SELECT -1 AS code, {nothing}, COUNT(*) AS number {left} ORDER BY code"
    )
    events = run(
        "SELECT CAST(device AS INT) AS device, moment, CAST(COALESCE(path - 1, kinds.code) AS INT) AS code FROM events "
        f"JOIN devices USING ({user}) LEFT JOIN kinds ON {same('events', 'kinds', kinds)} ORDER BY device, moment, code"
    )
    device = events.column("device").to_numpy()
    start = np.flatnonzero(np.diff(device, prepend=0, append=0))  # and the end
    since, until = (period.end_micros(end, clock, logs.time_unit) for end in ("since", "until"))
    return Devices(
        start.astype(np.int64),
        events.column("moment").to_numpy(),
        events.column("code").to_numpy(),
        seen_views,
        seen_kinds.filter(pc.greater_equal(seen_kinds.column("code"), 0)),
        clock != "date",
        (-ENDLESS if since is None else since, ENDLESS if until is None else until),
        int(seen_kinds.column("number")[0].as_py()),
    )


def _common(
    impressions: LogTable,
    conversions: LogTable,
    times: tuple[str, str],
    keys: Mapping[str, tuple[str, str]],
    known: dict[str, str],
    unknown: dict[str, str],
) -> dict[str, str]:
    """The blanks of events.sql, but for the period: what joins the logs, and what either has besides its time."""
    return {
        "impressions": _select(
            {k: ours for k, (ours, _) in keys.items()} | {"time": TIME} | known, _timed(impressions, {TIME: times[0]})
        ),
        "conversions": _select(
            {k: its for k, (_, its) in keys.items()} | {"time": TIME} | unknown, _timed(conversions, {TIME: times[1]})
        ),
        "keys": ", ".join(keys),
        "joinable": " AND ".join(f"{name} IS NOT NULL" for name in keys),
        "known": ", ".join(known),
        "known_in_order": nulls_first(*known),
        "same_path": same("impressions", "paths", known),
        "nothing_known": ", ".join(f"NULL AS {name}" for name in known),
        "unknown": comma_list(unknown),
        "no_unknown": comma_list(f"NULL AS {name}" for name in unknown),
    }


def nulls_first(*names: str) -> str:
    return ", ".join(f"{name} NULLS FIRST" for name in names)


def same(one: str, other: str, names: Iterable[str]) -> str:
    """SQL that holds where two tables agree in columns, also where a value is missing."""
    return " AND ".join(f"{one}.{name} IS NOT DISTINCT FROM {other}.{name}" for name in names)


TIME, THEN = "attributary_time", "attributary_conversion_time"  # columns of times in microseconds


def _timed(log: LogTable, times: Mapping[str, str]) -> str:
    return f"(SELECT *, {', '.join(f'{sql} AS {name}' for name, sql in times.items())} FROM {log.rows}) AS timed"


class _Times(NamedTuple):
    """The impressions' times, by which periods and calendars go."""

    log: LogTable
    sql: str
    clock: Clock


def _calendars(spec: Spec, logs: Logs, times: _Times, period: Period, then: str = TIME) -> dict[str, str]:
    """SQL for the places of attributes that have a calendar, by name; `then` is the column of conversions' times."""
    asked = {attribute: attribute.calendar for attribute in spec.attributes if attribute.calendar is not None}
    if not asked:
        return {}
    if times.clock == "number":
        refuse_no_epoch(times.log, times.sql)
    first = period.end_micros("since", times.clock, logs.time_unit)
    if first is None:
        rows = f"(SELECT {times.sql} AS time FROM {times.log.rows}) AS times"
        inside = period.holds("time", times.clock, logs.time_unit)
        first = times.log.engine.run(f"SELECT MIN(time) AS first FROM {rows} WHERE {inside}").column("first")[0].as_py()
    places = {}
    for attribute, calendar in asked.items():
        zone = (attribute.timezone or logs.timezone or "UTC") if times.clock in ("number", "zoned") else None
        shown = on_clocks(then if attribute.unknown else TIME, zone)
        places[attribute.name] = place_sql(calendar, shown, day_of(first or 0, zone))
    return places


def _both_times(logs: Logs, impressions: LogTable, conversions: LogTable) -> tuple[str, str, Clock]:
    if logs.time is None:
        raise InputError('logs.time is missing; name the column of times, as in time = "time"')
    seen, clock = time_of(impressions, logs.time)
    done, theirs = time_of(conversions, logs.time, clock)
    if clock != theirs:
        if is_empty(impressions):
            raise InputError(f"{impressions.relation.name} has no rows: there is no impression to count")
        if {clock, theirs} == {"number", "zoned"}:  # both are instants
            refuse_no_epoch(*((impressions, seen) if clock == "number" else (conversions, done)))
            return seen, done, "zoned"
        raise InputError(
            f"both logs must give times in the same form; {impressions.relation.name} has {CLOCK_WORDS[clock]}, and "
            f"{conversions.relation.name} has {CLOCK_WORDS[theirs]}: convert one of them"
        )
    return seen, done, clock


def _keys(logs: Logs, impressions: LogTable, conversions: LogTable) -> dict[str, tuple[str, str]]:
    """What joins a conversion to its impressions: on either side, of types that can be compared."""
    if logs.user is None:
        raise InputError(
            'logs.user is missing; name the column that joins conversions to impressions, as in user = "user"'
        )
    keys = {}
    for i, name in enumerate((logs.user, *logs.keys)):
        (ours, kind), (its, other) = key(impressions, name), key(conversions, name)
        if kind != other:
            if {kind, other} != {"text", "whole"}:
                raise InputError(
                    f"both logs must have the same type in {name!r}; it is {kind} in {impressions.relation.name}, and "
                    f"{other} in {conversions.relation.name}: convert one of them"
                )
            ours, its = f"CAST({ours} AS STRING)", f"CAST({its} AS STRING)"
        keys[f"key_{i}"] = (ours, its)
    return keys


def one_log(spec: Spec, logs: Logs, log: LogTable, period: Period) -> CountingSql:
    """SQL that counts impressions, converted or not."""
    dated = any(a.calendar is not None for a in spec.attributes)
    time, in_period, clock = _time_in_period(logs, log, period, dated)
    delay = _delay(logs, log)
    if delay is None and any(a.calendar is not None for a in spec.unknown):
        raise InputError("the calendar of a conversion needs its time; name its column as conversion_time or delay")
    calendars = _calendars(spec, logs, _Times(log, time, clock), period, THEN)
    times = {TIME: time, THEN: f"({time}) + ({delay or 0})"} if dated else {TIME: time}
    known = {f"known_{i}": calendars.get(a.name) or label(log, a.name) for i, a in enumerate(spec.known)}
    unknown, got = {}, {}
    for i, a in enumerate(spec.unknown):
        if spec.is_delay(a):
            if delay is None:
                raise InputError(
                    f"attribute {a.name!r} is the delay from impression to conversion; name its column: "
                    f"delay, or conversion_time, or {a.name} in conversion_columns"
                )
            got[f"unknown_{i}"] = bucket_sql("delay", a)
        else:
            unknown[f"unknown_{i}"] = calendars.get(a.name) or _unknown_value(log, a)
            got[f"unknown_{i}"] = f"unknown_{i}"
    if logs.window_seconds is not None and delay is None:
        raise InputError(
            "a window needs the delay from impression to conversion; name its column as delay, or leave window out"
        )
    converted = flag(log, logs.converted) if logs.converted is not None else None
    if converted is None and delay is None:
        raise InputError("which rows have a conversion? name a column as converted, conversion_time or delay")
    columns = {
        "time": TIME,
        "is_converted": converted or f"({delay}) IS NOT NULL",
        "delay": delay or "CAST(NULL AS BIGINT)",
    }
    micros, values = value_columns(spec, log, "is_converted")
    sql = _fill(
        "counting",
        impressions=_select(columns | known | unknown | micros, _timed(log, times)),
        known=comma_list(known),
        got_unknown=comma_list(f"CASE WHEN is_converted THEN {sql} END AS {name}" for name, sql in got.items()),
        all_unknown=comma_list(got),
        **values,
        window=str(window_micros(logs)),
        in_period=in_period,
    )
    return CountingSql(sql, clock)


def _time_in_period(logs: Logs, log: LogTable, period: Period, dated: bool) -> tuple[str, str, Clock]:
    """The time of an impression, which matters only for periods and calendars, whether it is in one, and its clock."""
    if period.is_all and not dated:
        return "0", "TRUE", "number"
    if logs.time is None:
        raise InputError('logs.time is missing; name the column of times, as in time = "time"')
    time, clock = time_of(log, logs.time)
    if clock == "number" and period.has_dates:
        refuse_no_epoch(log, time)
    return time, period.holds("time", clock, logs.time_unit), clock


def _delay(logs: Logs, log: LogTable) -> str | None:
    """The time from impression to conversion, in microseconds; None if the log does not say."""
    if logs.delay is not None:
        return duration_of(log, logs.delay)
    if logs.conversion_time is None:
        return None
    if logs.time is None:
        raise InputError("logs.time is missing; it is needed with conversion_time, for the delay")
    seen, clock = time_of(log, logs.time)
    done, theirs = time_of(log, logs.conversion_time, clock)
    if clock != theirs:
        raise InputError(
            f"{log.relation.name}: {logs.time!r} has {CLOCK_WORDS[clock]}, and {logs.conversion_time!r} has "
            f"{CLOCK_WORDS[theirs]}; convert one of them"
        )
    return f"{done} - {seen}"


def _unknown_value(log: LogTable, attribute: Attribute) -> str:
    """The value of an attribute that is not the delay, or its bucket."""
    if attribute.bucket is None:
        return label(log, attribute.name)
    amount = duration_of if isinstance(attribute.bucket, str) else number
    return bucket_sql(amount(log, attribute.name), attribute)


def bucket_sql(value: str, attribute: Attribute) -> str:
    """Which bucket of the attribute a value is in, from 0; -1 below all of them, and their number above.

    A value for buckets of time, as in 2d, is in whole microseconds.
    """
    start, width, buckets = attribute.start, attribute.bucket, attribute.buckets
    assert width is not None and buckets is not None
    here = f"({value})"
    if isinstance(width, str):
        low, step, scale = _span_micros(start or "0s"), _span_micros(width), 1
        place = f"FLOOR(({here} - {low}) / {step})"
        beside = ""
    else:
        low, step, scale = _in_last_digits(Decimal(repr(start or 0)), Decimal(repr(width)))
        place = f"FLOOR(({here} * {scale} - {low}) / {step})"
        # The quotient may be a hair beside the edge that it is meant for: 4.1 * 100 is below 410. An edge that is
        # divided by a power of ten is what its decimals are as a number, and tells which side is right.
        beside = (
            f"WHEN {here} < {_edge(f'{low} + {place} * {step}', scale)} THEN CAST({place} - 1 AS BIGINT) "
            f"WHEN {here} >= {_edge(f'{low} + ({place} + 1) * {step}', scale)} THEN CAST({place} + 1 AS BIGINT) "
        )
    return (
        f"CASE WHEN {here} < {_edge(low, scale)} THEN CAST(-1 AS BIGINT) "
        f"WHEN {here} >= {_edge(low + buckets * step, scale)} THEN CAST({buckets} AS BIGINT) "
        f"{beside}ELSE CAST({place} AS BIGINT) END"
    )


def _edge(whole: int | str, scale: int) -> str:
    return f"CAST({whole} AS DOUBLE) / {scale}" if scale > 1 else f"({whole})"


def _in_last_digits(start: Decimal, width: Decimal) -> tuple[int, int, int]:
    """Start and width in units of their last digit, and how many of these are 1."""
    digits = max(0, *(-int(number.normalize().as_tuple().exponent) for number in (start, width)))
    return int(start * 10**digits), int(width * 10**digits), 10**digits


def _span_micros(text: object) -> int:
    return span(text).seconds * 10**6


def _fill(name: str, **blanks: str) -> str:
    """The SQL in a file, its blanks filled, the fates among them. A list begins with its comma, or is empty."""
    sql = resources.files("attributary.logs").joinpath(f"{name}.sql").read_text(encoding="utf-8")
    code = "\n".join(line for line in sql.splitlines() if not line.startswith("--"))
    return code.format_map(FATES_IN_SQL | blanks)


def _select(values: Mapping[str, str], rows: str) -> str:
    return f"SELECT {', '.join(f'{value} AS {name}' for name, value in values.items())} FROM {rows}"
