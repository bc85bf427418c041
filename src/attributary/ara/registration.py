"""registration: what a server answers to the browser, for an impression and for a conversion: the JSON of the headers.

A source has a key for each level, made of the level's tag and the known attributes; a trigger has the pieces of the
unknown ones, which the browser joins to the keys by OR, and the plan's contributions.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from attributary.ara.keys.classes import Classes, classes
from attributary.ara.keys.layout import Layout, layout
from attributary.ara.keys.values import ends, is_delay, known_labels, unknown_labels
from attributary.errors import InputError
from attributary.plan import Plan

HEADERS = {"source": "Attribution-Reporting-Register-Source", "trigger": "Attribution-Reporting-Register-Trigger"}
CLASS = "split"  # the filter that a class is called by
LONGEST_ID = 25  # characters in the name of a key
LARGEST = 65_536  # contribution, and sum of them
HOUR, DAY, MONTH = 3_600, 86_400, 30 * 86_400
ONCE = "1"  # the deduplication key of all conversions, where an impression is to have but one

Json = dict[str, Any]


@dataclass(frozen=True, eq=False)
class Registrations:
    """What all registrations of a plan have in common, made once."""

    plan: Plan
    layout: Layout
    classes: Classes
    ids: dict[int, str]  # the name of each level's key, for levels that have one

    def source(
        self,
        impression: Mapping[str, Any],
        destination: str | Sequence[str],
        *,
        event_id: int = 0,
        priority: int | None = None,
    ) -> Json:
        """The source registration of an impression, from the values of its known attributes."""
        labels = known_labels(self.plan.spec, impression)
        number = self.classes.of(labels)
        row = self.classes.rows[number]
        known = len(self.plan.spec.known)
        keys = {}
        for level, name in self.ids.items():
            if row[level]:
                attributes = range(min(level + 1 - self.layout.total, known))
                keys[name] = _hex(self.layout.tag(level) | self.layout.piece(attributes, labels))
        made: Json = {"source_event_id": str(_unsigned(event_id, "source_event_id"))}
        made["destination"] = destination if isinstance(destination, str) else list(destination)
        made |= {} if priority is None else {"priority": str(priority)}
        made |= _windows(self.window)
        made["aggregation_keys"] = keys
        if len(self.classes) > 1:
            made["filter_data"] = {CLASS: [str(number)]}
        return made

    def trigger(self, conversion: Mapping[str, Any], *, deduplication_key: int | None = None) -> Json:
        """The trigger registration of a conversion, from the values of its unknown attributes.

        The time from impression to conversion is not among them: there is a piece for each of its buckets, and the
        browser takes the one whose filters match.
        """
        spec = self.plan.spec
        labels = unknown_labels(spec, conversion)
        bare = [name for level, name in self.ids.items() if level < spec.first_unknown]
        data: list[Json] = [{"key_piece": "0x0", "source_keys": bare}] if bare else []  # as in the paper's figure 2
        outside: list[Json] = []
        for i, field in enumerate(self.layout.fields):
            below = [name for level, name in self.ids.items() if level >= self.layout.level_of(i)]
            if not field.attribute.unknown or not below:
                continue
            if not is_delay(field.attribute, spec):
                piece = _hex(field.piece(labels[field.attribute.name]))
                data.append({"key_piece": piece, "source_keys": below})
                continue
            edges = ends(field.attribute)
            for k, label in enumerate(field.attribute.labels):
                datum = {"key_piece": _hex(field.piece(label)), "source_keys": below}
                data.append(datum | _between(edges[k], edges[k + 1]))
            outside.append(_between(edges[0], edges[-1]))
        if self.window is not None and self.window < HOUR:  # which the source cannot say
            outside.append(_between(0, self.window))
        made: Json = _all_of(outside)
        made |= {"aggregatable_trigger_data": data, "aggregatable_values": self._values()}
        dedup = deduplication_key if deduplication_key is not None else self._once()
        if dedup is not None:
            key = str(_unsigned(int(dedup), "deduplication_key"))
            made["aggregatable_deduplication_keys"] = [{"deduplication_key": key}]
        return made

    @property
    def asks(self) -> tuple[str, ...]:
        """The attributes that a conversion has to tell."""
        return tuple(a.name for a in self.plan.spec.unknown if not is_delay(a, self.plan.spec))

    @property
    def window(self) -> int | None:
        """The seconds in which an impression can have its conversion."""
        return None if self.plan.spec.logs is None else self.plan.spec.logs.window_seconds

    @property
    def fits_twice(self) -> bool:
        """Whether the browser's budget would let a second conversion of an impression through."""
        return 2 * int(self.classes.rows.sum(axis=1).min()) <= LARGEST

    def _once(self) -> str | None:
        return ONCE if self.fits_twice else None

    def _values(self) -> Json | list[Json]:
        values = [
            {name: int(row[level]) for level, name in self.ids.items() if row[level]} for row in self.classes.rows
        ]
        if len(values) == 1:
            return values[0]
        return [{"values": each, "filters": {CLASS: [str(i)]}} for i, each in enumerate(values)]


def registrations(plan: Plan) -> Registrations:
    """The registrations of a plan; an InputError where the API could not carry it."""
    spec = plan.spec
    if spec.noise != "api":
        raise InputError('the API adds its noise to sums of contributions; plan anew with noise = "api", not "unit"')
    if spec.l1 > LARGEST:
        raise InputError(f"the contributions of an impression sum to {LARGEST} at most; the plan has l1 = {spec.l1}")
    found = classes(plan)
    return Registrations(plan, layout(plan), found, _ids(plan, np.flatnonzero(found.rows.any(axis=0)).tolist()))


def _ids(plan: Plan, levels: list[int]) -> dict[int, str]:
    """The name of each level's key: the level's, or l0, l1, … for all if any is too long."""
    short = all(len(plan.levels[level].encode()) <= LONGEST_ID for level in levels)
    return {level: plan.levels[level] if short else f"l{level}" for level in levels}


def _between(low: int, high: int) -> Json:
    """Filters for a time since the impression from `low` on, and before `high`, in whole seconds.

    The browser's `_lookback_window` holds up to and including its end, so that both ends are one second less.
    """
    if low == 1 or high == 1:
        raise InputError("a filter's window is a second at least; make buckets of time that are 2s or longer")
    made: Json = {"filters": {"_lookback_window": high - 1}}
    return made | ({"not_filters": {"_lookback_window": low - 1}} if low else {})


def _all_of(outside: list[Json]) -> Json:
    """Filters for the whole trigger: a conversion that is outside of the buckets is in no count, not even above."""
    if not outside:
        return {}
    last = min(each["filters"]["_lookback_window"] for each in outside)
    first = max((each.get("not_filters", {}).get("_lookback_window", 0) for each in outside), default=0)
    return {"filters": {"_lookback_window": last}} | ({"not_filters": {"_lookback_window": first}} if first else {})


def _windows(window: int | None) -> Json:
    """Expiry in whole days, as all browsers take it, and the window itself, if it is shorter."""
    if window is None:
        return {}
    expiry = min(max(-(-window // DAY) * DAY, DAY), MONTH)
    return {"expiry": str(expiry), "aggregatable_report_window": str(min(max(window, HOUR), expiry))}


def _hex(key: int) -> str:
    return f"{key:#x}"


def _unsigned(number: int, name: str) -> int:
    if not 0 <= number < 2**64:
        raise InputError(f"{name} is a whole number from 0 to 2**64 - 1; got {number}")
    return number
