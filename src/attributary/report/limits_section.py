"""Limits: what other limits than the chosen ones would have meant, as charts and figures."""

from typing import Any

from attributary.facts import numerals
from attributary.plan import Plan
from attributary.plan.plan import Trade
from attributary.report.chart import AMBER, NARROW, RUST, TEAL, Chart, Draw, VegaLite, looks

KINDS = {"error": "expected error", "bias": "cut off", "noise": "noise"}
COLOURS = [TEAL, RUST, AMBER]
SHAPES = ["circle", "square", "diamond"]


def limits_section(plan: Plan, draw: Draw) -> dict[str, Any] | None:
    """A chart and a table for each limit that the plan chose; None where it chose none."""
    if not plan.tradeoff:
        return None
    units = {measure.name: measure.unit or "" for measure in plan.spec.values}
    tables = [
        {
            "title": _title(name, units),
            "head": "Clipped at" if name in units else "Conversions that count",
            "rows": [
                [_limit(t.limit), *map(numerals.percent, (t.error, t.bias, t.noise)), _chosen(t.chosen)] for t in trades
            ],
        }
        for name, trades in plan.tradeoff.items()
    ]
    charts = [draw(_chart(name, trades, units)) for name, trades in plan.tradeoff.items() if len(trades) > 1]
    return {"charts": charts, "tables": tables}


def _title(name: str, units: dict[str, str]) -> str:
    if name not in units:
        return "Conversions of an impression that count"
    return f"Where {name} is clipped" + (f", in {units[name]}" if units[name] else "")


def _limit(limit: float) -> str:
    return numerals.number(float(f"{limit:.4g}"))


def _chosen(part: float) -> str:
    return "" if part == 0 else "chosen" if part == 1 else f"chosen for {numerals.percent(part)}"


def _chart(name: str, trades: tuple[Trade, ...], units: dict[str, str]) -> Chart:
    clip = name in units
    title = _title(name, units)
    rows = [
        {"limit": t.limit, "shown": _limit(t.limit), "kind": word, "error": getattr(t, kind), "chosen": t.chosen}
        for t in trades
        for kind, word in KINDS.items()
    ]
    words = f"{title}; expected error, what is cut off, and noise: " + "; ".join(
        f"{_limit(t.limit)}: {', '.join(numerals.percent(x) for x in (t.error, t.bias, t.noise))}"
        + (" (chosen)" if t.chosen else "")
        for t in trades
    )
    kinds = list(KINDS.values())

    def spec(width: int) -> VegaLite:
        narrow = width <= NARROW
        scale = {"type": "log", "nice": False} if clip else {"type": "point", "padding": 0.4}
        x = {
            "field": "limit",
            "type": "quantitative" if clip else "ordinal",
            "scale": scale,
            "axis": {
                "title": None,
                "grid": False,
                "format": ",~r" if clip else "d",
                "labelAngle": 0,
                **({"values": _powers(trades)} if clip else {}),
            },
        }
        colour, shape = looks("kind", kinds, COLOURS, {"columns": 3}), looks("kind", kinds, SHAPES)
        y = {"field": "error", "type": "quantitative", "scale": {"zero": True}}
        shade = {"domain": [0, 1], "range": [0.05, 0.22]}
        axis = {"title": "relative error", "format": "~%", "tickCount": 4}
        return {
            "data": {"values": rows},
            "width": width - 70,
            "height": 170 if narrow else 210,
            "encoding": {"x": x},
            "layer": [
                {
                    "transform": [{"filter": f"datum.chosen > 0 && datum.kind === '{kinds[0]}'"}],
                    "mark": {"type": "rule", "color": TEAL, "strokeWidth": 16},
                    "encoding": {
                        "opacity": {"field": "chosen", "type": "quantitative", "scale": shade, "legend": None}
                    },
                },
                {"mark": {"type": "line", "strokeWidth": 2}, "encoding": {"y": {**y, "axis": axis}, "color": colour}},
                {
                    "mark": {"type": "point", "filled": True, "size": 55, "opacity": 1},
                    "encoding": {"y": y, "color": colour, "shape": shape},
                },
            ],
        }

    return Chart(f"limit-{name}", title, words, spec)


def _powers(trades: tuple[Trade, ...]) -> list[float]:
    """Powers of ten within the limits, or, where there is none, the limits themselves."""
    limits = [t.limit for t in trades]
    powers = [10.0**k for k in range(-6, 10) if min(limits) <= 10.0**k <= max(limits)]
    return powers or limits
