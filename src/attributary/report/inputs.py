"""Inputs: what a page is made of: a plan, estimates and an evaluation in memory, or files told apart by content."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from attributary import Estimate
from attributary.errors import InputError
from attributary.estimates import USUAL, Estimates, has_measures, read_estimates, read_measures
from attributary.facts.quantity import TAU, Quantity, digits_of, root_sum, tau_of_value
from attributary.file_kind import TAKES, Kind, KnownFile, file_kind, files_in
from attributary.pipeline.check_table import TableCheck, check_table
from attributary.plan import Plan
from attributary.plan.fingerprint import refuse_other_plan
from attributary.ratio import PER, WITH_ESTIMATES, ratios_of, read_ratios
from attributary.report.evaluation_curves import Point, read_evaluation
from attributary.spec.measure import COUNT
from attributary.tables.table_columns import together, words_of
from attributary.types import Floats


@dataclass(frozen=True)
class ReportInputs:
    """What a page is made of: values in memory (`ReportInputs.of`), or what `read` found in files."""

    plan: Plan | None = None
    measures: Mapping[str, Estimates] = field(default_factory=dict)  # by name; "count" are conversions
    ratios: Mapping[str, Estimates] = field(default_factory=dict)  # of values to counts, by name
    evaluation: tuple[Point, ...] = ()
    files: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()  # files of a folder that hold true counts
    not_private: str = ""  # why what is shown is not, if something says so
    shape: str | None = None  # of the noise, where neither estimates nor plan state it
    check_of_table: TableCheck | None = None  # of a raw table, whose estimates these are
    generated: bool = False  # the logs were generated: no real people, no real campaigns

    @classmethod
    def of(
        cls,
        plan: Plan | None = None,
        estimates: Estimate | Mapping[str, Estimate] | None = None,
        evaluation: Any = None,
        confidence: float = USUAL,
        generated: bool = False,
    ) -> "ReportInputs":
        """A plan, estimates by the names of their measures, and the table of an evaluation, all of them in memory.

        One estimate alone is of the plan's first measure, or of conversions. Of counts and values, ratios are shown,
        too.
        """
        by_name = {_first(plan): estimates} if isinstance(estimates, Estimate) else dict(estimates or {})
        points = () if evaluation is None else tuple(read_evaluation(evaluation, "evaluation"))
        words = [est.not_private for est in by_name.values()] + ([words_of(evaluation)] if points else [])
        inputs = cls(
            plan,
            {name: Estimates.of(est, confidence) for name, est in by_name.items()},
            ratios_of(by_name, confidence),
            points,
            not_private=together(*words),
            generated=generated,
        )
        inputs.check()
        return inputs

    @property
    def first(self) -> Estimates | None:
        """The estimates of the first measure."""
        return next(iter(self.measures.values()), None)

    def with_impressions(self, impressions: Floats | None) -> "ReportInputs":
        """The same with the impressions of each node, in the tree's order, so that what each brings is shown."""
        return replace(
            self,
            measures={
                name: replace(est, impressions=None if impressions is None else est.tree.to_level_order(impressions))
                for name, est in self.measures.items()
            },
        )

    def check(self) -> None:
        """Refuses a plan and estimates that are not about the same question."""
        if self.plan is None or self.first is None:
            return
        names_of_plan = [measure.name for measure in self.plan.spec.asked]
        other = next((name for name in self.measures if name not in names_of_plan), None)
        if other is not None:
            raise InputError(
                f"the estimates have the measure {other!r}; those of the plan are {', '.join(names_of_plan)}: "
                "give files of one run"
            )
        names, levels = self.first.tree.level_names, self.plan.levels
        if self.first.tree.attributes and names != levels[: len(names)]:
            raise InputError(
                f"the plan's levels are {', '.join(levels)}, those of the estimates {', '.join(names)}; "
                "give files of one run"
            )


def quantities(inputs: ReportInputs, tau: float | None) -> list[Quantity]:
    """The measures of a page in their order, then the ratios; `tau` is the plan's by default."""
    plan = inputs.plan
    planned = {part.measure.name: part for part in plan.by_measure} if plan else {}
    of_counts = tau or (plan.spec.tau if plan else TAU)
    shown: list[Quantity] = []
    for name, read in inputs.measures.items():
        est, part = _shaped(read, inputs), planned.get(name)
        if name == COUNT:
            table = inputs.check_of_table
            figure = table.form.value if table else est.figure or name
            shown.append(Quantity(figure, "count", "", est, of_counts, part))
            continue
        unit = (part.measure.unit if part else None) or ""
        of_value = tau_of_value(part, of_counts, root_sum(est), root_sum(inputs.measures.get(COUNT)))
        est = replace(est, impressions=None)  # conversions have a rate
        shown.append(Quantity(name, "value", unit, est, of_value, part, digits_of(est.variance)))
    units = {quantity.name: quantity.unit for quantity in shown}
    for name, est in inputs.ratios.items():
        unit = units.get(name.removesuffix(PER), "")
        size = inputs.measures[COUNT].estimate
        shown.append(Quantity(name, "ratio", unit, est, 0.0, None, digits_of(est.variance), size))
    return shown


def _shaped(est: Estimates, inputs: ReportInputs) -> Estimates:
    """The estimates with the shape of their noise: the file's, or else the plan's, or else what the caller states."""
    if est.shape is not None or (inputs.plan is None and inputs.shape is None):
        return est
    of_plan = inputs.plan.spec.noise_model.shape.name if inputs.plan else "laplace"
    return replace(est, shape=of_plan if inputs.plan else inputs.shape)


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
    plan = next((file.path for file in files if file.kind == "plan"), "")
    for file in files:
        if file.kind == "plan":
            inputs = replace(inputs, plan=Plan.load(file.path))
        elif file.kind == "estimates":
            if inputs.plan is not None:
                said = (file.table.schema.metadata or {}).get(b"plan", b"")
                refuse_other_plan(file.path, said, inputs.plan.fingerprint, plan)
            inputs = replace(inputs, measures=_measures(file, inputs.plan, levels))
        elif file.kind == "ratios":
            if not inputs.measures:
                raise InputError(f"{file.path} holds ratios; {WITH_ESTIMATES}")
            names = levels or _plan_levels(inputs.plan, file.table)
            inputs = replace(inputs, ratios=read_ratios(file.table, file.path, names, dict(inputs.measures)))
        elif file.kind == "evaluation":
            inputs = replace(inputs, evaluation=(*inputs.evaluation, *read_evaluation(file.table, file.path)))
    words = [est.not_private for est in (*inputs.measures.values(), *inputs.ratios.values())]
    words += [words_of(file.table) for file in files if file.kind == "evaluation"]
    generated = any(est.generated for est in inputs.measures.values())
    inputs = replace(inputs, not_private=together(*words), generated=generated)
    inputs.check()
    return inputs


def _of_table(file: KnownFile, levels: list[str] | None, raw: dict[str, Any]) -> ReportInputs:
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
    return {_first(plan): read_estimates(file.table, file.path, names)}


def _first(plan: Plan | None) -> str:
    """The measure of estimates that do not name any."""
    return COUNT if plan is None else plan.spec.asked[0].name


def _plan_levels(plan: Plan | None, table: Any) -> list[str] | None:
    """The plan's attributes, where a table has them all."""
    names = [attribute.name for attribute in plan.spec.attributes] if plan else []
    return names if names and set(names) <= set(table.column_names) else None
