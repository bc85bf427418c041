"""Given: what a report is made of, told apart by content: a plan, estimates, an evaluation, or a folder of them."""

import os
from dataclasses import dataclass, replace
from typing import Any

from attributary.errors import InputError
from attributary.plan import Plan
from attributary.report.estimates import Estimates, is_estimates, read_estimates
from attributary.report.evaluation import Point, is_evaluation, read_evaluation
from attributary.tables import read_table
from attributary.tables.format import by_name

WHAT = "a report is made of a plan, a table of estimates, an evaluation, or a folder of them"
FIRST_BYTES = 4096
BINARY = (b"PAR1", b"ARROW1", b"FEA1", b"\xff\xff\xff\xff")  # tables that need no ending


@dataclass(frozen=True)
class Given:
    """What was found, and in which files."""

    plan: Plan | None = None
    estimates: Estimates | None = None
    evaluation: tuple[Point, ...] = ()
    files: tuple[str, ...] = ()
    passed_over: tuple[str, ...] = ()  # files of a folder that hold true counts


@dataclass(frozen=True)
class _Found:
    path: str
    kind: str  # plan, estimates, evaluation, counts or other
    table: Any = None


def read(paths: list[str], levels: list[str] | None = None) -> Given:
    """What is in these files and folders; at most one plan and one table of estimates."""
    found = [_look(file, in_folder=path != file) for path in paths for file in _files(path)]
    given, names = Given(), None
    for kind in ("plan", "estimates"):
        alike = [f.path for f in found if f.kind == kind]
        if len(alike) > 1:
            raise InputError(f"a report is about one of each; {' and '.join(alike[:2])} are both {_article(kind)}")
    for file in sorted(found, key=lambda f: ("plan", "estimates", "evaluation", "counts", "other").index(f.kind)):
        if file.kind == "plan":
            given = replace(given, plan=Plan.load(file.path))
            names = [attribute.name for attribute in given.plan.spec.attributes] if given.plan else None
        elif file.kind == "estimates":
            own = levels or (names if names and set(names) <= set(file.table.column_names) else None)
            given = replace(given, estimates=read_estimates(file.table, file.path, own))
        elif file.kind == "evaluation":
            given = replace(given, evaluation=(*given.evaluation, *read_evaluation(file.table, file.path)))
        elif file.kind == "counts":
            given = replace(given, passed_over=(*given.passed_over, file.path))
    used = tuple(f.path for f in found if f.kind in ("plan", "estimates", "evaluation"))
    if not used:
        raise InputError(f"there is nothing to report in {', '.join(paths)}; {WHAT}")
    given = replace(given, files=used)
    _check_levels(given)
    return given


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


def _look(path: str, in_folder: bool) -> _Found:
    """What a file is; one that was named and is nothing of ours is refused, one in a folder is passed over."""
    if _is_json(path):
        if in_folder and not _looks_like_plan(path):
            return _Found(path, "other")
        return _Found(path, "plan")
    if by_name(path).format is None and not _beginning(path).startswith(BINARY):
        raise InputError(f"{path} is none of these: {WHAT}; tables end in .parquet, .csv, .tsv or .arrow")
    table = read_table(path)
    names = table.column_names
    if is_evaluation(names):
        return _Found(path, "evaluation", table)
    if is_estimates(names):
        return _Found(path, "estimates", table)
    if "conversions" in names:
        if in_folder:
            return _Found(path, "counts")
        raise InputError(f"{path} holds true counts, which no report shows; {WHAT}")
    if in_folder:
        return _Found(path, "other")
    raise InputError(f"{path} is none of these: {WHAT}; its columns are {', '.join(names)[:200]}")


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


def _check_levels(given: Given) -> None:
    """The plan and the estimates must be about the same question."""
    if given.plan is None or given.estimates is None:
        return
    names, levels = given.estimates.tree.level_names, given.plan.levels
    if given.estimates.tree.attributes and names != levels[: len(names)]:
        raise InputError(
            f"the plan's levels are {', '.join(levels)}, those of the estimates {', '.join(names)}; "
            "give files of one run"
        )


def _article(kind: str) -> str:
    return "plans" if kind == "plan" else "estimates"
