"""On Spark, keys and denoising come out as on one machine, from every kind of source."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from attributary import Plan
from attributary.api import api_of
from attributary.api.ara.keys.key_layout import domain
from attributary.api.ara.service.summary_report import write_summary
from attributary.api.ara.wire.avro import StatedNoise, read_domain
from attributary.cli import main
from attributary.errors import InputError
from attributary.estimators import Estimator
from attributary.logs import count
from attributary.logs.log_files import Files
from attributary.logs.spark import Spark
from attributary.logs.spark_folder import save_frame
from attributary.pipeline import spark_nodes
from attributary.pipeline.denoise_summary import denoise_summary
from attributary.pipeline.read_prior import read_queried, read_tree
from attributary.pipeline.run import run
from attributary.pipeline.spark_nodes import denoise_summary_spark, keys_spark
from attributary.spec import Spec
from attributary.tables.table_columns import plain
from attributary.types import Keys
from support.spark_driver import rows_collected

VALUES = """
conversions_per_impression = 2

[[measure]]
name = "count"

[[measure]]
name = "revenue"
column = "value"
clip = 100
"""


@pytest.fixture
def engine(spark: Any) -> Iterator[Spark]:
    with Spark(spark) as running:
        yield running


@pytest.fixture
def shop(shop_of: Callable[[int], Path]) -> Path:
    return shop_of(20_000)


def planned(folder: Path, words: str = "") -> Plan:
    """The plan of a spec with more words at its beginning, with its keys, beside the logs."""
    spec = folder / "spec.toml"
    text = spec.read_text()
    spec.write_text(
        words.partition("[[")[0] + text.replace("[logs]", words[words.find("[[") :] * ("[[" in words) + "\n[logs]")
    )
    plan = run(str(spec), prior_until="2026-02-02").plan
    clients = api_of(plan.spec).clients(plan)
    clients.plan.save(str(folder / "plan.json"))
    return clients.plan


def in_order(keys: Keys) -> list[list[int]]:
    return sorted(keys.tolist())


def by_node(table: pa.Table) -> pa.Table:
    keys = [name for name in ("measure", "campaign", "location", "day") if name in table.column_names]
    table = pa.table({name: plain(table.column(name)) for name in table.column_names})
    return table.sort_by([(name, "ascending") for name in keys])


def check_same(found: pa.Table, expected: pa.Table) -> None:
    """Figures and variances to the bit, estimates to rounding; numbers of nodes differ."""
    found, expected = by_node(found), by_node(expected)
    assert found.column_names == expected.column_names
    bounded = np.isfinite(expected.column("noise_variance").to_numpy())  # in parts, what was not measured has no bounds
    for name in found.column_names:
        mine, theirs = found.column(name), expected.column(name)
        if name in ("low", "high"):
            mine, theirs = mine.filter(pa.array(bounded)), theirs.filter(pa.array(bounded))
        if name in ("low", "high", "estimate", "variance", "correction"):
            assert np.allclose(mine.to_numpy(), theirs.to_numpy(), rtol=1e-9, atol=1e-9, equal_nan=True), name
        elif name not in ("node", "parent"):
            assert mine.to_pylist() == theirs.to_pylist(), name


def reports(plan: Plan, folder: Path, number: int) -> list[str]:
    """Summary reports that lack some keys, and hold others that no node has."""
    rng, names = np.random.default_rng(7), []
    keys = domain(plan, read_tree(plan.spec, (str(folder / "impressions.parquet"),)))
    for i in range(number):
        some = np.concatenate([keys[rng.random(len(keys)) < 0.97], keys[:2] + np.uint64(1 << 30)])
        metric = np.round(rng.exponential(30_000, len(some))).astype(np.int64)
        half = len(some) // 2
        for shard, here in enumerate((slice(half), slice(half, None)), 1):
            names.append(str(folder / f"day{i}-{shard}-of-2.avro"))
            stated = StatedNoise(1.0, 65536, plan=plan.fingerprint)
            write_summary(names[-1], some[here], metric[here], stated=stated)
    return names


@pytest.mark.parametrize("words", ["total = true", VALUES])
def test_keys_and_estimates_are_those_of_one_machine(
    words: str, engine: Spark, shop: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spark_nodes, "AT_ONCE", 100)  # several batches
    plan = planned(shop, words)
    impressions = f"file://{shop}/impressions.parquet"
    made = keys_spark(plan, [impressions], str(shop / "keys"), engine=engine)
    tree = read_tree(plan.spec, (str(shop / "impressions.parquet"),))
    keys = read_domain(str(shop / "keys" / "domain.avro"))
    assert in_order(keys) == in_order(domain(plan, tree))
    assert (made.nodes, made.keys) == (len(tree), len(keys))
    table = pq.read_table(shop / "keys" / "tree.parquet")
    number = dict(zip(table.column("node").to_pylist(), table.column("level").to_pylist(), strict=True))
    assert len(number) == len(tree)  # each node once
    parents = zip(table.column("parent").to_pylist(), table.column("level").to_pylist(), strict=True)
    assert all(number.get(up, -1) == level - 1 for up, level in parents)
    assert len(read_queried(plan, str(shop / "keys" / "tree.parquet")).trees[0]) == len(tree)

    files = reports(plan, shop, 2)
    for chosen in (Estimator(), Estimator("nonnegative")):
        one = denoise_summary(plan, files, tree, estimator=chosen)
        found = denoise_summary_spark(plan, files, str(shop / "keys" / "tree.parquet"), engine=engine, estimator=chosen)
        check_same(found.frame.toArrow(), one.table)
    assert [note for note in one.notes if "keys that belong" not in note] == list(found.notes)


def test_the_driver_gets_no_nodes(engine: Spark, shop: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = planned(shop)
    impressions, tree = shop / "impressions.parquet", str(shop / "keys" / "tree.parquet")
    sizes = rows_collected(monkeypatch)
    made = keys_spark(plan, [str(impressions)], str(shop / "keys"), engine=engine)
    addresses = [f"file://{file}" for file in reports(plan, shop, 1)]
    done = denoise_summary_spark(plan, addresses, tree, engine=engine)
    assert save_frame(engine.session, done.frame, str(shop / "estimates")) == made.nodes
    assert sizes and max(sizes) < made.nodes / 20


def test_a_folder_that_spark_did_not_write_stays(engine: Spark, spark: Any, shop: Path) -> None:
    """A table takes the place of one that Spark wrote, and of nothing else."""
    for _ in range(2):
        assert save_frame(engine.session, spark.range(5), str(shop / "numbers")) == 5
    (shop / "numbers" / "mine.txt").write_text("mine")
    with pytest.raises(InputError, match=r"holds mine\.txt; give a new name"):
        save_frame(engine.session, spark.range(3), f"file://{shop}/numbers")
    assert (shop / "numbers" / "mine.txt").read_text() == "mine"


def test_a_report_is_added_once(engine: Spark, shop: Path) -> None:
    plan = planned(shop)
    keys_spark(plan, [str(shop / "impressions.parquet")], str(shop / "keys"), engine=engine)
    file, *_ = reports(plan, shop, 1)
    copy = shop / "again.avro"
    copy.write_bytes(Path(file).read_bytes())
    with pytest.raises(InputError, match="holds the same sums as"):
        denoise_summary_spark(plan, [file, str(copy)], str(shop / "keys" / "tree.parquet"), engine=engine)


def test_codes_that_collide_are_refused(engine: Spark, shop: Path) -> None:
    """Two labels of one worker, or of two: as on one machine, before anything is written."""
    plan = planned(shop)
    narrow = plan.keys[0].model_copy(update={"bits": 1})
    bad = plan.model_copy(update={"keys": (narrow, *plan.keys[1:])})
    with pytest.raises(InputError, match="have the same code of 1 bits"):
        keys_spark(bad, [str(shop / "impressions.parquet")], str(shop / "keys"), engine=engine)
    assert not (shop / "keys").exists()


def test_the_commands_run_on_spark(engine: Spark, shop: Path) -> None:
    plan = planned(shop)
    keys, out, one = shop / "keys", shop / "est.parquet", shop / "one.parquet"
    spark = ["--engine", "spark"]

    def told(*words: str, code: int = 0) -> str:
        done = CliRunner().invoke(main, [*words])
        assert done.exit_code == code, done.output
        return done.output

    path = str(shop / "plan.json")
    assert "nodes written to" in told(
        "keys", path, "--impressions", str(shop / "impressions.parquet"), *spark, "-o", str(keys)
    )
    report, *_ = reports(plan, shop, 1)
    given = ["denoise", path, report, "--tree", str(keys / "tree.parquet")]
    assert "rows written" in told(*given, *spark, "-o", str(out))
    told(*given, "-q", "-o", str(one))
    check_same(pq.read_table(out), pq.read_table(one))
    table = [
        "denoise",
        "--table",
        str(out),
        "--levels",
        "campaign,location,day",
        "--value",
        "noisy",
        "--prefix",
        "new_",
    ]
    told(*table, "--variance", "noise_variance", *spark, "-o", str(shop / "table"))
    made = pq.read_table(shop / "table")
    level, spread = made.column("level").to_numpy(), made.column("new_correction")
    assert (
        made.num_rows == pq.read_table(one).num_rows and spread.null_count < made.num_rows and set(level) == {0, 1, 2}
    )
    assert "writes a folder" in told(*given, *spark, "-o", "-", code=2)
    assert "for one machine" in told(*table, "--noise", "laplace:scale=4", "--empty", "zero", *spark, "-o", "x", code=2)
    assert "recognises no columns" in told("denoise", "--table", str(out), *spark, "-o", "x", code=2)
    assert "add --engine spark" in told(*given, "--master", "local[2]", "-o", "x", code=2)


def test_logs_may_be_folders_addresses_tables_and_frames(engine: Spark, spark: Any, shop: Path) -> None:
    """The same counts, whatever the spec names: a Hive folder, an address of a folder, a table, a frame."""
    spec = Spec.load(str(shop / "spec.toml"))
    expected = count(spec, str(shop)).table
    frames = {name: spark.read.parquet(str(shop / f"{name}.parquet")) for name in ("impressions", "conversions")}
    hive = shop / "hive"
    frames["impressions"].write.partitionBy("campaign").parquet(str(hive))
    frames["conversions"].createOrReplaceGlobalTempView("bought")
    sides = [
        ("hive", "conversions.parquet"),
        ("table://seen", "table://global_temp.bought"),
        ("table://seen", "table://sold"),
    ]
    with Spark(spark, frames={"seen": frames["impressions"], "sold": frames["conversions"]}) as running:
        for seen, sold in sides:
            logs = spec.logs.model_copy(update={"impressions": (seen,), "conversions": (sold,)})
            made = count(spec.model_copy(update={"logs": logs}), str(shop), engine=running)
            assert made.table.equals(expected), seen
        folder = running._read(Files((f"file://{hive}",), "parquet"))
        assert folder.count() == frames["impressions"].count() and "campaign" in folder.columns
        missing = spec.logs.model_copy(update={"impressions": ("table://nothing",)})
        with pytest.raises(InputError, match="there is no table table://nothing"):
            count(spec.model_copy(update={"logs": missing}), str(shop), engine=running)
        with pytest.raises(InputError, match="choose the engine spark"):
            count(spec.model_copy(update={"logs": missing}), str(shop))
