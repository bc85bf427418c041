"""On a cluster: what stages read, shuffle and write, and processor time, beside the formulae of docs/scale.md.

Two executors of this machine; each size in a process of its own. Bytes are Spark's own metrics; processor time is that
of all processes, Java and Python. `python -m bench.cluster 1000000 50000` measures one size and prints it as JSON; with
a third number, of days in the domain, count and run alone, for the driver's memory.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from bench.timing import heading

SIZES = ((60_000, 3_000), (200_000, 10_000), (300_000, 30_000))  # impressions, and known paths among them
DAYS = 7  # values of the unknown attribute, unless there are to be more
MANY_DAYS = 700
LEAVES = (143, 1_430)  # known paths with so many days each: 10⁵ and 10⁶ leaves; 14300 are 10⁷, which takes minutes
MEMORY = 512  # MB that the driver's Java may have
SPEC = """
epsilon = 4
[[attribute]]
name = "campaign"
[[attribute]]
name = "site"
[[attribute]]
name = "day"
unknown = true
domain = DAYS
[logs]
impressions = "impressions"
conversions = "conversions"
user = "user"
time = "time"
window = "30d"
"""
# Bytes for each row of the logs, known path and node: those of docs/scale.md.
FORMULAE = {
    "bare SQL": {"shuffled": (11, 0, 0), "written": (0.35, 0, 0)},
    "run": {"shuffled": (11, 0, 18), "written": (0, 0, 67)},
    "keys": {"shuffled": (0, 45, 0), "written": (0, 0, 11)},
    "denoise": {"shuffled": (0, 0, 60), "written": (0, 0, 46)},
}
OFF = 1.25  # how far a formula may be off


def main() -> None:
    heading(
        "On a cluster (generated logs; local-cluster, 2 executors of 1 core and 1 GB): measured, and by the formulae"
    )
    print(f"{'stage':>8} {'rows':>9} {'nodes':>9} {'read':>9} {'shuffled':>18} {'written':>18} {'processors':>11}")
    for size in SIZES:
        made = apart(*size)
        rows, paths, nodes = made["rows"], size[1], made["nodes"]
        for stage, formulae in FORMULAE.items():
            it, cells = made[stage], []
            for kind, each in formulae.items():
                computed = np.dot(each, (rows, paths, nodes))
                mark = "" if 1 / OFF < it[kind] / computed < OFF else " OFF"
                cells.append(f"{it[kind] / 1e6:6.2f} ({computed / 1e6:5.2f}) MB{mark}")
            read, took = f"{it['read'] / 1e6:6.1f} MB", f"{it['processors']:9.1f} s"
            print(f"{stage:>8} {rows:>9,} {nodes:>9,} {read:>9} {cells[0]:>18} {cells[1]:>18} {took:>11}")
        ratio = made["run"]["processors"] / made["bare SQL"]["processors"]
        print(
            f"run / bare SQL: {ratio:.2f} of processor time; driver: Python {made['python']} MB, Java {made['java']} MB"
        )

    for paths in LEAVES:
        made = apart(20_000 + 20 * paths, paths, MANY_DAYS)
        print(f"run, {made['leaves']:,} leaves: driver: Python {made['python']} MB, Java {made['java']} MB")


def apart(*size: int) -> dict[str, Any]:
    """What `measure` gives, in a process of its own."""
    command = [sys.executable, "-m", "bench.cluster", *map(str, size)]
    told = subprocess.run(command, check=True, capture_output=True, text=True)
    made: dict[str, Any] = json.loads(told.stdout.splitlines()[-1])
    return made


def logs(folder: Path, rows: int, paths: int, days: int = DAYS) -> None:
    """Impressions of so many known paths, and a conversion after one in ten, as two Parquet files each."""
    names = np.array([f"day {number}" for number in range(days)])
    rng = np.random.default_rng(0)
    path, user = rng.integers(0, paths, rows), rng.integers(0, rows, rows)
    when = rng.integers(0, 25 * 86_400, rows) * 1_000_000
    seen = {"user": user, "campaign": path // 50, "site": path % 50, "time": pa.array(when, pa.timestamp("us"))}
    who = rng.permutation(rows)[: rows // 10]
    later = pa.array(when[who] + rng.integers(1, 5 * 86_400, len(who)) * 1_000_000, pa.timestamp("us"))
    sold = {"user": user[who], "day": pa.array(names[rng.integers(0, days, len(who))]), "time": later}
    for name, columns in (("impressions", seen), ("conversions", sold)):
        (folder / name).mkdir()
        for column in ("campaign", "site"):
            if column in columns:
                columns[column] = pa.array(columns[column].astype(str))
        table = pa.table(columns)
        for part in range(2):
            half = len(table) // 2
            pq.write_table(table.slice(part * half, half + part), folder / name / f"{part}.parquet")
    (folder / "spec.toml").write_text(SPEC.replace("DAYS", json.dumps(names.tolist())))


def measure(rows: int, paths: int, days: int = DAYS) -> dict[str, Any]:
    """What the stages came to at one size."""
    from attributary.api import api_of
    from attributary.api.ara.service.summary_report import write_summary
    from attributary.api.ara.wire.avro import read_domain
    from attributary.logs.count import Question
    from attributary.logs.spark import Spark, start_session
    from attributary.logs.spark_folder import save_frame
    from attributary.pipeline.spark_count import count_spark
    from attributary.pipeline.spark_nodes import denoise_summary_spark, keys_spark
    from attributary.pipeline.spark_run import run_spark
    from attributary.spec import Spec

    folder = Path(tempfile.mkdtemp())
    logs(folder, rows, paths, days)
    os.environ["PYSPARK_PYTHON"] = sys.executable
    settings = {"spark.driver.memory": f"{MEMORY}m", "spark.sql.shuffle.partitions": "8"}
    session = start_session("local-cluster[2,1,1024]", settings)
    made: dict[str, Any] = {"rows": rows + rows // 10}
    with Spark(session) as engine:
        spec = Spec.load(str(folder / "spec.toml"))

        def bare() -> None:
            sql = Question.of(spec, str(folder), None, None, engine).sql
            engine.frame(sql).write.parquet(f"file://{folder}/bare")

        def whole() -> None:
            done = run_spark(spec, str(folder), engine=engine)
            done.save(str(folder / "run"))
            made["nodes"], made["leaves"] = sum(done.parts.levels), done.leaves
            plans.append(api_of(spec).clients(done.plan).plan)

        def count() -> None:
            count_spark(spec, str(folder), engine=engine).save(str(folder / "counts.parquet"))

        def report() -> None:
            denoised = denoise_summary_spark(
                plans[0], [str(folder / "summary.avro")], str(folder / "keys" / "tree.parquet"), engine=engine
            )
            save_frame(session, denoised.frame, str(folder / "estimates"))

        plans: list[Any] = []
        bare()  # warm: what Java compiles once
        shutil.rmtree(folder / "bare")
        made["bare SQL"] = told(session, bare)
        made["run"] = told(session, whole)
        java = [pid for pid, name in _descendants() if "java" in name]
        made |= {"python": _peak(os.getpid()), "java": _peak(java[0])}
        made["count"] = told(session, count)
        if days == DAYS:
            impressions = [str(folder / "impressions")]
            made["keys"] = told(session, lambda: keys_spark(plans[0], impressions, str(folder / "keys"), engine=engine))
            keys = read_domain(str(folder / "keys" / "domain.avro"))
            write_summary(str(folder / "summary.avro"), keys, np.arange(len(keys), dtype=np.int64))
            made["denoise"] = told(session, report)
    session.stop()
    shutil.rmtree(folder)
    return made


def told(session: Any, stage: Callable[[], None]) -> dict[str, float]:
    """What a stage read, shuffled and wrote, and its processor time."""
    before, begun = _bytes(session), _processors()
    stage()
    after = _bytes(session)
    return {kind: after[kind] - before[kind] for kind in after} | {"processors": _processors() - begun}


def _bytes(session: Any) -> dict[str, float]:
    """The sums of Spark's metrics over all stages so far."""
    context = session.sparkContext
    context._jsc.sc().listenerBus().waitUntilEmpty()
    none = context._gateway.new_array(context._jvm.double, 0)
    each = context._jsc.sc().statusStore().stageList(None, False, False, none, None)
    sums = {"read": 0.0, "shuffled": 0.0, "written": 0.0}
    for i in range(each.size()):
        stage = each.apply(i)
        sums["read"] += stage.inputBytes()
        sums["shuffled"] += stage.shuffleWriteBytes()
        sums["written"] += stage.outputBytes()
    return sums


def _descendants() -> list[tuple[int, str]]:
    """The processes below this one, the nearest first."""
    parents = {}
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            name, _, rest = Path(f"/proc/{pid}/stat").read_text().partition("(")[2].rpartition(")")
        except OSError:
            continue
        parents[int(pid)] = (int(rest.split()[1]), name)
    below, found = [os.getpid()], []
    while below:
        mine = [(pid, name) for pid, (parent, name) in parents.items() if parent in below]
        below = [pid for pid, _ in mine]
        found += mine
    return sorted(found[:1]) + found[1:]


def _processors() -> float:
    """Seconds of processor time of this process and all below it, those that ended included."""
    ticks = 0
    for pid in [os.getpid(), *(pid for pid, _ in _descendants())]:
        try:
            ticks += sum(map(int, Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:15]))
        except OSError:
            continue
    return ticks / os.sysconf("SC_CLK_TCK")


def _peak(pid: int) -> int:
    """The most memory that a process had, in MB."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) // 1024 for line in lines if line.startswith("VmHWM"))


if __name__ == "__main__":
    print(json.dumps(measure(*map(int, sys.argv[1:4]))))
