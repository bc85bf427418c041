"""page_calls: W3C Attribution behind the seam of `attributary.api`: what pages call, and what histograms say."""

import csv
import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any, NamedTuple

from attributary.api import register
from attributary.api.attribution_api import Answer, AttributionApi, Clients, Message, Query
from attributary.api.event_values import draw, known_labels, measured, scaled, unknown_labels
from attributary.api.w3c import W3C
from attributary.api.w3c.attribution_options import (
    ConversionOptions,
    ImpressionOptions,
    PageOptions,
    camel,
    charged,
    measure_conversion_header,
    parse_site,
    save_impression_header,
)
from attributary.api.w3c.index_layout import (
    BATCHES,
    LEVELS,
    kinds_of,
    lay_out,
    match_value,
    space_of,
    task_of,
    used_levels,
)
from attributary.api.w3c.schemes import ReportKind, index_level, lookback_days, report_bytes, scheme_of, section_of
from attributary.errors import InputError, brief
from attributary.plan import Plan
from attributary.plan.sections import IndexLayout
from attributary.spec.measure import MICRO
from attributary.tree import Tree

GIVE_IT = "give a table of impressions with it by `impressions`"
SERVICE = "https://agg-service.example"
LATEST = (2**31 - 1) // LEVELS  # seconds that a priority can count


class ReportCall(NamedTuple):
    """A report of a conversion: the task that it belongs to, its batch, and what the page asks for."""

    task: str
    batch: dict[str, str]
    options: ConversionOptions


@dataclass(frozen=True, eq=False)
class W3cClients(Clients):
    """A plan with its indexes: pages save impressions and measure conversions by script or by header."""

    @property
    def asks(self) -> tuple[str, ...]:
        site = section_of(self.plan.spec).site
        values = [measure.source for measure in self.plan.spec.values]
        return (*([site] if site else []), *(attribute.name for attribute in self.plan.spec.unknown), *values)

    def with_tree(self, tree: Tree, start: int | None = None) -> "W3cClients":
        """The same with an index for each node; priorities of a new layout count from `start`, by default from now."""
        layout, notes = lay_out(self.plan, tree, int(time.time()) if start is None else start)
        changed = layout != self.plan.layout
        return _clients(self.plan.model_copy(update={"layout": layout}), notes, changed=changed)

    def saved_impressions(
        self, values: Mapping[str, object], seconds: float, sites: Sequence[str] = ()
    ) -> list[ImpressionOptions]:
        """The impressions that one view of an ad saves, at a time in seconds since 1970."""
        spec, layout = self.plan.spec, _layout(self.plan)
        path, scheme = known_labels(spec, values), scheme_of(spec)
        if section_of(spec).site is not None:
            sites = [parse_site(path[0])]
        row = self.plan.roots.get(path[0] if path else "", self.plan.default)
        found: dict[int, ImpressionOptions] = {}
        for level in sorted({index_level(spec, i) for i, part in enumerate(row) if part > 0}):
            prefix = path[: level + 1 - int(spec.total)]
            space = space_of(spec, level, prefix)
            if prefix not in layout.spaces.get(space, ()):
                named = ", ".join(prefix) or "all"
                raise InputError(f"{named} has no index yet; {GIVE_IT}")
            index = layout.spaces[space].index(prefix)
            found[level] = ImpressionOptions(index, match_value(layout, level), sites, (), lookback_days(spec))
        if scheme.splits_by_root:
            own = {level: part for level, part in enumerate(row[: spec.first_unknown]) if level in found}
            repeated = [found[level] for level, part in own.items() for _ in range(part)]
            last = found.get(spec.first_unknown - 1)
            batches = [replace(last, match_value=LEVELS * layout.version + BATCHES)] if last else []
            return repeated + batches * any(row[spec.first_unknown :])
        if not scheme.atomic:
            return list(found.values())
        tick = int(seconds) - layout.start
        if not -LATEST <= tick < LATEST:
            raise InputError(
                f"priorities count {LATEST:,} seconds from {layout.start}; got {seconds:.0f}: make a new plan"
            )
        ranked = enumerate(found.values())
        return [replace(each, priority=LEVELS * tick + LEVELS - 1 - rank) for rank, each in ranked]

    def report_calls(
        self, values: Mapping[str, object], service: str = SERVICE, conversion_id: object = None
    ) -> list[ReportCall]:
        """The reports that a conversion makes, from its unknown attributes, its value and its site, where these matter.

        A value is in whole parts of maxValue, rounded up as often as its fraction says; the same again for the same id.
        """
        spec, layout = self.plan.spec, _layout(self.plan)
        site = section_of(spec).site
        if site and site not in values:
            raise InputError(f"a conversion happens on a site; give {site}")
        other = {site, *(measure.source for measure in spec.values)} - {a.name for a in spec.unknown}
        labels = unknown_labels(spec, {name: value for name, value in values.items() if name not in other})
        root = str(values[site]) if site else ""
        calls = []
        for kind in kinds_of(self.plan, root):
            space = space_of(spec, index_level(spec, kind.levels[0]), (root,))
            if space not in layout.spaces:
                raise InputError(f"{brief(root)} has no index yet; {GIVE_IT}")
            value = _value(self.plan, kind, values, conversion_id)
            if not value:  # browsers refuse it
                continue
            matches = _match_values(self.plan, layout, kind)
            repeated = scheme_of(spec).splits_by_root and kind.batch == 0  # among impressions saved several times
            shared = (1,) * kind.value if repeated else kind.credit
            options = ConversionOptions(
                service,
                len(layout.spaces[space]),
                lookback_days=lookback_days(spec),
                match_values=matches,
                credit=shared if len(shared) > 1 else (1,),
                value=kind.value,
                max_value=kind.value,
            )
            batch = dict(list(labels.items())[: kind.batch])
            options = replace(charged(options, kind.micro), value=value)
            calls.append(ReportCall(task_of(layout, kind, root), batch, options))
        return calls

    def impression(self, values: Mapping[str, Any], **options: Any) -> Message:
        """Calls and headers of one view. Options are `destination`, a site or up to five, and `time`."""
        given = options.get("destination", ())
        sites = [parse_site(site.removeprefix("https://")) for site in ([given] if isinstance(given, str) else given)]
        seconds = options.get("time", time.time())
        saved = self.saved_impressions(values, seconds, sites)
        start, scripts = _layout(self.plan).start, []
        for each, same in groupby(saved):
            rank = each.priority - LEVELS * (int(seconds) - start)
            priority = f"{LEVELS} * (Math.floor(Date.now() / 1000) - {start}) + {rank}" if each.priority else ""
            scripts.append(_script("saveImpression", each, priority, len(list(same))))
        headers = [f"Save-Impression: {save_impression_header(each)}" for each in saved]
        notes = [] if saved[0].conversion_sites else ["conversions on any site match; give yours with `destination`"]
        notes += [f"{len(saved)} impressions by header need as many responses"] if len(saved) > 1 else []
        if any(each.priority for each in saved):
            notes.append("priorities in the headers are those of now; count them anew in every response")
        return Message((*scripts, *headers), tuple(notes))

    def conversion(self, values: Mapping[str, Any], **options: Any) -> Message:
        """Calls and headers of one conversion; the option is `service`, the address of the aggregation service."""
        lines, headers, notes = [], [], []
        for call in self.report_calls(values, options.get("service", SERVICE)):
            batch = ", ".join(f"{name} = {label}" for name, label in call.batch.items()) or "any"
            lines.append(f"{_script('measureConversion', call.options)}  // task {call.task}, batch: {batch}")
            try:
                headers.append(f"Measure-Conversion: {measure_conversion_header(call.options, '/reports')}")
            except InputError as error:
                notes.append(f"no header for {call.task}: {error}")
        for part in self.plan.by_measure if self.plan.spec.values else ():
            rule = f"{part.measure.source} / {part.clip:g} · maxValue, from 0 to maxValue"
            notes.append(f"value is {rule}, rounded up as often as its fraction says; where it is 0, nothing is called")
        notes.append(f"the aggregation service is a placeholder ({SERVICE}), as is the header's report-url")
        return Message((*lines, *headers), tuple(notes))

    def query(self, *trees: Tree) -> Query:
        spec, layout = self.plan.spec, _layout(self.plan)

        def write(path: str) -> None:
            with open(path, "w", encoding="utf-8", newline="") as file:
                rows = csv.writer(file)
                rows.writerow(["space", "index", "match_value", *(attribute.name for attribute in spec.known)])
                for space, paths in layout.spaces.items():
                    for index, node in enumerate(paths):
                        level = len(node) - 1 + int(spec.total)
                        labels = (*node, *[""] * (len(spec.known) - len(node)))
                        rows.writerow([space, index, match_value(layout, level), *labels])

        measured = int((self.plan.contribution(trees[0]) > 0).sum())
        return Query(sum(map(len, layout.spaces.values())), write, "indexes", measured)


class W3cAttribution(AttributionApi):
    """W3C Attribution Level 1: indexes of histograms, scripts and headers for pages, aggregate results as answers."""

    terms = W3C
    query_file = "indexes.csv"
    options = frozenset({"destination"})

    def clients(self, plan: Plan, **wishes: object) -> W3cClients:
        if len(plan.spec.known) > LEVELS - 3:
            raise InputError(f"there are match values for {LEVELS - 3} known attributes; leave some out")
        return _clients(plan)

    def answer(
        self, plan: Plan, files: Sequence[str], tree: Tree, rate: tuple[float, int] | None = None, name: str = ""
    ) -> Answer:
        from attributary.api.w3c.histogram_results import answer

        if rate is not None:
            raise InputError("the noise of aggregate results follows from the plan's scheme; leave `noise` out")
        return answer(plan, files, tree, name)


def _clients(plan: Plan, notes: tuple[str, ...] = (), *, changed: bool = False) -> W3cClients:
    """The plan with a table of its tasks."""
    layout, spec = plan.layout, plan.spec
    if layout is None:
        heading = f"scheme {scheme_of(spec).name}; nodes have no indexes yet: give those that run with `impressions`"
        return W3cClients(plan, heading=heading, notes=notes)
    rows = [("task", "levels", "batches by", "ε", "maxValue", "histogram", "bytes of a report")]
    sites = {path[0] for paths in layout.spaces.values() for path in paths} if section_of(spec).site else {""}
    for root in sorted(sites):
        for kind in kinds_of(plan, root):
            size = len(layout.spaces[space_of(spec, index_level(spec, kind.levels[0]), (root,))])
            levels = ", ".join(spec.levels[level] for level in kind.levels)
            batches = ", ".join(attribute.name for attribute in spec.unknown[: kind.batch]) or "any"
            numbers = (f"{kind.micro / MICRO:g}", str(kind.value), f"{size:,}", f"{report_bytes(size, kind.value):,}")
            rows.append((task_of(layout, kind, root), levels, batches, *numbers))
    heading = f"scheme {scheme_of(spec).name}, version {layout.version} of the indexes"
    return W3cClients(plan, changed, rows, heading, notes)


def _layout(plan: Plan) -> IndexLayout:
    if plan.layout is None:
        raise InputError("nodes have no indexes yet; give a table of those that run with `impressions`")
    return plan.layout


def _value(plan: Plan, kind: ReportKind, values: Mapping[str, object], conversion_id: object) -> int:
    """What a conversion's report of this kind has of its maxValue."""
    (part,) = plan.by_measure
    if part.measure.is_count:
        return kind.value
    micro, chance = measured(part.measure, values, plan.spec.logs), f"{part.measure.name} {kind.name}"
    return scaled(micro, round(part.clip * MICRO), kind.value, draw(chance, conversion_id))


def _match_values(plan: Plan, layout: IndexLayout, kind: ReportKind) -> list[int]:
    """Those of the impressions that a kind of report measures."""
    if scheme_of(plan.spec).splits_by_root:
        known = [level for level in used_levels(plan) if level >= 0]
        return [LEVELS * layout.version + BATCHES] if kind.batch else [match_value(layout, each) for each in known]
    return [match_value(layout, index_level(plan.spec, level)) for level in kind.levels]


def _script(call: str, options: PageOptions, priority: str = "", times: int = 1) -> str:
    """A call as a page's script makes it, once or several times; a priority is computed by the script."""
    stated = {camel(name): list(x) if isinstance(x, tuple) else x for name, x in options.stated().items()}
    stated |= {"priority": "@"} if priority else {}
    stated |= {"epsilon": options.epsilon} if isinstance(options, ConversionOptions) else {}
    loop = f"for (let i = 0; i < {times}; i++) " if times > 1 else ""
    return f"{loop}navigator.attribution.{call}({json.dumps(stated)});".replace('"@"', priority)


register(W3cAttribution())
