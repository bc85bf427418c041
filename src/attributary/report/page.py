"""Page: plan, estimates and evaluation as one HTML file that needs nothing else: facts, laid out section by section."""

import base64
import hashlib
import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from attributary import Estimate, __version__
from attributary.errors import InputError
from attributary.estimates import EXTRAS, USUAL, Estimates
from attributary.facts import estimates as facts
from attributary.facts import numerals, privacy
from attributary.facts.plan import bound_lines, heads, level_facts, level_lines, limit_tables
from attributary.facts.privacy import loss_facts
from attributary.facts.quantity import FigureName, Quantity, quantities, rate
from attributary.logs.devices import LevelLoss
from attributary.pipeline.check_table import TableCheck
from attributary.plan import MeasurePlan, Plan
from attributary.ratio import ratios_of
from attributary.report import charts, curves
from attributary.report.charts import NARROW, WIDE, Chart, Draw, inline
from attributary.report.page_data import kept_nodes, stored
from attributary.spec.measure import COUNT
from attributary.tables.table_columns import together, words_of
from attributary.types import Floats, Record

if TYPE_CHECKING:
    from attributary.facts.evaluation import Point
    from attributary.facts.numerals import Table

NODES = 200_000
SCRIPTS = ("data.js", "number.js", "bar.js", "match.js", "table.js", "keys.js", "icicle.js", "measures.js", "start.js")


@dataclass(frozen=True)
class ReportInputs:
    """What a page is made of: values in memory (`ReportInputs.of`), or what `read` found in files."""

    plan: Plan | None = None
    measures: Mapping[str, Estimates] = field(default_factory=dict)  # by name; "count" are conversions
    ratios: Mapping[str, Estimates] = field(default_factory=dict)  # of values to counts, by name
    evaluation: "tuple[Point, ...]" = ()
    error_tables: "tuple[Table, ...]" = ()  # beside those of the evaluation
    files: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()  # files of a folder that hold true counts
    not_private: str = ""  # why what is shown is not, if something says so
    shape: str | None = None  # of the noise, where neither estimates nor plan state it
    check_of_table: TableCheck | None = None  # of a raw table, whose estimates these are
    generated: bool = False  # the logs were generated: no real people, no real campaigns
    losses: tuple[LevelLoss, ...] = ()  # what levels do not learn since budgets run out
    upper: str = ""  # which part of the tree these estimates are, where they are not all
    breakdowns: "Mapping[str, ReportInputs]" = field(default_factory=dict)  # of several, by name; the rest is of all

    @classmethod
    def of(
        cls,
        plan: Plan | None = None,
        estimates: Estimate | Mapping[str, Estimate] | None = None,
        evaluation: object = None,
        confidence: float = USUAL,
        generated: bool = False,
    ) -> "ReportInputs":
        """A plan, estimates by the names of their measures, and the table of an evaluation, all of them in memory.

        One estimate alone is of the plan's first measure, or of conversions. Of counts and values, ratios are shown,
        too.
        """
        by_name = {only_measure(plan): estimates} if isinstance(estimates, Estimate) else dict(estimates or {})
        points: tuple[Point, ...] = ()
        if evaluation is not None:
            from attributary.facts.evaluation import read_evaluation

            points = tuple(read_evaluation(evaluation, "evaluation"))
        words = [est.not_private for est in by_name.values()] + ([words_of(evaluation)] if points else [])
        inputs = cls(
            plan,
            {name: Estimates.of(est, confidence) for name, est in by_name.items()},
            ratios_of(by_name, confidence) if len(by_name) > 1 else {},
            points,
            not_private=together(*words),
            generated=generated,
        )
        inputs.check()
        return inputs

    @property
    def first(self) -> Estimates | None:
        """The estimates of the first measure."""
        return next(iter(self.measures.values()), None)

    def with_impressions(self, impressions: Floats | None) -> "ReportInputs":
        """The same with the impressions of each node, in the tree's order, so that what each brings is shown."""
        return replace(
            self,
            measures={
                name: replace(est, impressions=None if impressions is None else est.tree.to_level_order(impressions))
                for name, est in self.measures.items()
            },
        )

    def quantities(self, tau: float | None) -> list[Quantity]:
        """The measures of a page in their order, then the ratios; `tau` is the plan's by default."""
        shape = self.plan.spec.noise_model.shape.name if self.plan else self.shape  # where the table does not state it
        measures = {name: replace(est, shape=est.shape or shape) for name, est in self.measures.items()}
        figure = self.check_of_table.form.called if self.check_of_table else ""
        return quantities(self.plan, measures, self.ratios, tau, figure)

    def check(self) -> None:
        """Refuses a plan and estimates that are not about the same question."""
        if self.plan is None or self.first is None:
            return
        names_of_plan = [measure.name for measure in self.plan.spec.asked]
        other = next((name for name in self.measures if name not in names_of_plan), None)
        if other is not None:
            raise InputError(
                f"the estimates have the measure {other!r}; those of the plan are {', '.join(names_of_plan)}: "
                "give files of one run"
            )
        names, levels = self.first.tree.level_names, self.plan.levels
        if self.first.tree.attributes and names != levels[: len(names)]:
            raise InputError(
                f"the plan's levels are {', '.join(levels)}, those of the estimates {', '.join(names)}; "
                "give files of one run"
            )


def only_measure(plan: Plan | None) -> str:
    """The measure of estimates that do not name any."""
    return COUNT if plan is None else plan.spec.asked[0].name


class Page(NamedTuple):
    html: str
    charts: list[Chart]
    left_out: int  # nodes that the page has no room for
    lead: list[str]  # the answer, in sentences


def page(inputs: ReportInputs, tau: float | None = None, nodes: int = NODES, title: str | None = None) -> Page:
    """The page, and its charts; `tau` is the plan's by default, and at most so many `nodes` are in the page."""
    if inputs.breakdowns:
        pages = {name: page(each, tau, nodes, title) for name, each in inputs.breakdowns.items()}
        each = [{"name": name, "html": made.html} for name, made in pages.items()]
        words = (
            f"{'NOT PRIVATE: ' * bool(inputs.not_private)}{' · '.join(pages)}{' (generated data)' * inputs.generated}"
        )
        own = ("page.css", "\n".join(_text(name) for name in SCRIPTS))  # a page within another needs leave of both
        html = render("joint.html.jinja", {"title": title or words, "pages": each}, ("joint.js",), "joint.css", own)
        every = [_of(chart, name) for name, made in pages.items() for chart in made.charts]
        left_out = sum(made.left_out for made in pages.values())
        return Page(html, _apart(every), left_out, next(iter(pages.values())).lead)
    plan, check = inputs.plan, inputs.check_of_table
    shown = inputs.quantities(tau)
    drawn: list[Chart] = []
    planned = plan.by_measure if plan and not shown else ()
    several = max(len(shown), len(planned)) > 1

    def drawing(name: str = "") -> Callable[[Chart], dict[str, str]]:
        def draw(chart: Chart) -> dict[str, str]:
            drawn.append(_of(chart, name) if several else chart)
            wide, narrow = inline(chart, WIDE), inline(chart, NARROW)
            return {"title": chart.title, "words": chart.words, "wide": wide, "narrow": narrow}

        return draw

    if check:
        measured = shown[0] if shown else None
        lead, table, asked = facts.table_lead(check, measured), facts.table_section(check, measured), []
    else:
        lead, table, asked = privacy.plan_headline(plan) if plan else [], None, privacy.facts(plan, None)
        if shown:
            private = privacy.privacy_sentence(plan, shown[0].estimates, inputs.not_private)
            upper = [f"This page shows the upper levels: {inputs.upper}."] if inputs.upper else []
            lead = [*facts.headline(shown, plan), *filter(None, [private]), *upper]
            asked = privacy.facts(plan, shown[0])
        asked += loss_facts(inputs.losses)
    context: Record = {
        "title": title or _title(inputs, shown),
        "lead": lead,
        "table": table,
        "generated": inputs.generated,
        "facts": asked,
        "private": plan is not None or not shown,
        "not_private": privacy.not_private(inputs.not_private),
        "several": several,
        "version": __version__,
        "between": "",
        "files": [path.rstrip("/").rsplit("/", 1)[-1] for path in inputs.files],
        "measures": [],
    }
    left = 0
    if shown:
        kept = kept_nodes(shown, nodes)
        left = len(shown[0].estimates) - kept.nodes
        context |= stored(shown, kept)
        for quantity in shown:
            draw = drawing(quantity.called)
            counts = _counts(quantity, draw)
            picture = charts.icicle(quantity, kept.keep)
            drawn.append(_of(picture, quantity.called) if several else picture)
            context["measures"].append(_panel(quantity, quantity.tau, quantity.part, counts, draw))
    for part in planned:
        measure = part.measure
        named = FigureName(measure.name, "count" if measure.is_count else "value", measure.unit or "")
        context["measures"].append(_panel(named, tau or part.tau, part, None, drawing(measure.name)))
    context["limits"] = None
    if plan and plan.tradeoff:
        tables, draw = limit_tables(plan), drawing()
        charted = [curves.limit_chart(name, t, tables[name].caption) for name, t in plan.tradeoff.items() if len(t) > 1]
        context["limits"] = {"charts": list(map(draw, charted)), "tables": tables.values()}
    context["evaluation"] = None
    if inputs.evaluation:
        context["evaluation"] = curves.evaluation_section(inputs.evaluation, inputs.error_tables, drawing())
    if inputs.not_private:
        drawn = [replace(chart, title=f"NOT PRIVATE: {chart.title}") for chart in drawn]
    return Page(_render(context), _apart(drawn), left, context["lead"])


def _title(inputs: ReportInputs, shown: Sequence[Quantity]) -> str:
    """The title of a page that was given none."""
    plan, est = inputs.plan, inputs.first
    if inputs.check_of_table:
        return f"Check of {os.path.basename(inputs.files[0])}"
    names = plan.levels if plan else est.tree.level_names if est else ()
    called = [quantity.called for quantity in shown if quantity.kind != "ratio"]
    called = called or ([measure.called for measure in plan.spec.asked] if plan else ["conversions"])
    return privacy.title(names, called)


# Sections


def _panel(of: FigureName, tau: float, part: MeasurePlan | None, counts: object, draw: Draw) -> Record:
    """What the page says of one measure or ratio, or of the part of a plan that nothing is measured by yet."""
    estimated = isinstance(of, Quantity) and of.kind != "ratio"
    return {
        "name": of.called,
        "head": of.head,
        "ratio": of.kind == "ratio",
        "noun": of.noun,
        "unit": of.unit,
        "after": of.after,
        "tau": numerals.number(tau),
        "limited": part is not None and part.limited,
        "counts": counts,
        "budget": None if part is None else budget_section(part, draw, of.noun),
        "accuracy": accuracy_section(of, draw) if isinstance(of, Quantity) and estimated else None,
    }


def _counts(quantity: Quantity, draw: Draw) -> Record:
    """What the sections on counts, tree and icicle say of one quantity."""
    est, total, ratio = quantity.estimates, quantity.total, quantity.kind == "ratio"
    roots, level = slice(0, int(est.tree.first[0])), est.tree.slice(min(int(est.tree.total), est.tree.depth - 1))
    seen = 0.0 if est.impressions is None else float(est.impressions[roots].sum())
    known = np.isfinite(est.estimate)
    sizes = zip(np.diff(est.tree.offsets), est.tree.level_names, strict=True)
    negative = facts.negative_line(quantity)
    return {
        "total": (quantity.figure if ratio else quantity.shown)(total.estimate),
        "interval": f"{quantity.figure(total.low)} and {quantity.figure(total.high)}",
        "error": numerals.percent(total.error(quantity.tau, quantity.metric)),
        "nodes": f"{int(known.sum()):,} of {len(est):,} rows have a ratio"
        if ratio
        else f"{len(est):,} {quantity.noun}s",
        "levels": numerals.few([f"{size:,}\u00a0×\u00a0{name}" for size, name in sizes]),
        "flags": quantity.doubt.nodes,
        "corrections": numerals.sentence(facts.correction_line(quantity).text),
        "limit": f"{quantity.doubt.threshold:.1f}",
        "negative": numerals.sentence(negative.text) if negative and not ratio else "",
        "chart": draw(charts.counts_chart(quantity)) if known[level].any() else None,
        "confidence": quantity.interval_words,
        "extras": list(est.extras),
        "rate": [] if est.impressions is None or ratio else rate(total.estimate, total.low, total.high, seen),
        "seen": numerals.number(seen),
    }


BUDGET = ("share", "contribution", "epsilon")
ERRORS = ("expected", "median", "worst", "equal", "change", "leaves", "zeros")


def budget_section(part: MeasurePlan, draw: Draw, noun: str = "count") -> Record:
    """What a measure's part of a plan gives each level."""
    plan = part.plan
    told, tradeoff, bounds = level_facts(plan), curves.tradeoff_chart(plan), bound_lines(plan)
    levels = told[:-1]
    unmeasured = [s.level for s in levels if s.contribution.value == 0 and not charts.share_range(s.share)["high"]]
    rows = [
        {
            "level": s.level,
            "nodes": s.nodes,
            "budget": None if s.level in unmeasured else [getattr(s, name) for name in BUDGET],
            "errors": [getattr(s, name) for name in ERRORS],
        }
        for s in told
    ]
    return {
        "heads": heads(plan, ("level", "nodes", *BUDGET, *ERRORS)),
        "rows": rows[:-1],
        "last": rows[-1],
        "summed": [f"{s.level} ({s.expected} expected error)" for s in levels if s.level in unmeasured],
        "differ": "row" if plan.nodes is not None else plan.spec.split_by if plan.roots else "",
        "error": told[-1].expected,
        "equal": told[-1].equal,
        "notes": [f"{line.subject}: {line.text}." for line in [*bounds, *level_lines(part)] if line.warning],
        "targets": [f"{line.text}." for line in bounds if line.subject == "target" and not line.warning],
        "charts": [draw(charts.budget_chart(levels)), draw(charts.expected_chart(levels, noun))],
        "tradeoff": draw(tradeoff) if tradeoff else None,
        "no_tradeoff": plan.changes_with_epsilon,
    }


def accuracy_section(quantity: Quantity, draw: Draw) -> Record | None:
    """How good the estimates are, level by level, and what denoising did for that."""
    gains = facts.level_gains(quantity)
    if not gains:
        return None
    table, (found, suspects) = facts.gains_table(gains), facts.worst(quantity)
    fit = facts.fit_line(quantity)
    words = [fit.text, *filter(None, [facts.beside_words(quantity)])]
    return {
        "heads": table.heads,
        "rows": table.rows,
        "summed": facts.summed(gains),
        "chart": draw(charts.denoised_chart(gains, quantity.noun)),
        "fit": {"fine": not fit.warning, "detail": fit.detail, "words": " ".join(map(numerals.sentence, words))},
        "suspects": suspects,
        "more": found - len(suspects),
    }


# Layout


def _of(chart: Chart, name: str) -> Chart:
    """The chart under a name of its own, where there is one for each measure."""
    kind = "largest" if chart.name == "counts" else chart.name
    return replace(chart, name=f"{name} {kind}" if name else kind)


def _apart(drawn: list[Chart]) -> list[Chart]:
    """The charts under names that are good for files, and differ."""
    by_name: dict[str, Chart] = {}
    for chart in drawn:
        plain = name = re.sub(r"\W+", "-", chart.name).strip("-") or "chart"
        while name in by_name:
            name = f"{plain}-{int(name.removeprefix(plain).strip('-') or 1) + 1}"
        by_name[name] = replace(chart, name=name)
    return list(by_name.values())


def _render(context: Record) -> str:
    measures = context["measures"]
    one = measures[0] if measures else None
    empty = {"about": "", "data": "", "left": "", "kept": "", "bins": (), "level_names": (), "nodes": 0}
    counts = [m["counts"] for m in measures if m["counts"]]
    extras = {name for each in counts for name in each["extras"]}
    derived = {
        "one": one,
        "counts": one and one["counts"],
        "budget": any(m["budget"] for m in measures),
        "accuracy": any(m["accuracy"] for m in measures),
        "flags": any(each["flags"] for each in counts),
        "extras": [column for name, column in EXTRAS.items() if name in extras],
        "rate": any(each["rate"] for each in counts),
    }
    return render("page.html.jinja", {**empty, **context, **derived}, SCRIPTS)


def render(
    template: str,
    context: Record,
    scripts: tuple[str, ...],
    style_name: str = "page.css",
    within: tuple[str, str] | None = None,
) -> str:
    """A template filled in, with style and scripts in the page, and a policy that allows these only.

    `within` are the style and the script of pages within it.
    """
    style, script = _text(style_name), "\n".join(_text(name) for name in scripts)
    styles, codes = _hash(style), _hash(script)
    if within is not None:
        styles, codes = f"{styles} {_hash(_text(within[0]))}", f"{codes} {_hash(within[1])}"
    rest = "img-src data:; base-uri 'none'; form-action 'none'"
    policy = f"default-src 'none'; script-src {codes}; style-src {styles}; {rest}"
    context = {**context, "style": style, "script": script, "policy": policy}
    return str(_templates().get_template(template).render(context))


@cache
def _templates() -> Any:
    """Templates, each compiled once: that takes as long as to fill them in many times."""
    from jinja2 import Environment, FunctionLoader, StrictUndefined

    return Environment(
        loader=FunctionLoader(_text), autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )


@cache
def _text(name: str) -> str:
    return files("attributary.report").joinpath(name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
