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
            percent(cost),
        ]
        for name, each, part, one, alone, cost in zip(
            plan.names, plan.spec.breakdowns or (), plan.parts, plan.breakdowns, plan.alone, plan.costs, strict=True
        )
    ]
    heads = ["breakdown", "weight", "budget", "expected error", "with all the budget", "costs the others"]
    return Table("", heads, rows)


def lines(plan: JointPlan) -> list[Line]:
    """What comes of sharing one budget, in sentences."""
    together = f"expected error of all breakdowns: {percent(plan.error)}" + ", denoised together" * plan.joined
    made = [
        Line("breakdowns", f"{together}; with equal parts of the budget {percent(plan.equal)}"),
        Line("breakdowns", "costs the others: by how much their errors would fall without this breakdown"),
        Line("direct or hierarchical", compared(plan)),
    ]
    if not plan.joined:
        why = "targets, splits by root or many nodes"
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


def compared(plan: JointPlan) -> str:
    """The error of direct figures beside that of a tree for each breakdown, and which of them is taken."""
    direct, apart = percent(plan.direct), percent(plan.apart)
    words = f"each sum asked directly {direct}, each breakdown as a hierarchy of its own {apart}; "
    words += "the plan starts from both and is better than either" if plan.joined else "the plan is the latter"
    whole = any(len(part.attributes) == len(plan.spec.attributes) for part in plan.spec.parts)
    if plan.cells < plan.error and not whole:
        words += (
            f"; adding up one table of all attributes would give {percent(plan.cells)} or less: add a breakdown of all "
            "attributes with weight = 0, which helps the others"
        )
    return words


def as_data(plan: JointPlan) -> Record:
    """The same figures by name, as --summary has them."""
    return {
        "error": plan.error,
        "apart": plan.apart,
        "equal": plan.equal,
        "direct": plan.direct,
        "cells": plan.cells,
        "keys": plan.number_of_keys,
        "breakdowns": [
            {"breakdown": name, "part": part, "error": one.expected.tree.plan, "alone": alone, "cost": cost}
            for name, part, one, alone, cost in zip(
                plan.names, plan.parts, plan.breakdowns, plan.alone, plan.costs, strict=True
            )
        ],
    }
