"""adapter: the Attribution Reporting API behind the seam of `attributary.api`."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from attributary.api import register
from attributary.api.ara import ARA
from attributary.api.ara.keys.fewer_classes import MOST, FewerClasses, fewer_classes
from attributary.api.ara.keys.key_layout import BITS, domain, layout, with_mark
from attributary.api.ara.keys.key_layout import bits as key_bits
from attributary.api.ara.registration import MONTH, PLACEHOLDER, Registrations, header, registrations
from attributary.api.attribution_api import Aggregation, Answer, AttributionApi, Clients, Message, Query, SparkKeys
from attributary.errors import InputError
from attributary.plan import JointPlan, Plan
from attributary.tree import Tree


@dataclass(frozen=True, eq=False)
class AraClients(Clients):
    """A plan with its keys: browsers are told by the headers of a source and of a trigger."""

    @cached_property
    def registrations(self) -> Registrations:
        return registrations(self.plan)

    @property
    def asks(self) -> tuple[str, ...]:
        return self.registrations.asks

    def impression(self, values: Mapping[str, Any], **options: Any) -> Message:
        """The header of a source. Options are `destination`, one site or up to three, and `source_event_id`."""
        sites = options.get("destination", PLACEHOLDER)
        source = self.registrations.source(values, sites, event_id=options.get("source_event_id", 0))
        message, window = header("source", source), self.registrations.window or 0
        place = ["the destination is a placeholder; give yours with `destination`"]
        long = [f"browsers forget an impression after 30 days; the spec's window is {window / 86_400:g} days"]
        notes = place * ("destination" not in options) + long * (window > MONTH)
        return replace(message, notes=(*message.notes, *notes))

    def conversion(self, values: Mapping[str, Any], **options: Any) -> Message:
        """The header of a trigger. The option is `deduplication_key`, a whole number such as an order number."""
        key = options.get("deduplication_key")
        message = header("trigger", self.registrations.trigger(values, deduplication_key=key))
        second = (
            "what a conversion contributes leaves room for a second one of the same impression, under another "
            "deduplication key; without `deduplication_key` only the first is counted, as the plan has it"
        )
        twice = key is not None and self.registrations.fits_twice
        return replace(message, notes=(*message.notes, second)) if twice else message

    def query(self, tree: Tree) -> Query:
        from attributary.api.ara.wire.avro import write_domain

        keys = domain(self.plan, tree)
        return Query(len(keys), lambda path: write_domain(path, keys, self.plan.fingerprint))


class AttributionReporting(AttributionApi):
    """The Attribution Reporting API: keys of 128 bits, headers for browsers, summary reports as answers."""

    terms = ARA
    query_file = "domain.avro"
    options = frozenset({"bits", "values", "classes", "destination", "source_event_id", "deduplication_key"})

    def clients(self, plan: Plan, **wishes: Any) -> AraClients:
        """The plan with its keys. Wishes, for new ones, are `bits` and `values` by attribute, and `classes`."""
        if plan.keys is None:
            return _new_keys(plan, **wishes)
        for option in (option for option, wish in wishes.items() if wish):
            rule = "the plan has keys already, and keys that were registered must stay"
            raise InputError(f"{rule}; leave --{option} out, or make a new plan")
        return _clients(plan)

    def joint_clients(self, plan: JointPlan, **wishes: Any) -> Clients:
        """The same of several breakdowns, whose keys one registration carries."""
        from attributary.api.ara.joint import joint_clients, part_of

        if "classes" in wishes:
            raise InputError(
                "`classes` are of splits by root, and several breakdowns have one split each: leave it out"
            )
        each = [self.clients(one, **part_of(one, wishes)) for one in plan.breakdowns]
        return joint_clients(plan, [(clients, clients.registrations) for clients in each])

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
