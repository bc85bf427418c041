"""open_session: a session from files: estimates, noisy figures, a plan, a spec, or a folder."""

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from attributary.changes.period_files import estimate_files, period_tables
from attributary.errors import InputError
from attributary.explore.estimate_store import open_store
from attributary.explore.plan_tab import PlanStart, answer, plan_start, start_of_prior
from attributary.explore.session import Session
from attributary.file_kind import TAKES, file_kind
from attributary.logs.count import count
from attributary.logs.duckdb import DuckDB
from attributary.pipeline.denoise_table import DenoisedTable, columns_of_figures, denoise_table
from attributary.pipeline.read_tree import read_tree_and_prior
from attributary.plan import Plan
from attributary.prior import from_counts
from attributary.spec import Spec
from attributary.tables import read_table

REMEDIES: dict[str, str] = {
    "ratios": "explore the estimates beside it, or make a report of both",
    "counts": "denoise them first, or explore their estimates; if they are noisy, state their noise with `noise`",
}


@dataclass(frozen=True)
class Sources:
    """What a user wants to look at, by what is in the files."""

    estimates: str | None = None
    plan: Plan | None = None
    spec: str | None = None  # its path
    figures: str | None = None  # the path of noisy figures


def open_session(
    file: str | None = None,
    earlier: str | None = None,
    *,
    levels: list[str] | None = None,
    tau: float | None = None,
    prior: str | None = None,
    protected: bool = False,
    memory: str | None = None,
    stage: Callable[[str], None] = lambda _: None,
    **raw: Any,
) -> Session:
    """A session on estimates, alone or beside earlier ones, on a plan, a spec with its `prior` or logs, or a folder.

    A folder is one that `run` wrote, or one of periods. A table of noisy figures is denoised in memory, with the
    options of `denoise_table` in `raw`, `separator` and `sheet`.

    `levels` are the columns that name a node, and `tau` the count below which errors stop being relative, where files
    do not say. `protected`: the counts of the prior were. `memory` is DuckDB's limit, as in 4GB.
    """
    if tau is not None and not 0 < tau < float("inf"):
        raise InputError(f"`tau` is a number above 0; got {tau}")
    weeks = period_tables([file]) if file and earlier is None else {}
    stated = {name: value for name, value in raw.items() if value not in (None, (), False)}
    sources = _sources(file, levels, stated) if file and not weeks else Sources()
    if stated and not sources.figures:
        raise InputError(f"`{next(iter(stated))}` goes with a table of noisy figures; {file or 'no file'} is not one")
    if prior and not sources.spec:
        raise InputError("`prior` goes with a spec; give one, as in `attributary explore spec.toml --prior counts.csv`")
    tables = weeks or _tables(sources, file, earlier)
    begin = _of_spec(sources.spec, prior, protected, stage) if sources.spec else None
    latest: list[DenoisedTable] = []

    def made() -> Any:
        latest[:] = [_denoised(str(file), levels, stated, stage)]
        return latest[0].nodes

    of_figures = made if sources.figures else None
    store = open_store(tables, levels, memory, stage, of_figures) if tables else None
    plan = sources.plan
    session = Session(
        (lambda: open_store(tables, levels, memory, made=of_figures)) if tables else None,
        lambda current: begin or plan_start(current, plan, tau),
        tau if tau is not None else plan.spec.tau if plan else 10.0,
        plan.spec.noise_model.shape.name if plan else "laplace",
        store,
        {part.measure.name: part for part in plan.by_measure} if plan else {},
        *((latest[0].recognised, latest[0].doubts) if latest else ()),
    )
    if store is None:
        session.planned(answer, {})  # what is wrong with a plan is said here, not on the page
    return session


def _tables(sources: Sources, file: str | None, earlier: str | None) -> dict[str, str]:
    """The tables to open by name: the estimates, and before them earlier ones."""
    if file is None or earlier is None:
        path = sources.estimates or sources.figures
        return {path: path} if path else {}
    before = _sources(earlier).estimates
    if sources.estimates is None or before is None:
        other = file if sources.estimates is None else earlier
        raise InputError(f"two tables of estimates are compared; {other} is not one: denoise it first, if it is noisy")
    return period_tables([file, earlier]) or {earlier: before, file: sources.estimates}


def _of_spec(path: str, prior_path: str | None, protected: bool, stage: Callable[[str], None]) -> PlanStart:
    """What the Plan tab begins with: the spec's tree with the prior, or with what its logs count."""
    stage("reading")
    spec = Spec.load(path)
    if prior_path or spec.logs is None:
        return start_of_prior(spec, *read_tree_and_prior(spec, None, prior_path, protected), prior_path or "nothing")
    stage("counting the logs")
    with DuckDB() as engine:
        counts = count(spec, os.path.dirname(path), engine=engine)
    tree = spec.tree(counts.table)
    return start_of_prior(spec, tree, from_counts(tree, counts.table), f"the logs of {path}")


def _denoised(
    path: str, levels: list[str] | None, stated: Mapping[str, Any], stage: Callable[[str], None]
) -> DenoisedTable:
    """A table of noisy figures in a file with its estimates, in memory."""
    options = dict(stated)
    table = read_table(path, separator=options.pop("separator", None), sheet=options.pop("sheet", None))
    figures = columns_of_figures(table, options.pop("value", None))
    return denoise_table(table, levels, figures, path=path, stage=stage, **options)


def _sources(path: str, levels: list[str] | None = None, stated: Mapping[str, Any] = MappingProxyType({})) -> Sources:
    """What is in a file, or in the files of a folder; of a folder, whatever else it holds is passed over.

    A table of noisy figures is told by its columns, or by what is `stated` of them.
    """
    known = file_kind(path, "explore", levels, stated.get("separator"), stated.get("sheet"))
    if known.kind == "folder":
        return _folder(path)
    if known.kind == "spec":
        return Sources(spec=path)
    if known.kind in ("plan", "JSON"):
        return Sources(plan=Plan.load(path))
    if known.kind == "table" or (stated and known.kind == "counts"):
        return Sources(figures=path)
    if known.kind != "estimates":
        known.refuse("explore", REMEDIES.get(known.kind, ""))
    return Sources(estimates=path)


def _folder(path: str) -> Sources:
    tables = estimate_files(path)
    if len(tables) > 1:
        raise InputError(f"{path} has more than one table of estimates, {tables[0]} and {tables[1]}; name one of them")
    plan = os.path.join(path, "plan.json")
    sources = Sources(tables[0] if tables else None, Plan.load(plan) if os.path.exists(plan) else None)
    if sources.estimates is None and sources.plan is None:
        raise InputError(f"there are neither estimates nor a plan in {path}; {TAKES['explore']}")
    return sources
