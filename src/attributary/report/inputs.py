"""Inputs: what a page is made of: a plan, estimates and an evaluation in memory, or files told apart by content."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from attributary.denoising import Estimate
from attributary.errors import InputError
from attributary.estimates import USUAL, Estimates, has_measures, is_estimates, read_estimates, read_measures
from attributary.pipeline.check_table import TableCheck, check_table
from attributary.plan import Plan
from attributary.plan.fingerprint import refuse_other_plan
from attributary.ratio import WITH_ESTIMATES, is_ratios, ratios_of, read_ratios
from attributary.report.evaluation_curves import Point, is_evaluation, read_evaluation
from attributary.spec.measure import COUNT
from attributary.tables import read_table
from attributary.tables.table_columns import together, words_of
from attributary.tables.table_source import by_name, readable
from attributary.types import Floats

WHAT = "a report is made of a plan, a table of estimates, an evaluation, or a folder of them"
FIRST_BYTES = 4096
BINARY = (b"PAR1", b"ARROW1", b"FEA1", b"\xff\xff\xff\xff")  # tables that need no ending


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


KINDS = ("plan", "estimates", "ratios", "evaluation", "table", "counts", "other")


@dataclass(frozen=True)
class _File:
    path: str
    kind: str  # of KINDS
    table: Any = None


def read(
    paths: list[str],
    levels: list[str] | None = None,
    shape: str | None = None,
    separator: str | None = None,
    **raw: Any,
) -> ReportInputs:
    """What is in these files and folders; at most one plan, one table of estimates and one of ratios.

    A table that is nothing of these is checked, alone, with the options of `check_table` in `raw`.
    """
    alone = len(paths) == 1 and not os.path.isdir(paths[0])
    files = [_look(file, path != file, levels, alone, raw, separator) for path in paths for file in _files(path)]
    if alone and files[0].kind == "table":
        return _of_table(files[0], levels, raw)
    for kind in ("plan", "estimates", "ratios"):
        alike = [file.path for file in files if file.kind == kind]
        if len(alike) > 1:
            kinds = "plans" if kind == "plan" else kind
            raise InputError(f"a report is about one of each; {' and '.join(alike[:2])} are both {kinds}")
    inputs = ReportInputs(
        files=tuple(file.path for file in files if file.kind not in ("counts", "other")),
        left_out=tuple(file.path for file in files if file.kind == "counts"),
        shape=shape,
    )
    if not inputs.files:
        raise InputError(f"there is nothing to report in {', '.join(paths)}; {WHAT}")
    plan = next((file.path for file in files if file.kind == "plan"), "")
    for file in sorted(files, key=lambda file: KINDS.index(file.kind)):
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


def _of_table(file: _File, levels: list[str] | None, raw: dict[str, Any]) -> ReportInputs:
    check = check_table(file.table, levels, path=file.path, **raw)
    read = {} if check.estimate is None else {COUNT: Estimates.of(check.estimate)}
    return ReportInputs(None, read, files=(file.path,), not_private=words_of(file.table), check_of_table=check)


def _measures(file: _File, plan: Plan | None, levels: list[str] | None) -> dict[str, Estimates]:
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


def _files(path: str) -> list[str]:
    if not os.path.isdir(path):
        return [path]
    with readable(path, WHAT):
        names = sorted(os.listdir(path))
    return [os.path.join(path, name) for name in names if _of_interest(name)]


def _of_interest(name: str) -> bool:
    hidden = name.startswith(".") or name.endswith(".nodes.parquet")
    return not hidden and (name.endswith(".json") or by_name(name).format is not None)


def _look(
    path: str, in_folder: bool, levels: list[str] | None, alone: bool, raw: dict[str, Any], separator: str | None
) -> _File:
    """What a file is; one that was named and is nothing of ours is checked or refused, one in a folder passed over."""
    if _is_json(path):
        if in_folder and b'"format"' not in _beginning(path):
            return _File(path, "other")
        return _File(path, "plan")
    if by_name(path).format is None and not _beginning(path).startswith(BINARY):
        raise InputError(f"{path} is none of these: {WHAT}; tables end in .parquet, .csv, .tsv or .arrow")
    table = read_table(path, separator=separator)
    kind = _kind(table.column_names, levels)
    stated = any(value not in (None, (), False) for value in raw.values())
    if alone and (kind == "other" or (stated and kind == "counts")):
        return _File(path, "table", table)
    if kind == "counts" and not in_folder:
        remedy = "if they are noisy, state their noise with --noise"
        raise InputError(f"{path} holds true counts, which no report shows; {WHAT}; {remedy}")
    if kind == "other" and not in_folder:
        raise InputError(f"{path} is none of these: {WHAT}; its columns are {', '.join(table.column_names)[:200]}")
    return _File(path, kind, table if kind in ("estimates", "ratios", "evaluation") else None)


def _kind(names: list[str], levels: list[str] | None) -> str:
    """What a table is, by its columns."""
    if is_evaluation(names):
        return "evaluation"
    if is_ratios(names, levels):
        return "ratios"
    if is_estimates(names):
        return "estimates"
    return "counts" if "conversions" in names else "other"


def _beginning(path: str) -> bytes:
    with readable(path, WHAT), open(path, "rb") as file:
        return file.read(FIRST_BYTES)


def _is_json(path: str) -> bool:
    beginning = _beginning(path).lstrip(b"\xef\xbb\xbf \t\r\n")
    return beginning.startswith((b"{", b"[")) or (path.endswith(".json") and not beginning.startswith(b"PAR1"))
