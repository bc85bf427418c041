"""when: the times and lengths of time in a log, as SQL for whole microseconds."""

from attributary.errors import InputError
from attributary.logs.clock import IN_WORDS, PER_SECOND, Clock, clock_of
from attributary.logs.column import Doubt, Log, found, number, present, sample, wrong
from attributary.spec import Logs

LATEST = 4_102_444_800  # seconds from 1970 to 2100
ENDLESS = 2**62 - 1  # microseconds, which 64 bits hold twice
IS_ZONED = "{0} LIKE '%Z' OR {0} LIKE '%UTC' OR SUBSTRING({0}, 12) LIKE '%+%' OR SUBSTRING({0}, 12) LIKE '%-%'"


def when(log: Log, name: str, like: Clock | None = None) -> tuple[str, Clock]:
    """The column in microseconds from 0 or from 1970, and its clock: that of `like` where no cell of text tells."""
    column, kind = found(log, name)
    if kind in ("whole", "number"):
        return _since(log, name), "number"
    if kind in ("date", "time", "zoned"):
        return log.engine.micros(log.engine.column(column), kind), kind
    if kind != "text":
        raise wrong(log, column, "times are numbers, dates or timestamps")
    cells = sample(log, column)
    clock = clock_of(cells) if cells or like is None else like
    if clock is None:
        odd = next(cell for cell in cells if clock_of([cell]) != clock_of(cells[:1]) or clock_of([cell]) is None)
        raise InputError(
            f"{log.relation.name}: column {column!r} has {cells[0]!r} and {odd!r}; times are numbers, or as in "
            "2026-03-01, 2026-03-01T12:00:00 or 2026-03-01T12:00:00Z, and in one column they are alike"
        )
    return (_since(log, name) if clock == "number" else _text(log, column, clock)), clock


def _since(log: Log, name: str) -> str:
    """A column of numbers as microseconds; times past 2100 are in another unit, and would make most windows end."""
    column, kind = found(log, name)
    value = present(log, column, kind) if kind == "whole" else number(log, name)
    late = f"{value} >= {LATEST * PER_SECOND[log.unit]}"
    finer = " or ".join(f'"{unit}"' for unit in PER_SECOND if PER_SECOND[unit] > PER_SECOND[log.unit])
    remedy = f"say time_unit = {finer} in [logs]" if finer else "correct it"
    rule = f"times in {log.unit} from 1970 are out of range past 2100: is time_unit right? {remedy}"
    log.doubts.append(Doubt(column, late, rule))
    return f"CASE WHEN {late} THEN CAST(CONCAT('past 2100: ', {value}) AS BIGINT) ELSE {how_long(log, name)} END"


def how_long(log: Log, name: str) -> str:
    """The column, a length of time in the unit that the spec says, in microseconds."""
    column, kind = found(log, name)
    per = PER_SECOND[log.unit]
    if kind == "whole" and per <= 10**6:
        return f"CAST({present(log, column, kind)} AS BIGINT) * {10**6 // per}"
    scaled = f"{number(log, name)} * {10**6 // per}" if per <= 10**6 else f"{number(log, name)} / {per // 10**6}"
    return f"CAST(ROUND({scaled}) AS BIGINT)"


def window_micros(logs: Logs) -> int:
    """The window in microseconds; without one, more than any time is after another."""
    return ENDLESS if logs.window_seconds is None else min(ENDLESS, logs.window_seconds * 10**6)


def _text(log: Log, column: str, clock: Clock) -> str:
    """Engines read a zone where there is none, and none where there is one: what is not alike must not pass."""
    here, type_ = log.engine.column(column), log.engine.types[clock]
    odd = {"date": "LENGTH({0}) <> 10", "time": IS_ZONED, "zoned": f"NOT ({IS_ZONED})"}[clock]
    log.doubt(
        column, f"TRY_CAST({{0}} AS {type_}) IS NULL OR {odd}", f"{IN_WORDS[clock]} are needed, as in the first rows"
    )
    value = log.engine.micros(f"CAST({present(log, column, 'text')} AS {type_})", clock)
    fails = f"CAST(CONCAT('not alike: ', {here}) AS BIGINT)"
    return f"CASE WHEN {odd.format(here)} THEN {fails} ELSE {value} END"
