"""Charts: how all charts look, a chart as SVG or PNG by vl-convert, and what a page draws of plan and estimates.

Charts are Vega-Lite specs, drawn here and not in the browser: a page without a charting library opens at once, prints,
and works where scripts do not run. Each colour is one that the page's style sheet knows and darkens.
"""

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from attributary.errors import InputError
from attributary.estimates import Estimates
from attributary.facts import numerals
from attributary.facts.estimates import LevelGain
from attributary.facts.numerals import Numeral
from attributary.facts.plan import LevelFact
from attributary.facts.quantity import Quantity, label
from attributary.html import ROOMY, UNSEEN
from attributary.types import Bools, Floats, Record

VegaLite = Record

INK, MUTED, GRID = "#26323b", "#566570", "#e1e6ea"
TEAL, AMBER, RUST, GREY = "#0b7d72", "#b87514", "#b5563c", "#8a96a0"
FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Noto Sans', 'DejaVu Sans', sans-serif"
WIDE, NARROW = 620, 300
WORDS = {"align": "left", "dx": 8, "fontSize": 12.5, "color": INK}  # behind a bar
SCALE = 2  # of a PNG
FILES = ("svg", "png", "pdf")
CONFIG: VegaLite = {
    "background": None,
    "font": FONT,
    "view": {"stroke": None},
    "axis": {
        "labelColor": INK,
        "titleColor": MUTED,
        "gridColor": GRID,
        "domainColor": GRID,
        "tickColor": GRID,
        "labelFontSize": 12.5,
        "titleFontSize": 12.5,
        "titleFontWeight": "normal",
        "titlePadding": 10,
        "labelPadding": 6,
        "ticks": False,
        "domain": False,
    },
    "legend": {
        "labelColor": INK,
        "titleColor": MUTED,
        "labelFontSize": 12.5,
        "titleFontSize": 12.5,
        "orient": "top",
        "titleFontWeight": "normal",
        "symbolSize": 90,
        "offset": 6,
        "columnPadding": 14,
    },
    "header": {"labelColor": INK, "titleColor": MUTED, "labelFontSize": 12.5, "labelFontWeight": "bold"},
    "title": {"color": INK, "fontSize": 14, "anchor": "start", "fontWeight": 600},
}


@dataclass(frozen=True)
class Chart:
    """A chart that can be drawn at any width, with what it shows in words."""

    name: str
    title: str
    words: str
    spec: Callable[[int], VegaLite]


Draw = Callable[[Chart], dict[str, str]]  # a chart as the template takes it


def inline(chart: Chart, width: int) -> str:
    """The chart as an SVG to stand in a page: no attributes but those that draw; the page has its title and words."""
    import vl_convert

    svg = vl_convert.vegalite_to_svg(drawable(_whole(chart, width)))
    svg = re.sub(r' (?:role|aria-[a-z]+|pointer-events)="[^"]*"', "", svg)
    return re.sub(r"<text[^>]* opacity=\"0\"[^>]*>[^<]*</text>", "", svg)


def to_file(chart: Chart, kind: str, width: int = WIDE) -> bytes:
    """The chart as a file of its own: "svg", "png" or "pdf"."""
    return drawn_as(alone(chart, width), kind)


def drawn_as(spec: VegaLite, kind: str) -> bytes:
    """A whole chart as "svg", "pdf", or a "png" that is twice as fine as it is wide."""
    import vl_convert

    if kind not in FILES:
        raise InputError(f"a picture is written as {' or '.join(FILES)}; got {kind!r:.60}")
    options = {"scale": SCALE} if kind == "png" else {}
    made: str | bytes = getattr(vl_convert, f"vegalite_to_{kind}")(drawable(spec), **options)
    return made.encode() if isinstance(made, str) else made


def alone(chart: Chart, width: int) -> VegaLite:
    """The chart with its title, laid out for the widest font that a viewer may have."""
    named = {"title": chart.title, "description": chart.words, "background": "white", "padding": 12}
    return {**_whole(chart, width), **named, "config": {**CONFIG, "font": ROOMY}}


def _whole(chart: Chart, width: int) -> VegaLite:
    return {"$schema": "https://vega.github.io/schema/vega-lite/v5.json", "config": CONFIG, **chart.spec(width)}


def looks(field: str, names: Sequence[str], each: Sequence[object], legend: VegaLite | None = None) -> VegaLite:
    """An encoding of names, each by its colour, shape or dash; `legend` is what is said of them."""
    legends = {} if legend is None else {"legend": {"title": None, **legend}}
    return {"field": field, "type": "nominal", "scale": {"domain": list(names), "range": list(each)}, **legends}


def layer(mark: str, look: VegaLite, **encoding: VegaLite) -> VegaLite:
    """Marks of one kind that look alike, placed by an encoding."""
    return {"mark": {"type": mark, **look}, "encoding": encoding}


def plot(rows: Sequence[VegaLite], size: tuple[float, Any], layers: list[VegaLite], **encoding: VegaLite) -> VegaLite:
    """Layers on the same rows, with what their encodings share; the size is width and height."""
    width, height = size
    return {"data": {"values": rows}, "width": width, "height": height, "encoding": encoding, "layer": layers}


def rows_of(field: str, names: Sequence[str], room: float) -> VegaLite:
    """An encoding of rows by name, in this order, whose labels have so much room."""
    return {"field": field, "type": "nominal", "sort": list(names), "title": None, "axis": {"labelLimit": room}}


def ticks(least: float, most: float, number: int, beyond: bool = False) -> list[float]:
    """Round values up to the largest, or the first of them beyond it."""
    step = 10.0 ** np.floor(np.log10(max(most - least, 1e-9) / number))
    step *= next(f for f in (1, 2, 2.5, 5, 10, 20) if f * step * number >= (most - least) * 0.8)
    first = np.ceil(least / step)
    last = np.ceil(most / step) if beyond else np.floor(most / step)
    return [float(round(i * step, 12)) for i in range(int(first), int(last) + 1)]


def drawable(value: object) -> Any:
    """A value of JSON with � where its text has what XML and scripts cannot hold: drawing it would abort."""
    text = json.dumps(value, ensure_ascii=False, default=str)
    if not UNSEEN.search(text) and not re.search(r"\\u00|\\[bfr]", text):
        return value
    return _drawable(value)


def _drawable(value: object) -> object:
    if isinstance(value, str):
        return UNSEEN.sub("\ufffd", value)
    if isinstance(value, dict):
        return {_drawable(key): _drawable(item) for key, item in value.items()}
    return [_drawable(item) for item in value] if isinstance(value, list | tuple) else value


# What a page draws of a plan and of estimates, each in words, too

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
