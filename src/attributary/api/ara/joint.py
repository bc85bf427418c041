"""joint: several breakdowns in one registration: the keys of all of them, and one budget.

A source has the keys of all breakdowns, told apart by their names, and a trigger adds to each of them the mark and the
pieces of its own breakdown. Both say the mark of all breakdowns together, so that a browser joins none of another plan.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from attributary.api.ara.keys.key_layout import KEYS, domain
from attributary.api.ara.registration import (
    LARGEST,
    LONGEST_ID,
    ONCE,
    PLACEHOLDER,
    PLAN,
    REST,
    Json,
    Registrations,
    header,
)
from attributary.api.attribution_api import Clients, Message, Query
from attributary.api.event_values import known_labels, unknown_labels
from attributary.errors import InputError
from attributary.plan import Plan
from attributary.plan.joint import JointPlan
from attributary.plan.plan import digest
from attributary.tree import Tree
from attributary.types import Record


@dataclass(frozen=True, eq=False)
class JointClients(Clients):
    """A plan of several breakdowns with its keys, and what browsers are told for all of them at once."""

    joint: JointPlan | None = None
    parts: tuple[Registrations, ...] = ()
    sums: tuple[int, ...] = ()  # what a conversion contributes to each breakdown
    most: int = 1

    @property
    def saved(self) -> JointPlan:
        assert self.joint is not None
        return self.joint

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
        return bool(self.saved.spec.values) or (self.most > 1 and sum(self.sums) < LARGEST // self.most)

    def impression(self, values: Mapping[str, Any], **options: Any) -> Message:
        """The header of a source. Options are `destination`, one site or up to three, and `source_event_id`."""
        known_labels(self.saved.spec, values)  # or an error that tells what there is
        made: Json = {}
        for part in self.parts:
            own = {attribute.name: values[attribute.name] for attribute in part.plan.spec.known}
            sites, event_id = options.get("destination", PLACEHOLDER), options.get("source_event_id", 0)
            source = part.source(own, sites, event_id=event_id)
            keys = made.get("aggregation_keys", {}) | source["aggregation_keys"]
            made = source | {"aggregation_keys": keys, "filter_data": {PLAN: [self.mark]}}
        made["aggregation_keys"] |= {REST: hex(0)} if self._rest else {}
        message = header("source", made)
        placeholder = ("the destination is a placeholder; give yours with `destination`",)
        return message if "destination" in options else Message(message.lines, (*message.notes, *placeholder))

    def conversion(self, values: Mapping[str, Any], **options: Any) -> Message:
        """The header of a trigger. The option is `deduplication_key`, a whole number such as an order number."""
        key, spec = options.get("deduplication_key"), self.saved.spec
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
        if key is not None or (not self._rest and (self.most + 1) * sum(self.sums) <= LARGEST):
            made["aggregatable_deduplication_keys"] = [{"deduplication_key": str(ONCE if key is None else key)}]
        return header("trigger", made)

    def query(self, tree: Tree) -> Query:
        raise InputError("several breakdowns have a tree each; query all of them together")

    def query_all(self, trees: Sequence[Tree]) -> Query:
        from attributary.api.ara.wire.avro import write_domain

        plans = self.saved.breakdowns
        keys = np.concatenate([domain(plan, tree) for plan, tree in zip(plans, trees, strict=True)])
        return Query(len(keys), lambda path: write_domain(path, keys, self.saved.fingerprint))


def _in_time(triggers: Sequence[Json]) -> Json:
    """Filters for the whole trigger that hold where those of all breakdowns do: all count the same conversions."""
    last = [each["filters"]["_lookback_window"] for each in triggers if "filters" in each]
    first = [each["not_filters"]["_lookback_window"] for each in triggers if "not_filters" in each]
    made: Json = {"filters": {"_lookback_window": min(last)}} if last else {}
    return made | ({"not_filters": {"_lookback_window": max(first)}} if first else {})


def joint_clients(plan: JointPlan, both: Sequence[tuple[Clients, Registrations]]) -> JointClients:
    """All breakdowns of a plan together, from each with its keys; an InputError where the API cannot carry them."""
    parts, names = [], plan.names
    each = [clients for clients, _ in both]
    for i, (_, part) in enumerate(both):
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
    if None in marks or len(set(marks)) < len(marks):
        raise InputError(f"breakdowns are told apart by the marks of their keys; got {marks}: make a new plan")
    joint = plan.model_copy(update={"breakdowns": tuple(clients.plan for clients in each)})
    sums = tuple(int(part.classes.rows.sum()) for part in parts)
    rows = [[plan_name, *row] for plan_name, one in zip(names, each, strict=True) for row in one.table[1:]]
    made = JointClients(
        joint.breakdowns[0],
        any(clients.changed for clients in each),
        [["breakdown", *each[0].table[0]], *rows],
        f"{len(each)} breakdowns, {each[0].heading}",
        tuple(note for clients in each for note in clients.notes),
        joint=joint,
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


def part_of(plan: Plan, wishes: Mapping[str, Mapping[str, object]]) -> Record:
    """The wishes for keys that are about attributes of a breakdown."""
    own = {attribute.name for attribute in plan.spec.attributes}
    return {name: {a: wish for a, wish in wishes[name].items() if a in own} for name in wishes}
