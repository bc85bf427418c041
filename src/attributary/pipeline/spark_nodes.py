"""spark_nodes: `keys` and `denoise` on a cluster: nodes of a queried tree are made, keyed and denoised by the workers.

    keys_spark(plan, ["impressions/"], "keys", engine=engine)            # tree.parquet and domain.avro, in shards
    made = denoise_summary_spark(plan, ["summary/"], "keys/tree.parquet", engine=engine)
    made.frame                                                           # a Spark frame; save(frame, "hdfs://…")

Every known path is with one worker, which makes the nodes below it by the code of one machine; nodes above them come
from one path each, chosen for it. So no root has to fit on a worker, and however large one is, others need not wait.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from attributary import api
from attributary.api.attribution_api import SparkKeys
from attributary.denoising.cluster import denoise_spark
from attributary.errors import InputError
from attributary.estimators import Estimator
from attributary.file_kind import has_nodes
from attributary.logs.labels import label_codes
from attributary.logs.log_files import CastError
from attributary.logs.spark import Spark, named_column, of_batches, spark_errors
from attributary.logs.spark_folder import spark_folder
from attributary.noise import parse_levels
from attributary.noise.blocks import codes_by_level
from attributary.pipeline.denoise_summary import stated_rate
from attributary.pipeline.node_rows import per_level
from attributary.pipeline.read_prior import COVERS, known_columns
from attributary.plan import Plan
from attributary.spec import Logs
from attributary.tables.as_written import MEASURE, MEASURED
from attributary.tables.table_columns import plain
from attributary.tree import Tree
from attributary.types import Arrow, Floats

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

TREE = "tree.parquet"
AT_ONCE = 200_000  # leaves that a worker makes at a time


@dataclass(frozen=True, eq=False)
class NodeTask:
    """What every worker needs to make nodes of known paths: plan and keys."""

    plan: Plan
    keys: SparkKeys

    @property
    def known(self) -> list[str]:
        """The columns of known paths; users' names may be in the way of Spark's."""
        return [f"known_{i}" for i in range(len(self.plan.spec.known))]

    @property
    def columns(self) -> list[str]:
        """The columns of nodes before those of their keys."""
        return ["node", "parent", "level", *(f"label_{i}" for i in range(len(self.plan.spec.attributes)))]

    @property
    def schema(self) -> str:
        """The columns of nodes, and the key of each measure (null where it has none) and its contribution."""
        each = range(len(self.plan.by_measure))
        labels = [f"{name} string" for name in self.columns[3:]]
        keys = [f"key_{k} binary, contribution_{k} long" for k in each]
        return ", ".join(["node long, parent long, level int", *labels, *keys])

    def named(self) -> "list[Column]":
        """These columns, by the names of the attributes."""
        names = ["node", "parent", "level", *(a.name for a in self.plan.spec.attributes)]
        return [named_column(name).alias(new) for name, new in zip(self.columns, names, strict=True)]

    def labelled(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Known attributes of impressions as they are labelled in counts, each path of a batch once."""
        logs = self.plan.spec.logs or Logs()
        for batch in batches:
            table, columns = pa.Table.from_batches([batch]), {}
            for name, attribute in zip(self.known, self.plan.spec.known, strict=True):
                columns[name] = plain(label_codes(table, name, attribute, logs).coded)
            yield from pa.table(columns).group_by(self.known).aggregate([]).select(self.known).to_batches()

    def nodes(self, first: int, last: int) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
        """What makes the nodes of some levels, that `last` not among them, of batches of known paths."""
        spec, domain = self.plan.spec, int(np.prod([len(a.labels) for a in self.plan.spec.unknown], dtype=np.int64))
        rows = max(1, AT_ONCE // domain)

        def made(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for batch in batches:
                for start in range(0, batch.num_rows, rows):
                    table = pa.Table.from_batches([batch.slice(start, rows)])
                    tree = spec.tree(table.rename_columns([a.name for a in spec.known]) if spec.known else None)
                    yield from self._rows(tree, slice(tree.offsets[first], tree.offsets[last])).to_batches()

        return made

    def _rows(self, tree: Tree, here: slice) -> Arrow:
        table = tree.table().slice(here.start, here.stop - here.start)
        code = np.concatenate(list(codes_by_level(tree))).astype(np.int64)
        up = np.where(tree.parent[here] < 0, -1, code[tree.parent[here]])
        columns = [code[here], up, tree.level[here].astype(np.int32)]
        columns += [plain(table.column(name)).cast(pa.string()) for name in tree.attributes]
        for k, part in enumerate(self.plan.by_measure):
            contribution = part.contribution(tree)[here]
            key = self.keys.of(tree, k).slice(here.start, len(contribution))
            columns += [pc.if_else(pa.array(contribution == 0), None, key), contribution]
        names = [field.split(" ")[0] for field in self.schema.split(", ")]
        return pa.table([pa.chunked_array([c]) if isinstance(c, pa.Array) else c for c in columns], names=names)

    def frame(self, paths: "DataFrame") -> "DataFrame":
        """The nodes of known paths, each once."""
        from pyspark.sql import functions as sf

        total, depth = int(self.plan.spec.total), len(self.plan.levels)
        deepest = max(len(self.known) - 1, 0) + total
        steps = [(paths, deepest if self.known else 0, depth)]
        for i in range(len(self.known) - 1):
            prefix, rest = self.known[: i + 1], self.known[i + 1 :]
            one = paths.groupBy(*prefix).agg(sf.min(sf.struct(*rest)).alias("rest")).select(*prefix, "rest.*")
            steps.append((one, i + total, i + total + 1))
        steps += [(paths.limit(1), 0, 1)] if total and self.known else []
        frames = [of_batches(frame, self.nodes(*levels), self.schema) for frame, *levels in steps]
        return reduce(lambda one, other: one.unionByName(other), frames)

    def paths(self, frame: "DataFrame") -> "DataFrame":
        """The known paths in a frame of impressions, of counts, or of nodes as `keys` writes them."""
        from pyspark.sql import functions as sf

        spec = self.plan.spec
        if not self.known:
            return frame.sparkSession.range(1)
        names = known_columns(spec, frame.columns)
        for name in names:
            if name not in frame.columns:
                raise InputError(f"there is no column {name!r}; the columns are {', '.join(frame.columns)}")
        of_nodes = has_nodes(frame.columns)
        frame = frame.where(sf.col("level") == len(self.known) - 1 + int(spec.total)) if of_nodes else frame
        known = frame.select(*(named_column(n).cast("string").alias(k) for n, k in zip(names, self.known, strict=True)))
        if of_nodes:
            return known.distinct()
        schema = ", ".join(f"{name} string" for name in self.known)
        return of_batches(known.distinct(), self.labelled, schema).distinct()


# Keys: tree and domain, in shards.


class NodesAndKeys(NamedTuple):
    """How many nodes and keys were written."""

    nodes: int
    keys: int


def keys_spark(
    plan: Plan,
    impressions: Sequence[str],
    output: str,
    *,
    engine: Spark,
    partial: bool = False,
    stage: Callable[[str], None] = lambda _: None,
) -> NodesAndKeys:
    """Writes the nodes to query and their keys, as folders of shards: what `keys --impressions` writes as files.

    `node` and `parent` in the tree are numbers of 63 bits, made of the path. Two labels with the same code are refused.
    """
    from pyspark.sql import functions as sf

    task, query = NodeTask(plan, api.on_spark(plan)), api.api_of(plan.spec).query_file
    with spark_errors(impressions[0]):
        stage("reading impressions")
        paths = task.paths(engine.read(impressions)).persist()
        task.keys.refuse_collisions([paths.select(name).distinct() for name in task.known])
        nodes = task.frame(paths)
        covers = sf.lit("some" if partial else "all").alias(COVERS)
        with spark_folder(engine.session, output, (TREE, query)) as place:
            stage("making the keys")
            written = place.save(nodes.select(*task.named(), covers), TREE)
            keys = [nodes.select(sf.col(f"key_{k}")).where(f"key_{k} is not null") for k in range(len(plan.by_measure))]
            number = sum(task.keys.write(some, place.uri(query), k) for k, some in enumerate(keys))
        paths.unpersist()
    return NodesAndKeys(written, number)


# Summary reports.


class SparkEstimates(NamedTuple):
    """Estimates on the workers, and what to say beside them."""

    frame: "DataFrame"
    notes: tuple[str, ...] = ()
    not_private: str = ""


def denoise_summary_spark(
    plan: Plan,
    summaries: Sequence[str],
    tree: str,
    *,
    engine: Spark,
    estimator: Estimator | None = None,
    noise: str | None = None,
    confidence: float = 0.95,
    name: str = "the plan",
) -> SparkEstimates:
    """`denoise_summary` in the engine's session, on the tree that `keys` wrote: a row for each node and measure.

    Files and folders of reports are on a disk or at an address that all machines see; a worker reads a file at a time.
    """
    from pyspark import StorageLevel
    from pyspark.sql import functions as sf

    task, chosen = NodeTask(plan, api.on_spark(plan)), estimator or Estimator()
    with spark_errors(summaries[0]):
        answer = task.keys.answer(engine.session, summaries, stated_rate(noise, plan) if noise else None, name)
        nodes = task.frame(task.paths(engine.read([tree])))
        frames, measured, keyed = [], 0, 0
        for k, part in enumerate(plan.by_measure):
            key, each, metric = sf.col(f"key_{k}"), sf.col(f"contribution_{k}").cast("double"), sf.col("metric")
            figures = nodes.join(answer.sums, key == sf.col("key"), "left").select(
                *task.named(),
                (metric.cast("double") / each * part.clip).alias(MEASURED[0]),
                sf.when(metric.isNull(), float("inf"))
                .otherwise(sf.lit(answer.variance) / (each * each) * part.clip**2)
                .alias(MEASURED[1]),
                key.isNotNull().alias("__keyed"),
            )
            figures = figures.persist(StorageLevel.DISK_ONLY)
            some, with_key = figures.agg(sf.count(MEASURED[0]), sf.sum(sf.expr("int(__keyed)"))).collect()[0]
            measured, keyed = measured + some, keyed + with_key
            frames.append(figures.drop("__keyed"))
        notes = answer.told(measured, keyed)
        names = [a.name for a in plan.spec.attributes]
        made = denoise_measures(plan, frames, names, estimator=chosen, confidence=confidence)
    made = made.withColumn("not_private", sf.lit(answer.not_private)) if answer.not_private else made
    return SparkEstimates(made, tuple(notes), answer.not_private)


def denoise_measures(
    plan: Plan,
    frames: "Sequence[DataFrame]",
    levels: Sequence[str],
    *,
    estimator: Estimator,
    **options: Any,
) -> "DataFrame":
    """The estimates of all measures, from a frame of figures of each; a column names it where there are several.

    Options are those of `denoise_spark`.
    """
    from pyspark.sql import functions as sf

    made = []
    for part, figures in zip(plan.by_measure, frames, strict=True):
        chosen = estimator if part.measure.is_count else estimator.for_values
        estimates = denoise_spark(
            figures, levels, *MEASURED, estimator=chosen, tau=part.tau, worth=part.share.worth, **options
        )
        of = [sf.lit(part.measure.name).alias(MEASURE)] if len(frames) > 1 else []
        made.append(estimates.select(*of, "*"))
    return reduce(lambda one, other: one.unionByName(other, allowMissingColumns=True), made)


# Any table.


def denoise_table_spark(
    sources: Sequence[str],
    levels: Sequence[str],
    value: str,
    *,
    engine: Spark,
    variance: str | float | None = None,
    std: str | float | None = None,
    noise: str | None = None,
    **options: Any,
) -> SparkEstimates:
    """`denoise_spark` of files, folders, addresses or a table in a catalog; options are its own.

    The variance is a column, a number, or a number per level between commas; so is `std`, and so are the numbers in
    `noise`, as in "laplace:scale=3".
    """
    from pyspark.sql import functions as sf

    frame, shape, spread = engine.read(sources), "laplace", None
    given = {name: text for name, text in (("variance", variance), ("std", std), ("noise", noise)) if text is not None}
    if len(given) != 1:
        raise InputError(f"give one of `variance`, `std` and `noise`; got {' and '.join(given) or 'none'}")
    for name in {value, variance, std} & set(frame.columns):  # figures in text are numbers
        frame = frame.withColumn(str(name), named_column(str(name)).cast("double"))
    level = sum((named_column(name).isNotNull().cast("int") for name in levels), sf.lit(0))
    if noise is not None:
        each = parse_levels(noise)
        stated = "," if None not in each or each[None].is_estimated else ",".join(each[None].given.values())
        if per_level(stated) is None:
            raise InputError(f"on Spark, noise is one model with numbers, as in laplace:scale=3,2,1; got {noise!r:.80}")
        shape = each[None].shape.name
        variances, divisors = each[None].figures(lambda name, text: _numbers(name, text, len(levels)))
        spread, divisor = _by_level(variances, level, len(levels)), _by_level(divisors, level, len(levels))
        if (np.asarray(divisors) != 1).any():
            frame = frame.withColumn(value, named_column(value) / divisor)
    else:
        ((kind, amount),) = given.items()
        if amount in frame.columns:
            spread = named_column(str(amount)).cast("double")
        else:
            spread = _by_level(_numbers(kind, str(amount), len(levels)), level, len(levels))
        spread = spread * spread if kind == "std" else spread
    try:
        with spark_errors(sources[0]):
            return SparkEstimates(denoise_spark(frame, levels, value, spread, shape=shape, **options))
    except CastError as error:
        raise InputError(f"{sources[0]}: figures and variances are numbers; {error}") from error


def _numbers(name: str, text: str, levels: int) -> Floats:
    """A number for each level: the same for all, or one each."""
    numbers = per_level(text)
    if numbers is None or len(numbers) not in (1, levels) or np.isnan(numbers).any():
        raise InputError(f"{name} is a column, a number, or one for each of the {levels} levels; got {text!r:.80}")
    return np.broadcast_to(numbers, levels)


def _by_level(numbers: Floats, level: "Column", levels: int) -> "Column":
    """The number of a row's level, counted from 1; that of the first level for a total above all."""
    from pyspark.sql import functions as sf

    array = sf.array(*(sf.lit(float(number)) for number in np.broadcast_to(numbers, levels)))
    return sf.element_at(array, sf.greatest(level, sf.lit(1)))
