"""Measure words: what is measured besides counts, and what limits cut off, in plain language."""

import numpy as np

from attributary.plan import Plan
from attributary.plan.measured import Trade
from attributary.plan.parts import Part, parts
from attributary.report import figures
from attributary.report.fact import Fact


def measure_facts(plan: Plan) -> list[Fact]:
    """What a plan of several measures, of values, or of several conversions to an impression has to say of these."""
    own = parts(plan)
    found = []
    if plan.spec.measures:
        called = [f"{called_of(part)} in {part.measure.unit}" if part.measure.unit else called_of(part) for part in own]
        found.append(Fact("Measures", figures.listed(called), tuple(_share(plan, part, len(own) > 1) for part in own)))
    if plan.spec.values or most_of_all(plan) > 1:
        found.append(_limits(plan, own))
    return found


def called_of(part: Part) -> str:
    return "conversions" if part.measure.is_count else part.measure.name


def most_of_all(plan: Plan) -> int:
    """How many conversions of an impression count at most, at any root."""
    return max(plan.most(), *map(plan.most, plan.roots), 1)


def _share(plan: Plan, part: Part, several: bool) -> str:
    """A measure's part of the budget, and what a conversion brings."""
    rows = np.array([part.plan.default, *part.plan.roots.values()]).sum(axis=1)
    whole = np.array([plan.default, *plan.roots.values()]).sum(axis=1)
    share = rows / np.maximum(whole, 1)
    low, middle, high = (figures.percent(float(x)) for x in (share.min(), np.median(share), share.max()))
    told = (
        f"{middle} of the budget" + (f" ({low} to {high})" if low != high else "") if several else "all of the budget"
    )
    mean = next((m.mean for m in plan.measures or () if m.name == part.measure.name), None)
    unit = f"\u00a0{part.measure.unit}" if part.measure.unit else ""
    brings = f"; before, a conversion brought {figures.number(mean)}{unit} on average" if mean is not None else ""
    name = called_of(part)
    return f"{name[:1].upper()}{name[1:]}: {told}{brings}."


def _limits(plan: Plan, own: tuple[Part, ...]) -> Fact:
    counts = sorted({plan.most(), *map(plan.most, plan.roots)})
    few = str(counts[0]) if len(counts) == 1 else f"{counts[0]} {'or' if len(counts) == 2 else 'to'} {counts[-1]}"
    kept = [f"the first {few} conversions of an impression" if few != "1" else "one conversion of an impression"]
    kept += [
        f"{part.measure.name} up to {figures.number(part.clip)}"
        + (f"\u00a0{part.measure.unit}" if part.measure.unit else "")
        for part in own
        if not part.measure.is_count
    ]
    more = ["What is beyond a limit is not in these figures, at any level. A wider limit would need more noise."]
    taken = chosen(plan)
    if taken is not None:
        more.append(
            f"Expected error of {figures.percent(taken.error)}: {figures.percent(taken.bias)} is what limits cut off, "
            f"which more reports do not average out, and {figures.percent(taken.noise)} is noise (squares add up)."
        )
    unknown = [part.name for part in plan.measures or () if not part.bias_known]
    warning = f"The prior does not tell what they cut off of {figures.listed(unknown)}; expected errors are without it."
    return Fact("Limits", figures.listed(kept), tuple(more), warning if unknown else "")


def chosen(plan: Plan) -> Trade | None:
    """What to expect of the limits that were chosen, all measures together; None where no row is of all roots."""
    rows = [trade for trades in (plan.tradeoff or {}).values() for trade in trades]
    return next((trade for trade in reversed(rows) if trade.chosen == 1), None)
