"""Spark counts what DuckDB counts, to the last row, also when one of its executors dies; mistakes are told alike."""

import gzip
import json
import logging
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from attributary.errors import InputError, TryAgain
from attributary.logs.count import count
from attributary.logs.counts import Counts
from attributary.logs.spark import Spark, quiet_py4j, spark_errors, start_session
from attributary.spec import Spec
from attributary.tables import write_table
from support.brisk_java import BRISK
from support.effort import first_of

TWO_LOGS = """
epsilon = 4

[[attribute]]
name = "campaign"

[[attribute]]
name = "location"

[[attribute]]
name = "day"
unknown = true
domain = ["Mon", "Tue", "Wed"]

[[attribute]]
name = "amount"
unknown = true
bucket = 0.1
buckets = 20

[[attribute]]
name = "delay"
unknown = true
bucket = "10m"
buckets = 3

[logs]
impressions = "impressions/*.parquet"
conversions = "conversions.parquet"
user = "user"
time = "time"
window = "30m"
"""
ONE_LOG = """
epsilon = 4

[[attribute]]
name = "campaign"

[[attribute]]
name = "delay"
unknown = true
bucket = "1d"
buckets = 4

[logs]
attributed = "rows.csv"
time = "time"
conversion_time = "sold"
"""


def some(rng: np.random.Generator, values: Any, n: int) -> pa.Array:
    """Values at random, a few of them missing."""
    return pa.array(rng.choice(values, n), mask=rng.random(n) < 0.02)


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A million rows with many ties: few users and instants, several impressions and conversions at one of them."""
    folder = tmp_path_factory.mktemp("logs")
    (folder / "impressions").mkdir()
    rng, n = np.random.default_rng(1), 350_000
    campaigns = ["autumn", "brand", "été", "O'Neill", "${x}", "a\\b"]
    for i, whole in enumerate((pa.int32(), pa.int64())):  # files that differ a little
        columns = {
            "user": some(rng, np.arange(100_000), n),
            "time": some(rng, np.arange(5_000), n),
            "campaign": some(rng, campaigns, n),
            "location": some(rng, np.arange(40), n).cast(whole),
        }
        pq.write_table(pa.table(columns), folder / "impressions" / f"{i}.parquet")
    columns = {
        "user": some(rng, np.arange(110_000), 300_000),
        "time": some(rng, np.arange(6_000), 300_000),
        "day": some(rng, ["Mon", "Tue", "Wed", "Sun"], 300_000),
        "amount": some(rng, np.round(np.arange(0, 2.5, 0.1), 1), 300_000),
    }
    pq.write_table(pa.table(columns), folder / "conversions.parquet")
    return folder


@pytest.fixture(scope="module")
def on_duckdb(logs: Path) -> Counts:
    return count(Spec.parse(TWO_LOGS), str(logs))


@pytest.fixture
def engine(spark: Any) -> Iterator[Spark]:
    with Spark(spark) as running:
        yield running


def check_same(found: Counts, expected: Counts) -> None:
    assert found.table.equals(expected.table)
    assert {**vars(found), "table": None} == {**vars(expected), "table": None}


@pytest.mark.sweep
def test_a_million_rows(engine: Spark, logs: Path, on_duckdb: Counts) -> None:
    assert on_duckdb.conversions > 10_000 and on_duckdb.exceeded > 10_000 and on_duckdb.left_out > 10_000
    check_same(count(Spec.parse(TWO_LOGS), str(logs), engine=engine), on_duckdb)


TIMES = {
    "dates": ("2026-03-01", "2026-03-04", "2026-03-02"),
    "times": ("2026-03-01T22:00:00.25", "2026-03-04 21:59:59", "2026-03-01T22:00:01"),
    "times with a zone": ("2026-03-01T22:00:00+02:00", "2026-03-04 21:59:59Z", "2026-03-01T20:00:01Z"),
    "numbers": ("100.5", "3e5", 101),
}


@pytest.mark.parametrize("name", first_of(TIMES))
def test_times_in_text(engine: Spark, tmp_path: Path, name: str) -> None:
    seen, sold, until = TIMES[name]
    cells = f'"O""Neill, shoes",{seen},{sold}\n brand,{seen},\nbrand,{seen},{seen}\n,{sold},{sold}\n"",,\n'
    (tmp_path / "rows.csv").write_text("campaign,time,sold\n" + cells, encoding="utf-8")
    spec = Spec.parse(ONE_LOG)
    for period in ({}, {"until": until}):
        expected = count(spec, str(tmp_path), **period)  # type: ignore[arg-type]
        assert expected.conversions == (2 if period else 3)
        check_same(count(spec, str(tmp_path), engine=engine, **period), expected)  # type: ignore[arg-type]


def test_times_in_parquet(engine: Spark, tmp_path: Path) -> None:
    from datetime import UTC, datetime

    for zone in (None, UTC):
        kind = pa.timestamp("us", None if zone is None else "UTC")
        sold = [datetime(2026, 3, 1, 22, tzinfo=zone), datetime(2026, 3, 4, 21, tzinfo=zone), None]
        times = {"time": pa.array(sold[:1] * 3, kind), "sold": pa.array(sold, kind)}
        pq.write_table(pa.table({"campaign": ["a", "b", "c"], **times}), tmp_path / "rows.parquet")
        spec = Spec.parse(ONE_LOG.replace("rows.csv", "rows.parquet"))
        check_same(count(spec, str(tmp_path), engine=engine), count(spec, str(tmp_path)))


def test_folders_named_after_values_are_a_column(engine: Spark, tmp_path: Path) -> None:
    for day, ending in (("2026-03-01", "[1].parquet"), ("2026-03-02", "{2}.parquet")):
        (tmp_path / f"campaign={day}").mkdir()
        rows = {"time": [1, 2, 3], "sold": [5, None, 7]}
        pq.write_table(pa.table(rows), tmp_path / f"campaign={day}" / ending)
    spec = Spec.parse(ONE_LOG.replace("rows.csv", "*/*.parquet"))
    expected = count(spec, str(tmp_path))
    assert expected.table.column("campaign").unique().to_pylist() == ["2026-03-01", "2026-03-02"]
    check_same(count(spec, str(tmp_path), engine=engine), expected)


KILLER = """
import json, os, sys
import pyarrow.parquet as pq
from attributary.errors import InputError, TryAgain
from attributary.logs.spark import quiet_py4j, spark_errors
from attributary.logs.count import count
from attributary.logs.spark import start_session
from attributary.logs.spark import Spark
from attributary.spec import Spec

folder, marker, settings = sys.argv[1:]


def killed_once(batches):
    for batch in batches:
        yield batch
        try:
            os.close(os.open(marker, os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            continue
        daemon = os.getppid()
        executor = int(open(f"/proc/{daemon}/stat").read().rsplit(")", 1)[1].split()[1])
        assert b"java" in open(f"/proc/{executor}/cmdline", "rb").read()
        os.kill(executor, 9)


class Killed(Spark):
    def _read(self, files):
        frame = super()._read(files)
        return frame.mapInArrow(killed_once, frame.schema)


spec = Spec.parse(open(f"{folder}/spec.toml").read())
with Killed(master="local-cluster[2,1,1024]", settings=json.loads(settings)) as engine:
    pq.write_table(count(spec, folder, engine=engine).table, f"{folder}/counts.parquet")
"""


SETTINGS = {
    "spark.sql.shuffle.partitions": "3",
    "spark.executor.extraJavaOptions": BRISK,
    "spark.shuffle.io.retryWait": "100ms",  # impatient with the dead
    "spark.locality.wait": "0",
}


@pytest.mark.sweep
def test_an_executor_that_is_killed_changes_nothing(spark: Any, logs: Path, on_duckdb: Counts, tmp_path: Path) -> None:
    import pyspark

    home = tmp_path / "spark"  # Spark writes its executors' logs there
    home.mkdir()
    for folder in ("bin", "jars", "python"):
        (home / folder).symlink_to(Path(pyspark.__file__).parent / folder)
    (logs / "spec.toml").write_text(TWO_LOGS, encoding="utf-8")
    environment = {**os.environ, "SPARK_HOME": str(home)}
    given = [str(logs), str(tmp_path / "killed"), json.dumps(SETTINGS)]
    subprocess.run([sys.executable, "-c", KILLER, *given], env=environment, check=True, timeout=300)
    assert len([*home.glob("work/app-*/*")]) == 3  # executors: two, and one in place of the one that was killed
    assert pq.read_table(logs / "counts.parquet").equals(on_duckdb.table)


def write(folder: Path, name: str, content: str | bytes | dict[str, Any]) -> None:
    if isinstance(content, dict):
        pq.write_table(pa.table(content), folder / name)
    else:
        (folder / name).write_bytes(content.encode() if isinstance(content, str) else content)


HEAD, LINE = "campaign,time,sold\n", "brand,2026-03-01,2026-03-02\n"
PACKED = gzip.compress((HEAD + LINE * 10_000).encode())
ROWS = {"campaign": ["brand"], "time": [1], "sold": [5]}
NANOS = pa.array([10**18], pa.timestamp("ns"))
MISTAKES: dict[str, tuple[dict[str, Any], str]] = {
    "text that is no date": (
        {"1.csv": HEAD + LINE * 2000 + "brand,soon,2026-03-02\n"},
        "1.csv: 'soon' in column 'time'; dates are needed",
    ),
    "too few cells": ({"1.csv": HEAD + LINE + "brand\n"}, "1.csv: a line has more or fewer cells .* 'brand'; quote"),
    "too many cells": ({"1.csv": HEAD + "brand,,,shoes\n"}, "1.csv: a line has more or fewer cells .* 'brand,,,shoes'"),
    "a file that ends too early": ({"1.csv.gz": PACKED[:-100]}, "1.csv.gz is cut off"),
    "a file that is no Parquet": (
        {"1.parquet": b"PAR1, but not for long"},
        "1.parquet cannot be read: .*not a Parquet",
    ),
    "a column that one file lacks": (
        {"1.parquet": ROWS, "2.parquet": {"campaign": ["x"], "time": [1]}},
        "1.parquet has 'sold', .*2.parquet does not",
    ),
    "a column of two kinds": (
        {"1.parquet": ROWS, "2.parquet": {**ROWS, "sold": ["5"]}},
        "column 'sold' is bigint in .*1.parquet and string in .*2.parquet; times are numbers",
    ),
    "nanoseconds": ({"1.parquet": {**ROWS, "time": NANOS}}, "1.parquet.*NANOS.*; Spark reads times to the microsecond"),
    "a name that Spark hides": (
        {"_1.csv": HEAD + LINE},
        "ignores files whose names begin with . or _; rename .*_1.csv",
    ),
    "a number too large": ({"1.parquet": {**ROWS, "sold": [2**62]}}, "1.parquet: row 1: .* out of range past 2100"),
    "a number in text": (
        {"1.csv": HEAD + "brand,1,2\n" * 2000 + "brand,2,3-\n"},
        "1.csv.*'3-' in column 'sold'; numbers are",
    ),
}


@pytest.mark.parametrize("name", first_of(MISTAKES))
def test_mistakes_are_told_with_their_file(engine: Spark, tmp_path: Path, name: str) -> None:
    contents, message = MISTAKES[name]
    for file, content in contents.items():
        write(tmp_path, file, content)
    with pytest.raises(InputError, match=message):
        count(Spec.parse(ONE_LOG.replace("rows.csv", "*.*")), str(tmp_path), engine=engine)


def test_rows_of_parquet_have_their_number(engine: Spark, tmp_path: Path) -> None:
    write(
        tmp_path, "rows.parquet", {"campaign": ["a"] * 2000, "time": ["1"] * 2000, "sold": ["2"] * 1998 + ["two", "2"]}
    )
    with pytest.raises(InputError, match="rows.parquet: row 1,999: 'two' in column 'sold'"):
        count(Spec.parse(ONE_LOG.replace("rows.csv", "rows.parquet")), str(tmp_path), engine=engine)


def test_a_session_is_left_as_it_was(spark: Any) -> None:
    spark.conf.set("spark.sql.session.timeZone", "Asia/Tokyo")
    with Spark(spark) as engine:
        assert engine.run("SELECT CURRENT_TIMEZONE()").column(0).to_pylist() == ["UTC"]
    with Spark() as engine:  # the active one
        assert engine.run("SELECT 1").column(0).to_pylist() == [1]
    assert spark.conf.get("spark.sql.session.timeZone") == "Asia/Tokyo"
    assert spark.range(3).count() == 3
    with pytest.raises(InputError, match=r"a Spark session is running already; stop it, or leave out local\[7\]"):
        Spark(master="local[7]")


def test_spark_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", "/nowhere")
    with pytest.raises(InputError, match="needs Java 17 or newer, and there is none in JAVA_HOME=/nowhere; install"):
        start_session()
    monkeypatch.delenv("JAVA_HOME")
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(InputError, match="there is none on the PATH"):
        start_session()
    monkeypatch.setitem(sys.modules, "pyspark", None)
    with pytest.raises(InputError, match=r"PySpark, which is not installed; pip install 'attributary\[spark\]'"):
        start_session()


@pytest.mark.sweep
def test_a_cluster_that_is_not_there() -> None:
    code = "from attributary.logs.spark import start_session; start_session('mesos://nowhere:1')"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "InputError: Spark did not start at mesos://nowhere:1: " in done.stderr
    assert "Master must either be" in done.stderr.splitlines()[-1]


SHORT = """
epsilon = 1
[[attribute]]
name = "campaign"
[logs]
impressions = "i"
conversions = "c.csv"
user = "user"
time = "time"
"""


@pytest.mark.parametrize("ending", first_of(["csv", "parquet"]))
def test_folders_named_after_a_value_are_a_column_and_rows_are_told(spark: Any, ending: str, tmp_path: Path) -> None:
    (tmp_path / "c.csv").write_text("user,time\nu0,11\nu2,12\n")
    for i, value in enumerate(["007", "a%20b", "__HIVE_DEFAULT_PARTITION__"]):
        (tmp_path / "i" / f"campaign={value}").mkdir(parents=True)
        table = pa.table({"user": [f"u{i}", "x"], "time": ["10", "5"]})
        write_table(table, str(tmp_path / "i" / f"campaign={value}" / f"part-0.{ending}"))
    theirs, ours = (count(Spec.parse(SHORT), str(tmp_path), engine=engine) for engine in (Spark(spark), "duckdb"))
    assert theirs.table.equals(ours.table) and theirs.rows == ours.rows == 8
    assert theirs.table.column("campaign").to_pylist() == ["007", "a b", "missing"]


@pytest.mark.parametrize("ending", first_of(["csv", "parquet"]))
def test_epoch_milliseconds_are_refused_by_spark_too(spark: Any, ending: str, tmp_path: Path) -> None:
    spec = SHORT.replace('"i"', f'"i.{ending}"')
    table = pa.table({"user": ["a", "b"], "time": [1_790_000_000_000, 1_790_000_060_000], "campaign": ["x", "y"]})
    write_table(table, str(tmp_path / f"i.{ending}"))
    (tmp_path / "c.csv").write_text("user,time\na,1790000001000\n")
    with pytest.raises(InputError, match="column 'time'; .* past 2100: is time_unit right"):
        count(Spec.parse(spec), str(tmp_path), engine=Spark(spark))
    assert count(Spec.parse(spec + 'time_unit = "ms"'), str(tmp_path), engine=Spark(spark)).conversions == 1


def test_what_spark_could_not_do_now_and_what_ctrl_c_ended() -> None:
    from py4j.protocol import Py4JError, Py4JNetworkError

    trace = "\n\tat org.apache.spark.Somewhere" * 200
    with pytest.raises(KeyboardInterrupt), spark_errors():
        raise Py4JError(f"org.apache.spark.SparkException: [SPARK_JOB_CANCELLED] Job 3 cancelled{trace}")
    for words in (f"java.lang.OutOfMemoryError: Java heap space{trace}", f"No space left on device{trace}"):
        with pytest.raises(TryAgain) as caught, spark_errors():
            raise Py4JError(f"An error occurred while calling o1.\n{words}")
        assert len(str(caught.value)) < 400 and "\n" not in str(caught.value)
    for error in (Py4JNetworkError("Answer from Java side is empty"), ConnectionRefusedError("refused")):
        with pytest.raises(TryAgain), spark_errors():
            raise error
    with pytest.raises(Py4JError), spark_errors():
        raise Py4JError("another bug")


def test_py4j_does_not_log_what_it_raises(caplog: pytest.LogCaptureFixture) -> None:
    with quiet_py4j():
        logging.error("KeyboardInterrupt while sending command.")
        logging.error("something else")
    assert [record.getMessage() for record in caplog.records] == ["something else"]
    assert not logging.getLogger().filters


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        ("ModuleNotFoundError: No module named 'attributary.pipeline'", "has no attributary"),
        ("[PACKAGE_NOT_INSTALLED] PyArrow >= 11.0.0 must be installed; however, it was not found.", "has no PyArrow"),
        (
            "[PYTHON_VERSION_MISMATCH] Python in worker: 3.9, in driver: 3.11",
            "is another",
        ),
        ('Caused by: java.io.IOException: Cannot run program "/opt/python": error=2', "is not there: /opt/python"),
    ],
)
def test_workers_without_attributary_are_named(words: str, reason: str) -> None:
    pytest.importorskip("pyspark")
    from pyspark.errors import PySparkException

    told = f"the Python of Spark's workers {reason}.*install attributary where they run"
    with pytest.raises(InputError, match=told), spark_errors():
        raise PySparkException(words)
