"""two_logs: impressions and conversions that are yet to be joined, as SQL that counts them."""

from attributary.errors import InputError
from attributary.logs.blanks import filled, listed, select
from attributary.logs.bucket import bucket
from attributary.logs.clock import IN_WORDS, Clock
from attributary.logs.column import Log, is_empty, key, label
from attributary.logs.period import Period
from attributary.logs.unknown import is_delay, value
from attributary.logs.valued import most, valued
from attributary.logs.when import when, window_micros
from attributary.spec import Logs, Spec

DELAY = "(next_moment - 1 - moment) / 2"  # an impression's moment is twice its time, a conversion's one more
LAST_DELAY = "(moment - 1 - last_touch) / 2"


def two_logs(spec: Spec, logs: Logs, impressions: Log, conversions: Log, period: Period) -> str:
    """SQL that counts impressions, conversions and what became of them."""
    seen, done, clock = _times(logs, impressions, conversions)
    keys = _keys(logs, impressions, conversions)
    known = {f"known_{i}": label(impressions, a.name) for i, a in enumerate(spec.known)} or {"known_0": "0"}
    attributes = {f"unknown_{i}": a for i, a in enumerate(spec.unknown)}
    unknown = {name: value(conversions, a) for name, a in attributes.items() if not is_delay(a, logs)}
    got = {name: f"next_{name}" if name in unknown else bucket(DELAY, a) for name, a in attributes.items()}
    many = spec.conversions_per_impression != 1 or bool(spec.values)
    values = valued(spec, conversions)
    touched = {name: name if name in unknown else bucket(LAST_DELAY, a) for name, a in attributes.items()}
    unknown |= values.micros
    by, in_order = ", ".join(keys), ", ".join(f"{name} NULLS FIRST" for name in ("moment", "path", *unknown))
    common = {
        "impressions": select(
            {k: ours for k, (ours, _) in keys.items()} | {"time": seen} | known, impressions.relation.sql
        ),
        "conversions": select(
            {k: its for k, (_, its) in keys.items()} | {"time": done} | unknown, conversions.relation.sql
        ),
        "keys": by,
        "joinable": " AND ".join(f"{name} IS NOT NULL" for name in keys),
        "known": ", ".join(known),
        "known_in_order": ", ".join(f"{name} NULLS FIRST" for name in known),
        "same_path": " AND ".join(f"impressions.{name} IS NOT DISTINCT FROM paths.{name}" for name in known),
        "nothing_known": ", ".join(f"NULL AS {name}" for name in known),
        "unknown": listed(unknown),
        "no_unknown": listed(f"NULL AS {name}" for name in unknown),
        "time_in_period": period.holds("time", clock, logs.time_unit),
    }
    return filled(
        "attribution_many" if many else "attribution",
        **common,
        events=filled("events", **common),
        all_unknown=listed(attributes),
        nothing_unknown=listed(f"NULL AS {name}" for name in attributes),
        in_order=in_order,
        next_unknown=listed(f"LEAD({u}) OVER (PARTITION BY {by} ORDER BY {in_order}) AS next_{u}" for u in unknown),
        got_unknown=listed(
            f"{sql} AS {name}" if many else f"CASE WHEN is_impression THEN {sql} END AS {name}"
            for name, sql in (touched if many else got).items()
        ),
        ranked_in_order=", ".join(f"{name} NULLS FIRST" for name in ("moment", *unknown)),
        most=str(most(spec)),
        got_values=values.got,
        all_steps=values.steps,
        sums=values.sums,
        nothing_valued=values.no_values,
        all_sums=values.all_sums,
        no_sums=values.no_sums,
        window=str(2 * window_micros(logs)),
        touch_in_period=period.holds("last_touch", clock, logs.time_unit, times=2),
    )


def _times(logs: Logs, impressions: Log, conversions: Log) -> tuple[str, str, Clock]:
    if logs.time is None:
        raise InputError('logs.time is missing; say which column tells the time, as in time = "time"')
    seen, clock = when(impressions, logs.time)
    done, theirs = when(conversions, logs.time, clock)
    if clock != theirs:
        if is_empty(impressions):
            raise InputError(f"{impressions.relation.name} has no rows: there is no impression to count")
        raise InputError(
            f"both logs tell the time in the same way; {impressions.relation.name} has {IN_WORDS[clock]}, and "
            f"{conversions.relation.name} has {IN_WORDS[theirs]}: convert one of them"
        )
    return seen, done, clock


def _keys(logs: Logs, impressions: Log, conversions: Log) -> dict[str, tuple[str, str]]:
    """What joins a conversion to its impressions: on either side, of types that can be compared."""
    if logs.user is None:
        raise InputError('logs.user is missing; say which column joins conversions to impressions, as in user = "user"')
    keys = {}
    for i, name in enumerate((logs.user, *logs.keys)):
        (ours, kind), (its, other) = key(impressions, name), key(conversions, name)
        if kind != other:
            if {kind, other} != {"text", "whole"}:
                raise InputError(
                    f"both logs have the same values in {name!r}; it is {kind} in {impressions.relation.name}, and "
                    f"{other} in {conversions.relation.name}: convert one of them"
                )
            ours, its = f"CAST({ours} AS STRING)", f"CAST({its} AS STRING)"
        keys[f"key_{i}"] = (ours, its)
    return keys
