"""Curves: the error of each method over the budget, or over tau, from an evaluation."""

from itertools import groupby
from typing import Any

import numpy as np

from attributary.report import figures
from attributary.report.evaluation import Point
from attributary.report.theme import AMBER, GREY, NARROW, RUST, TEAL, Chart, Spec

MOST = 6  # charts
COLOURS = [TEAL, AMBER, RUST, "#4a6fa5", "#7a5c99", GREY, "#5a7d2a", "#a0447a"]
SHAPES = ["circle", "square", "diamond", "triangle-up", "cross", "triangle-down", "triangle-right", "triangle-left"]


def curves(points: tuple[Point, ...]) -> tuple[list[Chart], int]:
    """A chart for each question, of whole trees where there are such points; and how many more there would be."""
    finite = [p for p in points if np.isfinite(p.rmsre)]
    whole = [p for p in finite if p.level is None] or finite
    key = _question
    groups = [list(group) for _, group in groupby(sorted(whole, key=key), key)]
    return [_chart(group, i, len(groups)) for i, group in enumerate(groups[:MOST])], max(len(groups) - MOST, 0)


def _question(p: Point) -> tuple[str, str, str, str]:
    return (p.dataset, p.tree, p.noise, p.level or "")


def _chart(points: list[Point], number: int, of: int) -> Chart:
    dataset, tree, noise, level = _question(points[0])
    told = [dataset, tree, f"noise: {noise}" if noise else "", f"level {level}" if level else ""]
    name = "evaluation" + (f"-{number + 1}" if of > 1 else "")
    methods = list(dict.fromkeys(p.method for p in points))
    across, by = ("epsilon", "tau") if len({p.epsilon for p in points}) > 1 else ("tau", "epsilon")
    panels = sorted({getattr(p, by) for p in points})
    rows = [
        {
            "method": p.method,
            "x": getattr(p, across),
            "panel": f"{'τ' if by == 'tau' else 'ε'} = {getattr(p, by):g}",
            "error": p.rmsre,
            **(
                {"low": max(p.rmsre - 2 * p.standard_error, 1e-12), "high": p.rmsre + 2 * p.standard_error}
                if p.standard_error >= 0
                else {}
            ),
        }
        for p in points
    ]
    last = max(getattr(p, across) for p in points)
    words = f"Error by method, at {across} = {last:g}: " + "; ".join(
        f"{p.method} {figures.percent(p.rmsre)}"
        for p in points
        if getattr(p, across) == last and getattr(p, by) == panels[0]
    )
    title = ", ".join(figures.short(t, 60) for t in told if t) or "All methods"
    if len({r["x"] for r in rows}) == 1 and len(panels) == 1:
        return Chart(
            name, f"{title}, ε = {points[0].epsilon:g}, τ = {points[0].tau:g}", words, lambda width: _dots(rows, width)
        )
    return Chart(name, title, words, lambda width: _spec(rows, methods, across, len(panels), width))


def _dots(rows: list[dict[str, Any]], width: int) -> Spec:
    """The methods in the order of their errors, where there is one budget and one tau."""
    narrow = width <= NARROW
    x = {"type": "quantitative", "scale": {"zero": True}}
    axis = {"title": "error (RMSRE)", "format": "~%", "tickCount": 3 if narrow else 6}
    names = [r["method"] for r in sorted(rows, key=lambda r: r["error"])]
    return {
        "data": {"values": rows},
        "width": width - 150,
        "height": {"step": 26},
        "encoding": {"y": {"field": "method", "type": "nominal", "sort": names, "title": None}},
        "layer": [
            {
                "transform": [{"filter": "isValid(datum.low)"}],
                "mark": {"type": "rule", "color": TEAL, "strokeWidth": 6, "opacity": 0.35},
                "encoding": {"x": {"field": "low", **x}, "x2": {"field": "high"}},
            },
            {
                "mark": {"type": "point", "filled": True, "size": 90, "opacity": 1, "color": TEAL},
                "encoding": {"x": {"field": "error", **x, "axis": axis}},
            },
        ],
    }


def _spec(rows: list[dict[str, Any]], methods: list[str], across: str, panels: int, width: int) -> Spec:
    narrow = width <= NARROW
    columns = 1 if narrow else min(panels, 2)
    log = len({r["x"] for r in rows}) > 1
    x = {
        "field": "x",
        "type": "quantitative",
        "scale": {"type": "log", "nice": False} if log else {},
        "axis": {
            "title": "ε, the budget" if across == "epsilon" else "τ, below which errors stop being relative",
            "values": sorted({r["x"] for r in rows})[:12],
            "format": "~r",
            "grid": False,
        },
    }
    log_y = all(r["error"] > 0 for r in rows)
    y = {
        "type": "quantitative",
        "scale": {"type": "log", "nice": False, "clamp": True, **_reach(rows)} if log_y else {"zero": True},
    }
    axis = {
        "title": "error (RMSRE)",
        "format": "~%",
        **({"values": _round([r["error"] for r in rows])} if log_y else {}),
    }
    colour = {
        "field": "method",
        "type": "nominal",
        "scale": {"domain": methods, "range": (COLOURS * 9)[: len(methods)]},
        "legend": {"title": None, "columns": 2 if narrow else 4, "symbolOpacity": 1},
    }
    shape = {
        "field": "method",
        "type": "nominal",
        "scale": {
            "domain": methods,
            "range": [SHAPES[(i + i // len(COLOURS)) % len(SHAPES)] for i in range(len(methods))],
        },
    }
    layers: list[Spec] = [
        {"mark": {"type": "line", "strokeWidth": 2}, "encoding": {"y": {"field": "error", **y, "axis": axis}}},
        {
            "mark": {"type": "point", "filled": True, "size": 60, "opacity": 1},
            "encoding": {"y": {"field": "error", **y}, "shape": shape},
        },
    ]
    if any("low" in r for r in rows):
        layers.insert(
            0,
            {
                "transform": [{"filter": "isValid(datum.low)"}],
                "mark": {"type": "rule", "strokeWidth": 1.5, "opacity": 0.6},
                "encoding": {"y": {"field": "low", **y}, "y2": {"field": "high"}},
            },
        )
    inner = {"width": (width - 75) / columns - (0 if columns == 1 else 30), "height": 220}
    encoding = {"x": x, "color": colour}
    if panels == 1:
        return {"data": {"values": rows}, **inner, "encoding": encoding, "layer": layers}
    facet = {"field": "panel", "type": "nominal", "title": None, "sort": list(dict.fromkeys(r["panel"] for r in rows))}
    return {
        "data": {"values": rows},
        "facet": facet,
        "columns": columns,
        "spec": {**inner, "encoding": encoding, "layer": layers},
    }


def _reach(rows: list[dict[str, Any]]) -> Spec:
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
