"""spark_run: `run` on a cluster: leaves, noise and estimates stay on the workers, the plan is made on the driver.

    done = run_spark(Spec.load("spec.toml"), engine=Spark(session), prior_until="2026-02-02")
    done.frames["estimates"]                    # a Spark frame; nothing is computed until it is asked for
    done.save("hdfs://name/run")

The SQL counts groups of rows. They are dealt into blocks (noise.blocks), by whole roots, and a worker makes of a block
what one machine makes of a forest, by the same code: leaves, noise, estimates. A block's noise hangs on the seed or
secret and the block alone. The plan is made of the roots of one block: of all there are, where there is no other.
"""

import os
import pickle
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from itertools import zip_longest
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from attributary.denoising.cluster import denoise_spark
from attributary.errors import InputError
from attributary.estimates import IMPRESSIONS, RATES, USUAL
from attributary.estimators import Estimator
from attributary.logs.count import Question
from attributary.logs.counts import Counts, counts_together, leaves
from attributary.logs.devices import rules_of
from attributary.logs.log_columns import Moment
from attributary.logs.spark import Spark, any_pandas, spark_errors
from attributary.logs.spark_folder import SparkFolder, spark_folder
from attributary.noise import blocks
from attributary.noise.blocks import (
    ROOM,
    TOP,
    BlockEntropy,
    block_number,
    codes_by_level,
    own_block,
)
from attributary.pipeline.run import FILES, Known, Request, Run, Simulated, check_earlier, plan_for, simulate
from attributary.pipeline.run_parts import (
    BEFORE,
    ON_PAGE,
    PART,
    CountTask,
    RunInParts,
    numbered_from,
    upper_levels,
    with_other_rows,
)
from attributary.plan import Plan
from attributary.prior import none
from attributary.prior.earlier import profile
from attributary.spec import Spec
from attributary.tables.as_written import MEASURE, MEASURED
from attributary.tables.table_columns import SEEDED, plain, with_column
from attributary.types import Arrow, Record

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from attributary.report import ReportInputs


@dataclass(frozen=True, eq=False)
class RunTask:
    """What every worker needs to make estimates of a part."""

    count: CountTask
    plan: Plan
    estimator: Estimator
    confidence: float
    key: int | bytes  # the seed or the secret of the noise
    blocks: int  # in all
    generated: bool
    first: Mapping[int, int]  # of each part, the number of its first node
    sizes: Mapping[int, int]  # of each root that is cut: how many blocks its nodes are dealt into, by its own block

    def tables(self, rows: Arrow, true_only: bool = False) -> dict[str, Arrow]:
        """The tables of a part, as `Run.tables` of one machine; a column says so where they are not private."""
        counted, part = self.count.counted(rows), int(rows.column(PART)[0].as_py())
        if counted is None:
            return {}
        tables = {name: each.table for name, each in zip(("counts", "prior"), counted, strict=True) if each is not None}
        if not true_only:
            known = Known.of(self.plan.spec, *counted, None, False, None)
            entropy = BlockEntropy(self.key, part, self.blocks)
            parts, _ = simulate(self.plan, [known], self.estimator, entropy, False)
            tables = Run(self.plan, *counted, parts, self.confidence, self.generated).tables
        return {name: self._told(name, table, part) for name, table in tables.items()}

    def _told(self, name: str, table: Arrow, part: int) -> Arrow:
        """A table of a part with the numbers of its nodes among all, and a column that says why it is not private."""
        table = numbered_from(table, self.first.get(part, 0)) if name in ("estimates", "ratios") else table
        told = with_column(table)
        columns = {c: plain(told.column(c)) for c in told.column_names}
        return pa.table(columns).replace_schema_metadata(told.schema.metadata)

    def measured(self, rows: Arrow) -> Arrow:
        """The noisy sums of a part's nodes, by measure; nodes above all parts have what it adds to their sums."""
        counted, part = self.count.counted(rows), int(rows.column(PART)[0].as_py())
        if counted is None:
            return self.figures.empty_table()
        plan, total = self.plan, int(self.plan.spec.total)
        first = first_level(part, self.sizes) + total
        tree = plan.spec.tree(counted[0].table)
        entropy = BlockEntropy(self.key, part, self.blocks, first)
        sums, tables = profile(tree, plan.spec, counted[0].table), []
        code = np.concatenate(list(codes_by_level(tree))).astype(np.int64)
        block = np.where(tree.level < total, TOP, part // ROOM * ROOM)  # of nodes above all parts
        nodes = [code, np.where(tree.parent < 0, -1, code[tree.parent]), tree.level, block, tree.level < first]
        parts = (Simulated(tree, none(tree), {}, {}),)
        seen = Run(plan, *counted, parts, self.confidence, False).impressions
        seen = np.full(len(tree), np.nan) if seen is None else seen
        labels = [plain(tree.table().column(name)) for name in tree.attributes]
        for k, each in enumerate(plan.by_measure):
            exact = sums.limited(each.measure, each.plan.most_of_heads(tree), each.clip) / each.clip
            budget = each.plan.budget(tree)
            noisy = entropy.measure(plan.spec.noise_model, tree, len(plan.spec.known), exact, budget)
            figures = [exact, budget, noisy * each.clip, each.variance(tree), seen]
            columns = [np.full(len(tree), k), *nodes, *labels, *figures]
            tables.append(pa.table(columns, names=self.figures.names).cast(self.figures))
        return pa.concat_tables(tables)

    @property
    def figures(self) -> pa.Schema:
        """The columns of `measured`."""
        labels = [(f"label_{i}", pa.string()) for i in range(len(self.plan.spec.attributes))]
        nodes = [("measure", pa.int32()), *((name, pa.int64()) for name in ("node", "parent", "level", "block"))]
        figures = [(name, pa.float64()) for name in ("exact", "budget", *MEASURED, IMPRESSIONS)]
        return pa.schema([*nodes, ("above", pa.bool_()), *labels, *figures])

    def top(self, rows: Arrow) -> Arrow:
        """The nodes above all parts with their sums, in Arrow, and their noise: a block of its own."""
        model, entropy, tables = self.plan.spec.noise_model, BlockEntropy(self.key), []
        rows = rows.sort_by([(name, "ascending") for name in ("measure", "block", "level", "node")])
        for (k, block), mine in _grouped(rows, "measure", "block"):
            exact, budget = mine.column("exact").to_numpy(), mine.column("budget").to_numpy()
            noisy = model.measure(exact, budget, entropy.block(block, exact)) * self.plan.by_measure[k].clip
            tables.append(mine.set_column(mine.column_names.index(MEASURED[0]), MEASURED[0], pa.array(noisy)))
        return pa.concat_tables(tables)

    def estimates(self, parts: "Parts", schema: pa.Schema) -> "DataFrame":
        """The estimates of a tree that is cut, from figures of its parts, with these columns."""
        from pyspark import StorageLevel
        from pyspark.sql import functions as sf
        from pyspark.sql.pandas.types import from_arrow_schema

        spec = self.plan.spec

        figures = parts.frame(self.measured, self.figures).persist(StorageLevel.DISK_ONLY)
        sums = ("exact", IMPRESSIONS)
        nodes = [name for name in self.figures.names if name not in sums]
        above = figures.where("above").groupBy(*nodes).agg(*(sf.sum(name).alias(name) for name in sums))
        top = figures.sparkSession.createDataFrame(
            self.top(above.select(*self.figures.names).toArrow().cast(self.figures))
        )
        known = sf.col(MEASURED[1]) < float("inf")
        both = figures.where(~sf.col("above")).unionByName(top)
        both = both.withColumn(MEASURED[0], sf.when(known, sf.col(MEASURED[0])))
        names = [*(f"label_{i}" for i in range(len(spec.attributes))), *MEASURED, IMPRESSIONS]
        frames = []
        for k, each in enumerate(self.plan.by_measure):
            chosen = self.estimator if each.measure.is_count else self.estimator.for_values
            mine = both.where(sf.col("measure") == k).select("node", "parent", "level", *names)
            how: Record = {"estimator": chosen, "tau": each.tau, "worth": each.share.worth}
            how |= {"shape": spec.noise_model.shape.name, "confidence": self.confidence}
            made = denoise_spark(mine, names[: -len(MEASURED) - 1], *MEASURED, **how)
            for rate, of in RATES.items():
                made = made.withColumn(rate, sf.try_divide(sf.col(of), sf.col(IMPRESSIONS)))
            made = made.withColumn("measure", sf.lit(each.measure.name)).withColumn("not_private", sf.lit(SEEDED))
            labels = dict(zip((a.name for a in spec.attributes), names, strict=False))
            wanted = zip(schema.names, from_arrow_schema(schema).fields, strict=True)
            frames.append(made.select(*(sf.col(labels.get(n, n)).cast(f.dataType).alias(n) for n, f in wanted)))
        return reduce(lambda one, other: one.unionByName(other), frames)

    def work(self, name: str, schema: pa.Schema) -> Callable[[Arrow], Arrow]:
        """What makes one of these tables of a part's groups of rows."""

        def made(rows: Arrow) -> Arrow:
            table = self.tables(rows, true_only=name in ("counts", "prior")).get(name)
            return schema.empty_table() if table is None else table.select(schema.names).cast(schema)

        return made


def first_level(part: int, sizes: Mapping[int, int]) -> int:
    """The level of a part's uppermost nodes, counted from the first attribute."""
    start = part // ROOM * ROOM
    return 0 if part < TOP else (part - start - 1) // sizes[start] + 1


def _grouped(rows: Arrow, *names: str) -> Iterator[tuple[tuple[int, ...], Arrow]]:
    """Sorted rows by the values of some columns."""
    keys = np.column_stack([rows.column(name).to_numpy() for name in names])
    starts = np.flatnonzero(np.r_[True, (np.diff(keys, axis=0) != 0).any(axis=1)])
    for start, end in zip(starts, [*starts[1:], len(keys)], strict=True):
        yield tuple(keys[start].tolist()), rows.slice(start, end - start)


@dataclass(frozen=True, eq=False)
class SparkRun(RunInParts):
    """What a run on Spark came to; the frames counts and prior are NOT protected, the others are unless they say so."""

    parts: "Parts"
    frames: "dict[str, DataFrame]"  # estimates, counts, and ratios and prior where one machine has them
    notes: Mapping[bytes, bytes]  # the metadata of the estimates, as one machine writes it

    def save(
        self, folder: str, stage: Callable[[str], None] = lambda _: None, *, again: bool = False
    ) -> "ReportInputs":
        """Writes plan.json, Parquet files of each frame, and report.html, in the place of an earlier run's.

        The folder may be an address; all machines must see it. An earlier run's files are replaced only `again`. Gives
        what the page shows.
        """
        from attributary.report import page

        session = self.frames["counts"].sparkSession
        if "://" in folder:
            there = SparkFolder(session, folder.rstrip("/"))
            check_earlier(folder, FILES, again, [name for name in FILES if there.exists(name)])
        else:
            check_earlier(folder, FILES, again)
        with spark_folder(session, folder, FILES) as place, spark_errors():
            for name, frame in self.frames.items():
                stage(f"writing {name}")
                frame.write.parquet(place.uri(f"{name}.parquet"))
            written = session.read.parquet(place.uri("estimates.parquet"))
            if written.count() != self.rows:
                raise InputError(f"{folder} does not hold what the workers wrote; give a folder that all machines see")
            stage("drawing")
            shown = self._shown(written)
            place.write("plan.json", self.plan.to_json())
            shown = replace(shown, files=("plan.json", "estimates.parquet"))
            place.write("report.html", page(shown).html)
        return shown

    def _shown(self, estimates: "DataFrame") -> "ReportInputs":
        """Plan and estimates of the upper levels, as many as a page shows."""
        from pyspark.sql import functions as sf

        depth = max(1, int((np.cumsum(self.parts.levels) <= ON_PAGE).sum()))
        upper = estimates.where(sf.col("level") < depth)
        if self.parts.levels[0] > ON_PAGE:
            several = MEASURE in upper.columns
            first = upper.where(sf.col(MEASURE) == self.plan.by_measure[0].measure.name) if several else upper
            upper = upper.join(first.orderBy(sf.desc("estimate")).limit(ON_PAGE).select("node"), "node", "left_semi")
        return upper_levels(self.plan, upper.toArrow().replace_schema_metadata(self.notes), depth, self.rows)


def run_spark(
    spec: Spec | str,
    folder: str | None = None,
    *,
    engine: Spark,
    since: Moment | None = None,
    until: Moment | None = None,
    prior_until: Moment | None = None,
    prior: str | None = None,
    protected: bool = False,
    plan: Plan | str | None = None,
    method: str = "optimal",
    estimator: Estimator | str = "unbiased",
    confidence: float = USUAL,
    seed: int | None = None,
    stage: Callable[[str], None] = lambda _: None,
) -> SparkRun:
    """`run` in the engine's session, with the options of `run`; the noise is exact, and hangs on 32 random bytes.

    With a `seed` it is that of one machine with this seed, and not private.
    """
    asked = Request.of(spec, folder, prior, prior_until, protected, plan, estimator)
    spec = asked.spec
    if len(spec.parts) > 1:
        raise InputError("several breakdowns are for one machine; leave out the engine spark, or run each on its own")
    if rules_of(spec) is not None and spec.logs is not None and not spec.logs.is_attributed:
        rule = f"what devices report under the {spec.terms.title} is simulated on one machine"
        raise InputError(f"{rule}; leave out the engine spark (`attributary count` may use it)")
    stage("counting")
    parts = Parts.of(spec, asked.questions(engine, since, until, prior_until), engine)
    stage("planning")
    rows = parts.sample()
    counted = parts.task.counted(rows)
    assert counted is not None
    (known,) = asked.known(*counted)
    made = asked.plan or plan_for(spec, [known], asked.estimator, method)
    key = os.urandom(32) if seed is None else seed
    first = dict(zip(parts.nodes, np.cumsum([0, *map(sum, parts.nodes.values())]).tolist(), strict=False))
    number = block_number(parts.leaves)
    task = RunTask(parts.task, made, asked.estimator, confidence, key, number, asked.generated, first, parts.sizes)
    seen = np.isin(rows.column("fate").to_numpy(), parts.task.fates[:-1]) & ~rows.column(BEFORE).to_numpy()
    one = task.tables(rows.slice(int(np.argmax(seen)), 1))  # tells the columns
    schemas = {name: table.schema.remove_metadata() for name, table in one.items()}
    schemas |= {} if parts.before is None else {"prior": schemas["counts"]}
    if parts.above:
        schemas.pop("ratios", None)
    frames = {name: parts.frame(task.work(name, schema), schema) for name, schema in schemas.items()}
    if parts.above:
        with spark_errors():
            frames["estimates"] = task.estimates(parts, schemas["estimates"])
    notes = one["estimates"].schema.metadata
    rows = sum(parts.levels) * len(made.measures)
    told = (parts.counts, parts.before, parts.leaves, rows, tuple(frames), asked.generated)
    return SparkRun(made, known.tree, known.expected, *told, parts, frames, notes)


@dataclass(frozen=True, eq=False)
class Parts:
    """The groups of rows of a spec's logs on the workers, by part, and how many leaves and nodes these have."""

    task: CountTask
    groups: "DataFrame"  # with a column PART
    counts: Counts  # without their table
    before: Counts | None
    leaves: int
    nodes: dict[int, list[int]]  # of each part, by level
    above: list[int]  # how many nodes above all parts each upper level has; empty where parts have whole roots
    sizes: dict[int, int]  # of each root that is cut: how many blocks its nodes are dealt into, by its own block

    @classmethod
    def of(cls, spec: Spec, questions: Sequence[Question], engine: Spark) -> "Parts":
        """Counts the groups, and deals them into parts."""
        from pyspark import StorageLevel
        from pyspark.sql import functions as sf
        from pyspark.sql.types import LongType, StructField, StructType

        now, task = questions[0], CountTask.of(spec, questions)
        with now.bad_cells(), spark_errors(), any_pandas():
            each = [engine.frame(q.sql).withColumn(BEFORE, sf.lit(bool(i))) for i, q in enumerate(questions)]
            groups = reduce(lambda one, other: one.unionByName(other), each)
            schema = StructType([*groups.schema.fields, *(StructField(name, LongType()) for name in task.paths)])
            groups = groups.mapInArrow(task.coded, schema).persist(StorageLevel.DISK_ONLY)
            fates = groups.groupBy(BEFORE, "fate").agg(sf.sum("number").alias("number")).toArrow()
            known = groups.where(sf.col("fate").isin(task.fates))
            present = known.where(~sf.col(BEFORE)).select(*task.paths).distinct()
            number = present.count() * task.domain if task.paths else task.domain
            dealer = _deal(present, task, block_number(number))
            dealt = known.withColumn(PART, dealer.part)
            columns = "part long, nodes array<long>, counts binary, before binary"
            survey = dealt.groupBy(PART).applyInArrow(by_part(task.survey), columns).collect()
        nodes = {row["part"]: row["nodes"] for row in sorted(survey)}
        total = list[Counts]()
        for question, name in zip(questions, ("counts", "before"), strict=False):
            mine = fates.filter(pc.equal(fates.column(BEFORE), name == "before"))
            some = [pickle.loads(cell) for row in survey if (cell := row[name])]
            made = counts_together(some) if some else leaves(spec, now.logs, mine, question.period)  # refuses no rows
            total.append(with_other_rows(question, made, mine, "rank" in groups.columns))
        above = [1] * (spec.total and block_number(number) > 1) + dealer.above
        for part, levels in nodes.items():  # nodes above all parts are none of theirs
            first = first_level(part, dealer.sizes) + int(spec.total)
            nodes[part] = [0] * first + levels[first:] if above else levels
        counts, before = total[0], total[1] if len(total) > 1 else None
        return cls(task, dealt, counts, before, number, nodes, above, dealer.sizes)

    @property
    def levels(self) -> list[int]:
        """How many nodes each level has."""
        each = [sum(level) for level in zip(*self.nodes.values(), strict=True)]
        return [number + above for number, above in zip_longest(each, self.above, fillvalue=0)]

    def sample(self) -> Arrow:
        """The groups of one block."""
        return self.groups.where(f"{PART} = {min(self.nodes)}").toArrow()

    def frame(self, work: Callable[[Arrow], Arrow], schema: object) -> "DataFrame":
        """What the workers make of the parts."""
        from pyspark.sql.pandas.types import from_arrow_schema

        with any_pandas():
            return self.groups.groupBy(PART).applyInArrow(by_part(work), from_arrow_schema(schema))


def by_part(work: Callable[[Arrow], Arrow]) -> Callable[[Arrow], Arrow]:
    """A method as a function: PySpark takes its self for a key."""

    def made(rows: Arrow) -> Arrow:
        return work(rows)

    return made


class Dealt(NamedTuple):
    """How groups are dealt into parts."""

    part: "Column"
    sizes: dict[int, int]  # of each root that is cut: how many blocks its nodes are dealt into, by its own block
    above: list[int]  # how many nodes above all parts each of the upper levels of attributes has


def _deal(present: "DataFrame", task: CountTask, number: int) -> Dealt:
    """The block of each group: that of its root or, of a root too large for a block, of the node below, and so on."""
    from pyspark.sql import functions as sf

    if number == 1 or not task.paths:
        return Dealt(sf.lit(0).cast("long"), {}, [])
    root, last = sf.col(task.paths[0]), len(task.paths) - 1
    own = sf.lit(1).cast("long")
    first = sf.shiftleft(sf.shiftright(root, 21), 20) + sf.lit(TOP)  # noise.blocks.own_block
    part, sizes, above = None, dict[int, int](), list[int]()
    for depth, path in enumerate(task.paths):
        below = first + 1 + (depth - 1) * own + sf.pmod(sf.col(path), own)
        place = below if depth else sf.pmod(root, sf.lit(number).cast("long"))
        large = []
        if depth < last:
            size = (sf.count(sf.lit(1)) * task.domain).alias("leaves")
            leaves = present.groupBy(path).agg(size).where(sf.col("leaves") > blocks.LEAVES)
            large = [(row[path], block_number(row["leaves"])) for row in leaves.collect()]
        if large and depth == 0:
            own = sf.create_map(*(sf.lit(cell).cast("long") for pair in large for cell in pair))[root]
            starts = own_block(np.array([code for code, _ in large], np.uint64))
            sizes = dict(zip(starts.tolist(), (each for _, each in large), strict=True))
        here = ~sf.col(path).isin([code for code, _ in large])
        part = sf.when(here, place) if part is None else part.when(here, place)
        if not large:
            break
        above.append(len(large))
    assert part is not None
    return Dealt(part, sizes, above)
