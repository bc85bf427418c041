"""What is not private says so, and so does everything that is made from it."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from attributary.tables import read_table, write_table
from attributary.tables.not_private import NO_NOISE, SEEDED, mark, words_of

TABLE = pa.table({"campaign": ["a", None, "c"], "estimate": [1.5, -2.0, 3.0]})
ENDINGS = ["csv", "tsv", "csv.gz", "parquet", "arrow", "arrows"]


@pytest.mark.parametrize("first", ENDINGS)
@pytest.mark.parametrize("second", ENDINGS)
def test_the_words_go_through_every_format_and_from_each_to_each(tmp_path: Path, first: str, second: str) -> None:
    one, two = str(tmp_path / f"one.{first}"), str(tmp_path / f"two.{second}")
    write_table(mark(TABLE, SEEDED), one)
    again = read_table(one)
    write_table(mark(again, words_of(again)), two)
    assert words_of(read_table(two)) == SEEDED


@pytest.mark.parametrize("ending", ["csv", "tsv"])
def test_text_has_the_words_in_a_last_column_of_every_row(tmp_path: Path, ending: str) -> None:
    path = str(tmp_path / f"t.{ending}")
    write_table(mark(TABLE, SEEDED), path)
    table = read_table(path)
    assert table.column_names == ["campaign", "estimate", "not_private"]
    assert table.column("not_private").to_pylist() == [SEEDED] * 3


def test_parquet_has_them_in_its_metadata_and_no_column(tmp_path: Path) -> None:
    path = str(tmp_path / "t.parquet")
    write_table(mark(TABLE, SEEDED), path)
    assert pq.read_schema(path).metadata[b"not_private"].decode() == SEEDED
    assert pq.read_schema(path).names == TABLE.column_names


def test_words_add_up_and_none_is_lost_or_repeated() -> None:
    twice = mark(mark(mark(TABLE, SEEDED), NO_NOISE), SEEDED)
    assert words_of(twice) == f"{SEEDED} | {NO_NOISE}"


@pytest.mark.parametrize(
    "table", [TABLE, mark(TABLE), mark(TABLE, "", "")], ids=["as it is", "no words", "empty words"]
)
def test_a_private_table_stays_as_it_is(table: pa.Table, tmp_path: Path) -> None:
    assert words_of(table) == "" and table.schema.equals(TABLE.schema, check_metadata=True)
    write_table(table, str(tmp_path / "t.csv"))
    assert read_table(str(tmp_path / "t.csv")).column_names == TABLE.column_names


def test_a_column_of_that_name_is_kept_if_it_holds_something_else() -> None:
    other = TABLE.append_column("not_private", pa.array([0, 1, 1]))
    assert words_of(other) == "" and mark(other, "").column_names[-1] == "not_private"


def test_a_column_with_gaps_is_in_every_row_once_written(tmp_path: Path) -> None:
    some = TABLE.append_column("not_private", pa.array([None, SEEDED, None])).select(
        ["not_private", "campaign", "estimate"]
    )
    write_table(some, str(tmp_path / "t.csv"))
    assert read_table(str(tmp_path / "t.csv")).column("not_private").to_pylist() == [SEEDED] * 3
