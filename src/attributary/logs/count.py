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
            if made.rules is not None:
                return replace(made, clock=_both_times(logs, *sides)[2])
            sql, clock = one_log(spec, made) if logs.is_attributed else two_logs(spec, made)
        return replace(made, sql=sql, clock=clock)

    def counts(self, spec: Spec, engine: Engine, groups: Arrow = None) -> Counts:
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
            for log, doubt in [(side, doubt) for side in self.sides for doubt in side.doubts]:
                if (place := log.engine.place(log.relation, doubt.bad)) is not None:
                    rows = f"FROM {log.relation.sql} WHERE {doubt.bad} LIMIT 1"
                    cell = log.engine.run(f"SELECT {log.engine.column(doubt.column)} AS cell {rows}").column("cell")[0]
                    rule = f"{cell.as_py()!r} in column {doubt.column!r}; {doubt.needed}"
                    raise InputError(f"{place}: {rule}") from error
            name = self.sides[0].relation.name
            raise InputError(f"{name}: a number is out of range ({error}); is time_unit right?") from error

    def finished(self, counts: Counts) -> Counts:
        """The counts with what they do not show: the period's clock, and rows that do not meet conditions."""
        filtered = {}
        for log in self.sides:
            if log.where:
                sql = f"SELECT COUNT(*) AS n FROM {log.relation.sql} WHERE NOT ({log.where})"
                filtered[log.relation.name] = int(log.engine.run(sql, "choosing rows").column("n")[0].as_py())
        rows = None if counts.rows is None else counts.rows + sum(filtered.values())
        return replace(counts, clock=self.period.words(self.clock), filtered=filtered, rows=rows)


def make_engine(
    name: str, report: Report | None = None, master: str | None = None, conf: Sequence[str] = (), **limits: Any
) -> Any:
    """An engine for a `with` statement: "duckdb" with its limits (memory, temp, threads), or "spark" at a master.

    `conf` are settings of Spark's own, as in "spark.executor.memory=8g".
    """
    if name not in ("duckdb", "spark"):
        raise InputError(f"an engine is duckdb or spark; got {name!r}")
    other, options = ("DuckDB", limits) if name == "spark" else ("Spark", {"master": master, "conf": conf or None})
    for option, value in options.items():
        if value is not None:
            raise InputError(f"{option} is an option of {other}; choose the engine {other.lower()}, or leave it out")
    if name == "duckdb":
        from attributary.logs.duckdb import DuckDB

        return DuckDB(report=report, **limits)
    from attributary.logs.spark import Spark

    for setting in conf:
        if not re.fullmatch(r"[^=\s]+=.*", setting):
            raise InputError(f"conf is a setting and its value, as in spark.executor.memory=8g; got {setting!r}")
    return Spark(master=master, settings=dict(setting.split("=", 1) for setting in conf), report=report)


def _open_logs(spec: Spec, logs: Logs, folder: str, engine: Engine) -> list[LogTable]:
    ours, theirs = logs.impression_columns, logs.conversion_columns
    columns = {"attributed": ours | theirs} if logs.is_attributed else {"impressions": ours, "conversions": theirs}
    both = {logs.user, *logs.keys, logs.time, logs.converted, logs.conversion_time, logs.delay} - {None}
    known, unknown = ({a.name for a in side if a.calendar is None} for side in (spec.known, spec.unknown))
    unknown |= {measure.source for measure in spec.values}
    for where, names, used in (("impression", ours, both | known), ("conversion", theirs, both | unknown)):
        for name in names.keys() - used:  # it would be passed over in silence
            needed = f"which is not needed; needed are {', '.join(sorted(map(str, used)))}"
            raise InputError(f"logs.{where}_columns names a column for {name!r}, {needed}")
    sides = []
    for side, called in columns.items():
        if (paths := getattr(logs, side)) is None:
            raise InputError(f'logs.{side} is missing; give its files, as in {side} = "{side}/*.parquet"')
        relation = engine.open(files(paths, folder, logs.header))
        log = LogTable(engine, relation, called, missing_cells(logs), logs.time_unit)
        chosen = logs.conversions_where if side == "conversions" else logs.impressions_where
        sides.append(replace(log, where=conditions(log, chosen)))
    return sides


# Grouping by words would take longer.
FATES_IN_SQL = {fate: f"CAST({number} AS TINYINT)" for number, fate in enumerate(FATES)}

DELAY = "(next_moment - 1 - moment) / 2"  # an impression's moment is twice its time, a conversion's one more
LAST_DELAY = "(moment - 1 - last_touch) / 2"
TIME, THEN = "attributary_time", "attributary_conversion_time"  # columns of times in microseconds


class JoinedLogs(NamedTuple):
    """Two logs to be joined, and SQL for what either has, by the names that it gets."""

    impressions: LogTable
    conversions: LogTable
    seen: str  # times
    done: str
    clock: Clock  # of the impressions' times
    keys: dict[str, tuple[str, str]]  # of impressions, and of conversions
    known: dict[str, str]
    unknown: dict[str, str]  # attributes of conversions, but for the delay

    @classmethod
    def of(cls, spec: Spec, question: Question) -> Self:
        logs, period, (impressions, conversions) = question.logs, question.period, question.sides
        seen, done, clock = _both_times(logs, impressions, conversions)
        if clock == "number" and period.has_dates:
            refuse_no_epoch(impressions, seen)
        keys = _keys(logs, impressions, conversions)
        known, unknown = _attributes(spec, question, seen, clock)
        return cls(impressions, conversions, seen, done, clock, keys, known, unknown)

    def blanks(self, known: dict[str, str], unknown: dict[str, str], *, there: Iterable[str] = ()) -> dict[str, str]:
        """The blanks of events.sql, but for the period, with these columns besides time and what joins the logs.

        A conversion is joinable where all keys are `there`, and the columns that this names.
        """
        ours, theirs = ({name: both[side] for name, both in self.keys.items()} | {"time": TIME} for side in (0, 1))
        return {
            "impressions": _select(self.impressions, ours | known, {TIME: self.seen}),
            "conversions": _select(self.conversions, theirs | unknown, {TIME: self.done}),
            "keys": ", ".join(self.keys),
            "joinable": " AND ".join(f"{name} IS NOT NULL" for name in (*self.keys, *there)),
            "known": ", ".join(known),
            "known_in_order": nulls_first(*known),
            "same_path": same("impressions", "paths", known),
            "nothing_known": ", ".join(f"NULL AS {name}" for name in known),
            "unknown": comma_list(unknown),
            "no_unknown": comma_list(f"NULL AS {name}" for name in unknown),
        }


def two_logs(spec: Spec, question: Question) -> tuple[str, Clock]:
    """SQL that counts impressions, conversions and what became of them; and the clock of the impressions' times."""
    logs, period, joined = question.logs, question.period, JoinedLogs.of(spec, question)
    known, unknown, clock = joined.known or {"known_0": "0"}, joined.unknown, joined.clock
    attributes = {f"unknown_{i}": a for i, a in enumerate(spec.unknown)}
    many = spec.conversions_per_impression != 1 or bool(spec.values)
    if many:
        got = {name: name if name in unknown else bucket_sql(LAST_DELAY, a) for name, a in attributes.items()}
    else:
        got = {name: f"next_{name}" if name in unknown else bucket_sql(DELAY, a) for name, a in attributes.items()}
        got = {name: f"CASE WHEN is_impression THEN {sql} END" for name, sql in got.items()}
    micros, values = value_columns(spec, joined.conversions)
    unknown = unknown | micros
    by, in_order = ", ".join(joined.keys), nulls_first("moment", "path", *unknown)
    blanks = joined.blanks(known, unknown) | {"time_in_period": period.holds("time", clock, logs.time_unit)}
    sql = _fill(
        "attribution_many" if many else "attribution",
        **blanks,
        events=_fill("events", **blanks),
        all_unknown=comma_list(attributes),
        nothing_unknown=comma_list(f"NULL AS {name}" for name in attributes),
        in_order=in_order,
        next_unknown=comma_list(f"LEAD({u}) OVER (PARTITION BY {by} ORDER BY {in_order}) AS next_{u}" for u in unknown),
        got_unknown=comma_list(f"{sql} AS {name}" for name, sql in got.items()),
        ranked_in_order=nulls_first("moment", *unknown),
        last_rank=str(last_rank(spec)),
        **values,
        window=str(2 * window_micros(logs)),
        touch_in_period=period.holds("last_touch", clock, logs.time_unit, times=2),
    )
    return sql, clock


def device_logs(spec: Spec, question: Question, sites: SiteColumns) -> Devices:
    """The events of all devices that converted, sorted once."""
    import pyarrow.compute as pc

    for attribute in spec.unknown:
        if spec.is_delay(attribute):
            rule = "is the time from impression to conversion, which no client of the"
            raise InputError(f"{attribute.name!r} {rule} {spec.terms.title} can tell; leave it out")
    joined, unit = JoinedLogs.of(spec, question), question.logs.time_unit
    (user, both), *more = joined.keys.items()
    views = joined.known | {name: ours for name, (ours, _) in more}
    kinds = joined.unknown | {name: its for name, (_, its) in more}
    views |= {SITE: label(joined.impressions, sites.impression)} if sites.impression else {}
    kinds |= {SITE: key(joined.conversions, sites.conversion)[0]} if sites.conversion else {}
    kinds |= value_columns(spec, joined.conversions)[0]
    views, kinds = views or {"known_0": "0"}, kinds or {"unknown_0": "0"}
    there = [*dict(more), *[SITE] * (sites.conversion is not None)]
    blanks = joined._replace(keys={user: both}).blanks(views, kinds, there=there)
    blanks |= {"time_in_period": question.period.holds("time", joined.clock, unit)}
    blanks |= {"kind": ", ".join(kinds), "kind_in_order": nulls_first(*kinds), "events": _fill("events", **blanks)}

    def run(wanted: str) -> Arrow:
        return joined.conversions.engine.run(_fill("devices", **blanks, wanted=wanted), "attributing and counting")

    seen_views = run(f"SELECT path - 1 AS code, {blanks['known']}, dated, not_dated FROM paths ORDER BY path")
    nothing = ", ".join(f"NULL AS {name}" for name in kinds)
    left = f"FROM conversions WHERE time IS NULL OR NOT ({blanks['joinable']})"
    seen_kinds = run(
        f"SELECT code, {blanks['kind']}, number FROM kinds "
        f"UNION ALL SELECT -1 AS code, {nothing}, COUNT(*) AS number {left} ORDER BY code"
    )
    events = run(
        "SELECT CAST(device AS INT) AS device, moment, CAST(COALESCE(path - 1, kinds.code) AS INT) AS code FROM events "
        f"JOIN devices USING ({user}) LEFT JOIN kinds ON {same('events', 'kinds', kinds)} ORDER BY device, moment, code"
    )
    start = np.flatnonzero(np.diff(events.column("device").to_numpy(), prepend=0, append=0))  # and the end
    since, until = (question.period.end_micros(end, joined.clock, unit) for end in ("since", "until"))
    return Devices(
        start.astype(np.int64),
        events.column("moment").to_numpy(),
        events.column("code").to_numpy(),
        seen_views,
        seen_kinds.filter(pc.greater_equal(seen_kinds.column("code"), 0)),
        joined.clock != "date",
        (-ENDLESS if since is None else since, ENDLESS if until is None else until),
        int(seen_kinds.column("number")[0].as_py()),
    )


def nulls_first(*names: str) -> str:
    return ", ".join(f"{name} NULLS FIRST" for name in names)


def same(one: str, other: str, names: Iterable[str]) -> str:
    """SQL that holds where two tables agree in columns, also where a value is missing."""
    return " AND ".join(f"{one}.{name} IS NOT DISTINCT FROM {other}.{name}" for name in names)


def _attributes(
    spec: Spec, question: Question, time: str, clock: Clock, then: str = TIME
) -> tuple[dict[str, str], dict[str, str]]:
    """SQL for the known attributes, and for the unknown ones but for the delay.

    Periods and calendars go by the impressions' `time`; `then` is the column of the conversions' times.
    """
    log, its, logs = question.sides[0], question.sides[-1], question.logs
    asked = {attribute: attribute.calendar for attribute in spec.attributes if attribute.calendar is not None}
    first, sql = None, dict[str, str]()
    if asked:
        if clock == "number":
            refuse_no_epoch(log, time)
        first = question.period.end_micros("since", clock, logs.time_unit)
        if first is None:
            rows = f"(SELECT {time} AS time FROM {log.rows}) AS times"
            inside = question.period.holds("time", clock, logs.time_unit)
            first = log.engine.run(f"SELECT MIN(time) AS first FROM {rows} WHERE {inside}").column("first")[0].as_py()
    for attribute, calendar in asked.items():
        zone = (attribute.timezone or logs.timezone or "UTC") if clock in ("number", "zoned") else None
        shown = on_clocks(then if attribute.unknown else TIME, zone)
        sql[attribute.name] = place_sql(calendar, shown, day_of(first or 0, zone))
    known = {f"known_{i}": sql.get(a.name) or label(log, a.name) for i, a in enumerate(spec.known)}
    others = [(f"unknown_{i}", a) for i, a in enumerate(spec.unknown) if not spec.is_delay(a)]
    return known, {name: sql.get(a.name) or _unknown_value(its, a) for name, a in others}


def _both_times(logs: Logs, impressions: LogTable, conversions: LogTable) -> tuple[str, str, Clock]:
    seen, clock = time_of(impressions, _time(logs))
    done, theirs = time_of(conversions, _time(logs), clock)
    if clock != theirs:
        if impressions.engine.run(f"SELECT 1 AS one FROM {impressions.rows} LIMIT 1").num_rows == 0:
            raise InputError(f"{impressions.relation.name} has no rows: there is no impression to count")
        if {clock, theirs} == {"number", "zoned"}:  # both are instants
            refuse_no_epoch(*((impressions, seen) if clock == "number" else (conversions, done)))
            return seen, done, "zoned"
        forms = f"{impressions.relation.name} has {CLOCK_WORDS[clock]}, and {conversions.relation.name}"
        forms += f" has {CLOCK_WORDS[theirs]}"
        raise InputError(f"both logs must give times in the same form; {forms}: convert one of them")
    return seen, done, clock


def _time(logs: Logs) -> str:
    if logs.time is None:
        raise InputError('logs.time is missing; name the column of times, as in time = "time"')
    return logs.time


def _keys(logs: Logs, impressions: LogTable, conversions: LogTable) -> dict[str, tuple[str, str]]:
    """What joins a conversion to its impressions: on either side, of types that can be compared."""
    if logs.user is None:
        rule = "logs.user is missing; name the column that joins conversions to impressions"
        raise InputError(f'{rule}, as in user = "user"')
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


def one_log(spec: Spec, question: Question) -> tuple[str, Clock]:
    """SQL that counts impressions, converted or not; and the clock of their times, where these matter."""
    logs, period, (log,) = question.logs, question.period, question.sides
    dated = any(a.calendar is not None for a in spec.attributes)
    clock: Clock = "number"
    time, in_period = "0", "TRUE"
    if dated or not period.is_all:
        time, clock = time_of(log, _time(logs))
        if clock == "number" and period.has_dates:
            refuse_no_epoch(log, time)
        in_period = period.holds("time", clock, logs.time_unit)
    delay = _delay(logs, log)
    if delay is None and any(a.calendar is not None for a in spec.unknown):
        raise InputError("the calendar of a conversion needs its time; name its column as conversion_time or delay")
    times = {TIME: time, THEN: f"({time}) + ({delay or 0})"} if dated else {TIME: time}
    known, unknown = _attributes(spec, question, time, clock, THEN)
    got = {}
    for name, a in ((f"unknown_{i}", a) for i, a in enumerate(spec.unknown)):
        if name not in unknown and delay is None:
            rule = f"attribute {a.name!r} is the delay from impression to conversion; name its column"
            raise InputError(f"{rule}: delay, or conversion_time, or {a.name} in conversion_columns")
        got[name] = name if name in unknown else bucket_sql("delay", a)
    if logs.window_seconds is not None and delay is None:
        rule = "a window needs the delay from impression to conversion"
        raise InputError(f"{rule}; name its column as delay, or leave window out")
    if logs.converted is None and delay is None:
        raise InputError("which rows have a conversion? name a column as converted, conversion_time or delay")
    is_converted = f"({delay}) IS NOT NULL" if logs.converted is None else flag(log, logs.converted)
    columns = {"time": TIME, "is_converted": is_converted, "delay": delay or "CAST(NULL AS BIGINT)"}
    micros, values = value_columns(spec, log, "is_converted")
    sql = _fill(
        "counting",
        impressions=_select(log, columns | known | unknown | micros, times),
        known=comma_list(known),
        got_unknown=comma_list(f"CASE WHEN is_converted THEN {sql} END AS {name}" for name, sql in got.items()),
        all_unknown=comma_list(got),
        **values,
        window=str(window_micros(logs)),
        in_period=in_period,
    )
    return sql, clock


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
    width, buckets, here = attribute.bucket, attribute.buckets, f"({value})"
    assert width is not None and buckets is not None
    if isinstance(width, str):
        low, step, scale = span(attribute.start or "0s").seconds * 10**6, span(width).seconds * 10**6, 1
    else:  # in units of the last digit
        ends = Decimal(repr(attribute.start or 0)), Decimal(repr(width))
        scale = 10 ** max(0, *(-int(end.normalize().as_tuple().exponent) for end in ends))
        low, step = (int(end * scale) for end in ends)

    def edge(whole: int | str) -> str:
        return f"CAST({whole} AS DOUBLE) / {scale}" if scale > 1 else f"({whole})"

    beside, place = "", f"FLOOR(({here} * {scale} - {low}) / {step})"
    if not isinstance(width, str):
        # The quotient may be a hair beside the edge that it is meant for: 4.1 * 100 is below 410. An edge that is
        # divided by a power of ten is what its decimals are as a number, and tells which side is right.
        beside = (
            f"WHEN {here} < {edge(f'{low} + {place} * {step}')} THEN CAST({place} - 1 AS BIGINT) "
            f"WHEN {here} >= {edge(f'{low} + ({place} + 1) * {step}')} THEN CAST({place} + 1 AS BIGINT) "
        )
    return (
        f"CASE WHEN {here} < {edge(low)} THEN CAST(-1 AS BIGINT) "
        f"WHEN {here} >= {edge(low + buckets * step)} THEN CAST({buckets} AS BIGINT) "
        f"{beside}ELSE CAST({place} AS BIGINT) END"
    )


def _fill(name: str, **blanks: str) -> str:
    """The SQL in a file, its blanks filled, the fates among them. A list begins with its comma, or is empty."""
    sql = resources.files("attributary.logs").joinpath(f"{name}.sql").read_text(encoding="utf-8")
    code = "\n".join(line for line in sql.splitlines() if not line.startswith("--"))
    return code.format_map(FATES_IN_SQL | blanks)


def _select(log: LogTable, values: Mapping[str, str], times: Mapping[str, str]) -> str:
    """SQL for values by their names; the `times` are columns that these may use."""
    columns, timed = (", ".join(f"{sql} AS {name}" for name, sql in each.items()) for each in (values, times))
    return f"SELECT {columns} FROM (SELECT *, {timed} FROM {log.rows}) AS timed"
