"""adapter: the Attribution Reporting API behind the seam of `attributary.api`."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from attributary.api import register
from attributary.api.ara import ARA
from attributary.api.ara.keys.fewer_classes import MOST, FewerClasses, fewer_classes
from attributary.api.ara.keys.key_layout import BITS, KEYS, domain, layout, with_mark
from attributary.api.ara.keys.key_layout import bits as key_bits
from attributary.api.ara.registration import (
    LARGEST,
    LONGEST_ID,
    MONTH,
    ONCE,
    PLACEHOLDER,
    PLAN,
    REST,
    Json,
    Registrations,
    header,
    registrations,
)
from attributary.api.attribution_api import Aggregation, Answer, AttributionApi, Clients, Message, Query, SparkKeys
from attributary.api.event_values import known_labels, unknown_labels
from attributary.errors import InputError
from attributary.plan import Plan
from attributary.plan.plan import digest
from attributary.tree import Tree
from attributary.types import Record


@dataclass(frozen=True, eq=False)
class AraClients(Clients):
    """A plan with its keys: browsers are told by the headers of a source and of a trigger."""

    @cached_property
    def registrations(self) -> Registrations:
        return registrations(self.plan)

    @property
    def asks(self) -> tuple[str, ...]:
        return self.registrations.asks

    @property
    def fits_twice(self) -> bool:
        """Whether the browser's budget would let one more conversion of an impression through than counts."""
        return self.registrations.fits_twice

    def source(self, values: Mapping[str, Any], sites: str | Sequence[str], event_id: int) -> Json:
        """The source registration of an impression."""
        return self.registrations.source(values, sites, event_id=event_id)

    def trigger(self, values: Mapping[str, Any], key: int | None) -> Json:
        """The trigger registration of a conversion, which may have a deduplication key of its own."""
        return self.registrations.trigger(values, deduplication_key=key)

    def impression(self, values: Mapping[str, Any], **options: Any) -> Message:
        """The header of a source. Options are `destination`, one site or up to three, and `source_event_id`."""
        sites, event_id = options.get("destination", PLACEHOLDER), options.get("source_event_id", 0)
        message, logs = header("source", self.source(values, sites, event_id)), self.plan.spec.logs
        window = 0 if logs is None else logs.window_seconds or 0
        place = ["the destination is a placeholder; give yours with `destination`"]
        long = [f"browsers forget an impression after 30 days; the spec's window is {window / 86_400:g} days"]
        notes = place * ("destination" not in options) + long * (window > MONTH)
        return replace(message, notes=(*message.notes, *notes))

    def conversion(self, values: Mapping[str, Any], **options: Any) -> Message:
        """The header of a trigger. The option is `deduplication_key`, a whole number such as an order number."""
        key = options.get("deduplication_key")
        message = header("trigger", self.trigger(values, key))
        second = (
            "what a conversion contributes leaves room for a second one of the same impression, under another "
            "deduplication key; without `deduplication_key` only the first is counted, as the plan has it"
        )
        return replace(message, notes=(*message.notes, second)) if key is not None and self.fits_twice else message

    def query(self, *trees: Tree) -> Query:
        from attributary.api.ara.wire.avro import write_domain

        each = zip(self.plan.breakdowns, trees, strict=True)
        keys = np.concatenate([domain(plan, tree) for plan, tree in each])
        return Query(len(keys), lambda path: write_domain(path, keys, self.plan.fingerprint))


@dataclass(frozen=True, eq=False)
class SeveralClients(AraClients):
    """A plan of several breakdowns with its keys, and what browsers are told for all of them at once.

    A source has the keys of all breakdowns, told apart by their names, and a trigger adds to each of them the mark and
    the pieces of its own breakdown. Both say the mark of all breakdowns together, so that a browser joins none of
    another plan.
    """

    parts: tuple[Registrations, ...] = ()
    sums: tuple[int, ...] = ()  # what a conversion contributes to each breakdown
    most: int = 1

    @cached_property
    def mark(self) -> str:
        """The mark of all breakdowns together."""
        return digest([part.layout.plan for part in self.parts])[:4]

    @property
    def asks(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(name for part in self.parts for name in part.asks))

    @property
    def _rest(self) -> bool:
        """Whether a key takes what a conversion leaves, so that no more conversions of an impression count."""
        return bool(self.plan.spec.values) or (self.most > 1 and sum(self.sums) < LARGEST // self.most)

    @property
    def fits_twice(self) -> bool:
        return not self._rest and (self.most + 1) * sum(self.sums) <= LARGEST

    def source(self, values: Mapping[str, Any], sites: str | Sequence[str], event_id: int) -> Json:
        known_labels(self.plan.spec, values)  # or an error that tells what there is
        made: Json = {}
        for part in self.parts:
            own = {attribute.name: values[attribute.name] for attribute in part.plan.spec.known}
            source = part.source(own, sites, event_id=event_id)
            keys = made.get("aggregation_keys", {}) | source["aggregation_keys"]
            made = source | {"aggregation_keys": keys, "filter_data": {PLAN: [self.mark]}}
        made["aggregation_keys"] |= {REST: hex(0)} if self._rest else {}
        return made

    def trigger(self, values: Mapping[str, Any], key: int | None) -> Json:
        spec = self.plan.spec
        valued = {measure.source for measure in spec.values} - {a.name for a in spec.unknown}
        unknown_labels(spec, {name: value for name, value in values.items() if name not in valued})
        each = [
            part.trigger({name: values[name] for name in part.asks if name in values}, deduplication_key=key)
            for part in self.parts
        ]
        amounts = {name: n for trigger in each for name, n in trigger["aggregatable_values"][0]["values"].items()}
        if self._rest and (left := LARGEST // self.most - sum(amounts.values())):
            amounts[REST] = left
        made: Json = _in_time(each)
        made["aggregatable_trigger_data"] = [
            datum for trigger in each for datum in trigger["aggregatable_trigger_data"]
        ]
        made["aggregatable_values"] = [{"values": amounts, "filters": {PLAN: [self.mark]}}]
        if key is not None or self.fits_twice:
            made["aggregatable_deduplication_keys"] = [{"deduplication_key": str(ONCE if key is None else key)}]
        return made


def _in_time(triggers: Sequence[Json]) -> Json:
    """Filters for the whole trigger that hold where those of all breakdowns do: all count the same conversions."""
    last = [each["filters"]["_lookback_window"] for each in triggers if "filters" in each]
    first = [each["not_filters"]["_lookback_window"] for each in triggers if "not_filters" in each]
    made: Json = {"filters": {"_lookback_window": min(last)}} if last else {}
    return made | ({"not_filters": {"_lookback_window": max(first)}} if first else {})


def several_clients(plan: Plan, each: Sequence[AraClients]) -> SeveralClients:
    """All breakdowns of a plan together, from each with its keys; an InputError where the API cannot carry them."""
    parts, names = [], plan.names
    for i, clients in enumerate(each):
        part = clients.registrations
        if len(part.classes) > 1:
            raise InputError(
                f"breakdown {names[i]!r} has splits for each {part.plan.spec.split_by}, and one registration carries "
                "one split of each breakdown: leave split_by out, and make a new plan"
            )
        ids = {place: f"{i + 1} {name}" for place, name in part.ids.items()}
        if any(len(name.encode()) > LONGEST_ID for name in ids.values()):
            ids = {place: f"{i + 1} l{place}" for place in part.ids}
        parts.append(replace(part, ids=ids, rest=None))
    marks = [part.layout.plan for part in parts]
    if len(set(marks)) < len(marks):
        raise InputError(f"breakdowns are told apart by the marks of their keys; got {marks}: make a new plan")
    sums = tuple(int(part.classes.rows.sum()) for part in parts)
    rows = [[plan_name, *row] for plan_name, one in zip(names, each, strict=True) for row in one.table[1:]]
    made = SeveralClients(
        plan.model_copy(update={"parts": tuple(clients.plan for clients in each)}),
        any(clients.changed for clients in each),
        [["breakdown", *each[0].table[0]], *rows],
        f"{len(each)} breakdowns, {each[0].heading}",
        tuple(note for clients in each for note in clients.notes),
        parts=tuple(parts),
        sums=sums,
        most=int(parts[0].classes.most.max()),
    )
    number = sum(len(part.ids) for part in parts) + made._rest
    if number > KEYS:
        raise InputError(
            f"a source has at most {KEYS} keys, one for each level of each breakdown and measure; the plan has "
            f"{number}: leave out a level, a breakdown or a measure"
        )
    return made


def wishes_for(plan: Plan, wishes: Mapping[str, Mapping[str, object]]) -> Record:
    """The wishes for keys that are about attributes of a breakdown."""
    own = {attribute.name for attribute in plan.spec.attributes}
    return {name: {a: wish for a, wish in wishes[name].items() if a in own} for name in wishes}


class AttributionReporting(AttributionApi):
    """The Attribution Reporting API: keys of 128 bits, headers for browsers, summary reports as answers."""

    terms = ARA
    query_file = "domain.avro"
    several = True
    options = frozenset({"bits", "values", "classes", "destination", "source_event_id", "deduplication_key"})

    def clients(self, plan: Plan, **wishes: Any) -> AraClients:
        """The plan with its keys. Wishes, for new ones, are `bits` and `values` by attribute, and `classes`."""
        if plan.parts:
            if "classes" in wishes:
                raise InputError(
                    "`classes` are of splits by root, and several breakdowns have one split each: leave it out"
                )
            return several_clients(plan, [self._clients(one, **wishes_for(one, wishes)) for one in plan.parts])
        return self._clients(plan, **wishes)

    def _clients(self, plan: Plan, **wishes: Any) -> AraClients:
        """Those of one breakdown."""
        if plan.keys is None:
            return _new_keys(plan, **wishes)
        for option in (option for option, wish in wishes.items() if wish):
            rule = "the plan has keys already, and keys that were registered must stay"
            raise InputError(f"{rule}; leave --{option} out, or make a new plan")
        return _clients(plan)

    def answer(self, *given: Any, **options: Any) -> Answer:
        from attributary.api.ara.service.summary_report import answer

        return answer(*given, **options)

    def aggregate(self, *given: Any, **options: Any) -> Aggregation:
        from attributary.api.ara.service.aggregation import aggregate

        return aggregate(*given, **options)

    def on_spark(self, plan: Plan) -> SparkKeys:
        from attributary.api.ara.service.spark_keys import AraSparkKeys

        return AraSparkKeys(plan)


def _new_keys(
    plan: Plan,
    bits: Mapping[str, int] | None = None,
    values: Mapping[str, Sequence[str]] | None = None,
    classes: int | None = None,
) -> AraClients:
    few = fewer_classes(
        plan.model_copy(update={"keys": key_bits(plan, bits, values)}), MOST if classes is None else classes
    )
    return _clients(with_mark(few.plan), _changes(few), changed=True)


def _clients(plan: Plan, notes: tuple[str, ...] = (), *, changed: bool = False) -> AraClients:
    keys = layout(plan)
    clients = AraClients(plan, changed, keys.table(), f"a key has {keys.bits} of {BITS} bits", notes)
    clients.registrations  # noqa: B018  # refuses early what browsers could not carry
    return clients


def _changes(few: FewerClasses) -> tuple[str, ...]:
    if not few.changed:
        return (f"{few.after:,} classes of contributions, as planned",) if few.after > 1 else ()

    def times(ratio: float) -> str:
        return "∞" if ratio == float("inf") else f"× {ratio:.3f}"

    each = zip(few.plan.levels, few.mean, few.worst, strict=True)
    loss = [f"{level} {times(mean)} (at most {times(worst)})" for level, mean, worst in each]
    return (
        f"{few.before:,} different contributions made {few.after:,} classes; noise variance by level, relative to the "
        f"plan's: {', '.join(loss)}",
        "the plan now has the contributions of the classes; its expected errors are still those from before",
    )


register(AttributionReporting())
