"""By level: what each level gets of the budget, what error to expect of it, and what denoising made of it."""

from typing import Any, NamedTuple

import numpy as np

from attributary.estimates import Z_FINE, Plausibility
from attributary.facts import numerals
from attributary.facts.numerals import Numeral
from attributary.facts.plan import LevelFact, bound_lines, heads, level_facts, level_lines
from attributary.facts.quantity import Quantity, path
from attributary.plan import MeasurePlan
from attributary.report.chart import AMBER, GREY, INK, MUTED, NARROW, TEAL, Chart, Draw, VegaLite, looks, rows_of, ticks
from attributary.report.tradeoff_chart import tradeoff_chart
from attributary.types import Floats

SUSPECTS = 10  # that are listed


class LevelChange(NamedTuple):
    """The error of a level before and after denoising: root mean squared, relative to the count or tau."""

    level: str
    nodes: int
    measured: int
    raw: float  # of the measured nodes; nan where there are none
    denoised: float  # of the nodes that can be estimated
    alike: float  # after denoising, of the measured nodes alone
    median: float  # the error of the median node, denoised
    open: int  # nodes that cannot be estimated: nothing that was measured tells them apart from their siblings

    @property
    def reduction(self) -> float:
        """By which part denoising reduced the error of the measured nodes."""
        return 1 - self.alike / self.raw if self.raw > 0 else np.nan


def changes(quantity: Quantity) -> list[LevelChange]:
    """One for each level, top to bottom; nothing where the table does not tell the noise."""
    est = quantity.estimates
    tree = est.tree
    if np.isnan(est.noise_variance).all():
        return []
    weight = quantity.metric(est.estimate, quantity.tau)
    levels = []
    for i, name in enumerate(tree.level_names):
        here = tree.slice(i)
        measured = est.measured[here]
        raw = _rms(np.sqrt(est.noise_variance[here] * weight[here])[measured])
        after = np.sqrt(est.variance[here] * weight[here])
        known = np.isfinite(after)
        sizes, errors = (len(measured), int(measured.sum())), (raw, _rms(after[known]), _rms(after[measured & known]))
        median = float(np.median(after)) if len(after) else np.nan
        levels.append(LevelChange(name, *sizes, *errors, median, int((~known).sum())))
    return levels


def _rms(values: Floats) -> float:
    return float(np.sqrt(np.mean(values**2))) if len(values) else np.nan


ROW = 30  # pixels
MOST = 24  # levels that a chart has room for


def budget_chart(levels: list[LevelFact]) -> Chart:
    """Each level's part of the budget, and its range where roots or nodes differ."""
    levels = levels[:MOST]
    names = [level.level for level in levels]
    rows: list[dict[str, Any]] = [{"level": s.level, "text": s.share, **_range(s.share)} for s in levels]
    words = "Part of the budget by level: " + "; ".join(f"{r['level']} {r['text']}" for r in rows)

    def spec(width: int) -> VegaLite:
        narrow = width <= NARROW
        most = max(r["high"] for r in rows) or 1.0
        x = {"type": "quantitative", "scale": {"domain": [0, most * (2.1 if narrow else 1.5)], "nice": False}}
        axis = {"title": None, "format": ".0%", "values": ticks(0, most, 2 if narrow else 4)}
        return {
            "data": {"values": rows},
            "width": width - 110,
            "height": {"step": ROW},
            "encoding": {"y": rows_of("level", names, 90 if narrow else 105)},
            "layer": [
                {
                    "mark": {"type": "bar", "color": TEAL, "opacity": 0.35, "height": 16},
                    "encoding": {"x": {"field": "part", **x, "axis": axis}},
                },
                {
                    "mark": {"type": "rule", "color": TEAL, "strokeWidth": 3},
                    "encoding": {"x": {"field": "low", **x}, "x2": {"field": "high"}},
                },
                {
                    "mark": {"type": "text", "align": "left", "dx": 8, "fontSize": 12.5, "color": INK},
                    "encoding": {"x": {"field": "high", **x}, "text": {"field": "text"}},
                },
            ],
        }

    return Chart("budget", "Budget by level", words, spec)


def _range(share: Numeral) -> dict[str, float]:
    if isinstance(share.value, dict):
        return {"part": share.value["median"], "low": share.value["least"], "high": share.value["largest"]}
    return dict.fromkeys(("part", "low", "high"), share.value)


def expected_chart(levels: list[LevelFact], noun: str = "count") -> Chart:
    """The errors to expect under the plan, an equal split, and with all on the leaves."""
    levels = levels[:MOST]
    kinds = {"expected": "this plan", "equal": "equal split", "leaves": "leaves only"}
    rows = [
        {"level": s.level, "split": word, "error": error}
        for s in levels
        for kind, word in kinds.items()
        if np.isfinite(error := getattr(s, kind).value)
    ]
    words = "Expected error by level: " + "; ".join(
        f"{s.level} {s.expected}, with an equal split {s.equal}, with all on the leaves {s.leaves}" for s in levels
    )
    return Chart(
        "expected-error",
        "Expected error",
        words,
        _dots(rows, [s.level for s in levels], "split", list(kinds.values()), noun),
    )


def denoised_chart(levels: list[LevelChange], noun: str = "count") -> Chart:
    """The error of each level before and after denoising."""
    levels = levels[:MOST]
    rows = [
        {"level": c.level, "figures": word, "error": error}
        for c in levels
        for word, error in (("denoised", c.denoised), ("as measured", c.raw))
        if np.isfinite(error)
    ]
    words = "Error by level, as measured and denoised: " + "; ".join(
        f"{c.level} {numerals.percent(c.raw) if c.measured else 'not measured'}, then {numerals.percent(c.denoised)}"
        for c in levels
    )
    return Chart(
        "denoised",
        "Error before and after denoising",
        words,
        _dots(rows, [c.level for c in levels], "figures", ["denoised", "as measured"], noun),
    )


def _dots(rows: list[dict[str, Any]], names: list[str], by: str, kinds: list[str], noun: str) -> Any:
    """Dots on a line for each level, one per kind; the first kind is ours."""

    def spec(width: int) -> VegaLite:
        narrow = width <= NARROW
        x = {"field": "error", "type": "quantitative", "scale": {"zero": True}}
        axis = {"title": f"error, relative to the {noun}", "format": "~%", "tickCount": 3 if narrow else 5}
        return {
            "data": {"values": rows[::-1]},  # ours is drawn last, above the others
            "width": width - 110,
            "height": {"step": ROW + 2},
            "encoding": {"y": rows_of("level", names, 90 if narrow else 105)},
            "layer": [
                {
                    "mark": {"type": "rule", "color": MUTED, "strokeWidth": 1.5, "opacity": 0.45},
                    "encoding": {"x": {"aggregate": "min", **x}, "x2": {"aggregate": "max", "field": "error"}},
                },
                {
                    "mark": {"type": "point", "filled": True, "size": 120, "opacity": 1},
                    "encoding": {
                        "x": {**x, "axis": axis},
                        "color": looks(by, kinds, [TEAL, AMBER, GREY][: len(kinds)], {"columns": 1 if narrow else 3}),
                        "shape": looks(by, kinds, ["circle", "square", "diamond"][: len(kinds)]),
                    },
                },
            ],
        }

    return spec


BUDGET = ("share", "contribution", "epsilon")
ERRORS = ("expected", "median", "worst", "equal", "change", "leaves", "zeros")


def budget_section(part: MeasurePlan, draw: Draw, noun: str = "count") -> dict[str, Any]:
    """What a measure's part of a plan gives each level."""
    plan = part.plan
    facts, tradeoff = level_facts(plan), tradeoff_chart(plan)
    levels = facts[:-1]
    unmeasured = [s.level for s in levels if s.contribution.value == 0 and not _range(s.share)["high"]]
    rows = [
        {
            "level": s.level,
            "nodes": s.nodes,
            "budget": None if s.level in unmeasured else [getattr(s, name) for name in BUDGET],
            "errors": [getattr(s, name) for name in ERRORS],
        }
        for s in facts
    ]
    return {
        "heads": heads(plan, ("level", "nodes", *BUDGET, *ERRORS)),
        "rows": rows[:-1],
        "last": rows[-1],
        "summed": [f"{s.level} ({s.expected} expected error)" for s in levels if s.level in unmeasured],
        "differ": "node" if plan.nodes is not None else plan.spec.split_by if plan.roots else "",
        "error": facts[-1].expected,
        "equal": facts[-1].equal,
        "notes": [f"{line.subject}: {line.text}." for line in [*bound_lines(plan), *level_lines(part)] if line.warning],
        "targets": [f"{line.text}." for line in bound_lines(plan) if line.subject == "target" and not line.warning],
        "charts": [draw(budget_chart(levels)), draw(expected_chart(levels, noun))],
        "tradeoff": draw(tradeoff) if tradeoff else None,
        "no_tradeoff": plan.changes_with_epsilon,
    }


def accuracy_section(quantity: Quantity, doubt: Plausibility, draw: Draw) -> dict[str, Any] | None:
    """How good the estimates are, level by level, and what denoising did for that."""
    est = quantity.estimates
    levels = changes(quantity)
    if not levels:
        return None
    rows = [
        {
            "level": c.level,
            "cells": [
                f"{c.nodes:,}" + (f" ({c.measured:,} measured)" if 0 < c.measured < c.nodes else ""),
                numerals.percent(c.raw) if c.measured else "not measured",
                numerals.percent(c.denoised) + (f" ({c.open:,} cannot be estimated)" if c.open else ""),
                numerals.percent(c.median),
                numerals.signed_percent(-c.reduction) if c.measured else numerals.NOTHING,
            ],
        }
        for c in levels
    ]
    worst = np.argsort(-np.abs(np.where(doubt.implausible, est.correction, 0.0)), kind="stable")[
        : min(doubt.nodes, SUSPECTS)
    ]
    suspects = [
        {
            "path": path(est, int(v)),
            "noisy": quantity.figure(est.noisy[v]),
            "estimate": quantity.shown(est.estimate[v]),
            "correction": f"{est.correction[v]:+.1f}".replace("-", numerals.MINUS),
        }
        for v in worst
    ]
    return {
        "rows": rows,
        "summed": [c.level for c in levels if not c.measured],
        "chart": draw(denoised_chart(levels, quantity.noun)),
        "fit": _fit(doubt),
        "suspects": suspects,
        "more": doubt.nodes - len(suspects),
        "flags": doubt.nodes,
    }


def _fit(doubt: Plausibility) -> dict[str, Any]:
    """Whether the noise is as stated, in words."""
    if doubt.z is None:
        return {"fine": True, "words": "The noise level cannot be checked: no figure was measured twice."}
    z = f"{doubt.z:z,.1f}".replace("-", numerals.MINUS)
    if abs(doubt.z) <= Z_FINE:
        return {"fine": True, "words": f"Noise level as stated (z = {z})."}
    if not 0.1 <= doubt.ratio <= 10:
        size = "smaller" if doubt.ratio < 1 else "larger"
        return {"fine": False, "words": f"The noise looks far {size} than stated (z = {z}): is the scale right?"}
    more = "more" if doubt.z > 0 else "less"
    words = (
        f"There is {more} noise than stated (z = {z}): its standard deviation looks {doubt.ratio:.2g} times as large."
    )
    return {"fine": False, "words": words}
