"""Trade-off chart: the error of each level against ε, with the targets in it."""

from typing import Any

import numpy as np

from attributary.facts import numerals
from attributary.plan import Plan
from attributary.report.chart import AMBER, GREY, INK, MUTED, NARROW, RUST, TEAL, Chart, VegaLite, looks

SPAN = 4.0  # times less and more ε than the plan's
POINTS = 17
COLOURS = [TEAL, AMBER, RUST, GREY]
MOST = 8  # levels
STEPS = [x * 10.0**power for power in range(-6, 5) for x in (1, 2, 5)]  # of the axes


def tradeoff_chart(plan: Plan) -> Chart | None:
    """This split under other budgets, where only the scale of its errors would change; else nothing."""
    if plan.changes_with_epsilon:
        return None
    most = plan.spec.terms.largest_epsilon if plan.spec.noise_model.on_sums else np.inf
    here = plan.spec.epsilon
    tried = np.unique(np.append(np.geomspace(here / SPAN, min(here * SPAN, max(most, here)), POINTS), here))
    levels = [level for level in plan.expected.levels[:MOST] if 0 < level.error.plan < np.inf]
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
    return Chart("trade-off", "Error against ε", words, lambda width: _spec(rows, targets, names, here, width))


def _spec(
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
    colours = [COLOURS[i % len(COLOURS)] for i in range(len(names))]
    colour = looks("level", names, colours, {"columns": 2 if narrow else 4})
    rules = [
        {
            "data": {"values": targets},
            "mark": {"type": "rule", "strokeDash": [5, 4], "strokeWidth": 1.5},
            "encoding": {"y": {"field": "target", **y}, "color": colour},
        },
        {
            "data": {"values": [{**t, "epsilon": high} for t in targets]},
            "mark": {"type": "text", "align": "right", "dx": -4, "dy": -7, "fontSize": 12, "color": INK},
            "encoding": {"x": x, "y": {"field": "target", **y}, "text": {"field": "words"}},
        },
    ]
    return {
        "width": width - 70,
        "height": 220,
        "layer": [
            {
                "data": {"values": [{"epsilon": here}]},
                "mark": {"type": "rule", "color": MUTED, "strokeWidth": 1},
                "encoding": {"x": {**x, "axis": axis}},
            },
            {
                "data": {"values": rows},
                "mark": {"type": "line", "strokeWidth": 2.5},
                "encoding": {
                    "x": {**x, "axis": axis},
                    "y": {"field": "error", **y, "axis": {"title": "error", "format": "~%", "values": steps}},
                    "color": colour,
                    "strokeDash": {**looks("level", names, [[1, 0], [7, 3], [2, 2], [9, 3, 2, 3]]), "legend": None},
                },
            },
            *(rules if targets else []),
        ],
    }
