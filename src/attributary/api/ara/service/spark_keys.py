"""spark_keys: keys of 128 bits on a cluster: workers make them, write domains, and read summary reports, in shards."""

import os
import pickle
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import fs

from attributary.api.ara.keys.key_layout import layout, tree_keys
from attributary.api.ara.service import summary_report
from attributary.api.ara.service.summary_report import Summary
from attributary.api.ara.wire import avro, avro_blocks
from attributary.api.attribution_api import SparkAnswer, SparkKeys
from attributary.logs.spark import of_batches
from attributary.noise import dlap_variance
from attributary.plan import Plan
from attributary.plan.file import refuse_other_plan
from attributary.tables.table_columns import together
from attributary.tree import Tree
from attributary.types import Cells, Keys

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

NO_KEYS = np.empty((0, 2), np.uint64)


@dataclass(frozen=True, eq=False)
class AraSparkKeys(SparkKeys):
    """Keys as cells of 16 bytes; the workers get the plan alone."""

    plan: Plan

    def of(self, tree: Tree, measure: int) -> Cells:
        return _cells(tree_keys(layout(self.plan), tree, measure))

    def refuse_collisions(self, labels: Sequence["DataFrame"]) -> None:
        from pyspark.sql import functions as sf

        for frame, field in zip(labels, layout(self.plan).fields, strict=False):
            if field.labels is not None:
                continue
            code = field.code

            def coded(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
                for batch in batches:
                    codes = np.array([code(label) for label in batch.column(0).to_pylist()], np.uint64)  # noqa: B023
                    yield pa.record_batch({"label": batch.column(0), "code": codes.view(np.int64)})

            codes = of_batches(frame, coded, "label string, code long").groupBy("code")
            both = codes.agg(sf.min("label").alias("one"), sf.max("label").alias("other")).where("one <> other").first()
            if both is not None:
                field.codes(list(both)[1:])

    def write(self, keys: "DataFrame", address: str, measure: int) -> int:
        """Every partition has a file of its own: the same bytes, whoever writes them again."""
        from pyspark.sql import functions as sf

        mark = self.plan.fingerprint

        def written(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            from pyspark import TaskContext

            number, context = 0, TaskContext.get()
            assert context is not None

            def blocks() -> Iterator[tuple[int, bytes]]:
                nonlocal number
                for batch in batches:
                    number += batch.num_rows
                    yield from avro_blocks.encoded_domain(_keys(batch.column(0)))

            with tempfile.TemporaryDirectory() as folder:
                name = f"part-{measure}-{context.partitionId():05}.avro"
                avro_blocks.write(os.path.join(folder, name), avro.DOMAIN_SCHEMA, blocks(), {avro.PLAN: mark})
                system, there = fs.FileSystem.from_uri(address)
                system.create_dir(there)
                fs.copy_files(folder, there, destination_filesystem=system)
            yield pa.record_batch({"keys": [number]})

        return int(of_batches(keys, written, "keys long").agg(sf.sum("keys")).collect()[0][0] or 0)

    def answer(
        self, session: "SparkSession", files: Sequence[str], rate: tuple[float, int] | None, name: str
    ) -> SparkAnswer:
        from pyspark import StorageLevel
        from pyspark.sql import functions as sf

        groups = summary_report.grouped(files)
        results, reports = _results(session, groups)
        for report in reports:
            refuse_other_plan(report.name, report.stated.plan, self.plan.fingerprint, name)
        assumed, words = summary_report.noise_of(reports, self.plan, name, rate)
        rates = summary_report.rates_of(reports, *assumed)
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
        sums = sums.where(sf.col("reports") == len(groups)).drop("reports")
        not_private = together(*(report.stated.not_private for report in reports))

        def told(measured: int, keyed: int) -> list[str]:
            if not measured:
                raise summary_report.not_measured(f"{files[0]} has {read:,} other keys", name)
            unknown = read - differ - measured if len(groups) == 1 else 0
            notes = summary_report.Notes(keyed - measured, unknown, differ, repeated, not_private)
            return [*summary_report.in_words(notes, len(groups)), *words]

        return SparkAnswer(sums, sum(map(dlap_variance, rates)), told, not_private)


def _cells(keys: Keys) -> Cells:
    """Keys as cells of 16 bytes, in an order that is theirs."""
    digits = pa.py_buffer(np.ascontiguousarray(keys, ">u8").tobytes())
    return pa.FixedSizeBinaryArray.from_buffers(pa.binary(16), len(keys), [None, digits]).cast(pa.binary())


def _keys(column: Cells) -> Keys:
    """Keys from cells of 16 bytes, or of fewer where the first are 0."""
    digits = b"".join(cell.rjust(16, b"\0") for cell in pc.cast(column, "binary").to_pylist())
    return np.frombuffer(digits, ">u8").astype(np.uint64).reshape(-1, 2)


def _results(session: "SparkSession", groups: Sequence[Sequence[str]]) -> tuple["DataFrame", list[Summary]]:
    """The sums of all reports, by report and key, and what their files say of themselves."""
    cells = [(i, path if "://" in path else os.path.abspath(path)) for i, paths in enumerate(groups) for path in paths]
    files = session.createDataFrame(cells, "report int, path string").repartition(len(cells))

    def sums(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for report, shard in _shards(batches):
            number = pa.array(np.full(len(shard.keys), report, np.int32))
            table = pa.table({"report": number, "key": _cells(shard.keys), "metric": shard.metric})
            yield from table.to_batches(max_chunksize=100_000)

    def stated(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for report, shard in _shards(batches, only_stated=True):
            cells = [pa.array([report], pa.int32()), pa.array([pickle.dumps(shard.stated)], pa.binary())]
            yield pa.record_batch(cells, names=["report", "stated"])

    each: list[list[avro.StatedNoise]] = [[] for _ in groups]
    for row in of_batches(files, stated, "report int, stated binary").collect():
        each[row["report"]] += pickle.loads(row["stated"])
    reports = []
    for paths, noises in zip(groups, each, strict=True):
        name = summary_report.name_of(paths)
        rate = summary_report.one_rate(name, noises)
        reports.append(Summary(name, NO_KEYS, np.empty(0, np.int64), NO_KEYS, stated=rate))
    return of_batches(files, sums, "report int, key binary, metric long"), reports


def _shards(batches: Iterable[pa.RecordBatch], only_stated: bool = False) -> Iterator[tuple[int, avro.Results]]:
    """The files of some rows, fetched to this machine, and the number of each one's report."""
    for batch in batches:
        for report, path in zip(*batch.to_pydict().values(), strict=True):
            with tempfile.TemporaryDirectory() as folder:
                local = os.path.join(folder, os.path.basename(path)) if "://" in path else path
                if local != path:
                    fs.copy_files(path, local)
                yield report, summary_report.shard(local, only_stated)


def _refuse_copies(alike: "DataFrame", reports: Sequence[Summary], rates: Sequence[float]) -> None:
    """Refuses two reports with the same noise on the keys that both have, as one machine does on nodes."""
    from pyspark.sql import functions as sf

    if len(reports) < 2:
        return
    one, other = (alike.select("key", sf.col("report").alias(r), sf.col("low").alias(s)) for r, s in ("ix", "jy"))
    pairs = one.join(other, "key").where("i <= j").groupBy("i", "j")
    rows = pairs.agg(sf.count(sf.lit(1)), sf.sum(sf.expr("int(x = y)"))).collect()
    size = {i: number for i, j, number, _ in rows if i == j}
    for i, j, number, equal in rows:
        if i < j:
            summary_report.refuse_copy(
                (reports[i], reports[j]), min(rates[i], rates[j]), number, equal, min(size[i], size[j])
            )
