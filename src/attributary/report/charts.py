"""Charts: what a page draws of a plan and of estimates, each in words, too."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from attributary.estimates import Estimates
from attributary.facts import numerals
from attributary.facts.estimates import LevelGain
from attributary.facts.numerals import Numeral
from attributary.facts.plan import LevelFact
from attributary.facts.quantity import Quantity, label
from attributary.plan import Plan
from attributary.plan.plan import Trade
from attributary.report.chart import (
    AMBER,
    GREY,
    INK,
    MUTED,
    NARROW,
    RUST,
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
from attributary.types import Bools, Floats

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
            "label": _fitting(label(est, v), float(width[v]) * (WIDE - 90)),
        }
        for v, i in zip(wide.tolist(), level.tolist(), strict=True)
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


def _fitting(label: str, width: float) -> str:
    """As much of a label as has room, or nothing."""
    letters = int(width / LETTER) - 1
    return numerals.short(label, letters) if letters >= min(len(label), 4) else ""


# Levels


def budget_chart(levels: list[LevelFact]) -> Chart:
    """Each level's part of the budget, and its range where roots or nodes differ."""
    levels = levels[:LEVELS]
    names = [level.level for level in levels]
    rows: list[dict[str, Any]] = [{"level": s.level, "text": s.share, **share_range(s.share)} for s in levels]
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


# Budgets and limits

SPAN = 4.0  # times less and more ε than the plan's
POINTS = 17
CURVES = 8  # levels
LOOKS = [TEAL, AMBER, RUST, GREY]
STEPS = [x * 10.0**power for power in range(-6, 5) for x in (1, 2, 5)]  # of the axes


def tradeoff_chart(plan: Plan) -> Chart | None:
    """This split under other budgets, where only the scale of its errors would change; else nothing."""
    if plan.changes_with_epsilon:
        return None
    most = plan.spec.terms.largest_epsilon if plan.spec.noise_model.on_sums else np.inf
    here = plan.spec.epsilon
    tried = np.unique(np.append(np.geomspace(here / SPAN, min(here * SPAN, max(most, here)), POINTS), here))
    levels = [level for level in plan.expected.levels[:CURVES] if 0 < level.error.plan < np.inf]
    times = {epsilon: plan.scale_of_errors(epsilon) for epsilon in tried.tolist()}
    rows = [
        {"level": level.level, "epsilon": epsilon, "error": level.error.plan * times[epsilon]}
        for level in levels
        for epsilon in tried.tolist()
    ]
    targets: list[dict[str, Any]] = [
        {
            "level": target.name,
            "target": target.error,
            "words": f"{target.name}: target {numerals.percent(target.error)}",
        }
        for target in plan.spec.targets
        if isinstance(target.error, float) and target.name in {level.level for level in levels}
    ]
    if not rows:
        return None
    words = f"Error by level at ε = {tried[0]:.3g}, {here:.3g} and {tried[-1]:.3g}: " + "; ".join(
        f"{level.level} {', '.join(numerals.percent(level.error.plan * times[e]) for e in (tried[0], here, tried[-1]))}"
        + "".join(f" (target {numerals.percent(t['target'])})" for t in targets if t["level"] == level.level)
        for level in levels
    )
    names = [level.level for level in levels]
    return Chart("trade-off", "Error against ε", words, lambda width: _curves(rows, targets, names, here, width))


def _curves(
    rows: list[dict[str, Any]], targets: list[dict[str, Any]], names: list[str], here: float, width: int
) -> VegaLite:
    narrow = width <= NARROW
    low, high = rows[0]["epsilon"], rows[-1]["epsilon"]
    ticks = [epsilon for epsilon in STEPS if low <= epsilon <= high]
    axis = {"title": "ε, the budget; the plan's is marked", "values": ticks, "format": "~r", "grid": False}
    x = {"field": "epsilon", "type": "quantitative", "scale": {"type": "log", "domain": [low, high], "nice": False}}
    seen = [*(row["error"] for row in rows), *(target["target"] for target in targets)]
    y = {"type": "quantitative", "scale": {"type": "log", "domain": [0.9 * min(seen), 1.1 * max(seen)], "nice": False}}
    steps = [error for error in STEPS if 0.9 * min(seen) <= error <= 1.1 * max(seen)]
    colours = [LOOKS[i % len(LOOKS)] for i in range(len(names))]
    colour = looks("level", names, colours, {"columns": 2 if narrow else 4})
    dash = {**looks("level", names, [[1, 0], [7, 3], [2, 2], [9, 3, 2, 3]]), "legend": None}
    error = {"field": "error", **y, "axis": {"title": "error", "format": "~%", "values": steps}}
    at = {**x, "axis": axis}
    layers = [
        {"data": {"values": [{"epsilon": here}]}} | layer("rule", {"color": MUTED, "strokeWidth": 1}, x=at),
        {"data": {"values": rows}} | layer("line", {"strokeWidth": 2.5}, x=at, y=error, color=colour, strokeDash=dash),
    ]
    if targets:
        target, words = {"field": "target", **y}, {**WORDS, "align": "right", "dx": -4, "dy": -7, "fontSize": 12}
        line = layer("rule", {"strokeDash": [5, 4], "strokeWidth": 1.5}, y=target, color=colour)
        text = layer("text", words, x=x, y=target, text={"field": "words"})
        layers += [{"data": {"values": targets}} | line]
        layers += [{"data": {"values": [{**t, "epsilon": high} for t in targets]}} | text]
    return {"width": width - 70, "height": 220, "layer": layers}


KINDS = {"error": "expected error", "bias": "cut off", "noise": "noise"}


def limit_title(name: str, units: dict[str, str]) -> str:
    if name not in units:
        return "Conversions of an impression that count"
    return f"Where {name} is clipped" + (f", in {units[name]}" if units[name] else "")


def limit_words(limit: float) -> str:
    return numerals.number(float(f"{limit:.4g}"))


def limit_chart(name: str, trades: tuple[Trade, ...], units: dict[str, str]) -> Chart:
    clip = name in units
    title = limit_title(name, units)
    rows = [
        {"limit": t.limit, "shown": limit_words(t.limit), "kind": word, "error": getattr(t, kind), "chosen": t.chosen}
        for t in trades
        for kind, word in KINDS.items()
    ]
    words = f"{title}; expected error, what is cut off, and noise: " + "; ".join(
        f"{limit_words(t.limit)}: {', '.join(numerals.percent(x) for x in (t.error, t.bias, t.noise))}"
        + (" (chosen)" if t.chosen else "")
        for t in trades
    )
    kinds = list(KINDS.values())

    def spec(width: int) -> VegaLite:
        narrow = width <= NARROW
        scale = {"type": "log", "nice": False} if clip else {"type": "point", "padding": 0.4}
        values = {"values": _powers(trades)} if clip else {}
        along = {"title": None, "grid": False, "format": ",~r" if clip else "d", "labelAngle": 0, **values}
        x = {"field": "limit", "type": "quantitative" if clip else "ordinal", "scale": scale, "axis": along}
        colour = looks("kind", kinds, [TEAL, RUST, AMBER], {"columns": 3})
        shape = looks("kind", kinds, ["circle", "square", "diamond"])
        y = {"field": "error", "type": "quantitative", "scale": {"zero": True}}
        shade = {"domain": [0, 1], "range": [0.05, 0.22]}
        chosen = {"field": "chosen", "type": "quantitative", "scale": shade, "legend": None}
        taken = [{"filter": f"datum.chosen > 0 && datum.kind === '{kinds[0]}'"}]
        axis = {"title": "relative error", "format": "~%", "tickCount": 4}
        layers = [
            {"transform": taken} | layer("rule", {"color": TEAL, "strokeWidth": 16}, opacity=chosen),
            layer("line", {"strokeWidth": 2}, y={**y, "axis": axis}, color=colour),
            layer("point", {"filled": True, "size": 55, "opacity": 1}, y=y, color=colour, shape=shape),
        ]
        return plot(rows, (width - 70, 170 if narrow else 210), layers, x=x)

    return Chart(f"limit-{name}", title, words, spec)


def _powers(trades: tuple[Trade, ...]) -> list[float]:
    """Powers of ten within the limits, or, where there is none, the limits themselves."""
    limits = [t.limit for t in trades]
    powers = [10.0**k for k in range(-6, 10) if min(limits) <= 10.0**k <= max(limits)]
    return powers or limits
