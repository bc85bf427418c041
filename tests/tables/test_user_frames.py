"""Frames in and out: whatever kind a table is of, the estimates stand beside its rows in the same kind."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from pyarrow import feather, parquet

from attributary import Measurements, Tree, denoise, prior
from attributary.errors import InputError
from attributary.pipeline.denoise_table import denoise_table
from attributary.read_estimates import read_estimates
from attributary.tables import read_table, write_table
from attributary.tables.table_columns import arrow_table
from support.command import attributary

COLUMNS: dict[str, list[Any]] = {
    "owner": ["Ada", "Ben", "Ada", "Cleo"],
    "campaign": ["shoes", "shoes", "shoes", "hats"],
    "day": ["tue", None, "mon", None],
    "clicks": [51.0, 103.0, 58.0, -4.0],
    "sales": [5.0, 12.0, 4.0, 3.0],
    "v": [4.0, 8.0, 4.0, 8.0],
    "w": [1.0, 2.0, 1.0, float("inf")],
}
LEVELS = ["campaign", "day"]
FIGURES = ["estimate", "variance", "low", "high", "correction"]


CODED: dict[str, Callable[[dict[str, list[Any]]], Any]] = {
    "polars Categorical": lambda columns: pl.DataFrame(columns).with_columns(pl.col(LEVELS).cast(pl.Categorical)),
    "polars Enum": lambda columns: pl.DataFrame(columns).with_columns(
        pl.col("campaign").cast(pl.Enum(["hats", "shoes"])), pl.col("day").cast(pl.Enum(["tue", "mon"]))
    ),
    "pandas Categorical": lambda columns: pd.DataFrame(columns).astype(dict.fromkeys(LEVELS, "category")),
    "Arrow dictionary": lambda columns: coded(pa.table(columns), pa.string()),
    "Arrow large": lambda columns: coded(pa.table(columns), pa.large_string()),
    "Arrow views": lambda columns: coded(pa.table(columns), pa.string_view()),
    "Arrow plain views": lambda columns: viewed(pa.table(columns)),
}


def coded(table: pa.Table, kind: pa.DataType) -> pa.Table:
    for name in LEVELS:
        labels = table.column(name).combine_chunks().dictionary_encode()
        made = pa.DictionaryArray.from_arrays(labels.indices, labels.dictionary.cast(kind))
        halves = pa.chunked_array([made[:1], made[1:]])  # in chunks, as others write them
        table = table.set_column(table.column_names.index(name), name, halves)
    return table


def viewed(table: pa.Table) -> pa.Table:
    return table.set_column(1, "campaign", table.column("campaign").cast(pa.string_view()))


@pytest.mark.parametrize("kind", CODED)
def test_coded_labels_are_labels_in_every_door(kind: str, tmp_path: Path) -> None:
    frame, plain = CODED[kind](COLUMNS), pa.table(COLUMNS)
    one, two = (Tree.from_paths(each, LEVELS) for each in (frame, plain))
    assert one.table().to_pylist() == two.table().to_pylist()
    same, wanted = (denoise(Measurements.from_table(t, LEVELS, "clicks", variance="v")) for t in (frame, plain))
    assert np.array_equal(same.count, wanted.count)
    known = two.leaves
    rows = {"conversions": [1, 2, 3, 4]}
    priors = [
        prior.from_counts(two, {**{name: arrow_table(t).column(name) for name in LEVELS}, **rows})
        for t in (frame, plain)
    ]
    assert np.array_equal(priors[0].mean[known], priors[1].mean[known])
    for ending in ("arrow", "parquet"):
        table = arrow_of(frame) if ending == "arrow" else arrow_table(frame)  # Arrow writes no views to Parquet
        path = str(tmp_path / f"t.{ending}")
        (feather.write_feather if ending == "arrow" else parquet.write_table)(table, path)
        made = [
            attributary(
                "denoise", "--table", file, "--levels", "campaign,day", "--value", "clicks", "--variance", "v", "-q"
            )
            for file in (path, write_plain(plain, tmp_path))
        ]
        assert made[0].stdout == made[1].stdout and made[0].stdout


def arrow_of(frame: Any) -> pa.Table:
    """The frame in Arrow as a library writes it, views and codes as they are."""
    return frame if isinstance(frame, pa.Table) else pa.table(frame)


def write_plain(table: pa.Table, folder: Path) -> str:
    parquet.write_table(table, folder / "plain.parquet")
    return str(folder / "plain.parquet")


def relation(columns: dict[str, list[Any]]) -> Any:
    connection = duckdb.connect()
    table = pa.table(columns)
    connection.register("given", table)
    return connection.sql("FROM given")


KINDS: dict[str, Callable[[dict[str, list[Any]]], Any]] = {
    "pandas": lambda columns: pd.DataFrame(columns, index=[7, 3, 5, 1]),
    "pandas categories": lambda columns: pd.DataFrame(columns).astype({"campaign": "category", "owner": object}),
    "polars": pl.DataFrame,
    "polars, lazy": pl.LazyFrame,
    "arrow": pa.table,
    "record batch": pa.record_batch,
    "duckdb": relation,
    "dict": dict,
}


@pytest.mark.parametrize("kind", KINDS)
def test_a_frame_comes_back_with_its_rows_columns_and_kind(kind: str) -> None:
    frame = KINDS[kind](COLUMNS)
    est = denoise(Measurements.from_table(frame, LEVELS, "clicks", variance="v"))
    out = est.frame(0.9, prefix="my_")
    assert type(out) is (pa.Table if kind == "record batch" else type(frame))
    table, plain = arrow_table(out), denoise(Tree.from_paths(frame, LEVELS), COLUMNS["clicks"], COLUMNS["v"])
    assert table.column_names == [*COLUMNS, *(f"my_{name}" for name in FIGURES)]
    assert all(table.column(name).to_pylist() == values for name, values in COLUMNS.items())
    for name, values in zip(
        FIGURES, (plain.count, plain.variance, *plain.interval(0.9), plain.correction), strict=True
    ):
        np.testing.assert_allclose(table.column(f"my_{name}").to_numpy(), values)
    if kind == "pandas":
        assert list(out.index) == [7, 3, 5, 1]


def test_levels_may_be_an_index_as_pandas_groups_by() -> None:
    leaves = pd.DataFrame(COLUMNS).dropna().groupby(LEVELS)[["clicks"]].sum()
    out = denoise(Measurements.from_table(leaves, LEVELS, "clicks", variance=4.0)).frame()
    assert list(out.index.names) == LEVELS and list(out.columns) == ["clicks", *FIGURES]


@pytest.mark.parametrize("own", [False, True])
def test_several_columns_of_figures(own: bool) -> None:
    amounts = {"variance": ["v", "w"]} if own else {"variance": "v"}
    measured = Measurements.from_table(pl.DataFrame(COLUMNS), LEVELS, ["clicks", "sales"], **amounts)
    assert measured.variance.ndim == 1 + own
    est = denoise(measured)
    out = est.frame()
    for name, var in (("clicks", "v"), ("sales", "w" if own else "v")):
        alone = denoise(Measurements.from_table(COLUMNS, LEVELS, name, variance=var))
        np.testing.assert_allclose(est.column(name).count, alone.count)
        np.testing.assert_allclose(out[f"{name}_estimate"], alone.count)
        np.testing.assert_allclose(out[f"{name}_variance"], alone.variance)
    assert list(est.table()["measure"].unique().to_pylist()) == ["clicks", "sales"]
    assert out["sales_correction"].null_count() == own  # nothing was measured there


def test_what_protects_nobody_says_so_in_the_frame() -> None:
    table = pa.table(COLUMNS).replace_schema_metadata({"not_private": "NOT PRIVATE: a test"})
    out = denoise(Measurements.from_table(table, LEVELS, "clicks", variance="v")).frame()
    assert set(out["not_private"].to_pylist()) == {"NOT PRIVATE: a test"}


def test_what_is_refused() -> None:
    est = denoise(Measurements.from_table(COLUMNS | {"low": [1] * 4}, LEVELS, "clicks", variance="v"))
    with pytest.raises(ValueError, match="column 'low' already; .* prefix="):
        est.frame()
    with pytest.raises(ValueError, match="not from a table"):
        denoise(Tree.from_parents([-1, 0]), [1, 2], 1.0).frame()
    with pytest.raises(ValueError, match="a DuckDB relation or a dict of columns; got int"):
        Tree.from_paths(3, LEVELS)
    mixed = pd.DataFrame(COLUMNS | {"owner": [1, [2], 2.5, b"x"]})
    with pytest.raises(ValueError, match="cells of one type; .*owner"):
        Tree.from_paths(mixed, LEVELS)
    for names, variance, words in (
        (["clicks"] * 2, 1.0, "once"),
        ([], 1.0, "got none"),
        (["clicks"], ["v", "w"], "got 2"),
    ):
        with pytest.raises(InputError, match=words):
            Measurements.from_table(COLUMNS, LEVELS, names, variance=variance)


def test_text_views_are_text() -> None:
    """As polars 1 hands over its text."""
    labels = pa.array(["a", None, "b"], pa.string_view())
    table = arrow_table({"campaign": labels, "noisy": [1.0, 2.0, 3.0]})
    assert table.schema.types == [pa.large_string(), pa.float64()]
    assert table.column("campaign").to_pylist() == ["a", None, "b"]
    assert len(Tree.from_paths({"campaign": pa.array(["a", "b"], pa.string_view())}, ["campaign"])) == 2


LABELS = {"store": [1.0, 1.0, 1.0, 2.0, 2.0, 2.0, np.nan], "week": [1.0, 2.0, np.nan, 1.0, 2.0, np.nan, np.nan]}
NAN_LABELS = pa.table({name: pa.array(cells) for name, cells in LABELS.items()})  # where nan is not null
AS_TEXT = {name: pa.array(["" if np.isnan(x) else f"{x:g}" for x in cells]) for name, cells in LABELS.items()}


@pytest.mark.parametrize(
    "labels",
    [
        pa.table(AS_TEXT),
        NAN_LABELS.to_pandas(),
        NAN_LABELS,
        NAN_LABELS.cast(pa.schema({"store": pa.float32(), "week": pa.float32()})),
        pa.table({name: NAN_LABELS[name].dictionary_encode() for name in LABELS}),
    ],
    ids=["CSV", "pandas", "Arrow", "float32", "dictionaries"],
)
@pytest.mark.parametrize("levels", [["store", "week"], None], ids=["told", "recognised"])
def test_nan_is_an_empty_label_which_is_a_total(labels: Any, levels: list[str] | None, tmp_path: Path) -> None:
    noisy, path = np.array([10.0, 20.0, 31.0, 5.0, 6.0, 10.0, 42.0]), str(tmp_path / "estimates.csv")
    frame = arrow_table(labels).append_column("noisy", pa.array(noisy))
    if isinstance(labels, pa.Table) and labels.schema.types[0] == pa.string():
        write_table(frame, path)
        frame = read_table(path)
    made = denoise_table(frame, levels, "noisy", variance=[1.0, 2.0, 3.0]).table
    parent = [2, 2, 6, 5, 5, 6, -1]
    assert made.column("estimate").to_numpy() == pytest.approx(
        denoise(Tree.from_parents(parent), noisy, np.array([3.0, 3, 2, 3, 3, 2, 1])).count
    )
    write_table(made, path)
    assert [read_table(path).column(name).null_count for name in LABELS] == [1, 3]
    again = read_estimates(read_table(path), path)
    assert (len(again.tree), again.tree.depth) == (7, 3)
    assert np.allclose(again.tree.from_level_order(again.estimate), made.column("estimate").to_numpy())


@pytest.mark.parametrize("ending", ["csv", "parquet", "xlsx"])
@pytest.mark.parametrize(
    ("figures", "noise"),
    [
        (["100", "40", "<5", "30"], "4"),
        (["1.000,5", "400", None, " 300 "], "4,5"),
        (["1,000.5", "400", "", "300"], "1.414"),
    ],
)
def test_figures_that_are_coded_text_are_those_of_the_text(
    figures: list[str | None], noise: str, ending: str, tmp_path: Path
) -> None:
    texts = {"region": ["N"] * 4, "store": [None, "a", "b", "c"], "visits": figures, "noise": [noise] * 4}
    plain = pa.table({name: pa.array(cells, pa.string()) for name, cells in texts.items()})
    coded = pa.table({name: cells.dictionary_encode() for name, cells in zip(texts, plain.columns, strict=True)})
    read, told = [], []
    for table in (plain, coded):
        parquet.write_table(table, tmp_path / "t.parquet")
        out, where = tmp_path / f"out.{ending}", ["--table", str(tmp_path / "t.parquet"), "--levels", "region,store"]
        how = ["--value", "visits", "--variance", "noise", "--empty", "unmeasured", "-o", str(out)]
        told.append(attributary("denoise", *where, *how).output)
        read.append(read_table(str(out)).to_pylist())
    assert read[0] == read[1] and told[0] == told[1]
