"""notebook: a plan as a notebook shows it."""

from attributary.facts import plan as facts
from attributary.html import html_table
from attributary.plan import MeasurePlan, Plan


def plan_html(plan: Plan) -> str:
    """What each level gets, by the default split, its expected error, and what ε holds for.

    Of several measures, a table for each.
    """
    spec, each = plan.spec, plan.by_measure
    what = "node" if plan.nodes is not None else spec.split_by
    notes = [f"the split differs by {what}"] if plan.nodes is not None or plan.roots else []
    lines = [*facts.limit_lines(plan), *facts.bound_lines(plan), *facts.privacy_lines(plan), *facts.note_lines(plan)]
    notes += [line.text if line.subject == "privacy" else f"{line.subject}: {line.text}" for line in lines]
    if plan.learn is True:
        notes += [facts.WITH_PRIOR]
    if plan.prior.history and not plan.prior.protected:
        notes += [f"planned from counts that were NOT protected: {facts.REVEALS}"]
    title, last = f"Plan: ε = {spec.epsilon:g}, {plan.method} split", each[-1]
    named = len(each) > 1
    return "".join(
        _table(f"{title}: {part.measure.name}" if named else title, part, notes if part is last else [])
        for part in each
    )


def _table(title: str, part: MeasurePlan, notes: list[str]) -> str:
    columns, rows = facts.table(part.plan)
    by_level = [f"{line.subject}: {line.text}" for line in facts.level_lines(part)]
    return html_table(title, facts.heads(part.plan, columns), [tuple(row) for row in rows], [*by_level, *notes])
