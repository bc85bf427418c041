"""answer: the rows of a task, whatever its case is: of several measures, those of each, and of all together."""

from collections.abc import Sequence
from math import sqrt

import numpy as np

from attributary.evaluate.case import Case
from attributary.evaluate.exact import exact
from attributary.evaluate.many import PLANS, Many
from attributary.evaluate.measure import Measure
from attributary.evaluate.shared import One, questions, shared, split
from attributary.evaluate.task import Row, Task, run
from attributary.noise import page_of


def answer(task: Task, case: Case) -> list[Row]:
    """The rows of the evaluation table for a task."""
    if not isinstance(case, Many):
        return run(task, case)
    rows: list[Row] = []
    share = None
    for epsilon in task.epsilons:
        at = case.at(task.tau, epsilon)
        asked = questions(at)
        if share is None or not page_of(case.noise).proportional:
            share = split(asked, PLANS[task.way])
        ones = shared(at, asked, share)
        each = [_of_one(task, at, one, epsilon) for one in ones]
        rows += [row for found in each for row in found]
        if len(each) > 1:
            weights = [one.measure.weight for one in ones]
            rows += [_together(same, weights) for same in zip(*each, strict=True)]
    return rows


def _of_one(task: Task, many: Many, one: One, epsilon: float) -> list[Row]:
    """The rows of one measure; its case is like any other, but for what limits cut off."""
    rows = run(task._replace(tau=one.tau, epsilons=(epsilon,)), one.case, one.share)
    measure = Measure.of(many.tree, one.case.truth, one.tau, task.pool)
    cut = exact(measure, np.zeros(many.nodes), one.case.count - one.case.truth).rmsre.tolist()
    said = {"tree": many.name, "tau": task.tau, "measure": one.measure.name, "limits": many.limits.name}
    more = {"clip": one.clip, "conversions_per_impression": one.most, "measure_tau": one.tau}
    return [row | said | more | {"bias": cut[i % len(cut)]} for i, row in enumerate(rows)]


def _together(rows: Sequence[Row], weights: Sequence[float]) -> Row:
    """Root mean squares over measures, by their weights; the noise of one is independent of the others'."""
    part = [weight / sum(weights) for weight in weights]

    def mean(name: str) -> float:
        return sqrt(sum(p * row[name] ** 2 for p, row in zip(part, rows, strict=True)))

    found: Row = {name: value if all(row[name] == value for row in rows) else None for name, value in rows[0].items()}
    found |= {"measure": None, "clip": None, "measure_tau": None, "rmsre": mean("rmsre"), "bias": mean("bias")}
    found["below_10_percent"] = sum(row["below_10_percent"] for row in rows) / len(rows)
    if rows[0]["standard_error"] is not None:
        errors = (p * row["rmsre"] * row["standard_error"] for p, row in zip(part, rows, strict=True))
        found["standard_error"] = sqrt(sum(e**2 for e in errors)) / found["rmsre"] if found["rmsre"] > 0 else 0.0
    return found
