"""registration: what a server answers to the browser, for an impression and for a conversion: the JSON of the headers.

A source has a key for each level, made of the level's tag and the known attributes; a trigger has the plan's mark and
the pieces of the unknown ones, which the browser joins to the keys by OR, and the plan's contributions. They are for
sources whose filter data has the same mark: one that was registered under another plan gets that plan's, or nothing.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from operator import index
from typing import Any

import numpy as np

from attributary.api.ara.keys.fewer_classes import ContributionClasses, classes
from attributary.api.ara.keys.key_layout import KeyLayout, layout
from attributary.api.ara.parse import source, trigger
from attributary.api.attribution_api import Message
from attributary.api.event_values import draw, ends, known_labels, measured, scaled, unknown_labels
from attributary.api.sites import parse_url
from attributary.errors import InputError, brief
from attributary.plan import Plan
from attributary.spec import Spec
from attributary.spec.measure import MICRO
from attributary.types import Record

PLACEHOLDER = "https://shop.example"
LONG = 16_384  # bytes of a header that servers and proxies may refuse
HEADERS = {"source": "Attribution-Reporting-Register-Source", "trigger": "Attribution-Reporting-Register-Trigger"}
CLASS, PLAN = "split", "plan"  # the filters that a class and a plan's mark are called by
LONGEST_ID = 25  # characters in the name of a key
MOST_SITES, LONGEST_SITE = 3, 60  # destinations; characters of one that may be shown
LARGEST = 65_536  # contribution, and sum of them
HOUR, DAY, MONTH = 3_600, 86_400, 30 * 86_400
REST = "rest"
ONCE = 1  # the deduplication key of all conversions, where an impression is to have but one

Json = Record


@dataclass(frozen=True, eq=False)
class Registrations:
    """What all registrations of a plan have in common, made once."""

    plan: Plan
    layout: KeyLayout
    classes: ContributionClasses
    ids: dict[int, str]  # the name of each level's key, for levels that have one; level i of measure k is k·levels + i
    rest: str | None = None  # the name of the key that takes what a conversion leaves of its part of the budget
    earlier: "tuple[Registrations, ...]" = ()  # of the plans before, whose impressions still have conversions

    def source(
        self,
        impression: Mapping[str, object],
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
        for place, name in self.ids.items():
            if row[place]:
                measure, level = divmod(place, len(self.plan.levels))
                attributes = range(min(level + 1 - self.layout.total, known))
                keys[name] = hex(self.layout.tag(level, measure) | self.layout.piece(attributes, labels))
        if self.rest is not None:
            keys[self.rest] = hex(0)  # which is no node's, and in no domain
        made: Json = {"source_event_id": str(_whole(event_id, "source_event_id", 0, 2**64))}
        made["destination"] = _destination(destination)
        made |= {} if priority is None else {"priority": str(_whole(priority, "priority", -(2**63), 2**63))}
        made |= _windows(self.window)
        made["aggregation_keys"] = keys
        return made | {"filter_data": self._of_plan | ({CLASS: [str(number)]} if len(self.classes) > 1 else {})}

    def trigger(
        self,
        conversion: Mapping[str, object],
        *,
        deduplication_key: int | None = None,
        conversion_id: int | str | None = None,
    ) -> Json:
        """The trigger registration of a conversion, from the values of its unknown attributes, and of its measures.

        The time from impression to conversion is not among them: there is a piece for each of its buckets, and the
        browser takes the one whose filters match. The same id, such as an order number, rounds values the same way
        each time; without one (or a deduplication key), chance does. Impressions of an earlier plan whose domain does
        not have the conversion get nothing.
        """
        drawn = conversion_id if conversion_id is not None else deduplication_key
        parts = [(self, self._labels(conversion), conversion)]
        for part in self.earlier:
            asked = {name: value for name, value in conversion.items() if name in part.asks}
            with suppress(InputError):
                parts.append((part, part._labels(asked), asked))
        several, spans = len(parts) > 1, [part._in_time for part, _, _ in parts]
        alike = all(span == spans[0] for span in spans)
        data, values, once = [], [], []
        for (part, labels, given), span in zip(parts, spans, strict=True):
            of_plan = {"filters": part._of_plan}
            data += [_both(datum, of_plan) if several else datum for datum in part._data(labels)]
            values += [_both(each, of_plan, {} if alike else span) for each in part._values(given, drawn)]
            dedup = ONCE if deduplication_key is None else deduplication_key
            if deduplication_key is not None or part.fits_twice:
                key = {"deduplication_key": str(_whole(dedup, "deduplication_key", 0, 2**64))}
                once.append(_both(key, of_plan) if several else key)
        plain = values[0]["values"] if len(values) == 1 and len(values[0]) == 1 else values
        made: Json = (spans[0] if alike else {}) | {"aggregatable_trigger_data": data, "aggregatable_values": plain}
        return made | ({"aggregatable_deduplication_keys": once} if once else {})

    @property
    def _of_plan(self) -> Json:
        """The plan's mark, as filter data has it and as filters do."""
        return {PLAN: [self.layout.plan]}

    @property
    def _in_time(self) -> Json:
        """Filters for a conversion within all buckets of time, and within a window that the source cannot say."""
        last = max((place % len(self.plan.levels) for place in self.ids), default=-1)
        fields = [field.attribute for i, field in enumerate(self.layout.fields) if last >= self.layout.level_of(i)]
        edges = [ends(attribute) for attribute in fields if self.plan.spec.is_delay(attribute)]
        spans = [_between(each[0], each[-1]) for each in edges]
        return _all_of(spans + ([_between(0, self.window)] if self.window is not None and self.window < HOUR else []))

    def _labels(self, conversion: Mapping[str, Any]) -> dict[str, str]:
        valued = {measure.source for measure in self.plan.spec.values} - {a.name for a in self.plan.spec.unknown}
        given = {name: value for name, value in conversion.items() if name not in valued}
        return unknown_labels(self.plan.spec, given)

    def _data(self, labels: Mapping[str, str]) -> list[Json]:
        """The key pieces: of the plan for all keys, and of each unknown attribute for those of its level and below."""
        spec, levels = self.plan.spec, len(self.plan.levels)
        data: list[Json] = [{"key_piece": hex(self.layout.mark), "source_keys": list(self.ids.values())}]
        for i, field in enumerate(self.layout.fields):
            below = [name for place, name in self.ids.items() if place % levels >= self.layout.level_of(i)]
            if not field.attribute.unknown or not below:
                continue
            if not spec.is_delay(field.attribute):
                piece = hex(field.piece(labels[field.attribute.name]))
                data.append({"key_piece": piece, "source_keys": below})
                continue
            edges = ends(field.attribute)
            for k, label in enumerate(field.attribute.labels):
                datum = {"key_piece": hex(field.piece(label)), "source_keys": below}
                data.append(datum | _between(edges[k], edges[k + 1]))
        return data

    @property
    def asks(self) -> tuple[str, ...]:
        names = (a.name for a in self.plan.spec.unknown if not self.plan.spec.is_delay(a))
        return tuple(dict.fromkeys([*names, *(measure.source for measure in self.plan.spec.values)]))

    @property
    def window(self) -> int | None:
        """The seconds in which an impression can have its conversion."""
        return None if self.plan.spec.logs is None else self.plan.spec.logs.window_seconds

    @property
    def fits_twice(self) -> bool:
        """Whether the browser's budget would let one more conversion of an impression through than counts."""
        each = self.classes.rows.sum(axis=1)
        return self.rest is None and bool(((self.classes.most + 1) * each <= LARGEST).any())

    def _values(self, conversion: Mapping[str, object], drawn: int | str | None) -> list[Json]:
        one, values = self._contributions(conversion, drawn), list[Json]()
        for i, (row, most) in enumerate(zip(self.classes.rows.tolist(), self.classes.most.tolist(), strict=True)):
            each = {name: amount for place, name in self.ids.items() if (amount := one(place, row[place]))}
            left = LARGEST // most - sum(each.values())
            values.append({"values": each | ({self.rest: left} if self.rest is not None and left else {})})
            values[-1] |= {"filters": {CLASS: [str(i)]}} if len(self.classes) > 1 else {}
        return values

    def _contributions(self, conversion: Mapping[str, object], drawn: int | str | None) -> Callable[[int, int], int]:
        """What the conversion adds to a key, from its place and what the largest value adds."""
        levels, values = len(self.plan.levels), {}
        for k, part in enumerate(self.plan.by_measure):
            if not part.measure.is_count:
                micro = measured(part.measure, conversion, self.plan.spec.logs)
                values[k] = (micro, round(part.clip * MICRO), draw(part.measure.name, drawn))

        def one(place: int, contribution: int) -> int:
            k = place // levels
            return contribution if k not in values else scaled(*values[k][:2], contribution, values[k][2])

        return one


def registrations(plan: Plan, *earlier: Plan) -> Registrations:
    """The registrations of a plan; an InputError where the API could not carry it.

    With earlier plans, conversions of impressions that were registered under one of them get its contributions.
    """
    made, before = _registrations(plan), tuple(map(_registrations, earlier))
    marks = [each.layout.plan for each in (made, *before)]
    if len(set(marks)) < len(marks):
        raise InputError(
            f"plans are told apart by the mark of their keys; got {', '.join(marks)}: leave out those "
            "that have the same"
        )
    for each in before:
        if not {*each.asks} <= {*made.asks}:
            lacking = ", ".join({*each.asks} - {*made.asks})
            raise InputError(f"the plan with mark {each.layout.plan} asks for {lacking}, and the new one does not")
    return replace(made, earlier=before)


def _registrations(plan: Plan) -> Registrations:
    spec = plan.spec
    if not spec.noise_model.on_sums:
        raise InputError('the API adds noise to sums of contributions; make a new plan with noise = "api", not "unit"')
    if spec.l1 > LARGEST:
        raise InputError(f"the contributions of an impression sum to {LARGEST} at most; the plan has l1 = {spec.l1}")
    known = classes(plan)
    ids = _ids(plan, np.flatnonzero(known.rows.any(axis=0)).tolist())
    return Registrations(plan, layout(plan), known, ids, _rest(spec, known, ids))


def _ids(plan: Plan, places: list[int]) -> dict[int, str]:
    """The name of each level's key: the level's, or l0, l1, … for all if any is too long. A measure's follows it."""
    measures, levels = plan.spec.asked, len(plan.levels)
    ends = [f" {measure.name}" if len(measures) > 1 else "" for measure in measures]
    names = {place: plan.levels[place % levels] + ends[place // levels] for place in places}
    if all(len(name.encode()) <= LONGEST_ID for name in names.values()):
        return names
    ends = [f" m{k}" if len(measures) > 1 else "" for k in range(len(measures))]
    return {place: f"l{place % levels}{ends[place // levels]}" for place in places}


def _rest(spec: Spec, known: ContributionClasses, ids: dict[int, str]) -> str | None:
    """The name of a key for what is left, where each conversion has to spend its whole part of the budget.

    Otherwise a browser would count more conversions per impression than the plan, as small values leave budget.
    """
    if not spec.values:
        once, left = bool((known.most == 1).all()), LARGEST // known.most - known.rows.sum(axis=1)
        if once or (left == 0).all():
            return None
    name = REST
    while name in ids.values():
        name += "_"
    return name


def _both(*parts: Json) -> Json:
    """All of these, and the filters of all of them."""
    made: Json = {name: value for part in parts for name, value in part.items()}
    for kind in ("filters", "not_filters"):
        if kind in made:
            made[kind] = {name: value for part in parts for name, value in part.get(kind, {}).items()}
    return made


def _between(low: int, high: int) -> Json:
    """Filters for a time since the impression from `low` on, and before `high`, in whole seconds.

    The browser's `_lookback_window` includes its end, so both ends are reduced by one second.
    """
    if low == 1 or high == 1:
        raise InputError("a filter's window is a second at least; make buckets of time that are 2s or longer")
    made: Json = {"filters": {"_lookback_window": high - 1}}
    return made | ({"not_filters": {"_lookback_window": low - 1}} if low else {})


def _all_of(outside: list[Json]) -> Json:
    """Filters for the whole trigger: a conversion outside of the buckets is not counted at any level."""
    if not outside:
        return {}
    last = min(each["filters"]["_lookback_window"] for each in outside)
    first = max(each.get("not_filters", {}).get("_lookback_window", 0) for each in outside)
    return {"filters": {"_lookback_window": last}} | ({"not_filters": {"_lookback_window": first}} if first else {})


def _windows(window: int | None) -> Json:
    """Expiry in whole days, as all browsers take it, and the window itself, if it is shorter."""
    if window is None:
        return {}
    expiry = min(max(-(-window // DAY) * DAY, DAY), MONTH)
    return {"expiry": str(expiry), "aggregatable_report_window": str(min(max(window, HOUR), expiry))}


def _destination(given: str | Sequence[str]) -> str | list[str]:
    """One site, or up to three; an InputError for what browsers take for none."""
    sites: list[Any] = list(given) if isinstance(given, list | tuple) else [given]
    if not 1 <= len(sites) <= MOST_SITES:
        rule = f"a source has 1 to {MOST_SITES} destinations"
        raise InputError(f"{rule}; got {len(sites):,}: leave some out, or give one")
    for one in sites:
        url = parse_url(one) if isinstance(one, str) else None
        if url is None or not url.trustworthy:
            name = one.rpartition("://")[2] if isinstance(one, str) else ""
            meant = parse_url(f"https://{name}") if "." in name and len(name) <= LONGEST_SITE else None
            remedy = meant.site if meant else "the address of a page, as in https://shop.example"
            raise InputError(f"a destination is the site of a shop, with https; got {brief(one)}: write {remedy}")
    return sites if isinstance(given, list | tuple) else sites[0]


def _whole(number: int, name: str, low: int, end: int) -> int:
    try:
        whole = int(index(number))
    except TypeError:
        whole = end
    if not low <= whole < end:
        raise InputError(f"{name} is a whole number from {low} to {end - 1}; got {brief(number)}")
    return whole


def header(kind: str, registration: Record) -> Message:
    """A registration as a header, and what a browser would warn of; what it would refuse is an InputError."""
    text = json.dumps(registration, separators=(",", ":"))
    parsed: Any = source(text) if kind == "source" else trigger(text)
    for error in parsed.errors:
        raise InputError(f"a browser would refuse the {kind} registration: {error}")
    line = f"{HEADERS[kind]}: {text}"
    notes = [f"a browser would warn of the {kind} registration: {warning}" for warning in parsed.warnings]
    if len(line) > LONG:
        notes += [f"the {kind} header has {len(line):,} bytes; see that servers and proxies let it through"]
    return Message((line,), tuple(notes))
