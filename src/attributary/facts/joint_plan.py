"""Joint plan: what each of several breakdowns has of one budget, and what it costs the others."""

from attributary.facts.numerals import Line, Table, percent
from attributary.plan.joint import JointPlan
from attributary.types import Record

API_KEYS = 20  # of one source, as browsers take them


def table(plan: JointPlan) -> Table:
    """A row for each breakdown."""
    rows = [
        [
            name,
            f"{each.weight:g}",
            percent(part),
            percent(one.expected.tree.plan),
            percent(alone),
            percent(plan.cost(i)),
        ]
        for i, (name, each, part, one, alone) in enumerate(
            zip(plan.names, plan.spec.breakdowns or (), plan.parts, plan.breakdowns, plan.alone, strict=True)
        )
    ]
    heads = ["breakdown", "weight", "budget", "expected error", "with all the budget", "costs the others"]
    return Table("", heads, rows)


def lines(plan: JointPlan) -> list[Line]:
    """What comes of sharing one budget, in sentences."""
    together = f"expected error of all breakdowns: {percent(plan.error)}"
    if plan.joined:
        together += f", denoised together ({percent(plan.apart)} if each were planned and denoised by itself)"
    made = [
        Line("breakdowns", f"{together}; with equal parts of the budget {percent(plan.equal)}"),
        Line("breakdowns", "costs the others: by how much their errors would fall without this breakdown"),
    ]
    if not plan.joined:
        why = "targets, splits by root, several measures or many nodes"
        made.append(Line("breakdowns", f"the joint estimate was not part of planning ({why}); its errors are smaller"))
    given = [
        f"{level} of {name}"
        for name, one in zip(plan.names, plan.breakdowns, strict=True)
        for level, contribution in zip(one.levels, one.default, strict=True)
        if not contribution
    ]
    if given:
        made.append(Line("breakdowns", f"not measured, since other levels tell them: {', '.join(given)}"))
    keys = f"{plan.number_of_keys} keys per conversion"
    too_many = plan.number_of_keys > API_KEYS and plan.spec.terms.kind == "ara"
    if too_many:
        keys += f"; a source has at most {API_KEYS}: leave out a level, a breakdown or a measure"
    return [*made, Line("keys", keys, too_many)]


def as_data(plan: JointPlan) -> Record:
    """The same figures by name, as --summary has them."""
    return {
        "error": plan.error,
        "apart": plan.apart,
        "equal": plan.equal,
        "keys": plan.number_of_keys,
        "breakdowns": [
            {"breakdown": name, "part": part, "error": one.expected.tree.plan, "alone": alone, "cost": plan.cost(i)}
            for i, (name, part, one, alone) in enumerate(
                zip(plan.names, plan.parts, plan.breakdowns, plan.alone, strict=True)
            )
        ],
    }
