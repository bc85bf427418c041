"""Charts: what a page draws of a plan and of estimates, each in words, too."""

from collections.abc import Callable, Sequence

import numpy as np

from attributary.estimates import Estimates
from attributary.facts import numerals
from attributary.facts.estimates import LevelGain
from attributary.facts.numerals import Numeral
from attributary.facts.plan import LevelFact
from attributary.facts.quantity import Quantity, label
from attributary.report.chart import (
    AMBER,
    GREY,
    INK,
    MUTED,
    NARROW,
    TEAL,
    WIDE,
    WORDS,
    Chart,
    VegaLite,
    layer,
    looks,
    plot,
    rows_of,
    ticks,
)
from attributary.types import Bools, Floats, Record

ROW = 30  # pixels
LARGEST = 12  # nodes
LEVELS = 24  # that a chart has room for


def counts_chart(quantity: Quantity) -> Chart:
    """The largest counts of the first level, or all of them where they are few; a node without a figure has no row."""
    est = quantity.estimates
    tree = est.tree
    level = min(int(tree.total), tree.depth - 1)
    here = np.arange(tree.depth and tree.offsets[level], tree.offsets[level + 1])
    here = here[np.isfinite(est.estimate[here])]
    top = here[np.argsort(-est.estimate[here], kind="stable")[:LARGEST]]
    names = [numerals.short(label(est, int(v)), 28) for v in top]
    names = [name + "\u200b" * names[:i].count(name) for i, name in enumerate(names)]  # cut short, two may be the same
    rows: list[Record] = [
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
        marks = ticks(least, most, 2 if narrow else 4, beyond=True)
        end = max(most + room * (most - least), marks[-1])
        x = {"scale": {"domain": [least, end], "nice": False}, "type": "quantitative"}
        axis = {"title": None, "format": ",~r", "grid": False, "values": marks}
        low, high = ({"field": name, **x} for name in ("low", "high"))
        layers = [
            layer("bar", {"color": TEAL, "opacity": 0.16, "height": 16}, x={"field": "estimate", **x, "axis": axis}),
            layer("rule", {"color": TEAL, "strokeWidth": 7, "opacity": 0.45}, x=low, x2={"field": "high"}),
            layer("tick", {"color": TEAL, "thickness": 3, "size": 16, "opacity": 1}, x={"field": "estimate", **x}),
            layer("text", {**WORDS, "dx": 9}, x=high, text={"field": "text"}),
        ]
        size = (width - (95 if narrow else 150), {"step": ROW})
        return plot(rows, size, layers, y=rows_of("node", names, 84 if narrow else 190))

    unit = f", in {quantity.unit}" if quantity.unit else ""
    kind = {"count": "counts", "value": f"sums of {quantity.called}", "ratio": quantity.called}[quantity.kind]
    name = "counts" if quantity.kind == "count" else "largest"
    return Chart(name, f"Largest {kind} by {what}{unit}", words, spec)


BOUNDS = (0.02, 0.05, 0.1, 0.2, 0.5)  # of the colours
COLOURS = ("#d5ece6", "#a5d3c8", "#f2e4b8", "#edc27c", "#df9460", "#b0503a")
NAMES = tuple(f"{part}\u00a0%" for part in ("up to 2", "2 to 5", "5 to 10", "10 to 20", "20 to 50", "above 50"))
CELLS, NARROWEST = 4000, 0.0008  # cells, and the narrowest of them as a part of the width
LETTER = 7.2  # pixels
MAP_ROW = 44
MAP_LEVELS = 12  # that the picture has room for


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
    wide = np.flatnonzero(keep & (width >= NARROWEST))
    wide = np.sort(wide[np.argsort(-width[wide], kind="stable")[:CELLS]])
    wide = wide[wide < est.tree.offsets[: MAP_LEVELS + 1][-1]]
    level = np.searchsorted(est.tree.offsets, wide, side="right") - 1
    error = quantity.errors
    rows = [
        {
            "from": float(start[v]),
            "to": float(start[v] + width[v]),
            "middle": float(start[v] + width[v] / 2),
            "level": est.tree.level_names[i],
            "error": NAMES[int(np.searchsorted(BOUNDS, error[v]))],
            "label": numerals.short(name, letters) if letters >= min(len(name), 4) else "",
        }
        for v, i in zip(wide.tolist(), level.tolist(), strict=True)
        for name, letters in [(label(est, v), int(width[v] * (WIDE - 90) / LETTER) - 1)]  # as many as have room
    ]
    words = f"{len(rows):,} boxes as wide as their counts, each below what it is part of, coloured by relative error"
    names = list(est.tree.level_names[:MAP_LEVELS])

    def spec(width: int) -> VegaLite:
        y = {"field": "level", "type": "nominal", "sort": names, "title": None, "scale": {"padding": 0.02}}
        x = {"type": "quantitative", "axis": None, "scale": {"domain": [0, 1]}}
        colour = looks("error", NAMES, COLOURS, {"title": "relative error", "columns": 3})
        bar = {"stroke": "white", "strokeWidth": 0.7, "height": {"band": 1}}
        layers = [
            layer("bar", bar, x={"field": "from", **x}, x2={"field": "to"}, color=colour),
            layer("text", {"fontSize": 11, "color": INK}, x={"field": "middle", **x}, text={"field": "label"}),
        ]
        return plot(rows, (width - 90, {"step": MAP_ROW}), layers, y=y)

    return Chart("icicle", "Error map", words, spec)


# Levels


def budget_chart(levels: list[LevelFact]) -> Chart:
    """Each level's part of the budget, and its range where roots or nodes differ."""
    levels = levels[:LEVELS]
    names = [level.level for level in levels]
    rows: list[Record] = [{"level": s.level, "text": s.share, **share_range(s.share)} for s in levels]
    words = "Part of the budget by level: " + "; ".join(f"{r['level']} {r['text']}" for r in rows)

    def spec(width: int) -> VegaLite:
        narrow = width <= NARROW
        most = max(r["high"] for r in rows) or 1.0
        x = {"type": "quantitative", "scale": {"domain": [0, most * (2.1 if narrow else 1.5)], "nice": False}}
        axis = {"title": None, "format": ".0%", "values": ticks(0, most, 2 if narrow else 4)}
        low, high = ({"field": name, **x} for name in ("low", "high"))
        layers = [
            layer("bar", {"color": TEAL, "opacity": 0.35, "height": 16}, x={"field": "part", **x, "axis": axis}),
            layer("rule", {"color": TEAL, "strokeWidth": 3}, x=low, x2={"field": "high"}),
            layer("text", WORDS, x=high, text={"field": "text"}),
        ]
        return plot(rows, (width - 110, {"step": ROW}), layers, y=rows_of("level", names, 90 if narrow else 105))

    return Chart("budget", "Budget by level", words, spec)


def share_range(share: Numeral) -> dict[str, float]:
    if isinstance(share.value, dict):
        return {"part": share.value["median"], "low": share.value["least"], "high": share.value["largest"]}
    return dict.fromkeys(("part", "low", "high"), share.value)


def expected_chart(levels: list[LevelFact], noun: str = "count") -> Chart:
    """The errors to expect under the plan, an equal split, and with all on the leaves."""
    words = "Expected error by level: " + "; ".join(
        f"{s.level} {s.expected}, with an equal split {s.equal}, with all on the leaves {s.leaves}" for s in levels
    )
    kinds = {"expected": "this plan", "equal": "equal split", "leaves": "leaves only"}
    return Chart("expected-error", "Expected error", words, _dots(levels, "split", kinds, noun))


def denoised_chart(levels: list[LevelGain], noun: str = "count") -> Chart:
    """The error of each level before and after denoising."""
    words = "Error by level, noisy and denoised: " + "; ".join(
        f"{gain.level} {gain.noisy_error}, then {gain.error}" for gain in levels
    )
    kinds = {"error": "denoised", "noisy_error": "noisy"}
    return Chart("denoised", "Error before and after denoising", words, _dots(levels, "figures", kinds, noun))


def _dots(
    levels: Sequence[LevelFact | LevelGain], by: str, kinds: dict[str, str], noun: str
) -> Callable[[int], VegaLite]:
    """Dots on a line for each level, one per kind, which is the name of a fact; the first kind is ours."""
    words, names = list(kinds.values()), [level.level for level in levels[:LEVELS]]
    errors = [
        (level.level, word, getattr(level, kind).value) for level in levels[:LEVELS] for kind, word in kinds.items()
    ]
    rows = [{"level": level, by: word, "error": x} for level, word, x in errors if x is not None and np.isfinite(x)]

    def spec(width: int) -> VegaLite:
        narrow = width <= NARROW
        x = {"field": "error", "type": "quantitative", "scale": {"zero": True}}
        axis = {"title": f"error, relative to the {noun}", "format": "~%", "tickCount": 3 if narrow else 5}
        shape = looks(by, words, ["circle", "square", "diamond"][: len(words)])
        colour = looks(by, words, [TEAL, AMBER, GREY][: len(words)], {"columns": 1 if narrow else 3})
        line, least = {"color": MUTED, "strokeWidth": 1.5, "opacity": 0.45}, {"aggregate": "min", **x}
        layers = [
            layer("rule", line, x=least, x2={"aggregate": "max", "field": "error"}),
            layer(
                "point", {"filled": True, "size": 120, "opacity": 1}, x={**x, "axis": axis}, color=colour, shape=shape
            ),
        ]
        y = rows_of("level", names, 90 if narrow else 105)
        return plot(rows[::-1], (width - 110, {"step": ROW + 2}), layers, y=y)  # ours is drawn last, above the others

    return spec
