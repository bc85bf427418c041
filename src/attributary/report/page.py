"""Page: plan, estimates and evaluation as one HTML file that needs nothing else."""

import base64
import hashlib
import os
import re
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from importlib.resources import files
from typing import Any, NamedTuple

from attributary import __version__
from attributary.report import facts
from attributary.report.chart import NARROW, WIDE, Chart, inline
from attributary.report.evaluation_curves import evaluation_section
from attributary.report.inputs import ReportInputs, quantities
from attributary.report.limits_section import limits_section
from attributary.report.node_charts import icicle
from attributary.report.page_data import kept_nodes, stored
from attributary.report.panels import doubt_of, first_panel, later_panel, plan_panel
from attributary.report.table_section import table_lead, table_section

NODES = 200_000
SCRIPTS = ("data.js", "number.js", "bar.js", "match.js", "table.js", "keys.js", "icicle.js", "measures.js", "start.js")


class Page(NamedTuple):
    html: str
    charts: list[Chart]
    left_out: int  # nodes that the page has no room for
    lead: list[str]  # the answer, in sentences


def page(inputs: ReportInputs, tau: float | None = None, nodes: int = NODES, title: str | None = None) -> Page:
    """The page, and its charts; `tau` is the plan's by default, and at most so many `nodes` are in the page."""
    plan, est = inputs.plan, inputs.first
    shown = quantities(inputs, tau)
    drawn: list[Chart] = []
    planned = plan.by_measure if plan and not shown else ()
    several = max(len(shown), len(planned)) > 1

    def drawing(name: str = "") -> Callable[[Chart], dict[str, str]]:
        def draw(chart: Chart) -> dict[str, str]:
            drawn.append(_of(chart, name) if several else chart)
            wide, narrow = inline(chart, WIDE), inline(chart, NARROW)
            return {"title": chart.title, "words": chart.words, "wide": wide, "narrow": narrow}

        return draw

    context: dict[str, Any] = {
        "title": title or _title(inputs),
        "lead": table_lead(inputs.check_of_table) if inputs.check_of_table else facts.lead(inputs, shown),
        "table": table_section(inputs.check_of_table) if inputs.check_of_table else None,
        "generated": inputs.generated,
        "facts": [] if inputs.check_of_table else facts.facts(plan, est),
        "not_private": facts.not_private(inputs.not_private),
        "several": several,
        "version": __version__,
        "files": [path.rstrip("/").rsplit("/", 1)[-1] for path in inputs.files],
        "measures": [],
    }
    left = 0
    if shown:
        doubts = [doubt_of(quantity) for quantity in shown]
        kept = kept_nodes(shown, doubts, nodes)
        left = len(shown[0].estimates) - kept.nodes
        context |= stored(shown, doubts, kept)
        for quantity, doubt in zip(shown, doubts, strict=True):
            draw = drawing(quantity.called)
            panel = first_panel(quantity, doubt, inputs, draw)
            picture = icicle(quantity, kept.keep)
            drawn.append(_of(picture, quantity.called) if several else picture)
            context["measures"].append(panel | later_panel(quantity, doubt, draw))
    context["measures"] += [plan_panel(part, tau, drawing(part.measure.name)) for part in planned]
    context["limits"] = limits_section(plan, drawing()) if plan else None
    context["evaluation"] = evaluation_section(inputs.evaluation, inputs.error_tables, drawing())
    if inputs.not_private:
        drawn = [replace(chart, title=f"NOT PRIVATE: {chart.title}") for chart in drawn]
    return Page(_render(context), _apart(drawn), left, context["lead"])


def _title(inputs: ReportInputs) -> str:
    """The title of a page that was given none."""
    plan, est = inputs.plan, inputs.first
    if inputs.check_of_table:
        return f"Check of {os.path.basename(inputs.files[0])}"
    names = plan.levels if plan else est.tree.level_names if est else ()
    called = [quantity.called for quantity in quantities(inputs, None) if quantity.kind != "ratio"]
    called = called or ([measure.called for measure in plan.spec.asked] if plan else ["conversions"])
    return facts.title(names, called)


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


def _render(context: dict[str, Any]) -> str:
    measures = context["measures"]
    one = measures[0] if measures else None
    empty = {"about": "", "data": "", "left": "", "kept": "", "bins": (), "level_names": (), "nodes": 0}
    derived = {
        "one": one,
        "counts": one and one["counts"],
        "budget": any(m["budget"] for m in measures),
        "accuracy": any(m["accuracy"] for m in measures),
        "flags": any(m["counts"] and m["counts"]["flags"] for m in measures),
        "prior": any(m["counts"] and m["counts"]["prior"] for m in measures),
        "zero": any(m["counts"] and m["counts"]["zero"] for m in measures),
        "rate": any(m["counts"] and m["counts"]["rate"] for m in measures),
    }
    return render("page.html.jinja", {**empty, **context, **derived}, SCRIPTS)


def render(template: str, context: dict[str, Any], scripts: tuple[str, ...]) -> str:
    """A template filled in, with style and scripts in the page, and a policy that allows these only."""
    style, script = _text("page.css"), "\n".join(_text(name) for name in scripts)
    policy = (
        f"default-src 'none'; script-src {_hash(script)}; style-src {_hash(style)}; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )
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
