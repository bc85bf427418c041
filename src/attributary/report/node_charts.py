"""Node charts: the largest counts with their intervals, and the map of errors."""

from typing import Any

import numpy as np

from attributary.estimates import Estimates
from attributary.facts import numerals
from attributary.facts.quantity import Quantity, label
from attributary.report.chart import INK, NARROW, TEAL, WIDE, Chart, VegaLite, looks, rows_of, ticks
from attributary.types import Bools, Floats

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
    names = _apart([numerals.short(label(est, int(v)), 28) for v in top])
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

    def spec(width: int) -> VegaLite:
        narrow = width <= NARROW
        room = 0.9 if narrow else 0.4
        x = {"scale": {"domain": [least, most + room * (most - least)], "nice": False}, "type": "quantitative"}
        axis = {"title": None, "format": ",~r", "grid": False, "values": ticks(least, most, 2 if narrow else 4)}
        return {
            "data": {"values": rows},
            "width": width - (95 if narrow else 150),
            "height": {"step": ROW},
            "encoding": {"y": rows_of("node", names, 84 if narrow else 190)},
            "layer": [
                {
                    "mark": {"type": "bar", "color": TEAL, "opacity": 0.16, "height": 16},
                    "encoding": {"x": {"field": "estimate", **x, "axis": axis}},
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
        return f"Largest counts by {level}"
    unit = f", in {quantity.unit}" if quantity.unit else ""
    return f"Largest {'sums of ' if quantity.kind == 'value' else ''}{quantity.called} by {level}{unit}"


def _apart(names: list[str]) -> list[str]:
    """Names that look as they did, and differ: cut short, two may be the same."""
    return [name + "\u200b" * names[:i].count(name) for i, name in enumerate(names)]


BOUNDS = (0.02, 0.05, 0.1, 0.2, 0.5)  # of the colours
COLOURS = ("#d5ece6", "#a5d3c8", "#f2e4b8", "#edc27c", "#df9460", "#b0503a")
NAMES = tuple(f"{part}\u00a0%" for part in ("up to 2", "2 to 5", "5 to 10", "10 to 20", "20 to 50", "above 50"))
MOST, LEAST = 4000, 0.0008  # cells, and the narrowest of them as a part of the width
LETTER = 7.2  # pixels
MAP_ROW = 44
LEVELS = 12  # that the picture has room for


def spans(est: Estimates, size: Floats | None = None) -> tuple[Floats, Floats]:
    """Where each node begins and how wide it is, from 0 to 1, in level order; counts below 0 have no width."""
    tree, size = est.tree, np.maximum(est.estimate if size is None else size, 0.0)
    start, width = np.zeros(len(tree)), np.zeros(len(tree))
    for i in range(tree.depth):
        here = tree.slice(i)
        family = tree.family[here] + 1  # 0 stands above the roots
        room = np.append(1.0, width)[family]
        sums = np.bincount(family, size[here], minlength=len(tree) + 1)[family]
        with np.errstate(invalid="ignore"):
            width[here] = np.where(sums > 0, size[here] / sums, 0.0) * room
        before = np.cumsum(width[here]) - width[here]
        first = np.r_[True, family[1:] != family[:-1]]
        offset = np.maximum.accumulate(np.where(first, np.arange(len(family)), 0))
        start[here] = before - before[offset] + np.append(0.0, start)[family]
    return start, width


def icicle(quantity: Quantity, keep: Bools) -> Chart:
    """The icicle of the largest of the kept nodes as a picture."""
    est = quantity.estimates
    start, width = spans(est, quantity.width)
    wide = np.flatnonzero(keep & (width >= LEAST))
    wide = np.sort(wide[np.argsort(-width[wide], kind="stable")[:MOST]])
    wide = wide[wide < est.tree.offsets[: LEVELS + 1][-1]]
    level = np.searchsorted(est.tree.offsets, wide, side="right") - 1
    error = quantity.errors
    rows = [
        {
            "from": float(start[v]),
            "to": float(start[v] + width[v]),
            "middle": float(start[v] + width[v] / 2),
            "level": est.tree.level_names[i],
            "error": NAMES[int(np.searchsorted(BOUNDS, error[v]))],
            "label": _fitting(label(est, v), float(width[v]) * (WIDE - 90)),
        }
        for v, i in zip(wide.tolist(), level.tolist(), strict=True)
    ]
    words = f"{len(rows):,} nodes as wide as their counts, each below its parent, coloured by relative error"
    names = list(est.tree.level_names[:LEVELS])

    def spec(width: int) -> VegaLite:
        y = {"field": "level", "type": "nominal", "sort": names, "title": None, "scale": {"padding": 0.02}}
        x = {"type": "quantitative", "axis": None, "scale": {"domain": [0, 1]}}
        colour = looks("error", NAMES, COLOURS, {"title": "relative error", "columns": 3})
        return {
            "data": {"values": rows},
            "width": width - 90,
            "height": {"step": MAP_ROW},
            "encoding": {"y": y},
            "layer": [
                {
                    "mark": {"type": "bar", "stroke": "white", "strokeWidth": 0.7, "height": {"band": 1}},
                    "encoding": {"x": {"field": "from", **x}, "x2": {"field": "to"}, "color": colour},
                },
                {
                    "mark": {"type": "text", "fontSize": 11, "color": INK},
                    "encoding": {"x": {"field": "middle", **x}, "text": {"field": "label"}},
                },
            ],
        }

    return Chart("icicle", "Error map", words, spec)


def _fitting(label: str, width: float) -> str:
    """As much of a label as has room, or nothing."""
    letters = int(width / LETTER) - 1
    return numerals.short(label, letters) if letters >= min(len(label), 4) else ""
