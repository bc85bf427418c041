"""Evaluation curves: the errors of methods at several budgets, as a table has them, as charts and rows."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from attributary.facts.evaluation import OWN, Point, error_tables, explanation, one_each, shown, tree_errors, whose
from attributary.facts.numerals import Table, number, short
from attributary.report.chart import AMBER, GREY, NARROW, RUST, TEAL, Chart, Draw, VegaLite, layer, looks, plot

POINTS = 500  # rows that are listed
MOST = 6  # charts
COLOURS = [TEAL, AMBER, RUST, "#4a6fa5", "#7a5c99", GREY, "#5a7d2a", "#a0447a"]
SHAPES = ["circle", "square", "diamond", "triangle-up", "cross", "triangle-down", "triangle-right", "triangle-left"]


LEAST = 1e-4  # errors below are not drawn
KNOWN = [{"filter": "isValid(datum.low)"}]
DASHES = {"paper": [5, 3], "ours": [1, 0], "baseline": [1, 3]}


def curves(points: Sequence[Point]) -> tuple[list[Chart], int]:
    """A chart for each dataset and noise model, of whole trees where there are such points; and how many more."""
    finite = [p for p in points if np.isfinite(p.rmsre) and p.limits in (None, *OWN)]
    drawn = tree_errors(finite) or one_each(finite)
    groups: dict[tuple[str, str, str], list[Point]] = {}
    for p in drawn:
        groups.setdefault((p.dataset, p.noise, p.level or ""), []).append(p)
    charts = [
        chart(group, "evaluation" + (f"-{i}" if len(groups) > 1 else "")) for i, group in enumerate(groups.values(), 1)
    ]
    return charts[:MOST], max(len(groups) - MOST, 0)


def chart(points: Sequence[Point], name: str = "evaluation") -> Chart:
    """Errors by ε, or by τ if there is one ε: a panel for each tree; dashed are the paper's methods, dotted baselines.

    Where there is one ε and τ, the methods of one tree stand in the order of their errors.
    """
    across, by = ("epsilon", "tau") if len({p.epsilon for p in points}) > 1 else ("tau", "epsilon")
    trees, sign = list(dict.fromkeys(p.question for p in points)), {"tau": "τ", "epsilon": "ε"}
    first = points[0]

    def panel(p: Point) -> str:
        return f"{sign[by]} = {getattr(p, by):g}" + (f", {p.question}" if len(trees) > 1 else "")

    panels = list(dict.fromkeys(map(panel, sorted(points, key=lambda p: (trees.index(p.question), getattr(p, by))))))
    sides = {p.called: whose(p.method) for p in points}
    drawn = [p for p in points if p.rmsre >= LEAST] or list(points)
    drawn.sort(key=lambda p: sides[p.called] != "ours")  # dashed lines above solid ones, so that both are seen
    rows = [_row(p, getattr(p, across), panel(p)) for p in drawn]
    last = max(getattr(p, across) for p in points)
    told = [p for p in points if getattr(p, across) == last and panel(p) == panels[0]]
    description = f"Error by method, at {across} = {last:g}: " + "; ".join(f"{p.called} {shown(p.rmsre)}" for p in told)
    generated = f"{first.dataset}, generated rows" if any(p.generated for p in points) else first.dataset
    parts = [generated, *trees[: len(trees) == 1], f"noise: {first.noise}" if first.noise else ""]
    parts += [f"level {first.level}" if first.level else ""]
    title = ", ".join(short(part, 60) for part in parts if part) or "All methods"
    if len({row["x"] for row in rows}) == len(panels) == 1:
        return Chart(
            name, f"{title}, ε = {first.epsilon:g}, τ = {first.tau:g}", description, lambda width: _dots(rows, width)
        )
    keys = {"paper": "dashed: the paper's", "baseline": "dotted: baselines"}
    legend = "; ".join(description for side, description in keys.items() if side in sides.values())
    title += f" ({legend})" * bool(legend)
    return Chart(name, title, description, lambda width: _spec(rows, sides, across, panels, width))


def _row(p: Point, x: float, panel: str) -> dict[str, Any]:
    """A point as charts take it, with two standard errors to either side where it was simulated."""
    row = {"method": p.called, "x": x, "panel": panel, "error": p.rmsre}
    if p.standard_error >= 0:
        row |= {"low": max(p.rmsre - 2 * p.standard_error, 1e-12), "high": p.rmsre + 2 * p.standard_error}
    return row


def _dots(rows: list[dict[str, Any]], width: int) -> VegaLite:
    """The methods in the order of their errors, where there is one budget and one tau."""
    narrow = width <= NARROW
    x = {"type": "quantitative", "scale": {"zero": True}}
    axis = {"title": "error (RMSRE)", "format": "~%", "tickCount": 3 if narrow else 6}
    names = [r["method"] for r in sorted(rows, key=lambda r: r["error"])]
    span = layer(
        "rule", {"color": TEAL, "strokeWidth": 6, "opacity": 0.35}, x={"field": "low", **x}, x2={"field": "high"}
    )
    look = {"filled": True, "size": 90, "opacity": 1, "color": TEAL}
    layers = [{"transform": KNOWN} | span, layer("point", look, x={"field": "error", **x, "axis": axis})]
    y = {"field": "method", "type": "nominal", "sort": names, "title": None}
    return plot(rows, (width - 150, {"step": 26}), layers, y=y)


def _spec(rows: list[dict[str, Any]], sides: dict[str, str], across: str, panels: list[str], width: int) -> VegaLite:
    narrow = width <= NARROW
    columns, methods = 1 if narrow else min(len(panels), 2), list(sides)
    log = len({r["x"] for r in rows}) > 1
    title = "ε, the budget" if across == "epsilon" else "τ, below which errors stop being relative"
    values = sorted({r["x"] for r in rows})[:12]
    scale = {"type": "log", "nice": False} if log else {}
    along = {"title": title, "values": values, "format": "~r", "grid": False}
    x = {"field": "x", "type": "quantitative", "scale": scale, "axis": along}
    log_y = all(r["error"] > 0 for r in rows)
    up = {"type": "log", "nice": False, "clamp": True, **_reach(rows)} if log_y else {"zero": True}
    y = {"type": "quantitative", "scale": up}
    axis = {"title": "error (RMSRE)", "format": "~%"} | (
        {"values": _round([r["error"] for r in rows])} if log_y else {}
    )
    legend = {"columns": 2 if narrow else 3, "symbolOpacity": 1, "labelLimit": 400}
    colour = looks("method", methods, (COLOURS * 9)[: len(methods)], legend)
    shape = looks("method", methods, [SHAPES[(i + i // len(COLOURS)) % len(SHAPES)] for i in range(len(methods))])
    dash = {**looks("method", methods, [DASHES[side] for side in sides.values()]), "legend": None}
    layers = [
        layer("line", {"strokeWidth": 2}, y={"field": "error", **y, "axis": axis}, strokeDash=dash),
        layer("point", {"filled": True, "size": 60, "opacity": 1}, y={"field": "error", **y}, shape=shape),
    ]
    if any("low" in r for r in rows):
        spans = layer("rule", {"strokeWidth": 1.5, "opacity": 0.6}, y={"field": "low", **y}, y2={"field": "high"})
        layers = [{"transform": KNOWN} | spans, *layers]
    size = ((width - 75) / columns - (0 if columns == 1 else 30), 220)
    whole = plot(rows, size, layers, x=x, color=colour)
    if len(panels) == 1:
        return whole
    facet = {"field": "panel", "type": "nominal", "title": None, "sort": panels}
    return {"data": whole.pop("data"), "facet": facet, "columns": columns, "spec": whole}


def _reach(rows: list[dict[str, Any]]) -> VegaLite:
    """From a little below the least error to the end of the longest line."""
    errors = [r["error"] for r in rows]
    return {"domain": [min(errors) / 1.6, max(*errors, *(r.get("high", 0.0) for r in rows)) * 1.1]}


def _round(errors: list[float]) -> list[float]:
    """1, 2 and 5 of every power of ten that there is."""
    powers = range(int(np.floor(np.log10(min(errors)))) - 1, int(np.ceil(np.log10(max(errors)))) + 1)
    few = (1, 2, 5) if len(powers) < 5 else (1,)
    return [
        round(f * 10.0**k, 12) for k in powers for f in few if min(errors) / 1.6 <= f * 10.0**k <= max(errors) * 1.1
    ]


def evaluation_section(points: tuple[Point, ...], tables: Sequence[Table], draw: Draw) -> dict[str, Any] | None:
    """What the page lays out of an evaluation: charts, tables, and the errors by level; None without one."""
    if not points:
        return None
    drawn, more = curves(points)
    errors = one_each(points)
    return {
        "charts": [draw(each) for each in drawn],
        "more": more,
        "about": explanation(points),
        "generated": any(p.generated for p in points),
        "tables": [*error_tables(points), *tables],
        "points": f"{len(errors):,}",
        "heads": ["dataset", "tree", "method", "noise", "ε", "τ", "level", "error", "± standard error"],
        "rows": [
            [
                *(p.dataset, p.question, p.method, p.noise, number(p.epsilon), number(p.tau)),
                *(p.level or "whole tree", shown(p.rmsre), shown(p.standard_error)),
            ]
            for p in errors[:POINTS]
        ],
    }
