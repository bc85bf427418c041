"""Sections: what each section of the page shows, as words, figures and charts for the template."""

from collections.abc import Callable
from typing import Any

import numpy as np

from attributary.plan import Plan
from attributary.report import figures, levels
from attributary.report.counts_chart import counts_chart
from attributary.report.curves import curves
from attributary.report.evaluation import Point
from attributary.report.level_charts import budget_chart, denoised_chart, expected_chart, span
from attributary.report.names import path
from attributary.report.quantity import Quantity
from attributary.report.suspicion import Z_FINE, Suspicion
from attributary.report.theme import Chart
from attributary.report.total import total_of
from attributary.report.words import few

Draw = Callable[[Chart], dict[str, str]]
SUSPECTS, POINTS = 10, 500  # that are listed


def counts_section(quantity: Quantity, doubt: Suspicion, draw: Draw) -> dict[str, Any]:
    """What the sections on counts, tree and icicle say of one quantity."""
    est = quantity.estimates
    total = total_of(est)
    by_name = est.confidence and f"{100 * est.confidence:g} % interval"
    return {
        "total": quantity.shown(total.estimate),
        "interval": f"{quantity.figure(total.low)} and {quantity.figure(total.high)}",
        "error": figures.percent(total.error(quantity.tau)),
        "nodes": figures.many(len(est), quantity.noun),
        "levels": few(
            [f"{name} {n:,}" for n, name in zip(np.diff(est.tree.offsets), est.tree.level_names, strict=True)]
        ),
        "flags": doubt.nodes,
        "limit": f"{doubt.limit:.1f}",
        "below_zero": int((est.estimate < 0).sum()),
        "chart": draw(counts_chart(quantity)),
        "confidence": by_name or "interval",
        "asked": not by_name,
        "expected": est.from_prior is not None,
    }


def budget_section(plan: Plan, draw: Draw, noun: str = "count") -> dict[str, Any]:
    """What a plan, or a measure's part of one, gives each level."""
    parts = levels.shares(plan)
    tree = plan.expected.tree
    rows = [
        [
            s.level,
            f"{s.nodes:,}",
            span(s),
            f"{s.contribution:,}" if s.contribution else "no key",
            figures.number(s.epsilon),
            *(figures.percent(error) for error in (s.plan, s.equal, s.leaves)),
        ]
        for s in parts
    ]
    spent = plan.costs.conversion / plan.spec.epsilon
    last = [
        *("all levels", f"{sum(s.nodes for s in parts):,}", figures.percent(spent)),
        *(f"{spent * plan.spec.l1:,.0f}", figures.number(plan.costs.conversion)),
        *(figures.percent(error) for error in (tree.plan, tree.equal, tree.leaves)),
    ]
    return {
        "rows": rows,
        "last": last,
        "own": "node" if plan.nodes is not None else plan.spec.split_by if plan.roots else "",
        "error": figures.percent(tree.plan),
        "equal": figures.percent(tree.equal),
        "charts": [draw(budget_chart(parts)), draw(expected_chart(parts, noun))],
    }


def changed_section(quantity: Quantity, doubt: Suspicion, draw: Draw) -> dict[str, Any] | None:
    est = quantity.estimates
    found = levels.changes(est, quantity.tau)
    if not found:
        return None
    rows = [
        [
            c.level,
            f"{c.nodes:,}",
            f"{c.measured:,}",
            figures.percent(c.raw) if c.measured else "not measured",
            figures.percent(c.denoised) + (f" ({c.open:,} cannot be estimated)" if c.open else ""),
            figures.percent(c.fell) if c.measured else figures.NOTHING,
        ]
        for c in found
    ]
    worst = np.argsort(-np.abs(np.where(doubt.implausible, est.correction, 0.0)), kind="stable")[
        : min(doubt.nodes, SUSPECTS)
    ]
    suspects = [
        {
            "path": path(est, int(v)),
            "noisy": quantity.figure(est.noisy[v]),
            "estimate": quantity.shown(est.estimate[v]),
            "correction": f"{est.correction[v]:+.1f}".replace("-", figures.MINUS),
        }
        for v in worst
    ]
    return {
        "rows": rows,
        "chart": draw(denoised_chart(found, quantity.noun)),
        "fit": _fit(doubt),
        "suspects": suspects,
        "more": doubt.nodes - len(suspects),
        "flags": doubt.nodes,
    }


def _fit(doubt: Suspicion) -> dict[str, Any]:
    if doubt.z is None:
        return {"fine": True, "words": "No figure is measured twice, so there is nothing to judge the noise by."}
    z = f"{doubt.z:,.1f}".replace("-", figures.MINUS)
    if abs(doubt.z) <= Z_FINE:
        return {
            "fine": True,
            "words": f"The corrections together are as large as the claimed noise makes them (z = {z}).",
        }
    more = "more" if doubt.z > 0 else "less"
    told = f"There is {more} noise than was claimed (z = {z}): "
    told += f"its standard deviation looks like {doubt.ratio:.2g} times as much."
    return {"fine": False, "words": told}


def evaluation_section(points: tuple[Point, ...], draw: Draw) -> dict[str, Any] | None:
    if not points:
        return None
    drawn, more = curves(points)
    return {
        "charts": [draw(chart) for chart in drawn],
        "more": more,
        "generated": any(p.generated for p in points),
        "points": f"{len(points):,}",
        "heads": ["dataset", "tree", "method", "noise", "ε", "τ", "level", "error", "± standard error"],
        "rows": [
            [
                *(p.dataset, p.tree, p.method, p.noise, figures.number(p.epsilon), figures.number(p.tau)),
                *(p.level or "whole tree", figures.percent(p.rmsre), figures.percent(p.standard_error)),
            ]
            for p in points[:POINTS]
        ],
    }
