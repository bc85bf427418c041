"""Panels: what the page says of one measure, or of a ratio, section by section."""

from typing import Any

import numpy as np

from attributary.estimates import Plausibility, plausibility
from attributary.facts import numerals
from attributary.facts.quantity import FigureName, Quantity, rate, total_of, total_ratio
from attributary.plan import MeasurePlan
from attributary.ratio import PER
from attributary.report.by_level import accuracy_section, budget_section
from attributary.report.chart import Draw
from attributary.report.inputs import ReportInputs
from attributary.report.node_charts import counts_chart
from attributary.spec.measure import COUNT


def doubt_of(quantity: Quantity) -> Plausibility:
    """What there is to doubt; of a ratio, which is not measured, nothing."""
    if quantity.kind == "ratio":
        return Plausibility(np.zeros(len(quantity.estimates), bool), 0.0, None, 1.0)
    return plausibility(quantity.estimates)


def first_panel(quantity: Quantity, doubt: Plausibility, inputs: ReportInputs, draw: Draw) -> dict[str, Any]:
    """What every section needs, and the figures."""
    ratio = quantity.kind == "ratio"
    return {
        **_named(quantity, quantity.tau, quantity.part),
        "counts": _ratio(quantity, inputs, draw) if ratio else counts_section(quantity, doubt, draw),
    }


def later_panel(quantity: Quantity, doubt: Plausibility, draw: Draw) -> dict[str, Any]:
    """What the sections below the tree show."""
    if quantity.kind == "ratio":
        return {"budget": None, "accuracy": None}
    return {
        "budget": budget_section(quantity.part, draw, quantity.noun) if quantity.part else None,
        "accuracy": accuracy_section(quantity, doubt, draw),
    }


def plan_panel(part: MeasurePlan, tau: float | None, draw: Draw) -> dict[str, Any]:
    """The same of a plan that has not been measured by yet."""
    measure = part.measure
    named = FigureName(measure.name, "count" if measure.is_count else "value", measure.unit or "")
    return {
        **_named(named, tau or part.tau, part),
        "counts": None,
        "budget": budget_section(part, draw, named.noun),
        "accuracy": None,
    }


def _named(of: FigureName, tau: float, part: MeasurePlan | None) -> dict[str, Any]:
    return {
        "name": of.called,
        "head": of.head,
        "ratio": of.kind == "ratio",
        "noun": of.noun,
        "unit": of.unit,
        "after": of.after,
        "tau": numerals.number(tau),
        "limited": part is not None and part.limited,
    }


def counts_section(quantity: Quantity, doubt: Plausibility, draw: Draw) -> dict[str, Any]:
    """What the sections on counts, tree and icicle say of one quantity."""
    est = quantity.estimates
    total, roots = total_of(est), slice(0, int(est.tree.first[0]))
    seen = 0.0 if est.impressions is None else float(est.impressions[roots].sum())
    confidence = f"{100 * est.confidence:g}\u00a0% interval" if est.confidence else "interval"
    sizes = zip(np.diff(est.tree.offsets), est.tree.level_names, strict=True)
    levels = [f"{size:,}\u00a0×\u00a0{name}" for size, name in sizes]
    return {
        "total": quantity.shown(total.estimate),
        "interval": f"{quantity.figure(total.low)} and {quantity.figure(total.high)}",
        "error": numerals.percent(total.error(quantity.tau, quantity.metric)),
        "nodes": numerals.many(len(est), quantity.noun),
        "levels": numerals.few(levels),
        "flags": doubt.nodes,
        "limit": f"{doubt.threshold:.1f}",
        "below_zero": int((est.estimate < 0).sum()),
        "chart": draw(counts_chart(quantity)),
        "confidence": confidence,
        "prior": est.from_prior is not None,
        "zero": est.zero_probability is not None,
        "rate": [] if est.impressions is None else rate(total.estimate, total.low, total.high, seen),
        "seen": numerals.number(seen),
    }


def _ratio(quantity: Quantity, inputs: ReportInputs, draw: Draw) -> dict[str, Any]:
    est = quantity.estimates
    total = total_ratio(est, inputs.measures[quantity.name.removesuffix(PER)], inputs.measures[COUNT])
    known = np.isfinite(est.estimate)
    first = est.tree.slice(min(int(est.tree.total), est.tree.depth - 1))
    return {
        "total": quantity.figure(total.estimate),
        "interval": f"{quantity.figure(total.low)} and {quantity.figure(total.high)}",
        "error": numerals.percent(total.error(0.0)),
        "nodes": f"{int(known.sum()):,} of {len(est):,} nodes have a ratio",
        "levels": numerals.few(est.tree.level_names),
        "flags": 0,
        "limit": "",
        "below_zero": 0,
        "chart": draw(counts_chart(quantity)) if known[first].any() else None,
        "confidence": "interval",
        "prior": False,
        "zero": False,
        "rate": [],
    }
