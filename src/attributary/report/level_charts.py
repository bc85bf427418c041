"""Level charts: the budget, the expected error, what denoising changed, level by level."""

from typing import Any

import numpy as np

from attributary.report import figures
from attributary.report.levels import Change, Share
from attributary.report.theme import AMBER, GREY, INK, MUTED, NARROW, TEAL, Chart, Spec
from attributary.report.ticks import ticks

ROW = 30  # pixels
MOST = 24  # levels that a chart has room for


def budget_chart(levels: list[Share]) -> Chart:
    """Each level's part of the budget, and its range where roots or nodes differ."""
    levels = levels[:MOST]
    names = [level.level for level in levels]
    rows: list[dict[str, Any]] = [
        {"level": s.level, "part": s.middle, "low": s.low, "high": s.high, "text": span(s)} for s in levels
    ]
    words = "Part of the budget by level: " + "; ".join(f"{r['level']} {r['text']}" for r in rows)

    def spec(width: int) -> Spec:
        narrow = width <= NARROW
        most = max(r["high"] for r in rows) or 1.0
        x = {"type": "quantitative", "scale": {"domain": [0, most * (2.1 if narrow else 1.5)], "nice": False}}
        axis = {"title": None, "format": ".0%", "values": ticks(0, most, 2 if narrow else 4)}
        return {
            "data": {"values": rows},
            "width": width - 110,
            "height": {"step": ROW},
            "encoding": {"y": _levels(names, narrow)},
            "layer": [
                {
                    "mark": {"type": "bar", "color": TEAL, "opacity": 0.35, "height": 16},
                    "encoding": {"x": {"field": "part", **x, "axis": axis}},
                },
                {
                    "mark": {"type": "rule", "color": TEAL, "strokeWidth": 3},
                    "encoding": {"x": {"field": "low", **x}, "x2": {"field": "high"}},
                },
                {
                    "mark": {"type": "text", "align": "left", "dx": 8, "fontSize": 12.5, "color": INK},
                    "encoding": {"x": {"field": "high", **x}, "text": {"field": "text"}},
                },
            ],
        }

    return Chart("budget", "The budget by level", words, spec)


def expected_chart(levels: list[Share], noun: str = "count") -> Chart:
    """The errors to expect under the plan, an equal split, and with all on the leaves."""
    levels = levels[:MOST]
    kinds = {"plan": "this plan", "equal": "equal split", "leaves": "all on the leaves"}
    rows = [
        {"level": s.level, "split": word, "error": getattr(s, kind)}
        for s in levels
        for kind, word in kinds.items()
        if np.isfinite(getattr(s, kind))
    ]
    words = "Expected error by level: " + "; ".join(
        f"{s.level} {figures.percent(s.plan)}, with an equal split {figures.percent(s.equal)}, with all on the leaves "
        f"{figures.percent(s.leaves)}"
        for s in levels
    )
    return Chart(
        "expected-error",
        "The error to expect",
        words,
        _dots(rows, [s.level for s in levels], "split", list(kinds.values()), noun),
    )


def denoised_chart(levels: list[Change], noun: str = "count") -> Chart:
    """The error of each level before and after denoising."""
    levels = levels[:MOST]
    rows = [
        {"level": c.level, "figures": word, "error": error}
        for c in levels
        for word, error in (("denoised", c.denoised), ("as measured", c.raw))
        if np.isfinite(error)
    ]
    words = "Error by level, as measured and denoised: " + "; ".join(
        f"{c.level} {figures.percent(c.raw) if c.measured else 'not measured'}, then {figures.percent(c.denoised)}"
        for c in levels
    )
    return Chart(
        "denoised",
        "The error before and after denoising",
        words,
        _dots(rows, [c.level for c in levels], "figures", ["denoised", "as measured"], noun),
    )


def span(share: Share) -> str:
    """A level's part of the budget in words: the median, and the range where roots differ."""
    shown = figures.percent
    if share.low == share.high:
        return shown(share.middle) if share.middle else "no key"
    return f"{shown(share.middle)} ({shown(share.low)} to {shown(share.high)})"


def _dots(rows: list[dict[str, Any]], names: list[str], by: str, kinds: list[str], noun: str) -> Any:
    """Dots on a line for each level, one per kind; the first kind is ours."""
    colours = [TEAL, AMBER, GREY][: len(kinds)]

    def spec(width: int) -> Spec:
        narrow = width <= NARROW
        x = {"field": "error", "type": "quantitative", "scale": {"zero": True}}
        axis = {"title": f"error, relative to the {noun}", "format": "~%", "tickCount": 3 if narrow else 5}
        legend = {"title": None, "columns": 1 if narrow else 3}
        return {
            "data": {"values": rows[::-1]},  # ours is drawn last, above the others
            "width": width - 110,
            "height": {"step": ROW + 2},
            "encoding": {"y": _levels(names, narrow)},
            "layer": [
                {
                    "mark": {"type": "rule", "color": MUTED, "strokeWidth": 1.5, "opacity": 0.45},
                    "encoding": {"x": {"aggregate": "min", **x}, "x2": {"aggregate": "max", "field": "error"}},
                },
                {
                    "mark": {"type": "point", "filled": True, "size": 120, "opacity": 1},
                    "encoding": {
                        "x": {**x, "axis": axis},
                        "color": {
                            "field": by,
                            "type": "nominal",
                            "scale": {"domain": kinds, "range": colours},
                            "legend": legend,
                        },
                        "shape": {
                            "field": by,
                            "type": "nominal",
                            "scale": {"domain": kinds, "range": ["circle", "square", "diamond"][: len(kinds)]},
                        },
                    },
                },
            ],
        }

    return spec


def _levels(names: list[str], narrow: bool) -> Spec:
    return {
        "field": "level",
        "type": "nominal",
        "sort": names,
        "title": None,
        "axis": {"labelLimit": 90 if narrow else 105},
    }
