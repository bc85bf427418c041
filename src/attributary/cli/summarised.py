"""summarised: summary reports, denoised by the plan that their reports were made by."""

import os
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from attributary.api.ara.keys.layout import layout
from attributary.api.ara.keys.nodes import tree_keys
from attributary.api.ara.service.summary import Notes, Summary, grouped, measured, read_summary
from attributary.cli.estimates import by_measure, of_nodes
from attributary.cli.learned import learned_part, past_of_parts, worth_of
from attributary.cli.occurred import occurred
from attributary.cli.refused import refused
from attributary.cli.tabled import Denoised
from attributary.denoising import denoise
from attributary.errors import InputError
from attributary.measurements import Measurements
from attributary.plan import Plan
from attributary.plan.parts import parts
from attributary.tables.not_private import mark

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
    own, keys = parts(plan), layout(plan)
    each = [tree_keys(keys, tree, k) for k in range(len(own))]
    stage("reading")
    reports = [read_summary(files) for files in grouped(given)]
    contribution = np.concatenate([part.contribution(tree) for part in own])
    rate, noise = _noise(reports, plan, plan_path, epsilon, l1)
    found = measured(np.concatenate(each), contribution, reports, *rate)
    _refuse_strangers(found.notes, bool((found.variance < float("inf")).any()), plan_path, given)
    past = None if prior is None else past_of_parts(plan, tree, prior)
    stage("denoising")
    estimates = {}
    notes = _words(found.notes, len(reports)) + noise + ([] if past is None else past.notes)
    for k, part in enumerate(own):
        here = slice(k * len(tree), (k + 1) * len(tree))
        with refused(given[0]):
            noisy, variance = found.noisy[here] * part.clip, found.variance[here] * part.clip**2
            expected = None
            if past is not None or learn:
                before = None if past is None else past.of[k]
                expected = learned_part(part, tree, noisy, variance, before, worth_of(plan, k))
            estimates[part.measure.name] = denoise(
                tree,
                Measurements.of(tree, noisy, variance, not_private=found.notes.not_private),
                prior=expected,
                nonnegative=nonnegative,
                whole=whole and part.measure.is_count,
            )
        if past is not None:
            notes += past.far(k, part.measure.name, tree, estimates[part.measure.name].count)
    table = by_measure({name: of_nodes(est, confidence) for name, est in estimates.items()})
    table = mark(table, found.notes.not_private, "" if past is None else past.not_private)
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


def _noise(
    reports: list[Summary], plan: Plan, plan_path: str, epsilon: float | None, l1: int | None
) -> tuple[tuple[float, int], list[str]]:
    """ε and L1 of the summary reports that do not state theirs, and in words which were used, and whence."""
    if l1 is not None and epsilon is None:
        raise InputError("--l1 goes with --epsilon; together they state the noise of a summary report")
    rate = (plan.spec.epsilon if epsilon is None else epsilon, plan.spec.l1 if l1 is None else l1)
    if not (0 < rate[0] < float("inf") and rate[1] > 0):
        raise InputError(f"ε and L1 of a summary report are above 0; got {rate[0]:g} and {rate[1]}")
    names: dict[tuple[float, int, str], list[str]] = {}
    for report in reports:
        known, other, not_private = report.stated
        if known is not None and other is not None:
            names.setdefault((known, other, "stated by"), []).append(report.name)
        elif not_private:
            names.setdefault((*rate, "as if there were noise in"), []).append(report.name)
        else:
            whence = f"from {plan_path}; not stated by" if epsilon is None else "from --epsilon; not stated by"
            names.setdefault((*rate, whence), []).append(report.name)
    contrary = [used for used in names if epsilon is not None and used[:2] != rate]
    if contrary and len(contrary) == len(names):
        raise InputError(
            f"--epsilon is for summary reports that do not state their noise; {names[contrary[0]][0]} states "
            f"ε = {contrary[0][0]:g} with L1 = {contrary[0][1]}: leave it out"
        )
    return rate, [
        f"ε = {used:g}, L1 = {limit:,} ({whence} {files[0]}{f' and {len(files) - 1} more' if files[1:] else ''})"
        for (used, limit, whence), files in names.items()
    ]


def _refuse_strangers(notes: Notes, some: bool, plan: str, given: tuple[str, ...]) -> None:
    if not some:
        why = f"{given[0]} has {notes.unknown:,} other keys" if notes.unknown else f"{given[0]} is empty"
        raise InputError(f"no node of the tree is measured: {why}; are {plan} and the tree those that it was made by?")


def _words(notes: Notes, reports: int) -> list[str]:
    """What did not go together, each in a few words."""
    said = [
        (reports if reports > 1 else 0, "summary reports added up"),
        (notes.missing, "nodes have no sum in the report and count as not measured"),
        (notes.unknown, "keys that belong to no node are left out"),
        (notes.contradicted, "keys have several different sums in one report and are left out"),
        (notes.repeated, "duplicate rows"),
    ]
    return [f"{number:,} {words}" for number, words in said if number] + list(notes.says)
