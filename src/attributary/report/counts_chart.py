"""Counts chart: the largest counts of the first level, each with its interval."""

from typing import Any

import numpy as np

from attributary.report import figures
from attributary.report.names import label
from attributary.report.quantity import Quantity
from attributary.report.theme import INK, NARROW, TEAL, Chart, Spec
from attributary.report.ticks import ticks

LARGEST = 12
ROW = 30  # pixels


def counts_chart(quantity: Quantity) -> Chart:
    """The largest counts of the first level, or all of them where they are few; a node without a figure has no row."""
    est = quantity.estimates
    tree = est.tree
    level = min(int(tree.total), tree.depth - 1)
    here = np.arange(tree.depth and tree.offsets[level], tree.offsets[level + 1])
    here = here[np.isfinite(est.estimate[here])]
    top = here[np.argsort(-est.estimate[here], kind="stable")[:LARGEST]]
    names = _apart([figures.short(label(est, int(v)), 28) for v in top])
    rows: list[dict[str, Any]] = [
        {
            "node": name,
            "estimate": float(est.estimate[v]),
            "low": float(est.low[v] if np.isfinite(est.low[v]) else est.estimate[v]),
            "high": float(est.high[v] if np.isfinite(est.high[v]) else est.estimate[v]),
            "text": f"{quantity.shown(est.estimate[v])}  ({quantity.interval(est.low[v], est.high[v])})",
        }
        for name, v in zip(names, top.tolist(), strict=True)
    ]
    least, most = min([0.0, *(r["low"] for r in rows)]), max([1e-9, *(r["high"] for r in rows)])
    what = tree.level_names[level]
    some = "all" if len(top) == len(here) else f"the {len(top)} largest"
    words = f"Estimates with intervals, {some} of {len(here):,}: " + "; ".join(f"{r['node']} {r['text']}" for r in rows)

    def spec(width: int) -> Spec:
        narrow = width <= NARROW
        room = 0.9 if narrow else 0.4
        x = {"scale": {"domain": [least, most + room * (most - least)], "nice": False}, "type": "quantitative"}
        y = {
            "field": "node",
            "type": "nominal",
            "sort": names,
            "title": None,
            "axis": {"labelLimit": 84 if narrow else 190},
        }
        axis = {
            "axis": {"title": None, "format": ",~r", "grid": False, "values": ticks(least, most, 2 if narrow else 4)}
        }
        return {
            "data": {"values": rows},
            "width": width - (95 if narrow else 150),
            "height": {"step": ROW},
            "encoding": {"y": y},
            "layer": [
                {
                    "mark": {"type": "bar", "color": TEAL, "opacity": 0.16, "height": 16},
                    "encoding": {"x": {"field": "estimate", **x, **axis}},
                },
                {
                    "mark": {"type": "rule", "color": TEAL, "strokeWidth": 7, "opacity": 0.45},
                    "encoding": {"x": {"field": "low", **x}, "x2": {"field": "high"}},
                },
                {
                    "mark": {"type": "tick", "color": TEAL, "thickness": 3, "size": 16, "opacity": 1},
                    "encoding": {"x": {"field": "estimate", **x}},
                },
                {
                    "mark": {"type": "text", "align": "left", "dx": 9, "fontSize": 12.5, "color": INK},
                    "encoding": {"x": {"field": "high", **x}, "text": {"field": "text"}},
                },
            ],
        }

    return Chart("counts" if quantity.kind == "count" else "largest", _title(quantity, what), words, spec)


def _title(quantity: Quantity, level: str) -> str:
    if quantity.kind == "count":
        return f"The largest counts by {level}"
    unit = f", in {quantity.unit}" if quantity.unit else ""
    return f"The largest {'sums of ' if quantity.kind == 'value' else ''}{quantity.called} by {level}{unit}"


def _apart(names: list[str]) -> list[str]:
    """Names that look as they did, and differ: cut short, two may be the same."""
    return [name + "\u200b" * names[:i].count(name) for i, name in enumerate(names)]
