"""plan_html: a plan as a notebook shows it."""

import numpy as np

from attributary.html import html_table
from attributary.plan.plan import Plan

HEADS = ("level", "nodes", "share of the budget", "contribution", "expected error", "change against equal split")
REVEALS = "the plan's shares and errors tell something of these counts: keep it as close as them"
SUMMED = "not measured: summed from the levels below"


def plan_html(plan: Plan) -> str:
    """What each level gets, by the default split, its expected error, and what ε holds for.

    Of several measures, a table for each.
    """
    spec = plan.spec
    what = "node" if plan.nodes is not None else spec.split_by
    notes = [f"the split differs by {what}; shown is that of a new one"] if plan.nodes is not None or plan.roots else []
    more = ", ".join(f"{name} = {x:.4g}" for name, x in spec.noise_model.account.items())
    notes += [*plan.privacy_words.all_lines, *([more] if more else [])]
    if plan.learn is True:
        notes += ["these errors assume `denoise --prior`"]
    if plan.prior.history and not plan.prior.protected:
        notes += [f"planned from counts that were NOT protected: {REVEALS}"]
    by_node = ((level.level, level.words(_percent)) for level in plan.expected.levels)
    notes = [*(f"{level}: {words}" for level, words in by_node if words), *notes]
    title, each = f"Plan: ε = {spec.epsilon:g}, {plan.method} split", plan.by_measure
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
            f"{contribution:,}" if contribution else SUMMED,
            _percent(level.error.plan),
            _change(level.error.plan, level.error.equal),
        )
        for level, contribution in zip(plan.expected.levels, plan.default, strict=True)
    ]
    nodes = sum(level.nodes for level in plan.expected.levels)
    last = (
        "all",
        f"{nodes:,}",
        f"{spent / budget:.1%}",
        f"{spent:,}",
        _percent(tree.plan),
        _change(tree.plan, tree.equal),
    )
    return [*rows, last]


def _change(error: float, equal: float) -> str:
    return f"{error / equal - 1:+.1%}".replace("-", "−") if equal > 0 and np.isfinite(error / equal) else ""


def _percent(part: float) -> str:
    return f"{part:.1%}" if np.isfinite(part) else "∞"
