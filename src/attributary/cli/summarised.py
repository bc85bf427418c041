"""summarised: summary reports, denoised by the plan that their reports were made by."""

import os
from collections.abc import Callable, Sequence
from typing import Any

from attributary import api
from attributary.cli.learned import learned_part, past_of_parts, worth_of
from attributary.cli.occurred import occurred
from attributary.cli.reading import refused
from attributary.cli.tabled import Denoised
from attributary.denoising import denoise
from attributary.errors import InputError
from attributary.estimates import by_measure, estimates_table
from attributary.plan import Plan
from attributary.tables.not_private import mark, together

TREE = "tree.parquet"


def denoised_summary(
    plan_path: str,
    given: tuple[str, ...],
    tree_path: str | None,
    confidence: float,
    stage: Callable[[str], None],
    *,
    nonnegative: Any,
    whole: bool,
    prior: str | None = None,
    learn: bool = False,
    epsilon: float | None = None,
    l1: int | None = None,
) -> Denoised:
    """A row for each node that was queried: what the reports say of it, and the estimate."""
    plan = Plan.load(plan_path)
    stage("building the tree")
    tree = occurred(plan.spec, (tree_path or _beside([*given, plan_path]),))
    stage("reading")
    if l1 is not None and epsilon is None:
        raise InputError("--l1 goes with --epsilon; together they state the noise of a summary report")
    rate = None if epsilon is None else (epsilon, plan.spec.l1 if l1 is None else l1)
    answer = api.answer(plan, given, tree, rate, plan_path)
    not_private = together(*(measured.not_private for measured in answer.measures.values()))
    past = None if prior is None else past_of_parts(plan, tree, prior)
    stage("denoising")
    estimates = {}
    notes = [*answer.notes, *([] if past is None else past.notes)]
    for k, part in enumerate(plan.by_measure):
        measured = answer.measures[part.measure.name]
        with refused(given[0]):
            expected = None
            if past is not None or learn:
                before = None if past is None else past.of[k]
                expected = learned_part(part, tree, measured.noisy, measured.variance, before, worth_of(plan, k))
            estimates[part.measure.name] = denoise(
                tree,
                measured,
                prior=expected,
                nonnegative=nonnegative,
                whole=whole and part.measure.is_count,
            )
        if past is not None:
            notes += past.far(k, part.measure.name, tree, estimates[part.measure.name].count)
    table = by_measure({name: estimates_table(est, confidence) for name, est in estimates.items()})
    table = mark(table, not_private, "" if past is None else past.not_private)
    first, *others = estimates.values()
    if whole and plan.spec.values:
        notes += ["whole numbers are for counts; values are left as they are"]
    return Denoised(table, first, notes, estimates if others else None)


def trees_beside(paths: Sequence[str]) -> list[str]:
    """Where a tree may be that was not named: beside one of these files."""
    return [os.path.join(path if os.path.isdir(path) else os.path.dirname(path), TREE) for path in paths]


def _beside(paths: list[str]) -> str:
    """The tree beside one of these files."""
    found = next((place for place in trees_beside(paths) if os.path.exists(place)), None)
    if found is None:
        raise InputError(
            f"the nodes that were queried are needed, and there is no {TREE} beside report or plan; give --tree "
            "a file that `attributary keys --impressions` wrote"
        )
    return found
