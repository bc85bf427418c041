"""Series page: periods side by side as one HTML file: did it change, or is it noise?"""

from typing import Any

import numpy as np

from attributary import __version__
from attributary.changes import Series
from attributary.changes.what_changed import FELL, GREW
from attributary.facts.changes import NodeFact, change_facts, explanation, node_fact, path, share, surest_first, whole
from attributary.facts.privacy import not_private, title
from attributary.plan import Plan
from attributary.report.course_svg import course_svg
from attributary.report.page import Page, render
from attributary.report.page_data import cut

NODES = 2_000


def series_page(
    series: Series, plans: list[Plan] | None = None, nodes: int = NODES, heading: str | None = None
) -> Page:
    """The page, which answers in its first sentence; at most so many `nodes` are in it. `plans` state what ε was."""
    last, tree, facts = series.last, series.tree, change_facts(series, plans)
    kept = cut(tree, np.nan_to_num(series.sum.count), last.changed, nodes)
    changed = surest_first(last, np.flatnonzero(last.changed))
    first, final = series.periods[0].name, series.periods[-1].name
    context: dict[str, Any] = {
        **facts._asdict(),
        "title": heading or title(tree.level_names, [series.called]),
        "since": last.before.name,
        "between": f"{final} against {first}" if len(series.steps) == 1 else f"{first} to {final}",
        "not_private": not_private(series.not_private),
        "generated": series.generated,
        "version": __version__,
        "total": facts.total._asdict() | {"svg": course_svg(whole(series), 0, large=True)},
        "changed": [_row(series, node, fact) for node, fact in zip(changed, facts.changed, strict=False)],
        "tree": _below(series, kept.keep, -1),
        "left": len(tree) - kept.nodes,
        "called": series.called,
        "explanation": explanation(series.test),
        "confidence": share(series.confidence),
    }
    return Page(render("series.html.jinja", context, ()), [], len(tree) - kept.nodes, facts.lead)


def _row(series: Series, node: int, fact: NodeFact) -> dict[str, Any]:
    """A node's line: its facts, how they look, its course, and room for the lines below."""
    look = fact.verdict if fact.verdict in (GREW, FELL) else "same"
    return fact._asdict() | {"kind": look, "svg": course_svg(series, node), "below": []}


def _below(series: Series, keep: np.ndarray, parent: int) -> list[dict[str, Any]]:
    """The rows under a node, -1 for the roots, each with those under it; the largest first."""
    first = series.tree.first
    nodes = np.arange(0 if parent < 0 else int(first[parent]), int(first[parent + 1]))
    size = np.nan_to_num(series.periods[-1].figures.count)
    rows = []
    for node in sorted(map(int, nodes[keep[nodes]]), key=lambda node: -size[node]):
        fact = node_fact(series, node, path(series, node).rsplit(" › ", 1)[-1])
        rows.append(_row(series, node, fact) | {"below": _below(series, keep, node)})
    return rows
