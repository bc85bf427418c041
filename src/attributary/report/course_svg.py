"""course_svg: a node's course over the periods as a picture, a line in the band of its intervals."""

from html import escape
from math import ceil
from typing import NamedTuple

import numpy as np

from attributary.changes import Series
from attributary.facts import numerals
from attributary.html import UNSEEN
from attributary.report.chart import ticks
from attributary.types import Floats

SMALL, LARGE = (132, 34), (620, 240)
LABELS = 4  # periods that are named below a large picture
FROM_0 = 0.6  # of the largest: figures above that would leave most of a picture empty that begins at 0


def course_svg(series: Series, node: int, large: bool = False) -> str:
    """The course of a node, by its place in level order, as an SVG to stand in a page."""

    def written(shape: Shape) -> str:
        attributes = "".join(f' {name}="{escape(value)}"' for name, value in shape.attributes.items())
        return f"<{shape.tag}{attributes}>{escape(shape.text)}</{shape.tag}>"

    width, height = LARGE if large else SMALL
    size = f'viewBox="0 0 {width} {height}" width="{width}" height="{height}"'
    return f'<svg class="course" {size} aria-hidden="true">{"".join(map(written, course(series, node, large)))}</svg>'


class Shape(NamedTuple):
    tag: str
    attributes: dict[str, str]
    text: str = ""


def course(series: Series, node: int, large: bool = False) -> list[Shape]:
    """What the picture is made of: a gap where a period lacks the node, a dot where it changed.

    A large one has axes, and says so where they do not begin at 0.
    """
    x, low, high = (values[:, node] for values in series.course)
    low, high = (np.where(np.isfinite(bound), bound, x) for bound in (low, high))
    (width, height), (left, below) = (LARGE, (64, 26)) if large else (SMALL, (4, 4))
    least, largest = float(np.nanmin(low)), float(np.nanmax(high))
    if not large or least < FROM_0 * largest:
        least, largest = min(least, 0.0), max(largest, 0.0)
    across = left + (width - left - 8) * np.arange(len(x)) / max(len(x) - 1, 1)

    def up(value: float) -> float:
        return float(height - below - (value - least) * (height - below - 6) / max(largest - least, 1e-9))

    def points(run: list[int], values: Floats) -> str:
        return " ".join(f"{across[i]:.1f},{up(values[i]):.1f}" for i in run)

    def text(label: str, at: float, down: float, side: str) -> Shape:
        return Shape("text", {"x": f"{at:.1f}", "y": f"{down:.1f}", "text-anchor": side}, label)

    shapes = []
    for tick in ticks(least, largest, 4) if large else ():
        shapes += [Shape("path", {"d": f"M{left} {up(tick):.1f}H{width}"})]
        shapes += [text(numerals.number(tick), left - 8, up(tick) + 4, "end")]
    shapes += [text("does not begin at 0", left + 4, 12, "start")] if large and least > 0 else []
    for i in range(len(x) - 1, -1, -ceil(len(x) / LABELS)) if large else ():
        side = "start" if i == 0 else "end" if i == len(x) - 1 else "middle"
        name = UNSEEN.sub("\ufffd", numerals.short(series.periods[i].name, 16))
        shapes += [text(name, across[i], height - 4, side)]
    for part in np.split(np.arange(len(x)), np.flatnonzero(np.diff(np.isfinite(x))) + 1):
        run = part.tolist()
        if np.isfinite(x[run[0]]):
            shapes += [Shape("polygon", {"points": f"{points(run, high)} {points(run[::-1], low)}"})]
            shapes += [Shape("polyline", {"points": points(run, x)})]
    for i, step in enumerate(series.steps, 1):
        if step.changed[node]:
            at = {"cx": f"{across[i]:.1f}", "cy": f"{up(x[i]):.1f}", "r": "3.5"}
            shapes += [Shape("circle", {"class": str(step.verdict[node]), **at})]
    return shapes
