"""Inputs: what a report is made of, told apart by content: a plan, estimates, an evaluation, or a folder of them."""

import os
from dataclasses import dataclass, field, replace
from typing import Any

from attributary.errors import InputError
from attributary.estimates import Estimates, has_measures, is_estimates, read_estimates, read_measures
from attributary.plan import Plan
from attributary.ratio import WITH_ESTIMATES, is_ratios, read_ratios
from attributary.report.evaluation_curves import Point, is_evaluation, read_evaluation
from attributary.tables import read_table
from attributary.tables.not_private import together, words_of
from attributary.tables.table_source import by_name

WHAT = "a report is made of a plan, a table of estimates, an evaluation, or a folder of them"
FIRST_BYTES = 4096
BINARY = (b"PAR1", b"ARROW1", b"FEA1", b"\xff\xff\xff\xff")  # tables that need no ending


@dataclass(frozen=True)
class ReportInputs:
    """What was found, and in which files."""

    plan: Plan | None = None
    estimates: Estimates | None = None  # of the first measure, where there are several
    evaluation: tuple[Point, ...] = ()
    files: tuple[str, ...] = ()
    passed_over: tuple[str, ...] = ()  # files of a folder that hold true counts
    measures: dict[str, Estimates] = field(default_factory=dict)  # by name, where the table tells them apart
    ratios: dict[str, Estimates] = field(default_factory=dict)  # of values to counts, by name
    not_private: str = ""  # why what is shown is not, if one of the files says so
    shape: str | None = None  # of the noise, where neither file nor plan tells


KINDS = ("plan", "estimates", "ratios", "evaluation", "counts", "other")


@dataclass(frozen=True)
class _File:
    path: str
    kind: str  # of KINDS
    table: Any = None


def read(paths: list[str], levels: list[str] | None = None, shape: str | None = None) -> ReportInputs:
    """What is in these files and folders; at most one plan, one table of estimates and one of ratios."""
    found = [_look(file, path != file, levels) for path in paths for file in _files(path)]
    given, names = ReportInputs(shape=shape), None
    for kind in ("plan", "estimates", "ratios"):
        alike = [f.path for f in found if f.kind == kind]
        if len(alike) > 1:
            raise InputError(f"a report is about one of each; {' and '.join(alike[:2])} are both {_article(kind)}")
    for file in sorted(found, key=lambda f: KINDS.index(f.kind)):
        if file.kind == "plan":
            given = replace(given, plan=Plan.load(file.path))
            names = [attribute.name for attribute in given.plan.spec.attributes] if given.plan else None
        elif file.kind == "estimates":
            own = levels or _own(names, file.table)
            if has_measures(file.table.column_names, own):
                several = read_measures(file.table, file.path, own)
                given = replace(given, estimates=next(iter(several.values())), measures=several)
            else:
                _refuse_unnamed(given.plan, file.path)
                given = replace(given, estimates=read_estimates(file.table, file.path, own))
        elif file.kind == "ratios":
            if given.estimates is None:
                raise InputError(f"{file.path} holds ratios; {WITH_ESTIMATES}")
            own = levels or _own(names, file.table)
            given = replace(given, ratios=read_ratios(file.table, file.path, own, given.measures))
        elif file.kind == "evaluation":
            given = replace(given, evaluation=(*given.evaluation, *read_evaluation(file.table, file.path)))
        elif file.kind == "counts":
            given = replace(given, passed_over=(*given.passed_over, file.path))
    used = tuple(f.path for f in found if f.kind not in ("counts", "other"))
    if not used:
        raise InputError(f"there is nothing to report in {', '.join(paths)}; {WHAT}")
    words = [est.not_private for est in (*given.measures.values(), *given.ratios.values())]
    words += [given.estimates.not_private] if given.estimates else []
    words += [words_of(file.table) for file in found if file.kind == "evaluation"]
    given = replace(given, files=used, not_private=together(*words))
    _check_levels(given)
    return given


def _own(names: list[str] | None, table: Any) -> list[str] | None:
    """The plan's attributes, where a table has them all."""
    return names if names and set(names) <= set(table.column_names) else None


def _refuse_unnamed(plan: Plan | None, path: str) -> None:
    if plan is not None and len(plan.spec.asked) > 1:
        told = " and ".join(measure.name for measure in plan.spec.asked)
        raise InputError(
            f"{path} has no column 'measure' that tells {told} apart, which the plan measures; denoise anew"
        )


def _files(path: str) -> list[str]:
    if not os.path.isdir(path):
        return [path]
    try:
        names = sorted(os.listdir(path))
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}") from None
    return [os.path.join(path, name) for name in names if _of_interest(name)]


def _of_interest(name: str) -> bool:
    hidden = name.startswith(".") or name.endswith(".nodes.parquet")
    return not hidden and (name.endswith(".json") or by_name(name).format is not None)


def _look(path: str, in_folder: bool, levels: list[str] | None) -> _File:
    """What a file is; one that was named and is nothing of ours is refused, one in a folder is passed over."""
    if _is_json(path):
        if in_folder and not _looks_like_plan(path):
            return _File(path, "other")
        return _File(path, "plan")
    if by_name(path).format is None and not _beginning(path).startswith(BINARY):
        raise InputError(f"{path} is none of these: {WHAT}; tables end in .parquet, .csv, .tsv or .arrow")
    table = read_table(path)
    kind = _kind(table.column_names, levels)
    if kind == "counts" and not in_folder:
        raise InputError(f"{path} holds true counts, which no report shows; {WHAT}")
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
    try:
        with open(path, "rb") as file:
            return file.read(FIRST_BYTES)
    except FileNotFoundError:
        raise InputError(f"there is no file {path}; {WHAT}") from None
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}") from None


def _is_json(path: str) -> bool:
    beginning = _beginning(path).lstrip(b"\xef\xbb\xbf \t\r\n")
    return beginning.startswith((b"{", b"[")) or (path.endswith(".json") and not beginning.startswith(b"PAR1"))


def _looks_like_plan(path: str) -> bool:
    return b'"format"' in _beginning(path)


def _check_levels(given: ReportInputs) -> None:
    """The plan and the estimates must be about the same question."""
    if given.plan is None or given.estimates is None:
        return
    asked = [measure.name for measure in given.plan.spec.asked]
    other = next((name for name in given.measures if name not in asked), None)
    if other is not None:
        raise InputError(
            f"the estimates have the measure {other!r}; those of the plan are {', '.join(asked)}: give files of one run"
        )
    names, levels = given.estimates.tree.level_names, given.plan.levels
    if given.estimates.tree.attributes and names != levels[: len(names)]:
        raise InputError(
            f"the plan's levels are {', '.join(levels)}, those of the estimates {', '.join(names)}; "
            "give files of one run"
        )


def _article(kind: str) -> str:
    return "plans" if kind == "plan" else kind
