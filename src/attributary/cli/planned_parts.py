"""planned_parts: the measures of a plan and the limits that it chose, for standard error."""

from typing import Any

import numpy as np

from attributary.cli.printing import change, key, percent, print_table, span
from attributary.plan import MeasurePlan, Plan
from attributary.plan.expected_errors import Compared
from attributary.spec.measure import AUTO

HEADS = ["level", "nodes", "contribution", "expected error", "equal split", "vs. equal", "leaves only"]


def print_parts(out: Any, plan: Plan) -> None:
    """Prints a table for each measure, and one for each limit that the plan chose."""
    for part in plan.by_measure:
        out.print()
        out.print(_about(plan, part))
        rows = [[level.level, f"{level.nodes:,}", _contribution(part.plan, i), *_compared(level.error)]
                for i, level in enumerate(part.plan.expected.levels)]  # fmt: skip
        nodes = sum(level.nodes for level in part.plan.expected.levels)
        print_table(out, [HEADS, *rows, ["all", f"{nodes:,}", "", *_compared(part.plan.expected.tree)]])
    if len(plan.measures) > 1:
        out.print()
        together = ", ".join(_compared(plan.expected.tree)[:2])
        out.print(f"all measures together, root mean square by weight: {together} with an equal split")
    for name, trades in (plan.tradeoff or {}).items():
        out.print()
        clip = name in {measure.name for measure in plan.spec.values}
        out.print(f"{name}: {'clipped at' if clip else 'chosen by expected error'}")
        heads = ["clip" if clip else "limit", "expected error", "cut off", "noise", "chosen"]
        print_table(out, [heads, *([_limit(t.limit), *map(percent, (t.error, t.bias, t.noise)), _chosen(t.chosen)]
                                   for t in trades)])  # fmt: skip


def limits(plan: Plan) -> list[str]:
    """What the errors are, and how many conversions of an impression count, in words."""
    spec = plan.spec
    taus = ", ".join(f"{part.tau:,.4g} for {part.measure.name}" for part in plan.by_measure)
    lines = [
        "errors: after denoising, what limits cut off included, root mean square; relative to the sum, or to tau if "
        f"that is larger: {taus}"
    ]
    if spec.conversions_per_impression == AUTO:
        counts = [plan.most(), *map(plan.most, plan.roots)]
        lines += [f"limit: the first {span(np.array(counts), lambda x: f'{x:g}')} conversions of an impression count"]
    elif plan.most() > 1:
        lines += [f"limit: the first {plan.most()} conversions of an impression count"]
    unknown = [part.name for part in plan.measures if not part.bias_known]
    if unknown:
        lines += [f"!note: the prior does not tell what limits cut off {', '.join(unknown)}; errors are without it"]
    return lines


def _about(plan: Plan, part: MeasurePlan) -> str:
    rows = np.array([part.plan.default, *part.plan.roots.values()]).sum(axis=1)
    whole = np.array([plan.default, *plan.roots.values()]).sum(axis=1)
    share = span(rows / np.maximum(whole, 1), percent)
    unit = f" in {part.measure.unit}" if part.measure.unit else ""
    clip = "" if part.measure.is_count else f", clipped at {part.clip:,.6g}"
    mean = part.share.mean
    brings = f"; a conversion of the prior brings {mean:,.4g} on average" if mean is not None else ""
    return f"{part.measure.name}{unit}{clip}: {share} of the budget{brings}"


def _contribution(plan: Plan, level: int) -> str:
    return span(np.array([row[level] for row in plan.roots.values()] or [plan.default[level]]), key)


def _compared(error: Compared) -> list[str]:
    return [percent(error.plan), percent(error.equal), change(error.plan, error.equal), percent(error.leaves)]


def _limit(limit: float) -> str:
    return f"{limit:,.6g}"


def _chosen(part: float) -> str:
    return "" if part == 0 else "chosen" if part == 1 else f"{part:.0%} of roots"
