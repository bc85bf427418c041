"""Inputs: what a page is made of, read from files that are told apart by content."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from attributary.errors import InputError
from attributary.estimates import Estimates, has_measures
from attributary.facts.evaluation import read_evaluation
from attributary.file_kind import TAKES, Kind, KnownFile, file_kind, files_in
from attributary.pipeline.check_table import check_table
from attributary.plan import Plan
from attributary.plan.file import refuse_other_plan
from attributary.ratio import WITH_ESTIMATES, read_ratios
from attributary.read_estimates import by_breakdown, read_estimates, read_measures
from attributary.report.page import ReportInputs, only_measure
from attributary.spec.measure import COUNT
from attributary.tables.table_columns import together, words_of
from attributary.types import Arrow, Record

SHOWN: tuple[Kind, ...] = ("plan", "estimates", "ratios", "evaluation")  # in the order that they are read


def read(
    paths: list[str],
    levels: list[str] | None = None,
    shape: str | None = None,
    separator: str | None = None,
    sheet: str | None = None,
    **raw: Any,
) -> ReportInputs:
    """What is in these files and folders; at most one plan, one table of estimates and one of ratios.

    A table that is nothing of these is checked, alone, with the options of `check_table` in `raw`.
    """
    known: list[KnownFile] = []
    for path in paths:
        file = file_kind(path, "report", levels, separator, sheet)
        if file.kind == "folder":
            known += [file_kind(each, "report", levels, separator) for each in files_in(path)]
            continue
        stated = any(value not in (None, (), False) for value in raw.values())
        if len(paths) == 1 and (file.kind == "table" or (stated and file.kind == "counts")):
            return _of_table(file, levels, raw)
        if file.kind == "JSON":
            Plan.load(path)  # says why it is not a plan
        if file.kind not in SHOWN:
            file.refuse("report", "if they are noisy, state their noise with `noise`" * (file.kind == "counts"))
        known.append(file)
    files = [file for kind in SHOWN for file in known if file.kind == kind]
    for kind in SHOWN[:3]:
        alike = [file.path for file in files if file.kind == kind]
        if len(alike) > 1:
            kinds = "plans" if kind == "plan" else kind
            raise InputError(f"a report is about one of each; {' and '.join(alike[:2])} are both {kinds}")
    if not files:
        raise InputError(f"there is nothing to report in {', '.join(paths)}; {TAKES['report']}")
    inputs = ReportInputs(
        files=tuple(file.path for file in known if file in files),
        left_out=tuple(file.path for file in known if file.kind == "counts"),
        shape=shape,
    )
    plans = {file.path: Plan.load(file.path) for file in files if file.kind == "plan"}
    names = {name: None for made in plans.values() for name in made.spec.called}
    names |= {name: None for file in files if file.kind in SHOWN[1:3] for name in by_breakdown(file.table)}
    if not names:
        return _read(files, inputs, {path: made.breakdowns[0] for path, made in plans.items()}, levels)
    each = {name: _read(_of_breakdown(files, name), inputs, _plan_of(plans, name), levels) for name in names}
    return replace(next(iter(each.values())), plan=None, measures={}, ratios={}, evaluation=(), breakdowns=each)


def _of_breakdown(files: list[KnownFile], name: str) -> list[KnownFile]:
    """The files with the rows of one breakdown alone, where they are of several."""
    made = []
    for file in files:
        tables = by_breakdown(file.table) if file.kind in SHOWN[1:3] else {}
        if tables and name not in tables:
            raise InputError(f"{file.path} has no rows of the breakdown {name!r}; give the files of one run")
        made.append(file.holding(tables[name]) if tables else file)
    return made


def _plan_of(plans: Mapping[str, Plan], name: str) -> dict[str, Plan]:
    for path, made in plans.items():
        if name not in made.spec.called:
            raise InputError(f"{path} has no breakdown {name!r}; give the files of one run")
    return {path: made.breakdowns[made.spec.called.index(name)] for path, made in plans.items()}


def _read(
    files: list[KnownFile], inputs: ReportInputs, plans: Mapping[str, Plan], levels: list[str] | None
) -> ReportInputs:
    """What is in files, all of which are of one breakdown."""
    path, plan = next(iter(plans.items()), ("", None))
    measures: dict[str, Estimates] = {}
    ratios: dict[str, Estimates] = {}
    for file in files:
        if file.kind == "estimates":
            if plan is not None:
                said = (file.table.schema.metadata or {}).get(b"plan", b"")
                refuse_other_plan(file.path, said, plan.fingerprint, path)
            measures = _measures(file, plan, levels)
        elif file.kind == "ratios":
            if not measures:
                raise InputError(f"{file.path} holds ratios; {WITH_ESTIMATES}")
            ratios = read_ratios(file.table, file.path, levels or _plan_levels(plan, file.table), measures)
    evaluations = [file for file in files if file.kind == "evaluation"]
    words = [est.not_private for est in (*measures.values(), *ratios.values())]
    made = replace(
        inputs,
        plan=plan,
        measures=measures,
        ratios=ratios,
        evaluation=tuple(point for file in evaluations for point in read_evaluation(file.table, file.path)),
        not_private=together(*words, *(words_of(file.table) for file in evaluations)),
        generated=any(est.generated for est in measures.values()),
    )
    made.check()
    return made


def _of_table(file: KnownFile, levels: list[str] | None, raw: Record) -> ReportInputs:
    check = check_table(file.table, levels, path=file.path, **raw)
    read = {} if check.estimate is None else {COUNT: Estimates.of(check.estimate)}
    return ReportInputs(None, read, files=(file.path,), not_private=words_of(file.table), check_of_table=check)


def _measures(file: KnownFile, plan: Plan | None, levels: list[str] | None) -> dict[str, Estimates]:
    """The estimates of each measure; a table that does not name any is of the only one."""
    names = levels or _plan_levels(plan, file.table)
    if has_measures(file.table.column_names, names):
        return read_measures(file.table, file.path, names)
    if plan is not None and len(plan.spec.asked) > 1:
        measures = " and ".join(measure.name for measure in plan.spec.asked)
        raise InputError(
            f"{file.path} has no column 'measure', which would tell {measures} of the plan apart; denoise again"
        )
    return {only_measure(plan): read_estimates(file.table, file.path, names)}


def _plan_levels(plan: Plan | None, table: Arrow) -> list[str] | None:
    """The plan's attributes, where a table has them all."""
    names = [attribute.name for attribute in plan.spec.attributes] if plan else []
    return names if names and set(names) <= set(table.column_names) else None
