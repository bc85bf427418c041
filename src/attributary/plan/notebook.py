"""Notebook: a plan as a notebook shows it."""

import numpy as np

from attributary.html import html_table
from attributary.plan.plan import Plan

HEADS = ("level", "nodes", "part of the budget", "contribution", "expected error", "with an equal split")


def plan_html(plan: Plan) -> str:
    """What each level gets, by the default split, and the error to expect of it; what epsilon holds for."""
    spec, costs = plan.spec, plan.costs
    rows = [
        (
            level.level,
            f"{level.nodes:,}",
            f"{contribution / spec.budget:.1%}",
            f"{contribution:,}" if contribution else "no key",
            _percent(level.error.plan),
            _percent(level.error.equal),
        )
        for level, contribution in zip(plan.expected.levels, plan.default, strict=True)
    ]
    tree, spent = plan.expected.tree, sum(plan.default)
    nodes = sum(level.nodes for level in plan.expected.levels)
    last = ("all", f"{nodes:,}", f"{spent / spec.budget:.1%}", f"{spent:,}", _percent(tree.plan), _percent(tree.equal))
    own = "contributions by node" if plan.nodes is not None else f"one split for each {spec.split_by}"
    notes = [f"shown is the split of those not seen before: {own}"] if plan.nodes is not None or plan.roots else []
    notes += [f"a conversion against none costs {costs.conversion:.4g}"]
    if spec.unknown:
        notes[-1] += f"; one with another {' or '.join(a.name for a in spec.unknown)} costs {costs.change:.4g}"
    if plan.learn:
        notes += ["plan and errors are for estimates that use the prior, too"]
    if plan.prior.history and not plan.prior.protected:
        notes += ["made from a prior that is NOT protected"]
    return html_table(f"Plan: epsilon = {spec.epsilon:g}, {plan.method} split", HEADS, [*rows, last], notes)


def _percent(part: float) -> str:
    return f"{part:.1%}" if np.isfinite(part) else "∞"
