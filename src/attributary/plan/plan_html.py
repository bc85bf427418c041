"""plan_html: a plan as a notebook shows it."""

import numpy as np

from attributary.html import html_table
from attributary.plan.plan import Plan

HEADS = ("level", "nodes", "part of the budget", "contribution", "expected error", "with an equal split")


def plan_html(plan: Plan) -> str:
    """What each level gets, by the default split, and the error to expect of it; what epsilon holds for.

    Of several measures, a table for each.
    """
    spec, loss = plan.spec, plan.privacy_loss
    own = "contributions by node" if plan.nodes is not None else f"one split for each {spec.split_by}"
    notes = [f"shown is the split of those not seen before: {own}"] if plan.nodes is not None or plan.roots else []
    notes += [f"privacy loss of adding or removing one conversion: {loss.conversion:.4g}"]
    if spec.unknown:
        notes[-1] += f"; of changing a conversion's {' or '.join(a.name for a in spec.unknown)}: {loss.change:.4g}"
    if plan.learn:
        notes += ["plan and errors are for estimates that use the prior, too"]
    if plan.prior.history and not plan.prior.protected:
        notes += ["made from a prior that is NOT protected"]
    title, each = f"Plan: epsilon = {spec.epsilon:g}, {plan.method} split", plan.by_measure
    if len(each) == 1:
        return html_table(title, HEADS, _rows(each[0].plan), notes)
    last = each[-1]
    return "".join(
        html_table(f"{title}: {part.measure.name}", HEADS, _rows(part.plan), notes if part is last else ())
        for part in each
    )


def _rows(plan: Plan) -> list[tuple[str, ...]]:
    """A row for each level, and one for all."""
    budget, tree, spent = plan.spec.budget, plan.expected.tree, sum(plan.default)
    rows = [
        (
            level.level,
            f"{level.nodes:,}",
            f"{contribution / budget:.1%}",
            f"{contribution:,}" if contribution else "no key",
            _percent(level.error.plan),
            _percent(level.error.equal),
        )
        for level, contribution in zip(plan.expected.levels, plan.default, strict=True)
    ]
    nodes = sum(level.nodes for level in plan.expected.levels)
    last = ("all", f"{nodes:,}", f"{spent / budget:.1%}", f"{spent:,}", _percent(tree.plan), _percent(tree.equal))
    return [*rows, last]


def _percent(part: float) -> str:
    return f"{part:.1%}" if np.isfinite(part) else "∞"
