"""Page: everything that was found, as one HTML file that needs nothing else."""

import base64
import hashlib
from functools import cache
from importlib.resources import files
from typing import Any, NamedTuple

from attributary import __version__
from attributary.report import figures, words
from attributary.report.cut import cut
from attributary.report.given import Given
from attributary.report.icicle import icicle
from attributary.report.sections import budget_section, changed_section, counts_section, evaluation_section
from attributary.report.suspicion import suspicion
from attributary.report.theme import NARROW, WIDE, Chart, inline

TAU, NODES = 10.0, 200_000
SCRIPTS = ("data.js", "number.js", "bar.js", "match.js", "table.js", "keys.js", "icicle.js", "start.js")


class Page(NamedTuple):
    html: str
    charts: list[Chart]
    left_out: int  # nodes that the page has no room for


def page(given: Given, tau: float | None = None, nodes: int = NODES, title: str | None = None) -> Page:
    """The page, and its charts; `tau` is the plan's unless told, and at most so many `nodes` are in the page."""
    plan, est = given.plan, given.estimates
    tau = tau or (plan.spec.tau if plan else TAU)
    drawn: list[Chart] = []

    def draw(chart: Chart) -> dict[str, str]:
        drawn.append(chart)
        wide, narrow = inline(chart, WIDE), inline(chart, NARROW)
        return {"title": chart.title, "words": chart.words, "wide": wide, "narrow": narrow}

    names = plan.levels if plan else est.tree.level_names if est else ()
    context: dict[str, Any] = {
        "title": title or words.title(names),
        "facts": words.facts(plan, est),
        "seeded": words.seeded(est),
        "tau": figures.number(tau),
        "version": __version__,
        "files": [path.rstrip("/").rsplit("/", 1)[-1] for path in given.files],
        "counts": None,
    }
    left = 0
    if est is not None:
        shape: Any = "dlap" if plan is not None and plan.spec.noise == "unit" else "laplace"
        doubt = suspicion(est, est.measurements(shape))
        kept = cut(est.tree, est.estimate, doubt.implausible, nodes)
        left = len(est) - kept.nodes
        context |= counts_section(est, doubt, kept, tau, draw)
        drawn.append(icicle(est, tau, kept))
    context["budget"] = budget_section(plan, draw) if plan else None
    context["changed"] = changed_section(est, tau, doubt, draw) if est is not None else None
    context["evaluation"] = evaluation_section(given.evaluation, draw)
    return Page(_render(context), drawn, left)


def _render(context: dict[str, Any]) -> str:
    from jinja2 import Environment, StrictUndefined

    style, script = _text("page.css"), "\n".join(_text(name) for name in SCRIPTS)
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    template = environment.from_string(_text("page.html.jinja"))
    policy = (
        f"default-src 'none'; script-src {_hash(script)}; style-src {_hash(style)}; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )
    empty = {"about": "", "data": "", "left": "", "kept": "", "bins": (), "level_names": ()}
    return template.render({**empty, **context, "style": style, "script": script, "policy": policy})


@cache
def _text(name: str) -> str:
    return files("attributary.report").joinpath(name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
