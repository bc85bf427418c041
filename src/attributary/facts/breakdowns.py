"""Breakdowns: what each of several has of one budget, and what it costs the others."""

from collections import Counter

import numpy as np

from attributary.budget import METHODS
from attributary.facts.numerals import Line, Table, percent
from attributary.plan import Plan
from attributary.plan.sections import Sharing
from attributary.types import Record

API_KEYS = 20  # of one source, as browsers take them


def table(plan: Plan) -> Table:
    """A row for each breakdown."""
    rows = [
        [each["breakdown"], f"{asked.weight:g}", *(percent(each[name]) for name in ("part", "error", "alone", "cost"))]
        for each, asked in zip(_each(plan), plan.spec.breakdowns or (), strict=True)
    ]
    heads = ["breakdown", "weight", "budget", "expected error", "with all the budget", "costs the others"]
    return Table("", heads, rows)


def _each(plan: Plan) -> list[Record]:
    """The part of the budget and the error of each breakdown, alone too, and what it costs the others."""
    sharing, budget = _sharing(plan), plan.spec.budget
    each = zip(plan.names, plan.parts, sharing.alone, sharing.costs, strict=True)
    return [
        {"breakdown": name, "part": one.largest_row / budget, "error": one.error, "alone": alone, "cost": cost}
        for name, one, alone, cost in each
    ]


def _sharing(plan: Plan) -> Sharing:
    assert plan.sharing is not None
    return plan.sharing


def lines(plan: Plan) -> list[Line]:
    """What comes of sharing one budget, in sentences."""
    sharing = _sharing(plan)
    together = f"expected error of all breakdowns: {percent(plan.error)}" + ", denoised together" * sharing.joined
    made = [
        Line("breakdowns", f"{together}; with equal parts of the budget {percent(sharing.equal)}"),
        Line("breakdowns", "costs the others: by how much their errors would fall without this breakdown"),
        Line("direct or hierarchical", _compared(plan, sharing)),
    ]
    if not sharing.joined:
        why = _why_apart(plan)
        made.append(Line("breakdowns", f"the joint estimate was not part of planning ({why}); its errors are smaller"))
    given = [
        (f"{level} of {name}", np.isfinite(errors.error.plan))
        for name, one in zip(plan.names, plan.parts, strict=True)
        for level, contribution, errors in zip(one.levels, one.default, one.expected.levels, strict=True)
        if not contribution
    ]
    if told := [name for name, known in given if known]:
        made.append(Line("breakdowns", f"not measured, since other levels tell them: {', '.join(told)}"))
    if lost := [name for name, known in given if not known]:
        words = f"not measured, and told by no other level: {', '.join(lost)}; a weight above 0 gets them measured"
        made.append(Line("breakdowns", words, True))
    if twice := _asked_twice(plan):
        words = f"asked by each breakdown that has them, as breakdowns are planned apart: sums by {'; '.join(twice)}"
        made.append(Line("breakdowns", words))
    if plan.spec.terms.kind == "ara" and any(part.roots for part in plan.parts):
        words = "roots have splits of their own, and one registration carries one split of each breakdown: `keys` "
        made.append(Line("keys", f"{words}refuses this plan; leave split_by out, and make a new plan", True))
    keys = f"{plan.default_keys} keys per conversion"
    too_many = plan.default_keys > API_KEYS and plan.spec.terms.kind == "ara"
    if too_many:
        keys += f"; a source has at most {API_KEYS}: leave out a level, a breakdown or a measure"
    return [*made, Line("keys", keys, too_many)]


def _why_apart(plan: Plan) -> str:
    """Why breakdowns were planned by themselves."""
    if not METHODS[plan.method].bounded:
        return f"method {plan.method} gives each breakdown its own split"
    if plan.spec.targets:
        return "the spec has targets"
    if any(part.roots for part in plan.parts):
        return "splits by root"
    return "shares of levels are fixed, or nodes or shared sums are too many"


def _asked_twice(plan: Plan) -> list[str]:
    """What several breakdowns have keys for."""
    asked = Counter(
        frozenset(part.levels[part.spec.total : level + 1])
        for part in plan.parts
        for level, contributions in enumerate(zip(part.default, *part.roots.values(), strict=True))
        if any(contributions)
    )
    return [", ".join(sorted(names)) or "nothing (the total)" for names, times in asked.items() if times > 1]


def _compared(plan: Plan, sharing: Sharing) -> str:
    """The error of direct figures beside that of a tree for each breakdown, and which of them is taken."""
    direct, apart = percent(sharing.direct), percent(sharing.apart)
    words = f"each sum asked directly {direct}, each breakdown as a hierarchy of its own {apart}; "
    words += "the plan starts from both and is better than either" if sharing.joined else "the plan is the latter"
    if not sharing.joined and sharing.direct < sharing.apart:
        words += ", although it is worse here: breakdowns are planned apart"
    whole = any(len(part.attributes) == len(plan.spec.attributes) for part in plan.spec.parts)
    if sharing.cells < plan.error and not whole:
        words += (
            f"; adding up one table of all attributes would give {percent(sharing.cells)} or less: add a breakdown of "
            "all attributes with weight = 0, which helps the others"
        )
    return words


def as_data(plan: Plan) -> Record:
    """The same figures by name, as --summary has them."""
    told = _sharing(plan).model_dump(include={"apart", "equal", "direct", "cells"})
    return {"error": plan.error, **told, "keys": plan.default_keys, "breakdowns": _each(plan)}
