"""Series page: periods side by side as one HTML file, did it change or is it noise; a node's course as a picture."""

from html import escape
from math import ceil
from typing import NamedTuple

import numpy as np

from attributary import __version__
from attributary.changes import Series
from attributary.changes.what_changed import FELL, GREW
from attributary.facts import numerals
from attributary.facts.changes import NodeFact, change_facts, explanation, node_fact, path, share, surest_first, whole
from attributary.facts.privacy import not_private, title
from attributary.html import UNSEEN
from attributary.plan import Plan
from attributary.report.charts import ticks
from attributary.report.page import Page, render
from attributary.report.page_data import cut
from attributary.types import Floats, Record

SMALL, LARGE = (132, 34), (620, 240)
LABELS = 4  # periods that are named below a large picture
FROM_0 = 0.6  # of the largest: figures above that would leave most of a picture empty that begins at 0


def course_svg(series: Series, node: int, large: bool = False) -> str:
    """The course of a node, by its place in level order, as an SVG to stand in a page."""

    def written(shape: Shape) -> str:
        attributes = "".join(f' {name}="{escape(value)}"' for name, value in shape.attributes.items())
        return f"<{shape.tag}{attributes}>{escape(shape.text)}</{shape.tag}>"

    width, height = LARGE if large else SMALL
    size = f'viewBox="0 0 {width} {height}" width="{width}" height="{height}"'
    return f'<svg class="course" {size} aria-hidden="true">{"".join(map(written, course(series, node, large)))}</svg>'


class Shape(NamedTuple):
    tag: str
    attributes: dict[str, str]
    text: str = ""


def course(series: Series, node: int, large: bool = False) -> list[Shape]:
    """What the picture is made of: a gap where a period lacks the node, a dot where it changed.

    A large one has axes, and says so where they do not begin at 0.
    """
    x, low, high = (values[:, node] for values in series.course)
    low, high = (np.where(np.isfinite(bound), bound, x) for bound in (low, high))
    (width, height), (left, below) = (LARGE, (64, 26)) if large else (SMALL, (4, 4))
    least, largest = float(np.nanmin(low)), float(np.nanmax(high))
    if not large or least < FROM_0 * largest:
        least, largest = min(least, 0.0), max(largest, 0.0)
    across = left + (width - left - 8) * np.arange(len(x)) / max(len(x) - 1, 1)

    def up(value: float) -> float:
        return float(height - below - (value - least) * (height - below - 6) / max(largest - least, 1e-9))

    def points(run: list[int], values: Floats) -> str:
        return " ".join(f"{across[i]:.1f},{up(values[i]):.1f}" for i in run)

    def text(label: str, at: float, down: float, side: str) -> Shape:
        return Shape("text", {"x": f"{at:.1f}", "y": f"{down:.1f}", "text-anchor": side}, label)

    shapes = []
    for tick in ticks(least, largest, 4) if large else ():
        shapes += [Shape("path", {"d": f"M{left} {up(tick):.1f}H{width}"})]
        shapes += [text(numerals.number(tick), left - 8, up(tick) + 4, "end")]
    shapes += [text("does not begin at 0", left + 4, 12, "start")] if large and least > 0 else []
    for i in range(len(x) - 1, -1, -ceil(len(x) / LABELS)) if large else ():
        side = "start" if i == 0 else "end" if i == len(x) - 1 else "middle"
        name = UNSEEN.sub("\ufffd", numerals.short(numerals.date_words(series.periods[i].name), 16))
        shapes += [text(name, across[i], height - 4, side)]
    for part in np.split(np.arange(len(x)), np.flatnonzero(np.diff(np.isfinite(x))) + 1):
        run = part.tolist()
        if np.isfinite(x[run[0]]):
            shapes += [Shape("polygon", {"points": f"{points(run, high)} {points(run[::-1], low)}"})]
            shapes += [Shape("polyline", {"points": points(run, x)})]
    for i, step in enumerate(series.steps, 1):
        if step.changed[node]:
            at = {"cx": f"{across[i]:.1f}", "cy": f"{up(x[i]):.1f}", "r": "3.5"}
            shapes += [Shape("circle", {"class": str(step.verdict[node]), **at})]
    return shapes


NODES = 2_000


def series_page(
    series: Series, plans: list[Plan] | None = None, nodes: int = NODES, heading: str | None = None
) -> Page:
    """The page, which answers in its first sentence; at most so many `nodes` are in it. `plans` state what ε was."""
    last, tree, facts = series.last, series.tree, change_facts(series, plans)
    kept = cut(tree, np.nan_to_num(series.sum.count), last.changed, nodes)
    changed = surest_first(last, np.flatnonzero(last.changed))
    first, final = (numerals.date_words(series.periods[i].name) for i in (0, -1))
    context: Record = {
        **facts._asdict(),
        "title": heading or title(tree.level_names, [series.called]),
        "since": numerals.date_words(last.before.name),
        "between": f"{final} against {first}"
        if len(series.steps) == 1
        else numerals.span_words([period.name for period in series.periods]),
        "not_private": not_private(series.not_private),
        "generated": series.generated,
        "version": __version__,
        "files": [],
        "total": facts.total._asdict() | {"svg": course_svg(whole(series), 0, large=True)},
        "changed": [_row(series, node, fact) for node, fact in zip(changed, facts.changed, strict=False)],
        "tree": _below(series, kept.keep, -1),
        "left": len(tree) - kept.nodes,
        "called": series.called,
        "explanation": explanation(series.test),
        "confidence": share(series.confidence),
    }
    return Page(render("series.html.jinja", context, ()), [], len(tree) - kept.nodes, facts.lead)


def _row(series: Series, node: int, fact: NodeFact) -> Record:
    """A node's line: its facts, how they look, its course, and room for the lines below."""
    look = fact.verdict if fact.verdict in (GREW, FELL) else "same"
    return fact._asdict() | {"kind": look, "svg": course_svg(series, node), "below": []}


def _below(series: Series, keep: np.ndarray, parent: int) -> list[Record]:
    """The rows under a node, -1 for the roots, each with those under it; the largest first."""
    first = series.tree.first
    nodes = np.arange(0 if parent < 0 else int(first[parent]), int(first[parent + 1]))
    size = np.nan_to_num(series.periods[-1].figures.count)
    rows = []
    for node in sorted(map(int, nodes[keep[nodes]]), key=lambda node: -size[node]):
        fact = node_fact(series, node, path(series, node).rsplit(" › ", 1)[-1])
        rows.append(_row(series, node, fact) | {"below": _below(series, keep, node)})
    return rows
