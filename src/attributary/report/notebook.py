"""notebook: a plan and an estimate as a notebook shows them."""

from dataclasses import replace

import numpy as np

from attributary import Estimate
from attributary.estimates import EXTRAS, Estimates
from attributary.facts import estimates, numerals
from attributary.facts import plan as facts
from attributary.facts.quantity import label, path, quantities
from attributary.html import html_alarm, html_table
from attributary.plan import Plan
from attributary.spec.measure import COUNT

ROWS = 10  # nodes of an estimate


def estimate_html(est: Estimate, figure: str = "") -> str:
    """The first nodes, level by level, with intervals, and what denoising made of them; of many columns, the first.

    `figure` is what a table calls them.
    """
    if est.count.ndim > 1:
        return f"<p>The first of {est.count.shape[1]:,} columns:</p>" + estimate_html(est.column(0), figure)
    (quantity,) = quantities(None, {COUNT: replace(Estimates.of(est), figure=figure)})
    nodes, more, gains = len(est.tree), len(est.tree) - ROWS, estimates.level_gains(quantity)
    extras = [column.head.lower() for name, column in EXTRAS.items() if name in quantity.estimates.extras]
    heads = ["row", "noisy", "estimate", quantity.interval_words, "correction", *extras]
    kind = "non-negative " if est.nonnegative else ""
    caption = f"Estimate: {nodes:,} {kind}counts in {est.tree.depth} levels; {estimates.sum_words(quantity)}"
    notes = [f"and {more:,} more"] * (more > 0) + [line.full for line in estimates.lines(quantity)]
    shown = quantity.estimates
    rows = [
        [
            " › ".join(path(shown, v)) if shown.tree.attributes else label(shown, v),
            quantity.figure(shown.noisy[v]) if shown.measured[v] else "not measured",
            quantity.shown(shown.estimate[v]),
            quantity.interval(shown.low[v], shown.high[v]),
            "" if np.isnan(shown.correction[v]) else numerals.signed(shown.correction[v]),
            *("" if np.isnan(values[v]) else f"{values[v]:.0%}" for values in shown.extras.values()),
        ]
        for v in range(min(nodes, ROWS))
    ]
    gained = html_table(*estimates.gains_table(gains)[:3]) if gains else ""
    return html_alarm(est.not_private) + html_table(caption, heads, rows, notes) + gained


def plan_html(plan: Plan) -> str:
    """What each level gets, by the default split, its expected error, and what ε holds for.

    Of several measures, a table for each.
    """
    spec, each = plan.spec, plan.by_measure
    what = "row" if plan.nodes is not None else spec.split_by
    notes = [f"the split differs by {what}"] if plan.nodes is not None or plan.roots else []
    lines = [*facts.limit_lines(plan), *facts.bound_lines(plan), *facts.privacy_lines(plan), *facts.note_lines(plan)]
    notes += [line.text if line.subject == "privacy" else f"{line.subject}: {line.text}" for line in lines]
    if plan.learn is True:
        notes += [facts.WITH_PRIOR]
    if plan.prior.history and not plan.prior.protected:
        notes += [f"planned from counts that were NOT protected: {facts.REVEALS}"]
    title, last = f"Plan: ε = {spec.epsilon:g}, {plan.method} split", each[-1]
    named = len(each) > 1
    tables = []
    for part in each:
        table = facts.table(part.plan, f"{title}: {part.measure.name}" if named else title)
        by_level = [f"{line.subject}: {line.text}" for line in facts.level_lines(part)]
        tables.append(html_table(*table[:3], [*by_level, *(notes if part is last else [])]))
    return "".join(tables)
