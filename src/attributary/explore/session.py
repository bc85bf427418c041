"""Session: what is open, from files told apart by content, and what a request may ask of it; no word of HTTP."""

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from threading import Lock
from types import MappingProxyType
from typing import Any

from attributary.changes import TESTS
from attributary.changes.period_files import estimate_files, period_tables
from attributary.errors import InputError
from attributary.estimates import EXTRAS
from attributary.explore.estimate_store import REMEDIES, EstimateStore, level_gains, open_store
from attributary.explore.plan_tab import (
    CONVERSIONS,
    FANS,
    MOST_NODES,
    PlanStart,
    answer,
    made_up_start,
    plan_start,
    start_of_prior,
    whole_number,
)
from attributary.explore.queries import PAGE, Params, Queries, requested_view
from attributary.facts.changes import lead, sum_over_periods, whole
from attributary.facts.estimates import as_numbers, gain_words
from attributary.facts.privacy import not_private
from attributary.facts.quantity import TAU, digits, tau_of_value
from attributary.file_kind import TAKES, file_kind
from attributary.logs.count import count
from attributary.logs.duckdb import DuckDB
from attributary.pipeline.denoise_table import DenoisedTable, denoise_table
from attributary.pipeline.read_prior import read_tree_and_prior
from attributary.plan import MeasurePlan, Plan
from attributary.prior import from_counts
from attributary.read_estimates import by_breakdown
from attributary.report.series_page import LARGE, course
from attributary.spec import Spec
from attributary.spec.breakdown import BREAKDOWN
from attributary.spec.measure import COUNT, called
from attributary.tables import read_table
from attributary.types import Arrow, Record

KEPT = 8  # made-up trees


@dataclass(eq=False)
class Session:
    """The one thing that changes: a store is opened again when its file was replaced."""

    open: Callable[[], EstimateStore] | None  # opens the files; None where there are none
    start: Callable[[EstimateStore | None], PlanStart]  # what the Plan tab starts with, when it is first opened
    tau: float
    shape: str = "laplace"
    store: EstimateStore | None = None
    measures: Mapping[str, MeasurePlan] = field(default_factory=dict)  # of the plan
    recognised: tuple[str, ...] = ()  # what a table of noisy figures was taken for, in words
    doubts: tuple[str, ...] = ()  # what its figures say against it
    _starts: dict[tuple[int, ...], PlanStart] = field(default_factory=dict)
    _left: list[EstimateStore] = field(default_factory=list)
    _lock: Lock = field(default_factory=Lock)

    def reopen(self) -> None:
        """Opens the files again; if that fails, the old ones stay open."""
        if self.open is None:
            return
        with self._lock:
            fresh = self.open()
            if self.store is not None:
                self._left.append(self.store)  # and closed at the end: a query may still be at work on it
            self.store = fresh
            self._starts.pop((), None)

    def close(self) -> None:
        for store in [*self._left, *([self.store] if self.store else [])]:
            store.connection.interrupt()
            store.close()

    def about(self, params: Params) -> Record:
        if self.store is None:
            return {"table": None}
        store = self.store.of(params.get("measure", ""))
        name = self._name(store)
        gains = [] if store.series else level_gains(store, store.connection.cursor(), self._tau(store))
        return {
            "table": {
                "file": store.path,
                "before": store.series.periods[-2].name if store.series else None,
                "test": TESTS[store.series.test].words if store.series else None,
                "chance": store.series.chance if store.series else None,
                "levels": [
                    {"name": n, "nodes": int(x)} for n, x in zip(store.levels, store.forest.sizes, strict=False)
                ],
                "gains": [as_numbers(gain) for gain in gains],
                "gained": gain_words(gains),
                "nodes": len(store),
                "labels": bool(store.attributes),
                "not_private": not_private(store.about.not_private),
                "generated": store.about.generated,
                "confidence": store.about.confidence,
                "extras": [(x.name, x.key, x.head, x.words) for name, x in EXTRAS.items() if name in store.figures],
                "tau": self._tau(store),
                "page": PAGE,
                "measure": store.measure or "",
                "measures": [each.measure for each in (self.store, *self.store.others)] if store.measure else [],
                "called": (store.about.figure if name == COUNT else "") or called(name),
                "noun": "count" if name == COUNT else "sum",
                "unit": (self.measures[name].measure.unit or "") if name in self.measures else "",
                "digits": 1 if name == COUNT else digits(store.checked.variance),
            }
        }

    def _name(self, store: EstimateStore) -> str:
        """The measure of a store; if the table does not say, the plan's."""
        return store.measure or (next(iter(self.measures)) if len(self.measures) == 1 else COUNT)

    def _tau(self, store: EstimateStore) -> float:
        """The tau of a value is the plan's or, without a plan, the average value of τ conversions."""
        name = self._name(store)
        if name == COUNT or self.store is None:
            return self.tau
        stores = (self.store, *self.store.others)
        count = next((each.checked.total for each in stores if each.measure == COUNT), 0.0)
        return tau_of_value(self.measures.get(name), self.tau, store.checked.total, count)

    def queries(self, params: Params) -> Queries:
        """A cursor of its own on what is open, of one measure."""
        if self.store is None:
            raise InputError("no table is open; give one to `attributary explore`")
        self.store.check()
        store = self.store.of(params.get("measure", ""))
        return Queries(store, self._tau(store), self.shape)

    def course(self, params: Params) -> Record:
        """A node's course over the periods as a picture, and its sum over them; without a node, what changed."""
        store = None if self.store is None else self.store.of(params.get("measure", ""))
        if store is None or store.series is None:
            raise InputError("only several periods have a course; give them to `attributary explore`")
        series, node = store.series, requested_view(params, store).node
        if node is None:
            words = " ".join(lead(series, []))
            return {"size": LARGE, "shapes": course(whole(series), 0, large=True), "words": words}
        return {"size": LARGE, "shapes": course(series, node, large=True), "words": sum_over_periods(series, node)}

    def planned(self, answer: Callable[[PlanStart, Params], Record], params: Params) -> Record:
        """An answer of the Plan tab."""
        return answer(self._start(params), params)

    def _start(self, params: Params) -> PlanStart:
        """What the Plan tab starts with, or the made-up tree that a request describes."""
        fans = _fans(params.get("fans", ""))
        made_up = bool(fans or params.get("conversions"))
        key = (*fans, whole_number(params, "conversions", CONVERSIONS, 14)) if made_up else ()
        with self._lock:
            if key not in self._starts:
                if len(self._starts) > KEPT:
                    self._starts.clear()
                self._starts[key] = made_up_start(fans or FANS, key[-1]) if key else self.start(self.store)
            return self._starts[key]


def _fans(text: str) -> tuple[int, ...]:
    """Children per node, top to bottom, as in 12x20x14."""
    parts = [part.strip() for part in text.replace("×", "x").replace(",", "x").split("x")] if text else []
    if not all(part.isascii() and part.isdigit() and len(part) < 8 for part in parts):
        raise InputError(f"children per node are whole numbers, top to bottom, as in 12 × 20 × 14; got {text[:40]!r}")
    fans = tuple(map(int, parts))
    if any(fan > MOST_NODES for fan in fans):
        raise InputError(f"a made-up tree has at most {MOST_NODES:,} nodes; got {text[:40]}")
    return fans


@dataclass(frozen=True)
class Sources:
    """What a user wants to look at, by what is in the files."""

    estimates: str | None = None
    plan: Plan | None = None
    spec: str | None = None  # its path
    figures: str | None = None  # the path of noisy figures
    breakdowns: tuple[str, ...] = ()  # of the estimates, or of the plan, where they are of several

    def told(self, breakdown: str | None) -> tuple[str, ...]:
        """Which breakdown is looked at, and which there are besides."""
        others = [name for name in self.breakdowns if name != (breakdown or self.breakdowns[0])]
        each = f"breakdown {breakdown or self.breakdowns[0]}; others with --breakdown" if others else ""
        return (f"{each}: {', '.join(map(repr, others))}",) if others else ()


def open_session(
    file: str | None = None,
    earlier: str | None = None,
    *,
    levels: list[str] | None = None,
    tau: float | None = None,
    prior: str | None = None,
    protected: bool = False,
    memory: str | None = None,
    breakdown: str | None = None,
    stage: Callable[[str], None] = lambda _: None,
    **raw: Any,
) -> Session:
    """A session on estimates, alone or beside earlier ones, on a plan, a spec with its `prior` or logs, or a folder.

    A folder is one that `run` wrote, or one of periods. A table of noisy figures is denoised in memory, with the
    options of `denoise_table` in `raw`, `separator` and `sheet`.

    `levels` are the columns that name a node, and `tau` the count below which errors stop being relative, where files
    do not say. `protected`: the counts of the prior were. `memory` is DuckDB's limit, as in 4GB. Of several breakdowns
    in a file, `breakdown` names one; by default, the first.
    """
    if tau is not None and not 0 < tau < float("inf"):
        raise InputError(f"`tau` is a number above 0; got {tau}")
    weeks = period_tables([file]) if file and earlier is None else {}
    stated = {name: value for name, value in raw.items() if value not in (None, (), False)}
    sources = _sources(file, levels, stated, breakdown) if file and not weeks else Sources()
    if breakdown is not None and not sources.breakdowns:
        raise InputError(f"`breakdown` goes with files of several breakdowns; {file or 'no file'} is not one")
    if stated and not sources.figures:
        raise InputError(f"`{next(iter(stated))}` goes with a table of noisy figures; {file or 'no file'} is not one")
    if prior and not sources.spec:
        raise InputError("`prior` goes with a spec; give one, as in `attributary explore spec.toml --prior counts.csv`")
    tables = weeks or _tables(sources, file, earlier)
    begin = _of_spec(sources.spec, prior, protected, stage) if sources.spec else None
    latest: list[DenoisedTable] = []

    def made() -> Arrow:
        if sources.estimates:
            each = _tables_of(sources.estimates)
            return each[breakdown or next(iter(each))]
        options = dict(stated)
        table = read_table(str(file), separator=options.pop("separator", None), sheet=options.pop("sheet", None))
        latest[:] = [denoise_table(table, levels, path=str(file), stage=stage, **options)]
        return latest[0].nodes

    of_figures = made if sources.figures or (sources.estimates and sources.breakdowns) else None
    store = open_store(tables, levels, memory, stage, of_figures) if tables else None
    plan = sources.plan
    session = Session(
        (lambda: open_store(tables, levels, memory, made=of_figures)) if tables else None,
        lambda current: begin or plan_start(current, plan, tau),
        tau if tau is not None else plan.spec.tau if plan else TAU,
        plan.spec.noise_model.shape.name if plan else "laplace",
        store,
        {part.measure.name: part for part in plan.by_measure} if plan else {},
        *((latest[0].recognised, latest[0].doubts) if latest else (sources.told(breakdown), ())),
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


def _tables_of(path: str) -> dict[str, Arrow]:
    """The table of each breakdown in a table of estimates; nothing where it is of one tree, and then it is not read."""
    return by_breakdown(read_table(path)) if file_kind(path).names[:1] == (BREAKDOWN,) else {}


def _sources(
    path: str,
    levels: list[str] | None = None,
    stated: Mapping[str, Any] = MappingProxyType({}),
    breakdown: str | None = None,
) -> Sources:
    """What is in a file, or in the files of a folder; of a folder, whatever else it holds is passed over.

    A table of noisy figures is told by its columns, or by what is `stated` of them.
    """
    known = file_kind(path, "explore", levels, stated.get("separator"), stated.get("sheet"))
    if known.kind == "spec":
        return Sources(spec=path)
    if known.kind == "table" or (stated and known.kind == "counts"):
        return Sources(figures=path)
    tables = [path] if known.kind == "estimates" else []
    plan = path if known.kind in ("plan", "JSON") else ""
    if known.kind == "folder":
        tables, plan = estimate_files(path), os.path.join(path, "plan.json")
        plan = plan if os.path.exists(plan) else ""
        if len(tables) > 1:
            two = f"{tables[0]} and {tables[1]}"
            raise InputError(f"{path} has more than one table of estimates, {two}; name one of them")
        if not tables and not plan:
            raise InputError(f"there are neither estimates nor a plan in {path}; {TAKES['explore']}")
    elif not tables and not plan:
        known.refuse("explore", REMEDIES.get(known.kind, ""))
    made = Plan.load(plan) if plan else None
    names = tuple(_tables_of(tables[0])) if tables else made.spec.called if made else ()
    for each in filter(None, (names, made.spec.called if made else ())):
        if breakdown is not None and breakdown not in each:
            raise InputError(f"{path} has no breakdown {breakdown!r}; it has {', '.join(map(repr, each))}")
    of_plan = made.spec.called.index(breakdown) if made and made.spec.called and breakdown else 0
    return Sources(tables[0] if tables else None, made.breakdowns[of_plan] if made else None, breakdowns=names)
