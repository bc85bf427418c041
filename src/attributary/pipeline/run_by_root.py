"""run_by_root: `run` on one machine for trees that do not fit into its memory, from logs to a folder.

    done = run_into("out", Spec.load("spec.toml"), prior_until="2026-02-02")

DuckDB keeps groups of rows on disk, sorted by root. A root, or a block of small ones (noise.blocks), is a tree of its
own: it is counted, measured and denoised as any other, its rows are added to the tables, and then it is forgotten.
Before that, the plan is made of the classes of all roots (plan.condense), which are those of one tree.
"""

import os
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, nullcontext
from dataclasses import dataclass, replace
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple, Self, TypeVar

import numpy as np

from attributary import rmsre
from attributary.arrow import pa, pc
from attributary.budget import METHODS
from attributary.estimates import USUAL
from attributary.estimators import Estimator
from attributary.kernel import usable_threads
from attributary.logs.count import Question, make_engine
from attributary.logs.counts import Counts, counts_together
from attributary.logs.devices import rules_of
from attributary.logs.duckdb import DuckDB
from attributary.logs.log_columns import Moment
from attributary.logs.log_files import Engine
from attributary.noise import blocks
from attributary.noise.blocks import BlockEntropy, block_number
from attributary.pipeline.run import FILES, Known, Request, Run, plan_for, simulate
from attributary.pipeline.run_parts import (
    BEFORE,
    ON_PAGE,
    CountTask,
    RunInParts,
    merged_as_they_come,
    numbered_from,
    plan_needs_nodes,
    upper_levels,
    with_other_rows,
)
from attributary.plan import Plan
from attributary.prior import none
from attributary.spec import Spec
from attributary.tables.as_written import MEASURE
from attributary.tables.table_writer import table_parts
from attributary.types import Arrow
from attributary.whole_files import save, whole_folder

if TYPE_CHECKING:
    from attributary.report import ReportInputs

LARGE = 1_500_000  # leaves: a tree of more is run root by root
SAMPLE = 500_000  # leaves of the roots that a plan is made of, about, where it takes nodes
BATCH = 200_000  # groups of rows at a time
Made = TypeVar("Made")
UNIT, ROOT, LEAF = "__unit", "__root", "__leaf"  # columns: which roots go together, and codes of paths


@dataclass(frozen=True, eq=False)
class RunByRoot(RunInParts):
    """What a run came to that was too large to be held; its tables are in the folder."""

    shown: "ReportInputs"  # of the upper levels
    errors: dict[str, float]  # of this draw, by measure


def run_into(
    output: str,
    spec: Spec | str,
    folder: str | None = None,
    *,
    format: str = "parquet",
    since: Moment | None = None,
    until: Moment | None = None,
    prior_until: Moment | None = None,
    prior: str | None = None,
    protected: bool = False,
    plan: Plan | str | None = None,
    method: str = "optimal",
    estimator: Estimator | str = "unbiased",
    confidence: float = USUAL,
    engine: Engine | str = "duckdb",
    seed: int | None = None,
    stage: Callable[[str], None] = lambda _: None,
) -> Run | RunByRoot:
    """`run`, saved to the folder `output`; of a tree with more than LARGE leaves, root by root.

    That takes DuckDB, one breakdown without a total, an estimator that treats each root on its own, and a split by
    level. With a `seed`, the noise is that of `run` with `BlockEntropy(seed)`. The plan is that of `run`, but
    where it takes nodes (`plan_needs_nodes`): then it is made of some roots. An earlier run in the folder is replaced.
    """
    asked = Request.of(spec, folder, prior, prior_until, protected, plan, estimator)
    with make_engine(engine) if isinstance(engine, str) else nullcontext(engine) as running:
        stage("counting")
        now, *then = asked.questions(running, since, until, prior_until)
        groups = None
        if isinstance(running, DuckDB) and can_go_by_root(asked, method):
            groups = Groups.of(asked.spec, (now, *then), running)
        if groups is None or groups.leaves <= LARGE:
            rows = [None, None] if groups is None else groups.both()
            each = zip((now, *then), rows, strict=False)
            counts, *before = (q.counts(asked.spec, running, some).refuse_no_match() for q, some in each)
            rng = None if seed is None else BlockEntropy(seed)
            done = asked.run(counts, before[0] if before else None, method, confidence, rng, stage)
            done.save(output, format, stage)
            return done
        stage("planning")
        (known,) = asked.known(*groups.sample())
        if asked.plan is None and groups.leaves > SAMPLE and not plan_needs_nodes(asked, method, known):
            tree, expected = merged_as_they_come(
                groups.each(groups.task.classes, lambda done: stage(f"planning, {done}"))
            )
            known = known._replace(tree=tree, expected=expected)
        made = asked.plan or plan_for(asked.spec, [known], asked.estimator, method)
        key = os.urandom(32) if seed is None else seed
        task = RootTask(groups, made, asked.estimator, confidence, key, asked.generated)
        return task.save(known, output, format, stage)


def can_go_by_root(asked: Request, method: str) -> bool:
    """Whether each root is a tree of its own, in all that is made of it."""
    spec, plan = asked.spec, asked.plan
    if len(spec.parts) > 1 or spec.total or not spec.known or not asked.estimator.kind.batched:
        return False
    by_level = not METHODS[method].by_node if plan is None else plan.nodes is None
    return by_level and (spec.logs is None or spec.logs.is_attributed or rules_of(spec) is None)


class Unit(NamedTuple):
    """Roots that go together: one that is larger than a block, or those of a block."""

    number: int
    leaves: int


@dataclass(frozen=True, eq=False)
class Groups:
    """The groups of rows of a spec's logs, in a table on disk; those of a large tree are sorted by unit."""

    task: CountTask
    questions: tuple[Question, ...]  # of the period, and of the one before
    engine: DuckDB
    table: str
    leaves: int  # at most, where there are no units
    units: tuple[Unit, ...] = ()

    @classmethod
    def of(cls, spec: Spec, questions: tuple[Question, ...], engine: DuckDB) -> Self:
        """Counts the groups."""
        now, task = questions[0], CountTask.of(spec, questions)
        each = (f"SELECT *, {bool(i)} AS {BEFORE} FROM ({q.sql})" for i, q in enumerate(questions))
        with now.bad_cells():
            table = engine.keep("groups", " UNION ALL BY NAME ".join(each), now.stage)
        made = cls(task, questions, engine, table, 0)
        some = engine.run(f"SELECT COUNT(*) AS n FROM {table} WHERE {made._present}").column("n")[0].as_py()
        made = replace(made, leaves=some * task.domain)
        return made if made.leaves <= LARGE else made._by_unit()

    @property
    def _present(self) -> str:
        """SQL that holds for groups of the period that have a leaf."""
        return f"NOT {BEFORE} AND fate IN ({', '.join(map(str, self.task.fates))})"

    def _by_unit(self) -> Self:
        """The same sorted by unit, with the leaves of each."""
        engine, task, first, last = self.engine, self.task, self.task.paths[0], self.task.paths[-1]
        coded = task.coded(engine.batches(f"SELECT * FROM {self.table}", BATCH))
        start = next(coded)
        given = pa.RecordBatchReader.from_batches(start.schema, chain([start], coded))
        sorting = "putting roots together"
        table = engine.keep("coded", f"SELECT *, {first} AS {ROOT}, {last} AS {LEAF} FROM given", sorting, given)
        paths = f"SELECT DISTINCT {ROOT}, {LEAF} FROM {table} WHERE {self._present}"
        leaves = f"SELECT {ROOT}, COUNT(*) * {task.domain} AS leaves FROM ({paths}) GROUP BY {ROOT}"
        roots = engine.keep("roots", leaves, sorting)
        number = block_number(int(engine.run(f"SELECT CAST(SUM(leaves) AS BIGINT) AS n FROM {roots}")["n"][0].as_py()))
        alone = f"leaves > {blocks.LEAVES if len(task.paths) > 1 else 2**62}"
        unit = f"CASE WHEN {alone} THEN -1 - {ROOT} ELSE {ROOT} % {number} END"
        sizes = engine.run(
            f"SELECT {unit} AS unit, CAST(SUM(leaves) AS BIGINT) AS n FROM {roots} GROUP BY 1 ORDER BY 1"
        )
        units = tuple(map(Unit, sizes["unit"].to_pylist(), sizes["n"].to_pylist()))
        others = f"COALESCE({unit}, {units[0].number})"  # roots of the period before alone
        dealt = engine.keep(
            "dealt",
            f"SELECT *, {others} AS {UNIT} FROM {table} LEFT JOIN {roots} USING ({ROOT}) ORDER BY {UNIT}",
            sorting,
        )
        return replace(self, table=dealt, units=units, leaves=sum(unit.leaves for unit in units))

    def both(self) -> list[Arrow]:
        """All groups of each period."""
        return [self.engine.run(f"SELECT * FROM {self.table} WHERE {BEFORE} = {bool(i)}") for i in (0, 1)]

    def counted(self, units: Sequence[Unit]) -> tuple[Counts, Counts | None]:
        """The counts of some units, and those of the period before."""
        some = ", ".join(str(unit.number) for unit in units)
        rows = self.engine.run(
            f"SELECT * FROM {self.table} WHERE {UNIT} IN ({some}) AND fate IN ({', '.join(map(str, self.task.fates))})"
        )
        counted = self.task.counted(rows)
        assert counted is not None  # units have leaves
        return counted

    def sample(self) -> tuple[Counts, Counts | None]:
        """The counts of the last units, of about SAMPLE leaves; blocks come after large roots."""
        sizes = np.cumsum([unit.leaves for unit in self.units[::-1]])
        return self.counted(self.units[::-1][: 1 + int(np.searchsorted(sizes, SAMPLE))])

    def each(self, work: Callable[[Counts, Counts | None], Made], stage: Callable[[str], None]) -> Iterator[Made]:
        """What is made of the counts of each unit, in their order, as many at a time as there are cores."""
        threads, waiting = usable_threads(), deque[tuple[Unit, Future[Made]]]()
        with ThreadPoolExecutor(threads) as pool:
            for number, unit in enumerate(self.units):
                while waiting and sum(u.leaves for u, _ in waiting) + unit.leaves > (threads + 1) * blocks.LEAVES:
                    yield waiting.popleft()[1].result()
                stage(f"{number:,} of {len(self.units):,} parts")
                waiting.append((unit, pool.submit(work, *self.counted([unit]))))
            while waiting:
                yield waiting.popleft()[1].result()

    def total(self, which: int, parts: Sequence[Counts]) -> Counts:
        """The counts of all units of a period, with what became of other rows."""
        where = f"WHERE {BEFORE} = {bool(which)} GROUP BY fate"
        rows = self.engine.run(f"SELECT fate, CAST(SUM(number) AS BIGINT) AS number FROM {self.table} {where}")
        many = "rank" in self.engine.run(f"SELECT * FROM {self.table} LIMIT 0").column_names
        return with_other_rows(self.questions[which], counts_together(parts), rows, many)


@dataclass(frozen=True, eq=False)
class RootTask:
    """What is made of each unit."""

    groups: Groups
    plan: Plan
    estimator: Estimator
    confidence: float
    key: int | bytes  # the seed or the secret of the noise
    generated: bool

    def run(self, counts: Counts, before: Counts | None) -> Run:
        """The run of a unit, its tables made."""
        spec = self.plan.spec
        tree = spec.tree(counts.table)
        known = Known(spec, counts, before, tree, none(tree))
        entropy = BlockEntropy(self.key, None, block_number(self.groups.leaves))
        parts, _ = simulate(self.plan, [known], self.estimator, entropy, False)
        done = Run(self.plan, counts, before, parts, self.confidence, self.generated)
        assert done.tables
        return done

    def save(self, known: Known, output: str, format: str, stage: Callable[[str], None]) -> RunByRoot:
        """Writes plan.json, the tables, unit by unit, and report.html."""
        from attributary.report import page

        so_far, plan = SoFar(self.plan), self.plan
        with whole_folder(output, FILES) as place:
            with ExitStack() as open_:
                add = dict[str, Callable[[Arrow], None]]()
                for done in self.groups.each(self.run, lambda done: stage(f"denoising, {done}")):
                    for name, table in so_far.add(done).items():
                        if name not in add:
                            path = os.path.join(place, f"{name}.{format}")
                            add[name] = open_.enter_context(table_parts(path, table.schema))
                        add[name](table)
                    del done, table  # before the next one is there
            counts, before = (self.groups.total(i, parts) if parts else None for i, parts in enumerate(so_far.counts))
            assert counts is not None
            stage("drawing")
            plan.save(os.path.join(place, "plan.json"))
            shown = replace(so_far.shown(), files=("plan.json", f"estimates.{format}"))
            save(page(shown).html, os.path.join(place, "report.html"))
        leaves, rows = self.groups.leaves, int(so_far.nodes.sum()) * len(plan.measures)
        errors = {name: float(np.sqrt(np.mean(each / so_far.nodes))) for name, each in so_far.squares.items()}
        return RunByRoot(
            plan, known.tree, known.expected, counts, before, leaves, rows, tuple(add), self.generated, shown, errors
        )


class SoFar:
    """What is remembered of units that are written."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.counts: tuple[list[Counts], list[Counts]] = ([], [])  # without tables; of both periods
        self.nodes = np.zeros(len(plan.levels))  # of each level
        self.squares = {part.measure.name: np.zeros(len(plan.levels)) for part in plan.by_measure}  # of errors
        self._upper, self._depth = list[Arrow](), len(plan.levels)

    def add(self, done: Run) -> dict[str, Arrow]:
        """Takes notice of a unit; its tables, with nodes numbered after those before."""
        for parts, counted in zip(self.counts, (done.counts, done.before), strict=True):
            parts += [] if counted is None else [replace(counted, table=None)]
        begin, nodes = int(self.nodes.sum()), np.diff(done.tree.offsets)
        for part, truth, est in zip(self.plan.by_measure, done.truth.values(), done.estimates.values(), strict=True):
            metric, square = self.plan.spec.weigh, np.square(est.count - truth)
            each = rmsre.levels(done.tree, truth, square, part.tau, metric=metric)
            self.squares[part.measure.name] += nodes * each**2
        self.nodes += nodes
        tables = dict(done.tables)
        for name in tables.keys() & {"estimates", "ratios"}:
            tables[name] = numbered_from(tables[name], begin)
        self._keep(tables["estimates"])
        return tables

    def _keep(self, table: Arrow) -> None:
        """Keeps the rows of as many levels as a page has room for; of too many roots, the largest."""
        self._upper.append(table.filter(pc.less(table["level"], self._depth)))
        most = ON_PAGE * len(self.plan.measures)
        while sum(len(one) for one in self._upper) > most and self._depth > 1:
            self._depth -= 1
            both = pa.concat_tables(self._upper)
            self._upper = [both.filter(pc.less(both["level"], self._depth))]
        if sum(len(one) for one in self._upper) > 2 * most:
            self._upper = [self._largest()]

    def _largest(self) -> Arrow:
        """The rows of ON_PAGE nodes that are the largest, by the first measure, where there are more."""
        upper = pa.concat_tables(self._upper)
        first = (
            upper
            if MEASURE not in upper.column_names
            else upper.filter(pc.equal(upper[MEASURE].cast(pa.string()), next(iter(self.squares))))
        )
        if len(first) <= ON_PAGE:
            return upper
        nodes = first["node"].take(pc.select_k_unstable(first, ON_PAGE, [("estimate", "descending")]))
        return upper.filter(pc.is_in(upper["node"], nodes))

    def shown(self) -> "ReportInputs":
        """Plan and estimates as a page shows them."""
        return upper_levels(self.plan, self._largest(), self._depth, int(self.nodes.sum()) * len(self.plan.measures))
