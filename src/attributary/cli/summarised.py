"""summarised: summary reports, denoised by the plan that their reports were made by."""

import os
from collections.abc import Callable
from typing import Any

import numpy as np

from attributary.ara.keys.layout import layout
from attributary.ara.keys.nodes import tree_keys
from attributary.ara.service.summary import Notes, grouped, measured, read_summary
from attributary.cli.estimates import by_measure, of_nodes
from attributary.cli.learned import learned
from attributary.cli.occurred import occurred
from attributary.cli.refused import refused
from attributary.cli.tabled import Denoised
from attributary.denoising import denoise
from attributary.errors import InputError
from attributary.plan import Plan
from attributary.plan.parts import parts

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
    found = measured(np.concatenate(each), contribution, reports, plan.spec.epsilon, plan.spec.l1)
    _refuse_strangers(found.notes, bool((found.variance < float("inf")).any()), plan_path, given)
    stage("denoising")
    estimates = {}
    for k, part in enumerate(own):
        here = slice(k * len(tree), (k + 1) * len(tree))
        with refused(given[0]):
            noisy, variance = found.noisy[here] * part.clip, found.variance[here] * part.clip**2
            expected = learned(tree, noisy, variance, prior, learn, plan.spec)
            estimates[part.measure.name] = denoise(
                tree,
                noisy,
                variance,
                prior=expected,
                nonnegative=nonnegative,
                whole=whole and part.measure.is_count,
            )
    table = by_measure({name: of_nodes(est, confidence) for name, est in estimates.items()})
    first, *others = estimates.values()
    notes = _words(found.notes, len(reports))
    if whole and plan.spec.values:
        notes += ["whole numbers are for counts; values are left as they are"]
    return Denoised(table, first, notes, estimates if others else None)


def _beside(paths: list[str]) -> str:
    """The tree beside one of these files."""
    places = [os.path.join(path if os.path.isdir(path) else os.path.dirname(path), TREE) for path in paths]
    found = next((place for place in places if os.path.exists(place)), None)
    if found is None:
        raise InputError(
            f"the nodes that were queried are needed, and there is no {TREE} beside report or plan; give --tree "
            "a file that `attributary keys --impressions` wrote"
        )
    return found


def _refuse_strangers(notes: Notes, some: bool, plan: str, given: tuple[str, ...]) -> None:
    if not some:
        why = f"{given[0]} has {notes.unknown:,} other keys" if notes.unknown else f"{given[0]} is empty"
        raise InputError(f"no node of the tree is measured: {why}; are {plan} and the tree those that it was made by?")


def _words(notes: Notes, reports: int) -> list[str]:
    """What did not go together, each in a few words."""
    said = [
        (reports if reports > 1 else 0, "summary reports added up"),
        (notes.missing, "nodes have no sum in the report and count as not measured"),
        (notes.unknown, "keys that no node has are passed over"),
        (notes.contradicted, "keys have several different sums in one report and are passed over"),
        (notes.repeated, "rows say what another one says"),
    ]
    return [f"{number:,} {words}" for number, words in said if number] + list(notes.says)
