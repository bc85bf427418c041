"""spark_count: `count` on a cluster, and what `run` does first: workers make the leaves, part by part.

    counted = count_spark(Spec.load("spec.toml"), engine=Spark(session))
    counted.counts.conversions                  # a summary, on the driver
    counted.frame                               # the leaves, on the workers; counted.save("hdfs://name/counts.parquet")

The SQL counts groups of rows. They are dealt into blocks (noise.blocks), by whole roots where these fit, and a worker
makes leaves of a block by the code of one machine.
"""

import pickle
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from itertools import zip_longest
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from attributary.errors import InputError
from attributary.logs.count import Question
from attributary.logs.counts import Counts, counts_together, leaves
from attributary.logs.devices import rules_of
from attributary.logs.log_columns import Moment
from attributary.logs.spark import PART, Spark, of_batches, of_parts, spark_errors
from attributary.logs.spark_folder import save_frame
from attributary.noise import blocks
from attributary.noise.blocks import ROOM, TOP, block_number, own_block
from attributary.pipeline.run_parts import BEFORE, CountTask, with_other_rows
from attributary.spec import Spec
from attributary.types import Arrow

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

PARTITIONS = 10_000  # of parts, at most
ONE_FILE = 10_000_000  # leaves that come to the driver, at most: about 100 bytes each


@dataclass(frozen=True, eq=False)
class SparkCounts:
    """What counting came to: NOT protected."""

    counts: Counts  # without their table
    parts: "Parts"

    @property
    def leaves(self) -> int:
        """How many leaves there are."""
        return self.parts.leaves

    @property
    def frame(self) -> "DataFrame":
        """The table of counts; nothing is computed until it is asked for."""
        return self.parts.tables_of_counts()["counts"]

    def collected(self) -> Counts:
        """All of it on the driver, as one machine counts it; refused where that is more than ONE_FILE leaves."""
        if self.leaves > ONE_FILE:
            raise InputError(
                f"{self.leaves:,} leaves in one file would pass through the driver, which takes {ONE_FILE:,}; write a "
                "folder of Parquet files, with counts.parquet for `output`"
            )
        with spark_errors():
            counted = self.parts.task.counted(self.parts.groups.toArrow())
        assert counted is not None
        return replace(self.counts, table=counted[0].table)

    def save(self, folder: str) -> int:
        """Writes the table as a folder of Parquet files, whole or not at all, and gives how many rows it has.

        The folder may be an address; all machines must see it.
        """
        return save_frame(self.frame.sparkSession, self.frame, folder)


def count_spark(
    spec: Spec, folder: str = ".", *, engine: Spark, since: Moment | None = None, until: Moment | None = None
) -> SparkCounts:
    """`count` in the engine's session; leaves stay on the workers, and the driver gets the summary."""
    if reason := why_not_in_parts(spec):
        raise InputError(reason)
    parts = Parts.of(spec, (Question.of(spec, folder, since, until, engine),), engine)
    return SparkCounts(parts.counts, parts)


def why_not_in_parts(spec: Spec) -> str:
    """Why no cluster makes the leaves of a spec in parts, and what to do; nothing where it can."""
    if len(spec.parts) > 1:
        return (
            "workers make one breakdown at a time; give each a spec of its own, without [[breakdown]] and with its "
            "share of epsilon, or leave out the engine spark"
        )
    if rules_of(spec) is not None and spec.logs is not None and not spec.logs.is_attributed:
        rule = f"what devices report under the {spec.terms.title} is simulated on one machine"
        return f"{rule}; leave out the engine spark (`attributary count` may use it)"
    return ""


@dataclass(frozen=True, eq=False)
class Parts:
    """The groups of rows of a spec's logs on the workers, by part, and how many leaves and nodes these have."""

    task: CountTask
    groups: "DataFrame"  # with a column PART
    one: Arrow  # a group of the period that has a leaf, which tells the columns of tables
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
        with now.bad_cells(), spark_errors():
            each = [engine.frame(q.sql).withColumn(BEFORE, sf.lit(bool(i))) for i, q in enumerate(questions)]
            rows = reduce(lambda one, other: one.unionByName(other), each)
            schema = StructType([*rows.schema.fields, *(StructField(name, LongType()) for name in task.paths)])
            groups = of_batches(rows, task.coded, schema).persist(StorageLevel.DISK_ONLY)
            fates = groups.groupBy(BEFORE, "fate").agg(sf.sum("number").alias("number")).toArrow()
            known = groups.where(sf.col("fate").isin(task.fates))
            present = known.where(~sf.col(BEFORE)).select(*task.paths).distinct()
            number = present.count() * task.domain if task.paths else task.domain
            dealer = _deal(present, task, block_number(number))
            wide = min(block_number(number) + sum(dealer.sizes.values()), PARTITIONS)
            dealt = known.withColumn(PART, dealer.part).repartition(wide, PART).persist(StorageLevel.DISK_ONLY)
            columns = "part long, nodes array<long>, counts binary, before binary"
            survey = of_parts(dealt, task.survey, columns).collect()
            one = dealt.where(sf.col("fate").isin(task.fates[:-1]) & ~sf.col(BEFORE)).limit(1).toArrow()
            groups.unpersist()
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
        return cls(task, dealt, one, counts, before, number, nodes, above, dealer.sizes)

    @property
    def levels(self) -> list[int]:
        """How many nodes each level has."""
        each = [sum(level) for level in zip(*self.nodes.values(), strict=True)]
        return [number + above for number, above in zip_longest(each, self.above, fillvalue=0)]

    def sample(self) -> Arrow:
        """The groups of one block."""
        return self.groups.where(f"{PART} = {min(self.nodes)}").toArrow()

    def tables_of_counts(self) -> "dict[str, DataFrame]":
        """The tables of counts, and of those before."""
        schema = self.task.tables(self.one)["counts"].schema.remove_metadata()
        names = ["counts", *["prior"] * (self.before is not None)]
        return {name: self.table(self.task.tables, name, schema) for name in names}

    def table(self, tables: Callable[[Arrow], dict[str, Arrow]], name: str, schema: pa.Schema) -> "DataFrame":
        """The table of this name among those that are made of each part, empty where a part has none."""

        def work(rows: Arrow) -> Arrow:
            table = tables(rows).get(name)
            return schema.empty_table() if table is None else table.select(schema.names).cast(schema)

        return of_parts(self.groups, work, schema)


def first_level(part: int, sizes: Mapping[int, int]) -> int:
    """The level of a part's uppermost nodes, counted from the first attribute."""
    start = part // ROOM * ROOM
    return 0 if part < TOP else (part - start - 1) // sizes[start] + 1


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
            sizes_here = present.groupBy(path).agg(size).where(sf.col("leaves") > blocks.LEAVES)
            large = [(row[path], block_number(row["leaves"])) for row in sizes_here.collect()]
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
