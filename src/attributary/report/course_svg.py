"""course_svg: a node's course over the periods as a picture, a line in the band of its intervals."""

from html import escape

import numpy as np

from attributary.changes import Series
from attributary.html import UNSEEN
from attributary.report import numerals
from attributary.report.chart import ticks

SMALL, LARGE = (132.0, 34.0), (620.0, 240.0)
LABELS = 5  # periods that are named below a large picture


def course_svg(series: Series, node: int, large: bool = False) -> str:
    """The course of a node, by its place in level order: a gap where a period lacks it, a dot where it changed.

    A small picture begins at 0; a large one has axes instead.
    """
    x, low, high = (values[:, node] for values in series.course)
    low, high = (np.where(np.isfinite(bound), bound, x) for bound in (low, high))
    (width, height), (left, below) = (LARGE, (64, 26)) if large else (SMALL, (4, 4))
    least, most = float(np.nanmin(low)), float(np.nanmax(high))
    least, most = (least, most) if large else (min(least, 0.0), max(most, 0.0))
    across = left + (width - left - 8) * np.arange(len(x)) / max(len(x) - 1, 1)

    def up(value: float) -> float:
        return float(height - below - (value - least) * (height - below - 6) / max(most - least, 1e-9))

    def points(run: list[int], values: np.ndarray) -> str:
        return " ".join(f"{across[i]:.1f},{up(values[i]):.1f}" for i in run)

    parts = []
    for tick in ticks(least, most, 4) if large else ():
        parts.append(f'<path d="M{left} {up(tick):.1f}H{width}"/>')
        parts.append(f'<text x="{left - 8}" y="{up(tick) + 4:.1f}" text-anchor="end">{numerals.number(tick)}</text>')
    for i in np.unique(np.linspace(0, len(x) - 1, LABELS).round().astype(int)) if large else ():
        side = "start" if i == 0 else "end" if i == len(x) - 1 else "middle"
        name = escape(UNSEEN.sub("\ufffd", numerals.short(series.periods[i].name, 16)))
        parts.append(f'<text x="{across[i]:.1f}" y="{height - 4}" text-anchor="{side}">{name}</text>')
    for run in np.split(np.arange(len(x)), np.flatnonzero(np.diff(np.isfinite(x))) + 1):
        if np.isfinite(x[run[0]]):
            band = f"{points(run.tolist(), high)} {points(run.tolist()[::-1], low)}"
            parts.append(f'<polygon points="{band}"/><polyline points="{points(run.tolist(), x)}"/>')
    for i, step in enumerate(series.steps, 1):
        if step.changed[node]:
            parts.append(f'<circle class="{step.verdict[node]}" cx="{across[i]:.1f}" cy="{up(x[i]):.1f}" r="3.5"/>')
    size = f'viewBox="0 0 {width:g} {height:g}" width="{width:g}" height="{height:g}"'
    return f'<svg class="course" {size} aria-hidden="true">{"".join(parts)}</svg>'
