"""spark_run: `run` on a cluster: leaves, noise and estimates stay on the workers, the plan is made on the driver.

    done = run_spark(Spec.load("spec.toml"), engine=Spark(session), prior_until="2026-02-02")
    done.frames["estimates"]                    # a Spark frame; nothing is computed until it is asked for
    done.save("hdfs://name/run")

The SQL counts groups of rows. They are dealt into blocks (noise.blocks), by whole roots, and a worker makes of a block
what one machine makes of a forest, by the same code: leaves, noise, estimates. A block's noise hangs on the seed or
secret and the block alone. The plan is made of the roots of one block: of all there are, where there is no other.
"""

import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from attributary.errors import InputError
from attributary.estimates import IMPRESSIONS, RATES, USUAL
from attributary.estimators import Estimator
from attributary.logs.log_columns import Moment
from attributary.logs.spark import PART, Spark, of_parts, spark_errors
from attributary.logs.spark_folder import SparkFolder, spark_folder
from attributary.noise.blocks import (
    ROOM,
    TOP,
    BlockEntropy,
    block_number,
    codes_by_level,
)
from attributary.pipeline.run import FILES, Known, Request, Run, Simulated, check_earlier, plan_for, simulate
from attributary.pipeline.run_parts import ON_PAGE, CountTask, RunInParts, numbered_from, upper_levels, with_words
from attributary.pipeline.spark_count import Parts, first_level, why_not_in_parts
from attributary.pipeline.spark_nodes import denoise_measures
from attributary.plan import Plan
from attributary.prior import none
from attributary.prior.earlier import profile
from attributary.spec import Spec
from attributary.tables.as_written import MEASURE, MEASURED
from attributary.tables.table_columns import SEEDED, plain
from attributary.types import Arrow, Record

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

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

    def tables(self, rows: Arrow) -> dict[str, Arrow]:
        """The tables of a part's estimates, as those of `Run.tables` on one machine."""
        counted, part = self.count.counted(rows), int(rows.column(PART)[0].as_py())
        if counted is None:
            return {}
        known = Known.of(self.plan.spec, *counted, None, False, None)
        entropy = BlockEntropy(self.key, part, self.blocks)
        parts, _ = simulate(self.plan, [known], self.estimator, entropy, False)
        tables = Run(self.plan, *counted, parts, self.confidence, self.generated).tables
        names, first = tables.keys() & {"estimates", "ratios"}, self.first.get(part, 0)
        return {name: with_words(numbered_from(tables[name], first)) for name in names}

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

    def estimates(self, parts: Parts, schema: pa.Schema) -> "DataFrame":
        """The estimates of a tree that is cut, from figures of its parts, with these columns."""
        from pyspark import StorageLevel
        from pyspark.sql import functions as sf
        from pyspark.sql.pandas.types import from_arrow_schema

        spec = self.plan.spec
        figures = of_parts(parts.groups, self.measured, self.figures).persist(StorageLevel.DISK_ONLY)
        sums = ("exact", IMPRESSIONS)
        nodes = [name for name in self.figures.names if name not in sums]
        above = figures.where("above").groupBy(*nodes).agg(*(sf.sum(name).alias(name) for name in sums))
        top = figures.sparkSession.createDataFrame(
            self.top(above.select(*self.figures.names).toArrow().cast(self.figures))
        )
        known = sf.col(MEASURED[1]) < float("inf")
        both = figures.where(~sf.col("above")).unionByName(top)
        both = both.withColumn(MEASURED[0], sf.when(known, sf.col(MEASURED[0])))
        labels = {attribute.name: f"label_{i}" for i, attribute in enumerate(spec.attributes)}
        chosen = ["node", "parent", "level", *labels.values(), *MEASURED, IMPRESSIONS]
        frames = [both.where(sf.col("measure") == k).select(*chosen) for k in range(len(self.plan.by_measure))]
        how: Record = {"shape": spec.noise_model.shape.name, "confidence": self.confidence}
        made = denoise_measures(self.plan, frames, list(labels.values()), estimator=self.estimator, **how)
        for rate, of in RATES.items():
            made = made.withColumn(rate, sf.try_divide(sf.col(of), sf.col(IMPRESSIONS)))
        made = made.withColumn("not_private", sf.lit(SEEDED))
        wanted = zip(schema.names, from_arrow_schema(schema).fields, strict=True)
        return made.select(*(sf.col(labels.get(n, n)).cast(field.dataType).alias(n) for n, field in wanted))


def _grouped(rows: Arrow, *names: str) -> Iterator[tuple[tuple[int, ...], Arrow]]:
    """Sorted rows by the values of some columns."""
    keys = np.column_stack([rows.column(name).to_numpy() for name in names])
    starts = np.flatnonzero(np.r_[True, (np.diff(keys, axis=0) != 0).any(axis=1)])
    for start, end in zip(starts, [*starts[1:], len(keys)], strict=True):
        yield tuple(keys[start].tolist()), rows.slice(start, end - start)


@dataclass(frozen=True, eq=False)
class SparkRun(RunInParts):
    """What a run on Spark came to; the frames counts and prior are NOT protected, the others are unless they say so."""

    parts: Parts
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
        there = SparkFolder.of(session, folder)
        check_earlier(folder, FILES, again, [n for n in FILES if there.exists(n)] if "://" in folder else None)
        with spark_folder(session, folder, FILES) as place, spark_errors():
            for name, frame in self.frames.items():
                stage(f"writing {name}")
                rows = place.save(frame, f"{name}.parquet")
                if name == "estimates" and rows != self.rows:
                    raise InputError(f"{folder} has {rows:,} of {self.rows:,} rows; give one that all machines see")
            written = session.read.parquet(place.uri("estimates.parquet"))
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
    if reason := why_not_in_parts(spec):
        raise InputError(reason)
    stage("counting")
    parts = Parts.of(spec, asked.questions(engine, since, until, prior_until), engine)
    stage("planning")
    counted = parts.task.counted(parts.sample())
    assert counted is not None
    (known,) = asked.known(*counted)
    made = asked.plan or plan_for(spec, [known], asked.estimator, method)
    key = os.urandom(32) if seed is None else seed
    first = dict(zip(parts.nodes, np.cumsum([0, *map(sum, parts.nodes.values())]).tolist(), strict=False))
    number = block_number(parts.leaves)
    task = RunTask(parts.task, made, asked.estimator, confidence, key, number, asked.generated, first, parts.sizes)
    one = task.tables(parts.one)  # tells the columns
    schemas = {name: table.schema.remove_metadata() for name, table in one.items()}
    frames = parts.tables_of_counts()
    if parts.above:
        with spark_errors():
            frames["estimates"] = task.estimates(parts, schemas["estimates"])
    else:
        frames |= {name: parts.table(task.tables, name, schema) for name, schema in schemas.items()}
    notes = one["estimates"].schema.metadata
    rows = sum(parts.levels) * len(made.measures)
    told = (parts.counts, parts.before, parts.leaves, rows, tuple(frames), asked.generated)
    return SparkRun(made, known.tree, known.expected, *told, parts, frames, notes)
