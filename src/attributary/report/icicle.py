"""Icicle: every node as wide as its count, below its parent, coloured by its relative error."""

import numpy as np

from attributary.report import figures
from attributary.report.cut import Cut
from attributary.report.estimates import Estimates
from attributary.report.names import label
from attributary.report.quantity import Quantity
from attributary.report.theme import INK, WIDE, Chart, Spec
from attributary.types import Floats

BOUNDS = (0.02, 0.05, 0.1, 0.2, 0.5)  # of the colours
COLOURS = ("#d5ece6", "#a5d3c8", "#f2e4b8", "#edc27c", "#df9460", "#b0503a")
NAMES = tuple(f"{part}\u00a0%" for part in ("up to 2", "2 to 5", "5 to 10", "10 to 20", "20 to 50", "above 50"))
MOST, LEAST = 4000, 0.0008  # cells, and the narrowest of them as a part of the width
LETTER = 7.2  # pixels
ROW = 44
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


def icicle(quantity: Quantity, cut: Cut) -> Chart:
    """The icicle of the largest nodes as a picture."""
    est = quantity.estimates
    start, width = spans(est, quantity.width)
    wide = np.flatnonzero(cut.keep & (width >= LEAST))
    wide = np.sort(wide[np.argsort(-width[wide], kind="stable")[:MOST]])
    wide = wide[wide < est.tree.offsets[: LEVELS + 1][-1]]
    level = np.searchsorted(est.tree.offsets, wide, side="right") - 1
    error = est.error(quantity.tau)
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

    def spec(width: int) -> Spec:
        y = {"field": "level", "type": "nominal", "sort": names, "title": None, "scale": {"padding": 0.02}}
        x = {"type": "quantitative", "axis": None, "scale": {"domain": [0, 1]}}
        colour = {
            "field": "error",
            "type": "nominal",
            "scale": {"domain": list(NAMES), "range": list(COLOURS)},
            "legend": {"title": "relative error", "columns": 3},
        }
        return {
            "data": {"values": rows},
            "width": width - 90,
            "height": {"step": ROW},
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

    return Chart("icicle", "Where the error sits", words, spec)


def _fitting(label: str, width: float) -> str:
    """As much of a label as has room, or nothing."""
    letters = int(width / LETTER) - 1
    return figures.short(label, letters) if letters >= min(len(label), 4) else ""
