"""On Spark, counting leaves the leaves on the workers: the table is that of one machine, in parts."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from attributary.cli import main
from attributary.errors import InputError
from attributary.file_kind import file_kind
from attributary.logs import count
from attributary.logs.spark import Spark
from attributary.noise import blocks
from attributary.noise.blocks import BlockEntropy
from attributary.pipeline import spark_count
from attributary.pipeline.read_prior import read_prior
from attributary.pipeline.run import run
from attributary.pipeline.spark_count import count_spark
from attributary.spec import Spec
from attributary.tables import read_table
from attributary.tables.table_columns import TRUE_COUNTS, plain
from support.spark_driver import rows_collected

LIMITS = """
conversions_per_impression = "auto"

[[measure]]
name = "count"

[[measure]]
name = "revenue"
column = "value"
"""


@pytest.fixture
def engine(spark: Any) -> Iterator[Spark]:
    with Spark(spark) as running:
        yield running


@pytest.fixture
def shop(shop_of: Callable[[int], Path], monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(blocks, "LEAVES", 150)  # several parts
    return shop_of(20_000)


def in_order(table: pa.Table) -> pa.Table:
    named = pa.table({name: plain(table.column(name)) for name in table.column_names if name != "not_private"})
    keys = [name for name in named.column_names if name not in ("impressions", "conversions", "revenue")]
    return named.sort_by([(name, "ascending") for name in keys])


@pytest.mark.parametrize("words", ["", LIMITS])
def test_counts_are_those_of_one_machine(words: str, engine: Spark, shop: Path) -> None:
    """Counts, values and bins to the bit, and the summary; the folder is replaced by the next one."""
    text = (shop / "spec.toml").read_text()
    top, mark, measures = words.partition("[[measure]]")
    (shop / "spec.toml").write_text(top + text.replace("[logs]", f"{mark}{measures}[logs]"))
    spec = Spec.load(str(shop / "spec.toml"))
    one, made = count(spec, str(shop)), count_spark(spec, str(shop), engine=engine)
    for _ in range(2):
        assert made.save(str(shop / "counts.parquet")) == one.table.num_rows
    found = pq.read_table(shop / "counts.parquet")
    assert in_order(found).equals(in_order(one.table))
    assert found.column("not_private").unique().to_pylist() == [TRUE_COUNTS]
    assert made.counts.summary() | {"table_rows": one.table.num_rows} == one.summary()
    assert made.collected().table.equals(one.table) and made.collected().summary() == one.summary()


def test_the_driver_gets_no_leaves(engine: Spark, shop: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = rows_collected(monkeypatch)
    made = count_spark(Spec.load(str(shop / "spec.toml")), str(shop), engine=engine)
    assert made.save(f"file://{shop}/counts.parquet") == made.leaves
    assert sizes and max(sizes) < made.leaves / 20


def test_one_file_passes_through_the_driver_up_to_a_size(
    engine: Spark, shop: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As the command says; of more leaves, it says what to do instead."""
    spec = str(shop / "spec.toml")

    def told(output: str, *words: str, code: int = 0) -> str:
        done = CliRunner().invoke(main, ["count", spec, "-o", output, *words])
        assert done.exit_code == code, done.output
        return done.output

    spark = ["--engine", "spark"]
    told(str(shop / "one.csv"))
    assert "passed through this machine, as one file" in told(str(shop / "other.csv"), *spark)
    assert (shop / "one.csv").read_bytes() == (shop / "other.csv").read_bytes()
    folder = str(shop / "counts.parquet")
    summary, on_one = told(folder, *spark), told(str(shop / "one.parquet"))
    assert summary == on_one.replace("one.parquet", "counts.parquet")
    monkeypatch.setattr(spark_count, "ONE_FILE", 100)
    assert "folder of Parquet files, with counts.parquet for" in told("-", *spark, code=2).replace("\n", " ")
    told(folder, *spark)


def test_several_breakdowns_say_what_to_do(engine: Spark, shop: Path) -> None:
    text = (shop / "spec.toml").read_text().replace("split_by", "# split_by")
    both = '[[breakdown]]\nattributes = ["campaign", "day"]\n[[breakdown]]\nattributes = ["location", "day"]\n[logs]'
    (shop / "spec.toml").write_text(text.replace("[logs]", both))
    with pytest.raises(InputError, match=r"without \[\[breakdown\]\] and with its share of epsilon"):
        count_spark(Spec.load(str(shop / "spec.toml")), str(shop), engine=engine)
    out = str(shop / "counts.parquet")
    done = CliRunner().invoke(main, ["count", str(shop / "spec.toml"), "--engine", "spark", "-o", out])
    assert done.exit_code == 0 and "as one file" in done.output, done.output


def test_a_folder_of_shards_is_one_table(shop_of: Callable[[int], Path]) -> None:
    """One machine reads what a cluster wrote: its files are neither periods of their own nor some of the rows."""
    shop = shop_of(20_000)
    done = run(str(shop / "spec.toml"), rng=BlockEntropy(1))
    done.save(str(shop / "one"))
    for name in ("estimates", "counts"):
        table = pq.read_table(shop / "one" / f"{name}.parquet")
        (shop / "parts" / f"{name}.parquet").mkdir(parents=True)
        half = len(table) // 2
        for i, part in enumerate((table.slice(0, half), table.slice(half))):
            pq.write_table(part, shop / "parts" / f"{name}.parquet" / f"part-{i:05}-c000.snappy.parquet")
        (shop / "parts" / f"{name}.parquet" / "_SUCCESS").touch()
        whole, path = str(shop / "one" / f"{name}.parquet"), str(shop / "parts" / f"{name}.parquet")
        assert read_table(path).to_pylist() == read_table(whole).to_pylist()
        assert file_kind(path).kind == file_kind(whole).kind == name
        expected = read_prior(done.plan.spec, done.tree, whole)
        assert (read_prior(done.plan.spec, done.tree, path).mean == expected.mean).all()
    of_run = [read_prior(done.plan.spec, done.tree, str(shop / folder)).mean for folder in ("one", "parts")]
    assert (of_run[0] == of_run[1]).all()
