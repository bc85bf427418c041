"""breakdowns: figures of several breakdowns of the same conversions, denoised together, and their tables in one."""

from collections.abc import Mapping, Sequence
from typing import Any

from attributary.denoising import Estimate
from attributary.denoising.joint import joint, meetings_of
from attributary.errors import InputError
from attributary.estimators import Estimator
from attributary.measurements import Measurements
from attributary.spec import Spec
from attributary.spec.breakdown import BREAKDOWN
from attributary.tables import shown
from attributary.tables.table_columns import of_label, stacked
from attributary.tree import Tree


def refuse_estimator(estimator: Estimator) -> None:
    """Refuses estimators that denoise one tree alone."""
    if estimator != Estimator():
        options = f"estimator={estimator.name}" + " and `whole`" * estimator.whole
        raise InputError(f"{options} denoises one tree alone; several breakdowns are denoised together: take unbiased")


def joint_estimates(
    trees: Sequence[Tree], measures: Sequence[Mapping[str, Measurements]], names: Sequence[str]
) -> list[dict[str, Estimate]]:
    """The estimates of each breakdown by measure: a sum that two of them reach is one number."""
    meetings, made = meetings_of(trees, names), [dict[str, Estimate]() for _ in trees]
    others = [" and ".join(name for name in names if name != own) for own in names]
    for measure in measures[0]:
        figures = [each[measure] for each in measures]
        for estimates, est in zip(made, joint(list(zip(trees, figures, strict=True)), meetings, others), strict=True):
            estimates[measure] = est
    return made


def in_one_table(spec: Spec, tables: Sequence[Any]) -> Any:
    """The tables of all breakdowns, one below the other; the table itself where there is one."""
    if len(tables) == 1:
        return tables[0]
    each = dict(zip(spec.called, tables, strict=True))
    return stacked(each, BREAKDOWN, [attribute.name for attribute in spec.attributes])


def by_breakdown(spec: Spec, table: Any, path: str) -> list[Any]:
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
