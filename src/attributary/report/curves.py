"""Curves: errors at several budgets and under several limits, of a plan or of an evaluation, as charts and rows."""

from collections.abc import Iterable, Sequence

import numpy as np

from attributary.facts.evaluation import OWN, Point, error_tables, explanation, one_each, shown, tree_errors, whose
from attributary.facts.numerals import Table, number, percent, short
from attributary.facts.plan import COUNTED, limit_words
from attributary.plan import Plan
from attributary.plan.sections import Trade
from attributary.report.charts import (
    AMBER,
    GREY,
    MUTED,
    NARROW,
    RUST,
    TEAL,
    WORDS,
    Chart,
    Draw,
    VegaLite,
    layer,
    looks,
    plot,
)
from attributary.types import Record

SPAN = 4.0  # times less and more ε than the plan's
TRIED = 17  # budgets
CURVES = 8  # levels
LOOKS = [TEAL, AMBER, RUST, GREY]
POINTS = 500  # rows that are listed
MOST = 6  # charts
COLOURS = [TEAL, AMBER, RUST, "#4a6fa5", "#7a5c99", GREY, "#5a7d2a", "#a0447a"]
SHAPES = ["circle", "square", "diamond", "triangle-up", "cross", "triangle-down", "triangle-right", "triangle-left"]
LEAST = 1e-4  # errors below are not drawn
KNOWN = [{"filter": "isValid(datum.low)"}]
DASHES = {"paper": [5, 3], "ours": [1, 0], "baseline": [1, 3]}


def log_axis(values: Iterable[float], room: tuple[float, float] = (1.0, 1.0), **axis: object) -> VegaLite:
    """A logarithmic axis with room below the least value and above the largest, and round numbers on it."""
    least, largest = min(values := list(values)) * room[0], max(values) * room[1]
    powers = range(int(np.floor(np.log10(least))), int(np.ceil(np.log10(largest))) + 1)
    steps = (1, 2, 5) if len(powers) < 6 else (1,)
    ticks = [round(step * 10.0**k, 12) for k in powers for step in steps if least <= step * 10.0**k <= largest]
    scale = {"type": "log", "domain": [least, largest], "nice": False}
    return {"type": "quantitative", "scale": scale, "axis": {"values": ticks or values, **axis}}


# Of a plan


def tradeoff_chart(plan: Plan) -> Chart | None:
    """This split under other budgets, where only the scale of its errors would change; else nothing."""
    levels = [level for level in plan.expected.levels[:CURVES] if 0 < level.error.plan < np.inf]
    if plan.changes_with_epsilon or not levels:
        return None
    here, limited = plan.spec.epsilon, plan.spec.noise_model.on_sums
    most = max(plan.spec.terms.largest_epsilon, here) if limited else np.inf
    tried = np.unique(np.append(np.geomspace(here / SPAN, min(here * SPAN, most), TRIED), here)).tolist()
    errors = {level.level: [level.error.plan * plan.scale_of_errors(epsilon) for epsilon in tried] for level in levels}
    rows = [
        {"level": level, "epsilon": epsilon, "error": error}
        for level, each in errors.items()
        for epsilon, error in zip(tried, each, strict=True)
    ]
    aims = {t.name: t.error for t in plan.spec.targets if isinstance(t.error, float) and t.name in errors}
    words = f"Error by level at ε = {tried[0]:.3g}, {here:.3g} and {tried[-1]:.3g}: " + "; ".join(
        f"{level} {', '.join(percent(each[i]) for i in (0, tried.index(here), -1))}"
        + (f" (target {percent(aims[level])})" if level in aims else "")
        for level, each in errors.items()
    )

    def spec(width: int) -> VegaLite:
        narrow, names = width <= NARROW, list(errors)
        title = "ε, the budget; the plan's is marked"
        x = {"field": "epsilon", **log_axis(tried, title=title, format="~r", grid=False)}
        seen = [*(row["error"] for row in rows), *aims.values()]
        y = log_axis(seen, (0.9, 1.1), title="error", format="~%")
        colours = [LOOKS[i % len(LOOKS)] for i in range(len(names))]
        colour = looks("level", names, colours, {"columns": 2 if narrow else 4})
        dash = {**looks("level", names, [[1, 0], [7, 3], [2, 2], [9, 3, 2, 3]]), "legend": None}
        curve = layer("line", {"strokeWidth": 2.5}, x=x, y={"field": "error", **y}, color=colour, strokeDash=dash)
        layers = [
            {"data": {"values": [{"epsilon": here}]}} | layer("rule", {"color": MUTED, "strokeWidth": 1}, x=x),
            {"data": {"values": rows}} | curve,
        ]
        if aims:
            said = [
                {"level": level, "target": aim, "words": f"{level}: target {percent(aim)}", "epsilon": tried[-1]}
                for level, aim in aims.items()
            ]
            target, look = {"field": "target", **y}, {**WORDS, "align": "right", "dx": -4, "dy": -7, "fontSize": 12}
            line = layer("rule", {"strokeDash": [5, 4], "strokeWidth": 1.5}, y=target, color=colour)
            text = layer("text", look, x=x, y=target, text={"field": "words"})
            layers += [{"data": {"values": said}} | line, {"data": {"values": said}} | text]
        return {"width": width - 70, "height": 220, "layer": layers}

    return Chart("trade-off", "Error against ε", words, spec)


KINDS = {"error": "expected error", "bias": "cut off", "noise": "noise"}


def limit_chart(name: str, trades: tuple[Trade, ...], title: str) -> Chart:
    """What other limits would mean; `title` says what is limited."""
    rows = [
        {"limit": t.limit, "shown": limit_words(t.limit), "kind": word, "error": getattr(t, kind), "chosen": t.chosen}
        for t in trades
        for kind, word in KINDS.items()
    ]
    words = f"{title}; expected error, what is cut off, and noise: " + "; ".join(
        f"{limit_words(t.limit)}: {', '.join(percent(x) for x in (t.error, t.bias, t.noise))}"
        + " (chosen)" * bool(t.chosen)
        for t in trades
    )
    kinds = list(KINDS.values())

    def spec(width: int) -> VegaLite:
        along: Record = {"title": None, "grid": False, "labelAngle": 0}
        clip = title != COUNTED
        counts = {"type": "ordinal", "scale": {"type": "point", "padding": 0.4}, "axis": {**along, "format": "d"}}
        x = {"field": "limit", **(log_axis([t.limit for t in trades], **along, format=",~r") if clip else counts)}
        axis = {"title": "relative error", "format": "~%", "tickCount": 4}
        y = {"field": "error", "type": "quantitative", "scale": {"zero": True}, "axis": axis}
        colour = looks("kind", kinds, [TEAL, RUST, AMBER], {"columns": 3})
        shape = looks("kind", kinds, SHAPES[:3])
        shade = {"domain": [0, 1], "range": [0.05, 0.22]}
        chosen = {"field": "chosen", "type": "quantitative", "scale": shade, "legend": None}
        taken = [{"filter": f"datum.chosen > 0 && datum.kind === '{kinds[0]}'"}]
        layers = [
            {"transform": taken} | layer("rule", {"color": TEAL, "strokeWidth": 16}, opacity=chosen),
            layer("line", {"strokeWidth": 2}, y=y, color=colour),
            layer("point", {"filled": True, "size": 55, "opacity": 1}, y=y, color=colour, shape=shape),
        ]
        return plot(rows, (width - 70, 170 if width <= NARROW else 210), layers, x=x)

    return Chart(f"limit-{name}", title, words, spec)


# Of an evaluation


def curves(points: Sequence[Point]) -> tuple[list[Chart], int]:
    """A chart for each dataset and noise model, of whole trees where there are such points; and how many more."""
    finite = [p for p in points if np.isfinite(p.rmsre) and p.limits in (None, *OWN)]
    drawn = tree_errors(finite) or one_each(finite)
    groups: dict[tuple[str, str, str], list[Point]] = {}
    for p in drawn:
        groups.setdefault((p.dataset, p.noise, p.level or ""), []).append(p)
    charts = [
        chart(group, "evaluation" + (f"-{i}" if len(groups) > 1 else "")) for i, group in enumerate(groups.values(), 1)
    ]
    return charts[:MOST], max(len(groups) - MOST, 0)


def chart(points: Sequence[Point], name: str = "evaluation") -> Chart:
    """Errors by ε, or by τ if there is one ε: a panel for each tree; dashed are the paper's methods, dotted baselines.

    Where there is one ε and τ, the methods of one tree stand in the order of their errors.
    """
    across, by = ("epsilon", "tau") if len({p.epsilon for p in points}) > 1 else ("tau", "epsilon")
    trees, sign = list(dict.fromkeys(p.question for p in points)), {"tau": "τ", "epsilon": "ε"}
    first = points[0]

    def panel(p: Point) -> str:
        return f"{sign[by]} = {getattr(p, by):g}" + (f", {p.question}" if len(trees) > 1 else "")

    panels = list(dict.fromkeys(map(panel, sorted(points, key=lambda p: (trees.index(p.question), getattr(p, by))))))
    sides = {p.called: whose(p.method) for p in points}
    drawn = [p for p in points if p.rmsre >= LEAST] or list(points)
    drawn.sort(key=lambda p: sides[p.called] != "ours")  # dashed lines above solid ones, so that both are seen
    rows = []
    for p in drawn:
        row = {"method": p.called, "x": getattr(p, across), "panel": panel(p), "error": p.rmsre}
        if p.standard_error >= 0:  # it was simulated: two standard errors to either side
            row |= {"low": max(p.rmsre - 2 * p.standard_error, 1e-12), "high": p.rmsre + 2 * p.standard_error}
        rows.append(row)
    last = max(getattr(p, across) for p in points)
    told = [p for p in points if getattr(p, across) == last and panel(p) == panels[0]]
    description = f"Error by method, at {across} = {last:g}: " + "; ".join(f"{p.called} {shown(p.rmsre)}" for p in told)
    generated = f"{first.dataset}, generated rows" if any(p.generated for p in points) else first.dataset
    parts = [generated, *trees[: len(trees) == 1], f"noise: {first.noise}" if first.noise else ""]
    parts += [f"level {first.level}" if first.level else ""]
    title = ", ".join(short(part, 60) for part in parts if part) or "All methods"
    if len({row["x"] for row in rows}) == len(panels) == 1:
        return Chart(
            name, f"{title}, ε = {first.epsilon:g}, τ = {first.tau:g}", description, lambda width: _dots(rows, width)
        )
    keys = {"paper": "dashed: the paper's", "baseline": "dotted: baselines"}
    legend = "; ".join(description for side, description in keys.items() if side in sides.values())
    title += f" ({legend})" * bool(legend)
    return Chart(name, title, description, lambda width: _spec(rows, sides, across, panels, width))


def _dots(rows: list[Record], width: int) -> VegaLite:
    """The methods in the order of their errors, where there is one budget and one tau."""
    narrow = width <= NARROW
    x = {"type": "quantitative", "scale": {"zero": True}}
    axis = {"title": "error (RMSRE)", "format": "~%", "tickCount": 3 if narrow else 6}
    names = [r["method"] for r in sorted(rows, key=lambda r: r["error"])]
    span = layer(
        "rule", {"color": TEAL, "strokeWidth": 6, "opacity": 0.35}, x={"field": "low", **x}, x2={"field": "high"}
    )
    look = {"filled": True, "size": 90, "opacity": 1, "color": TEAL}
    layers = [{"transform": KNOWN} | span, layer("point", look, x={"field": "error", **x, "axis": axis})]
    y = {"field": "method", "type": "nominal", "sort": names, "title": None}
    return plot(rows, (width - 150, {"step": 26}), layers, y=y)


def _spec(rows: list[Record], sides: dict[str, str], across: str, panels: list[str], width: int) -> VegaLite:
    narrow = width <= NARROW
    columns, methods = 1 if narrow else min(len(panels), 2), list(sides)
    values = sorted({r["x"] for r in rows})
    title = "ε, the budget" if across == "epsilon" else "τ, below which errors stop being relative"
    scale = {"type": "log", "nice": False} if len(values) > 1 else {}
    along = {"title": title, "values": values[:12], "format": "~r", "grid": False}
    x = {"field": "x", "type": "quantitative", "scale": scale, "axis": along}
    percents = {"title": "error (RMSRE)", "format": "~%"}
    y: VegaLite = {"type": "quantitative", "scale": {"zero": True}, "axis": percents}
    if all(r["error"] > 0 for r in rows):  # from a little below the least error to the end of the longest line
        least = min(r["error"] for r in rows)
        y = log_axis([least, *(r["high"] if "high" in r else r["error"] for r in rows)], (1 / 1.6, 1.1), **percents)
        y["scale"]["clamp"] = True
    error = {"field": "error", **y}
    legend = {"columns": 2 if narrow else 3, "symbolOpacity": 1, "labelLimit": 400}
    colour = looks("method", methods, (COLOURS * 9)[: len(methods)], legend)
    shape = looks("method", methods, [SHAPES[(i + i // len(COLOURS)) % len(SHAPES)] for i in range(len(methods))])
    dash = {**looks("method", methods, [DASHES[side] for side in sides.values()]), "legend": None}
    layers = [
        layer("line", {"strokeWidth": 2}, y=error, strokeDash=dash),
        layer("point", {"filled": True, "size": 60, "opacity": 1}, y=error, shape=shape),
    ]
    if any("low" in r for r in rows):
        spans = layer("rule", {"strokeWidth": 1.5, "opacity": 0.6}, y={"field": "low", **y}, y2={"field": "high"})
        layers = [{"transform": KNOWN} | spans, *layers]
    size = ((width - 75) / columns - (0 if columns == 1 else 30), 220)
    whole = plot(rows, size, layers, x=x, color=colour)
    if len(panels) == 1:
        return whole
    facet = {"field": "panel", "type": "nominal", "title": None, "sort": panels}
    return {"data": whole.pop("data"), "facet": facet, "columns": columns, "spec": whole}


def evaluation_section(points: tuple[Point, ...], tables: Sequence[Table], draw: Draw) -> Record | None:
    """What the page lays out of an evaluation: charts, tables, and the errors by level; None without one."""
    if not points:
        return None
    drawn, more = curves(points)
    errors = one_each(points)
    return {
        "charts": [draw(each) for each in drawn],
        "more": more,
        "about": explanation(points),
        "generated": any(p.generated for p in points),
        "tables": [*error_tables(points), *tables],
        "points": f"{len(errors):,}",
        "heads": ["dataset", "tree", "method", "noise", "ε", "τ", "level", "error", "± standard error"],
        "rows": [
            [
                *(p.dataset, p.question, p.method, p.noise, number(p.epsilon), number(p.tau)),
                *(p.level or "whole tree", shown(p.rmsre), shown(p.standard_error)),
            ]
            for p in errors[:POINTS]
        ],
    }
