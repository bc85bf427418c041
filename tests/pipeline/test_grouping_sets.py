"""Tables with rows of several breakdowns: CUBE and GROUPING SETS of three attributes are one least-squares answer."""

from collections.abc import Callable, Sequence
from decimal import Decimal
from itertools import combinations, product
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pytest
from pyarrow import csv, parquet

import attributary as library
from attributary.errors import InputError
from attributary.estimators import Estimator
from attributary.read_estimates import read_estimates
from attributary.tables import read_table, write_table
from attributary.tables.table_columns import with_cells
from attributary.types import Floats, Ints
from support.command import attributary

ATTRIBUTES = ("store", "month", "device")
LABELS = (["A", "B", "C"], ["2025-01", "2025-02", "2025-03", "2025-04"], ["phone", "laptop"])
SETS = [some for size in (3, 2, 1, 0) for some in combinations(range(3), size)]
TOGETHER = "3 breakdowns, denoised together: store > month > device; device > store; month > device"


class Cube:
    """Rows of these grouping sets in random order, of random cells of which some do not exist."""

    def __init__(self, seed: int, sets: Sequence[tuple[int, ...]] = SETS, missing: int = 5) -> None:
        rng = np.random.default_rng(seed)
        cells = list(product(*LABELS))
        cells = [cells[i] for i in np.sort(rng.permutation(len(cells))[missing:])]
        truth = rng.poisson(rng.choice([20, 80, 400], len(cells))).astype(float)
        paths = [tuple(x if i in some else None for i, x in enumerate(c)) for some in sets for c in cells]
        paths = list(dict.fromkeys(paths))
        self.paths = [paths[i] for i in rng.permutation(len(paths))]
        self.x = np.array([[all(a in (b, None) for a, b in zip(p, c, strict=True)) for c in cells] for p in self.paths],
                          float)  # fmt: skip
        self.variance = np.round(rng.uniform(2, 60, len(paths)), 2)
        self.exact: Floats = self.x @ truth
        self.noisy = np.round(self.exact + rng.laplace(0, np.sqrt(self.variance / 2)), 2)

    @property
    def table(self) -> dict[str, Any]:
        columns: dict[str, Any] = dict(zip(ATTRIBUTES, map(list, zip(*self.paths, strict=True)), strict=True))
        return {**columns, "visits": self.noisy, "var": self.variance}

    def dense(self) -> tuple[Floats, Floats]:
        """Least squares over all cells, also where rows do not tell all of them."""
        known = self.variance < np.inf
        weighted = self.x[known] / self.variance[known, None]
        inverse = np.linalg.pinv(self.x[known].T @ weighted, rcond=1e-11, hermitian=True)
        return self.x @ inverse @ weighted.T @ self.noisy[known], np.einsum("ij,jk,ik->i", self.x, inverse, self.x)


def same(made: Any, cube: Cube) -> None:
    rows = made.table.to_pydict()
    assert list(zip(*(rows[name] for name in ATTRIBUTES), strict=True)) == cube.paths
    for ours, slow in zip((rows["estimate"], rows["variance"]), cube.dense(), strict=True):
        np.testing.assert_allclose(ours, slow, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("seed", range(20))
def test_a_cube_of_three_attributes_is_dense_least_squares(seed: int) -> None:
    cube = Cube(seed, missing=seed % 7)
    if seed % 2:
        cube.variance[np.random.default_rng(seed).integers(0, len(cube.paths), 3)] = np.inf
    made = library.denoise_table(cube.table, variance="var", missing="zero")
    assert any(TOGETHER in note for note in made.recognised)
    same(made, cube)


@pytest.mark.parametrize(
    "sets",
    [
        SETS[1:],  # no finest cells
        SETS[1:4],  # pairs, and no total
        SETS[4:],  # margins alone
        SETS[:7],  # no total
        [(0, 1, 2), (0, 1), (1, 2), (2,)],
        [(0, 1, 2), (1, 2), (0, 2), (0,), ()],
        [(0,), (1, 2), ()],  # share the total alone
        [(0, 1), (2,)],
    ],
)
def test_grouping_sets_are_dense_least_squares(sets: Sequence[tuple[int, ...]]) -> None:
    for seed in range(3):
        cube = Cube(seed, sets, missing=0)  # margins that agree are those of some table
        same(library.denoise_table(cube.table, list(ATTRIBUTES), "visits", variance="var"), cube)


def test_a_column_breakdown_says_the_trees_and_both_may_measure_a_sum() -> None:
    first, second = Cube(1, [(0, 1), (0,)], missing=0), Cube(1, [(0, 2), (0,)], missing=0)
    names = [*["by month"] * len(first.paths), *["by device"] * len(second.paths)]
    table = {"breakdown": names, **{k: [*v, *second.table[k]] for k, v in first.table.items()}}
    both = Cube(1, [(0, 1), (0,)], missing=0)
    both.paths, both.x = [*first.paths, *second.paths], np.concatenate([first.x, second.x])
    both.variance, both.noisy = (
        np.concatenate([getattr(c, k) for c in (first, second)]) for k in ("variance", "noisy")
    )
    for levels in (None, ATTRIBUTES):
        made = library.denoise_table(table, levels, "visits", variance="var")
        assert any("2 breakdowns, denoised together: store > month; store > device" in n for n in made.recognised)
        same(made, both)


def _categorical(table: pa.Table) -> Any:
    return pl.from_arrow(table).with_columns(pl.col(ATTRIBUTES).cast(pl.Categorical))  # type: ignore[union-attr]


def _in_chunks(table: pa.Table) -> pa.Table:
    """The labels of each half have codes of their own."""
    halves = [table.slice(0, 20), table.slice(20)]
    for name in ATTRIBUTES:
        halves = [with_cells(half, name, half.column(name).combine_chunks().dictionary_encode()) for half in halves]
    return pa.concat_tables(halves)


def _unsigned(table: pa.Table) -> pa.Table:
    for name in ATTRIBUTES:
        coded = table.column(name).combine_chunks().dictionary_encode()
        table = with_cells(
            table, name, pa.DictionaryArray.from_arrays(coded.indices.cast(pa.uint8()), coded.dictionary)
        )
    return table


@pytest.mark.parametrize("how", [_categorical, _in_chunks, _unsigned])
@pytest.mark.parametrize("sets", [SETS, [(0, 1, 2), (0, 1), (0,)]])
def test_labels_may_be_coded_in_any_way(how: Callable[[pa.Table], Any], sets: Sequence[tuple[int, ...]]) -> None:
    cube = Cube(4, sets, missing=0)
    made = library.denoise_table(how(pa.table(cube.table)), list(ATTRIBUTES), "visits", variance="var")
    plain = library.denoise_table(pa.table(cube.table), list(ATTRIBUTES), "visits", variance="var")
    assert made.table.to_pylist() == plain.table.to_pylist()
    same(made, cube)


@pytest.mark.parametrize("ending", ["csv", "parquet", "xlsx"])
def test_the_command_writes_the_shape_that_it_reads(ending: str, tmp_path: Path) -> None:
    cube = Cube(3, missing=0)
    source, out, page = str(tmp_path / f"in.{ending}"), str(tmp_path / f"out.{ending}"), str(tmp_path / "page.html")
    marked = cube.table
    for name in ATTRIBUTES:
        marked[name] = [label or "Total" for label in marked[name]]
    write_table(pa.table(marked), source)
    result = attributary("denoise", "--table", source, "--variance", "var", "-o", out)
    assert result.exit_code == 0 and TOGETHER in " ".join(result.stderr.split()), result.output
    read = read_estimates(read_table(out), out)
    assert set(read.beside.split(" and ")) == {"device > store", "month > device"}
    assert len(read) == sum(p[2] is None or all(p) for p in cube.paths if p[0] or not any(p))
    assert attributary("report", out, "-o", page).exit_code == 0
    if ending == "xlsx":
        return
    made = (parquet.read_table(out) if ending == "parquet" else csv.read_csv(out)).to_pydict()
    assert all(list(map(str, made[name])) == marked[name] for name in ATTRIBUTES)
    slow, smallest = cube.dense()
    assert np.abs(np.array(made["estimate"], float) - slow).max() < 0.2 * np.sqrt(smallest.min())
    if ending == "csv":
        found = {p: Decimal(str(v)) for p, v in zip(cube.paths, made["estimate"], strict=True)}
        for path, value in found.items():
            parts = [
                v for p, v in found.items() if all(p) and all(a in (b, None) for a, b in zip(path, p, strict=True))
            ]
            assert sum(parts) == value, path


@pytest.mark.parametrize("ending", ["csv", "parquet"])
@pytest.mark.parametrize("sets", [SETS[1:], SETS[1:4], SETS[4:]])
def test_what_is_written_is_read_as_one_tree(sets: Sequence[tuple[int, ...]], ending: str, tmp_path: Path) -> None:
    cube = Cube(6, sets, missing=0)
    source, out = str(tmp_path / f"in.{ending}"), str(tmp_path / f"out.{ending}")
    write_table(pa.table(cube.table), source)
    assert attributary("denoise", "--table", source, "--variance", "var", "-o", out).exit_code == 0
    read = read_estimates(read_table(out), out)
    slow = dict(zip(cube.paths, cube.dense()[0], strict=True))
    tree, seen = read.tree.in_level_order, 0
    for node in range(len(read)):
        labels = dict(zip(tree.attributes, tree.path(node), strict=False))
        path = tuple(labels.get(name) for name in ATTRIBUTES)
        if path in slow and (any(path) or tree.total):
            assert read.estimate[node] == pytest.approx(slow[path], rel=1e-6)
            seen += 1
    assert seen == read_table(out).num_rows > 2


def test_several_figures_and_nonnegative_counts() -> None:
    cube = Cube(4)
    table = cube.table
    table["orders"] = cube.noisy / 2 - 30
    made = library.denoise_table(table, None, ["visits", "orders"], variance=["var", "var"], missing="zero")
    np.testing.assert_allclose(made.table["visits_estimate"].to_numpy(), cube.dense()[0], rtol=1e-8)
    table.pop("orders")
    low = library.denoise_table({**table, "visits": cube.noisy - 60}, variance="var", missing="zero",
                                estimator=Estimator("nonnegative", joint=True)).table  # fmt: skip
    count = low["estimate"].to_numpy()
    cells: Ints = np.flatnonzero([all(p) for p in cube.paths])
    assert count.min() >= 0 and (count[cells] == 0).any()
    at = {cube.paths[i]: j for j, i in enumerate(cells)}
    order = [next(j for p, j in at.items() if cube.x[cells[j], c]) for c in range(cube.x.shape[1])]
    np.testing.assert_allclose(count, cube.x @ count[cells][order], atol=1e-6)


def test_intervals_hold_the_true_counts() -> None:
    held = []
    for seed in range(40):
        cube = Cube(seed, missing=0)
        rows = library.denoise_table(cube.table, variance="var").table.to_pydict()
        held.append((np.array(rows["low"]) <= cube.exact) & (cube.exact <= np.array(rows["high"])))
    assert 0.93 <= np.mean(held) <= 0.97


def test_what_cannot_be_is_refused() -> None:
    cube = Cube(5, missing=0)
    table = cube.table
    for how, words in [
        ({"noise": "estimated"}, "noise is estimated of one hierarchy alone; state it for all rows"),
        ({"variance": [8, 8, 8, 8]}, "noise is stated by level; state one for all"),
        ({"variance": "var", "estimator": "posterior"}, "several breakdowns are denoised together: take unbiased"),
        ({"variance": "var", "fill": True}, "`fill` adds rows to one hierarchy alone; leave it out"),
    ]:
        with pytest.raises(InputError, match=words):
            library.denoise_table(table, ATTRIBUTES, "visits", **how)
    sparse = Cube(5, missing=3).table
    with pytest.raises(InputError, match="rows are missing, .* `missing=zero` if no breakdown has any"):
        library.denoise_table(sparse, ATTRIBUTES, "visits", variance="var")
    days = [f"d{i}" for i in range(2501)]
    large = {"store": ["a"] * 5002, "day": days * 2, "device": ["x"] * 2501 + ["y"] * 2501}
    margins = {"store": [None] * 5002, "day": days * 2, "device": large["device"]}
    large = {name: [*values, *margins[name], *both] for (name, values), both in
             zip(large.items(), (["a", "a"], [None, None], ["x", "y"]), strict=True)}  # fmt: skip
    with pytest.raises(
        InputError, match="meet in 5,002 sums .* up to 5,000 are solved; or leave out the rows by day > d"
    ):
        library.denoise_table({**large, "n": np.ones(len(large["day"]))}, ["store", "day", "device"], "n", std=1)
    strange = {name: [*values, new] for (name, values), new in
               zip(table.items(), (None, "2025-09", "phone", 1.0, 1.0), strict=True)}  # fmt: skip
    with pytest.raises(InputError, match="month > device has month 2025-09, device phone, and .* add its row"):
        library.denoise_table(strange, ATTRIBUTES, "visits", variance="var")
    lone = {name: [*values, new] for (name, values), new in
            zip(table.items(), ("Z", None, None, 1.0, 1.0), strict=True)}  # fmt: skip
    with pytest.raises(InputError, match="Z has no rows below it"):
        library.denoise_table(lone, ATTRIBUTES, "visits", variance="var")
    wrong = np.where([p[0] is None and all(p[1:]) for p in cube.paths], 9 * cube.noisy, cube.noisy)
    with pytest.raises(InputError, match=r"rows by month > device to .* give `levels=store,month,device`"):
        library.denoise_table({**table, "visits": wrong}, variance="var")
    library.denoise_table({**table, "visits": wrong}, ATTRIBUTES, variance="var")
