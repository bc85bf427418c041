"""Every stage on a cluster of two executors, one of which is killed at its work, beside one machine: exits with 0.

python tests/support/local_cluster.py FOLDER        # of a generated shop
"""

import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from attributary.api import api_of
from attributary.api.ara.keys.key_layout import domain
from attributary.api.ara.service.summary_report import write_summary
from attributary.api.ara.wire.avro import read_domain
from attributary.estimators import Estimator
from attributary.logs import count
from attributary.logs.spark import Spark, start_session
from attributary.noise import blocks
from attributary.noise.blocks import BlockEntropy
from attributary.pipeline.denoise_summary import denoise_summary
from attributary.pipeline.run import run
from attributary.pipeline.spark_count import count_spark
from attributary.pipeline.spark_nodes import denoise_summary_spark, keys_spark
from attributary.pipeline.spark_run import run_spark
from attributary.spec import Spec
from attributary.tables.table_columns import plain

SETTINGS = {"spark.sql.shuffle.partitions": "4", "spark.sql.adaptive.enabled": "false"}
EXECUTOR = "CoarseGrainedExecutorBackend"


def executors() -> list[int]:
    """The executors of this process, by /proc."""
    mine = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if any(
            word.endswith(EXECUTOR.encode()) for word in words
        ) and f"attributary-{os.getpid()}".encode() in b" ".join(words):
            mine.append(int(pid))
    return mine


@contextmanager
def one_killed(session: Any, name: str) -> Iterator[None]:
    """Kills an executor as soon as it has work."""
    killed, done = [], threading.Event()

    def kill() -> None:
        tracker = session.sparkContext.statusTracker()
        while not done.is_set() and not killed:
            if tracker.getActiveStageIds() and (there := executors()):
                os.kill(there[0], signal.SIGKILL)
                killed.append(there[0])
            time.sleep(0.01)

    thread = threading.Thread(target=kill)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()
    assert killed, f"no executor was at work in {name}"
    print(f"{name}: executor {killed[0]} was killed", flush=True)


def sorted_by_path(table: pa.Table) -> pa.Table:
    table = pa.table({name: plain(table.column(name)) for name in table.column_names if name != "not_private"})
    return table.sort_by([(name, "ascending") for name in ("campaign", "location", "day")])


def check_same(name: str, found: pa.Table, expected: pa.Table) -> None:
    """Counts and noise to the bit, estimates to 1e-9 of a standard deviation; numbers of nodes differ."""
    found, expected = sorted_by_path(found), sorted_by_path(expected)
    assert found.column_names == expected.column_names, name
    for column in set(found.column_names) - {"node", "parent"}:
        mine, theirs = found.column(column), expected.column(column)
        if pa.types.is_floating(theirs.type) and column not in ("noisy", "noise_variance"):
            spread = np.sqrt(expected.column("variance").to_numpy()) if column in ("estimate", "low", "high") else 1.0
            off = np.abs(mine.to_numpy() - theirs.to_numpy()) / (1e-9 * np.maximum(spread, 1e-3))
            bounded = np.isfinite(expected.column("noise_variance").to_numpy()) if column in ("low", "high") else True
            assert not ((off > 1) & bounded).any(), (name, column)  # in parts, what was not measured has no bounds
        else:
            assert mine.to_pylist() == theirs.to_pylist(), (name, column)


def main(folder: Path) -> None:
    blocks.LEAVES = 150  # on the driver: several parts
    spec, path = Spec.load(str(folder / "spec.toml")), str(folder / "spec.toml")
    plan = api_of(spec).clients(run(path).plan).plan  # one machine
    session = start_session(
        "local-cluster[2,1,1024]", SETTINGS | {"spark.executor.extraJavaOptions": f"-Dattributary-{os.getpid()}"}
    )
    with Spark(session) as engine:
        with one_killed(session, "count"):
            counted = count_spark(spec, str(folder), engine=engine)
            counted.save(str(folder / "counts.parquet"))
        expected = count(spec, str(folder)).table
        found = sorted_by_path(pq.read_table(folder / "counts.parquet"))
        assert found.equals(sorted_by_path(expected))
        assert counted.collected().table.equals(expected)

        with one_killed(session, "run"):
            done = run_spark(path, engine=engine, seed=3, plan=plan, estimator="nonnegative")
            done.save(str(folder / "run"))
        one = run(path, rng=BlockEntropy(3), plan=plan, estimator="nonnegative")
        for name, table in one.tables.items():
            check_same(name, pq.read_table(folder / "run" / f"{name}.parquet"), table)

        impressions = [str(folder / "impressions.parquet")]
        with one_killed(session, "keys"):
            keys_spark(plan, impressions, str(folder / "keys"), engine=engine)
        keys = read_domain(str(folder / "keys" / "domain.avro"))
        assert sorted(keys.tolist()) == sorted(domain(plan, one.tree).tolist())

        write_summary(str(folder / "summary.avro"), keys, np.arange(len(keys), dtype=np.int64) * 1000)
        given = plan, [str(folder / "summary.avro")]
        with one_killed(session, "denoise"):
            made = denoise_summary_spark(*given, str(folder / "keys" / "tree.parquet"), engine=engine)
            table = made.frame.toArrow()
        check_same("denoise", table, denoise_summary(*given, one.tree, estimator=Estimator()).table)
    session.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
