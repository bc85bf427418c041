"""one_log: impressions that have their conversions beside them, as SQL that counts them."""

from attributary.errors import InputError
from attributary.logs.blanks import filled, listed, select
from attributary.logs.bucket import bucket
from attributary.logs.clock import IN_WORDS
from attributary.logs.column import Log, flag, label
from attributary.logs.period import Period
from attributary.logs.unknown import is_delay, value
from attributary.logs.valued import valued
from attributary.logs.when import how_long, when, window_micros
from attributary.spec import Logs, Spec


def one_log(spec: Spec, logs: Logs, log: Log, period: Period) -> str:
    """SQL that counts impressions, converted or not."""
    time, in_period = _time(logs, log, period)
    delay = _delay(logs, log)
    known = {f"known_{i}": label(log, a.name) for i, a in enumerate(spec.known)}
    unknown, got = {}, {}
    for i, a in enumerate(spec.unknown):
        if is_delay(a, logs):
            if delay is None:
                raise InputError(
                    f"attribute {a.name!r} is the time from impression to conversion; say which column has it: "
                    f"delay, or conversion_time, or {a.name} in conversion_columns"
                )
            got[f"unknown_{i}"] = bucket("delay", a)
        else:
            unknown[f"unknown_{i}"] = value(log, a)
            got[f"unknown_{i}"] = f"unknown_{i}"
    if logs.window_seconds is not None and delay is None:
        raise InputError(
            "a window needs the time from impression to conversion; name its column as delay, or leave window out"
        )
    converted = flag(log, logs.converted) if logs.converted is not None else None
    if converted is None and delay is None:
        raise InputError("say which rows have a conversion: name a column as converted, conversion_time or delay")
    columns = {
        "time": time,
        "is_converted": converted or f"({delay}) IS NOT NULL",
        "delay": delay or "CAST(NULL AS BIGINT)",
    }
    values = valued(spec, log, "is_converted")
    return filled(
        "counting",
        impressions=select(columns | known | unknown | values.micros, log.relation.sql),
        known=listed(known),
        got_unknown=listed(f"CASE WHEN is_converted THEN {sql} END AS {name}" for name, sql in got.items()),
        all_unknown=listed(got),
        got_values=values.got,
        all_steps=values.steps,
        sums=values.sums,
        window=str(window_micros(logs)),
        in_period=in_period,
    )


def _time(logs: Logs, log: Log, period: Period) -> tuple[str, str]:
    """The time of an impression, which matters only for a period."""
    if period.is_all:
        return "0", "TRUE"
    if logs.time is None:
        raise InputError('logs.time is missing; say which column tells the time, as in time = "time"')
    time, clock = when(log, logs.time)
    return time, period.holds("time", clock, logs.time_unit)


def _delay(logs: Logs, log: Log) -> str | None:
    """The time from impression to conversion, in microseconds; None if the log does not say."""
    if logs.delay is not None:
        return how_long(log, logs.delay)
    if logs.conversion_time is None:
        return None
    if logs.time is None:
        raise InputError("logs.time is missing; conversion_time needs it, to tell how much later it is")
    seen, clock = when(log, logs.time)
    done, theirs = when(log, logs.conversion_time, clock)
    if clock != theirs:
        raise InputError(
            f"{log.relation.name}: {logs.time!r} has {IN_WORDS[clock]}, and {logs.conversion_time!r} has "
            f"{IN_WORDS[theirs]}; convert one of them"
        )
    return f"{done} - {seen}"
