"""breakdowns: figures of several breakdowns of the same conversions, denoised together, and their tables in one."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from attributary import api
from attributary.api.attribution_api import Answer
from attributary.denoising import Estimate
from attributary.denoising.joint import joint, meetings_of
from attributary.errors import InputError
from attributary.estimates import by_measure, estimates_table, noted
from attributary.estimators import FIT, Estimator
from attributary.measurements import Measurements
from attributary.pipeline.denoise_summary import stated_rate
from attributary.pipeline.denoise_table import Denoised
from attributary.pipeline.read_prior import TreeAndPrior, prior_table, queried_tree, read_tree_and_prior
from attributary.plan import JointPlan
from attributary.plan.file import refuse_other_plan
from attributary.spec import Spec
from attributary.spec.breakdown import BREAKDOWN
from attributary.tables import Format, shown
from attributary.tables.table_columns import mark, of_label, stacked, together
from attributary.tree import Tree
from attributary.types import Arrow


def joint_estimates(
    trees: Sequence[Tree],
    measures: Sequence[Mapping[str, Measurements]],
    names: Sequence[str],
    estimator: Estimator = Estimator(),  # noqa: B008
) -> list[dict[str, Estimate]]:
    """The estimates of each breakdown by measure: a sum that two of them reach is one number."""
    meetings, made = meetings_of(trees, names), [dict[str, Estimate]() for _ in trees]
    others = [" and ".join(name for name in names if name != own) for own in names]
    for measure in measures[0]:
        figures = [each[measure] for each in measures]
        both = list(zip(trees, figures, strict=True))
        for estimates, est in zip(made, joint(both, meetings, others, estimator == FIT), strict=True):
            estimates[measure] = est
    return made


def trees_and_priors(spec: Spec, tree_path: str | None, prior_path: str | None, protected: bool) -> list[TreeAndPrior]:
    """The tree of each breakdown, and the prior on it; the tree is a table with the known attributes of all."""
    table = None if prior_path is None else prior_table(prior_path)
    rows = [None] * len(spec.parts) if table is None else by_breakdown(spec, table, str(prior_path))
    return [
        read_tree_and_prior(part, tree_path, prior_path, protected, own, name)
        for part, own, name in zip(spec.parts, rows, spec.called, strict=True)
    ]


class JointDenoised(NamedTuple):
    """What summary reports of several breakdowns came to."""

    table: Arrow
    breakdowns: dict[str, Denoised]

    def written(self, format: Format | None) -> Arrow:
        """The table for a file of this format."""
        return self.table


def denoise_breakdowns(
    plan: JointPlan,
    summaries: Sequence[str],
    nodes: Arrow,
    *,
    name: str = "the plan",
    tree_name: str = "the tree",
    noise: str | None = None,
    confidence: float = 0.95,
    estimator: Estimator = Estimator(),  # noqa: B008
    stage: Callable[[str], None] = lambda _: None,
) -> JointDenoised:
    """The estimates of all breakdowns from summary reports, whose keys are of all of them.

    `nodes` is the table of the nodes that were queried, as `attributary keys --impressions` writes it.
    """
    refuse_other_plan(tree_name, (nodes.schema.metadata or {}).get(b"plan", b""), plan.fingerprint, name)
    parts, tables = plan.spec.parts, by_breakdown(plan.spec, nodes, tree_name)
    trees = [queried_tree(part, [table]) for part, table in zip(parts, tables, strict=True)]
    answers = []
    for one, tree in zip(plan.breakdowns, trees, strict=True):
        if one.default_keys or one.roots:
            rate = None if noise is None else stated_rate(noise, one)
            answers.append(api.answer(one, summaries, tree, rate, name))
        else:  # other breakdowns tell all of it
            nothing = Measurements.of(tree, np.zeros(len(tree)), np.full(len(tree), np.inf))
            answers.append(Answer({part.measure.name: nothing for part in one.by_measure}))
    words = together(*(m.not_private for answer in answers for m in answer.measures.values()))
    measures = [{m: replace(x, not_private=words) for m, x in answer.measures.items()} for answer in answers]
    stage("denoising")
    made = {}
    for called, one, answer, each in zip(
        plan.names, plan.breakdowns, answers, joint_estimates(trees, measures, plan.names, estimator), strict=True
    ):
        table = by_measure({measure: estimates_table(est, confidence) for measure, est in each.items()})
        table = mark(noted(table, largest=one.largest, plan=plan.fingerprint), words)
        made[called] = Denoised(table, each, list(answer.notes), plan=one)
    return JointDenoised(in_one_table(plan.spec, [each.table for each in made.values()]), made)


def in_one_table(spec: Spec, tables: Sequence[Arrow]) -> Arrow:
    """The tables of all breakdowns, one below the other; the table itself where there is one."""
    if len(tables) == 1:
        return tables[0]
    each = dict(zip(spec.called, tables, strict=True))
    return stacked(each, BREAKDOWN, [attribute.name for attribute in spec.attributes])


def by_breakdown(spec: Spec, table: Arrow, path: str) -> list[object]:
    """The tables of all breakdowns in one; the table itself of a spec that has one."""
    if len(spec.parts) == 1:
        return [table]
    if BREAKDOWN not in table.column_names:
        raise InputError(
            f"{shown(path)} has no column {BREAKDOWN!r}, which tells {', '.join(spec.called)} apart; make it by "
            "this spec"
        )
    there = set(table.column(BREAKDOWN).unique().to_pylist())
    lacking = [name for name in spec.called if name not in there]
    if lacking:
        raise InputError(f"{shown(path)} has no rows of the breakdown {lacking[0]!r}; make it by this spec")
    own = [{attribute.name for attribute in part.attributes} for part in spec.parts]
    names = [attribute.name for attribute in spec.attributes]
    return [
        of_label(table, BREAKDOWN, name, [label for label in names if label not in has])
        for name, has in zip(spec.called, own, strict=True)
    ]
