"""spark_nodes: `keys` and `denoise` on a cluster: nodes of a queried tree are made, keyed and denoised by the workers.

    keys_spark(plan, ["impressions/"], "keys", engine=engine)            # tree.parquet and domain.avro, in shards
    made = denoise_summary_spark(plan, ["summary/"], "keys/tree.parquet", engine=engine)
    made.frame                                                           # a Spark frame; save(frame, "hdfs://…")

Every known path is with one worker, which makes the nodes below it by the code of one machine; nodes above them come
from one path each, chosen for it. So no root has to fit on a worker, and however large one is, others need not wait.
"""

import os
import pickle
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from attributary.api.ara.keys.key_layout import KeyLayout, layout, tree_keys
from attributary.api.ara.service import summary_report
from attributary.api.ara.service.summary_report import Summary
from attributary.api.ara.terms import ARA
from attributary.api.ara.wire import avro, avro_blocks
from attributary.denoising.cluster import denoise_spark
from attributary.errors import InputError
from attributary.estimates import FIGURES
from attributary.estimators import Estimator
from attributary.file_kind import has_nodes
from attributary.logs.engine import CastError
from attributary.logs.log_columns import label_codes
from attributary.logs.spark import Spark, any_pandas, spark_errors
from attributary.logs.spark_folder import spark_folder
from attributary.measurements import chance_of_equal, is_copy
from attributary.noise import dlap_variance, parse_levels
from attributary.noise.blocks import codes_by_level
from attributary.pipeline.denoise_summary import stated_rate
from attributary.pipeline.read_tree import COVERS, known_columns
from attributary.plan import Plan
from attributary.plan.file import refuse_other_plan
from attributary.spec import Logs
from attributary.tables.as_written import MEASURE
from attributary.tables.table_columns import plain, together
from attributary.tree import Tree
from attributary.types import Keys

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

TREE, DOMAIN = "tree.parquet", "domain.avro"
AT_ONCE = 200_000  # leaves that a worker makes at a time
NO_KEYS = np.empty((0, 2), np.uint64)


@dataclass(frozen=True, eq=False)
class NodeTask:
    """What every worker needs to make nodes of known paths: plan and keys."""

    plan: Plan

    @property
    def layout(self) -> KeyLayout:
        return layout(self.plan)

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

    def labelled(self, batches: Iterable[Any]) -> Iterator[Any]:
        """Known attributes of impressions as they are labelled in counts, each path of a batch once."""
        import pyarrow as pa

        logs = self.plan.spec.logs or Logs()
        for batch in batches:
            table, columns = pa.Table.from_batches([batch]), {}
            for name, attribute in zip(self.known, self.plan.spec.known, strict=True):
                columns[name] = plain(label_codes(table, name, attribute, logs).coded)
            yield from pa.table(columns).group_by(self.known).aggregate([]).select(self.known).to_batches()

    def nodes(self, first: int, last: int) -> Callable[[Iterable[Any]], Iterator[Any]]:
        """What makes the nodes of some levels, that `last` not among them, of batches of known paths."""
        import pyarrow as pa

        spec, domain = self.plan.spec, int(np.prod([len(a.labels) for a in self.plan.spec.unknown], dtype=np.int64))
        rows = max(1, AT_ONCE // domain)

        def made(batches: Iterable[Any]) -> Iterator[Any]:
            for batch in batches:
                for start in range(0, batch.num_rows, rows):
                    table = pa.Table.from_batches([batch.slice(start, rows)])
                    tree = spec.tree(table.rename_columns([a.name for a in spec.known]) if spec.known else None)
                    yield from self._rows(tree, slice(tree.offsets[first], tree.offsets[last])).to_batches()

        return made

    def _rows(self, tree: Tree, here: slice) -> Any:
        import pyarrow as pa

        table = tree.table().slice(here.start, here.stop - here.start)
        code = np.concatenate(list(codes_by_level(tree))).astype(np.int64)
        up = np.where(tree.parent[here] < 0, -1, code[tree.parent[here]])
        columns = [code[here], up, tree.level[here].astype(np.int32)]
        columns += [plain(table.column(name)).cast(pa.string()) for name in tree.attributes]
        for k, part in enumerate(self.plan.by_measure):
            contribution = part.contribution(tree)[here]
            digits = np.ascontiguousarray(tree_keys(self.layout, tree, k)[here], ">u8").tobytes()
            key = pa.FixedSizeBinaryArray.from_buffers(pa.binary(16), len(contribution), [None, pa.py_buffer(digits)])
            bare = pa.array(contribution == 0)
            columns += [pa.compute.if_else(bare, None, key.cast(pa.binary())), contribution]
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
        with any_pandas():
            frames = [frame.mapInArrow(self.nodes(*levels), self.schema) for frame, *levels in steps]
        made, *others = frames
        for other in others:
            made = made.unionByName(other)
        return made

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
        known = frame.select(*(_column(n).cast("string").alias(k) for n, k in zip(names, self.known, strict=True)))
        if of_nodes:
            return known.distinct()
        with any_pandas():
            schema = ", ".join(f"{name} string" for name in self.known)
            return known.distinct().mapInArrow(self.labelled, schema).distinct()


def _column(name: str) -> "Column":
    """A column whose name may hold dots."""
    from pyspark.sql import functions as sf

    return sf.col("`" + name.replace("`", "``") + "`")


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

    refuse_api(plan)
    task = NodeTask(plan)
    with spark_errors(impressions[0]):
        stage("reading impressions")
        paths = task.paths(engine.read(impressions)).persist()
        _refuse_collisions(task, paths)
        nodes = task.frame(paths)
        covers = sf.lit("some" if partial else "all").alias(COVERS)
        names = [*(_column(n).alias(new) for n, new in zip(task.columns, _named(plan), strict=True)), covers]
        with spark_folder(engine.session, output, (TREE, DOMAIN)) as place:
            stage("making the keys")
            nodes.select(*names).write.parquet(place.uri(TREE))
            address, mark = place.uri(DOMAIN), plan.fingerprint
            with any_pandas():
                each = range(len(plan.by_measure))
                keys = [nodes.select(sf.col(f"key_{k}").alias("key")).where("key is not null") for k in each]
                shards = [frame.mapInArrow(_shards(address, mark, k), "keys long") for k, frame in enumerate(keys)]
                number = sum(frame.agg(sf.sum("keys")).collect()[0][0] or 0 for frame in shards)
            written = engine.session.read.parquet(place.uri(TREE)).count()
            if not written:
                raise InputError(f"{output} does not hold what the workers wrote; give a folder that all machines see")
        paths.unpersist()
    return NodesAndKeys(written, number)


def refuse_api(plan: Plan) -> None:
    """Refuses plans of which no cluster makes keys."""
    if plan.spec.terms is not ARA or plan.others is not None:
        what = "one of several breakdowns" if plan.others is not None else f"the {plan.spec.terms.title}"
        raise InputError(f"on Spark, plans are for the {ARA.title}, of one breakdown; this one is for {what}")


def _named(plan: Plan) -> list[str]:
    return ["node", "parent", "level", *(a.name for a in plan.spec.attributes)]


def _shards(address: str, mark: str, measure: int) -> Callable[[Iterable[Any]], Iterator[Any]]:
    """What writes the keys of a partition to a file of its own: the same bytes, whoever writes them again."""

    def made(batches: Iterable[Any]) -> Iterator[Any]:
        import pyarrow as pa
        from pyspark import TaskContext

        number, context = 0, TaskContext.get()
        assert context is not None

        def blocks() -> Iterator[tuple[int, bytes]]:
            nonlocal number
            for batch in batches:
                keys = _keys(batch.column(0))
                number += len(keys)
                yield from avro_blocks.encoded_domain(keys)

        name = f"part-{measure}-{context.partitionId():05}.avro"
        with _written(f"{address}/{name}") as path:
            avro_blocks.write(path, avro.DOMAIN_SCHEMA, blocks(), {avro.PLAN: mark})
        yield pa.record_batch({"keys": [number]})

    return made


def _keys(column: Any) -> Keys:
    """128-bit keys from cells of 16 bytes, or of fewer where the first are 0."""
    import pyarrow.compute as pc

    digits = b"".join(cell.rjust(16, b"\0") for cell in pc.cast(column, "binary").to_pylist())
    return np.frombuffer(digits, ">u8").astype(np.uint64).reshape(-1, 2)


@contextmanager
def _written(address: str) -> Iterator[str]:
    """A file to write on this machine, which is then at the address."""
    from pyarrow import fs

    with tempfile.TemporaryDirectory() as folder:
        yield (path := os.path.join(folder, "file"))
        system, there = fs.FileSystem.from_uri(address)
        system.create_dir(os.path.dirname(there))
        with open(path, "rb") as file, system.open_output_stream(there) as target:
            shutil.copyfileobj(file, target)


@contextmanager
def _fetched(address: str) -> Iterator[str]:
    """A file at an address, on this machine."""
    from pyarrow import fs

    if "://" not in address:
        yield address
        return
    with tempfile.TemporaryDirectory() as folder:
        system, there = fs.FileSystem.from_uri(address)
        path = os.path.join(folder, os.path.basename(there))
        with open(path, "wb") as file, system.open_input_stream(there) as source:
            shutil.copyfileobj(source, file)
        yield path


def _refuse_collisions(task: NodeTask, paths: "DataFrame") -> None:
    """Refuses two labels with the same code, as one machine does."""
    import pyarrow as pa
    from pyspark.sql import functions as sf

    for name, field in zip(task.known, task.layout.fields, strict=False):
        if field.labels is not None:
            continue

        def coded(batches: Iterable[Any], code: Callable[[str], int] = field.code) -> Iterator[Any]:
            for batch in batches:
                codes = [code(label) for label in batch.column(0).to_pylist()]
                yield pa.record_batch(
                    [batch.column(0), pa.array(np.array(codes, np.uint64).view(np.int64))], ["l", "c"]
                )

        with any_pandas():
            codes = paths.select(name).distinct().mapInArrow(coded, "l string, c long").groupBy("c")
        both = codes.agg(sf.min("l").alias("one"), sf.max("l").alias("other")).where("one <> other").first()
        if both is not None:
            field.codes([both["one"], both["other"]])


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

    refuse_api(plan)
    task, chosen = NodeTask(plan), estimator or Estimator()
    groups = summary_report.grouped(summaries)
    with spark_errors(summaries[0]), any_pandas():
        results, reports = _results(engine.session, groups)
        for report in reports:
            refuse_other_plan(report.name, report.stated.plan, plan.fingerprint, name)
        assumed, words = summary_report.noise_of(reports, plan, name, stated_rate(noise, plan) if noise else None)
        rates = [(r.stated.epsilon or assumed[0]) / (r.stated.l1 or assumed[1]) for r in reports]
        once = results.groupBy("report", "key").agg(
            sf.min("metric").alias("low"), sf.max("metric").alias("high"), sf.count(sf.lit(1)).alias("rows")
        )
        once = once.persist(StorageLevel.DISK_ONLY)
        differ, repeated, read = once.agg(
            sf.sum(sf.expr("int(low <> high)")), sf.sum(sf.expr("if(low = high, rows - 1, 0)")), sf.count(sf.lit(1))
        ).collect()[0]
        alike = once.where("low = high")
        _refuse_copies(alike, reports, rates)
        sums = alike.groupBy("key").agg(sf.sum("low").alias("metric"), sf.count(sf.lit(1)).alias("reports"))
        sums = sums.where(sf.col("reports") == len(groups))
        nodes = task.frame(task.paths(engine.read([tree])))
        frames, there, keyed = [], 0, 0
        for k, part in enumerate(plan.by_measure):
            key, each = sf.col(f"key_{k}"), sf.col(f"contribution_{k}").cast("double")
            variance = sf.lit(float(sum(map(dlap_variance, rates)))) / (each * each) * part.clip**2
            joined = nodes.join(sums.withColumnRenamed("key", "sum_key"), key == sf.col("sum_key"), "left")
            figures = joined.select(
                *(_column(n).alias(new) for n, new in zip(task.columns, _named(plan), strict=True)),
                (sf.col("metric").cast("double") / each * part.clip).alias(FIGURES[0]),
                sf.when(sf.col("metric").isNull(), float("inf")).otherwise(variance).alias(FIGURES[1]),
                sf.col("metric").isNotNull().alias("__there"),
                key.isNotNull().alias("__keyed"),
            ).persist(StorageLevel.DISK_ONLY)
            some, with_key = figures.agg(sf.sum(sf.expr("int(__there)")), sf.sum(sf.expr("int(__keyed)"))).collect()[0]
            there, keyed = there + some, keyed + with_key
            how = chosen if part.measure.is_count else chosen.for_values
            frames.append((part, how, figures.drop("__there", "__keyed")))
        if not there:
            raise InputError(
                f"no node of the tree is measured: {summaries[0]} has {read:,} other keys; are {name} and the tree "
                "those that it was made by?"
            )
        levels = [a.name for a in plan.spec.attributes]
        made = None
        for part, how, figures in frames:
            known: dict[str, Any] = {"tau": part.tau, "worth": part.share.worth, "confidence": confidence}
            done = denoise_spark(figures, levels, FIGURES[0], FIGURES[1], estimator=how, **known)
            if len(frames) > 1:
                done = done.select(sf.lit(part.measure.name).alias(MEASURE), "*")
            made = done if made is None else made.unionByName(done, allowMissingColumns=True)
    assert made is not None
    not_private = together(*(report.stated.not_private for report in reports))
    made = made.withColumn("not_private", sf.lit(not_private)) if not_private else made
    unknown = read - differ - there * len(groups) if len(groups) == 1 else 0
    notes = summary_report.Notes(keyed - there, unknown, differ, repeated, (), not_private)
    return SparkEstimates(made, (*summary_report.in_words(notes, len(groups)), *words), not_private)


def _results(session: "SparkSession", groups: Sequence[Sequence[str]]) -> tuple["DataFrame", list[Summary]]:
    """The sums of all reports, by report and key, and what their files say of themselves."""
    import pyarrow as pa

    cells = [(i, path if "://" in path else os.path.abspath(path)) for i, paths in enumerate(groups) for path in paths]
    files = session.createDataFrame(cells, "report int, path string").repartition(len(cells))

    def sums(batches: Iterable[Any]) -> Iterator[Any]:
        for batch in batches:
            for report, path in zip(*batch.to_pydict().values(), strict=True):
                with _fetched(path) as local:
                    shard = summary_report.shard(local)
                digits = np.ascontiguousarray(shard.keys, ">u8").tobytes()
                whole = pa.FixedSizeBinaryArray.from_buffers(
                    pa.binary(16), len(shard.keys), [None, pa.py_buffer(digits)]
                )
                number = pa.array(np.full(len(shard.keys), report, np.int32))
                columns = {"report": number, "key": whole.cast(pa.binary()), "metric": shard.metric}
                yield from pa.table(columns).to_batches(max_chunksize=100_000)

    def stated(batches: Iterable[Any]) -> Iterator[Any]:
        for batch in batches:
            for report, path in zip(*batch.to_pydict().values(), strict=True):
                with _fetched(path) as local:
                    said = pickle.dumps(summary_report.shard(local, only_stated=True).stated)
                yield pa.record_batch(
                    {"report": pa.array([report], pa.int32()), "stated": pa.array([said], pa.binary())}
                )

    each: list[list[Any]] = [[] for _ in groups]
    for row in files.mapInArrow(stated, "report int, stated binary").collect():
        each[row["report"]] += pickle.loads(row["stated"])
    reports = []
    for paths, noises in zip(groups, each, strict=True):
        name = paths[0] + (f" and {len(paths) - 1} more" if len(paths) > 1 else "")
        rate = summary_report.one_rate(name, noises)
        reports.append(Summary(name, NO_KEYS, np.empty(0, np.int64), NO_KEYS, stated=rate))
    return files.mapInArrow(sums, "report int, key binary, metric long"), reports


def _refuse_copies(alike: "DataFrame", reports: Sequence[Summary], rates: Sequence[float]) -> None:
    """Refuses two reports with the same noise on the keys that both have, as one machine does."""
    from pyspark.sql import functions as sf

    for i, j in combinations(range(len(reports)), 2):
        one, other = (alike.where(sf.col("report") == k).select("key", sf.col("low").alias(f"of_{k}")) for k in (i, j))
        both = one.join(other, "key").agg(sf.count(sf.lit(1)), sf.sum(sf.expr(f"int(of_{i} = of_{j})")))
        number, equal = both.collect()[0]
        repeats = reports[i].stated.not_private or reports[j].stated.not_private
        chance = 1.0 if repeats else chance_of_equal(dlap_variance(min(rates[i], rates[j])))
        if number and ((equal == number and not repeats) or is_copy(equal, number * chance)):
            raise InputError(
                f"{reports[j].name} holds the same sums as {reports[i].name}, on {equal:,} of the {number:,} keys that "
                "both have; each is counted once: leave one out"
            )


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
        frame = frame.withColumn(str(name), _column(str(name)).cast("double"))
    level = sum((_column(name).isNotNull().cast("int") for name in levels), sf.lit(0))
    if noise is not None:
        each = parse_levels(noise)
        stated = "," if None not in each or each[None].is_estimated else ",".join(each[None].given.values())
        if not all(map(_is_number, stated.split(","))):
            raise InputError(f"on Spark, noise is one model with numbers, as in laplace:scale=3,2,1; got {noise!r:.80}")
        shape = each[None].shape.name
        variances, divisors = each[None].figures(lambda name, text: _numbers(name, text, len(levels)))
        spread, divisor = _by_level(variances, level, len(levels)), _by_level(divisors, level, len(levels))
        if (np.asarray(divisors) != 1).any():
            frame = frame.withColumn(value, _column(value) / divisor)
    else:
        ((kind, amount),) = given.items()
        if amount in frame.columns:
            spread = _column(str(amount)).cast("double")
        else:
            spread = _by_level(_numbers(kind, str(amount), len(levels)), level, len(levels))
        spread = spread * spread if kind == "std" else spread
    try:
        with spark_errors(sources[0]):
            return SparkEstimates(denoise_spark(frame, levels, value, spread, shape=shape, **options))
    except CastError as error:
        raise InputError(f"{sources[0]}: figures and variances are numbers; {error}") from error


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _numbers(name: str, text: str, levels: int) -> Any:
    """A number for each level: the same for all, or one each."""
    parts = [part.strip() for part in str(text).split(",")]
    if not all(map(_is_number, parts)) or len(parts) not in (1, levels):
        raise InputError(f"{name} is a column, a number, or one for each of the {levels} levels; got {text!r:.80}")
    return np.broadcast_to(np.array(parts, np.float64), levels)


def _by_level(numbers: Any, level: "Column", levels: int) -> "Column":
    """The number of a row's level, counted from 1; that of the first level for a total above all."""
    from pyspark.sql import functions as sf

    array = sf.array(*(sf.lit(float(number)) for number in np.broadcast_to(numbers, levels)))
    return sf.element_at(array, sf.greatest(level, sf.lit(1)))


def save_frame(engine: Spark, frame: "DataFrame", output: str) -> int:
    """Writes a frame as a folder of Parquet files, whole or not at all, and gives how many rows it has."""
    parent, _, name = output.rstrip("/").rpartition("/")
    with spark_errors(output), any_pandas(), spark_folder(engine.session, parent or ".", (name,)) as place:
        frame.write.parquet(place.uri(name))
        return int(engine.session.read.parquet(place.uri(name)).count())
