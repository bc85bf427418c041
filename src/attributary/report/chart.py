"""Chart: a chart that can be drawn at any width, how all charts look, and a chart as SVG or PNG by vl-convert.

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
from attributary.html import ROOMY, UNSEEN
from attributary.types import Record

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
