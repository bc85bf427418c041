"""Evaluation curves: the errors of methods at several budgets, as a table has them, as charts and rows."""

from dataclasses import dataclass
from itertools import groupby
from typing import Any

import numpy as np

from attributary.errors import InputError
from attributary.facts import numerals
from attributary.html import ROOMY
from attributary.report.chart import AMBER, CONFIG, GREY, NARROW, RUST, TEAL, Chart, Draw, VegaLite, looks
from attributary.tables import place
from attributary.tables.table_columns import floats

WORDS = ("dataset", "tree", "method", "title", "noise", "level", "measure", "limits", "generated")
OWN = ("chosen", "given")  # the limits of the spec or of its plan; others are there to compare, in the table


@dataclass(frozen=True)
class Point:
    """The error of one method, for one question at one budget."""

    dataset: str
    tree: str
    method: str
    noise: str
    level: str | None  # None for the whole tree
    epsilon: float
    tau: float
    rmsre: float
    standard_error: float  # nan where the error is exact
    generated: bool = False
    title: str = ""  # what readers call the method


def read_evaluation(table: Any, path: str) -> list[Point]:
    """The points of an evaluation, in the table's order; measures are questions of their own, under its limits."""
    import pyarrow as pa

    words = {name: [None] * table.num_rows for name in WORDS}
    for name in set(WORDS) & set(table.column_names):
        cells = table.column(name)
        if pa.types.is_dictionary(cells.type):
            cells = cells.cast(cells.type.value_type)
        words[name] = cells.cast(pa.string()).to_pylist()
    numbers = {name: floats(table, name, path) for name in ("epsilon", "tau", "rmsre")}
    absent = np.full(table.num_rows, np.nan)
    spread = floats(table, "standard_error", path) if "standard_error" in table.column_names else absent
    for name in ("epsilon", "tau"):
        fine = numbers[name] > 0
        if not fine.all():
            row = int(np.argmin(fine))
            raise InputError(f"{place(path, row)}: {name} is a number above 0; got {numbers[name][row]:g}")
    measured = "measure" in table.column_names
    return [
        Point(
            dataset=words["dataset"][i] or "",
            tree=", ".join([words["tree"][i] or "", *([words["measure"][i] or "all measures"] if measured else [])]),
            method=words["method"][i] or "",
            noise=words["noise"][i] or "",
            level=words["level"][i],
            epsilon=float(numbers["epsilon"][i]),
            tau=float(numbers["tau"][i]),
            rmsre=float(numbers["rmsre"][i]),
            standard_error=float(spread[i]),
            generated=words["generated"][i] == "true",
            title=words["title"][i] or words["method"][i] or "",
        )
        for i in range(table.num_rows)
        if words["limits"][i] in (None, *OWN)
    ]


POINTS = 500  # rows that are listed
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
    parts = [dataset, tree, f"noise: {noise}" if noise else "", f"level {level}" if level else ""]
    name = "evaluation" + (f"-{number + 1}" if of > 1 else "")
    across, by = ("epsilon", "tau") if len({p.epsilon for p in points}) > 1 else ("tau", "epsilon")
    panels = sorted({getattr(p, by) for p in points})
    rows = [_row(p, getattr(p, across), f"{'τ' if by == 'tau' else 'ε'} = {getattr(p, by):g}") for p in points]
    methods = list(dict.fromkeys(row["method"] for row in rows))
    last = max(getattr(p, across) for p in points)
    words = f"Error by method, at {across} = {last:g}: " + "; ".join(
        f"{p.title or p.method} {numerals.percent(p.rmsre)}"
        for p in points
        if getattr(p, across) == last and getattr(p, by) == panels[0]
    )
    title = ", ".join(numerals.short(t, 60) for t in parts if t) or "All methods"
    if len({r["x"] for r in rows}) == 1 and len(panels) == 1:
        return Chart(
            name, f"{title}, ε = {points[0].epsilon:g}, τ = {points[0].tau:g}", words, lambda width: _dots(rows, width)
        )
    return Chart(name, title, words, lambda width: _spec(rows, methods, across, len(panels), width))


def _row(p: Point, x: float, panel: str) -> dict[str, Any]:
    """A point as charts take it, with two standard errors to either side where it was simulated."""
    row = {"method": p.title or p.method, "x": x, "panel": panel, "error": p.rmsre}
    if p.standard_error >= 0:
        row |= {"low": max(p.rmsre - 2 * p.standard_error, 1e-12), "high": p.rmsre + 2 * p.standard_error}
    return row


LEAST = 1e-4  # errors below are not drawn
DASHES = {"paper": [5, 3], "ours": [1, 0], "baseline": [1, 3]}


def figure(points: list[Point], whose: dict[str, str]) -> VegaLite:
    """All points by ε in one figure, a panel for each tree and τ; dashed are the paper's methods, dotted baselines."""
    shown = [p for p in points if np.isfinite(p.rmsre) and p.rmsre >= LEAST] or list(points)
    shown.sort(key=lambda p: whose[p.method] != "ours")  # dashed lines above solid ones, so that both are seen
    rows = [_row(p, p.epsilon, f"τ = {p.tau:g}, {p.tree}") for p in shown]
    panels = list(dict.fromkeys(f"τ = {p.tau:g}, {p.tree}" for p in points))
    dashes = {p.title or p.method: DASHES[whose[p.method]] for p in points}
    spec = _spec(rows, list(dashes), "epsilon", len(panels), 2 * 380, dashes)
    generated = " look-alike, generated rows" if any(p.generated for p in points) else ""
    names, noises = (", ".join(dict.fromkeys(getattr(p, of) for p in points)) for of in ("dataset", "noise"))
    title = f"{names}{generated}: tree error, {noises} noise (dashed: the paper's; dotted: baselines)"
    return {
        "$schema": "https://vega.github.io/schema/vega-lite/v5.json",
        **spec,
        "title": title,
        "background": "white",
        "padding": 12,
        "config": {**CONFIG, "font": ROOMY},
    }


def _dots(rows: list[dict[str, Any]], width: int) -> VegaLite:
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


def _spec(
    rows: list[dict[str, Any]],
    methods: list[str],
    across: str,
    panels: int,
    width: int,
    dashes: dict[str, list[int]] | None = None,
) -> VegaLite:
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
    legend = {"columns": 2 if narrow else 3, "symbolOpacity": 1, "labelLimit": 400}
    colour = looks("method", methods, (COLOURS * 9)[: len(methods)], legend)
    shapes = [SHAPES[(i + i // len(COLOURS)) % len(SHAPES)] for i in range(len(methods))]
    shape = looks("method", methods, shapes)
    dash = {} if dashes is None else {"strokeDash": {**looks("method", methods, list(dashes.values())), "legend": None}}
    line = {"y": {"field": "error", **y, "axis": axis}, **dash}
    layers: list[VegaLite] = [
        {"mark": {"type": "line", "strokeWidth": 2}, "encoding": line},
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


def evaluation_section(points: tuple[Point, ...], draw: Draw) -> dict[str, Any] | None:
    if not points:
        return None
    drawn, more = curves(points)
    return {
        "charts": [draw(chart) for chart in drawn],
        "more": more,
        "generated": any(p.generated for p in points),
        "points": f"{len(points):,}",
        "heads": ["dataset", "tree", "method", "noise", "ε", "τ", "level", "error", "± standard error"],
        "rows": [
            [
                *(p.dataset, p.tree, p.method, p.noise, numerals.number(p.epsilon), numerals.number(p.tau)),
                *(p.level or "whole tree", numerals.percent(p.rmsre), numerals.percent(p.standard_error)),
            ]
            for p in points[:POINTS]
        ],
    }
